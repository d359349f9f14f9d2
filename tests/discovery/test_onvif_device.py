"""One device: its streams as it tells them, and a clear fault for each way in which it does not."""

from __future__ import annotations

import gzip

import pytest
from discovery_kit import BOMB, STREAMS, Device, Stream, served

from edge.core.discovery import FoundDevice, SearchOrder
from edge.discovery.search import SearchTimes, search

QUICK = SearchTimes(listen_s=0.2, answer_s=0.4, device_s=3.0, all_s=5.0)


async def only(device: Device, username: str = "", password: str = "", times: SearchTimes = QUICK) -> FoundDevice:
    with served(device):
        result = await search(SearchOrder((device.address,), username=username, password=password), times)
    (found,) = result.devices
    return found


@pytest.mark.parametrize("newer", [True, False])
async def test_a_device_tells_its_streams(newer: bool) -> None:
    device = Device(newer=newer)
    found = await only(device)
    assert found.fault is None
    assert (found.address, found.name) == (device.address, "Heron H-2")
    told = [(p.token, p.codec, p.width, p.height, p.fps, p.bitrate_kbps) for p in found.profiles]
    assert told == [(s.token, s.codec.lower(), s.width, s.height, s.fps, s.kbps) for s in STREAMS]
    assert found.profiles[1].url == "rtsp://127.0.0.1:554/sub?a=1&b=2"


async def test_a_password_is_sent_as_a_digest_and_not_with_the_first_question() -> None:
    device = Device(username="viewer", password="s3cret-pa55")
    found = await only(device, "viewer", "s3cret-pa55")
    assert found.fault is None
    assert len(found.profiles) == 3
    assert "s3cret-pa55" not in "".join(device.bodies)
    first = device.told.index("GetServices")
    assert "UsernameToken" not in device.bodies[first], "services are open to all"


@pytest.mark.parametrize(("username", "password"), [("", ""), ("viewer", "wrong")])
async def test_a_device_that_refuses(username: str, password: str) -> None:
    device = Device(username="viewer", password="right")
    assert (await only(device, username, password)).fault == "refused"


async def test_a_device_that_asks_for_the_password_itself_does_not_get_it() -> None:
    basic = (401, {"www-authenticate": 'Basic realm="camera"'}, b"")
    device = Device(raw={"GetServices": basic, "GetProfiles": basic, "GetDeviceInformation": basic})
    assert (await only(device, "viewer", "s3cret-pa55")).fault == "refused"
    assert "Authorization: Basic" not in "".join(device.bodies)


DEEP = b"<a>" * 9000 + b"</a>" * 9000
LONG = b"<a>" + b"<b>12345678</b>" * 40_000 + b"</a>"
MANY = b"<a>" + b"<b/>" * 30_000 + b"</a>"


@pytest.mark.parametrize(
    ("operation", "answer", "fault"),
    [
        ("GetServices", (200, {}, BOMB.encode()), "unreadable"),
        ("GetProfiles", (200, {}, BOMB.encode()), "unreadable"),
        ("GetServices", (200, {}, b"<html><p>Log in<br></html>"), "unreadable"),
        ("GetServices", (404, {}, b""), "unreadable"),
        ("GetProfiles", (200, {}, DEEP), "too_large"),
        ("GetProfiles", (200, {}, LONG), "too_large"),
        ("GetProfiles", (200, {}, MANY), "too_large"),
        ("GetProfiles", (200, {"content-encoding": "gzip"}, gzip.compress(LONG)), "unreadable"),
        ("GetServices", (302, {"location": "/onvif/device_service"}, b""), "redirected"),
        ("GetProfiles", (307, {"location": "http://192.0.2.7/"}, b""), "redirected"),
    ],
    ids=["bomb", "bomb later", "page", "no page", "deep", "long", "many", "packed", "loop", "sent away"],
)
async def test_an_answer_that_cannot_be_used(
    operation: str, answer: tuple[int, dict[str, str], bytes], fault: str
) -> None:
    device = Device(raw={operation: answer})
    assert (await only(device)).fault == fault
    assert device.told.count(operation) <= 2, "it is not asked again and again"


async def test_a_device_that_never_answers() -> None:
    device = Device(silent=True)
    assert (await only(device)).fault == "silent"
    device = Device(silent=True)
    assert (await only(device, times=SearchTimes(device_s=0.3))).fault == "silent", "in all, not only for each answer"
    device = Device(silent=True)
    assert (await only(device, times=SearchTimes(all_s=0.3))).fault == "silent", "with all others"


async def test_nobody_is_there() -> None:
    device = Device()
    with served(device):
        pass
    result = await search(SearchOrder((device.address,)), QUICK)
    assert [d.fault for d in result.devices] == ["unreachable"]


async def test_services_at_another_host_are_told_and_not_asked() -> None:
    with served(Device()) as other:
        liar = Device()
        # The same machine, but not the host that was asked: 127.0.0.2 reaches the other, too.
        liar.host = "127.0.0.2"
        found = await only(liar)
        assert (found.fault, found.elsewhere) == ("elsewhere", "127.0.0.2")
        assert "GetProfiles" not in liar.told
        assert other.told == []


async def test_lies_about_streams() -> None:
    streams = (
        Stream("none", codec=""),
        Stream("huge", width=10**9),
        Stream("endless", fps="1e400"),
        Stream("away", url="rtsp://192.0.2.9/live"),
        Stream("web", url="http://127.0.0.1/live"),
        Stream("user", url="rtsp://admin:pa55@127.0.0.1/live"),
        Stream("query", url="rtsp://127.0.0.1/live?password=pa55"),
        Stream("good"),
    )
    endless = await only(Device(streams=streams))
    assert endless.fault == "unreadable", "a rate without end"
    found = await only(Device(streams=tuple(s for s in streams if s.token != "endless")))
    assert found.profiles_lost == 1
    assert {p.token: p.address_fault for p in found.profiles} == {
        "none": None, "away": "elsewhere", "web": "no_address", "user": None, "query": "password_in_address",
        "good": None,
    }  # fmt: skip
    by_token = {p.token: p for p in found.profiles}
    assert by_token["none"].codec == ""
    assert by_token["user"].url == "rtsp://127.0.0.1/live"
    assert "pa55" not in repr(found)


async def test_a_thousand_profiles_and_none() -> None:
    many = await only(Device(streams=tuple(Stream(f"p{n}", codec="") for n in range(400))))
    assert (len(many.profiles), many.profiles_lost, many.fault) == (32, 368, None)
    assert (await only(Device(streams=()))).fault == "no_profiles"


@pytest.mark.parametrize("address", ["", "ftp://camera", "http://user:pa55@camera/", "a b", "http://[::1", "cam:99999"])
async def test_addresses_that_are_none(address: str) -> None:
    with pytest.raises(ValueError, match="addresses"):
        await search(SearchOrder((address,)), QUICK)

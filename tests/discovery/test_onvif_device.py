"""One device: its streams as it tells them, and a clear fault for each way in which it does not."""

from __future__ import annotations

import gzip
import logging
import socket
import threading
from typing import Any

import pytest
from discovery_kit import BOMB, STREAMS, Device, Stream, served

from edge.core.discovery import FoundDevice, SearchOrder
from edge.discovery import addresses
from edge.discovery.addresses import service_of, shown
from edge.discovery.search import SearchTimes, search

#: For devices that answer, however loaded this machine is.
PATIENT = SearchTimes(listen_s=0.2, answer_s=20.0, device_s=60.0, all_s=60.0)
#: For devices of which some answer never comes; the others have a second.
QUICK = SearchTimes(listen_s=0.2, answer_s=1.0, device_s=60.0, all_s=60.0)


async def only(device: Device, username: str = "", password: str = "", times: SearchTimes = PATIENT) -> FoundDevice:
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
    rows = [(p.token, p.codec, p.width, p.height, p.fps, p.bitrate_kbps) for p in found.profiles]
    assert rows == [(s.token, s.codec.lower(), s.width, s.height, s.fps, s.kbps) for s in STREAMS]
    assert found.profiles[1].url == "rtsp://127.0.0.1:554/sub?a=1&b=2"


#: Status of a refusal, and whether its fault has ONVIF's code: the sentence of a fault says nothing.
REFUSALS = [(400, True), (401, False), (403, False)]


@pytest.mark.parametrize(("refusal", "subcode"), REFUSALS)
async def test_a_password_is_sent_as_a_digest_and_not_with_the_first_question(refusal: int, subcode: bool) -> None:
    device = Device(username="viewer", password="s3cret-pa55", refusal=refusal, subcode=subcode)
    found = await only(device, "viewer", "s3cret-pa55")
    assert found.fault is None
    assert len(found.profiles) == 3
    assert "s3cret-pa55" not in "".join(device.bodies)
    first = device.answered.index("GetServices")
    assert "UsernameToken" not in device.bodies[first], "services are open to all"


async def test_a_password_goes_by_http_digest_where_that_is_asked_for() -> None:
    device = Device(username="viewer", password="s3cret-pa55", http_digest=True)
    found = await only(device, "viewer", "s3cret-pa55")
    assert (found.fault, len(found.profiles), found.name) == (None, 3, "Heron H-2")
    assert "s3cret-pa55" not in "".join(device.bodies)
    assert (await only(device, "viewer", "wrong")).fault == "refused"


@pytest.mark.parametrize(("refusal", "subcode"), REFUSALS)
@pytest.mark.parametrize(("username", "password"), [("", ""), ("viewer", "wrong")])
async def test_a_device_that_refuses(username: str, password: str, refusal: int, subcode: bool) -> None:
    device = Device(username="viewer", password="right", refusal=refusal, subcode=subcode)
    assert (await only(device, username, password)).fault == "refused"
    assert "GetDeviceInformation" not in device.answered
    assert device.answered.count("GetProfiles") <= (4 if refusal == 401 else 2), "few: devices lock a user out"


async def test_a_fault_of_another_code_is_no_refusal() -> None:
    fault = Device.fault("OperationProhibited", "Not while it records")
    assert (await only(Device(raw={"GetProfiles": (403, {}, fault)}))).fault == "unreadable"
    assert (await only(Device(raw={"GetProfiles": (403, {}, b"")}))).fault == "refused"


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
    assert device.answered.count(operation) <= 2, "it is not asked again and again"


async def test_a_device_that_never_answers() -> None:
    device = Device(silent=True)
    assert (await only(device, times=QUICK)).fault == "silent"
    device = Device(silent=True)
    assert (await only(device, times=SearchTimes(device_s=0.3))).fault == "silent", "in all, not only for each answer"
    device = Device(silent=True)
    assert (await only(device, times=SearchTimes(all_s=0.3))).fault == "silent", "with all others"


async def test_no_device_is_there() -> None:
    device = Device()
    with served(device):
        pass
    result = await search(SearchOrder((device.address,)), PATIENT)
    assert [d.fault for d in result.devices] == ["unreachable"]


async def test_services_at_another_host_are_reported_and_not_asked() -> None:
    with served(Device()) as other:
        liar = Device()
        # The same machine, but not the host that was asked: 127.0.0.2 reaches the other, too.
        liar.host = "127.0.0.2"
        found = await only(liar)
        assert (found.fault, found.elsewhere) == ("elsewhere", "127.0.0.2")
        assert "GetProfiles" not in liar.answered
        assert other.answered == []


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
    found = await only(Device(streams=streams))
    assert found.profiles_lost == 2, "the huge one, and the one without end"
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
        await search(SearchOrder((address,)), PATIENT)


def test_one_address_however_it_is_written() -> None:
    same = ("cam", "cam:80", "http://cam", "http://CAM/", "http://cam:80/onvif/device_service")
    assert {service_of(a) for a in same} == {"http://cam/onvif/device_service"}
    assert service_of("[2001:DB8::1]:8080") == "http://[2001:db8::1]:8080/onvif/device_service"
    two = [service_of(f"http://cam:8080/{name}") for name in ("left", "right")]
    assert [shown(s) for s in two] == ["cam:8080/left", "cam:8080/right"]
    with pytest.raises(ValueError, match="brackets"):
        service_of("fe80::1")


async def test_an_address_that_is_given_twice_is_asked_once() -> None:
    with served(Device()) as device:
        result = await search(SearchOrder((device.address, f"http://{device.address}/")), PATIENT)
    assert len(result.devices) == device.answered.count("GetProfiles") == 1


STRANGE = (401, {"www-authenticate": 'Digest realm="x", nonce="y", qop="auth-int"'}, b"")


async def test_a_device_that_the_library_did_not_expect_does_not_end_the_search(
    caplog: pytest.LogCaptureFixture,
) -> None:
    strange = Device(raw={"GetServices": STRANGE, "GetCapabilities": STRANGE})
    with caplog.at_level(logging.WARNING), served(strange), served(Device()) as good:
        result = await search(SearchOrder((strange.address, good.address), "", "viewer", "pa55"), PATIENT)
    faults = {d.address: d.fault for d in result.devices}
    assert faults == {strange.address: "unreadable", good.address: None}
    assert f"{strange.address}: answers that cannot be read: NotImplementedError" in caplog.text


PAGE = (200, {}, b"<html><p>Log in<br></html>")
REFUSAL = (400, {}, Device.fault("NotAuthorized", "Please log in first"))


@pytest.mark.parametrize(
    ("device", "name"),
    [
        (Device(old=True, raw={"GetServices": PAGE}), "Heron H-2"),
        (Device(old=True, raw={"GetServices": (404, {}, b"")}), "Heron H-2"),
        (Device(old=True, raw={"GetServices": (500, {}, b"oops")}), "Heron H-2"),
        (Device(both=True, raw={"media2:GetProfiles": PAGE}), "Heron H-2"),
        (Device(both=True, raw={"media2:GetProfiles": (200, {}, DEEP)}), "Heron H-2"),
        (Device(raw={"GetDeviceInformation": PAGE}), ""),
        (Device(raw={"GetDeviceInformation": REFUSAL}), ""),
    ],
)
async def test_an_answer_that_another_stands_in_for(device: Device, name: str) -> None:
    found = await only(device)
    assert (found.fault, found.name) == (None, name)
    assert [p.url for p in found.profiles] == [f"rtsp://127.0.0.1:554/{s.token}?a=1&b=2" for s in STREAMS]


async def test_streams_whose_address_is_refused() -> None:
    one = await only(Device(kept_back=("sub",)))
    assert [p.address_fault for p in one.profiles] == [None, "refused", None]
    device = Device(kept_back=("main", "sub", "third"))
    everything = await only(device)
    assert [p.address_fault for p in everything.profiles] == ["refused"] * 3
    assert device.answered.count("GetStreamUri") == 2, "a user is not locked out"


@pytest.mark.parametrize("times", [QUICK, SearchTimes(device_s=1.5)], ids=["an answer", "the device"])
async def test_streams_that_came_are_kept_where_others_do_not_come(times: SearchTimes) -> None:
    found = await only(Device(late=("sub", "third")), times=times)
    assert found.fault is None
    assert [p.address_fault for p in found.profiles] == [None, "silent", "silent"]
    assert found.profiles[0].url


async def test_a_device_that_there_was_no_time_for() -> None:
    with served(Device(silent=True)) as first, served(Device()) as second:
        times = SearchTimes(all_s=0.2, at_once=1)
        result = await search(SearchOrder((first.address, second.address)), times)
    faults = {d.address: d.fault for d in result.devices}
    assert faults == {first.address: "silent", second.address: "not_asked"}
    assert second.answered == []


async def test_why_no_device_could_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "no such name")

    monkeypatch.setattr(addresses.socket, "getaddrinfo", nowhere)
    with served(Device()) as device:
        result = await search(SearchOrder((f"https://{device.address}", "cam.invalid")), PATIENT)
    assert {d.fault for d in result.devices} == {"tls", "unknown_name"}


async def test_a_name_is_looked_up_once_and_another_answer_later_is_not_followed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = [["127.0.0.2", "127.0.0.1"], ["127.0.0.3"]]  # at the first no server listens

    def resolver(*_: Any, **__: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in answers.pop(0)]

    monkeypatch.setattr(addresses.socket, "getaddrinfo", resolver)
    with served(Device(host="cam.example")) as device:
        result = await search(SearchOrder((f"cam.example:{device.port}",)), PATIENT)
    (found,) = result.devices
    assert (found.fault, found.profiles[1].url) == (None, "rtsp://cam.example:554/sub?a=1&b=2")
    assert len(answers) == 1
    assert all(f"cam.example:{device.port}" in body for body in device.bodies), "the header has the name"


async def test_a_resolver_that_does_not_answer_holds_no_search_up(monkeypatch: pytest.MonkeyPatch) -> None:
    answering = threading.Event()

    def resolver(*_: Any, **__: Any) -> Any:
        answering.wait(30)
        return []

    monkeypatch.setattr(addresses.socket, "getaddrinfo", resolver)
    try:
        result = await search(SearchOrder(("cam.example",)), SearchTimes(device_s=0.1))
    finally:
        answering.set()
    assert [d.fault for d in result.devices] == ["silent"]

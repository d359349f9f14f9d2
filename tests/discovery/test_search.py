"""A search by multicast on loopback: who answers is asked, what is no answer is counted."""

from __future__ import annotations

import ipaddress

import pytest
from discovery_kit import BOMB, Device, answering, match, served

from edge.core.discovery import SearchLosses, SearchOrder
from edge.discovery import addresses
from edge.discovery import search as searching
from edge.discovery.addresses import interfaces
from edge.discovery.probe import Hearing, ProbeAnswer, ProbeResult, listen
from edge.discovery.search import SearchTimes, in_turn, search

#: Answers over loopback come at once; a loaded machine takes longer.
TIMES = SearchTimes(listen_s=1.0, answer_s=20.0, device_s=60.0, all_s=60.0)
LOOPBACK = (ipaddress.IPv4Interface("127.0.0.1/8"),)


@pytest.mark.parametrize("types", ["dn:NetworkVideoTransmitter", "tds:Device", "dn:NetworkVideoTransmitter tds:Device"])
async def test_a_camera_finds_itself(types: str) -> None:
    with served(Device()) as device:
        answer = match(f"http://[fe80::1]/x http://{device.address}/onvif/x")
        with answering([answer], types) as port:
            result = await search(SearchOrder(), TIMES, LOOPBACK, port)
    (found,) = result.devices
    assert (found.address, found.name, found.hardware) == (f"{device.address}/onvif/x", "Yard gate", "Heron H-2")
    assert [p.token for p in found.profiles] == ["main", "sub", "third"]
    assert device.answered.count("GetProfiles") == 1, "each device is asked once, however often it answers"


async def test_an_answer_that_names_another_host_is_reported_and_no_host_is_asked() -> None:
    with served(Device()) as device:
        other = f"http://127.0.0.2:{device.port}/onvif/device_service"
        with answering([match(other), match("http://user:pa55@127.0.0.1/x", endpoint="urn:uuid:2")]) as port:
            result = await search(SearchOrder(), TIMES, LOOPBACK, port)
    assert [(d.fault, d.elsewhere) for d in result.devices] == [("elsewhere", "127.0.0.2"), ("elsewhere", "127.0.0.1")]
    assert device.answered == []


async def test_what_is_no_answer_is_counted() -> None:
    deep = b"<ProbeMatch>" * 2000 + b"</ProbeMatch>" * 2000
    with answering([b"\xff\xfe", BOMB.encode(), b"<a/>", deep]) as port:
        heard = await listen(LOOPBACK, 1.0, port)
    assert heard.answers == ()
    assert heard.losses.unreadable == 16, "to each of four probes"


async def test_ten_thousand_answers_of_one_address_are_bounded_and_counted() -> None:
    with answering([match(f"http://127.0.0.1:{n}/x", endpoint=f"urn:uuid:{n}") for n in range(1, 5001)]) as port:
        heard = await listen(LOOPBACK, 0.6, port)
    assert 0 < len(heard.answers) <= 32
    assert heard.losses.over > 0


async def test_answers_from_outside_the_network_are_counted() -> None:
    elsewhere = (ipaddress.IPv4Interface("127.0.0.1/32"),)
    with answering([match("http://127.0.0.1/x")]) as port:
        inside = await listen(elsewhere, 1.0, port)
    assert len(inside.answers) == 1
    heard = Hearing()
    heard.take(match("http://192.0.2.5/x"), "192.0.2.5", LOOPBACK[0])
    assert heard.all().answers == ()
    assert heard.all().losses.outside == 1


def test_a_network_is_one_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "own_interfaces", lambda: {LOOPBACK[0], ipaddress.IPv4Interface("10.1.2.3/24")})
    assert [str(i.ip) for i in interfaces()] == ["10.1.2.3", "127.0.0.1"]
    assert [str(i.ip) for i in interfaces("10.1.2.0/24")] == ["10.1.2.3"]
    assert [str(i.ip) for i in interfaces("127.0.0.0/8")] == ["127.0.0.1"]
    with pytest.raises(ValueError, match=r"10\.1\.2\.0/24, 127\.0\.0\.0/8"):
        interfaces("192.0.2.0/24")
    with pytest.raises(ValueError, match="network: got 'yard'"):
        interfaces("yard")


async def test_a_search_of_one_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "own_interfaces", lambda: {LOOPBACK[0], ipaddress.IPv4Interface("10.1.2.3/24")})
    with served(Device()) as device, answering([match(f"http://{device.address}/onvif/device_service")]) as port:
        result = await search(SearchOrder(network="127.0.0.0/8"), TIMES, port=port)
    assert [(d.address, d.fault) for d in result.devices] == [(device.address, None)]


def test_no_more_than_a_thousand_answers_are_read() -> None:
    heard = Hearing()
    for n in range(1030):
        heard.take(match(), f"127.0.{n // 250}.{n % 250 + 1}", LOOPBACK[0])
    assert len(heard.all().answers) == 1024
    assert heard.all().losses.over == 6
    assert not heard.all().answers[0].gave, "the usual address is asked where none is given"


async def test_no_more_than_256_devices_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    async def heard(*_: object) -> ProbeResult:
        return ProbeResult(tuple(ProbeAnswer(f"10.0.0.{n}", "", "192.0.2.1") for n in range(300)), SearchLosses(over=2))

    monkeypatch.setattr(searching, "listen", heard)
    result = await search(SearchOrder(), TIMES, LOOPBACK)
    assert (len(result.devices), result.losses.over) == (256, 46)


def test_who_answers_for_many_waits_for_the_others() -> None:
    many = [ProbeAnswer("10.0.0.1", f"http://10.0.0.1:{n}/x") for n in range(30)]
    guessed = ProbeAnswer("10.0.0.2", "http://10.0.0.2/onvif/device_service", gave=False)
    away = ProbeAnswer("10.0.0.3", "", "192.0.2.1")
    honest = ProbeAnswer("10.0.0.9", "http://10.0.0.9/onvif/device_service")
    order = in_turn([away, guessed, *many, honest])
    assert order[:2] == [many[0], honest]
    assert order[-2:] == [guessed, away]

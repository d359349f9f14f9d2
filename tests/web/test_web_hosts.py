"""Names of the box: a page whose name was made to point here is refused where no log-in is needed."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from appliance_double import DictAppliance
from hypothesis import given
from hypothesis import strategies as st

from edge.core.errors import InvalidValues
from edge.settings import WebSettings, parse
from web.app import create_app
from web.hosts import Hosts

OPEN = {"enabled": False}


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8080", "192.0.2.7", "[::1]:8080", "[2001:db8::7]", "localhost", "LOCALHOST:80", "cabinet-7",
     "cabinet-7.local", "magpie.example.org", "Magpie.Example.Org.:8443", "127.0.0.1.",
     "192.0.2.7.:8080", "cabinet-7."],
)  # fmt: skip
def test_the_boxs_own_names_may_be_used(host: str) -> None:
    assert Hosts(["magpie.example.org"], "cabinet-7").refused(host) is None


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8080", "", "magpie.example.org.evil.example", "[::1", "127.0.0.1.evil.example",
     ".", "..", "localhost..", "127.0.0.1..", "a@localhost", "localhost/x", "localhost?x", "localhost#x", "::1]",
     "[v1.x]", "[::1%eth0]", "localhost\n", "loc\u212alhost", "\u2100", " localhost", "localhost:80:90x" * 30],
)  # fmt: skip
def test_any_other_name_is_refused(host: str) -> None:
    assert Hosts(["magpie.example.org"], "cabinet-7").refused(host) is not None


def test_a_machine_that_knows_its_whole_name_is_found_by_the_short_one() -> None:
    hosts = Hosts([], "Cabinet-7.depot.example.")
    for name in ("cabinet-7", "cabinet-7.local", "cabinet-7.depot.example", "cabinet-7.depot.example.:8080"):
        assert hosts.refused(name) is None, name
    for name in ("depot.example", "cabinet-7.evil.example", "cabinet-7.depot"):
        assert hosts.refused(name) is not None, name


@given(st.text(max_size=40) | st.text(".:[]%@v0a", max_size=12))
def test_no_header_makes_it_fail(header: str) -> None:
    refused = Hosts([], "cabinet-7").refused(header)
    assert refused is None or refused in header.lower() + header


def test_a_request_without_a_name_is_no_browsers_and_of_several_each_counts() -> None:
    hosts = Hosts([], "cabinet-7")
    assert hosts.refused_of([]) is None
    assert hosts.refused_of(["localhost"]) is None
    assert hosts.refused_of(["localhost", "evil.example"]) == "evil.example"


def test_names_are_asked_for_where_no_log_in_is_needed_or_the_site_lists_some() -> None:
    assert Hosts.of_site(WebSettings()) is None
    assert Hosts.of_site(parse(WebSettings, {"access": OPEN})) is not None
    assert Hosts.of_site(parse(WebSettings, {"hosts": ["magpie.example.org"]})) is not None


def test_a_name_with_a_port_or_a_scheme_is_no_name() -> None:
    for name in ("magpie:8080", "http://magpie", "", "-magpie", "a b"):
        with pytest.raises(InvalidValues, match=r"hosts\[0\]"):
            parse(WebSettings, {"hosts": [name]})


async def test_a_request_by_another_name_changes_nothing_and_says_what_to_do(tmp_path: Path) -> None:
    service = DictAppliance()
    app = create_app(service, static=tmp_path, hosts=Hosts(["box"], "cabinet-7"))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
        refused = await client.post("http://evil.example/api/v1/retraining", json={"window_s": 60})
        assert refused.status_code == 421
        assert "web.hosts" in refused.json()["error"]["message"]
        assert (await client.get("http://evil.example/livez")).status_code == 421
        assert service.events.journal == []
        assert (await client.get("http://box/livez")).status_code == 200


async def test_sockets_may_be_opened_to_the_box_only(tmp_path: Path) -> None:
    transport = httpx.ASGITransport(create_app(DictAppliance(), static=tmp_path))
    async with httpx.AsyncClient(transport=transport) as client:
        policy = (await client.get("http://box:8080/livez")).headers["content-security-policy"]
        assert "connect-src 'self' ws://box:8080 wss://box:8080;" in policy
        odd = (await client.get("http://box/livez", headers={"host": "a;script-src *"})).headers
        assert "connect-src 'self';" in odd["content-security-policy"], "a header cannot widen the policy"

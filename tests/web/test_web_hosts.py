"""Names of the box: a page whose name was made to point here is refused where nobody logs in."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from appliance_double import DictAppliance

from edge.core.errors import InvalidValues
from edge.settings import WebSettings, parse
from web.app import create_app
from web.hosts import Hosts

OPEN = {"enabled": False}


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1:8080", "192.0.2.7", "[::1]:8080", "[2001:db8::7]", "localhost", "LOCALHOST:80", "cabinet-7",
     "cabinet-7.local", "magpie.example.org", "Magpie.Example.Org.:8443"],
)  # fmt: skip
def test_the_boxs_own_names_may_be_used(host: str) -> None:
    assert Hosts(["magpie.example.org"], "cabinet-7").refused(host) is None


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8080", "", "magpie.example.org.evil.example", "[::1", "127.0.0.1.evil.example"],
)
def test_any_other_name_is_refused(host: str) -> None:
    assert Hosts(["magpie.example.org"], "cabinet-7").refused(host) is not None


def test_names_are_asked_for_where_nobody_logs_in_or_the_site_lists_some() -> None:
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
        assert service.journal == []
        assert (await client.get("http://box/livez")).status_code == 200


async def test_sockets_may_be_opened_to_the_box_only(tmp_path: Path) -> None:
    transport = httpx.ASGITransport(create_app(DictAppliance(), static=tmp_path))
    async with httpx.AsyncClient(transport=transport) as client:
        policy = (await client.get("http://box:8080/livez")).headers["content-security-policy"]
        assert "connect-src 'self' ws://box:8080 wss://box:8080;" in policy
        odd = (await client.get("http://box/livez", headers={"host": "a;script-src *"})).headers
        assert "connect-src 'self';" in odd["content-security-policy"], "a header cannot widen the policy"

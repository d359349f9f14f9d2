"""Webhooks do not go to link-local addresses, whatever name leads there."""

from __future__ import annotations

import socket

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from outputs_kit import HttpReceiver

from edge.core.clock import SystemClock
from edge.core.errors import InvalidValues
from edge.core.link_local import link_local
from edge.outputs.webhooks import Poster, Receiver
from edge.settings import WebhookSettings, parse

LINK_LOCAL = [
    "169.254.169.254",
    "169.254.0.1",
    "fe80::1",
    "fe80::1%eth0",
    "febf::1",
    "::ffff:169.254.169.254",
    "::169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
]
OTHERS = [
    "169.253.255.255",
    "169.255.0.1",
    "127.0.0.1",
    "10.0.0.1",
    "::1",
    "fec0::1",
    "::ffff:10.0.0.1",
    "64:ff9b::a00:1",
    "pager",
    "",
]


class Names(AbstractResolver):
    """Answers with these addresses, whatever the name."""

    def __init__(self, *addresses: str) -> None:
        self.addresses, self.asked = addresses, 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        self.asked += 1
        inet = {True: socket.AF_INET6, False: socket.AF_INET}
        return [
            ResolveResult(hostname=host, host=a, port=port, family=inet[":" in a], proto=0, flags=0)
            for a in self.addresses
        ]

    async def close(self) -> None:
        pass


async def _none() -> str:
    return ""


def test_what_is_link_local() -> None:
    assert [a for a in (*LINK_LOCAL, *OTHERS) if link_local(a)] == LINK_LOCAL
    assert link_local("[fe80::1]")


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "[fe80::1]:8080", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]"]
)
def test_an_address_is_refused_when_it_is_set(host: str) -> None:
    hook = {"id": "pager", "url": f"http://{host}/latest"}
    with pytest.raises(InvalidValues, match="link-local"):
        parse(WebhookSettings, hook)
    assert parse(WebhookSettings, hook | {"link_local": True}).link_local


@pytest.mark.parametrize("addresses", [LINK_LOCAL[:1], ["fe80::1"], ["::ffff:169.254.169.254"], LINK_LOCAL])
async def test_a_name_is_refused_by_what_it_resolves_to_when_it_is_sent(addresses: list[str]) -> None:
    names = Names(*addresses)
    poster = Poster(Receiver("pager", "http://pager.example/", "depot"), SystemClock(), _none, lambda: names)
    try:
        verdict = await poster.post("alarm", None, "1", 0.0, {})
    finally:
        await poster.close()
    assert (verdict.outcome, names.asked) == ("away", 1)
    assert "link_local" in verdict.reason


async def test_an_address_that_was_set_before_is_not_posted_to() -> None:
    poster = Poster(Receiver("pager", "http://[::ffff:169.254.169.254]/", "depot"), SystemClock(), _none)
    assert "link_local" in (await poster.post("alarm", None, "1", 0.0, {})).reason
    await poster.close()


@pytest.mark.parametrize("link_local", [False, True])
async def test_other_addresses_of_the_name_are_posted_to(link_local: bool) -> None:
    """Also where the name has a link-local address beside it: that one is left out."""
    async with HttpReceiver() as receiver:
        port = receiver.url.split(":")[2].split("/")[0]
        names = Names("127.0.0.1") if link_local else Names("169.254.169.254", "127.0.0.1")
        to = Receiver("pager", f"http://pager.example:{port}/", "depot", link_local=link_local)
        poster = Poster(to, SystemClock(), _none, lambda: names)
        await poster.post("alarm", None, "1", 0.0, {})
        await poster.close()
        assert len(receiver.posts) == 1


@pytest.mark.parametrize("host", ["①⑥⑨.254.169.254", "１６９.254.169.254", "169。254。169。254"])
async def test_hosts_that_the_client_writes_anew_are_judged_as_it_reads_them(host: str) -> None:
    with pytest.raises(InvalidValues, match="a host in ASCII"):
        parse(WebhookSettings, {"id": "hook", "url": f"http://{host}/"})
    names = Names("127.0.0.1")
    poster = Poster(Receiver("hook", f"http://{host}:9/", "depot"), SystemClock(), _none, lambda: names)
    verdict = await poster.post("alarm", None, "m-1", 0.0, {})
    assert "link-local" in verdict.reason
    assert names.asked == 0
    await poster.close()

"""WS-Discovery: a probe by multicast on each of this machine's networks, and the answers to it."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import unquote

from onveef.wsdiscovery import (
    WS_DISCOVERY_ADDRESS,
    WS_DISCOVERY_PORT,
    DiscoveredDevice,
    build_probe,
    parse_probe_matches,
)

from edge.core.discovery import SearchLosses
from edge.core.errors import InvalidValue
from edge.discovery.addresses import Interface, host_of, same_host, service_of
from edge.discovery.xml import fault_of, words

#: The types that are asked for, one a probe: a device answers only if it has all types of a probe. Each twice, since
#: multicast may lose a probe.
_PROBES: Final = ("dn:NetworkVideoTransmitter", "tds:Device") * 2
_MOST_READ: Final = 1024
#: Of one address: a recorder may answer for several cameras.
_MOST_OF_ONE: Final = 32
_WEB: Final = ("http", "https")


@dataclass(frozen=True)
class ProbeAnswer:
    """An answer to a probe. `service`: the address at `sender` of its device service, which it `gave` itself or which
    is the usual one; "" where all that it gives are of another host, `elsewhere`."""

    sender: str
    service: str
    elsewhere: str = ""
    name: str = ""
    hardware: str = ""
    gave: bool = True


@dataclass(frozen=True)
class ProbeResult:
    """Each device once."""

    answers: tuple[ProbeAnswer, ...]
    losses: SearchLosses


async def listen(own: Sequence[Interface], seconds: float, port: int = WS_DISCOVERY_PORT) -> ProbeResult:
    """Probe on every address of `own` and listen for so many seconds. A network that cannot be probed is left out."""
    loop, heard = asyncio.get_running_loop(), Hearing()
    transports: list[asyncio.DatagramTransport] = []
    # In the first half of the time: the last probe can be answered in the second.
    pause_s = seconds / 2 / len(_PROBES)
    try:
        for interface in own:
            try:
                opened = await loop.create_datagram_endpoint(partial(_Ear, heard, interface), sock=_socket(interface))
            except OSError:
                continue
            transports.append(opened[0])
        for types in _PROBES:
            for transport in transports:
                probe = build_probe(message_id=f"urn:uuid:{uuid.uuid4()}", types=types).encode()
                transport.sendto(probe, (WS_DISCOVERY_ADDRESS, port))
            await asyncio.sleep(pause_s)
        await asyncio.sleep(seconds - pause_s * len(_PROBES))
    finally:
        for transport in transports:
            transport.close()
    return heard.all()


def _socket(interface: Interface) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 1)
        made.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, interface.ip.packed)
        made.bind((str(interface.ip), 0))
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made


class Hearing:
    """The answers that came on all networks, and those that were not used."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str], ProbeAnswer] = {}
        self._by_sender: Counter[str] = Counter()
        self._read = self._outside = self._unreadable = self._over = 0

    def all(self) -> ProbeResult:
        """Until now."""
        answers = tuple(sorted(self._answers.values(), key=lambda a: (a.sender, a.service)))
        return ProbeResult(answers, SearchLosses(self._outside, self._unreadable, self._over))

    def take(self, data: bytes, sender: str, interface: Interface) -> None:
        """An answer that came from the address `sender` to that of `interface`."""
        if ipaddress.ip_address(sender) not in interface.network:
            self._outside += 1
            return
        self._by_sender[sender] += 1
        if self._read >= _MOST_READ or self._by_sender[sender] > _MOST_OF_ONE * len(_PROBES):
            self._over += 1
            return
        self._read += 1
        text = data.decode("utf-8", errors="replace")
        matches = [] if fault_of(text) is not None else parse_probe_matches(text)
        self._unreadable += not matches
        for match in matches:
            try:
                self._keep(_answer(match, sender))
            except InvalidValue:  # an address that is none
                self._unreadable += 1

    def _keep(self, answer: ProbeAnswer) -> None:
        key = (answer.sender, answer.service or answer.elsewhere)
        of_one = sum(sender == answer.sender for sender, _ in self._answers)
        if key not in self._answers and of_one >= _MOST_OF_ONE:
            self._over += 1
        else:
            self._answers.setdefault(key, answer)


class _Ear(asyncio.DatagramProtocol):
    def __init__(self, heard: Hearing, interface: Interface) -> None:
        self._heard, self._interface = heard, interface

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        self._heard.take(data, addr[0], self._interface)

    def error_received(self, exc: Exception) -> None:
        """A network that takes no multicast: no answers come of it."""


def _answer(match: DiscoveredDevice, sender: str) -> ProbeAnswer:
    name, hardware = words(unquote(match.name)), words(unquote(match.hardware))
    hosts = {x: host_of(x, _WEB) for x in match.xaddrs}
    own = [x for x, host in hosts.items() if same_host(host, {sender}) and "@" not in x]
    if any(hosts.values()) and not own:
        return ProbeAnswer(sender, "", words(next(h for h in hosts.values() if h)), name, hardware)
    return ProbeAnswer(sender, service_of(own[0] if own else sender), "", name, hardware, bool(own))

"""Connections before they have shown a certificate of the fleet: few at once, and not for long.

A connection takes memory and a handshake takes CPU time before anybody knows whose it is. So only some of them may be
open at once, in total and from one address; more are closed unread. A connection that shows a certificate of the
authority of the fleet does not count any more; one without a certificate has some seconds to join.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from edge.core.fleet_links import RefusedBy

Refused = Callable[[RefusedBy, str], None]


@dataclass(frozen=True)
class DoorLimits:
    """At most `total` connections without a certificate at once, `of_one` from one address (several boxes may be behind
    one). `handshake_s`: for TLS; `stay_s`: for one without a certificate (a box that joins waits up to 20 s)."""

    total: int = 64
    of_one: int = 16
    handshake_s: float = 5.0
    stay_s: float = 30.0


LIMITS: Final = DoorLimits()
_LOOK_S: Final = 0.25


@dataclass
class Door:
    """Counts the connections that have shown no certificate. `refused` gets the reason of each that is turned away."""

    context: ssl.SSLContext
    refused: Refused
    limits: DoorLimits = LIMITS
    _inside: Counter[str] = field(default_factory=Counter)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def admits(self, address: str) -> bool:
        """Whether one more may be open from this address; it counts until `left`."""
        if self._inside.total() >= self.limits.total or self._inside[address] >= self.limits.of_one:
            return False
        self._inside[address] += 1
        return True

    def left(self, address: str) -> None:
        """One of this address has closed, or shown its certificate."""
        self._inside[address] -= 1
        if not self._inside[address]:
            del self._inside[address]

    def protocol(self, behind: Callable[[], asyncio.Protocol]) -> asyncio.Protocol:
        """For one connection; `behind` makes the protocol that speaks on it once TLS stands."""
        return _Visitor(self, behind, self._tasks)

    async def close(self) -> None:
        """Close connections that are in a handshake."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class _Visitor(asyncio.Protocol):
    """One connection until TLS stands: then the protocol behind it takes its place."""

    def __init__(self, door: Door, behind: Callable[[], asyncio.Protocol], tasks: set[asyncio.Task[None]]) -> None:
        self._door, self._behind, self._tasks = door, behind, tasks
        self._early = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A connection was accepted; nothing was read yet."""
        assert isinstance(transport, asyncio.Transport)
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if peer else ""
        if not self._door.admits(address):
            self._door.refused("too_many", f"from {address}")
            transport.abort()
            return
        transport.pause_reading()  # until TLS reads
        task = asyncio.get_running_loop().create_task(self._enter(transport, address))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def data_received(self, data: bytes) -> None:
        """A request that came with the end of the handshake."""
        self._early += data

    async def _enter(self, transport: asyncio.Transport, address: str) -> None:
        """TLS, then the protocol behind; returns when the connection does not count any more."""
        door, loop = self._door, asyncio.get_running_loop()
        try:
            tls = await loop.start_tls(
                transport, self, door.context, server_side=True, ssl_handshake_timeout=door.limits.handshake_s
            )
            if tls is None or transport.is_closing():  # it went away at this instant
                return
            protocol = self._behind()
            tls.set_protocol(protocol)
            protocol.connection_made(tls)
            if self._early:
                protocol.data_received(bytes(self._early))
            if not tls.get_extra_info("peercert"):
                await self._stays(transport, tls)
        except ConnectionAbortedError:
            door.refused("too_slow", f"from {address}")
        except OSError:  # it went away; the context reports failures of TLS
            pass
        finally:
            door.left(address)

    async def _stays(self, transport: asyncio.Transport, tls: asyncio.Transport) -> None:
        try:
            async with asyncio.timeout(self._door.limits.stay_s):
                while not transport.is_closing():
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            tls.abort()

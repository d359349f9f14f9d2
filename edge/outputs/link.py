"""One connection to an MQTT broker (protocol 3.1.1): paho-mqtt's client in its own thread, seen from an event loop.

A link that was lost stays lost: its user opens another. The outbox sends messages again that were published and not
acknowledged, so nothing is kept here.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode

from edge.core.errors import Unavailable

#: Connecting, and an acknowledgement, take no longer.
CONNECT_TIMEOUT_S: Final = 5.0
ACK_TIMEOUT_S: Final = 15.0
#: Messages that are on their way without an acknowledgement.
IN_FLIGHT: Final = 100
_REFUSED: Final = {
    "Unsupported protocol version": "the broker does not speak MQTT 3.1.1",
    "Client identifier not valid": "the broker refuses the client id",
    "Server unavailable": "the broker says that it is not available",
    "Bad user name or password": "the broker refuses user name or password",
    "Not authorized": "the broker refuses the login (not authorized)",
}


@dataclass(frozen=True)
class Broker:
    """Where to connect, and as whom. `ca_file` "": the system's certificates."""

    host: str
    port: int
    client_id: str
    tls: bool = False
    ca_file: str = ""
    username: str = ""
    keepalive_s: int = 30


@dataclass(frozen=True)
class Received:
    """A message that came. `retained`: it was kept by the broker from an earlier time."""

    topic: str
    payload: bytes
    retained: bool


class Link:
    """A connected client. `lost` is done, with the reason, once the connection is gone."""

    def __init__(self, broker: Broker, password: str, will: tuple[str, str] | None) -> None:
        self._loop = asyncio.get_running_loop()
        self.lost: asyncio.Future[str] = self._loop.create_future()
        self._connected: asyncio.Future[str] = self._loop.create_future()
        self._acks: dict[int, asyncio.Future[None]] = {}
        self._broker = broker
        self._receive: Callable[[Received], None] = lambda _: None
        client = paho.Client(
            CallbackAPIVersion.VERSION2, broker.client_id, protocol=paho.MQTTv311, reconnect_on_failure=False
        )
        client.connect_timeout = CONNECT_TIMEOUT_S
        client.max_inflight_messages_set(IN_FLIGHT)
        if broker.username:
            client.username_pw_set(broker.username, password or None)
        if will is not None:
            client.will_set(will[0], will[1], qos=1, retain=True)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_publish = self._on_ack
        client.on_subscribe = self._on_ack
        client.on_message = self._on_message
        self._client = client

    @classmethod
    async def open(
        cls,
        broker: Broker,
        password: str,
        will: tuple[str, str] | None = None,
        receive: Callable[[Received], None] | None = None,
    ) -> Link:
        """Connect. `will` (topic, payload) is what the broker retains when the connection breaks. `receive` is called
        on the event loop. Raises Unavailable with the reason in words, which never has the password."""
        link = cls(broker, password, will)
        if receive is not None:
            link._receive = receive
        where = f"{broker.host}:{broker.port}"
        connecting = asyncio.ensure_future(asyncio.to_thread(link._connect))
        try:
            await asyncio.shield(connecting)
            # asyncio.timeout, not wait_for: that loses a cancellation which comes at the same time as the result.
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                reason = await link._connected
        except TimeoutError:
            reason = "it does not answer"
        except OSError as error:
            reason = _in_words(error)
        except ValueError as error:  # a text that cannot be a host's name
            reason = str(error)
        except asyncio.CancelledError:
            connecting.add_done_callback(link._abandon)
            raise
        else:
            if not reason:
                return link
        await link.close()
        raise Unavailable(f"the broker {where}: {reason}")

    def _abandon(self, connecting: asyncio.Future[None]) -> None:
        """The connection is waited for no more: its thread ends as soon as it is made."""
        if not connecting.cancelled() and connecting.exception() is None:
            self._client.disconnect()

    def _connect(self) -> None:
        b = self._broker
        if b.tls:
            self._client.tls_set_context(ssl.create_default_context(cafile=b.ca_file or None))
        self._client.connect(b.host, b.port, b.keepalive_s)
        self._client.loop_start()

    def publish(self, topic: str, payload: bytes, retain: bool = False) -> asyncio.Future[None]:
        """Send with QoS 1; the future is done when the broker has acknowledged. Raises Unavailable."""
        return self._sent(*self._publish(topic, payload, retain))

    def _publish(self, topic: str, payload: bytes, retain: bool) -> tuple[int, int | None]:
        info = self._client.publish(topic, payload, qos=1, retain=retain)
        return info.rc, info.mid

    async def subscribe(self, *topics: str) -> None:
        """Subscribe with QoS 1. Raises Unavailable."""
        await self.settle([self._sent(*self._client.subscribe([(topic, 1) for topic in topics]))])

    def _sent(self, code: int, number: int | None) -> asyncio.Future[None]:
        if code != paho.MQTT_ERR_SUCCESS or number is None or self.lost.done():
            raise Unavailable(self.lost.result() if self.lost.done() else paho.error_string(MQTTErrorCode(code)))
        # Callbacks come over the event loop, so none can have come before this.
        ack: asyncio.Future[None] = self._loop.create_future()
        self._acks[number] = ack
        return ack

    async def settle(self, acks: Iterable[asyncio.Future[None]]) -> None:
        """Wait until everything is acknowledged. Raises Unavailable (connection lost, no acknowledgement in time)."""
        pending: set[asyncio.Future[Any]] = {a for a in acks if not a.done()}
        while pending:
            done, _ = await asyncio.wait(
                {*pending, self.lost}, timeout=ACK_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                raise Unavailable(f"the broker has acknowledged nothing for {ACK_TIMEOUT_S:g} s")
            pending -= done
            if pending and self.lost.done():
                raise Unavailable(self.lost.result())

    async def close(self, goodbye: tuple[str, str] | None = None) -> None:
        """Disconnect, after `goodbye` (topic, payload, retained) if the link is still up. Raises nothing."""
        if goodbye is not None and not self.lost.done():
            with contextlib.suppress(Unavailable, TimeoutError):
                sent = self.publish(goodbye[0], goodbye[1].encode(), retain=True)
                async with asyncio.timeout(2.0):
                    await self.settle([sent])
        self._client.disconnect()
        await asyncio.to_thread(self._client.loop_stop)
        if not self.lost.done():
            self.lost.set_result("closed")

    # -- from paho's thread

    def _call(self, what: Callable[..., None], *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop has ended
            self._loop.call_soon_threadsafe(what, *arguments)

    def _on_connect(self, _c: Any, _u: Any, _f: Any, reason: Any, _p: Any) -> None:
        message = str(reason)
        self._call(self._set, self._connected, _REFUSED.get(message, message) if reason.is_failure else "")

    def _on_disconnect(self, _c: Any, _u: Any, _f: Any, reason: Any, _p: Any) -> None:
        message = "the broker has closed the connection"
        self._call(self._set, self.lost, message if reason.is_failure else "disconnected")
        self._call(self._set, self._connected, message)

    def _on_ack(self, _c: Any, _u: Any, number: int, *_: Any) -> None:
        self._call(self._acknowledged, number)

    def _on_message(self, _c: Any, _u: Any, message: paho.MQTTMessage) -> None:
        try:
            topic = message.topic
        except UnicodeDecodeError:
            return
        self._call(self._came, Received(topic, bytes(message.payload), bool(message.retain)))

    # -- on the event loop

    def _set(self, future: asyncio.Future[str], value: str) -> None:
        if not future.done():
            future.set_result(value)

    def _acknowledged(self, number: int) -> None:
        ack = self._acks.pop(number, None)
        if ack is not None and not ack.done():
            ack.set_result(None)

    def _came(self, received: Received) -> None:
        self._receive(received)


def _in_words(error: OSError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"no TLS connection: {error.reason or error}"
    if isinstance(error, socket.gaierror):
        return "its name is not known"
    if isinstance(error, TimeoutError):
        return "it does not answer"
    return error.strerror or str(error) or type(error).__name__


async def check(broker: Broker, password: str, topic: str, payload: bytes) -> float:
    """Connect beside all other connections, publish one message and wait for its acknowledgement. Returns the
    seconds that it took. Raises Unavailable."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    link = await Link.open(broker, password)
    try:
        await link.settle([link.publish(topic, payload)])
    finally:
        await link.close()
    return math.ceil((loop.time() - began) * 1000) / 1000

"""Webhooks: messages of the outbox as signed HTTP POSTs, retried until they are delivered or given up.

A receiver that is away (no connection, 429, 502, 503, 504) holds up its whole queue; an answer that speaks of one
message holds up its camera only. Signatures follow the Standard Webhooks convention, so that receivers find libraries:
HMAC-SHA256 over "ID.TIMESTAMP.BODY". Redirects are not followed and proxies of the environment are not used: a POST
goes where it was configured to go, or nowhere.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import os
import random
import socket
import ssl
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import yarl
from aiohttp.abc import AbstractResolver, ResolveResult

from edge.core.clock import Clock
from edge.core.errors import InvalidValue, MagpieError
from edge.core.journal_kinds import JournalKind
from edge.core.link_local import link_local
from edge.core.retry_pace import RetryPace
from edge.outputs.messages import WEBHOOK, DeliveryVerdict, Json, WaitingMessage, judge
from edge.outputs.outbox import Outbox

PACE: Final = RetryPace(1.0, 300.0)
_PAGE = 50
_AT_ONCE = 4
_MAX_ANSWER = 64 * 1024
_REPORT_EVERY_S = 60.0
_SECRET_PREFIX = "whsec_"


@dataclass(frozen=True)
class Receiver:
    """Where messages go. `max_tries`: of one message whose answers speak of the message. `ca_file` "": the system's.
    `link_local`: also if its address is link-local."""

    id: str
    url: str
    site: str
    timeout_s: float = 10.0
    max_tries: int = 20
    ca_file: str = ""
    link_local: bool = False

    @property
    def destination(self) -> str:
        """Name of its queue."""
        return WEBHOOK + self.id


def key_of(secret: str) -> bytes:
    """The key of a secret: base64 behind "whsec_", else its UTF-8 bytes. Raises InvalidValue for anything but base64: a
    receiver that follows the convention could not verify it.
    """
    if secret.startswith(_SECRET_PREFIX):
        try:
            return base64.b64decode(secret[len(_SECRET_PREFIX) :], validate=True)
        except ValueError:  # also of characters that are not ASCII
            raise InvalidValue("secret", f"{_SECRET_PREFIX}***", f"base64 behind {_SECRET_PREFIX}") from None
    return secret.encode()


def signature(secret: str, message: str, timestamp: int, body: bytes) -> str:
    """The value of the header webhook-signature. Raises InvalidValue as `key_of`."""
    signed = f"{message}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key_of(secret), signed, hashlib.sha256).digest()).decode()


def headers(secret: str, message: str, timestamp: int, body: bytes) -> dict[str, str]:
    """All headers of one POST; without a secret it is not signed."""
    out = {
        "content-type": "application/json",
        "user-agent": "Magpie",
        "webhook-id": message,
        "webhook-timestamp": str(timestamp),
    }
    if secret:
        out["webhook-signature"] = signature(secret, message, timestamp, body)
    return out


def content(site: str, kind: str, camera: str | None, message: str, utc_s: float, data: Mapping[str, Any]) -> bytes:
    """The body of one POST."""
    about = {"id": message, "kind": kind, "site": site, "camera": camera, "utc_s": utc_s, "data": dict(data)}
    return json.dumps(about, ensure_ascii=False).encode()


class _LinkLocal(OSError):
    """All addresses of a name are link-local."""


class _OffLink(AbstractResolver):
    """Names by `resolver`, without link-local addresses. Asked at the time of sending, and the connection goes to the
    address that it answers: a name that is changed after it was configured is refused all the same.
    """

    def __init__(self, resolver: AbstractResolver) -> None:
        self._resolver = resolver

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Raises OSError."""
        found = await self._resolver.resolve(host, port, family)
        good = [one for one in found if not link_local(one["host"])]
        if found and not good:
            raise _LinkLocal(_REFUSED)
        return good

    async def close(self) -> None:
        await self._resolver.close()


_REFUSED: Final = "its address is link-local, where clouds hand out credentials: the output's link_local allows it"


def _host(url: str) -> str:
    """The host as the client reads it, which writes some hosts anew; empty where it cannot."""
    try:
        return yarl.URL(url).host or ""
    except ValueError:
        return ""


class Poster:
    """An HTTP client for one receiver. `secret()` is asked at each POST and may raise MagpieError. `resolver()` makes
    what finds the addresses of names."""

    def __init__(
        self,
        receiver: Receiver,
        clock: Clock,
        secret: Callable[[], Awaitable[str]],
        resolver: Callable[[], AbstractResolver] = aiohttp.DefaultResolver,
    ) -> None:
        self._receiver, self._clock, self._secret, self._resolver = receiver, clock, secret, resolver
        self._session: aiohttp.ClientSession | None = None

    async def post(
        self, kind: str, camera: str | None, message: str, utc_s: float, data: Mapping[str, Any]
    ) -> DeliveryVerdict:
        """One try. Raises nothing but MagpieError of the secret."""
        r = self._receiver
        if not r.link_local and link_local(_host(r.url)):  # an address is not asked for
            return DeliveryVerdict("away", _REFUSED)
        secret = await self._secret()
        body = content(r.site, kind, camera, message, utc_s, data)
        now = self._clock.utc()
        signed = headers(secret, message, int(now), body)
        try:
            session = await self._opened()
            async with session.post(r.url, data=body, headers=signed, allow_redirects=False) as answer:
                verdict = judge(answer.status, answer.headers.get("retry-after"), now)
                # The body is of no use, but once it is read (in bounds) the connection can be used again.
                if await answer.content.read(_MAX_ANSWER) and not answer.content.at_eof():
                    answer.close()
                return verdict
        except TimeoutError:
            return DeliveryVerdict("away", f"no answer within {r.timeout_s:g} s")
        except aiohttp.ClientConnectorCertificateError as error:
            return DeliveryVerdict("away", f"its certificate is not trusted: {_certificate(error.certificate_error)}")
        except aiohttp.ClientConnectorDNSError as error:
            refused = isinstance(error.os_error, _LinkLocal)
            return DeliveryVerdict("away", _REFUSED if refused else "its name is not known")
        except aiohttp.ClientConnectorError as error:
            return DeliveryVerdict("away", f"no connection: {os.strerror(error.errno) if error.errno else 'it failed'}")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return DeliveryVerdict("away", f"the connection broke: {type(error).__name__}")

    async def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            context: ssl.SSLContext | bool = True
            if self._receiver.ca_file:
                context = await asyncio.to_thread(ssl.create_default_context, cafile=self._receiver.ca_file)
            resolver = self._resolver() if self._receiver.link_local else _OffLink(self._resolver())
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=_AT_ONCE, ssl=context, resolver=resolver),
                timeout=aiohttp.ClientTimeout(total=self._receiver.timeout_s),
                auto_decompress=False,
                trust_env=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session

    async def close(self) -> None:
        """Close its connections. Safe to call twice."""
        if self._session is not None:
            await self._session.close()
            self._session = None


def _certificate(error: Exception) -> str:
    return str(getattr(error, "verify_message", "") or error)[:200]


class WebhookSender:
    """Sends the queue of one receiver. `run` until cancelled. `note(kind, data)` journals."""

    def __init__(
        self,
        receiver: Receiver,
        outbox: Outbox,
        clock: Clock,
        note: Callable[[JournalKind, Json], None],
        secret: Callable[[], Awaitable[str]],
        pace: RetryPace = PACE,
    ) -> None:
        self.receiver = receiver
        self._outbox, self._clock, self._note, self._pace = outbox, clock, note, pace
        self.poster = Poster(receiver, clock, secret)
        self._wake = outbox.queues.wake_of(receiver.destination)
        self._tries: dict[str, tuple[int, int]] = {}  # by camera: the message at the head of its lane, failed tries
        self._due: dict[str, float] = {}  # by camera: when its head is tried again
        self._failures = 0  # of the receiver, in a row
        self._paused_until = 0.0
        self._buried = 0
        self._buried_reported_s = float("-inf")
        self.connected = False
        self.message = "nothing sent yet"
        self.down_since_s: float | None = None

    async def run(self) -> None:
        """Send until cancelled."""
        try:
            while True:
                await self._round()
        finally:
            await self.poster.close()

    async def _round(self) -> None:
        now = self._clock.monotonic()
        if self._paused_until > now:
            await asyncio.sleep(self._paused_until - now)
            return
        self._wake.clear()
        blocked = [lane for lane, due in self._due.items() if due > now]
        try:
            waiting = await self._outbox.page(self.receiver.destination, _PAGE, blocked)
        except MagpieError as error:
            self.message = f"the outbox cannot be read: {error}"
            await asyncio.sleep(1.0)
            return
        if not waiting:
            soonest = min((self._due[lane] for lane in blocked), default=now + 3600.0)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.01, soonest - now)):
                    await self._wake.wait()
            return
        lanes: dict[str, list[WaitingMessage]] = defaultdict(list)
        for message in waiting:
            lanes[message.lane].append(message)
        # Lanes of an earlier round that are empty now are forgotten: cameras come and go.
        self._due = {lane: due for lane, due in self._due.items() if due > now}
        self._tries = {lane: tries for lane, tries in self._tries.items() if lane in lanes or lane in self._due}
        turn = asyncio.Semaphore(_AT_ONCE)
        try:
            # All of them end before the next round begins, even if one raises an error.
            ended = await asyncio.gather(
                *(self._lane(turn, lane, messages) for lane, messages in lanes.items()), return_exceptions=True
            )
            for problem in (e for e in ended if isinstance(e, BaseException)):
                raise problem
        except MagpieError as error:
            # The database: a delivered message that could not be taken out is delivered again.
            self.message = f"the outbox cannot be written: {error}"
            await asyncio.sleep(1.0)

    async def _lane(self, turn: asyncio.Semaphore, lane: str, messages: Sequence[WaitingMessage]) -> None:
        """The messages of one camera, one after another, until one has to wait."""
        delivered: list[int] = []
        try:
            async with turn:
                for message in messages:
                    if self._paused_until > self._clock.monotonic():
                        return
                    if not await self._one(lane, message, delivered):
                        return
        finally:
            await self._outbox.delivered(self.receiver.destination, delivered)

    async def _one(self, lane: str, message: WaitingMessage, delivered: list[int]) -> bool:
        """Try one message. False: the camera's later ones wait."""
        camera = message.lane or None
        try:
            verdict = await self.poster.post(message.kind, camera, message.message, message.at_utc_s, message.body)
        except MagpieError as error:
            verdict = DeliveryVerdict("away", str(error))
        if verdict.outcome == "delivered":
            delivered.append(message.id)
            self._tries.pop(lane, None)
            self._up()
            return True
        if verdict.outcome == "away":
            if self._paused_until <= self._clock.monotonic():  # those that were tried at the same time count once
                self._failures += 1
            pause = self._pace.pause_s(self._failures, random.random())
            if verdict.retry_after_s is not None:
                pause = max(pause, verdict.retry_after_s)
            self._paused_until = max(self._paused_until, self._clock.monotonic() + pause)
            self._down(verdict.reason)
            return False
        self._up()
        before = self._tries.get(lane, (0, 0))
        tries = 1 + (before[1] if before[0] == message.id else 0)
        if verdict.outcome == "refused" or tries >= self.receiver.max_tries:
            await self._outbox.dead_letters.bury(message, tries, verdict.reason)
            self._tries.pop(lane, None)
            self._report_buried(verdict.reason)
            return True
        self._tries[lane] = (message.id, tries)
        pause = self._pace.pause_s(tries, random.random())
        if verdict.retry_after_s is not None:
            pause = max(pause, verdict.retry_after_s)
        self._due[lane] = self._clock.monotonic() + pause
        self.message = f"tried again in {pause:.0f} s: {verdict.reason}"
        return False

    def _report_buried(self, reason: str) -> None:
        self._buried += 1
        self.message = f"given up: {reason}"
        now = self._clock.monotonic()
        if now - self._buried_reported_s >= _REPORT_EVERY_S:
            self._buried_reported_s = now
            count, self._buried = self._buried, 0
            data = {"destination": self.receiver.destination, "messages": count, "reason": reason}
            self._note("output.dead", data)

    def _up(self) -> None:
        self.connected, self.message, self._failures = True, "", 0
        if self.down_since_s is not None:
            self.down_since_s = None
            self._note("output.up", {"destination": self.receiver.destination})

    def _down(self, reason: str) -> None:
        self.connected, self.message = False, reason
        if self.down_since_s is None:
            self.down_since_s = self._clock.monotonic()
            self._note("output.down", {"destination": self.receiver.destination, "reason": reason})

    def state(self) -> Json:
        """{"connected", "message", "down_s"}."""
        down = None if self.down_since_s is None else self._clock.monotonic() - self.down_since_s
        return {"connected": self.connected, "message": self.message, "down_s": down}

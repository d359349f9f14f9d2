"""Connections to the agents of other boxes: HTTPS on which both sides show their certificate."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

import aiohttp

from edge.core.errors import Conflict, Forbidden, InvalidValue, MagpieError, NotFound, NotUnderstood, Unavailable
from edge.core.fleet_links import FleetMember, OtherVersion
from edge.fleet.identity import client_context
from edge.fleet.wire import decoded, encoded

M = TypeVar("M")

PREFIX: Final = "/fleet/v1"
#: A message of a fleet with some hundred cameras is far below.
LARGEST: Final = 16 << 20
_ERRORS: Final[dict[int, type[MagpieError]]] = {
    400: NotUnderstood, 403: Forbidden, 404: NotFound, 409: Conflict, 503: Unavailable,
}  # fmt: skip


class Links:
    """Use as `async with Links(folder)`; the box has joined a fleet. `host`: connections come from this address of the
    machine; 0.0.0.0: from any."""

    def __init__(self, folder: Path, host: str = "0.0.0.0") -> None:
        self._folder, self._host = folder, host
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> Links:
        self._session = session(client_context(self._folder), self._host)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def ask(self, box: FleetMember, path: str, message: Any, kind: type[M], timeout_s: float = 2.0) -> M:
        """A box's answer. Raises Unavailable (it does not answer), NotUnderstood (it does not know the question),
        InvalidValue, NotFound, Forbidden, Conflict, MagpieError (it refuses)."""
        url = box.address + PREFIX + path
        body = await answer_of(self._session, url, message, box.name, timeout_s, LARGEST)
        if len(body) > LARGEST:
            raise Unavailable(f"{url}: the answer has more than {LARGEST} bytes")
        return decoded(kind, body)

    async def ask_bytes(self, box: FleetMember, path: str, message: Any, timeout_s: float, most: int) -> bytes:
        """A box's answer as it came, at most `most` bytes of it and one more. Raises as `ask`."""
        return await answer_of(self._session, box.address + PREFIX + path, message, box.name, timeout_s, most)

    async def fetch(self, box: FleetMember, path: str, timeout_s: float = 60.0, most: int | None = None) -> bytes:
        """A file of a box, at most `most` bytes of it and one more. Raises as `ask`."""
        return await answer_of(self._session, box.address + PREFIX + path, None, box.name, timeout_s, most)


def session(context: ssl.SSLContext, host: str = "0.0.0.0") -> aiohttp.ClientSession:
    """A client with this identity. It follows no redirection and no proxy of the environment."""
    source = None if host in ("0.0.0.0", "::", "") else (host, 0)
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, local_addr=source), trust_env=False)


async def answer_of(
    client: aiohttp.ClientSession, url: str, message: Any, box: str | None, timeout_s: float, most: int | None = None
) -> bytes:
    """The body of a box's answer; `message` None: it is only read. `box`: the name in the box's certificate. Of more
    than `most` bytes one more is read."""
    method, body = ("GET", None) if message is None else ("POST", encoded(message))
    try:
        async with client.request(
            method, url, data=body, headers={"content-type": "application/json"}, allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=timeout_s), server_hostname=box,
        ) as answer:  # fmt: skip
            if answer.status == 200:
                return await (answer.read() if most is None else at_most(answer.content, most + 1))
            raise _refusal(await answer.content.read(LARGEST + 1), url, answer.status)
    except (TimeoutError, aiohttp.ClientError, OSError) as error:
        raise Unavailable(f"{url}: no box answers: {error or type(error).__name__}") from None


async def at_most(content: aiohttp.StreamReader, most: int) -> bytes:
    """The first bytes of a body."""
    parts, left = [], most
    while left > 0 and (part := await content.read(left)):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _refusal(raw: bytes, url: str, status: int) -> MagpieError:
    """The error that a box answered; of a value that it does not allow, with the field."""
    try:
        body = json.loads(raw)["error"]
        if status == 400 and body.get("path"):
            return InvalidValue(str(body["path"]), _Given(str(body["given"])), str(body["allowed"]))
        words = str(body["message"])
        if status == 404 and body.get("code") != NotFound.code:
            return NotUnderstood(
                f"{url}: this box does not know the question", "it is of an earlier version: upgrade it"
            )
        if body.get("code") == OtherVersion.code:
            return OtherVersion(words)
    except (ValueError, KeyError, TypeError, AttributeError):
        words = f"{url} answered {status}"
    return _ERRORS.get(status, MagpieError)(words)


class _Given(str):
    """A value as another box showed it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

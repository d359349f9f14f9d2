"""The box's own appliance over its REST on this machine. The token is sent to no other address and to no log."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import Any, Final
from urllib.parse import quote

import aiohttp

from edge.core.errors import Forbidden, MagpieError, NotFound, Unavailable
from edge.core.fleet_links import FleetOrder
from edge.core.fleet_questions import BOX_S, MOST_BYTES, MOST_PICTURE, BoxQuestion
from edge.fleet.links import at_most
from edge.ingest.secrets import Secret

_ERRORS: Final[dict[int, type[MagpieError]]] = {403: Forbidden, 404: NotFound, 503: Unavailable}


class ApplianceClient:
    """The appliance at `page` (its page's address). Use as `async with`."""

    def __init__(self, page: str, token: Secret) -> None:
        self._base = page.rstrip("/") + "/api/v1"
        self._token = token
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> ApplianceClient:
        # The certificate of the page is made for its name outside; this connection does not leave the machine.
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False), trust_env=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def cameras(self) -> list[dict[str, Any]]:
        """Every camera with `settings` and `state`. Raises Unavailable, MagpieError."""
        found: list[dict[str, Any]] = await self._ask("GET", "/cameras", timeout_s=3.0)
        return found

    async def running(self) -> tuple[str, float]:
        """The version that runs, and when it began (UTC). Raises Unavailable, MagpieError."""
        found = await self._ask("GET", "/system", timeout_s=3.0)
        return str(found["versions"]["magpie"]), float(found["started_utc_s"])

    async def student(self, camera: str) -> str:
        """The SHA-256 of a camera's student in force; empty: none is known."""
        versions = await self._ask("GET", f"/cameras/{quote(camera)}/models")
        return next((v["blob"] for v in versions if v["state"] == "promoted" and v["blob_kept"]), "")

    async def add(self, settings: Mapping[str, Any]) -> None:
        """Add a camera; it starts. Raises MagpieError in the appliance's words."""
        await self._ask("POST", "/cameras", dict(settings), timeout_s=60.0)

    async def remove(self, camera: str) -> None:
        """Remove a camera. One that is not there is no error."""
        try:
            await self._ask("DELETE", f"/cameras/{quote(camera)}", timeout_s=30.0)
        except NotFound:
            return

    async def admission(self, camera: Mapping[str, Any], coming: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
        """The admission answer for a camera, as if the `coming` ones were there."""
        asked = {"camera": dict(camera)} | ({"coming": [dict(c) for c in coming]} if coming else {})
        found: dict[str, Any] = await self._ask("POST", "/admission", asked, timeout_s=4.0)
        return found

    async def record(self, order: FleetOrder, sender: str) -> None:
        """Have an order recorded that came by the box `sender`. Raises Unavailable, MagpieError."""
        body = {"kind": order.kind, "box": order.box, "camera": order.camera, "by": order.by, "given_on": sender}
        await self._ask("POST", "/fleet/records", body, timeout_s=3.0)

    async def answer(self, question: BoxQuestion) -> bytes:
        """The appliance's rows for a user of another box: JSON. Raises Forbidden, Unavailable, MagpieError."""
        asked = {key: value for key, value in asdict(question).items() if key != "api"}
        return await self._raw("POST", "/fleet/answers", asked, BOX_S, MOST_BYTES)

    async def snapshot(self, camera: str, width: int) -> bytes:
        """A camera's newest picture (JPEG). Raises NotFound, Unavailable, MagpieError."""
        path = f"/cameras/{quote(camera, safe='')}/snapshot.jpg?width={width}"
        return await self._raw("GET", path, None, BOX_S, MOST_PICTURE)

    async def _ask(self, method: str, path: str, body: Any = None, timeout_s: float = 10.0) -> Any:
        raw = await self._raw(method, path, body, timeout_s)
        try:
            return json.loads(raw) if raw else None
        except ValueError:
            raise Unavailable("the appliance's answer cannot be read") from None

    async def _raw(self, method: str, path: str, body: Any, timeout_s: float, most: int | None = None) -> bytes:
        """The answer as it came; of more than `most` bytes one more is read."""
        headers = {"content-type": "application/json"}
        if self._token:
            headers["authorization"] = f"Bearer {self._token.reveal()}"
        data = None if body is None else json.dumps(body).encode()
        try:
            async with self._session.request(
                method, self._base + path, data=data, headers=headers, allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=timeout_s),
            ) as answer:  # fmt: skip
                raw = await (answer.read() if most is None else at_most(answer.content, most + 1))
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"the appliance does not answer: {error or type(error).__name__}") from None
        if answer.status < 300:
            return raw
        raise _ERRORS.get(answer.status, MagpieError)(_words(raw, answer.status))


def _words(raw: bytes, status: int) -> str:
    try:
        return str(json.loads(raw)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"the appliance answered {status}"

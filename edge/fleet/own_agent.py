"""The agent of this box, as its appliance and the commands ask it: over the same links as other boxes, with this box's
certificate. The agent hands orders, questions and jobs on to the head or to other boxes where it has to."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

from edge.core.errors import Conflict, InvalidValue, MagpieError, NotFound, NotUnderstood, Unavailable
from edge.core.fleet_links import FleetMember, FleetOrder, OrderAnswer
from edge.fleet.folder import FleetFolder
from edge.fleet.links import Links
from edge.settings import FleetSettings, local_host

M = TypeVar("M")

#: The head asks boxes for their admission before it answers an order.
_ANSWER_S: Final = 30.0


class OwnAgent:
    """Use as `async with`, or `close` it; the link is opened when it is first needed. One event loop."""

    def __init__(self, folder: FleetFolder, settings: FleetSettings) -> None:
        self._folder = folder
        self._me = FleetMember(settings.name, f"https://{local_host(settings.host)}:{settings.port}")
        self._links: Links | None = None
        self._opened_with = 0

    async def __aenter__(self) -> OwnAgent:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def order(self, order: FleetOrder) -> OrderAnswer:
        """Give an order. Raises InvalidValue, NotFound, Conflict (also for an order that the head does not know: it is
        of the version before), Forbidden, Unavailable, StoreError."""
        try:
            return await self.ask("/order", order, OrderAnswer)
        except (NotUnderstood, InvalidValue) as error:
            if isinstance(error, InvalidValue) and error.path != "kind":
                raise
            raise Conflict(f"the head does not carry out the order: {error}") from None
        except MagpieError as error:
            if type(error) is not MagpieError:
                raise
            raise Unavailable(f"the head could not carry out the order: {error}") from None

    async def ask(self, path: str, message: Any, kind: type[M], timeout_s: float = _ANSWER_S) -> M:
        """Its answer. Raises as `Links.ask`, NotFound where the box is in no fleet, StoreError."""
        return await (await self._link()).ask(self._me, path, message, kind, timeout_s)

    async def ask_bytes(self, path: str, message: Any, timeout_s: float, most: int) -> bytes:
        """An answer as it came, at most `most` bytes of it and one more. Raises as `ask`."""
        return await (await self._link()).ask_bytes(self._me, path, message, timeout_s, most)

    async def _link(self) -> Links:
        """With the certificate of now: a box that left a fleet and joined another one has a new one."""
        if not self._folder.joined:
            await self.close()
            raise NotFound("this box is in no fleet", "magpie fleet start, or join")
        made = _changed_ns(self._folder.path / "box.pem")
        if self._links is not None and made != self._opened_with:
            await self.close()
        if self._links is None:
            links = Links(self._folder.path)
            self._links, self._opened_with = await links.__aenter__(), made
        return self._links

    async def close(self) -> None:
        """Close the link; the next question opens another one."""
        links, self._links = self._links, None
        if links is not None:
            await links.__aexit__(None, None, None)


async def ask_own_agent(folder: FleetFolder, settings: FleetSettings, path: str, message: Any, kind: type[M]) -> M:
    """One question over a link of its own. Raises as `OwnAgent.ask`."""
    async with OwnAgent(folder, settings) as agent:
        return await agent.ask(path, message, kind)


def _changed_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0

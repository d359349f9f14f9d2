"""Changes of the outbox one at a time, each done to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class Turns:
    """Runs one coroutine at a time, in the order in which they came."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Future[Any]] = set()

    async def take(self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Do something to its end, even if its caller is cancelled: a database and its counters change together.
        Returns what `work` returns and raises what it raises."""
        task = asyncio.ensure_future(self._taken(work, *args, **kwargs))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def _taken(self, work: Callable[P, Coroutine[Any, Any, T]], *args: P.args, **kwargs: P.kwargs) -> T:
        async with self._turn:
            return await work(*args, **kwargs)

    async def ended(self) -> None:
        """Wait for everything that was begun. Raises nothing."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

"""The store's calls beside the event loop: one thread, in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from edge.core.errors import MagpieError

log = logging.getLogger(__name__)
T = TypeVar("T")


class StoreThread:
    """`complain(code, message)` gets the error of a write without a waiter."""

    def __init__(self, complain: Callable[[str, str], None]) -> None:
        self._complain = complain
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="store")
        self._refuses = False

    async def ask(self, call: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """A blocking call of the store; waits for its result and raises what it raises."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, partial(call, *args, **kwargs))

    def write(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Write behind; a failure is complained about and the appliance goes on."""
        if self._refuses:
            return
        name = getattr(call, "__name__", "write")

        def done(future: asyncio.Future[Any]) -> None:
            error = None if future.cancelled() else future.exception()
            if isinstance(error, MagpieError):
                self._complain(error.code, f"{name}: {error}")
            elif error is not None:
                log.error("store: %s failed", name, exc_info=error)
                self._complain("store", f"{name} failed: {error}")

        loop = asyncio.get_running_loop()
        loop.run_in_executor(self._thread, partial(call, *args, **kwargs)).add_done_callback(done)

    def refuse_writes(self) -> None:
        """From now on nothing more is written behind: the appliance ends, and the database has what was decided."""
        self._refuses = True

    async def close(self) -> None:
        """Wait for what was written behind, then end the thread. Safe to repeat."""
        self._refuses = True
        await asyncio.get_running_loop().run_in_executor(None, partial(self._thread.shutdown, wait=True))

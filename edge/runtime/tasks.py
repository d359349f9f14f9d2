"""Tasks that run beside the event loop's main work: their errors are reported, and all end with their owner."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from edge.core.errors import MagpieError

log = logging.getLogger(__name__)


class BackgroundTasks:
    """`complain(code, message)` gets every error; one other than a MagpieError goes to the log with its trace."""

    def __init__(self, complain: Callable[[str, str], None]) -> None:
        self._complain = complain
        self._tasks: set[asyncio.Task[Any]] = set()

    def spawn(self, work: Awaitable[Any], name: str) -> None:
        """Run `work` as a task called `name`."""

        async def guarded() -> None:
            try:
                await work
            except MagpieError as error:
                self._complain(error.code, str(error))

        task = asyncio.create_task(guarded(), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    async def end(self) -> None:
        """Cancel all and wait for their ends."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s failed", task.get_name(), exc_info=error)
            self._complain("internal", f"{task.get_name()} failed: {error}")


async def repeated(once: Callable[[], Awaitable[None]], pause_s: float, subject: str) -> None:
    """Do `once` again and again, `pause_s` seconds after its end. One that fails is logged under `subject`, and ends
    nothing: one box's answer must not end a round for all."""
    while True:
        try:
            await once()
        except (MagpieError, OSError) as error:
            log.warning("%s: %s", subject, error)
        except Exception:
            log.exception("%s: a round failed", subject)
        await asyncio.sleep(pause_s)

"""Tasks that run until they are ended: one that fails is started again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger(__name__)


class RestartedTasks:
    """Tasks by name, on one event loop. `pause_s` is the time between a failure and the next start."""

    def __init__(self, subject: str, pause_s: float = 5.0) -> None:
        self._subject, self._pause_s = subject, pause_s
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `run()` again and again, as a task of this name. A name is started once before it is ended."""
        self._tasks[name] = asyncio.create_task(self._again_and_again(name, run), name=f"{self._subject}s-{name}")

    async def _again_and_again(self, name: str, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                await run()
            except Exception:
                log.exception("%s %s failed and is started again", self._subject, name)
                await asyncio.sleep(self._pause_s)

    async def end(self, name: str) -> None:
        """Cancel a task and wait for its end. Safe to call for one that does not run."""
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

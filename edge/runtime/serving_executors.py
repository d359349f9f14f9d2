"""Executors of served models: each holds the models of one partition in a process of its own."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from edge.core.clock import Clock
from edge.core.front_messages import ExpectExecutor, ForgetExecutor
from edge.core.journal_kinds import JournalNote
from edge.core.workers import FRONT, Worker
from edge.runtime.executor_worker import ExecutorSpec, VersionsLoaded, executor_worker
from edge.runtime.supervisor import Supervisor
from scheduler.gpulets import reorganiser_events as r

#: An executor that dies so often in a row is given up (the Supervisor waits 0, 1, 2, 4 s between).
_MAX_RESTARTS = 4


class Executors:
    """Starts and ends executors. They connect to the front at `socket`, which lets in those that are `expected` (by
    name). `send(event)` hears of those that are lost, given up and stopped; `note(kind, data)` journals;
    `spawn(work, name)` runs a task."""

    def __init__(
        self,
        supervisor: Supervisor,
        socket: Path,
        clock: Clock,
        send: Callable[[r.Event], None],
        note: JournalNote,
        spawn: Callable[[Coroutine[Any, Any, None], str], None],
    ) -> None:
        self.expected: dict[str, ExpectExecutor] = {}
        self._supervisor, self._socket, self._clock = supervisor, socket, clock
        self._send, self._note, self._spawn = send, note, spawn

    def start(self, order: r.StartExecutor) -> None:
        """Start an executor. The front is notified first, so that it lets the executor in."""
        expect = ExpectExecutor(order.executor, secrets.token_urlsafe(24))
        self.expected[order.executor] = expect
        self._supervisor.send(FRONT.name, expect)
        self._supervisor.start(
            Worker(order.executor, "executor"),
            order.share,
            executor_worker,
            ExecutorSpec(order.executor, str(self._socket), expect.token, order.versions),
            partial(self._received, order.executor),
            on_lost=partial(self._lost, order.executor),
            on_given_up=partial(self._given_up, order.executor),
            max_restarts=_MAX_RESTARTS,
        )
        models = [v.key for v in order.versions]
        self._note(
            "serving.executor_started", data={"executor": order.executor, "models": models, "share": order.share}
        )

    def stop(self, executor: str) -> None:
        """End an executor in the background; ExecutorStopped is reported when its process is gone."""
        self._spawn(self._stop(executor), f"stop {executor}")

    async def close(self) -> None:
        """End all executors. It is not reported."""
        await asyncio.gather(*(self._supervisor.stop(name) for name in list(self.expected)))

    async def _stop(self, executor: str) -> None:
        await self._supervisor.stop(executor)
        self._forget(executor)
        self._send(r.ExecutorStopped(self._clock.monotonic(), executor))

    def _forget(self, executor: str) -> None:
        if self.expected.pop(executor, None) is not None:
            self._supervisor.send(FRONT.name, ForgetExecutor(executor))

    def _received(self, executor: str, message: Any) -> None:
        if not isinstance(message, VersionsLoaded) or not message.failed:
            return
        # Half of what it shall hold is not enough: it ends, and the fault is reported.
        reason = "; ".join(f"{one.model}/{one.version}: {one.reason}" for one in message.failed)
        models = tuple(one.model for one in message.failed)
        self._spawn(self._give_up(executor, reason, models), f"give {executor} up")

    async def _give_up(self, executor: str, reason: str, models: tuple[str, ...]) -> None:
        await self._supervisor.stop(executor)
        self._forget(executor)
        self._send(r.ExecutorFailed(self._clock.monotonic(), executor, reason, models))

    def _lost(self, executor: str, reason: str) -> None:
        self._send(r.ExecutorLost(self._clock.monotonic(), executor, reason))

    def _given_up(self, executor: str, reason: str) -> None:
        self._forget(executor)
        self._send(r.ExecutorFailed(self._clock.monotonic(), executor, reason))

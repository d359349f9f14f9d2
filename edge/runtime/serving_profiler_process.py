"""A process of the serving profiler: one subject under a share, asked to run batches one size after another."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import psutil

from edge.core.clock import Clock
from edge.core.errors import ShareError, WorkerFailed
from edge.core.shares import ShareCaps
from edge.core.workers import Worker
from edge.runtime.serving_profiler_worker import BatchesRun, RunBatches, Subject, SubjectLoaded, serving_profiler_worker
from edge.runtime.supervisor import Supervisor
from edge.serving.profiling import Effort, OtherLoad, Runs

#: A worker that says nothing for so long while it loads or measures has failed (the Supervisor ends hung ones sooner).
_PATIENCE_S = 300.0


class ProfilerProcess:
    """A worker process `name` with its subject, at a share of the device; an async context manager. Questions are
    answered one after another. `others` counts what other processes of this machine do meanwhile (None: it is not
    counted, since other work of ours runs beside it)."""

    def __init__(
        self,
        supervisor: Supervisor,
        caps: ShareCaps,
        clock: Clock,
        name: str,
        subject: Subject,
        percent: int,
        others: OtherLoad | None = None,
    ) -> None:
        self._supervisor, self._caps, self._clock = supervisor, caps, clock
        self._name, self._subject, self._percent, self._others = name, subject, percent, others
        self._number = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._lost = False

    async def __aenter__(self) -> ProfilerProcess:
        await self._start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._supervisor.stop(self._name)

    async def _start(self) -> None:
        if self._caps.quantize(self._percent / 100.0) <= 0.0:
            raise ShareError(f"{self._caps.device} grants no share of {self._percent} %")
        loaded = self._expect(0)
        self._lost = False
        self._supervisor.start(
            Worker(self._name, "serving_profiler"),
            self._percent / 100.0,
            serving_profiler_worker,
            self._subject,
            self._received,
            on_lost=self._gone,
            restart=False,
        )
        try:
            await self._answer(loaded)
        except BaseException:
            await self._supervisor.stop(self._name)
            raise

    async def restart_if_lost(self) -> None:
        """After a batch that was too much for it."""
        if self._lost:
            await self._start()

    async def share(self, percent: int) -> None:
        """Give it another share: live, or by another process where a share is fixed at the start."""
        if percent == self._percent and not self._lost:
            return
        self._percent = percent
        if self._caps.resize == "live" and not self._lost:
            self._supervisor.resize(self._name, percent / 100.0)
        else:
            await self._supervisor.stop(self._name)
            await self._start()

    async def sample(self, batch: int, effort: Effort) -> BatchesRun:
        """Run batches of this size. Raises WorkerFailed with the reason if they cannot be."""
        self._number += 1
        answer = self._expect(self._number)
        what = self._subject.stressor or (self._subject.version.key if self._subject.version else "")
        if self._lost or not self._supervisor.send(self._name, RunBatches(self._number, batch, effort)):
            raise WorkerFailed(f"the profiler of {what} has ended")
        busy = _busy_s()
        own = _own_s(self._supervisor.pid(self._name))
        began = self._clock.monotonic()
        sampled: BatchesRun = await self._answer(answer)
        if sampled.runs is None:
            raise WorkerFailed(f"{what}: {sampled.error}")
        if self._others is not None:
            own = _own_s(self._supervisor.pid(self._name)) - own
            self._others.add(_busy_s() - busy, own, self._clock.monotonic() - began)
        return sampled

    async def runs(self, batch: int, effort: Effort) -> Runs:
        """As `sample`, the runs alone."""
        runs = (await self.sample(batch, effort)).runs
        assert runs is not None, "sample raises where there are none"
        return runs

    def _expect(self, number: int) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        return future

    async def _answer(self, future: asyncio.Future[Any]) -> Any:
        try:
            async with asyncio.timeout(_PATIENCE_S):
                return await future
        except TimeoutError:
            raise WorkerFailed(f"{self._name} did not answer within {_PATIENCE_S:.0f} s") from None

    def _received(self, message: Any) -> None:
        number = 0 if isinstance(message, SubjectLoaded) else message.number if isinstance(message, BatchesRun) else -1
        future = self._waiting.pop(number, None)
        if future is not None and not future.done():
            future.set_result(message)

    def _gone(self, reason: str) -> None:
        self._lost = True
        what = self._subject.stressor or (self._subject.version.model if self._subject.version else "")
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(WorkerFailed(f"{what}: {reason}"))
        self._waiting.clear()


def _busy_s() -> float:
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - getattr(times, "iowait", 0.0) - getattr(times, "guest", 0.0))


def _own_s(pid: int | None) -> float:
    """CPU seconds of a worker and of this process."""
    total = 0.0
    for process in (pid, os.getpid()):
        try:
            times = psutil.Process(process).cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system
    return total

"""The profiling workers and their queue: exemplars, looks, profiles and evaluations, one job at a time each."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from edge.core.workers import Worker
from edge.runtime import messages as m
from edge.runtime.mains import profiler_worker
from edge.runtime.supervisor import Supervisor

Job: TypeAlias = m.Remember | m.Look | m.Profile | m.Evaluate | m.JudgeCandidate
Answer: TypeAlias = m.Remembered | m.Looked | m.ProfileDone | m.Evaluated | m.TrainingDone

#: Profilers side by side at most: each trains in one thread.
MOST = 2
#: Shares under which a profiler would hardly move.
MIN_SHARE = 0.02
#: While all profilers are being started again the queue is looked at so often, in seconds.
LOOK_AGAIN_S = 1.0


class Profilers:
    """`quantized(share)` is a share that can be granted, `urgency(job)` the order of the queue (least first).
    `answered(answer)` gets each result, `failed(job, why)` each job that came to none (None: its worker died)."""

    def __init__(
        self,
        supervisor: Supervisor,
        cores: float,
        quantized: Callable[[float], float],
        urgency: Callable[[Job], tuple[int, int]],
        answered: Callable[[Answer], None],
        failed: Callable[[Job, m.JobFailed | None], None],
        look_again_s: float = LOOK_AGAIN_S,
    ) -> None:
        self._supervisor, self._cores, self._quantized = supervisor, cores, quantized
        self._urgency, self._answered, self._failed = urgency, answered, failed
        self._workers = tuple(Worker.profiler(n) for n in range(max(1, min(MOST, math.ceil(cores)))))
        self.names = tuple(w.name for w in self._workers)
        self._look_again_s = look_again_s
        self._queue: list[Job] = []
        self._with: dict[str, Job] = {}
        self._closed = False

    def start(self, share: float) -> None:
        """Start the workers with `share` of the device together."""
        for worker, (name, own) in zip(self._workers, self.shares(share), strict=True):
            self._supervisor.start(
                worker,
                self._least(own),
                profiler_worker,
                self._cores,
                partial(self._received, name),
                on_lost=partial(self._lost, name),
                killable=True,
            )

    def close(self) -> None:
        """The appliance ends: waiting jobs are dropped."""
        self._closed = True

    def shares(self, share: float) -> list[tuple[str, float]]:
        """(worker, share) of each when they have `share` together."""
        return [(name, share / len(self.names)) for name in self.names]

    def resize(self, share: float) -> None:
        """`share` of the device for all together, from now on."""
        for name, own in self.shares(share):
            self._supervisor.resize(name, self._least(own))

    def ask(self, job: Job) -> None:
        """Have `job` done: jobs that the plan waits for go first, evaluations have time."""
        at = next((n for n, j in enumerate(self._queue) if self._urgency(j) > self._urgency(job)), len(self._queue))
        self._queue.insert(at, job)
        self._feed()

    def withdraw(self, wanted: Callable[[Job], bool]) -> list[Job]:
        """Take jobs back that have not begun."""
        taken = [j for j in self._queue if wanted(j)]
        self._queue = [j for j in self._queue if not wanted(j)]
        return taken

    def waiting(self) -> list[m.Profile]:
        """Profiles that have not begun, in their order."""
        return [j for j in self._queue if isinstance(j, m.Profile)]

    def profiling(self) -> int:
        """Workers that make a profile now."""
        return sum(isinstance(j, m.Profile) for j in self._with.values())

    def speed(self, thread: float) -> float:
        """Device seconds that all workers do in a second, at their shares now; one uses at most `thread`."""
        shares = {w["name"]: w["share"] for w in self._supervisor.workers()}
        return float(sum(min(thread, shares.get(name, 0.0)) for name in self.names))

    def hand_in(self) -> list[m.Profile]:
        """Have those that profile answer with what they have; their jobs."""
        at_work = []
        for name, job in self._with.items():
            if isinstance(job, m.Profile):
                self._supervisor.send(name, m.HandInProfile(job.data.camera, job.data.window))
                at_work.append(job)
        return at_work

    # -- inside

    def _least(self, share: float) -> float:
        return max(self._quantized(share), MIN_SHARE)

    def _feed(self) -> None:
        for name in self.names:
            if self._queue and name not in self._with and self._supervisor.ready(name):
                job = self._queue.pop(0)
                self._with[name] = job
                self._supervisor.send(name, job)
        if self._queue and not self._with and not self._closed:
            asyncio.get_running_loop().call_later(self._look_again_s, self._feed)

    def _received(self, name: str, message: Any) -> None:
        if isinstance(message, Answer):
            self._with.pop(name, None)
            self._answered(message)
        elif isinstance(message, m.JobFailed):
            job = self._with.pop(name, None)
            if job is not None:
                self._failed(job, message)
        self._feed()

    def _lost(self, name: str, reason: str) -> None:
        job = self._with.pop(name, None)
        if job is not None:
            self._failed(job, None)

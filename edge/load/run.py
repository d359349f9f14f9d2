"""A run: open loop. Requests leave when they are due, whether or not earlier ones were answered."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from yarl import URL

from edge.core.errors import InvalidValue, NotFound
from edge.load.arrivals import MOST_ARRIVALS, Floats, arrivals
from edge.load.client import Client
from edge.load.report import LoadReport, ModelReport, RequestOutcome, RequestTrace, kept_up, model_report
from edge.load.spec import LoadSpec, ModelLoad
from edge.load.tensors import Body, bodies

#: Timers have a grain of a millisecond; a request may leave this much before its time rather than after it.
_GRAIN_S = 0.0005
_ERRORS_KEPT = 5
_CONNECTIONS = 32


@dataclass(frozen=True)
class LoadProgress:
    """How a run goes, once a second: seconds into it (below 0 while warming up), and counts so far."""

    at_s: float
    due: int
    answered: int
    in_flight: int


@dataclass(eq=False)
class _Target:
    """One model under load; the arrays hold one entry per request, in the order of their times."""

    load: ModelLoad
    slo_ms: float | None
    url: URL
    samples: list[Body]
    due_s: Floats
    sent_s: Floats = field(init=False)
    done_s: Floats = field(init=False)
    outcome: np.ndarray = field(init=False)
    errors: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.sent_s = np.full(len(self.due_s), np.nan)
        self.done_s = np.full(len(self.due_s), np.nan)
        self.outcome = np.full(len(self.due_s), RequestOutcome.UNSENT, np.uint8)

    def report(self, warm_up_s: float, duration_s: float, interrupted_at_s: float | None) -> ModelReport:
        counted = self.due_s >= warm_up_s
        if interrupted_at_s is not None:
            counted &= self.due_s < interrupted_at_s
        due_s, sent_s, done_s = (array[counted] - warm_up_s for array in (self.due_s, self.sent_s, self.done_s))
        trace = RequestTrace(due_s, sent_s, done_s, self.outcome[counted])
        name = self.load.name if self.load.version is None else f"{self.load.name}/{self.load.version}"
        return model_report(
            name, self.slo_ms, self.load.rows, trace, duration_s, dict(self.errors.most_common(_ERRORS_KEPT))
        )


async def run_load(
    spec: LoadSpec,
    progress: Callable[[LoadProgress], None] | None = None,
    stop: asyncio.Event | None = None,
    token: str = "",
) -> LoadReport:
    """Send the load and wait for its last answer. `stop` ends it early, with a report of what was. `token` is an API
    token that the server asks for.

    Raises Unavailable (no server there), NotFound (unknown model, missing file), InvalidValue (a number or a tensor
    that does not fit), before any load is sent.
    """
    async with Client(spec.url, spec.give_up_s, token) as client:
        server = await client.server()
        whole_s = spec.warm_up_s + spec.duration_s
        targets = [await _prepare(spec, load, client, whole_s) for load in spec.models]
        if sum(len(t.due_s) for t in targets) > MOST_ARRIVALS:
            raise InvalidValue("duration_s", spec.duration_s, f"at most {MOST_ARRIVALS:,} requests in all")
        await client.connect(min(_CONNECTIONS, spec.max_in_flight))
        started = datetime.now(UTC)
        cpu = time.process_time()
        ended_at_s = await _Sender(spec, client, targets, progress, stop).run()
        cpu = time.process_time() - cpu
    duration_s = spec.duration_s if ended_at_s is None else max(1e-3, ended_at_s - spec.warm_up_s)
    models = tuple(t.report(spec.warm_up_s, duration_s, ended_at_s) for t in targets)
    return LoadReport(
        spec.url,
        server,
        started.isoformat(timespec="seconds"),
        round(duration_s, 3),
        spec.warm_up_s,
        spec.seed,
        models,
        round(cpu, 3),
        kept_up(models),
        ended_at_s is not None,
    )


async def _prepare(spec: LoadSpec, load: ModelLoad, client: Client, whole_s: float) -> _Target:
    inputs, outputs = await client.inputs(load.name, load.version)
    for name in load.outputs:
        if name not in outputs:
            raise InvalidValue(f"{load.name}.outputs", name, f"an output of the model: {', '.join(outputs)}")
    if not await client.ready(load.name, load.version):
        raise NotFound(f"{load.name}: the server knows it, but it is not ready", "see /v2/repository/index")
    slo_ms = load.slo_ms if load.slo_ms is not None else await client.slo_ms(load.name, load.version)
    if load.send_timeout and slo_ms is None:
        raise InvalidValue(f"{load.name}.send_timeout", True, "an SLO to send (slo_ms)")
    timeout_us = round(slo_ms * 1000) if load.send_timeout and slo_ms is not None else 0
    samples = bodies(load, inputs, spec.folder, spec.seed, timeout_us)
    due_s = arrivals(load.demand(spec.folder), whole_s, spec.seed, load.name)
    url = client.infer_url(load.name, load.version)
    await client.check(url, samples[0], load.outputs or outputs)
    return _Target(load, slo_ms, url, samples, due_s)


class _Sender:
    """Sends what is due and notes what comes back."""

    def __init__(
        self,
        spec: LoadSpec,
        client: Client,
        targets: list[_Target],
        progress: Callable[[LoadProgress], None] | None,
        stop: asyncio.Event | None,
    ) -> None:
        self._spec, self._client, self._targets = spec, client, targets
        self._progress, self._stop = progress, stop or asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._begin = 0.0
        self._answered = 0

    async def run(self) -> float | None:
        """Returns the second at which it was stopped, None if it ran to its end."""
        times = np.concatenate([t.due_s for t in self._targets])
        which = np.concatenate([np.full(len(t.due_s), n) for n, t in enumerate(self._targets)])
        number = np.concatenate([np.arange(len(t.due_s)) for t in self._targets])
        order = np.argsort(times, kind="stable")
        due = list(zip(times[order].tolist(), which[order].tolist(), number[order].tolist(), strict=True))
        self._begin = time.perf_counter() + 0.05
        reported_s = -1.0
        position = 0
        while True:
            now = time.perf_counter() - self._begin
            while position < len(due) and due[position][0] <= now + _GRAIN_S:
                _, target, n = due[position]
                self._send(self._targets[target], n)
                position += 1
                # The clock again: starting tasks takes time, too, and answers must not wait for a long backlog.
                if not position % 64:
                    await asyncio.sleep(0)
                    now = time.perf_counter() - self._begin
            if self._progress is not None and now >= reported_s + 1:
                reported_s = now
                at_s = now - self._spec.warm_up_s
                self._progress(LoadProgress(at_s, position, self._answered, len(self._tasks)))
            whole_s = self._spec.warm_up_s + self._spec.duration_s
            if self._stop.is_set() or (position == len(due) and now >= whole_s):
                break
            until = due[position][0] - now if position < len(due) else whole_s - now
            await asyncio.sleep(max(0.0, min(until - _GRAIN_S, 0.1)))
        ended_at_s = max(0.0, time.perf_counter() - self._begin)
        if self._tasks:
            # Each ends by itself, at the latest when it gives up.
            await asyncio.wait(self._tasks)
        return ended_at_s if position < len(due) else None

    def _send(self, target: _Target, n: int) -> None:
        if len(self._tasks) >= self._spec.max_in_flight:
            return  # stays UNSENT
        target.sent_s[n] = time.perf_counter() - self._begin
        task = asyncio.get_running_loop().create_task(self._one(target, n))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _one(self, target: _Target, n: int) -> None:
        target.outcome[n] = RequestOutcome.FAILED
        outcome, words = await self._client.infer(target.url, target.samples[n % len(target.samples)])
        target.done_s[n] = time.perf_counter() - self._begin
        target.outcome[n] = outcome
        if outcome == RequestOutcome.ANSWERED:
            self._answered += 1
        elif words and (words in target.errors or len(target.errors) < 1000):
            target.errors[words] += 1

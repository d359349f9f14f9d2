"""Replays serving plans for pipelines, event by event: how late are requests from end to end?

Requests of a pipeline come evenly. A stage's rows wait in its model's queue as soon as the stages before it have
answered, all of a batch at once. Two ways of feeding:

- "in turn": requests are dealt evenly to groups of alike gpu-lets; each group begins a duty cycle every D / n and takes
  what waits, up to its batches. The law of scheduler.joint.law, but for the hand-over.
- "pull": a gpu-let that is free takes what waits in the models' queues at once, as today's front does.

Each batch takes what the table says for its size, beside the planned neighbours. Written apart from the planner.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from edge.core.serving import DeviceTable, Gpulet, ServingPlan
from scheduler.gpulets.verdict import pressure, slowdown
from scheduler.joint.demand import JointProblem, PipelineLoad

REQUESTS = 1500
_EPS = 1e-9


@dataclass
class _Group:
    """Gpu-lets that take from the same queues. `turn_ms`: time between two beginnings (0: whenever one is free)."""

    gpulets: list[Gpulet]
    turn_ms: float
    queues: dict[str, deque[tuple[int, str]]] = field(default_factory=dict)
    dealt: dict[str, float] = field(default_factory=dict)
    free: list[int] = field(default_factory=list)


def replayed(problem: JointProblem, table: DeviceTable, plan: ServingPlan, feeding: str) -> dict[str, float]:
    """Of all pipelines' requests: `late` the part that took longer than the objective, `worst` the longest time, in
    parts of the objective."""
    late, worst, count = 0, 0.0, 0
    for pipeline, took in _Replay(problem, table, plan, feeding).run():
        count += 1
        late += took > pipeline.slo_ms * (1 + 1e-6)
        worst = max(worst, took / pipeline.slo_ms)
    return {"late": round(late / count, 5), "worst": round(worst, 4)}


class _Replay:
    def __init__(self, problem: JointProblem, table: DeviceTable, plan: ServingPlan, feeding: str) -> None:
        self._table, self._turns = table, feeding == "in turn"
        self._pipelines = problem.busy
        self._events: list[tuple[float, int, tuple[Any, ...]]] = []
        self._number = 0
        self._groups = self._grouped(plan)
        self._factors = self._slowed(plan)
        self._requests: dict[int, tuple[PipelineLoad, float, dict[str, int], set[str]]] = {}
        self._finished: list[tuple[PipelineLoad, float]] = []

    def run(self) -> Iterator[tuple[PipelineLoad, float]]:
        """Each request's pipeline and the time that it took in ms."""
        for pipeline in self._pipelines:
            for n in range(REQUESTS):
                self._at(n * 1000 / pipeline.rate, ("asked", pipeline, n))
        for group in self._groups if self._turns else ():
            self._at(0.0, ("turn", group, 0))
        expected = REQUESTS * len(self._pipelines)
        while len(self._finished) < expected:
            now, _, event = heapq.heappop(self._events)
            if event[0] == "asked":
                self._asked(now, event[1], event[2])
            elif event[0] == "turn":
                group, turn = event[1], event[2]
                self._begun(now, group, turn % len(group.gpulets))
                self._at(now + group.turn_ms, ("turn", group, turn + 1))
            else:
                self._answered(now, *event[1:])
        yield from self._finished

    def _asked(self, now: float, pipeline: PipelineLoad, n: int) -> None:
        rows = {s.name: int((n + 1) * s.per_request + _EPS) - int(n * s.per_request + _EPS) for s in pipeline.stages}
        number = len(self._requests)
        self._requests[number] = pipeline, now, rows, set()
        self._ready(now, number)

    def _ready(self, now: float, number: int) -> None:
        """Queue the stages of a request whose turn it is."""
        pipeline, began, rows, queued = self._requests[number]
        again = True
        while again:
            again = False
            for stage in pipeline.stages:
                if stage.name in queued or any(b not in queued or rows[b] > 0 for b in stage.after):
                    continue
                queued.add(stage.name)
                again = again or rows[stage.name] == 0
                for _ in range(rows[stage.name]):
                    self._queue(now, stage.model, number, stage.name)
        if len(queued) == len(pipeline.stages) and not any(rows.values()):
            self._finished.append((pipeline, now - began))
            self._requests[number] = pipeline, math.nan, rows, queued

    def _queue(self, now: float, model: str, number: int, stage: str) -> None:
        able = [g for g in self._groups if model in g.queues]
        # Dealt evenly: the group that is furthest behind its part of the rate.
        chosen = min(able, key=lambda g: g.dealt[model])
        part = next(p.batch for p in chosen.gpulets[0].models if p.model == model)
        chosen.dealt[model] += chosen.gpulets[0].duty_cycle_ms / (part * len(chosen.gpulets))
        chosen.queues[model].append((number, stage))
        for group in () if self._turns else able:
            if group.free:
                # What comes at the same instant is taken together.
                self._at(now + 1e-6, ("answered", group, group.free.pop(), ()))
                break

    def _begun(self, now: float, group: _Group, gpulet: int) -> bool:
        """A gpu-let takes what waits; False where nothing does."""
        took, answered = 0.0, []
        for part in group.gpulets[gpulet].models:
            queue = group.queues[part.model]
            taken = [queue.popleft() for _ in range(min(part.batch, len(queue)))]
            if taken:
                solo = self._table.solo_ms(part.model, group.gpulets[gpulet].percent, len(taken))
                took += solo * self._factors[id(group.gpulets[gpulet]), part.model]
                answered += taken
        if answered:
            self._at(now + took, ("answered", group, gpulet, tuple(answered)))
        return bool(answered)

    def _answered(self, now: float, group: _Group, gpulet: int, answered: tuple[tuple[int, str], ...]) -> None:
        for number, stage in answered:
            self._requests[number][2][stage] -= 1
        for number in dict.fromkeys(number for number, _ in answered):
            self._ready(now, number)
        if not self._turns and not self._begun(now, group, gpulet):
            group.free.append(gpulet)

    def _grouped(self, plan: ServingPlan) -> list[_Group]:
        """In turn: alike gpu-lets together. Pull: each alone, with one queue per model for all."""
        groups: dict[object, _Group] = {}
        common: dict[str, deque[tuple[int, str]]] = {}
        for n, given in enumerate(plan.gpulets):
            gpulet = Gpulet(given.device, given.share, given.duty_cycle_ms, given.models)  # told apart by identity
            parts = tuple(sorted((p.model, p.batch) for p in gpulet.models))
            key = (parts, round(gpulet.duty_cycle_ms, 6)) if self._turns else n
            group = groups.setdefault(key, _Group([], 0.0))
            group.gpulets.append(gpulet)
            for part in gpulet.models:
                queue = deque[tuple[int, str]]() if self._turns else common.setdefault(part.model, deque())
                group.queues.setdefault(part.model, queue)
                group.dealt[part.model] = 0.0
        for group in groups.values():
            group.turn_ms = group.gpulets[0].duty_cycle_ms / len(group.gpulets)
            group.free = list(range(len(group.gpulets)))
        return list(groups.values())

    def _slowed(self, plan: ServingPlan) -> dict[tuple[int, str], float]:
        every = [g for group in self._groups for g in group.gpulets]
        found = {}
        for g in every:
            others = [pressure(self._table, o) for o in every if o is not g and o.device == g.device]
            for part in g.models:
                found[id(g), part.model] = slowdown(self._table, g.share, part.model, part.batch, others)
        return found

    def _at(self, when: float, event: tuple[Any, ...]) -> None:
        self._number += 1
        heapq.heappush(self._events, (when, self._number, event))

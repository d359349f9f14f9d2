"""The layout in force at the front: which executor takes requests for which models, in which version."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from edge.core.applications import Application
from edge.core.front_messages import Layout, Route
from edge.core.serving import DeviceTable, Gpulet, QueueId
from edge.core.serving_reasons import Refusal
from scheduler.gpulets.demand import ModelView
from scheduler.gpulets.partitions import ExecutorView
from scheduler.gpulets.turns import alike
from scheduler.gpulets.verdict import times
from scheduler.gpulets.versions import with_limits

#: Times in ms are rounded to less.
_EPS = 1e-3


class ServingRoutes:
    """The last layout that the front was sent; None before the first."""

    def __init__(self) -> None:
        self.layout: Layout | None = None

    def update(
        self,
        active: Sequence[ExecutorView],
        models: Iterable[ModelView],
        refused: Mapping[str, Refusal],
        applications: tuple[Application, ...],
        table: DeviceTable | None,
        slo_ms: Mapping[QueueId, float] | None = None,
    ) -> Layout | None:
        """The next layout, from the executors that have a gpu-let; None if nothing has changed. `refused` maps models
        that are not served to the reason; `table` has the latencies, None: nothing was measured. `slo_ms`: the latency
        within which each queue is planned to be answered."""
        routes = []
        for executor in sorted(active, key=lambda e: e.id):
            assert executor.gpulet is not None
            versions = {b.model: executor.versions[b.model].version for b in executor.gpulet.models}
            routes.append(Route(executor.id, executor.gpulet, versions, _batch_ms(executor, active, table)))
        routes = in_turn(routes, slo_ms or {})
        named = sorted((m for m in models if m.name not in refused), key=lambda m: m.name)
        # Changes of a version that leave its files alone (objective, priority, queue) are in force at once.
        served = tuple(with_limits(m.serving or m.demand.version, m.demand.version) for m in named)
        now = (tuple(routes), served, dict(refused), applications)
        last = self.layout
        if last is not None and now == (last.routes, last.models, dict(last.refused), last.applications):
            return None
        self.layout = Layout(1 if last is None else last.number + 1, *now)
        return self.layout


def in_turn(routes: Sequence[Route], slo_ms: Mapping[QueueId, float]) -> list[Route]:
    """The routes, with alike gpu-lets as one group where the plan counts on their turns: where a whole duty cycle of
    waiting would make a queue later than `slo_ms` has for it. Elsewhere each takes what waits as soon as it is free,
    which is quicker where requests come by chance."""
    count = Counter(alike(route.gpulet) for route in routes)
    return [
        replace(r, group=_group_name(r.gpulet)) if count[alike(r.gpulet)] > 1 and _needs_turns(r, slo_ms) else r
        for r in routes
    ]


def _needs_turns(route: Route, slo_ms: Mapping[QueueId, float]) -> bool:
    duty_ms, busy_ms = route.gpulet.duty_cycle_ms, sum(route.batch_ms.values())
    if not busy_ms:
        return False  # nothing is known of its times
    least_ms = min(slo_ms.get(part.queue_id, math.inf) for part in route.gpulet.models)
    return busy_ms + max(duty_ms, busy_ms) > least_ms + _EPS


def _group_name(gpulet: Gpulet) -> str:
    parts = ", ".join(sorted(f"{part.model}, queue {part.queue}, by {part.batch}" for part in gpulet.models))
    return f"{parts} at {gpulet.percent} % every {gpulet.duty_cycle_ms:.6f} ms"


def _batch_ms(executor: ExecutorView, active: Sequence[ExecutorView], table: DeviceTable | None) -> dict[str, float]:
    """Planned execution times in ms by model, beside the partitions that are in force with it; none where a latency is
    not known."""
    gpulet = executor.gpulet
    assert gpulet is not None
    if table is None or not all(
        e.gpulet.percent in table.latency_ms.get(b.model, {}) and b.batch <= table.max_batch(b.model, e.gpulet.percent)
        for e in active
        if e.gpulet is not None
        for b in e.gpulet.models
    ):
        return {}
    timed = times(table, [e.gpulet for e in active if e.gpulet is not None])
    mine = timed[[e.id for e in active].index(executor.id)]
    return {b.model: round(ms, 4) for b, ms in zip(gpulet.models, mine.execution_ms, strict=True)}

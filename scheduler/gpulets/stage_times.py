"""How long a request takes at most where alike gpu-lets are fed in turn, and the last of those that come at once.

Alike gpu-lets (the same models, batches, share and duty cycle D) that are fed in turn leave a place every D / n
(`scheduler.gpulets.turns`), so a request waits for at most that until a batch begins: worst case E + D / n, with E the
execution time. For n = 1 this is the law of `scheduler.gpulets.verdict`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from edge.core.serving import DeviceTable, QueueId, ServedModel, ServingPlan, ServingProblem
from scheduler.gpulets.applications import even_budgets, for_groups, groups
from scheduler.gpulets.pipelines import PipelineDemand
from scheduler.gpulets.turns import alike
from scheduler.gpulets.verdict import GpuletTiming, verdict


def waits_ms(timings: Sequence[GpuletTiming]) -> list[float]:
    """Of each gpu-let the longest wait until a batch begins."""
    keys = [alike(t.gpulet) for t in timings]
    return [max(t.gpulet.duty_cycle_ms, t.busy_ms) / keys.count(key) for t, key in zip(timings, keys, strict=True)]


def worst_ms(timings: Sequence[GpuletTiming], burst_ms: Mapping[QueueId, float]) -> dict[QueueId, float]:
    """Queue -> the longest that a request takes, of those that have gpu-lets. `burst_ms`: how much later the last of
    several that come at once is answered."""
    worst: dict[QueueId, float] = {}
    for timing, wait in zip(timings, waits_ms(timings), strict=True):
        for part in timing.gpulet.models:
            took = timing.busy_ms + wait + burst_ms.get(part.queue_id, 0.0)
            worst[part.queue_id] = max(worst.get(part.queue_id, 0.0), took)
    return worst


def bursts_ms(own: Sequence[ServedModel], pipelines: Sequence[PipelineDemand]) -> dict[QueueId, float]:
    """Queue -> how much later than a single request the last of those is answered that come at the same instant.
    `own` are the demands on models, pipelines' requests included, with objectives of their own."""
    together: dict[QueueId, int] = {}
    plain = {QueueId(m.name): m for m in own}
    for pipeline in (p for p in pipelines if p.rate > 0):
        application, even = pipeline.application, even_budgets(pipeline.application)
        group = groups(application)
        for stage in application.stages:
            first, queue = QueueId(stage.model), QueueId(stage.model, application.queues.get(stage.name, 0))
            if first not in plain:
                continue
            together[queue] = max(together.get(queue, 1), group[stage.model])
            rows = pipeline.rate * pipeline.rows_per_row(stage)
            known = plain.setdefault(queue, replace(plain[first], rate=0.0))
            plain[queue] = replace(known, slo_ms=min(known.slo_ms, even[stage.name]))
            if queue != first:
                plain[queue] = replace(plain[queue], rate=plain[queue].rate + rows)
                plain[first] = replace(plain[first], rate=max(0.0, plain[first].rate - rows))
    return {q: m.slo_ms - for_groups(m, together.get(q, 1)).slo_ms for q, m in plain.items()}


def planned_ms(
    problem: ServingProblem,
    table: DeviceTable,
    plan: ServingPlan,
    own: Sequence[ServedModel],
    pipelines: Sequence[PipelineDemand],
) -> dict[QueueId, float]:
    """Queue -> the longest that a request takes under `plan`, of those that have gpu-lets. The others are as in
    `bursts_ms`; the pipelines' applications say which queue a stage asks."""
    return worst_ms(verdict(problem, table, plan, slack=0.0).timings, bursts_ms(own, pipelines))

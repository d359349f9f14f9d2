"""The applications that can be planned together: those whose objectives the device can keep at all, and the models'
demands beside them. An application that nothing answers in time costs the others nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from edge.core.errors import InvalidValue
from edge.core.serving import DeviceTable, ServedModel
from edge.core.serving_reasons import ServingReason
from scheduler.gpulets.fitting import Capacity
from scheduler.gpulets.pipelines import PipelineDemand, asked_rows
from scheduler.joint.demand import UNASKED, JointProblem, PipelineLoad, direct_load, pipeline_load

#: Requests to a model beside its pipelines are planned for from this part of its rate on: less is chance.
_DIRECT = 0.05


@dataclass(frozen=True)
class AskedTogether:
    """`problem` has the `pipelines` that can be answered in time, and each model with an objective of its own. `own`
    are the demands on models behind it, unmeasured ones among them. `lost`: the demands that no share here can keep.
    `reasons`: why pipelines are left out."""

    problem: JointProblem
    own: tuple[ServedModel, ...]
    pipelines: tuple[PipelineDemand, ...]
    lost: tuple[ServedModel, ...]
    reasons: tuple[ServingReason, ...]


def asked_together(
    models: Sequence[ServedModel],
    own: Sequence[ServedModel],
    pipelines: Sequence[PipelineDemand],
    table: DeviceTable,
    capacity: Capacity,
    max_gpulets: int | None,
) -> AskedTogether | None:
    """The arguments are as in FitFunction. A model that only unreachable pipelines ask keeps the even split's
    objective, so that it is refused where it cannot keep that. None where there is no share, or no pipeline with
    requests has all its models measured."""
    known = {m.name: m for m in own if m.name in table.latency_ms}
    room = min((capacity.of(m.priority) for m in own), default=0.0)
    asking = [p for p in pipelines if p.rate > 0 and set(p.application.models) <= known.keys()]
    if not asking or room <= 0:
        return None
    bare = JointProblem((), 1, round(room, 6), max_gpulets)
    strict = {m.name for m in known.values() if not _keeps(bare, m, table)}
    kept: list[PipelineDemand] = []
    reasons: list[ServingReason] = []
    for pipeline in asking:
        application = pipeline.application
        least, _ = bare.least_ms(load_of(pipeline), table)
        if least > application.slo_ms:
            numbers = {"ms": application.slo_ms, "least_ms": least}
            reasons.append(ServingReason("unreachable", application=application.name, numbers=numbers))
        elif not strict & set(application.models):
            kept.append(pipeline)
    wanted = {m for p in kept for m in p.application.models}
    apart = {m for p in asking if p not in kept for m in p.application.models} - wanted
    even = {m.name: m for m in models}
    demands = [even[m.name] if m.name in apart and m.name in even else m for m in own]
    lost = tuple(m for m in demands if m.name in known and (m.name in strict or not _keeps(bare, m, table)))
    left = tuple(m for m in demands if m not in lost)
    asked = asked_rows(kept)
    loads = (
        *(load_of(p) for p in kept),
        *(_direct(m, asked.get(m.name, 0.0)) for m in left if m.name in known),
    )
    try:
        problem = JointProblem(loads, 1, round(room, 6), max_gpulets)
    except InvalidValue:  # an application of the name of a model
        return None
    return AskedTogether(problem, left, tuple(kept), lost, tuple(reasons))


def least_share(problem: JointProblem, table: DeviceTable) -> float:
    """Devices that no plan takes less than: each request costs the least share x time / batch of all batches that take
    no longer than the objectives it is part of; waiting and interference only add to it."""
    slo_ms: dict[str, float] = {}
    for pipeline in problem.busy:
        for stage in pipeline.stages:
            slo_ms[stage.model] = min(pipeline.slo_ms, slo_ms.get(stage.model, pipeline.slo_ms))
    costs = {
        model: min(
            (
                share / 100 * ms / batch
                for share, row in table.latency_ms[model].items()
                for batch, ms in enumerate(row, 1)
                if ms <= slo
            ),
            default=0.0,
        )
        for model, slo in slo_ms.items()
    }
    return sum(p.rate * s.per_request / 1000 * costs[s.model] for p in problem.busy for s in p.stages)


def load_of(demand: PipelineDemand) -> PipelineLoad:
    """Its graph with the measured rates."""
    load = pipeline_load(demand.application, demand.rate)
    rows = {s.name: demand.rows_per_row(s) for s in demand.application.stages}
    return replace(load, stages=tuple(replace(s, per_request=rows[s.name]) for s in load.stages))


def _keeps(bare: JointProblem, model: ServedModel, table: DeviceTable) -> bool:
    """Some share here answers one request in time."""
    return bare.least_ms(direct_load(model), table)[0] <= model.slo_ms


def _direct(model: ServedModel, asked: float) -> PipelineLoad:
    """Clients' own requests, where pipelines ask for so many rows of the model's rate."""
    left = model.rate - asked
    return direct_load(replace(model, rate=left if left > _DIRECT * model.rate else UNASKED))

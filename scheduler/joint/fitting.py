"""The plan of models and pipelines that is followed on one device: with the budgets of the joint planner where that
takes less than the even split, or serves more; else the even split's plan, as `scheduler.gpulets.fitting` makes it.

The joint plan holds by the law of `scheduler.joint.law`, for which the front feeds alike gpu-lets in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edge.core.errors import InvalidValue
from edge.core.serving import DeviceTable, ServedModel, ServingPlan, ServingProblem
from scheduler.gpulets.applications import for_groups, groups
from scheduler.gpulets.fitting import Capacity, Fitted, PlanFunction, fit
from scheduler.gpulets.pipelines import FittedPipelines, PipelineDemand, fit_evenly
from scheduler.joint.demand import JointProblem, PipelineLoad, direct_load, pipeline_load
from scheduler.joint.planner import JointPlan, plan_jointly

#: Of the search for budgets: about a second of one core, as the box has other work.
MOST_STEPS = 4_000
#: Requests to a model beside its pipelines are planned for from this part of its rate on: less is chance.
_DIRECT = 0.05
#: The rate of a model without direct requests: its own objective bounds what pipelines may take of it.
_NOBODY = 1e-3
_EPS = 1e-6


def fit_pipelines(
    models: Sequence[ServedModel],
    own: Sequence[ServedModel],
    pipelines: Sequence[PipelineDemand],
    table: DeviceTable | None,
    capacity: Capacity,
    plan: PlanFunction,
    max_gpulets: int | None = None,
) -> FittedPipelines:
    """Plan `models` (with the even split's objectives) and, where `pipelines` ask some of them, split their objectives
    at the least share. `own` are the same models with the objectives of their own, for direct requests."""
    evenly = fit_evenly(models, own, pipelines, table, capacity, plan, max_gpulets)
    even, budgets = evenly.fitted, evenly.budgets
    answer = _jointly(own, pipelines, table, capacity, max_gpulets)
    if table is None or answer is None or not answer.budgets:
        return evenly
    split = {p.application.name: dict(budgets[p.application.name]) for p in pipelines}
    of_model: dict[str, float] = {}
    for b in answer.budgets:
        if b.pipeline in split:
            split[b.pipeline][b.stage] = b.budget_ms
        of_model[b.model] = min(b.budget_ms, of_model.get(b.model, b.budget_ms))
    together = {m: n for p in pipelines for m, n in groups(p.application).items()}
    strict = [replace(m, slo_ms=min(m.slo_ms, of_model.get(m.name, m.slo_ms))) for m in own]
    asked = [for_groups(m, together.get(m.name, 1)) for m in strict]
    found = fit(asked, table, capacity, plan, max_gpulets)
    unmeasured = {m.name for m in own} - table.latency_ms.keys()
    problem = ServingProblem(_in_order(asked, unmeasured), 1, found.problem.capacity, max_gpulets)
    if answer.plan.schedulable and (
        found.capped or found.refused.keys() - unmeasured or _less(answer.plan, found.plan)
    ):
        refused = {name: why for name, why in found.refused.items() if name in unmeasured}
        found = Fitted(problem, answer.plan, {}, refused)
    if found.capped or found.refused.keys() - unmeasured:
        return evenly
    whole = not even.capped and not even.refused.keys() - unmeasured
    if whole and not _less(found.plan, even.plan):
        return evenly
    return FittedPipelines(found, split, _reasons(answer, found, even if whole else None))


def _less(one: ServingPlan, other: ServingPlan) -> bool:
    return one.total_share < other.total_share - _EPS


def _reasons(answer: JointPlan, found: Fitted, even: Fitted | None) -> tuple[str, ...]:
    """Why this split, in words."""
    against = "more than fits" if even is None else f"{100 * even.plan.total_share:.0f} %"
    words = [f"{100 * found.plan.total_share:.0f} % of the device; the even split takes {against}"]
    return (
        *words,
        *(
            f"{b.pipeline}, {b.stage}: {b.budget_ms:.1f} ms for {b.model}, {b.even_ms:.1f} ms in the even split"
            for b in answer.budgets
            if b.stage != b.pipeline
        ),
    )


def load_of(demand: PipelineDemand) -> PipelineLoad:
    """Its graph with the measured rates."""
    load = pipeline_load(demand.application, demand.rate)
    stages = tuple(replace(s, per_request=demand.fan_out.get(s.name) or s.per_request) for s in load.stages)
    return replace(load, stages=stages)


def _in_order(models: Sequence[ServedModel], unmeasured: set[str]) -> tuple[ServedModel, ...]:
    """The models that are served, in the order of a plan's problem."""
    return tuple(sorted((m for m in models if m.name not in unmeasured), key=lambda m: (-m.priority, m.name)))


def _jointly(
    own: Sequence[ServedModel],
    pipelines: Sequence[PipelineDemand],
    table: DeviceTable | None,
    capacity: Capacity,
    max_gpulets: int | None,
) -> JointPlan | None:
    """The joint plan; None where no pipeline with requests has all its models measured, or none can be answered."""
    known = {m.name: m for m in own if table is not None and m.name in table.latency_ms}
    asked = [p for p in pipelines if p.rate > 0 and set(p.application.models) <= known.keys()]
    room = min((capacity.of(m.priority) for m in own), default=0.0)
    if table is None or not asked or room <= 0:
        return None
    loads = [load_of(p) for p in asked]
    of_pipelines: dict[str, float] = {}
    for load in loads:
        for stage in load.stages:
            of_pipelines[stage.model] = of_pipelines.get(stage.model, 0.0) + load.rate * stage.per_request
    direct = []
    for name, model in known.items():
        left = model.rate - of_pipelines.get(name, 0.0)
        rate = left if left > _DIRECT * model.rate else _NOBODY
        direct.append(direct_load(replace(model, rate=rate)))
    try:
        problem = JointProblem((*loads, *direct), 1, round(room, 6), max_gpulets)
        return plan_jointly(problem, table, most_steps=MOST_STEPS)
    except InvalidValue:
        return None  # an objective shorter than the fastest path: the even split's plan says what does not fit

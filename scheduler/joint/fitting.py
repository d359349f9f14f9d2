"""The plan of models and pipelines that is followed on one device: with the budgets of the joint planner where that
takes less than the even split, or serves more; else the even split's plan, as `scheduler.gpulets.fitting` makes it.

The joint plan holds by the law of `scheduler.joint.law`, for which the front feeds alike gpu-lets in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from edge.core.errors import InvalidValue
from edge.core.serving import DeviceTable, QueueId, ServedModel, ServingPlan, ServingProblem
from edge.core.serving_reasons import ServingReason
from scheduler.gpulets.applications import for_groups, groups
from scheduler.gpulets.fitting import Capacity, Fitted, PlanFunction, fit
from scheduler.gpulets.pipelines import (
    FittedPipelines,
    PipelineDemand,
    PlannedQueue,
    QueueStage,
    TwoQueues,
    asked_rows,
    fit_evenly,
)
from scheduler.gpulets.queue_names import ONE_QUEUE_EACH, QueueNames
from scheduler.joint.demand import NOBODY, JointProblem, PipelineLoad, direct_load, pipeline_load
from scheduler.joint.planner import JointPlan
from scheduler.joint.queues import QueuedPlan, plan_with_queues

#: Of the search for budgets, and again for two queues: about a second of one core each, as the box has other work.
MOST_STEPS = 4_000
#: Requests to a model beside its pipelines are planned for from this part of its rate on: less is chance.
_DIRECT = 0.05
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
    at the least share. `own` are the same models with the objectives of their own, for direct requests. A model has
    two queues (scheduler.joint.queues) where the plan takes strictly less then."""
    evenly = fit_evenly(models, own, pipelines, table, capacity, plan, max_gpulets)
    answer = _jointly(own, pipelines, table, capacity, max_gpulets)
    if table is None or answer is None:
        return evenly
    follow = _Follow(evenly, own, pipelines, table, capacity, plan, max_gpulets)
    together = {m: n for p in pipelines for m, n in groups(p.application).items()}
    one = follow.plan(answer.one, own, together, table)
    if not answer.cuts:
        return one or evenly
    demands = _queue_demands(answer, own)
    two = follow.plan(answer.plan, demands, answer.problem.bursts, answer.names.table(table), answer.names)
    if two is None or (_whole(one or evenly, table) and not _less(two.fitted.plan, (one or evenly).fitted.plan)):
        return one or evenly
    return with_two_queues(two, one or evenly, answer, table)


@dataclass(frozen=True)
class _Follow:
    """The plan that is followed for a split, where that is better than `evenly`. The fields are as in
    `fit_pipelines`."""

    evenly: FittedPipelines
    own: Sequence[ServedModel]
    pipelines: Sequence[PipelineDemand]
    table: DeviceTable
    capacity: Capacity
    policy: PlanFunction
    max_gpulets: int | None

    def plan(
        self,
        answer: JointPlan,
        demands: Sequence[ServedModel],
        together: Mapping[str, int],
        table: DeviceTable,
        names: QueueNames = ONE_QUEUE_EACH,
    ) -> FittedPipelines | None:
        """The policy's plan with the budgets of `answer`, or `answer`'s own where that takes less; None where it is no
        better than the even split's. `demands` are the models' own, one for each name of `table`; as many as `together`
        has for a name come at once."""
        if not answer.budgets:
            return None
        split = {name: dict(budgets) for name, budgets in self.evenly.budgets.items()}
        of_model: dict[str, float] = {}
        for b in answer.budgets:
            if b.pipeline in split:
                split[b.pipeline][b.stage] = b.budget_ms
            of_model[b.model] = min(b.budget_ms, of_model.get(b.model, b.budget_ms))
        strict = [replace(m, slo_ms=min(m.slo_ms, of_model.get(m.name, m.slo_ms))) for m in demands]
        asked = [for_groups(m, together.get(m.name, 1)) for m in strict]
        found = fit(asked, table, self.capacity, self.policy, self.max_gpulets)
        unmeasured = {m.name for m in self.own} - self.table.latency_ms.keys()
        problem = ServingProblem(_in_order(asked, unmeasured), 1, found.problem.capacity, self.max_gpulets)
        short = found.capped or found.refused.keys() - unmeasured or names.mixed(found.plan)
        if answer.plan.schedulable and (short or _less(answer.plan, found.plan)):
            refused = {name: why for name, why in found.refused.items() if name in unmeasured}
            found = Fitted(problem, answer.plan, {}, refused)
        if found.capped or found.refused.keys() - unmeasured or names.mixed(found.plan):
            return None
        even = self.evenly.fitted if _whole(self.evenly, self.table) else None
        if even is not None and not _less(found.plan, even.plan):
            return None
        queued = replace(found.problem, models=tuple(names.named(m) for m in found.problem.models))
        fitted = replace(found, problem=queued, plan=names.plan(found.plan))
        return FittedPipelines(fitted, split, _reasons(answer, found, even))


def with_two_queues(
    two: FittedPipelines, one: FittedPipelines, answer: QueuedPlan, table: DeviceTable
) -> FittedPipelines:
    """`two` with the queues of its stages, and why it is followed and not `one`."""
    plan = two.fitted.plan
    whole = _whole(one, table)
    queues: dict[str, dict[str, int]] = {}
    found = []
    for cut in answer.cuts:
        for pipeline, stage in sorted(cut.apart):
            queues.setdefault(pipeline, {})[stage] = 1
        planned = []
        for model in (m for m in two.fitted.problem.models if m.name == cut.model):
            stages = answer.stages(model.queue_id)
            asked = tuple(QueueStage(*key) for key in stages if key[0] in two.budgets)
            share = sum(g.share for g in plan.gpulets for part in g.models if part.queue_id == model.queue_id)
            budget_ms = min((two.budgets[p][s] for p, s in asked), default=model.slo_ms)
            planned.append(PlannedQueue(model.queue, round(budget_ms, 3), round(model.rate, 3), round(share, 6), asked))
        planned.sort(key=lambda q: q.number)
        one_share = round(one.fitted.plan.total_share, 6) if whole else None
        reason: Literal["less_share", "fits"] = "less_share" if whole else "fits"
        found.append(TwoQueues(cut.model, reason, round(plan.total_share, 6), one_share, tuple(planned)))
    why = tuple(two_queues.why for two_queues in found)
    return replace(two, queues=queues, two_queues=tuple(found), reasons=(*why, *two.reasons))


def _queue_demands(answer: QueuedPlan, own: Sequence[ServedModel]) -> list[ServedModel]:
    """The models' own demands, one for each queue, with the rates that its stages ask."""
    out = []
    for model in own:
        queues = [QueueId(model.name, n) for n in range(2 if any(c.model == model.name for c in answer.cuts) else 1)]
        apart = sum(answer.rate(queue) for queue in queues[1:])
        out.append(replace(model, rate=max(model.rate - apart, NOBODY)) if queues[1:] else model)
        out += [replace(model, name=answer.names.of(queue), rate=answer.rate(queue)) for queue in queues[1:]]
    return out


def _whole(split: FittedPipelines, table: DeviceTable) -> bool:
    """All that is measured is served at its whole rate."""
    return not split.fitted.capped and not split.fitted.refused.keys() & table.latency_ms.keys()


def _less(one: ServingPlan, other: ServingPlan) -> bool:
    return one.total_share < other.total_share - _EPS


def _reasons(answer: JointPlan, found: Fitted, even: Fitted | None) -> tuple[ServingReason, ...]:
    """Why this split."""
    against = {} if even is None else {"other_share": even.plan.total_share}
    return (
        ServingReason("split", numbers={"share": found.plan.total_share} | against),
        *(
            ServingReason("budget", b.model, b.pipeline, b.stage, numbers={"ms": b.budget_ms, "even_ms": b.even_ms})
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
) -> QueuedPlan | None:
    """The joint plan; None where no pipeline with requests has all its models measured, or none can be answered."""
    known = {m.name: m for m in own if table is not None and m.name in table.latency_ms}
    asked = [p for p in pipelines if p.rate > 0 and set(p.application.models) <= known.keys()]
    room = min((capacity.of(m.priority) for m in own), default=0.0)
    if table is None or not asked or room <= 0:
        return None
    of_pipelines = asked_rows(asked)
    direct = []
    for name, model in known.items():
        left = model.rate - of_pipelines.get(name, 0.0)
        rate = left if left > _DIRECT * model.rate else NOBODY
        direct.append(direct_load(replace(model, rate=rate)))
    try:
        loads = [load_of(p) for p in asked]
        problem = JointProblem((*loads, *direct), 1, round(room, 6), max_gpulets)
        return plan_with_queues(problem, table, most_steps=MOST_STEPS)
    except InvalidValue:
        return None  # an objective shorter than the fastest path: the even split's plan says what does not fit

"""The plan of models and pipelines that is followed on one device: with the budgets of the joint planner where that
takes less than the even split, or serves more; else the even split's plan, as `scheduler.gpulets.fitting` makes it.

The joint plan holds by the law of `scheduler.joint.law`, for which the front feeds alike gpu-lets in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from edge.core.serving import DeviceTable, QueueId, ServedModel, ServingPlan, ServingProblem
from edge.core.serving_reasons import Refusal, ServingReason
from scheduler.gpulets.applications import for_groups
from scheduler.gpulets.fitting import PARTS, Capacity, Fitted, PlanFunction, fit
from scheduler.gpulets.pipelines import (
    FittedPipelines,
    PipelineDemand,
    PlannedQueue,
    QueueStage,
    SplitSearch,
    TwoQueues,
    fit_evenly,
)
from scheduler.gpulets.queue_names import ONE_QUEUE_EACH, QueueNames
from scheduler.joint.demand import UNASKED
from scheduler.joint.planner import JointPlan, plan_jointly
from scheduler.joint.queues import QueuedPlan, plan_with_queues
from scheduler.joint.reach import AskedTogether, asked_together, least_share

#: Of the search for budgets with one queue, and as many again for two queues, or for a part of the rates: about a
#: second of one core each, as the box has other work.
MOST_STEPS = 4_000
_EPS = 1e-6


def fit_pipelines(
    models: Sequence[ServedModel],
    own: Sequence[ServedModel],
    pipelines: Sequence[PipelineDemand],
    table: DeviceTable | None,
    capacity: Capacity,
    plan: PlanFunction,
    max_gpulets: int | None = None,
    most_steps: int = 2 * MOST_STEPS,
) -> FittedPipelines:
    """Plan `models` (with the even split's objectives) and, where `pipelines` ask some of them, split their objectives
    at the least share. `own` are the same models with the objectives of their own, for direct requests. A model has
    two queues (scheduler.joint.queues) where the plan takes strictly less then. Where not everything fits, the budgets
    are those at which the largest part of all rates does, unless the even split serves more. A pipeline whose objective
    no share here can keep is left out, and said so."""
    evenly = fit_evenly(models, own, pipelines, table, capacity, plan, max_gpulets)
    asked = None if table is None else asked_together(models, own, pipelines, table, capacity, max_gpulets)
    if table is None or asked is None:
        return evenly
    lost = fit(asked.lost, table, capacity, plan, max_gpulets).refused
    if not asked.pipelines or lost.keys() != {m.name for m in asked.lost}:
        return replace(evenly, reasons=asked.reasons)
    follow = _Follow(evenly, asked, lost, table, capacity, plan, max_gpulets)
    found, search = follow.best(most_steps)
    return replace(found, search=search, reasons=(*found.reasons, *asked.reasons, search.why))


@dataclass(frozen=True)
class _Follow:
    """The plan that is followed for a split, where that is better than `evenly`. `lost` are the models that are not
    planned, with the reasons; the other fields are as in `fit_pipelines`."""

    evenly: FittedPipelines
    asked: AskedTogether
    lost: Mapping[str, Refusal]
    table: DeviceTable
    capacity: Capacity
    policy: PlanFunction
    max_gpulets: int | None

    def best(self, most_steps: int) -> tuple[FittedPipelines, SplitSearch]:
        """The plan with one queue or two, or with a part of the rates; else the even split's."""
        best, steps, complete = self.evenly, 0, True
        least = least_share(self.asked.problem, self.table)
        if least <= self.asked.problem.capacity + _EPS:
            answer = plan_with_queues(self.asked.problem, self.table, most_steps=most_steps // 2)
            steps, complete = answer.one.steps + answer.steps, answer.one.complete and answer.complete
            best = self._queued(answer)
        if not self._whole(best):
            part = self._part(least, max(0, most_steps - steps))
            steps, complete = steps + part.steps, complete and part.complete
            best = part.found or best
        return best, SplitSearch(min(steps, most_steps), most_steps, complete)

    def _queued(self, answer: QueuedPlan) -> FittedPipelines:
        """The plan with one queue or two; the even split's where no other is better."""
        own, bursts = self.asked.own, self.asked.problem.bursts
        one = self.plan(answer.one, own, bursts, self.table) or self.evenly
        if not answer.cuts:
            return one
        demands = _queue_demands(answer, own)
        two = self.plan(answer.plan, demands, answer.problem.bursts, answer.names.table(self.table), answer.names)
        if two is None or (self._whole(one) and not _less(two.fitted.plan, one.fitted.plan)):
            return one
        return with_two_queues(two, one, answer, self._whole(one))

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
        asked = _within(answer, demands, together)
        found = fit(asked, table, self.capacity, self.policy, self.max_gpulets)
        unmeasured = self._unmeasured
        short = found.capped or found.refused.keys() - unmeasured or names.mixed(found.plan)
        if answer.plan.schedulable and (short or _less(answer.plan, found.plan)):
            refused = {name: why for name, why in found.refused.items() if name in unmeasured}
            found = Fitted(self._problem(asked, found.problem.capacity), answer.plan, {}, refused)
        if found.capped or found.refused.keys() - unmeasured or names.mixed(found.plan):
            return None
        even = self.evenly.fitted if self._whole(self.evenly) else None
        if even is not None and not _less(found.plan, even.plan):
            return None
        queued = replace(found.problem, models=tuple(names.named(m) for m in found.problem.models))
        against = {} if even is None else {"other_share": even.plan.total_share}
        why = ServingReason("split", numbers={"share": found.plan.total_share} | against)
        return self._split(answer, replace(found, problem=queued, plan=names.plan(found.plan)), why)

    def _part(self, least: float, most_steps: int) -> _Part:
        """As much as can be with the budgets at which the largest part of all rates fits; by priority, or all models by
        that part where none comes first. The whole takes `least` devices at least."""
        problem, best, steps, complete = self.asked.problem, None, 0, True
        low, high = sum(part * least > problem.capacity + _EPS for part in PARTS), len(PARTS)
        while low < high:
            middle = (low + high) // 2
            pipelines = tuple(replace(p, rate=p.rate * PARTS[middle]) for p in problem.pipelines)
            left = max(0, most_steps - steps) // (high - low).bit_length()
            answer = plan_jointly(replace(problem, pipelines=pipelines), self.table, most_steps=left)
            steps, complete = steps + answer.steps, complete and answer.complete
            if answer.plan.schedulable and answer.budgets:
                best, high = (PARTS[middle], answer), middle
            else:
                low = middle + 1
        if best is None:
            return _Part(None, steps, complete)
        part, answer = best
        asked = _within(answer, self.asked.own, problem.bursts)
        options = [fit(asked, self.table, self.capacity, self.policy, self.max_gpulets)]
        if len({m.priority for m in asked}) == 1:
            less = [replace(m, rate=m.rate * part) for m in asked]
            capped = {m.name: part for m in asked if m.name not in self._unmeasured}
            unmeasured = {m: why for m, why in options[0].refused.items() if m in self._unmeasured}
            options.append(Fitted(self._problem(less, options[0].problem.capacity), answer.plan, capped, unmeasured))
        found = max(options, key=self._served)
        even = self.evenly.fitted
        if self._served(found) <= self._served(even):
            return _Part(None, steps, complete)
        numbers = {"part": self._least(found), "other_part": self._least(even)}
        return _Part(self._split(answer, found, ServingReason("scarce", numbers=numbers)), steps, complete)

    def _split(self, answer: JointPlan, found: Fitted, why: ServingReason) -> FittedPipelines:
        """`found` with the budgets of `answer`; those of pipelines that it does not have are the even split's."""
        split = {name: dict(budgets) for name, budgets in self.evenly.budgets.items()}
        for b in answer.budgets:
            if b.pipeline in split:
                split[b.pipeline][b.stage] = b.budget_ms
        budgets = (
            ServingReason("budget", b.model, b.pipeline, b.stage, numbers={"ms": b.budget_ms, "even_ms": b.even_ms})
            for b in answer.budgets
            if b.stage != b.pipeline
        )
        return FittedPipelines(replace(found, refused={**found.refused, **self.lost}), split, (why, *budgets))

    @property
    def _unmeasured(self) -> frozenset[str]:
        return frozenset(m.name for m in self.asked.own if m.name not in self.table.latency_ms)

    def _problem(self, asked: Sequence[ServedModel], capacity: float) -> ServingProblem:
        """The problem that a plan of its own answers, in the order of a plan's problem."""
        served = sorted((m for m in asked if m.name not in self._unmeasured), key=lambda m: (-m.priority, m.name))
        return ServingProblem(tuple(served), 1, capacity, self.max_gpulets)

    def _whole(self, split: FittedPipelines) -> bool:
        """All that is measured and can be planned is served at its whole rate."""
        refused = split.fitted.refused.keys() - self.lost.keys()
        return not split.fitted.capped and not refused & self.table.latency_ms.keys()

    def _parts(self, found: Fitted) -> dict[ServedModel, float]:
        measured = (m for m in self.asked.own if m.name not in self._unmeasured)
        return {m: 0.0 if m.name in found.refused else found.capped.get(m.name, 1.0) for m in measured}

    def _least(self, found: Fitted) -> float:
        """The least part of its rate that a model is served at."""
        return min(self._parts(found).values())

    def _served(self, found: Fitted) -> tuple[float, ...]:
        """For comparison, the larger the better: by falling priority the least part and the sum of the parts; then less
        share."""
        parts = self._parts(found)
        levels = [
            [part for m, part in parts.items() if m.priority == level]
            for level in sorted({m.priority for m in parts}, reverse=True)
        ]
        return (*(n for level in levels for n in (min(level), sum(level))), -round(found.plan.total_share, 6))


@dataclass(frozen=True)
class _Part:
    """The plan of a part of the rates (None: the even split's is no worse), and the search for it."""

    found: FittedPipelines | None
    steps: int
    complete: bool


def _within(answer: JointPlan, demands: Sequence[ServedModel], together: Mapping[str, int]) -> list[ServedModel]:
    """The demands to plan for with the budgets of `answer`, where as many requests come at once."""
    of_model: dict[str, float] = {}
    for b in answer.budgets:
        of_model[b.model] = min(b.budget_ms, of_model.get(b.model, b.budget_ms))
    strict = [replace(m, slo_ms=min(m.slo_ms, of_model.get(m.name, m.slo_ms))) for m in demands]
    return [for_groups(m, together.get(m.name, 1)) for m in strict]


def with_two_queues(two: FittedPipelines, one: FittedPipelines, answer: QueuedPlan, whole: bool) -> FittedPipelines:
    """`two` with the queues of its stages, and why it is followed and not `one`, which serves all or not (`whole`)."""
    plan = two.fitted.plan
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
        out.append(replace(model, rate=max(model.rate - apart, UNASKED)) if queues[1:] else model)
        out += [replace(model, name=answer.names.of(queue), rate=answer.rate(queue)) for queue in queues[1:]]
    return out


def _less(one: ServingPlan, other: ServingPlan) -> bool:
    return one.total_share < other.total_share - _EPS

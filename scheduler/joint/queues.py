"""One queue or two for a model that requests with unlike budgets ask: two where the total share is strictly smaller.

In one queue the rates are added and the strictest budget holds. Kept apart, requests with much time run in large
batches, and only the others pay for short duty cycles; but each queue needs gpu-lets of its own. So both are planned,
each model's users cut in two where their budgets lie furthest apart, and the plan that takes less is followed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from edge.core.serving import DeviceTable, QueueId
from scheduler.gpulets.policies import ServingPolicy
from scheduler.gpulets.queue_names import ONE_QUEUE_EACH, QueueNames, queue_names
from scheduler.joint.demand import UNASKED, JointProblem, PipelineLoad, StageLoad
from scheduler.joint.planner import MOST_STEPS, JointPlan, plan_jointly

#: Budgets that differ by less have one queue: little is gained there, and pooled requests wait less.
UNLIKE = 2.0
#: Ways to cut a model's users in two that are planned at most, the most promising first.
MOST_CUTS = 3
_EPS = 1e-6

#: A stage by its pipeline and its own name.
StageKey = tuple[str, str]


@dataclass(frozen=True)
class QueueCut:
    """Of `model`, the requests of the stages `apart` have queue 1; those of all others, and clients' own, queue 0."""

    model: str
    apart: frozenset[StageKey]


@dataclass(frozen=True)
class TriedCut:
    """A cut that was planned on top of those that were kept before, and the total share of its plan in devices (None:
    it has none that can be followed)."""

    cut: QueueCut
    share: float | None


@dataclass(frozen=True)
class QueuedPlan:
    """The answer. `plan` follows the `cuts` (empty: every model has one queue, and it is `one`); its models and those
    of `problem`, which it answers, are named by `names`. `tried` has every cut that was planned; of `most_steps` for
    all of them together `steps` were taken, and `complete` is False where a plan of theirs was cut short."""

    plan: JointPlan
    problem: JointProblem
    names: QueueNames
    cuts: tuple[QueueCut, ...]
    one: JointPlan
    tried: tuple[TriedCut, ...]
    steps: int
    most_steps: int
    complete: bool

    def stages(self, queue: QueueId) -> tuple[StageKey, ...]:
        """The stages of pipelines with requests that ask this queue, in their order; none for a queue that the plan
        does not have."""
        name = self._name(queue)
        return tuple((p.name, s.name) for p in self.problem.busy for s in p.stages if s.model == name)

    def rate(self, queue: QueueId) -> float:
        """Rows per second that they ask."""
        name = self._name(queue)
        asking = [p for p in self.problem.busy if not _unasked(p)]
        return sum(p.rate * s.per_request for p in asking for s in p.stages if s.model == name)

    def _name(self, queue: QueueId) -> str | None:
        name = self.names.of(queue)
        # The second queue of a model that has one goes by the model's own name too.
        return name if self.names.queue(name) == queue else None


def plan_with_queues(
    problem: JointProblem, table: DeviceTable, policy: ServingPolicy | None = None, most_steps: int = MOST_STEPS
) -> QueuedPlan:
    """The plan of `problem` with one queue for each model, or with two where that takes strictly less share in total on
    no more devices, or where one queue has no plan. The search for one queue and the search for two count `most_steps`
    each. Raises InvalidValue as `plan_jointly`."""
    one = plan_jointly(problem, table, policy, most_steps)
    best, asked, names = one, problem, ONE_QUEUE_EACH
    kept: list[QueueCut] = []
    tried: list[TriedCut] = []
    possible = cuts(problem)[:MOST_CUTS]
    left, complete = most_steps, True
    for n, cut in enumerate(possible):
        if any(known.model == cut.model for known in kept):
            continue
        mine = queue_names((QueueId(c.model, 1) for c in (*kept, cut)), table.latency_ms)
        separated = cut_apart(problem, (*kept, cut), mine)
        found = plan_jointly(separated, mine.table(table), policy, left // (len(possible) - n))
        left, complete = max(0, left - found.steps), complete and found.complete
        holds = found.plan.schedulable and not mine.mixed(found.plan)
        tried.append(TriedCut(cut, round(found.plan.total_share, 6) if holds else None))
        if holds and _better(found, best):
            best, asked, names = found, separated, mine
            kept.append(cut)
    return QueuedPlan(best, asked, names, tuple(kept), one, tuple(tried), most_steps - left, most_steps, complete)


def _better(found: JointPlan, best: JointPlan) -> bool:
    if not best.plan.schedulable:
        return True
    less = found.plan.total_share < best.plan.total_share - _EPS
    return less and found.plan.devices_used <= best.plan.devices_used


def _unasked(pipeline: PipelineLoad) -> bool:
    """It only bounds a model that clients do not ask themselves."""
    return pipeline.own and pipeline.rate <= UNASKED


@dataclass(frozen=True)
class _User:
    """A stage that asks a model: its budget in the even split, and its rows per second. `own`: it is clients."""

    key: StageKey
    budget_ms: float
    rate: float
    own: bool


def cuts(problem: JointProblem) -> list[QueueCut]:
    """The ways to cut a model's users in two between budgets that are unlike, the most promising first: where most of
    the requests could do with the most of a longer budget. None where all budgets are alike."""
    users: dict[str, list[_User]] = {}
    for pipeline in problem.busy:
        for stage in pipeline.stages:
            if not _unasked(pipeline):
                key, rate = (pipeline.name, stage.name), pipeline.rate * stage.per_request
                users.setdefault(stage.model, []).append(_User(key, pipeline.even_ms[stage.name], rate, pipeline.own))
    found: list[tuple[float, str, float, QueueCut]] = []
    for model, asking in users.items():
        ordered = sorted(asking, key=lambda u: (u.budget_ms, u.key))
        for n, (short, long) in enumerate(pairwise(ordered), 1):
            if long.budget_ms < UNLIKE * short.budget_ms:
                continue
            strict, loose = ordered[:n], ordered[n:]
            # Clients' own requests have queue 0.
            apart = strict if any(u.own for u in loose) else loose
            freed = sum(u.rate for u in loose) * (1 - short.budget_ms / long.budget_ms)
            found.append((-freed, model, short.budget_ms, QueueCut(model, frozenset(u.key for u in apart))))
    return [cut for *_, cut in sorted(found, key=lambda f: f[:3])]


def cut_apart(problem: JointProblem, chosen: tuple[QueueCut, ...], names: QueueNames) -> JointProblem:
    """The problem in which each queue is a model of its own, with a name of `names`. A model's own objective bounds
    both its queues."""
    other: Mapping[str, QueueCut] = {cut.model: cut for cut in chosen}

    def named(pipeline: PipelineLoad, stage: StageLoad) -> StageLoad:
        cut = other.get(stage.model)
        if cut is None or (pipeline.name, stage.name) not in cut.apart:
            return stage
        return replace(stage, model=names.of(QueueId(stage.model, 1)))

    pipelines: list[PipelineLoad] = []
    for pipeline in problem.pipelines:
        pipelines.append(replace(pipeline, stages=tuple(named(pipeline, s) for s in pipeline.stages)))
        if pipeline.own and (model := pipeline.stages[0].model) in other:
            name = names.of(QueueId(model, 1))
            stages = (StageLoad(name, name),)
            pipelines.append(replace(pipeline, name=name, rate=UNASKED, stages=stages))
    apart = tuple(frozenset((cut.model, names.of(QueueId(cut.model, 1)))) for cut in chosen)
    return replace(problem, pipelines=tuple(pipelines), apart=apart)

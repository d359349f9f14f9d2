"""Budgets and gpu-lets chosen together: pack, price what is scarce, split the objective anew, until the total share no
longer falls. The even split, planned as without this package, is the comparison: the answer is never worse.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from edge.core.serving import DeviceTable, ServingPlan
from scheduler.gpulets.mosaic_columns import GpuletCandidates, Workload, workload
from scheduler.gpulets.mosaic_search import Composition, Relaxed, compositions, relaxed
from scheduler.gpulets.policies import ServingPolicy, serving_policy, smallest_plan
from scheduler.joint.blocks import FLUID, WHOLE, all_candidates, fronts
from scheduler.joint.demand import JointProblem
from scheduler.joint.improving import aimed, descended
from scheduler.joint.law import JointVerdict, joint_verdict
from scheduler.joint.shapes import Shape, ShapeBench, compiled, model_budgets, plan_shape, shape_of
from scheduler.joint.splitting import cheapest_split
from scheduler.pipelines.steps import CountedSteps

POLICY = "joint"
#: Shapes tried, in all; and the steps that one programme counts as.
MOST_STEPS = 60_000
PROGRAMME_STEPS = 500
#: Rounds of pricing, splitting and packing, and compositions of one packing that are looked at.
_ROUNDS, _COMPOSITIONS = 4, 2
#: Shapes from which less is aimed at.
_AIMED = 3
_EPS = 1e-9


#: Where a split came from: the even one as planned without this package, and packed anew; the cheapest at the prices of
#: the last packing, if gpu-lets could be divided, if they could not, or half of both; what the best so far leaves.
SplitCode = Literal["even_planned", "even", "priced_divisible", "priced_whole", "priced_half", "best"]


@dataclass(frozen=True)
class StageBudget:
    """A stage's part of its pipeline's objective: `budget_ms`, that of the even split, and the worst case planned."""

    pipeline: str
    stage: str
    model: str
    budget_ms: float
    even_ms: float
    worst_ms: float


@dataclass(frozen=True)
class JointRound:
    """A split that was packed: the objective that each model was given, and the total share (in devices) that came of
    it (None: nothing held)."""

    split: SplitCode
    budgets_ms: Mapping[str, float]
    share: float | None


@dataclass(frozen=True)
class JointPlan:
    """The answer. `plan` is what the serving runtime follows; `budgets` one per stage of each pipeline with requests,
    in their order (empty where nothing is schedulable); `even` the even split's plan, with which it was compared;
    `rounds` what was tried. Of at most `most_steps` the search took `steps`; where `complete` is False it was cut short
    and the plan is the best that it had found."""

    plan: ServingPlan
    budgets: tuple[StageBudget, ...]
    even: ServingPlan
    rounds: tuple[JointRound, ...]
    steps: int
    most_steps: int
    complete: bool

    def budget_ms(self, pipeline: str, stage: str) -> float:
        """The budget of one stage. Raises KeyError for an unknown one."""
        return {(b.pipeline, b.stage): b.budget_ms for b in self.budgets}[pipeline, stage]


def plan_jointly(
    problem: JointProblem, table: DeviceTable, policy: ServingPolicy | None = None, most_steps: int = MOST_STEPS
) -> JointPlan:
    """Budgets for every stage and gpu-lets for every model, on no more devices and no more total share than `policy`
    (default `mosaic`) takes with the even split.

    Not schedulable, with `policy`'s closest plan and its reasons, where neither finds a plan. Raises InvalidValue for a
    model that the table does not have and for an objective shorter than the fastest path.
    """
    problem.check_reachable(table)
    policy = policy or serving_policy("mosaic")
    even = smallest_plan(problem.served({}), table, policy)
    load = workload(problem.served({}), table)
    if not load.models or (not even.schedulable and not load.shares):
        return JointPlan(even, (), even, (), 0, most_steps, True)
    search = _Search(problem, table, load, even, CountedSteps(most_steps))
    best = search.run()
    rounds, steps = tuple(search.rounds), search.steps
    if best is None:
        budgets = _even_budgets(problem, table, even)
        words = ("the even split's plan: no other split takes less",) if even.schedulable else ()
        plan = replace(even, reasons=(*words, *even.reasons))
    else:
        bench = ShapeBench(problem, load)
        plan = compiled(bench, best, POLICY, ())
        judged = joint_verdict(problem, table, plan)
        budgets = _budgets(problem, judged)
        plan = replace(plan, reasons=_reasons(problem, plan, even, budgets, judged))
    return JointPlan(plan, budgets, even, rounds, steps.taken, most_steps, not steps.spent)


_PRICED: tuple[tuple[SplitCode, float], ...] = (
    ("priced_divisible", FLUID),
    ("priced_whole", WHOLE),
    ("priced_half", 0.5),
)


class _Search:
    """The rounds of one problem; `rounds` and `steps` tell what was done."""

    def __init__(
        self, problem: JointProblem, table: DeviceTable, load: Workload, even: ServingPlan, steps: CountedSteps
    ) -> None:
        self._problem, self._table, self._even = problem, table, even
        self._load, self._bench = load, ShapeBench(problem, load)
        self._best: Shape | None = None
        self._total = 10**9
        self._found: list[Shape] = []
        self._tried: set[tuple[float, ...]] = set()
        self.steps = steps
        self.rounds: list[JointRound] = []

    def run(self) -> Shape | None:
        """The smallest shape that holds, where it takes less than the even split's plan; None where there is none."""
        even = {m.name: m.slo_ms + self._problem.burst_ms[m.name] for m in self._load.models}
        if self._even.schedulable:
            shape = plan_shape(self._load, self._even)
            if self._bench.holds(shape) is not None:
                self._keep(descended(self._bench, shape, self.steps))
                self.rounds.append(JointRound("even_planned", even, self._total / 100))
        prices = self._packed("even", even)
        for _ in range(_ROUNDS):
            before = self._total
            for name, budgets in self._splits(prices):
                priced = self._packed(name, budgets)
                prices = priced if priced is not None and self._total < before else prices
            if self._total >= before:
                break
        if self._found:
            least = sorted(dict.fromkeys(self._found), key=self._bench.total)[:_AIMED]
            self._keep(aimed(self._bench, least, self.steps))
        if self._even.schedulable and self._total >= round(100 * self._even.total_share):
            return None
        return self._best

    def _splits(self, prices: Relaxed | None) -> Iterator[tuple[SplitCode, dict[str, float]]]:
        """Splits worth packing at these prices, and the split that the best shape so far leaves to its stages."""
        if prices is not None:
            for name, whole in _PRICED:
                if not self.steps.take(PROGRAMME_STEPS):
                    return
                found = cheapest_split(
                    self._problem, [m.name for m in self._load.models], fronts(self._load, prices, whole)
                )
                if found is not None:
                    yield name, model_budgets(self._problem, found)
        if self._best is not None:
            running = self._bench.holds(self._best)
            assert running is not None
            yield "best", model_budgets(self._problem, running.worst_ms)

    def _packed(self, name: SplitCode, budgets: Mapping[str, float]) -> Relaxed | None:
        """Pack with these budgets and keep the best; the prices at which it was packed, None if it was done before."""
        key = tuple(round(budgets[m.name], 6) for m in self._load.models)
        if key in self._tried or not self.steps.take(2 * PROGRAMME_STEPS):
            return None
        self._tried.add(key)
        own = {m: max(b - self._problem.burst_ms[m], _EPS) for m, b in budgets.items()}
        load = workload(self._problem.served(own), self._table)
        pool = all_candidates(load)
        easier = relaxed(load, pool)
        found: list[int] = []
        for number, composition in enumerate(compositions(load, pool, easier)):
            if self._even.schedulable and len(composition.devices) > self._even.devices_used:
                break
            shape = _composed(load, pool, composition)
            if self._bench.holds(shape) is not None:
                shape = descended(self._bench, shape, self.steps)
                found.append(self._bench.total(shape))
                self._keep(shape)
            if number + 1 == _COMPOSITIONS:
                break
        self.rounds.append(JointRound(name, dict(budgets), min(found) / 100 if found else None))
        return easier

    def _keep(self, shape: Shape) -> None:
        total = self._bench.total(shape)
        self._found.append(shape)
        if total >= self._total:
            return
        plan = compiled(self._bench, shape, POLICY, ())
        if not joint_verdict(self._problem, self._table, plan).faults:
            self._best, self._total = shape, total


def _composed(load: Workload, pool: GpuletCandidates, composition: Composition) -> Shape:
    gpulets = []
    for device, rows in enumerate(composition.devices):
        for row in rows:
            models = tuple(int(m) for m, b in enumerate(pool.batch[row]) if b)
            rates = tuple(float(pool.rate[row, m]) / int(pool.count[row]) for m in models)
            gpulets.append((device, int(pool.share[row]), models, rates))
    return shape_of(load, gpulets)


def _budgets(problem: JointProblem, judged: JointVerdict) -> tuple[StageBudget, ...]:
    """The time that each stage takes, and its part of the time that its longest path leaves."""
    budgets = model_budgets(problem, judged.worst_ms)
    return tuple(
        StageBudget(p.name, s.name, s.model, budgets[s.model], p.even_ms[s.name], judged.worst_ms[s.model])
        for p in problem.busy
        for s in p.stages
    )


def _even_budgets(problem: JointProblem, table: DeviceTable, even: ServingPlan) -> tuple[StageBudget, ...]:
    if not even.schedulable:
        return ()
    judged = joint_verdict(problem, table, even)
    return tuple(
        StageBudget(p.name, s.name, s.model, p.even_ms[s.name], p.even_ms[s.name], judged.worst_ms[s.model])
        for p in problem.busy
        for s in p.stages
    )


def _reasons(
    problem: JointProblem,
    plan: ServingPlan,
    even: ServingPlan,
    budgets: tuple[StageBudget, ...],
    judged: JointVerdict,
) -> tuple[str, ...]:
    """Why the plan is as it is, in words."""
    words = [f"{plan.devices_used} of {problem.devices} devices, {100 * plan.total_share:.0f} % together"]
    words[0] += f"; the even split takes {100 * even.total_share:.0f} %" if even.schedulable else ""
    words[0] += "" if even.schedulable else "; the even split has no plan"
    words += [
        f"{b.pipeline}.{b.stage}: {b.budget_ms:.2f} ms for {b.model}, {b.even_ms:.2f} ms in the even split; "
        f"answers within {b.worst_ms:.2f} ms"
        for b in budgets
    ]
    for name, took in judged.path_ms.items():
        slo = next(p.slo_ms for p in problem.busy if p.name == name)
        words.append(f"{name}: {took:.2f} of {slo:g} ms on the longest path")
    idle = [p.name for p in problem.pipelines if p.rate == 0]
    return (*words, *(f"{name}: no requests, so no gpu-let" for name in idle))

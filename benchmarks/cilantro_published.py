"""Cilantro as its text describes it, for benchmarks.reproduce_cilantro: performance learned by tree-based binning,
policies that plan with bounds, and the end-to-end policy with kernel ridge regression. Ours are in scheduler.tenants.

Where the text leaves a choice it is the one that helps: welfare's bounds are optimised exactly (the text: by an
evolutionary algorithm), and loads are forecast by a first-order autoregression (the text: ARMA(1, 1)).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from scheduler.tenants.grid import first_steps, no_complaints, to_steps
from scheduler.tenants.learned import allocated
from scheduler.tenants.load import LoadForecast
from scheduler.tenants.measured import reasons
from scheduler.tenants.shapes import Floats
from scheduler.tenants.values import (
    IntervalReport,
    ProblemTenant,
    SharingFeedback,
    SharingProblem,
    SharingState,
    SharingStep,
)
from scheduler.tenants.welfare import best_least, best_sum

#: The text's constants: Lipschitz constant, bounds of 90 %, most units that an allocation (or a demand) moves, and how
#: much of a demand is its upper bound.
LIPSCHITZ, BOUND, MOST_MOVE, CAUTIOUS = 10.0, 1.64, 10, 0.75
#: Bins of the finest level of the tree.
DEPTH = 10
#: Performance is read as a part of the goal where it is a rate, and at most this.
MOST = 1.5


class Tree:
    """A tree of intervals of units per load, as parts of all units: each node has the mean of what was reported in it.

    A node counts once its parent is known better than the parent's width allows."""

    def __init__(self, noise: float) -> None:
        self._noise = noise
        self._count = [np.zeros(2**d) for d in range(DEPTH + 1)]
        self._sum = [np.zeros(2**d) for d in range(DEPTH + 1)]

    def add(self, place: float, value: float) -> None:
        """One report at `place`, 0 to 1."""
        for depth in range(DEPTH + 1):
            bin_ = min(2**depth - 1, max(0, int(place * 2**depth)))
            self._count[depth][bin_] += 1
            self._sum[depth][bin_] += value

    def bounds(self) -> tuple[Floats, Floats]:
        """(2^DEPTH,) lower and upper bounds, neither of which falls."""
        size = 2**DEPTH
        low, high, open_ = np.zeros(size), np.full(size, MOST), np.ones(size, bool)
        for depth in range(DEPTH + 1):
            count = np.repeat(self._count[depth], size >> depth)
            mean = np.repeat(self._sum[depth], size >> depth) / np.maximum(count, 1)
            error = BOUND * self._noise / np.sqrt(np.maximum(count, 1e-9))
            width = LIPSCHITZ * 2.0**-depth
            use = open_ & (count > 0)
            high = np.where(use, np.minimum(high, mean + width + error), high)
            low = np.where(use, np.maximum(low, mean - width - error), low)
            open_ = use & (error < width)
        return np.maximum.accumulate(low), np.minimum.accumulate(high[::-1])[::-1]


class Learner:
    """A job's curve and load."""

    def __init__(self, tenant: ProblemTenant, problem: SharingProblem, noise: float) -> None:
        self.tenant, self._units = tenant, problem.units
        self._scale = 1.0 if tenant.goal.capped else tenant.goal.slo
        self._tree, self.load, self._origin = Tree(noise), LoadForecast(), 1.0

    def learn(self, reports: tuple[IntervalReport, ...]) -> None:
        """The reports of an interval."""
        for report in reports:
            load = report.load if self.tenant.load_matters else 1.0
            if self.load.last is None:
                self._origin = load
            self.load = self.load.seen(load)
            self._tree.add(report.allocation / load * self._origin / self._units, report.performance / self._scale)

    def curves(self, problem: SharingProblem) -> tuple[Floats, Floats]:
        """Lower and upper bound of performance over steps, under the upper bound of the load."""
        mean, spread = self.load.ahead(problem.reports_per_interval)
        load = math.exp(mean + BOUND * spread)
        places = np.arange(problem.steps + 1) * problem.granularity / load * self._origin / self._units
        bins = np.minimum((places * 2**DEPTH).astype(int), 2**DEPTH - 1)
        low, high = self._tree.bounds()
        return low[bins] * self._scale, high[bins] * self._scale


class PublishedCilantro:
    """Cilantro-SW, Cilantro-EW or Cilantro-NJC. An instance is for one play: what was learned is in it.

    `noise` is a report's standard deviation as a part of the goal's scale."""

    def __init__(self, objective: str, noise: float = 0.02) -> None:
        self.name = f"cilantro-{objective}"
        self._objective, self._noise = objective, noise
        self._learners: dict[str, Learner] = {}
        self._demands: dict[str, float] = {}

    def begin(self, problem: SharingProblem, seed: int = 0) -> SharingStep:
        """Equal shares."""
        self._learners = {t.id: Learner(t, problem, self._noise) for t in problem.tenants}
        self._demands = dict(zip(problem.ids, problem.entitlements.tolist(), strict=True))
        held = first_steps(problem.entitlements, problem.granularity, problem.steps, problem.floors)
        return self._answer(problem, SharingState(self.name, 0, 0.0, held, seed, {}))

    def step(self, problem: SharingProblem, state: SharingState, feedback: SharingFeedback) -> SharingStep:
        """Learn, and share by the bounds."""
        for name, learner in self._learners.items():
            learner.learn(feedback.reports.get(name, ()))
        curves = {t.id: self._curves(t, problem) for t in problem.tenants}
        if self._objective == "njc":
            held = self._no_complaints(problem, curves)
        else:
            held = self._welfare(problem, curves, state.held)
        return self._answer(
            problem, SharingState(self.name, feedback.round + 1, feedback.elapsed_s, held, state.seed, {})
        )

    def _curves(self, tenant: ProblemTenant, problem: SharingProblem) -> tuple[Floats, Floats]:
        """Bounds over steps; of a job that reports nothing, linear up to the demand that it declares."""
        learner = self._learners[tenant.id]
        if learner.load.last is None:
            units = problem.granularity * np.arange(problem.steps + 1)
            demand = tenant.declared_demand or problem.units / len(problem.tenants)
            line = tenant.goal.slo * np.minimum(1.0, units / demand)
            return line, line
        return learner.curves(problem)

    def _welfare(
        self, problem: SharingProblem, curves: Mapping[str, tuple[Floats, Floats]], held: tuple[int, ...]
    ) -> tuple[int, ...]:
        """The greatest welfare of the upper bounds within MOST_MOVE of the last allocation, exactly; what it leaves is
        spread evenly."""
        before = np.array(held)
        least = np.maximum(0, before - MOST_MOVE)
        most = np.minimum(before + MOST_MOVE, problem.steps)
        tables = np.array([np.asarray(t.goal.utility_of(curves[t.id][1])) for t in problem.tenants])
        rest = np.arange(problem.steps - int(least.sum()) + 1)
        rows = np.take_along_axis(tables, np.minimum(least[:, None] + rest, most[:, None]), axis=1)
        more = best_sum(rows - rows[:, :1]) if self._objective == "sw" else best_least(rows)
        out = np.minimum(least + np.array(more), most)
        for _ in range(2 * MOST_MOVE):
            spare, room = problem.steps - int(out.sum()), np.flatnonzero(out < most)
            if spare <= 0 or not len(room):
                break
            out[room[:spare]] += 1
        return tuple(int(x) for x in out)

    def _no_complaints(self, problem: SharingProblem, curves: Mapping[str, tuple[Floats, Floats]]) -> tuple[int, ...]:
        """Recommended demands through the procedure."""
        for tenant in problem.tenants:
            low, high = curves[tenant.id]
            slo, before = tenant.goal.slo, self._demands[tenant.id]
            if self._learners[tenant.id].load.last is None and tenant.declared_demand is not None:
                self._demands[tenant.id] = tenant.declared_demand
                continue
            upper = int(np.argmax(low >= slo)) if (low >= slo).any() else problem.steps
            explore = int(np.argmax(np.minimum(high - slo, slo - low)))
            wanted = problem.granularity * (CAUTIOUS * upper + (1 - CAUTIOUS) * explore)
            self._demands[tenant.id] = min(before + MOST_MOVE, max(before - MOST_MOVE, wanted))
        demands = [self._demands[t.id] for t in problem.tenants]
        units = no_complaints(demands, [t.weight for t in problem.tenants], problem.units)
        return to_steps(units, problem.granularity, problem.steps)

    def _answer(self, problem: SharingProblem, state: SharingState) -> SharingStep:
        return SharingStep(state, allocated(problem, state.held), reasons(problem, [None] * len(problem.tenants)))


class PublishedEndToEnd:
    """Cilantro for the services of one application: kernel ridge regression (Matern, 5/2) of the logarithm of latency
    over all shares per load, its upper bound on performance maximised by mutations. One instance is for one play."""

    name = "cilantro-e2e"
    #: Candidates per round, and the length of the kernel in equal shares.
    CANDIDATES, LENGTH, RIDGE = 100, 1.5, 0.02

    def __init__(self) -> None:
        self._rows: list[Floats] = []
        self._values: list[float] = []

    def begin(self, problem: SharingProblem, seed: int = 0) -> SharingStep:
        """Equal shares."""
        held = to_steps(problem.entitlements, problem.granularity, problem.steps)
        return self._answer(problem, SharingState(self.name, 0, 0.0, held, seed, {}))

    def step(self, problem: SharingProblem, state: SharingState, feedback: SharingFeedback) -> SharingStep:
        """Fit, then choose."""
        report = feedback.reports[""][0]
        if not self._rows:
            self._load = report.load
        self._rows.append(self._place(problem, np.array(state.held), report.load))
        self._values.append(-math.log(report.performance))
        rng = np.random.default_rng([state.seed, feedback.round, 23])
        held = self._chosen(problem, np.array(state.held), report.load, rng)
        return self._answer(
            problem, SharingState(self.name, feedback.round + 1, feedback.elapsed_s, held, state.seed, {})
        )

    def _place(self, problem: SharingProblem, steps: Floats, load: float) -> Floats:
        return np.asarray(steps * problem.granularity / problem.entitlements * self._load / load)

    def _chosen(self, problem: SharingProblem, held: Floats, load: float, rng: np.random.Generator) -> tuple[int, ...]:
        seen, values = np.array(self._rows), np.array(self._values)
        gram = _matern(seen, seen, self.LENGTH)
        inverse = np.linalg.inv(gram + self.RIDGE * np.eye(len(seen)))
        middle, scale = values.mean(), max(0.1, float(values.std()))
        weights = inverse @ ((values - middle) / scale)
        best_known = np.array([r * load / self._load * problem.entitlements for r in seen[np.argsort(-values)[:3]]])
        parents = [held, *(np.maximum(1, np.round(b)) for b in best_known)]
        tries = np.array([_mutated(parents[k % len(parents)], held, problem, rng) for k in range(self.CANDIDATES)])
        at = np.array([self._place(problem, t, load) for t in tries])
        cross = _matern(at, seen, self.LENGTH)
        variance = np.maximum(0.0, 1 - np.einsum("ij,jk,ik->i", cross, inverse, cross))
        bound = cross @ weights + BOUND * np.sqrt(variance)
        return tuple(int(x) for x in tries[int(bound.argmax())])

    def _answer(self, problem: SharingProblem, state: SharingState) -> SharingStep:
        return SharingStep(state, allocated(problem, state.held), reasons(problem, [None] * len(problem.tenants)))


class EpsilonGreedy(PublishedEndToEnd):
    """A random allocation every third time, else the best one seen."""

    name = "epsilon-greedy"

    def _chosen(self, problem: SharingProblem, held: Floats, load: float, rng: np.random.Generator) -> tuple[int, ...]:
        if rng.random() < 1 / 3:
            return _drawn(problem, rng)
        best = self._rows[int(np.argmax(self._values))] * problem.entitlements * load / self._load
        return to_steps(best * problem.units / best.sum(), problem.granularity, problem.steps)


def _drawn(problem: SharingProblem, rng: np.random.Generator) -> tuple[int, ...]:
    count = len(problem.tenants)
    rest = to_steps(rng.dirichlet(np.ones(count)) * (problem.steps - count), 1.0, problem.steps - count)
    return tuple(1 + r for r in rest)


def _mutated(parent: Floats, held: Floats, problem: SharingProblem, rng: np.random.Generator) -> Floats:
    """Up to 20 units moved one by one, within MOST_MOVE of what is held."""
    out = np.clip(parent, np.maximum(1, held - MOST_MOVE), held + MOST_MOVE)
    for _ in range(int(rng.integers(1, 21))):
        giver, taker = rng.integers(0, len(out), 2)
        if out[giver] > max(1, held[giver] - MOST_MOVE) and out[taker] < held[taker] + MOST_MOVE:
            out[giver] -= 1
            out[taker] += 1
    while out.sum() > problem.steps:
        out[int(np.argmax(out - np.maximum(1, held - MOST_MOVE)))] -= 1
    while out.sum() < problem.steps:
        out[int(rng.integers(0, len(out)))] += 1
    return out


def _matern(a: Floats, b: Floats, length: float) -> Floats:
    """(A, B) Matern kernel of smoothness 5/2."""
    r = np.sqrt(np.maximum(0.0, ((a[:, None] - b[None, :]) ** 2).sum(2))) * math.sqrt(5) / length
    return np.asarray((1 + r + r * r / 3) * np.exp(-r))

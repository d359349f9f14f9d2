"""Policies that plan with learned curves: social and egalitarian welfare, fairness without justified complaints."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from statistics import NormalDist
from typing import Any

import numpy as np

from edge.core import checks
from edge.core.errors import InvalidValue
from edge.core.fields import mapping
from scheduler.tenants.curve import CurveMemory, LearnedCurve, learned, with_round
from scheduler.tenants.grid import first_steps, no_complaints, to_steps, with_floors
from scheduler.tenants.load import LoadForecast, nodes
from scheduler.tenants.remembered import memory_from, memory_json
from scheduler.tenants.shapes import Floats
from scheduler.tenants.usable import at_least, in_steps
from scheduler.tenants.values import (
    IntervalReport,
    ProblemTenant,
    ShareReason,
    SharingFeedback,
    SharingProblem,
    SharingState,
    SharingStep,
    Source,
)
from scheduler.tenants.welfare import best_insured_least, best_sum, with_spare

#: Loads that a share is judged under: this many standard deviations from the forecast, each with its part.
SPREAD, PARTS = (0.3,), (1.0,)
#: A tenant keeps at least this part of its share from one round to the next: a curve that was believed too good is then
#: found out before much is lost.
KEEP = 0.7
#: The sum suffers less from one tenant's bad round than the least does, and may try more.
KEEP_FOR_SUM = 0.5
#: Social welfare plans with a bound so many standard deviations above the mean, as it must try what it does not know.
OPTIMISM = 0.5
#: Egalitarian welfare plans with the mean, and insures the least utility with a softness of about what the unluckiest
#: tenant loses: the error of one tenant's estimated utility after a few rounds, times how far the least of so many is
#: expected to lie below the mean.
UTILITY_ERROR, LEAST_SOFTNESS = 0.0107, 0.005
#: Share that welfare does not need goes where a bound so far below the mean gains most: no other tenant loses by it.
INSURANCE = 2.0
#: So wide is the logarithm of a demand that is never measured, where what welfare does not need is given away: half of
#: it and twice of it are 1.4 of these away.
DEMAND_WIDTH = 0.5
#: Demands are where the curve, so many standard deviations below its mean, reaches the goal.
CAUTION = 1.0


@dataclass(frozen=True)
class TenantMemory:
    """The curve and the load of one tenant, and the load that the grid's origin refers to (None before any)."""

    curve: CurveMemory = field(default_factory=CurveMemory)
    load: LoadForecast = field(default_factory=LoadForecast)
    origin: float | None = None

    def check(self, path: str) -> None:
        """Raises InvalidValue, with the field's path, for what no reports can lead to: damage may leave numbers that
        can be read, and no decision be made with them."""
        self.curve.check(f"{path}.curve")
        self.load.check(f"{path}.load")
        if self.origin is not None:
            checks.in_range(f"{path}.origin", self.origin, 0.0, 1e12, low_open=True)


@dataclass(frozen=True)
class TenantView:
    """A tenant with what is known of it now: its curve, the place of each number of steps under each forecast load, and
    the performance over steps that is believed at most (None: nothing but the curve says it)."""

    tenant: ProblemTenant
    memory: TenantMemory
    curve: LearnedCurve
    places: tuple[Floats, ...]
    entitlement: float
    ceiling: Floats | None = None

    def performance(self, widths: float) -> tuple[Floats, ...]:
        """Performance over steps under each forecast load, so many standard deviations from the mean."""
        scale = 1.0 if self.tenant.goal.capped else self.tenant.goal.slo
        found = tuple(scale * self.curve.at(p, widths) for p in self.places)
        return found if self.ceiling is None else tuple(np.minimum(f, self.ceiling) for f in found)

    def utility(self, widths: float) -> Floats:
        """Utility over steps, in the mean over the forecast loads."""
        out = np.zeros_like(self.places[0])
        for part, performance in zip(PARTS, self.performance(widths), strict=True):
            out += part * self.tenant.goal.utility_of(performance)
        return np.maximum.accumulate(out)


def updated(
    memory: TenantMemory, tenant: ProblemTenant, entitlement: float, reports: tuple[IntervalReport, ...]
) -> TenantMemory:
    """With the reports of one interval. Reports without load or share teach nothing about the curve."""
    load, origin = memory.load, memory.origin
    seen = []
    for report in reports:
        demand = report.load if tenant.load_matters else 1.0
        if demand <= 0 or report.allocation <= 0:
            continue
        load = load.seen(demand)
        origin = demand if origin is None else origin
        place = math.log(report.allocation) - math.log(demand) + math.log(origin) - math.log(entitlement)
        seen.append((place, report.performance / (1.0 if tenant.goal.capped else tenant.goal.slo)))
    curve = memory.curve
    if seen:
        curve = with_round(curve, learned(curve, tenant.goal.ending), seen, tenant.goal.ending)
    return TenantMemory(curve, load, origin)


def viewed(
    problem: SharingProblem, tenant: ProblemTenant, memory: TenantMemory, entitlement: float, load: float | None = None
) -> TenantView:
    """A tenant of which at least one load is known, under the loads that are to come, or under `load` (above 0)."""
    origin = memory.origin or 1.0
    units = problem.granularity * np.arange(problem.steps + 1)
    with np.errstate(divide="ignore"):
        log_units = np.log(units) + math.log(origin) - math.log(entitlement)
    forecast = memory.load.ahead(problem.reports_per_interval) if load is None else (math.log(load), 0.0)
    places = tuple(log_units - math.log(load) for load in nodes(forecast, SPREAD))
    return TenantView(tenant, memory, learned(memory.curve, tenant.goal.ending), places, entitlement)


def table(
    problem: SharingProblem,
    tenant: ProblemTenant,
    view: TenantView | None,
    entitlement: float,
    widths: float,
    trusting: bool = False,
) -> Floats:
    """Utility over steps: learned, else linear up to what the tenant is taken to demand, where `trusting` at least what
    it declares. With `widths` below 0, the mean over the demands that it may have as well."""
    if view is not None:
        return in_steps(view.utility(widths), tenant.usable, problem.granularity)
    claim, units = tenant.claim, problem.granularity * np.arange(problem.steps + 1)
    demand = unmeasured_demand(tenant, entitlement)
    if trusting and claim is not None:
        demand = max(demand, claim.demand)
    if demand <= 0:
        return np.ones_like(units)
    known = widths >= 0 or (claim is not None and claim.source != "declared")
    demands = demand * (np.ones(1) if known else _demand_factors())
    utility = np.asarray(np.minimum(1.0, units / demands[:, None]).mean(0), dtype=np.float64)
    return in_steps(utility, tenant.usable, problem.granularity)


@cache
def _demand_factors() -> Floats:
    """Demands that an unmeasured tenant may have, over the one it is taken to have: equally likely ones."""
    return np.exp([DEMAND_WIDTH * NormalDist().inv_cdf((k + 0.5) / 9) for k in range(9)])


def unmeasured_demand(tenant: ProblemTenant, entitlement: float) -> float:
    """Units that a tenant without measurements is taken to demand.

    Its declaration and its entitlement are both believed half, on a logarithmic scale: one that declares too little is
    not left with that, and one that declares too much gains less than it declares. A profile is believed, and so is
    what was seen of its use."""
    claim = tenant.claim
    if claim is None:
        return entitlement
    return math.sqrt(claim.demand * entitlement) if claim.source == "declared" else claim.demand


def demand_of(
    problem: SharingProblem, tenant: ProblemTenant, view: TenantView | None, entitlement: float, caution: float
) -> float:
    """Units with which the goal is reached; all units where no share is known to reach it."""
    if view is None:
        return at_least(tenant.usable, unmeasured_demand(tenant, entitlement))
    reached = view.utility(-caution) >= 1.0 - 1e-6
    if not reached.any():
        return problem.units
    return at_least(tenant.usable, float(problem.granularity * int(reached.argmax())))


def softness(tenants: int) -> float:
    """UTILITY_ERROR times the expected distance of the least of `tenants` standard normal values from 0 (Blom)."""
    return max(LEAST_SOFTNESS, UTILITY_ERROR * NormalDist().inv_cdf((tenants - 0.375) / (tenants + 0.25)))


@dataclass(frozen=True)
class Standing:
    """The basis of a decision: the knowledge of each tenant (None: nothing yet), the steps that it holds, and
    whether it was measured in the last interval. A tenant that was not keeps its share, unless it never is measured and
    something else says what it demands."""

    problem: SharingProblem
    views: tuple[TenantView | None, ...]
    held: tuple[int, ...]
    measured: tuple[bool, ...]

    def holds(self, j: int) -> bool:
        """Whether tenant `j` keeps its share because nothing was measured."""
        tenant = self.problem.tenants[j]
        return (tenant.feedback or tenant.claim is None) and not self.measured[j]

    def careful_steps(self) -> list[int]:
        """The least steps of each tenant where no bad round may be risked: KEEP of its share, and all of it after it
        did worse than its band, as it may have changed."""
        worse = [view is not None and view.memory.curve.outside < 0 for view in self.views]
        return [steps if bad else int(steps * KEEP) for steps, bad in zip(self.held, worse, strict=True)]

    def _least(self, kept: Sequence[int]) -> list[int]:
        """The least steps that are allowed to each. Where all of them together are more than there are, as a floor has
        risen above what its tenant holds, first caution goes, then what is held without a measurement; floors stay."""
        problem, count = self.problem, range(len(self.held))
        floors = list(problem.floors)
        held = [self.held[j] if self.holds(j) else floors[j] for j in count]
        careful = [held[j] if self.holds(j) else max(floors[j], kept[j]) for j in count]
        return next((least for least in (careful, held) if sum(least) <= problem.steps), floors)

    def tables(self, widths: float, keep: float | Sequence[int], trusting: bool = False) -> Floats:
        """Utilities (tenants, steps), so many standard deviations from the mean; steps that are not allowed (below the
        floor, or below the part `keep` of the share held, or the steps `keep`) are negative. `trusting`: a tenant
        that is never measured demands what it declares at least."""
        problem = self.problem
        rows = zip(problem.tenants, self.views, problem.entitlements.tolist(), strict=True)
        out = np.array([table(problem, tenant, view, entitled, widths, trusting) for tenant, view, entitled in rows])
        kept = [int(steps * keep) if isinstance(keep, float) else keep[j] for j, steps in enumerate(self.held)]
        for j, (row, steps, least) in enumerate(zip(out, self.held, self._least(kept), strict=True)):
            if self.holds(j):
                row[steps:] = row[steps]
            row[:least] = -1.0
        return out

    def demands(self, caution: float, keep: float) -> list[float]:
        """Units that each tenant demands, at least the part `keep` of what it holds."""
        problem = self.problem
        rows = zip(problem.tenants, self.views, problem.entitlements.tolist(), self.held, strict=True)
        out = []
        for j, (tenant, view, entitled, steps) in enumerate(rows):
            units = steps * problem.granularity
            demand = units if self.holds(j) else demand_of(problem, tenant, view, entitled, caution)
            out.append(max(demand, keep * units, tenant.floor))
        return out


class LearnedPolicy(ABC):
    """The part that all policies with learned curves share: memory, views, reasons. Subclasses choose the steps."""

    name = ""

    def begin(self, problem: SharingProblem, seed: int = 0) -> SharingStep:
        """Entitlements, as nothing is known."""
        held = first_steps(problem.entitlements, problem.granularity, problem.steps, problem.floors)
        memory = {t.id: memory_json(TenantMemory()) for t in problem.tenants}
        state = SharingState(self.name, 0, 0.0, held, seed, {"tenants": memory})
        count = len(problem.tenants)
        return answer(Standing(problem, (None,) * count, held, (True,) * count), state)

    def check(self, problem: SharingProblem, memory: Mapping[str, Any]) -> None:
        """Raises InvalidValue, with the field's path, for a memory that no conversation about `problem` leads to."""
        known = mapping(memory.get("tenants"), "memory.tenants")
        if set(known) != set(problem.ids):
            raise InvalidValue("memory.tenants", sorted(known), "each of the tenants " + ", ".join(problem.ids))
        for tenant in problem.ids:
            path = f"memory.tenants.{tenant}"
            memory_from(known[tenant], TenantMemory, path).check(path)

    def step(self, problem: SharingProblem, state: SharingState, feedback: SharingFeedback) -> SharingStep:
        """Learn from one interval and share anew."""
        known = state.memory["tenants"]
        memories: dict[str, Any] = {}
        views: list[TenantView | None] = []
        seen: list[bool] = []
        for tenant, entitled in zip(problem.tenants, problem.entitlements.tolist(), strict=True):
            memory = memory_from(known[tenant.id], TenantMemory)
            # A tenant without entitlement is learned on the scale of an equal share.
            scale = entitled or problem.units / len(problem.tenants)
            reports = tuple(r for r in feedback.reports.get(tenant.id, ()) if r.allocation > 0)
            memory = updated(memory, tenant, scale, reports) if reports else memory
            memories[tenant.id] = memory_json(memory)
            views.append(viewed(problem, tenant, memory, scale) if memory.load.last is not None else None)
            # A tenant that held nothing could not be measured; it may be given something again.
            seen.append(bool(reports) or state.held[problem.ids.index(tenant.id)] == 0)
        standing = Standing(problem, tuple(views), state.held, tuple(seen))
        held = with_floors(self.choose(standing), problem.floors)
        round_, elapsed_s = feedback.round + 1, feedback.elapsed_s
        return answer(standing, SharingState(self.name, round_, elapsed_s, held, state.seed, {"tenants": memories}))

    @abstractmethod
    def choose(self, standing: Standing) -> tuple[int, ...]:
        """Steps of each tenant."""


class SocialWelfarePolicy(LearnedPolicy):
    """The greatest mean utility, by bounds above the mean."""

    name = "sw"

    def choose(self, standing: Standing) -> tuple[int, ...]:
        """By dynamic programme, exact; steps that it leaves are insurance."""
        steps = best_sum(standing.tables(OPTIMISM, KEEP_FOR_SUM))
        return tuple(with_spare(standing.tables(-INSURANCE, KEEP_FOR_SUM), steps))


class EgalitarianWelfarePolicy(LearnedPolicy):
    """The greatest least utility, by means and insured."""

    name = "ew"

    def choose(self, standing: Standing) -> tuple[int, ...]:
        """By bisection, then insured by a dynamic programme around it; steps left are insurance.

        Declarations are trusted: a tenant that is believed to need too little is the least, and nothing shows it. One
        that is believed to need too much costs all others a little each."""
        least = standing.careful_steps()
        steps = best_insured_least(standing.tables(0.0, least, trusting=True), softness(len(standing.held)))
        return tuple(with_spare(standing.tables(-INSURANCE, least, trusting=True), steps))


class NoComplaintsPolicy(LearnedPolicy):
    """Fairness without justified complaints, with demands where a curve below the mean reaches the goal."""

    name = "njc"

    def choose(self, standing: Standing) -> tuple[int, ...]:
        """Demands through the procedure; steps without a demand stay free."""
        problem = standing.problem
        weights = [tenant.weight for tenant in problem.tenants]
        units = no_complaints(standing.demands(CAUTION, KEEP), weights, problem.units)
        return to_steps(units, problem.granularity, problem.steps)


def answer(standing: Standing, state: SharingState) -> SharingStep:
    """The allocation of `state` with its reasons."""
    problem = standing.problem
    reasons: dict[str, ShareReason] = {}
    rows = zip(problem.tenants, standing.views, problem.entitlements.tolist(), state.held, strict=True)
    for j, (tenant, view, entitled, steps) in enumerate(rows):
        if view is None:
            unknown: Source = "held" if tenant.feedback and standing.holds(j) else "entitlement"
            source: Source = "declared" if tenant.declared_demand is not None else unknown
            reasons[tenant.id] = ShareReason(source, None, tenant.declared_demand)
            continue
        utility, curve = view.utility(0.0), view.memory.curve
        best = float(utility[-1])
        demand = demand_of(problem, tenant, view, entitled, 0.0) if best >= 1.0 - 1e-6 else None
        reasons[tenant.id] = ShareReason(
            "held" if standing.holds(j) else "learned",
            round(float(utility[steps]), 4),
            demand,
            curve.reports,
            curve.changes,
            round(best, 4),
        )
    return SharingStep(state, allocated(problem, state.held), reasons)


def allocated(problem: SharingProblem, held: Sequence[int]) -> Mapping[str, float]:
    """Units by tenant."""
    return {i: round(steps * problem.granularity, 9) for i, steps in zip(problem.ids, held, strict=True)}

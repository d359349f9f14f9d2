"""Policies that plan with learned curves: social welfare, egalitarian welfare, fairness without justified complaints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.tenants.curve import CurveMemory, LearnedCurve, learned, with_round
from scheduler.tenants.grid import no_complaints, to_steps
from scheduler.tenants.load import LoadForecast, nodes
from scheduler.tenants.shapes import Floats
from scheduler.tenants.values import (
    IntervalReport,
    SharingAnswer,
    SharingFeedback,
    SharingProblem,
    SharingState,
    ShareReason,
    Tenant,
)
from scheduler.tenants.remembered import memory_from, memory_json
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
#: Egalitarian welfare plans with the mean, and insures the least utility with this softness: about the error of one
#: tenant's estimated utility after a few rounds.
SOFTNESS = 0.02
#: What welfare does not need goes where a bound so far below the mean gains most: nobody else loses by it.
INSURANCE = 2.0
#: Demands are where the curve, so many standard deviations below its mean, reaches the goal.
CAUTION = 0.5


@dataclass(frozen=True)
class TenantMemory:
    """The curve and the load of one tenant, and the load that the grid's origin refers to (None before any)."""

    curve: CurveMemory = CurveMemory()
    load: LoadForecast = LoadForecast()
    origin: float | None = None


@dataclass(frozen=True)
class View:
    """A tenant with what is known of it now: its curve, the place of each number of steps under each forecast load."""

    tenant: Tenant
    memory: TenantMemory
    curve: LearnedCurve
    places: tuple[Floats, ...]
    entitlement: float

    def performance(self, widths: float) -> tuple[Floats, ...]:
        """Performance over steps under each forecast load, so many standard deviations from the mean."""
        scale = 1.0 if self.tenant.goal.capped else self.tenant.goal.slo
        return tuple(scale * self.curve.at(p, widths) for p in self.places)

    def utility(self, widths: float) -> Floats:
        """Utility over steps, in the mean over the forecast loads."""
        out = np.zeros_like(self.places[0])
        for part, performance in zip(PARTS, self.performance(widths), strict=True):
            out += part * self.tenant.goal.utility_of(performance)
        return np.maximum.accumulate(out)


def updated(memory: TenantMemory, tenant: Tenant, entitlement: float, reports: tuple[IntervalReport, ...]) -> TenantMemory:
    """With the reports of one interval. Reports without load or share teach nothing about the curve."""
    load, origin = memory.load, memory.origin
    seen = []
    for report in reports:
        demand = report.load if tenant.load_matters else 1.0
        if demand <= 0 or report.allocation <= 0:
            continue
        load = load.seen(demand)
        origin = demand if origin is None else origin
        place = math.log(report.allocation / demand * origin / entitlement)
        seen.append((place, report.performance / (1.0 if tenant.goal.capped else tenant.goal.slo)))
    curve = memory.curve
    if seen:
        curve = with_round(curve, learned(curve, tenant.goal.capped), seen, tenant.goal.capped)
    return TenantMemory(curve, load, origin)


def viewed(problem: SharingProblem, tenant: Tenant, memory: TenantMemory, entitlement: float) -> View:
    """A tenant of which at least one load is known."""
    origin = memory.origin or 1.0
    units = problem.granularity * np.arange(problem.steps + 1)
    with np.errstate(divide="ignore"):
        log_units = np.log(units * origin / entitlement)
    forecast = memory.load.ahead(problem.reports_per_interval)
    places = tuple(log_units - math.log(load) for load in nodes(forecast, SPREAD))
    return View(tenant, memory, learned(memory.curve, tenant.goal.capped), places, entitlement)


def table(problem: SharingProblem, tenant: Tenant, view: View | None, entitlement: float, widths: float) -> Floats:
    """Utility over steps: learned, else linear up to the declared demand, else linear up to the entitlement."""
    if view is not None:
        return view.utility(widths)
    units = problem.granularity * np.arange(problem.steps + 1)
    demand = entitlement if tenant.declared_demand is None else tenant.declared_demand
    return np.minimum(1.0, units / demand) if demand > 0 else np.ones_like(units)


def demand_of(problem: SharingProblem, tenant: Tenant, view: View | None, entitlement: float, caution: float) -> float:
    """Units with which the goal is reached; all units where no share is known to reach it."""
    if view is None:
        return entitlement if tenant.declared_demand is None else tenant.declared_demand
    utility = view.utility(-caution)
    reached = utility >= 1.0 - 1e-6
    return float(problem.granularity * int(reached.argmax())) if reached.any() else problem.units


class LearnedPolicy:
    """The part that all policies with learned curves share: memory, views, reasons. Subclasses choose the steps."""

    name = ""

    def begin(self, problem: SharingProblem, seed: int = 0) -> SharingAnswer:
        """Entitlements, as nothing is known."""
        held = to_steps(problem.entitlements, problem.granularity, problem.steps)
        memory = {t.id: memory_json(TenantMemory()) for t in problem.tenants}
        state = SharingState(self.name, 0, 0.0, held, seed, {"tenants": memory})
        return answer(problem, state, [None] * len(problem.tenants))

    def step(self, problem: SharingProblem, state: SharingState, feedback: SharingFeedback) -> SharingAnswer:
        """Learn from one interval and share anew."""
        known = state.memory["tenants"]
        memories, views = {}, []
        for tenant, entitled in zip(problem.tenants, problem.entitlements.tolist(), strict=True):
            memory = memory_from(known[tenant.id], TenantMemory)
            reports = feedback.reports.get(tenant.id, ())
            if reports and entitled > 0:
                memory = updated(memory, tenant, entitled, reports)
            memories[tenant.id] = memory_json(memory)
            views.append(viewed(problem, tenant, memory, entitled) if memory.load.last is not None else None)
        held = self.choose(problem, views, state.held)
        state = SharingState(
            self.name, feedback.round + 1, feedback.elapsed_s, held, state.seed, {"tenants": memories}
        )
        return answer(problem, state, views)

    def choose(self, problem: SharingProblem, views: Sequence[View | None], held: tuple[int, ...]) -> tuple[int, ...]:
        """Steps of each tenant."""
        raise NotImplementedError


def tables(problem: SharingProblem, views: Sequence[View | None], held: tuple[int, ...], widths: float, keep: float) -> Floats:
    """Utilities (tenants, steps); steps that take too much of a held share at once are negative."""
    rows = zip(problem.tenants, views, problem.entitlements.tolist(), strict=True)
    out = np.array([table(problem, tenant, view, entitled, widths) for tenant, view, entitled in rows])
    for row, steps in zip(out, held, strict=True):
        row[: int(steps * keep)] = -1.0
    return out


class SocialWelfarePolicy(LearnedPolicy):
    """The greatest mean utility, by bounds above the mean."""

    name = "sw"

    def choose(self, problem: SharingProblem, views: Sequence[View | None], held: tuple[int, ...]) -> tuple[int, ...]:
        """By dynamic programme, exact."""
        steps = best_sum(tables(problem, views, held, OPTIMISM, KEEP_FOR_SUM))
        return tuple(with_spare(tables(problem, views, held, -INSURANCE, KEEP_FOR_SUM), steps))


class EgalitarianWelfarePolicy(LearnedPolicy):
    """The greatest least utility, by means and insured."""

    name = "ew"

    def choose(self, problem: SharingProblem, views: Sequence[View | None], held: tuple[int, ...]) -> tuple[int, ...]:
        """By bisection, then insured by a dynamic programme around it."""
        steps = best_insured_least(tables(problem, views, held, 0.0, KEEP), SOFTNESS)
        return tuple(with_spare(tables(problem, views, held, -INSURANCE, KEEP), steps))


class NoComplaintsPolicy(LearnedPolicy):
    """Fairness without justified complaints, with demands where a curve below the mean reaches the goal."""

    name = "njc"

    def choose(self, problem: SharingProblem, views: Sequence[View | None], held: tuple[int, ...]) -> tuple[int, ...]:
        """Demands through the procedure; what nobody demands stays with those that declare nothing to give up."""
        rows = zip(problem.tenants, views, problem.entitlements.tolist(), strict=True)
        demands = [demand_of(problem, tenant, view, entitled, CAUTION) for tenant, view, entitled in rows]
        kept = [max(d, KEEP * h * problem.granularity) for d, h in zip(demands, held, strict=True)]
        units = no_complaints(kept, [t.weight for t in problem.tenants], problem.units)
        return to_steps(units, problem.granularity, problem.steps)


def answer(problem: SharingProblem, state: SharingState, views: Sequence[View | None]) -> SharingAnswer:
    """The allocation of `state` with its reasons."""
    reasons: dict[str, ShareReason] = {}
    rows = zip(problem.tenants, views, problem.entitlements.tolist(), state.held, strict=True)
    for tenant, view, entitled, steps in rows:
        if view is None:
            declared = tenant.declared_demand is not None
            reasons[tenant.id] = ShareReason("declared" if declared else "entitlement", None, tenant.declared_demand)
            continue
        utility, curve = view.utility(0.0), view.memory.curve
        reached = bool(utility[-1] >= 1.0 - 1e-6)
        demand = demand_of(problem, tenant, view, entitled, 0.0) if reached else None
        reasons[tenant.id] = ShareReason(
            "learned", round(float(utility[steps]), 4), demand, curve.reports, curve.changes, not reached
        )
    return SharingAnswer(state, allocated(problem, state.held), reasons)


def allocated(problem: SharingProblem, held: Sequence[int]) -> Mapping[str, float]:
    """Units by tenant."""
    return {i: round(steps * problem.granularity, 9) for i, steps in zip(problem.ids, held, strict=True)}

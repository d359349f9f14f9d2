"""Feedback as it arrives: read, checked against the state, and cleaned of reports that nothing can be learned from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edge.core.errors import InvalidValue
from edge.core.fields import mapping, number, required, sequence
from scheduler.tenants.values import IntervalReport, SharingFeedback, SharingProblem, SharingState

#: A load below this is no traffic.
LEAST_LOAD = 1e-9
#: A round that is so many ahead is a mistake: all that come after it would be late.
MOST_LEFT_OUT = 10_000
#: A part, or a share of all units, may be so much above 1 by rounding.
_ROUNDED = 1e-6


class ClockPutBack(InvalidValue):
    """The time of a feedback is before that of the last one: its reports cannot be placed and are not used. The caller
    holds, and takes `state` on, by which later feedback is checked against the new clock: it may be back for good."""

    def __init__(self, before: SharingState, elapsed_s: float) -> None:
        super().__init__("elapsed_s", elapsed_s, f"at least {before.elapsed_s}, that of the last feedback")
        self.before, self.state = before, replace(before, elapsed_s=elapsed_s)

    def __reduce__(self) -> tuple[type[ClockPutBack], tuple[SharingState, float]]:  # type: ignore[override]
        return type(self), (self.before, self.state.elapsed_s)


def feedback_from(problem: SharingProblem, state: SharingState, value: Any, before: int = 0) -> SharingFeedback:
    """Read a `feedback` object for `state`, of which so many rounds were `before` those that the object counts.

    Raises InvalidValue for anything that is no feedback, for a round that was answered already or before (doubled or
    late) or that leaves out more than MOST_LEFT_OUT, and ClockPutBack for a time before that of the last feedback.
    Where fewer rounds were left out, the rest is learned. Reports whose load, performance or allocation is missing, not
    finite or negative are dropped and counted; so are those with more units than there are (in a pipeline: of all
    services together) or with a part (within_slo, accuracy) above 1, a tenant without traffic and reports of unknown
    tenants."""
    value = mapping(value, "feedback")
    if value.get("type", "feedback") != "feedback":
        raise InvalidValue("type", value.get("type"), "feedback or end")
    round_ = number(value, "round", "")
    runs = state.round - before
    if round_ != int(round_) or not runs <= round_ <= runs + MOST_LEFT_OUT:
        allowed = f"a whole number from {runs}, the interval that runs, to {runs + MOST_LEFT_OUT}"
        raise InvalidValue("round", round_, allowed)
    elapsed = float(number(value, "elapsed_s", "", (round_ + 1) * problem.interval_s))
    if elapsed < state.elapsed_s:
        raise ClockPutBack(state, elapsed)
    if problem.kind == "pipeline":
        return _pipeline(problem, int(round_) + before, elapsed, required(value, "reports", ""))
    reports: dict[str, tuple[IntervalReport, ...]] = {}
    dropped: dict[str, int] = {}
    measured = {tenant.id: tenant.goal for tenant in problem.tenants if tenant.feedback}
    for tenant, given in mapping(required(value, "tenants", ""), "tenants").items():
        entries = sequence(mapping(given, f"tenants.{tenant}").get("reports") or [], f"tenants.{tenant}.reports")
        # A tenant that says it reports nothing is not believed when it does: its demand is declared.
        most = 1.0 + _ROUNDED if tenant in measured and measured[tenant].capped else math.inf
        read = [_report(entry, problem, most) for entry in entries] if tenant in measured else []
        good = [report for report in read if report is not None]
        if len(good) < len(entries):
            dropped[tenant] = len(entries) - len(good)
        reports[tenant] = tuple(good)
    return SharingFeedback(int(round_) + before, elapsed, reports, (), dropped)


def _pipeline(problem: SharingProblem, round_: int, elapsed: float, given: Any) -> SharingFeedback:
    good: list[IntervalReport] = []
    services: list[Mapping[str, float]] = []
    entries = sequence(given, "reports")
    for entry in entries:
        held = entry.get("allocation") if isinstance(entry, Mapping) else None
        if not isinstance(held, Mapping) or set(held) != set(problem.ids):
            continue
        units = {service: _finite(n) for service, n in held.items()}
        report = _report({**entry, "allocation": 0.0}, problem)
        there = problem.units * (1.0 + _ROUNDED)
        known = {service: n for service, n in units.items() if n is not None}
        fits = len(known) == len(units) and sum(known.values()) <= there
        if report is not None and report.performance > 0 and fits:
            good.append(report)
            services.append(known)
    dropped = {"": len(entries) - len(good)} if len(good) < len(entries) else {}
    return SharingFeedback(round_, elapsed, {"": tuple(good)}, tuple(services), dropped)


def _report(entry: Any, problem: SharingProblem, most: float = math.inf) -> IntervalReport | None:
    """A usable report with a performance of `most` at most, or None. Without load there was no traffic: utility is then
    unknown, not 1."""
    if not isinstance(entry, Mapping):
        return None
    load, performance, units = (_finite(entry.get(key)) for key in ("load", "performance", "allocation"))
    if load is None or performance is None or units is None or load < LEAST_LOAD:
        return None
    if performance > most or units > problem.units * (1.0 + _ROUNDED):
        return None
    return IntervalReport(load, performance, units, _finite(entry.get("seconds")) or 0.0)


def _finite(value: Any) -> float | None:
    """A number from 0 to 1e12, or None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and 0 <= value <= 1e12 else None

"""The last day of the tenants in rows of five minutes, and how it would have gone under another policy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from edge.core.errors import InvalidValue
from edge.core.tenants import SharingRules, Tenant
from scheduler.tenants.known import LearnedTenant, SharingReport
from scheduler.tenants.sharing import SharingQuestion, TenantNow, curve_of, decide

ROW_S = 300.0
DAY_S = 86_400.0


@dataclass(frozen=True)
class HistoryRow:
    """Means of one tenant over `seconds` that ended at `utc_s`; `performance` None: nothing was measured."""

    tenant: str
    utc_s: float
    seconds: float
    held: float
    given: float
    performance: float | None
    goal: float
    utility: float | None
    load: float | None
    requests: int
    floor: float = 0.0


@dataclass
class _Sums:
    seconds: float = 0.0
    held_s: float = 0.0
    given_s: float = 0.0
    measured: float = 0.0
    performance: float = 0.0
    load_s: float = 0.0
    load_seconds: float = 0.0
    requests: int = 0
    floor: float = 0.0


class TenantDay:
    """`keep(document)` writes the rows behind, once a row is full."""

    def __init__(self, keep: Callable[[dict[str, Any]], None]) -> None:
        self._keep = keep
        self.rows: deque[HistoryRow] = deque()
        self._sums: dict[str, _Sums] = {}

    def restore(self, document: Mapping[str, Any] | None) -> None:
        """Raises InvalidValue for a document that is damaged."""
        names = {f.name for f in fields(HistoryRow)}
        for n, row in enumerate((document or {}).get("rows", ())):
            if not isinstance(row, Mapping) or set(row) != names:
                raise InvalidValue(f"rows[{n}]", row, "a row as this version writes it")
            self.rows.append(HistoryRow(**row))

    def add(
        self, tenant: Tenant, utc_s: float, seconds: float, held: float, floor: float, report: SharingReport | None
    ) -> None:
        """One interval of a tenant."""
        sums = self._sums.setdefault(tenant.id, _Sums())
        sums.seconds += seconds
        sums.held_s += held * seconds
        sums.floor = max(sums.floor, floor)
        if report is not None and report.usable:
            weight = report.requests if tenant.serves else report.seconds
            sums.given_s += report.given * seconds
            sums.measured += weight
            sums.performance += report.performance * weight
            sums.load_s += report.load * seconds
            sums.load_seconds += seconds
            sums.requests += report.requests
        if sums.seconds >= ROW_S or not tenant.serves:
            self._close(tenant, utc_s, sums)

    def _close(self, tenant: Tenant, utc_s: float, sums: _Sums) -> None:
        del self._sums[tenant.id]
        if sums.seconds <= 0:
            return
        performance = sums.performance / sums.measured if sums.measured > 0 else None
        given = sums.given_s / sums.load_seconds if sums.load_seconds > 0 else 0.0
        load = sums.load_s / sums.load_seconds if sums.load_seconds > 0 and tenant.serves else None
        utility = None if performance is None else tenant.objective.utility_of(performance)
        row = HistoryRow(
            tenant.id, round(utc_s, 3), round(sums.seconds, 3), round(sums.held_s / sums.seconds, 5), round(given, 5),
            performance, tenant.objective.goal, utility, load, sums.requests, round(sums.floor, 5),
        )  # fmt: skip
        # Rows of a time that is to come are of before the clock was put back.
        while self.rows and self.rows[-1].utc_s > utc_s:
            self.rows.pop()
        self.rows.append(row)
        while self.rows[0].utc_s < utc_s - DAY_S:
            self.rows.popleft()
        self._keep({"rows": [asdict(r) for r in self.rows]})


@dataclass(frozen=True)
class Replayed:
    """A recorded day under another policy; shares and utilities are means over time, by tenant."""

    rows: int
    from_utc_s: float | None
    share: Mapping[str, float] = field(default_factory=dict)
    utility: Mapping[str, float] = field(default_factory=dict)
    other_share: Mapping[str, float] = field(default_factory=dict)
    other_utility: Mapping[str, float] = field(default_factory=dict)
    social: float | None = None
    egalitarian: float | None = None
    other_social: float | None = None
    other_egalitarian: float | None = None


def replayed(
    rows: Sequence[HistoryRow], tenants: Sequence[Tenant], known: Mapping[str, LearnedTenant], rules: SharingRules
) -> Replayed:
    """The day again, row by row, under `rules`. The performance with another share than the recorded one is expected by
    the learned curve, moved so that it goes through what was recorded. Blocks for seconds; no clock is read."""
    by_time: dict[float, dict[str, HistoryRow]] = {}
    ids = {t.id: t for t in tenants}
    for row in rows:
        if row.tenant in ids:
            by_time.setdefault(round(row.utc_s / ROW_S), {})[row.tenant] = row
    curves = {t.id: curve_of(t, known[t.id], 1.0) for t in tenants if t.id in known}
    state: Mapping[str, LearnedTenant] = {}
    sums: dict[str, dict[str, list[float]]] = {k: {} for k in ("share", "utility", "other_share", "other_utility")}
    welfare: dict[str, list[float]] = {k: [] for k in ("social", "egalitarian", "other_social", "other_egalitarian")}
    reports: dict[str, SharingReport] = {}
    floors: dict[str, float] = {}
    for _, entries in sorted(by_time.items()):
        total = sum(r.held for r in entries.values())
        present = [ids[t] for t in sorted(entries)]
        if total <= 0:
            continue
        asked = tuple(TenantNow(t, min(floors.get(t.id, 0.0), 1.0), report=reports.get(t.id)) for t in present)
        utc_s = max(r.utc_s for r in entries.values())
        found = decide(state, SharingQuestion(utc_s, min(1.0, total), asked, rules, windows=True))
        state, reports = {**state, **found.known}, {}
        before, after = [], []
        for tenant in present:
            row, share = entries[tenant.id], found.shares[tenant.id].held
            floors[tenant.id] = row.floor
            sums["share"].setdefault(tenant.id, []).append(row.held)
            sums["other_share"].setdefault(tenant.id, []).append(share)
            if row.performance is None:
                continue
            other = _expected(curves.get(tenant.id, ()), row, share)
            mine, its = tenant.objective.utility_of(row.performance), tenant.objective.utility_of(other)
            before.append(mine)
            after.append(its)
            sums["utility"].setdefault(tenant.id, []).append(mine)
            sums["other_utility"].setdefault(tenant.id, []).append(its)
            reports[tenant.id] = SharingReport(
                utc_s, max(1.0, row.seconds), row.load or 1.0, other, min(1.0, max(share, 1e-3)), row.requests
            )
        if before:
            for name, values in (("", before), ("other_", after)):
                welfare[f"{name}social"].append(sum(values) / len(values))
                welfare[f"{name}egalitarian"].append(min(values))
    first = min((r.utc_s - r.seconds for e in by_time.values() for r in e.values()), default=None)
    means = {k: {t: _mean(v) for t, v in by.items()} for k, by in sums.items()}
    worth = {k: _mean(v) if v else None for k, v in welfare.items()}
    return Replayed(
        len(by_time), first, means["share"], means["utility"], means["other_share"], means["other_utility"],
        worth["social"], worth["egalitarian"], worth["other_social"], worth["other_egalitarian"],
    )  # fmt: skip


def _expected(curve: Sequence[tuple[float, float, float, float]], row: HistoryRow, share: float) -> float:
    if not curve or row.performance is None or row.given <= 0:
        return row.performance or 0.0
    # What was given may be less than what was held, of what the plan could not use.
    there = share * min(1.0, row.given / row.held) if row.held > 0 else share
    return min(1.0, max(0.0, row.performance + _at(curve, there) - _at(curve, row.given)))


def _at(curve: Sequence[tuple[float, float, float, float]], share: float) -> float:
    return min(curve, key=lambda p: abs(p[0] - share))[1]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)

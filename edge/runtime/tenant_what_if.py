"""The recorded day of the tenants under another policy. Pure; no clock is read."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from edge.core.tenants import SharingRules, Tenant
from edge.runtime.tenant_day import ROW_S, HistoryRow
from edge.runtime.tenant_times import TimeMean
from scheduler.tenants.known import LearnedTenant, SharingReport
from scheduler.tenants.sharing import (
    MeasuredUse,
    SharingQuestion,
    TenantNow,
    curve_of,
    decide,
)

_Curve = Sequence[tuple[float, float, float, float]]
#: Loads of one curve are within half of this, as logarithms.
_LOAD_STEP = 0.1


@dataclass(frozen=True)
class Replayed:
    """A recorded day under another policy; shares and utilities are means over time, by tenant. `rows` of five minutes
    were replayed, which have `seconds` in all."""

    rows: int
    seconds: float
    from_utc_s: float | None
    share: Mapping[str, float] = field(default_factory=dict)
    utility: Mapping[str, float] = field(default_factory=dict)
    other_share: Mapping[str, float] = field(default_factory=dict)
    other_utility: Mapping[str, float] = field(default_factory=dict)
    social: float | None = None
    egalitarian: float | None = None
    other_social: float | None = None
    other_egalitarian: float | None = None


class _Means:
    """Means over time, by key."""

    def __init__(self) -> None:
        self._means: dict[str, TimeMean] = {}

    def add(self, key: str, value: float, seconds: float) -> None:
        self._means.setdefault(key, TimeMean()).add(value, seconds)

    @property
    def of(self) -> dict[str, float]:
        return {key: value for key, mean in self._means.items() if (value := mean.value) is not None}


def replayed(
    rows: Sequence[HistoryRow], tenants: Sequence[Tenant], known: Mapping[str, LearnedTenant], rules: SharingRules
) -> Replayed:
    """The day again, five minutes by five minutes, under `rules`. It begins with the shares that were held then, and
    with what is known now. The performance with another share than the recorded one is expected by the learned curve at
    the load of that time, moved so that it goes through what was recorded. Needs by profiles, uses and floors are those
    recorded. Blocks for seconds."""
    ids = {t.id: t for t in tenants}
    mine = [row for row in rows if row.tenant in ids and row.seconds > 0]
    first = min((r.utc_s - r.seconds for r in mine), default=0.0)
    # One decision stands for as many as the box would make in five minutes.
    steps = max(1, round(ROW_S / rules.interval_s))
    rules = replace(rules, largest_step=min(1.0, steps * rules.largest_step))
    curves = _Curves(ids, known)
    sums = _Compared()
    stretches = list(_stretches(mine, first))
    state: Mapping[str, LearnedTenant] = _begun(known, [pieces for _, pieces in stretches])
    reports: dict[str, SharingReport] = {}
    windows = True
    for end_s, pieces in stretches:
        total = sum(p.held for p in pieces.values())
        if total <= 0:
            continue
        asked = tuple(_asked(ids[t], p, reports.get(t)) for t, p in sorted(pieces.items()))
        found = decide(state, SharingQuestion(end_s, min(1.0, total), asked, rules, windows))
        state, reports, windows = {**state, **found.known}, {}, False
        held = {name: found.shares[name].held for name in pieces}
        expected = {name: _expected(curves.at(name, piece.load), piece, held[name]) for name, piece in pieces.items()}
        sums.add(ids, pieces, held, expected)
        for name, piece in pieces.items():
            other = expected[name]
            if piece.ended and other is not None:
                given = min(1.0, max(_given(piece, held[name]), 1e-3))
                reports[name] = SharingReport(end_s, piece.seconds, piece.load or 1.0, other, given, piece.requests)
                windows = windows or not ids[name].serves
    worth = sums.welfare.of
    return Replayed(
        sums.rows, sums.seconds, first if sums.rows else None, sums.share.of, sums.utility.of, sums.other_share.of,
        sums.other_utility.of, worth.get("social"), worth.get("egalitarian"), worth.get("other social"),
        worth.get("other egalitarian"),
    )  # fmt: skip


class _Curves:
    """Learned curves by tenant and load."""

    def __init__(self, tenants: Mapping[str, Tenant], known: Mapping[str, LearnedTenant]) -> None:
        self._tenants, self._known = tenants, known
        self._found: dict[tuple[str, int | None], _Curve] = {}

    def at(self, tenant: str, load: float | None) -> _Curve:
        """That of a tenant at loads within 5 % of `load` (None: as it is expected now)."""
        known = self._known.get(tenant)
        if known is None:
            return ()
        step = round(math.log(load) / _LOAD_STEP) if load else None
        if (tenant, step) not in self._found:
            near = None if step is None else math.exp(step * _LOAD_STEP)
            self._found[tenant, step] = curve_of(self._tenants[tenant], known, 1.0, near)
        return self._found[tenant, step]


def _begun(known: Mapping[str, LearnedTenant], stretches: Sequence[Mapping[str, _Piece]]) -> dict[str, LearnedTenant]:
    """The present knowledge, with the budgets of when each tenant was first seen, and without marks of later times."""
    held: dict[str, float] = {}
    for pieces in stretches:
        held = {tenant: piece.held for tenant, piece in pieces.items()} | held
    return {
        tenant: replace(one, held=held[tenant], moved_utc_s=None, missed_utc_s=None, right_missed_utc_s=None, recent=())
        for tenant, one in known.items()
        if tenant in held
    }


class _Compared:
    """The sums over time of shares and utilities, as they were and as they would be."""

    def __init__(self) -> None:
        self.rows, self.seconds = 0, 0.0
        self.share, self.utility, self.other_share, self.other_utility = (_Means() for _ in range(4))
        self.welfare = _Means()

    def add(
        self,
        tenants: Mapping[str, Tenant],
        pieces: Mapping[str, _Piece],
        held: Mapping[str, float],
        expected: Mapping[str, float | None],
    ) -> None:
        """A stretch of time: as it was, and with the budgets `held` the performance `expected`."""
        length = max(p.seconds for p in pieces.values())
        self.rows, self.seconds = self.rows + 1, self.seconds + length
        was, would = [], []
        for name, piece in pieces.items():
            self.share.add(name, piece.held, piece.seconds)
            self.other_share.add(name, held[name], piece.seconds)
            other, objective = expected[name], tenants[name].objective
            if piece.performance is None or other is None:
                continue
            was.append(objective.utility_of(piece.performance))
            would.append(objective.utility_of(other))
            self.utility.add(name, was[-1], piece.seconds)
            self.other_utility.add(name, would[-1], piece.seconds)
        for key, values in (("", was), ("other ", would)):
            if values:
                self.welfare.add(f"{key}social", sum(values) / len(values), length)
                self.welfare.add(f"{key}egalitarian", min(values), length)


@dataclass(frozen=True)
class _Piece:
    """Means of a tenant over the part of five minutes that its rows cover. `ended`: one of them ended there."""

    seconds: float
    held: float
    given: float
    floor: float
    performance: float | None
    load: float | None
    need: float | None
    used: float | None
    requests: int
    ended: bool


def _stretches(rows: Sequence[HistoryRow], first_s: float) -> Iterator[tuple[float, dict[str, _Piece]]]:
    """Stretches of five minutes in their order, each with its end and what each tenant did in it. Rows may be shorter
    or longer: of cameras they have the length of a window."""
    parts: dict[int, dict[str, list[tuple[float, HistoryRow, bool]]]] = {}
    for row in rows:
        began, ended = row.utc_s - row.seconds - first_s, row.utc_s - first_s
        last = max(0, math.ceil(ended / ROW_S - 1e-6) - 1)
        for n in range(max(0, math.floor(began / ROW_S + 1e-6)), last + 1):
            seconds = min(ended, (n + 1) * ROW_S) - max(began, n * ROW_S)
            if seconds > 1e-3:
                parts.setdefault(n, {}).setdefault(row.tenant, []).append((seconds, row, n == last))
    for n, by_tenant in sorted(parts.items()):
        yield first_s + (n + 1) * ROW_S, {tenant: _piece(found) for tenant, found in by_tenant.items()}


def _piece(parts: Sequence[tuple[float, HistoryRow, bool]]) -> _Piece:
    means = _Means()
    for seconds, row, _ in parts:
        for key in ("held", "given", "performance", "load", "need", "used"):
            value = getattr(row, key)
            if value is not None:
                means.add(key, value, seconds)
    of = means.of
    return _Piece(
        sum(seconds for seconds, _, _ in parts), of["held"], of["given"], max(row.floor for _, row, _ in parts),
        of.get("performance"), of.get("load"), of.get("need"), of.get("used"),
        round(sum(row.requests * seconds / row.seconds for seconds, row, _ in parts)), any(e for _, _, e in parts),
    )  # fmt: skip


def _asked(tenant: Tenant, piece: _Piece, report: SharingReport | None) -> TenantNow:
    use = None if piece.used is None or piece.given <= 0 else MeasuredUse(piece.used, piece.given)
    return TenantNow(tenant, min(piece.floor, 1.0), piece.need, report, use=use)


def _given(piece: _Piece, held: float) -> float:
    """The share that would be given of the budget `held`: as large a part as was given, since a plan may leave some."""
    return held * min(1.0, piece.given / piece.held) if piece.held > 0 else held


def _expected(curve: _Curve, piece: _Piece, held: float) -> float | None:
    """The performance with the budget `held`; None: nothing was recorded."""
    if not curve or piece.performance is None or piece.given <= 0:
        return piece.performance
    return min(1.0, max(0.0, piece.performance + _at(curve, _given(piece, held)) - _at(curve, piece.given)))


def _at(curve: _Curve, share: float) -> float:
    return min(curve, key=lambda p: abs(p[0] - share))[1]

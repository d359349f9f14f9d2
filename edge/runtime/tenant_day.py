"""The last day of the tenants in rows of five minutes, those of cameras in rows of a window.

The clock may be set. Rows of this run are dated anew by as much, since all of it is on one monotonic clock. Those of
earlier runs keep their dates: a box that begins in 1970 and is corrected a little later has its day again. Until they
are a day old by the clock and by this run, they are kept, though they may not be shown."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

from edge.core.checks import in_range
from edge.core.clock import Clock
from edge.core.errors import InvalidValue
from edge.core.fields import mapping, number, sequence
from edge.core.tenants import Tenant
from edge.runtime.tenant_times import HeldShare, TimeMean
from scheduler.tenants.sharing import TenantNow

ROW_S = 300.0
DAY_S = 86_400.0
#: The clock was set where it moved by more than so many seconds against the monotonic one.
SET_S = 5.0
#: Rows that the clock does not show, of all tenants together, are at most so many.
MOST_HIDDEN = 20_000


@dataclass(frozen=True)
class HistoryRow:
    """Means of one tenant over `seconds` that ended at `utc_s`; `performance` None: nothing was measured. `need`: the
    share of its plan by its profile, `used`: the share that its workers used, `entitlement`: its share by right then
    (None: not known)."""

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
    need: float | None = None
    used: float | None = None
    entitlement: float | None = None


_FIELDS = {f.name: f for f in fields(HistoryRow)}
_NEEDED = {name for name, f in _FIELDS.items() if f.default is MISSING}
_MAYBE = {"performance", "utility", "load", "need", "used", "entitlement"}
#: These are parts of one, but for rounding; the others may be any number that is not below 0, but for the time.
_PARTS = {"held", "performance", "goal", "utility", "entitlement"}


def row_from(value: Any, path: str) -> HistoryRow:
    """A row as it was written; fields that an earlier version did not keep may lack. Raises InvalidValue."""
    given = mapping(value, path)
    tenant = given.get("tenant")
    if not _NEEDED <= set(given) <= set(_FIELDS) or not isinstance(tenant, str) or not tenant:
        raise InvalidValue(path, value, "a row as this version writes it")
    numbers: dict[str, Any] = {}
    for name in _FIELDS:
        if name == "tenant" or (name in _MAYBE and given.get(name) is None):
            continue
        numbers[name] = number(given, name, path, None if name in _NEEDED else 0.0)
        if name != "utc_s":
            in_range(f"{path}.{name}", numbers[name], 0.0, 1.0 + 1e-6 if name in _PARTS else math.inf)
    return HistoryRow(tenant, **{**dict.fromkeys(_MAYBE), **numbers, "requests": int(numbers["requests"])})


def _kept(mean: TimeMean) -> float | None:
    value = mean.value
    return None if value is None else round(value, 5)


@dataclass
class _Sums:
    tenant: Tenant
    seconds: float = 0.0
    measured: float = 0.0
    performance: float = 0.0
    requests: int = 0
    floor: float = 0.0

    def __post_init__(self) -> None:
        self.held, self.entitlement, self.given, self.load = (TimeMean() for _ in range(4))
        self.need, self.used, self.use_given = (TimeMean() for _ in range(3))


class TenantDay:
    """`keep(document)` writes the rows behind."""

    def __init__(self, keep: Callable[[dict[str, Any]], None], clock: Clock) -> None:
        self._keep, self._clock = keep, clock
        self._began_s = clock.monotonic()
        self._ahead_s = clock.utc() - self._began_s
        self._earlier: list[HistoryRow] = []
        self._mine: deque[HistoryRow] = deque()
        self._sums: dict[str, _Sums] = {}
        self._unkept = False

    @property
    def rows(self) -> tuple[HistoryRow, ...]:
        """Those of the last day by the clock, oldest first."""
        utc_s = self._dated()
        earlier = sorted((r for r in self._earlier if self._shown(r, utc_s)), key=lambda row: row.utc_s)
        return (*earlier, *(r for r in self._mine if r.utc_s >= utc_s - DAY_S))

    def restore(self, document: Any) -> list[InvalidValue]:
        """Take up the rows of earlier runs. Those that cannot be read are left out; returns the first error, if any."""
        if document is None:
            return []
        errors: list[InvalidValue] = []
        try:
            found = sequence(mapping(document, "rows").get("rows", ()), "rows")
        except InvalidValue as error:
            return [error]
        for n, value in enumerate(found):
            try:
                self._earlier.append(row_from(value, f"rows[{n}]"))
            except InvalidValue as error:
                errors.append(error)
        return errors[:1]

    def add(self, entry: TenantNow, utc_s: float, seconds: float, had: HeldShare) -> None:
        """One interval of a tenant, with the share that it held in it."""
        tenant, report = entry.tenant, entry.report
        sums = self._sums.setdefault(tenant.id, _Sums(tenant))
        sums.tenant = tenant
        sums.seconds += seconds
        sums.held.add(had.held, seconds)
        sums.entitlement.add(had.entitlement, seconds)
        sums.floor = max(sums.floor, had.floor)
        if entry.need is not None:
            sums.need.add(entry.need, seconds)
        if entry.use is not None:
            sums.used.add(entry.use.used, seconds)
            sums.use_given.add(entry.use.given, seconds)
        if report is not None and report.usable:
            weight = report.requests if tenant.serves else report.seconds
            sums.given.add(report.given, seconds)
            sums.load.add(report.load, seconds)
            sums.measured += weight
            sums.performance += report.performance * weight
            sums.requests += report.requests
        if sums.seconds >= ROW_S or not tenant.serves:
            self._close(tenant.id, utc_s)

    def only(self, tenants: Collection[str], utc_s: float) -> None:
        """These share now: rows of others end here."""
        for tenant in [t for t in self._sums if t not in tenants]:
            self._close(tenant, utc_s)

    def end(self, utc_s: float) -> None:
        """Nothing is shared any more: rows end here, however short they are."""
        for tenant in list(self._sums):
            self._close(tenant, utc_s)
        self.keep()

    def _close(self, tenant: str, utc_s: float) -> None:
        sums = self._sums.pop(tenant)
        if sums.seconds <= 0:
            return
        self._dated()
        performance = sums.performance / sums.measured if sums.measured > 0 else None
        given = _kept(sums.given)
        given = _kept(sums.use_given) if given is None else given
        objective = sums.tenant.objective
        row = HistoryRow(
            tenant, round(utc_s, 3), round(sums.seconds, 3), _kept(sums.held) or 0.0, given or 0.0, performance,
            objective.goal, None if performance is None else objective.utility_of(performance),
            _kept(sums.load) if sums.tenant.serves else None, sums.requests, round(sums.floor, 5), _kept(sums.need),
            _kept(sums.used), _kept(sums.entitlement),
        )  # fmt: skip
        self._mine.append(row)
        self._unkept = True

    def keep(self) -> None:
        """Write the rows, if there is a new one: all of them, so once for all tenants."""
        if self._unkept:
            self._unkept = False
            self._forget()
            self._keep({"rows": [dict(vars(row)) for row in (*self._earlier, *self._mine)]})

    def _dated(self) -> float:
        """UTC now. Where the clock was set, rows of this run are dated anew."""
        utc_s = self._clock.utc()
        ahead_s = utc_s - self._clock.monotonic()
        if abs(step := ahead_s - self._ahead_s) > SET_S:
            self._ahead_s = ahead_s
            self._mine = deque(replace(row, utc_s=round(row.utc_s + step, 3)) for row in self._mine)
        return utc_s

    def _shown(self, row: HistoryRow, utc_s: float) -> bool:
        """Whether a row of an earlier run is of the last day, and of before this run, by the clock."""
        return utc_s - DAY_S <= row.utc_s <= self._began_s + self._ahead_s + SET_S

    def _forget(self) -> None:
        """Rows of this run that are a day old; of earlier runs those that the clock does not show, after a day of this
        run, or where as much was recorded since, or where they are too many."""
        utc_s = self._dated()
        while self._mine and self._mine[0].utc_s < utc_s - DAY_S:
            self._mine.popleft()
        long = self._clock.monotonic() - self._began_s > DAY_S
        newer: dict[str, float] = {}
        for row in self._mine:
            newer[row.tenant] = newer.get(row.tenant, 0.0) + row.seconds
        kept: list[HistoryRow] = []
        hidden = 0
        for row in reversed(self._earlier):
            since = newer.get(row.tenant, 0.0)
            if not self._shown(row, utc_s):
                hidden += 1
                if long or since >= DAY_S or hidden > MOST_HIDDEN:
                    continue
            kept.append(row)
            newer[row.tenant] = since + row.seconds
        self._earlier = kept[::-1]

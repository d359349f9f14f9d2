"""The last day of the tenants in rows of five minutes, those of cameras in rows of a window."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from edge.core.errors import InvalidValue
from edge.core.tenants import Tenant
from scheduler.tenants.sharing import TenantNow

ROW_S = 300.0
DAY_S = 86_400.0


@dataclass(frozen=True)
class HistoryRow:
    """Means of one tenant over `seconds` that ended at `utc_s`; `performance` None: nothing was measured. `need`: the
    share of its plan by its profile, `used`: the share that its workers used (None: not known)."""

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


class TimeMean:
    """A mean over time; None: over no time."""

    def __init__(self) -> None:
        self._sum, self._seconds = 0.0, 0.0

    def add(self, value: float, seconds: float) -> None:
        self._sum += value * seconds
        self._seconds += seconds

    @property
    def value(self) -> float | None:
        return self._sum / self._seconds if self._seconds > 0 else None


def _kept(mean: TimeMean) -> float | None:
    value = mean.value
    return None if value is None else round(value, 5)


@dataclass
class _Sums:
    seconds: float = 0.0
    measured: float = 0.0
    performance: float = 0.0
    requests: int = 0
    floor: float = 0.0

    def __post_init__(self) -> None:
        self.held, self.given, self.load, self.need, self.used, self.use_given = (TimeMean() for _ in range(6))


class TenantDay:
    """`keep(document)` writes the rows behind."""

    def __init__(self, keep: Callable[[dict[str, Any]], None]) -> None:
        self._keep = keep
        self.rows: deque[HistoryRow] = deque()
        self._sums: dict[str, _Sums] = {}
        self._unkept = False

    def restore(self, document: Mapping[str, Any] | None) -> None:
        """Raises InvalidValue for a document that is damaged. Fields that an earlier version did not keep may lack."""
        names = {f.name for f in fields(HistoryRow)}
        needed = {f.name for f in fields(HistoryRow) if f.default is MISSING}
        for n, row in enumerate((document or {}).get("rows", ())):
            if not isinstance(row, Mapping) or not needed <= set(row) <= names:
                raise InvalidValue(f"rows[{n}]", row, "a row as this version writes it")
            self.rows.append(HistoryRow(**row))

    def add(self, entry: TenantNow, utc_s: float, seconds: float, held: float, floor: float) -> None:
        """One interval of a tenant, with the share that it holds and its floor."""
        tenant, report = entry.tenant, entry.report
        sums = self._sums.setdefault(tenant.id, _Sums())
        sums.seconds += seconds
        sums.held.add(held, seconds)
        sums.floor = max(sums.floor, floor)
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
            self._close(tenant, utc_s, sums)

    def _close(self, tenant: Tenant, utc_s: float, sums: _Sums) -> None:
        del self._sums[tenant.id]
        if sums.seconds <= 0:
            return
        performance = sums.performance / sums.measured if sums.measured > 0 else None
        given = _kept(sums.given)
        given = _kept(sums.use_given) if given is None else given
        utility = None if performance is None else tenant.objective.utility_of(performance)
        row = HistoryRow(
            tenant.id, round(utc_s, 3), round(sums.seconds, 3), _kept(sums.held) or 0.0, given or 0.0, performance,
            tenant.objective.goal, utility, _kept(sums.load) if tenant.serves else None, sums.requests,
            round(sums.floor, 5), _kept(sums.need), _kept(sums.used),
        )  # fmt: skip
        # Rows of a time that is to come are of before the clock was put back.
        while self.rows and self.rows[-1].utc_s > utc_s:
            self.rows.pop()
        self.rows.append(row)
        while self.rows[0].utc_s < utc_s - DAY_S:
            self.rows.popleft()
        self._unkept = True

    def keep(self) -> None:
        """Write the rows, if there is a new one: all of them, so once for all tenants."""
        if self._unkept:
            self._unkept = False
            self._keep({"rows": [dict(vars(row)) for row in self.rows]})

"""Requests by tenant, counted from the front's reports over one interval.

A request that was refused, dropped, rejected or failed, or that was answered late, missed its objective: a full queue
answers fast those that it admits, and that is no merit. An application's requests count from end to end; those that its
stages ask of models do not count again. Requests that were open when the front ended failed: they missed it, too. Those
that clients could not send then are in no count, so an interval with such a silence is reported as one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from edge.core.front_messages import ModelTraffic, TrafficReport
from scheduler.tenants.known import SharingReport
from scheduler.tenants.sharing import Silence

#: A report that covers more than so many seconds is late: the shares of its time are not known.
MOST_PERIOD_S = 5.0
#: Between two reports of a front that lives nothing is missing; so many seconds are no front, or another one.
GAP_S = 0.5


@dataclass
class _Requests:
    arrived: int = 0
    ended: int = 0
    missed: int = 0
    share_s: float = 0.0

    def plus(self, more: _Requests) -> None:
        self.arrived += more.arrived
        self.ended += more.ended
        self.missed += more.missed
        self.share_s += more.share_s


@dataclass(frozen=True)
class _Taken:
    tenants: Mapping[str, _Requests]
    seconds: float
    dropped: Mapping[str, int]
    lost: Mapping[str, int]
    silent: bool
    gap_s: float


@dataclass(frozen=True)
class CountedInterval:
    """By tenant: the report of each that had requests which ended, the number of values that were not usable, and of
    requests that were lost with the front. `silent_s`: so long the front reported nothing (None: it was not silent).
    """

    reports: Mapping[str, SharingReport] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    silent_s: float | None = None
    lost: Mapping[str, int] = field(default_factory=dict)

    def silence(self, tenant: str) -> Silence | None:
        """The front's silence as a tenant saw it."""
        return None if self.silent_s is None else Silence(self.silent_s, self.lost.get(tenant, 0))


class TenantCounts:
    """The counts since `take` was last called."""

    def __init__(self) -> None:
        self._tenants: dict[str, _Requests] = {}
        self._seconds = 0.0
        self._last_s: float | None = None
        self._dropped: dict[str, int] = {}
        #: Requests that were open at the last report, and those that were lost, by tenant.
        self._open: dict[str, int] = {}
        self._lost: dict[str, int] = {}
        self._silent, self._gap_s = False, 0.0
        self._taken: _Taken | None = None

    def add(self, report: TrafficReport, owner: Mapping[str, str], given: Mapping[str, float]) -> bool:
        """Count one report: `owner` is the tenant of each model and application, `given` the share of each tenant now.

        False: it was not counted, as it came doubled or from a clock that went back, or its times are no numbers, or it
        covers too much."""
        usable = math.isfinite(report.at_s) and math.isfinite(report.period_s) and 0 < report.period_s <= MOST_PERIOD_S
        if not usable or (self._last_s is not None and report.at_s <= self._last_s):
            for tenant in given:
                self._dropped[tenant] = self._dropped.get(tenant, 0) + 1
            if math.isfinite(report.at_s) and report.period_s > MOST_PERIOD_S:
                # The front lives, but did nothing for long.
                self._silent, self._gap_s = True, self._gap_s + report.period_s
                self._last_s = max(report.at_s, -math.inf if self._last_s is None else self._last_s)
            return False
        gap_s = 0.0 if self._last_s is None else report.at_s - report.period_s - self._last_s
        if gap_s > GAP_S:
            self._gap_s += gap_s
            self.front_down()
        self._last_s = report.at_s
        self._seconds += report.period_s
        for tenant, share in given.items():
            self._of(tenant).share_s += share * report.period_s
        stages: dict[str, int] = {}
        for stage in report.stages:
            stages[stage.model] = stages.get(stage.model, 0) + stage.requests
        self._open = {}
        for traffic in (*report.applications, *report.models):
            name = owner.get(traffic.model)
            if name is None:
                continue
            part = _own_part(traffic, stages.get(traffic.model, 0))
            self._open[name] = self._open.get(name, 0) + round((traffic.queued + traffic.running) * part)
            if not self._count(self._of(name), traffic, part):
                self._dropped[name] = self._dropped.get(name, 0) + 1
        return True

    def front_down(self) -> None:
        """The front is not there: requests that it had open failed. Safe to repeat."""
        self._silent = True
        for tenant, n in self._open.items():
            counts = self._of(tenant)
            counts.ended += n
            counts.missed += n
            self._lost[tenant] = self._lost.get(tenant, 0) + n
        self._open = {}

    def take(self, utc_s: float, elapsed_s: float) -> CountedInterval:
        """The last `elapsed_s` seconds, which ended at `utc_s`; counting begins anew."""
        seconds, tenants, dropped, lost = self._seconds, self._tenants, self._dropped, self._lost
        silent_s = min(max(self._gap_s, elapsed_s - seconds), elapsed_s) if self._silent else None
        self._taken = _Taken(tenants, seconds, dropped, lost, self._silent, self._gap_s)
        self._tenants, self._seconds, self._dropped, self._lost = {}, 0.0, {}, {}
        self._silent, self._gap_s = False, 0.0
        out = {}
        for tenant, c in tenants.items():
            if c.ended > 0 and c.arrived > 0 and c.share_s > 0 and seconds > 0:
                out[tenant] = SharingReport(
                    utc_s, seconds, c.arrived / seconds, 1.0 - c.missed / c.ended, min(1.0, c.share_s / seconds),
                    c.ended,
                )  # fmt: skip
        return CountedInterval(out, dropped, silent_s, lost)

    def put_back(self) -> None:
        """Count the interval that was taken last, and not decided on, with the present one. Safe to repeat."""
        back, self._taken = self._taken, None
        if back is None:
            return
        for tenant, counts in back.tenants.items():
            self._of(tenant).plus(counts)
        for mine, more in ((self._dropped, back.dropped), (self._lost, back.lost)):
            for tenant, n in more.items():
                mine[tenant] = mine.get(tenant, 0) + n
        self._seconds += back.seconds
        self._silent, self._gap_s = self._silent or back.silent, self._gap_s + back.gap_s

    def _of(self, tenant: str) -> _Requests:
        return self._tenants.setdefault(tenant, _Requests())

    @staticmethod
    def _count(counts: _Requests, traffic: ModelTraffic, part: float) -> bool:
        ended = traffic.answered + traffic.dropped + traffic.rejected + traffic.failed
        missed = traffic.violations
        numbers = (traffic.arrived, traffic.answered, traffic.late, traffic.dropped, traffic.rejected, traffic.failed)
        if any(n < 0 for n in numbers) or missed > ended:
            return False
        ended, missed = round(ended * part), round(missed * part)
        counts.arrived += round(traffic.arrived * part)
        counts.ended += ended
        counts.missed += min(missed, ended)
        return True


def _own_part(traffic: ModelTraffic, asked_by_stages: int) -> float:
    """The part of a model's requests that are no application's. Of requests of stages only the number is known: the
    others are taken to have fared alike."""
    if asked_by_stages <= 0 or traffic.arrived <= 0:
        return 1.0
    return max(0.0, 1.0 - asked_by_stages / traffic.arrived)

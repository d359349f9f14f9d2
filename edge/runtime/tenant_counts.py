"""Requests by tenant, counted from the front's reports over one interval.

A request that was refused, dropped, rejected or failed, or that was answered late, missed its objective: a full queue
answers fast those that it admits, and that is no merit. An application's requests count from end to end; those that its
stages ask of models do not count again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from edge.core.layout import ModelTraffic, TrafficReport
from scheduler.tenants.sharing import SharingReport

#: A report that covers more than so many seconds is late: the shares of its time are not known.
MOST_PERIOD_S = 5.0


@dataclass
class _Requests:
    arrived: int = 0
    ended: int = 0
    missed: int = 0
    share_s: float = 0.0


class TenantCounts:
    """The counts since `take` was last called."""

    def __init__(self) -> None:
        self._tenants: dict[str, _Requests] = {}
        self._seconds = 0.0
        self._last_s: float | None = None
        self._dropped: dict[str, int] = {}

    @property
    def seconds(self) -> float:
        """Seconds that were counted."""
        return self._seconds

    def add(self, report: TrafficReport, owner: Mapping[str, str], given: Mapping[str, float]) -> bool:
        """Count one report: `owner` is the tenant of each model and application, `given` the share of each tenant now.

        False: it was not counted, as it came doubled or from a clock that went back, or its times are no numbers, or it
        covers too much."""
        usable = math.isfinite(report.at_s) and math.isfinite(report.period_s) and 0 < report.period_s <= MOST_PERIOD_S
        if not usable or (self._last_s is not None and report.at_s <= self._last_s):
            for tenant in given:
                self._dropped[tenant] = self._dropped.get(tenant, 0) + 1
            return False
        self._last_s = report.at_s
        self._seconds += report.period_s
        for tenant, share in given.items():
            self._of(tenant).share_s += share * report.period_s
        stages: dict[str, int] = {}
        for stage in report.stages:
            stages[stage.model] = stages.get(stage.model, 0) + stage.requests
        for traffic in (*report.applications, *report.models):
            name = owner.get(traffic.model)
            if name is not None and not self._count(self._of(name), traffic, stages.get(traffic.model, 0)):
                self._dropped[name] = self._dropped.get(name, 0) + 1
        return True

    def front_restarted(self) -> None:
        """The front's clock may begin anew."""
        self._last_s = None

    def take(self, utc_s: float) -> tuple[dict[str, SharingReport], dict[str, int]]:
        """The report of each tenant that had requests which ended, and how many values were not usable; counting begins
        anew."""
        seconds, tenants, dropped = self._seconds, self._tenants, self._dropped
        self._tenants, self._seconds, self._dropped = {}, 0.0, {}
        out = {}
        for tenant, c in tenants.items():
            if c.ended > 0 and c.arrived > 0 and c.share_s > 0 and seconds > 0:
                out[tenant] = SharingReport(
                    utc_s, seconds, c.arrived / seconds, 1.0 - c.missed / c.ended, min(1.0, c.share_s / seconds),
                    c.ended,
                )  # fmt: skip
        return out, dropped

    def _of(self, tenant: str) -> _Requests:
        return self._tenants.setdefault(tenant, _Requests())

    @staticmethod
    def _count(counts: _Requests, traffic: ModelTraffic, asked_by_stages: int) -> bool:
        ended = traffic.answered + traffic.dropped + traffic.rejected + traffic.failed
        missed = traffic.violations
        numbers = (traffic.arrived, traffic.answered, traffic.late, traffic.dropped, traffic.rejected, traffic.failed)
        if any(n < 0 for n in numbers) or missed > ended:
            return False
        if asked_by_stages > 0 and traffic.arrived > 0:
            # Requests of stages are told by their number only: the others are taken to have fared alike.
            part = max(0.0, 1.0 - asked_by_stages / traffic.arrived)
            ended, missed = round(ended * part), round(missed * part)
            counts.arrived += round(traffic.arrived * part)
        else:
            counts.arrived += traffic.arrived
        counts.ended += ended
        counts.missed += min(missed, ended)
        return True

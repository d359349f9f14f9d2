"""Puts counting together with the parts that follow the numbers once they are written."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from edge.appliance.answers.counts import ComparisonAnswer, CountsAnswer
from edge.appliance.counted_minutes import CountedMinutes
from edge.appliance.counts import ObjectCounts
from edge.appliance.counts_rules import CountFacts
from edge.appliance.daily_report import DailyReports
from edge.appliance.settled_counts import SettledCounts
from edge.core.alarms import Fact
from edge.core.clock import Clock
from edge.core.counts import Counted, CountedMinute, DayReport, Step
from edge.settings import CameraSettings, SiteSettings
from edge.store.store import Store


def open_counts(
    site: SiteSettings,
    store: Store,
    clock: Clock,
    complain: Callable[[str, str], None],
    cameras: Callable[[], Mapping[str, CameraSettings]],
    deliver: Callable[[CountedMinute | DayReport], None],
    kept: Callable[[], Awaitable[bool]],
    hours_asked: Callable[[], bool],
    fact: Callable[[Fact], None],
    passed: Callable[[Counted], None] = lambda _: None,
) -> ObjectCounts:
    """The counts of a site. `complain(code, message)` tells an operator, `cameras()` are the settings of those there
    now, asked from threads too; `deliver` takes minutes and reports, and `kept()` is False where what was delivered
    could not be written. `hours_asked()` says whether a rule looks at hours, `fact` takes what rules look at, and
    `passed` every object that is counted."""

    def count(camera: str, step: Step, from_utc_s: float, to_utc_s: float) -> CountsAnswer:
        return counts.of_camera(camera, step, from_utc_s, to_utc_s)

    def compare(camera: str, step: Step, from_utc_s: float, to_utc_s: float, before_utc_s: float) -> ComparisonAnswer:
        return counts.compared(camera, step, from_utc_s, to_utc_s, before_utc_s)

    reports = DailyReports(
        site.daily_report, site.site, Path(site.data_dir), store, cameras, count, compare, deliver, kept
    )
    minutes, facts = CountedMinutes(store, cameras, deliver, kept), CountFacts(store.counts, cameras, hours_asked, fact)
    counts = ObjectCounts(store.counts, clock, complain, cameras, minutes, reports, facts, SettledCounts(store), passed)
    return counts

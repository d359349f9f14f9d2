"""The daily report of counts: one HTML file for each camera and day, kept in the data folder and sent by webhooks.

A document of the database says which day was reported last, so a day is reported once, also over a restart, and also
where the box was off at the hour. A crash between the sending and that document sends the day's messages again, with
the same ids.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Final

from edge.appliance.answers.counts import ComparisonAnswer, CountsAnswer
from edge.appliance.answers.read import plain
from edge.appliance.count_report import ReportedDay, report_html
from edge.core.counts import DayReport, Step
from edge.core.errors import InvalidValue, Unavailable
from edge.files import store_whole
from edge.settings import CameraSettings, DailyReportSettings
from edge.store.store import Store
from scheduler.counts.report_days import day_bounds, due_days

#: The settings document with the last day that was reported.
_REPORTED: Final = "counts/reported"
#: After a failure the next try is so much later, in seconds.
_PAUSE_S: Final = 600.0
_EARLIEST, _LATEST = date(1971, 1, 1), date(2200, 1, 1)


class DailyReports:
    """`settings` None: no report is made by itself. `cameras()` are the settings of
    those there now; `count` and `compare` are those of `ObjectCounts`; `deliver` takes each report, and `kept()` is
    False where what was delivered could not be written."""

    def __init__(
        self,
        settings: DailyReportSettings | None,
        site: str,
        data: Path,
        store: Store,
        cameras: Callable[[], Mapping[str, CameraSettings]],
        count: Callable[[str, Step, float, float], CountsAnswer],
        compare: Callable[[str, Step, float, float, float], ComparisonAnswer],
        deliver: Callable[[DayReport], None],
        kept: Callable[[], Awaitable[bool]],
    ) -> None:
        self._settings, self._site, self._folder, self._store = settings, site, data / "reports", store
        self._cameras, self._count, self._compare, self._deliver, self._kept = cameras, count, compare, deliver, kept
        self._not_before_s = 0.0
        #: The day that was delivered. A report that could not be sent waits in the queue and is not delivered again.
        self._delivered: date | None = None

    async def look(self, now_utc_s: float) -> None:
        """Make the reports that are due. Raises MagpieError: they are made later."""
        settings = self._settings
        if settings is None or now_utc_s < self._not_before_s <= now_utc_s + _PAUSE_S:
            return
        self._not_before_s = now_utc_s + _PAUSE_S
        reported = await asyncio.to_thread(self._last)
        hour, minute = map(int, settings.at.split(":"))
        for day in due_days(reported, now_utc_s, 60 * hour + minute, None):
            if day != self._delivered:
                for report in await asyncio.to_thread(self._make_all, day, now_utc_s):
                    self._deliver(report)
                self._delivered = day
            if not await self._kept():
                raise Unavailable(f"the report of {day} could not be queued for webhooks")
            kept = {"day": day.isoformat()}
            await asyncio.to_thread(self._store.settings.put_settings, _REPORTED, kept, "counts", audited=False)
            await asyncio.to_thread(self._retain, day - timedelta(days=settings.keep_days))
        self._not_before_s = 0.0

    def _last(self) -> date | None:
        try:
            return date.fromisoformat((self._store.settings.get_settings(_REPORTED) or {})["day"])
        except (KeyError, TypeError, ValueError):
            return None

    def _make_all(self, day: date, now_utc_s: float) -> list[DayReport]:
        out = []
        for camera, settings in self._cameras().items():
            if settings.lines or settings.zones:
                report = self.make(camera, day, now_utc_s)
                store_whole(self._folder / day.isoformat() / f"{camera}.html", report.html.encode(), folder_mode=0o700)
                out.append(report)
        return out

    def make(self, camera: str, day: date, now_utc_s: float) -> DayReport:
        """The report of a camera's day in the box's time zone, also one that is not over. Blocking. Raises NotFound (no
        such camera), InvalidValue (a day that no clock shows)."""
        if not _EARLIEST <= day <= _LATEST:
            raise InvalidValue("day", day.isoformat(), f"a day from {_EARLIEST} to {_LATEST}")
        first, end = day_bounds(day, None)
        found = self._count(camera, "hour", first, end)
        beside = self._compare(camera, "hour", first, end, day_bounds(day - timedelta(days=7), None)[0])
        settings = self._cameras().get(camera)
        name = "" if settings is None else settings.name
        html = report_html(ReportedDay(self._site, camera, name, day.isoformat(), None, now_utc_s), found, beside)
        totals = plain(CountsAnswer, found)["totals"]
        return DayReport(camera, day.isoformat(), found.from_utc_s, found.to_utc_s, found.watched, totals, html)

    def _retain(self, before: date) -> None:
        """Delete the folders of days before a day."""
        for folder in self._folder.glob("????-??-??"):
            if folder.name < before.isoformat():
                shutil.rmtree(folder, ignore_errors=True)

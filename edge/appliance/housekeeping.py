"""Looks after the disk and memory: says when little disk is left, deletes what retention no longer keeps, gives freed
memory back."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

from edge.appliance.alarms import Alarms
from edge.appliance.capacity import CapacityForecasts
from edge.appliance.clips import Clips
from edge.appliance.counts import ObjectCounts
from edge.appliance.metrics import Tally
from edge.appliance.picture_requests import LOW_DISK_BYTES
from edge.appliance.silences import Silences
from edge.appliance.truth import Truth
from edge.core.errors import MagpieError
from edge.core.journal_kinds import JournalNote
from edge.core.memory import give_back
from edge.recording.labelled_windows import drop_window
from edge.settings import RetentionSettings, SiteSettings
from edge.store.retention import RetentionLimits, RetentionPart
from edge.store.values import CameraWindow

_LOOK_S, _ROUNDS_AN_HOUR, _ROUNDS_A_MINUTE = 10.0, 360, 6


class Housekeeping:
    """`low` is true while little disk is left; `silences` are the control loop's. `note` journals, `complain(code,
    message)` tells the operator."""

    def __init__(
        self,
        site: SiteSettings,
        retention: RetentionPart,
        alarms: Alarms,
        counts: ObjectCounts,
        clips: Clips,
        truth: Truth,
        capacity: CapacityForecasts,
        tally: Tally,
        note: JournalNote,
        complain: Callable[[str, str], None],
        silences: Silences,
    ) -> None:
        self.low, self.silences = False, silences
        self._site, self._retention, self._alarms, self._truth, self._tally = site, retention, alarms, truth, tally
        self._counts, self._clips, self._capacity = counts, clips, capacity
        self._note, self._complain = note, complain

    async def run(self) -> None:
        """A round every 10 s, until cancelled."""
        number = 0
        while True:
            await asyncio.sleep(_LOOK_S)
            number += 1
            await self.round(number)

    async def round(self, number: int) -> None:
        """In each round the disk; every minute freed memory; every hour, and every minute while little disk is left,
        retention. Rounds begin at number 1."""
        self.look()
        if number % _ROUNDS_A_MINUTE == 0:
            await asyncio.to_thread(give_back)
        if number % _ROUNDS_AN_HOUR == 1 or (self.low and number % _ROUNDS_A_MINUTE == 0):
            await self.retain()

    def look(self) -> None:
        """Is the disk low?"""
        low = shutil.disk_usage(self._site.data_dir).free < LOW_DISK_BYTES
        if low and not self.low:
            self._complain("disk_full", f"less than {LOW_DISK_BYTES >> 20} MB are free in {self._site.data_dir}")
        self.low = low

    async def retain(self) -> None:
        """Delete what is over the limits; a failure is reported."""
        retention = self._site.retention
        try:
            report = await asyncio.to_thread(self._retention.retain, retention_limits(retention), self.drop_pictures)
            if self._tally.retained(report):
                self._note("retention", data=report.to_json())
            old = await self._alarms.retain(retention)
            if old.anything:
                self._note("retention.alarms", data=old.to_json())
            counted = await self._counts.retain(retention)
            if counted.anything:
                self._note("retention.counts", data=counted.to_json())
            clips = await self._clips.retain()
            if clips.anything:
                self._note("retention.clips", data=clips.to_json())
            await asyncio.to_thread(self._truth.pictures.retain)
            await self._capacity.retain()
        except MagpieError as error:
            self._complain(error.code, f"retention: {error}")

    def drop_pictures(self, row: CameraWindow) -> None:
        """Delete the pictures and the manifest of a camera's window."""
        drop_window(Path(self._site.data_dir), row.camera, row.window)


def retention_limits(settings: RetentionSettings) -> RetentionLimits:
    """The store's limits of the site's settings."""
    return RetentionLimits(
        settings.days, int(settings.max_gb * 1e9), settings.max_events, int(settings.max_events_mb * 1e6)
    )

"""Settles hours and days: once all labels have come, their corrections are kept with the counts.

So a year is read without its labels.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from edge.core.counts import CLUSTER_S, STEP_S, Step
from edge.store.store import Store
from scheduler.counts.checks import REACH_S, CheckIndex
from scheduler.counts.minutes import corrected_count, objects_by_place

#: The settings document with the end of the buckets that were settled, by step.
_SETTLED: Final = "counts/settled"
#: So long after its end no label around a bucket is awaited: those of REACH_S around it, and the labelling of a window.
SETTLED_AFTER_S: Final = REACH_S[-1] + 2 * 3600.0
_STEPS: Final[tuple[Step, ...]] = ("hour", "day")


class SettledCounts:
    """Settles one bucket of each step, of all cameras, at a time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._until_s: dict[str, int] | None = None

    def counted(self, start_s: int) -> None:
        """Open the hour and the day of a minute that begins at `start_s` again: more was counted in it."""
        if self._until_s is None:
            return
        for step in _STEPS:
            self._until_s[step] = min(self._until_s[step], start_s // STEP_S[step] * STEP_S[step])

    async def look(self, now_utc_s: float) -> None:
        """Settle the next buckets. Raises MagpieError: they are settled later."""
        for step in _STEPS:
            await asyncio.to_thread(self._settle, step, now_utc_s - SETTLED_AFTER_S - STEP_S[step])

    def _settle(self, step: Step, before_s: float) -> None:
        if self._until_s is None:
            self._until_s = self._read()
        until_s = self._until_s[step]
        start_s = self._store.counts.next_bucket(step, until_s, before_s)
        if start_s is None:
            return
        end_s, reach_s = start_s + STEP_S[step], REACH_S[-1]
        for camera in self._store.counts.counting_cameras(step, start_s):
            found = self._store.counts.count_checks(camera, start_s - reach_s, end_s + reach_s, CLUSTER_S[step])
            truth = CheckIndex(found)
            counts = self._store.counts.counted(camera, step, start_s, end_s)
            at = objects_by_place(counts)
            made = [
                replace(c, settled=True, corrected=corrected_count(c, at[c.place], truth, start_s, end_s))
                for c in counts
                if not c.settled
            ]
            self._store.counts.settle_counts(step, made)
        if self._until_s[step] != until_s:
            return
        self._until_s[step] = end_s
        self._store.settings.put_settings(_SETTLED, dict(self._until_s), "counts", audited=False)

    def _read(self) -> dict[str, int]:
        kept = self._store.settings.get_settings(_SETTLED) or {}
        return {step: int(kept.get(step, 0)) for step in _STEPS}

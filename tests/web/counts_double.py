"""The counts of the web tests' appliance."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date

from edge.appliance.answers.counts import ComparisonAnswer, CountsAnswer
from edge.appliance.answers.read import read
from edge.appliance.service import Json
from edge.core.counts import STEP_S, Step
from edge.core.errors import InvalidValue
from web.examples.counts import COMPARED, COUNTS


class DictCounts:
    """Implements `CountsService`: the counts of the example, of each camera that is there."""

    def __init__(self, check: Callable[[str], object]) -> None:
        self._check = check
        #: The last minutes, for the metrics.
        self.minutes: list[Json] = []

    def of_camera(self, camera: str, step: Step, from_utc_s: float, to_utc_s: float) -> CountsAnswer:
        self._check(camera)
        if to_utc_s <= from_utc_s:
            raise InvalidValue("to", to_utc_s, f"a time after `from` ({from_utc_s:g})")
        found = read(CountsAnswer, COUNTS | {"camera": camera, "step": step})
        first = int(from_utc_s // STEP_S[step]) * STEP_S[step]
        moved = tuple(replace(b, start_utc_s=first + n * STEP_S[step]) for n, b in enumerate(found.buckets))
        return replace(found, from_utc_s=first, to_utc_s=first + 2 * STEP_S[step], buckets=moved)

    def compared(
        self, camera: str, step: Step, from_utc_s: float, to_utc_s: float, before_utc_s: float
    ) -> ComparisonAnswer:
        found = self.of_camera(camera, step, from_utc_s, to_utc_s)
        if before_utc_s >= from_utc_s:
            raise InvalidValue("before", before_utc_s, f"a time before `from` ({from_utc_s:g})")
        before = int(before_utc_s // STEP_S[step]) * STEP_S[step]
        about = read(ComparisonAnswer, COMPARED | {"camera": camera, "step": step})
        return replace(about, from_utc_s=found.from_utc_s, to_utc_s=found.to_utc_s, before_from_utc_s=before)

    def day_report(self, camera: str, day: date) -> str:
        self._check(camera)
        if day.year < 1971:
            raise InvalidValue("day", day.isoformat(), "a later day")
        return f"<!doctype html><title>{camera}, {day}</title>"

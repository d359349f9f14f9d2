"""The service of counts. Values are edge.appliance.answers.counts; errors are edge.core.errors."""

from __future__ import annotations

from datetime import date
from typing import Protocol

from edge.appliance.answers.counts import ComparisonAnswer, CountsAnswer
from edge.core.counts import Step


class CountsService(Protocol):
    """Part of `edge.appliance.service.ApplianceService`. Every method blocks."""

    def of_camera(self, camera: str, step: Step, from_utc_s: float, to_utc_s: float) -> CountsAnswer:
        """The buckets that begin in a time, also those of a camera that was removed. Raises NotFound (a camera that is
        not there and never counted), InvalidValue (a time that ends before it begins, or has too many buckets)."""

    def compared(
        self, camera: str, step: Step, from_utc_s: float, to_utc_s: float, before_utc_s: float
    ) -> ComparisonAnswer:
        """The same buckets beside as many from `before_utc_s` on. Raises as `of_camera`, and InvalidValue (`before` is
        not before)."""

    def day_report(self, camera: str, day: date) -> str:
        """A camera's day of counts, in the box's time zone, as one HTML file. Raises as `of_camera`, and InvalidValue
        (a day that no clock shows)."""

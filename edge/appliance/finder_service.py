"""The service that finds objects and tells a camera's day. Values are edge.appliance.answers.finding; errors are
edge.core.errors."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date
from typing import Protocol

from edge.appliance.answers.finding import FoundObjects, TimelineAnswer
from edge.core.finding import FoundAfter, ObjectSearch


class FinderService(Protocol):
    """Part of `AlarmsService`. Every method blocks."""

    def objects(
        self, wanted: ObjectSearch, limit: int, after: FoundAfter | None, cameras: Collection[str] | None
    ) -> FoundObjects:
        """One page of a search, the newest first; `cameras` (not None): only objects of these. Raises NotFound (a
        camera that is asked for and is not there, and of which nothing is kept)."""

    def timeline(self, camera: str, day: date | None, bucket_s: int) -> TimelineAnswer:
        """A camera's day in the box's time zone (None: today), also of a camera that was removed. Raises NotFound (a
        camera that is not there, and of which nothing is kept), InvalidValue (a day to come, or that no clock
        shows; a length of a bucket)."""

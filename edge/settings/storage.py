"""Settings of what is kept on disk: the recorded sample, and how long history stays."""

from __future__ import annotations

from pydantic import Field

from edge.settings.base import Settings


class RecordingSettings(Settings):
    """The bounded sample on disk."""

    max_frames: int = Field(400, ge=8, le=100000, description="per camera and window")
    max_mb: float = Field(200, gt=0, le=1e6, description="per camera, all windows together")
    keep_windows: int = Field(6, ge=2, le=10000)


class RetentionSettings(Settings):
    """How long history is kept: every limit holds, the oldest goes first."""

    days: float = Field(30, gt=0, le=3650, description="pictures, events, windows, models that are not needed")
    count_days: float = Field(1100, gt=0, le=36500, description="counts by hour and day; by minute they go by `days`")
    max_gb: float = Field(10, gt=0, le=1e5, description="pictures and models together")
    max_events: int = Field(1_000_000, ge=100, le=10**9, description="journal entries")
    max_events_mb: float = Field(500, gt=0, le=1e6, description="journal entries, in MB")
    max_objects: int = Field(200_000, ge=100, le=10**9, description="records of objects, and as many of alarms")
    max_object_pictures_mb: float = Field(1000, gt=0, le=1e6, description="pictures of objects and alarms, in MB")


class DailyReportSettings(Settings):
    """A report of each camera's day of counts, made on the next day: in the data folder, and to webhooks of kind
    `report`."""

    at: str = Field("06:00", pattern=r"^([01]\d|2[0-3]):[0-5]\d$", description="hour in the box's time zone")
    keep_days: int = Field(90, ge=1, le=36500, description="files of older days are deleted")

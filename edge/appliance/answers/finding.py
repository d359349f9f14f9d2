"""Found objects, and a camera's day, as transports show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from edge.appliance.answers.alarms import AlarmAnswer, ObjectAnswer
from edge.appliance.answers.clips import ClipAnswer
from edge.appliance.answers.marks import OfCamera, Shown, answer
from edge.core.camera import CameraFault
from edge.core.counts import Direction
from edge.core.finding import OutageCause

#: Lanes of a day that are listed up to a number.
Lane = Literal["alarms", "retrainings", "outages", "clips"]


@answer
class LineCrossed:
    """A line that an object crossed, and when."""

    line: Shown[str]
    way: Shown[Direction]
    at_utc_s: Shown[float]


@answer
class FoundObject:
    """An object that was found; `camera` is its own. `lines`: those that it crossed, in the order of time."""

    camera: OfCamera[str]
    object: Shown[ObjectAnswer]
    lines: Shown[tuple[LineCrossed, ...]]


@answer
class FoundObjects:
    """A page of a search, the newest first. `next`: ask again with it as `after` (null: there are no older ones); then
    everything that came after `looked_back_to_utc_s` was looked at. A page may be short, or empty, and have a next
    one."""

    found: Shown[tuple[FoundObject, ...]]
    next: Shown[str | None]
    looked_back_to_utc_s: Shown[float | None]


@answer
class BucketOfDay:
    """The objects that came in a time of the day, by class."""

    from_utc_s: Shown[float]
    to_utc_s: Shown[float]
    objects: Shown[Mapping[str, int]]


@answer
class HourOfDay:
    """An hour of the day begins: as the box's clock shows it, and how far that is ahead of UTC."""

    at_utc_s: Shown[float]
    label: Shown[str]
    ahead_s: Shown[int]


@answer
class OutageAnswer:
    """A time in which the camera was not watched; `to_utc_s` null: it goes on. `fault` of its stream, where one is
    known."""

    from_utc_s: Shown[float]
    to_utc_s: Shown[float | None]
    cause: Shown[OutageCause]
    fault: Shown[CameraFault | None]


@answer
class RetrainingOfDay:
    """A retraining of the camera in a window; `ended_utc_s` null: it goes on. `promoted`: its model took over. The
    accuracies (0-1) were measured before and after, null: they were not."""

    window: Shown[int]
    state: Shown[Literal["running", "completed", "failed", "stopped", "interrupted"]]
    started_utc_s: Shown[float]
    ended_utc_s: Shown[float | None]
    promoted: Shown[bool]
    accuracy_before: Shown[float | None]
    accuracy_after: Shown[float | None]
    model_version: Shown[str | None]


@answer
class TimelineAnswer:
    """A camera's day (2026-11-26) in the box's time zone; `today` is the one of now. `camera_state`: whether it is
    switched on, off, or was removed. Of alarms, retrainings and clips at most 500 of each are listed, the newest, and
    outages up to a number of changes of the camera; `cut` names those of which there are more. Before
    `known_from_utc_s` (null: all day) no outage is known."""

    camera: OfCamera[str]
    camera_state: Shown[Literal["on", "off", "removed"]]
    day: Shown[str]
    today: Shown[str]
    now_utc_s: Shown[float]
    from_utc_s: Shown[float]
    to_utc_s: Shown[float]
    hours: Shown[tuple[HourOfDay, ...]]
    bucket_s: Shown[int]
    buckets: Shown[tuple[BucketOfDay, ...]]
    alarms: Shown[tuple[AlarmAnswer, ...]]
    retrainings: Shown[tuple[RetrainingOfDay, ...]]
    outages: Shown[tuple[OutageAnswer, ...]]
    known_from_utc_s: Shown[float | None]
    clips: Shown[tuple[ClipAnswer, ...]]
    cut: Shown[tuple[Lane, ...]]

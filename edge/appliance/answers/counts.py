"""Counts of objects as transports show them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from edge.appliance.answers.marks import OfCamera, Shown, answer
from edge.core.counts import PlaceKind, Step


@answer
class CorrectedAnswer:
    """A count corrected by what the teacher's labels say, with the interval that holds the true count with 90 %."""

    value: Shown[float]
    low: Shown[float]
    high: Shown[float]


@answer
class CountAnswer:
    """Objects of one class at one place in one bucket. `way`: "forward" or "backward" over a line, the last zone of a
    movement; `seconds` and `standing_s`: of a zone, summed over objects; `most`: in a zone at once. `corrected` null:
    too few labels, nothing is known."""

    kind: Shown[PlaceKind]
    name: Shown[str]
    way: Shown[str]
    class_: Annotated[Shown[str], Field(alias="class")]
    objects: Shown[int]
    corrected: Shown[CorrectedAnswer | None]
    seconds: Shown[float]
    standing_s: Shown[float]
    most: Shown[int]


@answer
class CountedSinceStart:
    """Objects of one class counted at one place since the appliance started."""

    camera: OfCamera[str]
    kind: Shown[PlaceKind]
    name: Shown[str]
    way: Shown[str]
    class_: Annotated[Shown[str], Field(alias="class")]
    objects: Shown[int]


@answer
class PlaceMinuteAnswer:
    """Objects of all classes at one place in one minute; `most`: in a zone at once."""

    kind: Shown[PlaceKind]
    name: Shown[str]
    way: Shown[str]
    objects: Shown[int]
    corrected: Shown[CorrectedAnswer | None]
    most: Shown[int]


@answer
class MinuteAnswer:
    """The last minute of a camera that is over; `watched` 0: nothing is known of it."""

    camera: OfCamera[str]
    start_utc_s: Shown[int]
    watched: Shown[float]
    places: Shown[tuple[PlaceMinuteAnswer, ...]]


@answer
class CountingAnswer:
    """Objects counted since the start; `lost`: records that could not be kept; the last minute of each camera."""

    counted: Shown[tuple[CountedSinceStart, ...]]
    lost: Shown[int]
    minutes: Shown[tuple[MinuteAnswer, ...]]


@answer
class BucketAnswer:
    """A bucket of time. `watched`: the part of it (0-1) in which answers came; `answers_per_s` in that part. In one
    that was not watched nothing is known: no count there is no zero."""

    start_utc_s: Shown[int]
    watched: Shown[float]
    answers_per_s: Shown[float]
    counts: Shown[tuple[CountAnswer, ...]]


@answer
class CountsAnswer:
    """The buckets of a camera from `from_utc_s` to before `to_utc_s`, all of them, and the sums over all buckets;
    `formats` in which this box writes them as a file."""

    camera: OfCamera[str]
    step: Shown[Step]
    from_utc_s: Shown[int]
    to_utc_s: Shown[int]
    watched: Shown[float]
    totals: Shown[tuple[CountAnswer, ...]]
    buckets: Shown[tuple[BucketAnswer, ...]]
    formats: Shown[tuple[Literal["csv", "parquet"], ...]]


@answer
class ComparedCount:
    """Objects of one class at one place now and before, as counted: of the compared buckets, or of one bucket."""

    kind: Shown[PlaceKind]
    name: Shown[str]
    way: Shown[str]
    class_: Annotated[Shown[str], Field(alias="class")]
    objects: Shown[int]
    before: Shown[int]


@answer
class ComparedBucket:
    """A bucket and the earlier one. `compared`: both were watched for nine tenths; only then do their numbers count in
    the totals."""

    start_utc_s: Shown[int]
    before_utc_s: Shown[int]
    watched: Shown[float]
    watched_before: Shown[float]
    compared: Shown[bool]
    counts: Shown[tuple[ComparedCount, ...]]


@answer
class ComparisonAnswer:
    """A camera's buckets beside those of an earlier time; `compared`: the part of the time (0-1) that was watched in
    both, of which the totals are. Places and classes that were counted in either time have a total."""

    camera: OfCamera[str]
    step: Shown[Step]
    from_utc_s: Shown[int]
    to_utc_s: Shown[int]
    before_from_utc_s: Shown[int]
    compared: Shown[float]
    totals: Shown[tuple[ComparedCount, ...]]
    buckets: Shown[tuple[ComparedBucket, ...]]

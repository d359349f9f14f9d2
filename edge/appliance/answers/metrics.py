"""The numbers behind `/metrics`."""

from __future__ import annotations

from collections.abc import Mapping

from edge.appliance.answers.clips import ClipCounts
from edge.appliance.answers.counts import CountingAnswer
from edge.appliance.answers.documents import ModelStatistics
from edge.appliance.answers.fleet import FleetLendingAnswer
from edge.appliance.answers.fleet_jobs import FleetJobsAnswer
from edge.appliance.answers.marks import ByCamera, Shown, answer
from edge.appliance.answers.serving import Serving
from edge.appliance.answers.state import BoxHealth, Overview
from edge.appliance.answers.system import Retained
from edge.appliance.answers.tenants import TenantsAnswer
from edge.appliance.answers.truth import TruthEstimate


@answer
class SilenceAnswer:
    """Times in which the control loop did nothing else, in seconds: the longest since the start and of the last hour;
    `count` and `seconds` of those longer than a second."""

    longest_s: Shown[float]
    longest_in_hour_s: Shown[float]
    count: Shown[int]
    seconds: Shown[float]


@answer
class TallyAnswer:
    """Counts since the start: `events` and `workers_lost` by kind, `losses_by_cause`; by camera outcomes
    of retrainings, and device seconds of those that ended."""

    events: Shown[Mapping[str, int]]
    cameras: ByCamera[Mapping[str, int]]
    retraining_device_s: ByCamera[float]
    workers_lost: Shown[Mapping[str, int]]
    losses_by_cause: Shown[Mapping[str, int]]
    silence: Shown[SilenceAnswer]
    retention: Shown[Retained]


@answer
class DiskSpace:
    """The disk of the data folder."""

    free_bytes: Shown[int]
    total_bytes: Shown[int]


@answer
class OutputCounts:
    """Counts of a destination's messages since the start. `up` null: it is switched off."""

    destination: Shown[str]
    up: Shown[bool | None]
    waiting: Shown[int]
    waiting_bytes: Shown[int]
    sent: Shown[int]
    lost: Shown[int]
    lost_by: Shown[Mapping[str, int]]
    dead: Shown[int]


@answer
class AlarmCounts:
    """Alarms by kind, raised since the start and active now; objects by camera; losses."""

    raised: Shown[Mapping[str, int]]
    active: Shown[Mapping[str, int]]
    held_back: Shown[int]
    objects: ByCamera[int]
    objects_now: ByCamera[int]
    lost: Shown[Mapping[str, int]]


@answer
class WindowTruth(TruthEstimate):
    """A window's estimate with its number."""

    window: Shown[int]


@answer
class MetricsSnapshot:
    """Everything that is counted and measured. `expected_accuracy`: a model's held-out accuracy when it was promoted;
    `live_pictures`: encoded since the start; `records_unreadable` of the database by kind; `serving` null:
    nothing is served; `statistics`: the inference protocol's of each served version, null where none came;
    `truth`: the newest estimate; `fleet_jobs` null: this box is not the head of a fleet."""

    health: Shown[BoxHealth]
    overview: Shown[Overview]
    expected_accuracy: ByCamera[float | None]
    counts: Shown[TallyAnswer]
    live_pictures: ByCamera[int]
    records_unreadable: Shown[Mapping[str, int]]
    disk: Shown[DiskSpace]
    serving: Shown[Serving | None]
    statistics: Shown[tuple[ModelStatistics, ...] | None]
    outputs: Shown[tuple[OutputCounts, ...]]
    alarms: Shown[AlarmCounts]
    counting: Shown[CountingAnswer]
    clips: Shown[ClipCounts]
    truth: ByCamera[WindowTruth]
    tenants: Shown[TenantsAnswer]
    lending: Shown[FleetLendingAnswer]
    fleet_jobs: Shown[FleetJobsAnswer | None]

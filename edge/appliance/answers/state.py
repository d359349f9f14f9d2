"""Health, the overview that is asked for each second, and what `magpie doctor` found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from edge.appliance.answers.cameras import OverviewCamera
from edge.appliance.answers.marks import ByCamera, Message, OfCamera, Shown, answer
from edge.appliance.answers.models import ConfigAnswer
from edge.appliance.answers.serving import FrontAnswer, ServingShare
from edge.core.shares import Enforcement, ShareKind


@answer
class Reason:
    """Why the box is not ready, or what is wrong with it all the same."""

    code: Shown[str]
    message: Message
    camera: OfCamera[str | None] = None


@answer
class BoxHealth:
    """Whether the appliance does its work."""

    live: Shown[bool]
    ready: Shown[bool]
    reasons: Shown[tuple[Reason, ...]]
    uptime_s: Shown[float]
    version: Shown[str]


@answer
class ReasonCode:
    """A reason for callers who are not logged in."""

    code: str


@answer
class OpenHealth:
    """Health for callers who are not logged in."""

    live: bool
    ready: bool
    reasons: tuple[ReasonCode, ...]


@answer
class Alive:
    """The control process answers."""

    live: Literal[True] = True


@answer
class WindowNow:
    """The retraining window that is open."""

    number: Shown[int]
    start_utc_s: Shown[float]
    end_utc_s: Shown[float]
    length_s: Shown[float]
    phase: Shown[str]


@answer
class PlanNow:
    """The plan in force: its objective, and its reasons by camera ("": for all of them)."""

    objective: Shown[float]
    reasons: ByCamera[str]


@answer
class ShareKindAnswer:
    """How shares of the device are kept. `units`: cores or SMs behind share 1; `step` None: any size."""

    kind: Shown[ShareKind]
    device: Shown[str]
    enforced: Shown[Enforcement]
    resize: Shown[Literal["live", "respawn"]]
    min_share: Shown[float]
    step: Shown[float | None]
    units: Shown[float]
    oversubscribe: Shown[bool]
    memory_limit: Shown[bool]
    fault_domain: Shown[Literal["worker", "device"]]
    evidence: Shown[str]


@answer
class SharesOfCamera:
    """A camera's shares of the device: for answers (as `lambda` says) and for its retraining (`config`)."""

    inference: Shown[float]
    retraining: Shown[float]
    config: Shown[str | None]
    lambda_: Annotated[Shown[str | None], Field(alias="lambda")]


@answer
class JobNow:
    """A retraining that runs. `fraction` of its work is done; `total_device_s` and `device_seconds` are device
    seconds, expected and spent; `held_out`: accuracy on held-out frames so far. `retraining`: the configuration with
    the id `config`; `box`: another one that does it (empty: this one)."""

    job: Shown[str]
    camera: OfCamera[str]
    config: Shown[str]
    retraining: Shown[ConfigAnswer]
    window: Shown[int]
    share: Shown[float]
    started_utc_s: Shown[float]
    predicted_accuracy: Shown[float | None]
    total_device_s: Shown[float]
    fraction: Shown[float]
    held_out: Shown[float | None]
    device_seconds: Shown[float]
    box: Shown[str]


@answer
class Complaint:
    """A complaint: something that the operator must know, in words."""

    code: Shown[str]
    message: Message
    camera: OfCamera[str | None]
    utc_s: Shown[float]


@answer
class WorkerNow:
    """A worker process. Counters run since it was started first."""

    name: Shown[str]
    role: Shown[str]
    kind: Shown[str]
    camera: OfCamera[str | None]
    state: Shown[str]
    pid: Shown[int | None]
    share: Shown[float]
    restarts: Shown[int]
    respawns: Shown[int]
    last_error: Message
    messages_lost: Shown[int]


@answer
class UsageNow:
    """Shares of a worker since the window began: asked, granted and used; `device_seconds` of device time in `wall_s`
    seconds; fractions of the time in which it was held back or waited."""

    worker: Shown[str]
    activity: Shown[str]
    camera: OfCamera[str | None]
    asked: Shown[float]
    granted: Shown[float]
    used_share: Shown[float]
    device_seconds: Shown[float]
    wall_s: Shown[float]
    throttled_fraction: Shown[float]
    visible_units: Shown[float | None]
    given_share: Shown[float | None]
    waited_fraction: Shown[float]
    demand_limited: Shown[bool]
    running: Shown[bool]


@answer
class BoxLosses:
    """The box's losses since the start, all cameras together; `labels` and `alarms` by kind; `clips` that could not be
    made.
    No losses are `labels_waiting`, pictures that the golden model has not come to, and the labels and seconds of its
    work in `labels`."""

    labels: Shown[Mapping[str, float]]
    journal: Shown[int]
    labels_waiting: Shown[int]
    live_pictures: Shown[int]
    alarms: Shown[Mapping[str, int]]
    clips: Shown[int]


@answer
class ServedModelNow:
    """A served model, small: fields as in `ServedModelAnswer`, `reason` in words (empty: nothing hinders it)."""

    camera: OfCamera[str | None]

    name: Shown[str]
    kind: Shown[str]
    state: Shown[str]
    reason: Shown[str]
    version: Shown[str | None]
    slo_ms: Shown[float | None]
    rate: Shown[float]
    planned_rate: Shown[float]
    served_part: Shown[float]
    latency_ms: Shown[tuple[float, ...]]
    violations_recent: Shown[float]


@answer
class ServingNow:
    """Served models, small. `front_share`: the front's share."""

    front: Shown[FrontAnswer]
    share: Shown[ServingShare]
    front_share: Shown[float]
    reorganising: Shown[bool]
    models: Shown[tuple[ServedModelNow, ...]]


@answer
class Overview:
    """Window, shares, cameras, running retrainings, complaints, losses now. `serving`: null where nothing is served."""

    site: Shown[str]
    utc_s: Shown[float]
    window: Shown[WindowNow]
    policy: Shown[str]
    plan: Shown[PlanNow | None]
    device: Shown[ShareKindAnswer]
    shares: ByCamera[SharesOfCamera]
    golden_share: Shown[float]
    profiling_share: Shown[float]
    lent_share: Shown[float]
    control_share: Shown[float]
    serving: Shown[ServingNow | None]
    usage: Shown[tuple[UsageNow, ...]]
    cameras: Shown[tuple[OverviewCamera, ...]]
    jobs: Shown[tuple[JobNow, ...]]
    complaints: Shown[tuple[Complaint, ...]]
    workers: Shown[tuple[WorkerNow, ...]]
    losses: Shown[BoxLosses]


@answer
class CheckAnswer:
    """One check of this machine and site."""

    name: Shown[str]
    outcome: Shown[Literal["good", "warning", "bad"]]
    said: Shown[str]
    hint: Shown[str]


@answer
class TriedShareKind:
    """A share kind that was tried on a device, in words ("cgroup v2"), and why it can or cannot be had."""

    kind: Shown[str]
    ok: Shown[bool]
    reason: Shown[str]


@answer
class DeviceReport:
    """A device with the best share kind that it enforces; `shares` null: none, and `error` says why."""

    device: Shown[str]
    kind: Shown[Literal["cpu", "gpu", "mig"]]
    name: Shown[str]
    units: Shown[float | None]
    memory_bytes: Shown[int]
    shares: Shown[ShareKindAnswer | None]
    error: Shown[str | None]
    tried: Shown[tuple[TriedShareKind, ...]]


@answer
class Doctor:
    """The share kinds that this machine can enforce, and why not more."""

    can_run: Shown[bool]
    checks: Shown[tuple[CheckAnswer, ...]]
    devices: Shown[tuple[DeviceReport, ...]]
    notes: Shown[tuple[str, ...]]

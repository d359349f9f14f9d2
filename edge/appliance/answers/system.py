"""The system page and the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from edge.appliance.answers.documents import GivenValue
from edge.appliance.answers.marks import Message, OfCamera, Shown, answer
from edge.appliance.answers.state import BoxHealth, ShareKindAnswer
from edge.settings import RecordingSettings, RetentionSettings


@answer
class GpuAnswer:
    """A GPU as its driver reports it. `sms` null: not probed."""

    id: Shown[str]
    name: Shown[str]
    memory_bytes: Shown[int]
    driver: Shown[str]
    compute_capability: Shown[str]
    compute_mode: Shown[str]
    sms: Shown[int | None]
    mig: Shown[bool]


@answer
class DeviceAnswer:
    """A device that shares can be given of. `units`: cores, or SMs once probed."""

    kind: Shown[Literal["cpu", "gpu", "mig"]]
    id: Shown[str]
    name: Shown[str]
    units: Shown[float | None]
    memory_bytes: Shown[int]
    gpu: Shown[GpuAnswer | None]
    in_use: Shown[bool]


@answer
class ReservedShares:
    """Shares that are reserved for Magpie's own work."""

    control: Shown[float]
    golden: Shown[float]
    evaluation: Shown[float]
    front: Shown[float]


@answer
class SystemShares(ShareKindAnswer):
    """The share kind in force, what it promises, and what is kept."""

    promise: Shown[str]
    limits: Shown[tuple[str, ...]]
    kept: Shown[ReservedShares]


@answer
class SystemWorker:
    """A worker with shares asked, granted and used in this window (or null) and its memory. `camera`: the one that it
    works for alone."""

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
    asked: Shown[float | None]
    granted: Shown[float | None]
    used: Shown[float | None]
    memory_bytes: Shown[int | None]


@answer
class DiskSizes:
    """Bytes on disk."""

    pictures: Shown[int]
    models: Shown[int]
    database: Shown[int]


@answer
class Retained:
    """Records that retention deleted since the start, by kind; bytes kept, and over the limits (null before it ran)."""

    deleted: Shown[Mapping[str, int]]
    bytes_kept: Shown[int | None]
    bytes_over: Shown[int | None]


@answer
class SystemDisk:
    """The disk of the data folder. `sizes` null: the database is away."""

    free_bytes: Shown[int]
    total_bytes: Shown[int]
    folder: Shown[str]
    low: Shown[bool]
    low_bytes: Shown[int]
    sizes: Shown[DiskSizes | None]
    retention: Shown[RetentionSettings]
    recording: Shown[RecordingSettings]
    retained: Shown[Retained]


@answer
class Loss:
    """A counter of something lost, in words; `since` the appliance or a worker was started."""

    code: Shown[str]
    camera: OfCamera[str | None]
    subject: Shown[str]
    count: Shown[int]
    words: Shown[str]
    since: Shown[Literal["appliance", "worker"]]


@answer
class SystemAnswer:
    """Devices, shares, workers, disk, losses and versions (by what runs)."""

    site: Shown[str]
    utc_s: Shown[float]
    started_utc_s: Shown[float]
    health: Shown[BoxHealth]
    devices: Shown[tuple[DeviceAnswer, ...]]
    notes: Shown[tuple[str, ...]]
    shares: Shown[SystemShares]
    workers: Shown[tuple[SystemWorker, ...]]
    disk: Shown[SystemDisk]
    losses: Shown[tuple[Loss, ...]]
    versions: Shown[Mapping[str, str]]


@answer
class LogLine:
    """A log record of the control process; null: not known. `error` is a traceback."""

    id: int
    utc_s: float
    level: str
    logger: str
    message: str
    camera: str | None = None
    window: int | None = None
    cause: str | None = None
    event: str | None = None
    worker: str | None = None
    error: str | None = None


@answer
class LogAnswer:
    """Records that are still in memory, newest first; `forgotten` gave way to newer ones. `level`: the least that is
    logged at all."""

    records: tuple[LogLine, ...]
    capacity: int
    forgotten: int
    level: str


@answer
class ProblemAnswer:
    """A problem of one field."""

    path: str
    given: GivenValue
    allowed: str


@answer
class CheckedSettings:
    """The problems of settings, by field; empty: none."""

    problems: tuple[ProblemAnswer, ...]

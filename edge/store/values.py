"""The store's answers: frozen records. `to_json()` of each is fit for REST and files.

Times are UTC epoch seconds unless the name says otherwise; accuracies are fractions [0, 1]; shares are in devices.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from edge.core.models import ModelVersion
from edge.core.plan_causes import PlanCauseCode

JobState = Literal["running", "completed", "failed", "stopped", "interrupted"]
JOB_ENDS: tuple[JobState, ...] = ("completed", "failed", "stopped", "interrupted")
WindowOutcome = Literal["open", "completed", "interrupted", "aborted"]
CostKind = Literal["labelling", "profiling", "retraining", "inference", "planning"]
COST_KINDS: tuple[CostKind, ...] = ("labelling", "profiling", "retraining", "inference", "planning")


class _Record:
    """A frozen dataclass that can be written as JSON."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)  # type: ignore[call-overload, no-any-return]


@dataclass(frozen=True)
class SettingsRecord(_Record):
    """A settings document in force. `revision` counts its changes from 1."""

    name: str
    revision: int
    value: dict[str, Any]
    changed_by: str
    changed_utc_s: float


@dataclass(frozen=True)
class AuditRecord(_Record):
    """One change: `subject` is "settings/NAME" or "camera/ID"; `value` is the new document (None: deleted).

    `address` is where the request came from (None: a command on this machine, or the appliance itself).
    """

    id: int
    at_utc_s: float
    subject: str
    action: str
    revision: int
    changed_by: str
    value: dict[str, Any] | None
    address: str | None = None


@dataclass(frozen=True)
class CameraRecord(_Record):
    """A camera as configured. `settings` is a document that was validated elsewhere; it never holds a password."""

    id: str
    settings: dict[str, Any]
    enabled: bool
    revision: int
    created_utc_s: float
    changed_utc_s: float


@dataclass(frozen=True)
class CameraWindow(_Record):
    """One camera's result in one window.

    `realised` and `frozen` are documents of edge.core.labels.Accuracy: of the answers really given, and of the frozen
    student in shadow on the same labelled frames. `losses` counts what was lost, by name. `manifest` is the path of
    the window's data, which takes `picture_bytes` bytes on disk until `pictures_dropped`.
    """

    window: int
    camera: str
    model_version: str | None = None
    realised: dict[str, Any] | None = None
    frozen: dict[str, Any] | None = None
    frames_sampled: int = 0
    frames_labelled: int = 0
    objects_labelled: int = 0
    labelling_delay_s: float | None = None
    profiling_delay_s: float | None = None
    losses: dict[str, int] = field(default_factory=dict)
    manifest: str | None = None
    picture_bytes: int = 0
    pictures_dropped: bool = False
    details: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PlanRecord(_Record):
    """A plan with its problem, as the files "retrain-infer-window/1" and "retrain-infer-plan/1"; `cause` in words, with
    its code and the camera that it is about (None: none, or of a "recorded" one not known).

    `basis` is what it was made from beside the problem (edge.core.plan_basis.PlanBasis); None: not recorded.
    """

    id: int
    window: int
    at_utc_s: float
    cause: str
    policy: str
    objective: float
    problem: dict[str, Any]
    plan: dict[str, Any]
    cause_code: PlanCauseCode = "recorded"
    cause_camera: str | None = None
    basis: dict[str, Any] | None = None


@dataclass(frozen=True)
class ProfileRecord(_Record):
    """The micro-profiler's estimate of one configuration (document of edge.core.profiles.RetrainingProfile)."""

    id: int
    window: int
    camera: str
    config: str
    at_utc_s: float
    profile: dict[str, Any]


@dataclass(frozen=True)
class JobRecord(_Record):
    """A retraining. `fraction` [0, 1] of its work is done; `attempt` counts its starts from 1."""

    id: str
    window: int
    camera: str
    config: str
    share: float
    state: JobState
    attempt: int
    started_utc_s: float
    ended_utc_s: float | None
    fraction: float
    device_seconds: float
    accuracy_before: float | None
    accuracy_after: float | None
    promoted: bool
    reason: str
    model_version: str | None


@dataclass(frozen=True)
class ShareUsage(_Record):
    """The share of a worker over an accounting period: asked, granted, used (in devices)."""

    id: int
    window: int
    at_utc_s: float
    worker: str
    role: str
    camera: str | None
    asked: float
    granted: float
    used: float
    device_seconds: float
    wall_s: float
    throttled_fraction: float


@dataclass(frozen=True)
class RecordedCost(_Record):
    """The sum of one kind of work in a window, for a camera (None: for all together)."""

    window: int
    camera: str | None
    kind: CostKind
    device_seconds: float
    wall_s: float


@dataclass(frozen=True)
class WindowRecord(_Record):
    """A retraining window. `id` is its number; `settings` are those in force in it."""

    id: int
    start_utc_s: float
    length_s: float
    policy: str
    settings: dict[str, Any]
    open: bool
    closed_utc_s: float | None
    outcome: WindowOutcome
    details: dict[str, Any]
    cameras: tuple[CameraWindow, ...] = ()


@dataclass(frozen=True)
class WindowDetail(_Record):
    """A window with everything recorded of it, oldest first in each list."""

    window: WindowRecord
    plans: tuple[PlanRecord, ...]
    profiles: tuple[ProfileRecord, ...]
    jobs: tuple[JobRecord, ...]
    usage: tuple[ShareUsage, ...]
    costs: tuple[RecordedCost, ...]


@dataclass(frozen=True)
class OpenWindow(_Record):
    """Where a restart goes on: the open window, its latest plan (None before the first) and the jobs of it."""

    window: WindowRecord
    plan: PlanRecord | None
    jobs: tuple[JobRecord, ...]


@dataclass(frozen=True)
class DecisionRecord(_Record):
    """A change of a model version's state or pin: `action` is the new state, "pinned" or "unpinned"."""

    id: int
    version: str
    camera: str
    at_utc_s: float
    action: str
    decided_by: str
    reason: str


@dataclass(frozen=True)
class EventRecord(_Record):
    """One event of the journal; `id` only grows."""

    id: int
    at_utc_s: float
    kind: str
    camera: str | None
    window: int | None
    data: dict[str, Any]


@dataclass(frozen=True)
class NewEvent:
    """An event to be appended to the journal."""

    at_utc_s: float
    kind: str
    camera: str | None = None
    window: int | None = None
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Recovery(_Record):
    """The findings of a start after the last run's end.

    `promoted` is the model in force by camera, each with an intact blob. `rolled_back` are promoted versions whose blob
    was damaged or gone and that gave way to an earlier one; `lost` are cameras with no intact version left.
    """

    open: OpenWindow | None
    promoted: dict[str, ModelVersion]
    interrupted_jobs: tuple[str, ...]
    rejected_candidates: tuple[str, ...]
    rolled_back: tuple[str, ...]
    lost: tuple[str, ...]
    temporaries_removed: int


@dataclass(frozen=True)
class Health(_Record):
    """Whether the store can be used: `fault` is None or says in words what is wrong (`code` of edge.core.errors)."""

    database: str
    schema: str | None
    fault: str | None
    code: str | None
    free_bytes: int
    model_bytes: int


@dataclass(frozen=True)
class BlobCheck(_Record):
    """Model files read and compared with their hashes; `damaged` are in words."""

    checked: int
    damaged: tuple[str, ...]

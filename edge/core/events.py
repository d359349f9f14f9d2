"""Events (past facts) that the window controller handles, and Instructions (orders) that the runtime carries out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from edge.core.learning import Correction
from edge.core.lending import Borrower, LendingOffer
from edge.core.plan_basis import CameraBudget, PlanRequest
from edge.core.plan_causes import CameraChange, PlanCause
from edge.core.profiles import InferenceProfile, RetrainingProfile
from edge.core.window import WindowPlan, WindowProblem


@dataclass(frozen=True)
class Event:
    """Base: `at_s` is the controller's time (seconds, monotonic within one run)."""

    at_s: float


@dataclass(frozen=True)
class CameraJoined(Event):
    """A camera was enabled, with its model's last known accuracy [0, 1] and its inference profile."""

    camera: str
    accuracy: float
    inference: InferenceProfile
    every_kth_window: int = 1
    model_version: str = ""
    retraining: bool = True


@dataclass(frozen=True)
class CameraChanged(Event):
    """A camera that has joined is another one now, as `what` says; the rest as in CameraJoined."""

    what: CameraChange
    camera: str
    accuracy: float
    inference: InferenceProfile
    every_kth_window: int = 1
    model_version: str = ""
    retraining: bool = True


@dataclass(frozen=True)
class CameraLeft(Event):
    """A camera was disabled or removed."""

    camera: str


@dataclass(frozen=True)
class WindowSettings:
    """The settings that the controller plans a window by: its length, the accuracy floor, the policy by name, whether
    models are retrained, and the step of shares."""

    window_s: float
    a_min: float | None
    policy: str
    retraining_enabled: bool = True
    delta: float = 0.05


@dataclass(frozen=True)
class BoundaryReached(Event):
    """The clock says that a window is over (or that the first one begins).

    `retraining_allowed` is False in quiet hours: the window is measured, but nothing is retrained in it. `settings`
    hold from now on (None: as before).
    """

    retraining_allowed: bool = True
    settings: WindowSettings | None = None


@dataclass(frozen=True)
class DeadlinePassed(Event):
    """Labelling and profiling of `window` have taken as long as they may."""

    window: int


@dataclass(frozen=True)
class HandInDue(Event):
    """Profiles of `window` are wanted now: half-done ones are taken as they are."""

    window: int


@dataclass(frozen=True)
class SampleLabelled(Event):
    """The closed sample of a camera is labelled: frames in train and held-out, realised accuracy of the window past,
    and how its accuracies are corrected in the window that runs."""

    camera: str
    window: int
    train_frames: int
    held_out_frames: int
    realised_accuracy: float | None
    inference: InferenceProfile | None = None
    correction: Correction | None = None


@dataclass(frozen=True)
class Profiled(Event):
    """The micro-profiler is done with a camera (no profiles: nothing promising or not enough data)."""

    camera: str
    window: int
    profiles: tuple[RetrainingProfile, ...]
    start_accuracy: float | None = None
    device_seconds: float = 0.0


@dataclass(frozen=True)
class RetrainingProgressed(Event):
    """A retraining reports: device seconds done (at full share) of its profile's total, and held-out accuracy."""

    camera: str
    job: str
    device_seconds: float
    fraction: float
    accuracy: float | None = None


@dataclass(frozen=True)
class RetrainingCompleted(Event):
    """A retraining ended and was gated: `promoted` says whether another model is in force, `learned` whether that is
    the new one; else it is the download."""

    camera: str
    job: str
    promoted: bool
    accuracy: float
    model_version: str = ""
    reason: str = ""
    learned: bool = True


@dataclass(frozen=True)
class GroupsPossible(Event):
    """Sets of cameras that may be retrained as one group (a camera may be in several); `kept` is the part of its own
    retraining's gain that a member of a group gets. The students in force of `taught` came of a group, and
    those cameras have too few objects to judge another by. The names `guests` in `sets` are of cameras of other boxes,
    whose pictures teach."""

    sets: tuple[tuple[str, ...], ...]
    kept: float
    taught: frozenset[str] = frozenset()
    guests: frozenset[str] = frozenset()


@dataclass(frozen=True)
class LendersOffered(Event):
    """Other boxes lend this from now on to this box, `me` (None: it borrows nothing)."""

    offers: tuple[LendingOffer, ...]
    me: Borrower | None


@dataclass(frozen=True)
class RetrainingFailed(Event):
    """A retraining's worker died or gave up; the old model stays."""

    camera: str
    job: str
    reason: str


@dataclass(frozen=True)
class CapacityChanged(Event):
    """Devices left to cameras changed (serving took or gave some)."""

    num_gpus: float


@dataclass(frozen=True)
class CameraBudgetsMoved(Event):
    """Tenants with cameras have these budgets from now on; none: all cameras share all that there is."""

    budgets: tuple[CameraBudget, ...]


@dataclass(frozen=True)
class Instruction:
    """Base of what the controller orders."""


@dataclass(frozen=True)
class CloseSample(Instruction):
    """Close the sample of the window that ended, finish labelling it, report SampleLabelled."""

    camera: str
    window: int


@dataclass(frozen=True)
class StartProfiling(Instruction):
    """Micro-profile the camera's space and report Profiled. `hurry`: no time is left for trials, so at once, from what
    past windows taught."""

    camera: str
    window: int
    share: float
    hurry: bool = False


@dataclass(frozen=True)
class SetShares(Instruction):
    """Shares by camera: inference share and retraining share, in devices."""

    inference: dict[str, float]
    retraining: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class StartRetraining(Instruction):
    """Start a retraining of `camera` with `config` (an option's id) at `share`; report progress and completion. It is
    that of `members` (other cameras) too: each is judged with the result. `plan` is the number of the plan that it
    begins with. `lender`: the box that does it, at `share` of its device; empty: this one. The pictures of `guests`,
    cameras of other boxes, teach in it."""

    camera: str
    job: str
    config: str
    share: float
    window: int
    members: tuple[str, ...] = ()
    plan: int = 0
    lender: str = ""
    guests: tuple[str, ...] = ()


@dataclass(frozen=True)
class StopRetraining(Instruction):
    """End a running retraining. With `keep` its present weights are gated like a finished model's; else dropped."""

    camera: str
    job: str
    reason: str
    keep: bool = False


@dataclass(frozen=True)
class StopProfiling(Instruction):
    """The plan waits no longer for profiles of `window`: configurations not being tried yet are reported from past
    windows, at once; those being tried are reported when they are handed in, and may still be used.
    """

    window: int


@dataclass(frozen=True)
class HandIn(Instruction):
    """Have the profilers hand in what they have of `window`, and report what is not begun from what past windows
    taught. `last`: profiles not handed in yet are reported from there too, where anything is known."""

    window: int
    last: bool = False


@dataclass(frozen=True)
class RecordPlan(Instruction):
    """Keep problem, plan and the planner's version of the problem (for the page, and for replay)."""

    window: int
    problem: WindowProblem
    plan: WindowPlan
    cause: PlanCause
    request: PlanRequest


@dataclass(frozen=True)
class ScheduleBoundary(Instruction):
    """Send BoundaryReached at `at_s`. `resumed`: the window is open already (a restart inside it)."""

    at_s: float
    window: int
    resumed: bool = False


@dataclass(frozen=True)
class ScheduleDeadline(Instruction):
    """Send DeadlinePassed at `at_s`."""

    at_s: float
    window: int


@dataclass(frozen=True)
class ScheduleHandIn(Instruction):
    """Send HandInDue at `at_s`."""

    at_s: float
    window: int


@dataclass(frozen=True)
class ScheduleReplan(Instruction):
    """The plan's next segment begins at `at_s`: send a `SegmentDue` then."""

    at_s: float
    plan_number: int


@dataclass(frozen=True)
class SegmentDue(Event):
    """The next segment of plan `plan_number` begins now."""

    plan_number: int


@dataclass(frozen=True)
class Complain(Instruction):
    """Something the operator must know (window too short, floor unreachable, ...)."""

    code: str
    message: str
    camera: str | None = None


@dataclass(frozen=True)
class CloseWindow(Instruction):
    """The window is over: record its results."""

    window: int
    details: dict[str, Any] = field(default_factory=dict)

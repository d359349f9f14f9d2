"""The window controller's state: cameras, running retrainings, the plan in force; and the problem to plan."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from edge.core import events as ev
from edge.core.learning import Correction, Promise
from edge.core.plan_basis import CameraBudget
from edge.core.profiles import InferenceProfile
from edge.core.window import RetrainingOption, StreamProblem, WindowPlan, WindowProblem
from scheduler.learning.budget import CARRY
from scheduler.learning.promise import corrected
from scheduler.window_group import WindowGroup
from scheduler.window_lending import WindowLending

#: Shares that add up to so much more than there is are rounded, not too many.
ROUNDING = 1e-4
#: So much of a retraining must be done for its progress to tell what the whole costs.
LEAST_PROGRESS = 0.2


@dataclass(frozen=True)
class CameraView:
    """The controller's state of a camera. `accuracy` is that of the model in force, before the inference factor;
    `measured` that of the model that the window began with (None: as `accuracy`), from which `correction` counts."""

    accuracy: float
    inference: InferenceProfile
    every_kth_window: int = 1
    retraining: bool = True
    measured: float | None = None
    correction: Correction | None = None

    def measured_anew(self, accuracy: float) -> CameraView:
        """As measured at a boundary: before any retraining of the window."""
        return replace(self, accuracy=accuracy, measured=accuracy)


@dataclass(frozen=True)
class Job:
    """A running retraining. `device_seconds` of its work are done; `since_s` is when this share began. `begun` is the
    fraction that was done with the first report, and the device seconds until then."""

    id: str
    camera: str
    option: RetrainingOption
    share: float
    since_s: float
    work_at_since: float = 0.0
    device_seconds: float = 0.0
    last_report_s: float = 0.0
    begun: tuple[float, float] | None = None

    def reported(self, device_seconds: float, fraction: float, at_s: float) -> Job:
        """The job after a report; a late one takes nothing back."""
        begun = self.begun or (fraction, device_seconds)
        return replace(self, device_seconds=max(self.device_seconds, device_seconds), last_report_s=at_s, begun=begun)

    def whole(self, fraction: float) -> float | None:
        """Device seconds of all of it, of which `fraction` is done: the rest takes as long as the part since the first
        report. Work before the first step (pictures are read) is no part of that. None: too little was done since then
        to tell."""
        done, before_s = self.begun or (0.0, 0.0)
        if not done + LEAST_PROGRESS <= fraction < 1.0:
            return None
        return self.device_seconds + (1.0 - fraction) * max(0.0, self.device_seconds - before_s) / (fraction - done)


@dataclass
class Planning:
    """`questions` counts the plans that were asked for, `asked` is the number of the one that is being made (None: none
    is), `last_s` when the plan in force was asked for, `next_segment` the one of it that begins next. `choosing`: the
    next plan is the first with profiles, which says whether cameras are retrained as a group."""

    questions: int = 0
    asked: int | None = None
    last_s: float = 0.0
    choosing: bool = False
    next_segment: int = 0


@dataclass
class ControllerState:
    """All volatile state; touched by `WindowController.handle` only."""

    settings: ev.WindowSettings
    num_gpus: float
    cameras: dict[str, CameraView] = field(default_factory=dict)
    window: int = 0
    window_start_s: float = 0.0
    retraining_allowed: bool = True
    phase: str = "idle"  # idle | preparing | running
    awaiting_labels: set[str] = field(default_factory=set)
    awaiting_profiles: set[str] = field(default_factory=set)
    handed_in: bool = False
    late: set[str] = field(default_factory=set)
    options: dict[str, tuple[RetrainingOption, ...]] = field(default_factory=dict)
    jobs: dict[str, Job] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    plan: WindowPlan | None = None
    plan_number: int = 0
    planning: Planning = field(default_factory=Planning)
    group: WindowGroup = field(default_factory=WindowGroup)
    lending: WindowLending = field(default_factory=WindowLending)
    budgets: tuple[CameraBudget, ...] = ()

    def copy(self) -> ControllerState:
        """A copy of the state for a reader, or for a trial plan, while events go on."""
        return replace(
            self,
            cameras=dict(self.cameras),
            options=dict(self.options),
            jobs=dict(self.jobs),
            shares=dict(self.shares),
            awaiting_labels=set(self.awaiting_labels),
            awaiting_profiles=set(self.awaiting_profiles),
            late=set(self.late),
            planning=replace(self.planning),
            group=replace(self.group),
            lending=self.lending.copy(),
        )

    def spare_share(self) -> float:
        """The share that profiling may use: all that inference leaves, at most one device, at least a little."""
        return round(max(0.05, min(1.0, self.num_gpus - sum(self.shares.values()))), 6)

    def segment_at(self, at_s: float) -> int:
        """The number of the segment of the plan in force that holds at `at_s`. Raises ValueError without a plan."""
        if self.plan is None:
            raise ValueError("no plan is in force")
        return max((n for n, g in enumerate(self.plan.segments) if g.start_s <= at_s - self.window_start_s), default=0)

    def fit_shares(self) -> bool:
        """Make shares that add up to more than there is smaller by the same part; False: they fitted."""
        total = sum(self.shares.values()) + sum(j.share for j in self.jobs.values())
        if total <= self.num_gpus + ROUNDING:
            return False
        part = self.num_gpus / total
        self.shares = {c: part * share for c, share in self.shares.items()}
        self.jobs = {c: replace(j, share=part * j.share) for c, j in self.jobs.items()}
        return True

    def problem(self, at_s: float, groups: bool = False) -> WindowProblem:
        """The planning problem of what is left of the window at `at_s`. `groups`: with the configurations of cameras
        that only a group may retrain."""
        window_s = self.settings.window_s
        streams = []
        for name, view in sorted(self.cameras.items()):
            withheld = self.group.waits(name) if groups else self.group.withholds(name)
            options = self.options.get(name, ()) if view.retraining and not withheld else ()
            job = self.jobs.get(name)
            if job is not None:
                # A running retraining goes on or ends: another configuration would begin from nothing.
                options = (job.option,)
            streams.append(
                StreamProblem(
                    id=name,
                    start_accuracy=round(min(1.0, max(0.0, view.accuracy)), 6),
                    inference_profile=view.inference,
                    options=options,
                    running=None if job is None else job.option.id,
                    device_seconds_done=0.0 if job is None else job.device_seconds,
                )
            )
        elapsed = min(max(0.0, at_s - self.window_start_s), 0.999 * window_s)
        problem = WindowProblem(
            name=f"window-{self.window}",
            num_gpus=self.num_gpus,
            window_s=window_s,
            streams=tuple(streams),
            delta=self.settings.delta,
            a_min=self.settings.a_min,
            label_delay_s=round(elapsed, 3),
            carry_s=round(CARRY * window_s, 3),
        )
        # The gain of a lent retraining was corrected when it was chosen.
        return self.lending.asked(corrected(problem, self._promises()))

    def _promises(self) -> dict[str, Promise]:
        return {
            camera: Promise(min(1.0, max(0.0, v.accuracy if v.measured is None else v.measured)), v.correction)
            for camera, v in self.cameras.items()
            if v.correction is not None
        }

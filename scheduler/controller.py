"""The window controller: a state machine that turns events into instructions. It reads no clock and calls nobody.

The live appliance and the trace-driven simulator drive this same controller. One window goes
boundary -> samples closed and labelled -> micro-profiled -> planned -> run (replanned on every completed retraining,
thesis section 2.4.2, and when measured progress departs from the profile) -> next boundary. Profiles are handed in half
done rather than waited for; those of a camera that is late all the same are planned with when they come. What a problem
says of accuracies is corrected to what the window will show (scheduler.learning.promise).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import singledispatchmethod

from edge.core import events as ev
from edge.core.learning import Correction, Promise
from edge.core.plan_basis import PlanRequest
from edge.core.plan_causes import PlanCause
from edge.core.profiles import InferenceProfile, RetrainingProfile
from edge.core.window import RetrainingOption, StreamProblem, WindowPlan, WindowProblem
from scheduler.learning.promise import corrected
from scheduler.window_group import WindowGroup

#: (policy name, problem, plan in force or None, seconds since it was made) -> the plan to follow
PlanFunction = Callable[[PlanRequest], WindowPlan]

#: Labels and profiles shall be ready by this part of a window; a little before it profilers hand in what they have.
READY_PART, HAND_IN_PART, LAST_PART = 0.15, 0.115, 0.14
#: The plan waits for labels and profiles at most this part of a window; what comes later is planned with then.
PREPARATION_LIMIT = 0.4
#: While labels and profiles are awaited, inference has at most this part of the devices.
WAITING_INFERENCE = 0.7
#: A running retraining whose measured speed is off by more than this part of the expected one is replanned.
PROGRESS_TOLERANCE = 0.3
#: Seconds between two early replans, as a part of the window.
REPLAN_DWELL = 0.05
#: What is taken to be left of a retraining that is later than planned, as a part of its work.
LATE_PART = 0.1
#: The models that a window ends with serve in the next until it has retrained: for about this part of a window.
CARRY = 0.5


@dataclass(frozen=True)
class CameraView:
    """What the controller knows of a camera. `accuracy` is that of the model in force, before the inference factor;
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
    """A running retraining. `work_done` is in GPU-seconds at full share; `since_s` is when this share began."""

    id: str
    camera: str
    option: RetrainingOption
    share: float
    since_s: float
    work_at_since: float = 0.0
    work_done: float = 0.0
    last_report_s: float = 0.0


@dataclass
class ControllerState:
    """All volatile state; touched by `WindowController.handle` only."""

    settings: ev.WindowSettingsChanged
    num_gpus: float
    pending_settings: ev.WindowSettingsChanged | None = None
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
    next_segment: int = 0
    last_replan_s: float = 0.0
    group: WindowGroup = field(default_factory=WindowGroup)


def option_from_profile(profile: RetrainingProfile) -> RetrainingOption:
    """A planner's option from a micro-profile."""
    return RetrainingOption(
        id=profile.config.id,
        end_accuracy=profile.end_accuracy.value,
        gpu_seconds=profile.gpu_seconds.value,
        curve=profile.curve,
        throughput=profile.throughput if len(profile.throughput) > 1 else (),
        end_accuracy_low=profile.end_accuracy.low,
        details=profile.config.to_json() | ({} if profile.profiled else {"profiled": False}),
    )


def waiting_shares(num_gpus: float, cameras: Mapping[str, InferenceProfile]) -> dict[str, float]:
    """Inference shares (devices) while labels and profiles are awaited; the rest is for profiling."""
    fair = WAITING_INFERENCE * num_gpus / max(1, len(cameras))
    # A little more than the best configuration needs, so that a camera need not step down for the wait.
    return {c: round(min(1.2 * profile.max_gpu, fair, 1.0), 6) for c, profile in cameras.items()}


class WindowController:
    """`handle(event) -> instructions`. `plan` is the policy by name: it must be a pure function."""

    def __init__(self, settings: ev.WindowSettingsChanged, num_gpus: float, plan: PlanFunction) -> None:
        self.state = ControllerState(settings=settings, num_gpus=num_gpus)
        self._plan = plan

    def resume_after(self, window: int) -> None:
        """Go on after window number `window` (a restart between windows): the next boundary opens the one after it."""
        self.state.window = window

    def restore(
        self,
        at_s: float,
        window: int,
        start_s: float,
        problem: WindowProblem | None,
        plan: WindowPlan | None,
        finished: frozenset[str],
    ) -> list[ev.Instruction]:
        """Go on inside an open window after a restart: the recorded plan is carried out from where the time is now.

        Cameras must have joined before. `finished` have ended their retraining in this window already.
        """
        s = self.state
        s.window, s.window_start_s, s.phase, s.retraining_allowed = window, start_s, "running", True
        boundary = ev.ScheduleBoundary(start_s + s.settings.window_s, window, resumed=True)
        if problem is None or plan is None or not plan.segments:
            return [boundary, *self._replan(at_s, PlanCause("restarted_without_plan"))]
        for stream in problem.streams:
            if stream.id in s.cameras and stream.id not in finished:
                s.options[stream.id] = stream.options
        known = {c for segment in plan.segments for c in segment.streams}
        if known != set(s.cameras) or finished:
            return [boundary, *self._replan(at_s, PlanCause("restarted"))]
        s.plan, s.plan_number = plan, s.plan_number + 1
        elapsed = at_s - start_s
        number = max((n for n, g in enumerate(plan.segments) if g.start_s <= elapsed), default=0)
        return [boundary, *self._apply(number, at_s)]

    # -- invariants

    def check(self) -> None:
        """Raises AssertionError if the state breaks an invariant (tests call it after every event)."""
        s = self.state
        assert s.phase in ("idle", "preparing", "running"), s.phase
        total = sum(s.shares.values()) + sum(j.share for j in s.jobs.values())
        assert total <= s.num_gpus + 1e-4, f"shares add up to {total} of {s.num_gpus}"
        assert all(v >= -1e-9 for v in s.shares.values()), s.shares
        assert set(s.jobs) <= set(s.cameras), "a retraining of a camera that is gone"
        assert all(c == j.camera for c, j in s.jobs.items())
        assert s.phase == "preparing" or not (s.awaiting_labels or s.awaiting_profiles)
        s.group.check(s.phase == "running", s.jobs.keys())

    # -- events

    def handle(self, event: ev.Event) -> list[ev.Instruction]:
        """Take one event in; returns what must be done, in order."""
        return self._handle(event)

    @singledispatchmethod
    def _handle(self, event: ev.Event) -> list[ev.Instruction]:
        raise TypeError(f"the window controller does not know {type(event).__name__}")

    @_handle.register
    def _(self, event: ev.WindowSettingsChanged) -> list[ev.Instruction]:
        self.state.pending_settings = event
        return []

    @_handle.register
    def _(self, event: ev.CapacityChanged) -> list[ev.Instruction]:
        self.state.num_gpus = event.num_gpus
        return self._replan(event.at_s, PlanCause("capacity_changed"))

    @_handle.register
    def _(self, event: ev.CamerasAlike) -> list[ev.Instruction]:
        self.state.group.alike, self.state.group.kept = event.sets, event.kept
        return []

    @_handle.register
    def _(self, event: ev.CameraJoined | ev.CameraChanged) -> list[ev.Instruction]:
        if isinstance(event, ev.CameraChanged) and event.camera not in self.state.cameras:
            return []  # it left meanwhile
        s = self.state
        known = s.cameras.get(event.camera)
        s.cameras[event.camera] = CameraView(
            event.accuracy,
            event.inference,
            event.every_kth_window,
            event.retraining,
            correction=None if known is None else known.correction,
        )
        cause = PlanCause(event.what if isinstance(event, ev.CameraChanged) else "camera_joined", event.camera)
        return self._replan(event.at_s, cause)

    @_handle.register
    def _(self, event: ev.CameraLeft) -> list[ev.Instruction]:
        s = self.state
        out: list[ev.Instruction] = []
        job = s.jobs.pop(event.camera, None)
        if job is not None:
            out.append(ev.StopRetraining(event.camera, job.id, "the camera was removed"))
        s.cameras.pop(event.camera, None)
        s.shares.pop(event.camera, None)
        s.options.pop(event.camera, None)
        s.awaiting_labels.discard(event.camera)
        s.awaiting_profiles.discard(event.camera)
        s.late.discard(event.camera)
        s.group.leave(event.camera, s.options)
        if s.phase == "preparing":
            return out + self._plan_if_ready(event.at_s)
        return out + self._replan(event.at_s, PlanCause("camera_left", event.camera))

    @_handle.register
    def _(self, event: ev.BoundaryReached) -> list[ev.Instruction]:
        s = self.state
        out: list[ev.Instruction] = []
        for camera, job in sorted(s.jobs.items()):
            out.append(ev.StopRetraining(camera, job.id, "the retraining window is over", keep=True))
        s.jobs.clear()
        closed = s.window
        if closed:
            out.append(ev.CloseWindow(closed))
        if s.pending_settings is not None:
            s.settings, s.pending_settings = s.pending_settings, None
        s.window, s.window_start_s = closed + 1, event.at_s
        s.retraining_allowed = event.retraining_allowed and s.settings.retraining_enabled
        s.options.clear()
        s.late.clear()
        s.handed_in = False
        s.plan = None
        s.group.end()
        out.append(ev.ScheduleBoundary(event.at_s + s.settings.window_s, s.window))
        s.awaiting_profiles.clear()
        s.awaiting_labels = set(s.cameras) if closed else set()
        s.phase = "preparing" if s.awaiting_labels else "running"
        if not s.awaiting_labels:
            return out + self._replan(event.at_s, PlanCause("first_window"))
        out += self._serve_only(event.at_s)
        out += [ev.CloseSample(camera, closed) for camera in sorted(s.awaiting_labels)]
        out.append(ev.ScheduleHandIn(event.at_s + HAND_IN_PART * s.settings.window_s, s.window))
        out.append(ev.ScheduleDeadline(event.at_s + PREPARATION_LIMIT * s.settings.window_s, s.window))
        return out

    @_handle.register
    def _(self, event: ev.SampleLabelled) -> list[ev.Instruction]:
        s = self.state
        if event.camera not in s.cameras:
            return []
        view = s.cameras[event.camera]
        if event.inference is not None:
            view = replace(view, inference=event.inference)
        if event.realised_accuracy is not None and event.held_out_frames + event.train_frames > 0:
            factor = max(view.inference.factor(s.shares.get(event.camera, 0.0)), 1e-6)
            view = view.measured_anew(min(1.0, event.realised_accuracy / max(factor, 0.2)))
        if event.correction is not None:
            view = replace(view, correction=event.correction)
        s.cameras[event.camera] = view
        late = event.camera in s.late
        if (event.camera not in s.awaiting_labels and not late) or event.window != s.window - 1:
            return []
        s.awaiting_labels.discard(event.camera)
        due = s.window % view.every_kth_window == 0
        wanted = s.retraining_allowed and view.retraining and due
        if wanted and event.train_frames > 0 and event.held_out_frames > 0:
            if not late:
                s.awaiting_profiles.add(event.camera)
            return [ev.StartProfiling(event.camera, event.window, self._spare_share(), late or s.handed_in)]
        s.late.discard(event.camera)
        return self._plan_if_ready(event.at_s)

    @_handle.register
    def _(self, event: ev.Profiled) -> list[ev.Instruction]:
        s = self.state
        late = event.camera in s.late
        if (event.camera not in s.awaiting_profiles and not late) or event.window != s.window - 1:
            return []
        s.awaiting_profiles.discard(event.camera)
        s.late.discard(event.camera)
        s.options[event.camera] = tuple(option_from_profile(p) for p in event.profiles)
        if event.start_accuracy is not None:
            s.cameras[event.camera] = s.cameras[event.camera].measured_anew(event.start_accuracy)
        if not late:
            return self._plan_if_ready(event.at_s)
        return self._replan(event.at_s, PlanCause("profiles_late", event.camera)) if event.profiles else []

    @_handle.register
    def _(self, event: ev.HandInDue) -> list[ev.Instruction]:
        s = self.state
        if event.window != s.window or s.phase != "preparing":
            return []
        if s.handed_in:
            return [ev.HandIn(s.window - 1, last=True)]
        s.handed_in = True
        again = ev.ScheduleHandIn(s.window_start_s + LAST_PART * s.settings.window_s, s.window)
        return [ev.HandIn(s.window - 1), again]

    @_handle.register
    def _(self, event: ev.DeadlinePassed) -> list[ev.Instruction]:
        s = self.state
        if event.window != s.window or s.phase != "preparing":
            return []
        s.late = s.awaiting_labels | s.awaiting_profiles
        late = ", ".join(sorted(s.late))
        s.awaiting_labels.clear()
        s.awaiting_profiles.clear()
        spent = event.at_s - s.window_start_s
        message = (
            f"window {s.window}: labelling and profiling took {spent:.0f} s of {s.settings.window_s:.0f} s; "
            f"planned without {late}: retrained if labels and profiles still come. Lengthen the window or give "
            "Magpie more of the machine."
        )
        planned = self._plan_if_ready(event.at_s)
        return [ev.Complain("window_too_short", message), *planned, ev.StopProfiling(s.window - 1)]

    @_handle.register
    def _(self, event: ev.RetrainingProgressed) -> list[ev.Instruction]:
        s = self.state
        job = s.jobs.get(event.camera)
        if job is None or job.id != event.job:
            return []
        job = replace(job, work_done=max(job.work_done, event.work_done), last_report_s=event.at_s)
        expected = job.option.speed(job.share) * (event.at_s - job.since_s)
        done = job.work_done - job.work_at_since
        enough = (
            expected > 0.1 * job.option.gpu_seconds and event.at_s - job.since_s > REPLAN_DWELL * s.settings.window_s
        )
        rested = event.at_s - s.last_replan_s > REPLAN_DWELL * s.settings.window_s
        # The worker's own fraction tells the true amount of work, so correct the total with it.
        if 0.05 < event.fraction < 1.0:
            total = job.work_done / event.fraction
            if abs(total - job.option.gpu_seconds) > PROGRESS_TOLERANCE * job.option.gpu_seconds:
                job = self._corrected(job, total)
                if rested:
                    return self._replan(event.at_s, PlanCause("work_corrected", event.camera, total))
        s.jobs[event.camera] = job
        if enough and rested and abs(done - expected) > PROGRESS_TOLERANCE * expected:
            return self._replan(event.at_s, PlanCause("progress_unexpected", event.camera, done, expected))
        return []

    @_handle.register
    def _(self, event: ev.RetrainingCompleted) -> list[ev.Instruction]:
        s = self.state
        if event.camera in s.cameras and event.promoted:
            s.cameras[event.camera] = replace(s.cameras[event.camera], accuracy=event.accuracy)
        job = s.jobs.get(event.camera)
        if job is None or job.id != event.job:
            if s.group.over(event.camera, event.job):
                return self._replan(event.at_s, PlanCause("group_over", event.camera))
            return []
        self._ended(event.camera)
        return self._replan(event.at_s, PlanCause("retraining_completed", event.camera, promoted=event.promoted))

    @_handle.register
    def _(self, event: ev.RetrainingFailed) -> list[ev.Instruction]:
        s = self.state
        job = s.jobs.get(event.camera)
        if job is None or job.id != event.job:
            if s.group.over(event.camera, event.job):
                return self._replan(event.at_s, PlanCause("group_over", event.camera))
            return []
        self._ended(event.camera)
        message = f"{event.camera}: retraining failed ({event.reason}); the model in force stays"
        return [
            ev.Complain("retraining_failed", message, event.camera),
            *self._replan(event.at_s, PlanCause("retraining_failed", event.camera)),
        ]

    @_handle.register
    def _(self, event: ev.SegmentDue) -> list[ev.Instruction]:
        s = self.state
        if event.plan_number != s.plan_number or s.plan is None or s.phase != "running":
            return []
        segment = s.plan.segments[s.next_segment]
        for camera, job in s.jobs.items():
            allocation = segment.streams.get(camera)
            if allocation is None or allocation.retrain_config != job.option.id:
                # The plan thought that this retraining would be over by now: a tenth of it is left, as far as we know.
                longer = max(job.option.gpu_seconds, job.work_done) + LATE_PART * job.option.gpu_seconds
                self._corrected(job, longer)
                return self._replan(event.at_s, PlanCause("retraining_late", camera))
        return self._apply(s.next_segment, event.at_s)

    def _ended(self, camera: str) -> None:
        """A retraining is over: nothing of its camera is retrained again in this window. Members of a group may be, on
        from what they have then."""
        s = self.state
        s.options.pop(camera, None)
        s.group.over(camera, s.jobs.pop(camera).id)

    def _corrected(self, job: Job, gpu_seconds: float) -> Job:
        """The job and its option with another total of work."""
        s = self.state
        job = replace(job, option=replace(job.option, gpu_seconds=gpu_seconds))
        s.options[job.camera] = tuple(job.option if o.id == job.option.id else o for o in s.options.get(job.camera, ()))
        s.jobs[job.camera] = job
        return job

    # -- planning

    def _serve_only(self, at_s: float) -> list[ev.Instruction]:
        """Shares while labels and profiles are awaited: what each camera's inference can use, at most the fair part."""
        s = self.state
        s.shares = waiting_shares(s.num_gpus, {c: v.inference for c, v in sorted(s.cameras.items())})
        return [ev.SetShares(dict(s.shares))]

    def _spare_share(self) -> float:
        """What profiling may use: all that inference leaves, at most one device, at least a little."""
        s = self.state
        return round(max(0.05, min(1.0, s.num_gpus - sum(s.shares.values()))), 6)

    def _plan_if_ready(self, at_s: float) -> list[ev.Instruction]:
        s = self.state
        if s.phase != "preparing" or s.awaiting_labels or s.awaiting_profiles:
            return []
        s.phase = "running"
        if s.cameras and not s.jobs:
            s.group.choose(self.problem(at_s), s.options, lambda p: self._plan(PlanRequest(s.settings.policy, p)))
        return self._replan(at_s, PlanCause("prepared"))

    def problem(self, at_s: float) -> WindowProblem:
        """The planning problem of what is left of the window at `at_s`."""
        s = self.state
        window_s = s.settings.window_s
        streams = []
        for name, view in sorted(s.cameras.items()):
            options = s.options.get(name, ()) if view.retraining and not s.group.waits(name) else ()
            job = s.jobs.get(name)
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
                    work_done=0.0 if job is None else job.work_done,
                )
            )
        elapsed = min(max(0.0, at_s - s.window_start_s), 0.999 * window_s)
        problem = WindowProblem(
            name=f"window-{s.window}",
            num_gpus=s.num_gpus,
            window_s=window_s,
            streams=tuple(streams),
            delta=s.settings.delta,
            a_min=s.settings.a_min,
            label_delay_s=round(elapsed, 3),
            carry_s=round(CARRY * window_s, 3),
        )
        return corrected(problem, self._promises())

    def _promises(self) -> dict[str, Promise]:
        return {
            camera: Promise(min(1.0, max(0.0, v.accuracy if v.measured is None else v.measured)), v.correction)
            for camera, v in self.state.cameras.items()
            if v.correction is not None
        }

    def _replan(self, at_s: float, cause: PlanCause) -> list[ev.Instruction]:
        s = self.state
        if not s.cameras or s.phase == "idle":
            return []
        if s.phase == "preparing":
            return self._serve_only(at_s)
        problem, request, plan = self._planned(at_s)
        if s.group.unpaid(plan):
            s.group.dissolve(s.options)  # it does not pay any more: its cameras' own may
            problem, request, plan = self._planned(at_s)
        s.plan, s.plan_number, s.last_replan_s = plan, s.plan_number + 1, at_s
        out: list[ev.Instruction] = [ev.RecordPlan(s.window, problem, plan, cause, request)]
        if plan.faults:
            out.append(ev.Complain("floor_unreachable", "; ".join(f.words for f in plan.faults)))
        return out + self._apply(0, at_s)

    def _planned(self, at_s: float) -> tuple[WindowProblem, PlanRequest, WindowPlan]:
        """The problem now, what the planner is asked, and its plan."""
        s = self.state
        problem = self.problem(at_s)
        request = PlanRequest(s.settings.policy, s.group.asked(problem), s.plan, at_s - s.last_replan_s)
        return problem, request, self._plan(request)

    def _apply(self, number: int, at_s: float) -> list[ev.Instruction]:
        """Carry out segment `number` of the plan in force."""
        s = self.state
        assert s.plan is not None
        segment = s.plan.segments[number]
        out: list[ev.Instruction] = []
        for camera, job in sorted(s.jobs.items()):
            allocation = segment.streams.get(camera)
            if allocation is None or allocation.retrain_config != job.option.id:
                out.append(ev.StopRetraining(camera, job.id, "the plan has a better use for its share", keep=True))
                # Members of a group wait until they are judged with what it has learned so far.
                del s.jobs[camera]
                s.options.pop(camera, None)
        starts: list[ev.Instruction] = []
        shares: dict[str, float] = {}
        retraining: dict[str, float] = {}
        for camera, allocation in segment.streams.items():
            if camera not in s.cameras:
                continue
            shares[camera] = allocation.inference_share
            if allocation.retrain_config is None:
                continue
            current = s.jobs.get(camera)
            if current is not None:
                work = current.work_done
                s.jobs[camera] = replace(current, share=allocation.retraining_share, since_s=at_s, work_at_since=work)
                retraining[camera] = allocation.retraining_share
            elif allocation.retraining_share > 0:
                option = next((o for o in s.options.get(camera, ()) if o.id == allocation.retrain_config), None)
                if option is None:
                    continue
                job = Job(
                    f"w{s.window}-{camera}-p{s.plan_number}",
                    camera,
                    option,
                    allocation.retraining_share,
                    at_s,
                )
                s.jobs[camera] = job
                members = s.group.begun(camera, job.id)
                order = ev.StartRetraining(camera, job.id, option.id, job.share, s.window - 1, members, s.plan_number)
                starts.append(order)
        s.shares = shares
        out.append(ev.SetShares(shares, retraining))
        out += starts
        s.next_segment = number + 1
        if s.next_segment < len(s.plan.segments):
            due = s.window_start_s + s.plan.segments[s.next_segment].start_s
            if due < s.window_start_s + s.settings.window_s - 1e-6:
                out.append(ev.ScheduleReplan(max(due, at_s), s.plan_number))
        return out

"""The window controller: a state machine that turns events into instructions. It reads no clock and calls no other
component.

The live appliance and the trace-driven simulator drive this same controller. One window goes
boundary -> samples closed and labelled -> micro-profiled -> planned -> run (replanned on every completed retraining,
thesis section 2.4.2, and when measured progress departs from the profile) -> next boundary. Profiles are handed in half
done rather than waited for; those of a camera that is late all the same are planned with when they come. A problem's
accuracies are corrected to those that the window will show (scheduler.learning.promise).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import singledispatchmethod

from edge.core import events as ev
from edge.core.plan_causes import PlanCause
from edge.core.profiles import InferenceProfile, RetrainingProfile
from edge.core.window import RetrainingOption, WindowPlan, WindowProblem
from scheduler.controller_state import ROUNDING, CameraView, ControllerState, Job
from scheduler.groups import TEACHES
from scheduler.window_planning import MakePlan, PlanFunction, PlanMade, PlanNotMade, PlanQuestion, made_plan

#: Labels and profiles shall be ready by this part of a window; a little before it profilers hand in what they have.
READY_PART, HAND_IN_PART, LAST_PART = 0.15, 0.115, 0.14
#: The plan waits for labels and profiles at most this part of a window; later ones are planned with when they come.
PREPARATION_LIMIT = 0.4
#: While labels and profiles are awaited, inference has at most this part of the devices.
WAITING_INFERENCE = 0.7
#: A running retraining whose measured speed is off by more than this part of the expected one is replanned.
PROGRESS_TOLERANCE = 0.3
#: A timer may ring so much early, in seconds.
EARLY_S = 0.05
#: Seconds between two early replans, as a part of the window.
REPLAN_DWELL = 0.05
WINDOW_OVER = "the retraining window is over"
#: The part of its work that a retraining later than planned is taken to have left.
LATE_PART = 0.1


def option_from_profile(profile: RetrainingProfile) -> RetrainingOption:
    """A planner's option from a micro-profile."""
    return RetrainingOption(
        id=profile.config.id,
        end_accuracy=profile.end_accuracy.value,
        device_seconds=profile.device_seconds.value,
        curve=profile.curve,
        throughput=profile.throughput if len(profile.throughput) > 1 else (),
        end_accuracy_low=profile.end_accuracy.low,
        teaches=TEACHES[profile.config.layers],
        details=profile.config.to_json() | ({} if profile.profiled else {"profiled": False}),
    )


def waiting_shares(num_gpus: float, cameras: Mapping[str, InferenceProfile]) -> dict[str, float]:
    """Inference shares (devices) while labels and profiles are awaited; the rest is for profiling."""
    fair = WAITING_INFERENCE * num_gpus / max(1, len(cameras))
    # A little more than the best configuration needs, so that a camera need not step down for the wait.
    return {c: round(min(1.2 * profile.max_gpu, fair, 1.0), 6) for c, profile in cameras.items()}


class WindowController:
    """`handle(event) -> instructions`. Plans are asked for by `MakePlan`, and come back as `PlanMade`; with `plan`, a
    pure function, they are made at once, without a question."""

    def __init__(self, settings: ev.WindowSettings, num_gpus: float, plan: PlanFunction | None = None) -> None:
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
            return [boundary, *self._with_plans(self._replan(at_s, PlanCause("restarted_without_plan")))]
        for stream in problem.streams:
            if stream.id in s.cameras and stream.id not in finished:
                s.options[stream.id] = stream.options
        known = {c for segment in plan.segments for c in segment.streams}
        if known != set(s.cameras) or finished:
            return [boundary, *self._with_plans(self._replan(at_s, PlanCause("restarted")))]
        s.plan, s.plan_number = plan, s.plan_number + 1
        return [boundary, *self._apply(s.segment_at(at_s), at_s)]

    # -- invariants

    def check(self) -> None:
        """Raises AssertionError if the state breaks an invariant (tests call it after every event)."""
        s = self.state
        assert s.phase in ("idle", "preparing", "running"), s.phase
        total = sum(s.shares.values()) + sum(j.share for j in s.jobs.values())
        assert total <= s.num_gpus + ROUNDING + 1e-9, f"shares add up to {total} of {s.num_gpus}"
        assert all(v >= -1e-9 for v in s.shares.values()), s.shares
        assert set(s.jobs) <= set(s.cameras), "a retraining of a camera that is gone"
        assert all(c == j.camera for c, j in s.jobs.items())
        assert s.phase == "preparing" or not (s.awaiting_labels or s.awaiting_profiles)
        s.group.check(s.phase == "running", s.jobs.keys())
        s.lending.check(s.jobs.keys())

    # -- events

    def handle(self, event: ev.Event) -> list[ev.Instruction]:
        """Take one event in; returns what must be done, in order."""
        return self._with_plans(self._handle(event))

    def _with_plans(self, orders: list[ev.Instruction]) -> list[ev.Instruction]:
        if self._plan is None:
            return orders
        out: list[ev.Instruction] = []
        for order in orders:
            if isinstance(order, MakePlan):
                asked = order.question
                out += self.handle(PlanMade(asked.at_s, made_plan(asked, self._plan)))
            else:
                out.append(order)
        return out

    @singledispatchmethod
    def _handle(self, event: ev.Event) -> list[ev.Instruction]:
        raise TypeError(f"the window controller does not know {type(event).__name__}")

    @_handle.register
    def _(self, event: ev.CapacityChanged) -> list[ev.Instruction]:
        self.state.num_gpus = event.num_gpus
        s = self.state
        fitted = [ev.SetShares(dict(s.shares), {c: j.share for c, j in s.jobs.items()})] if s.fit_shares() else []
        return fitted + self._replan(event.at_s, PlanCause("capacity_changed"))

    @_handle.register
    def _(self, event: ev.CameraBudgetsMoved) -> list[ev.Instruction]:
        if event.budgets == self.state.budgets:
            return []
        self.state.budgets = event.budgets
        return self._replan(event.at_s, PlanCause("capacity_changed"))

    @_handle.register
    def _(self, event: ev.LendersOffered) -> list[ev.Instruction]:
        s = self.state
        # Only where a camera waits for its retraining, or has none in the plan.
        waits = s.phase == "running" and any(c not in s.jobs and c not in s.lending.out for c in s.options)
        return self._replan(event.at_s, PlanCause("lenders_offered")) if s.lending.could_help(event) and waits else []

    @_handle.register
    def _(self, event: ev.GroupsPossible) -> list[ev.Instruction]:
        group = self.state.group
        group.possible, group.kept, group.taught, group.guests = event.sets, event.kept, event.taught, event.guests
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
        out += s.lending.leave(event.camera, "the camera was removed")
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
            out.append(ev.StopRetraining(camera, job.id, WINDOW_OVER, keep=True))
        out += s.lending.end(WINDOW_OVER)
        s.jobs.clear()
        closed = s.window
        if closed:
            out.append(ev.CloseWindow(closed))
        s.settings = event.settings or s.settings
        s.window, s.window_start_s = closed + 1, event.at_s
        s.retraining_allowed = event.retraining_allowed and s.settings.retraining_enabled
        s.options.clear()
        s.late.clear()
        s.handed_in = False
        s.plan, s.planning.asked, s.planning.choosing = None, None, False
        s.group.end()
        out.append(ev.ScheduleBoundary(event.at_s + s.settings.window_s, s.window))
        s.awaiting_profiles.clear()
        s.awaiting_labels = set(s.cameras) if closed else set()
        s.phase = "preparing" if s.awaiting_labels else "running"
        out += self._serve_only(event.at_s)
        if not s.awaiting_labels:
            return out + self._replan(event.at_s, PlanCause("first_window"))
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
            return [ev.StartProfiling(event.camera, event.window, self.state.spare_share(), late or s.handed_in)]
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
        s.awaiting_labels.clear()
        s.awaiting_profiles.clear()
        spent = event.at_s - s.window_start_s
        late = [
            ev.Complain(
                "window_too_short",
                f"window {s.window}: labelling and profiling took {spent:.0f} s of {s.settings.window_s:.0f} s; "
                f"planned without it: retrained if labels and profiles still come. Lengthen the window or give "
                "Magpie more of the machine.",
                camera,
            )
            for camera in sorted(s.late)
        ]
        planned = self._plan_if_ready(event.at_s)
        return [*late, *planned, ev.StopProfiling(s.window - 1)]

    @_handle.register
    def _(self, event: ev.RetrainingProgressed) -> list[ev.Instruction]:
        s = self.state
        job = s.jobs.get(event.camera)
        if job is None or job.id != event.job:
            return []
        job = job.reported(event.device_seconds, event.fraction, event.at_s)
        expected = job.option.speed(job.share) * (event.at_s - job.since_s)
        done = job.device_seconds - job.work_at_since
        enough = (
            expected > 0.1 * job.option.device_seconds and event.at_s - job.since_s > REPLAN_DWELL * s.settings.window_s
        )
        rested = s.planning.asked is None and event.at_s - s.planning.last_s > REPLAN_DWELL * s.settings.window_s
        # The worker's own fraction tells the true amount of work, so correct the total with it.
        total, planned_s = job.whole(event.fraction), job.option.device_seconds
        if total is not None and abs(total - planned_s) > PROGRESS_TOLERANCE * planned_s:
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
        if s.lending.over(event.camera, event.job):
            s.options.pop(event.camera, None)
            return self._replan(event.at_s, PlanCause("retraining_completed", event.camera, promoted=event.promoted))
        if job is None or job.id != event.job:
            if s.group.over(event.camera, event.job):
                return self._replan(event.at_s, PlanCause("group_over", event.camera))
            if event.promoted and event.learned and s.group.has_taught(event.camera, event.job):
                s.options.pop(event.camera, None)  # more of its own few pictures gained nothing sure
            return []
        self._ended(event.camera)
        return self._replan(event.at_s, PlanCause("retraining_completed", event.camera, promoted=event.promoted))

    @_handle.register
    def _(self, event: ev.RetrainingFailed) -> list[ev.Instruction]:
        s = self.state
        job = s.jobs.get(event.camera)
        if box := s.lending.over(event.camera, event.job, failed=True):
            words = f"its retraining did not come back from {box} ({event.reason}); it is planned here"
            replanned = self._replan(event.at_s, PlanCause("lender_failed", event.camera))
            return [ev.Complain("lending_failed", words, event.camera), *replanned]
        if job is None or job.id != event.job:
            if s.group.over(event.camera, event.job):
                return self._replan(event.at_s, PlanCause("group_over", event.camera))
            return []
        self._ended(event.camera)
        message = f"retraining failed ({event.reason}); the model in force stays"
        return [
            ev.Complain("retraining_failed", message, event.camera),
            *self._replan(event.at_s, PlanCause("retraining_failed", event.camera)),
        ]

    @_handle.register
    def _(self, event: ev.SegmentDue) -> list[ev.Instruction]:
        s = self.state
        if event.plan_number != s.plan_number or s.plan is None or s.phase != "running" or s.planning.asked is not None:
            return []  # a plan that is being made comes first
        if s.planning.next_segment >= len(s.plan.segments):
            return []
        segment = s.plan.segments[s.planning.next_segment]
        if event.at_s < s.window_start_s + segment.start_s - EARLY_S:
            return []  # a timer of before the plan was taken up again
        for camera, job in s.jobs.items():
            allocation = segment.streams.get(camera)
            if allocation is None or allocation.retrain_config != job.option.id:
                # The plan thought that this retraining would be over by now: a tenth of it is left, as far as we know.
                longer = max(job.option.device_seconds, job.device_seconds) + LATE_PART * job.option.device_seconds
                self._corrected(job, longer)
                return self._replan(event.at_s, PlanCause("retraining_late", camera))
        return self._apply(s.planning.next_segment, event.at_s)

    def _ended(self, camera: str) -> None:
        """A retraining is over: nothing of its camera is retrained again in this window. Members of a group may be,
        where its student did not come into force."""
        s = self.state
        s.options.pop(camera, None)
        s.group.over(camera, s.jobs.pop(camera).id)

    def _corrected(self, job: Job, device_seconds: float) -> Job:
        """The job and its option with another total of work."""
        s = self.state
        job = replace(job, option=replace(job.option, device_seconds=device_seconds))
        s.options[job.camera] = tuple(job.option if o.id == job.option.id else o for o in s.options.get(job.camera, ()))
        s.jobs[job.camera] = job
        return job

    # -- planning

    def _serve_only(self, at_s: float) -> list[ev.Instruction]:
        """Shares while labels and profiles are awaited: each camera's inference gets as much as it can use, at most the
        fair part.
        """
        s = self.state
        s.shares = waiting_shares(s.num_gpus, {c: v.inference for c, v in sorted(s.cameras.items())})
        return [ev.SetShares(dict(s.shares))]

    def _plan_if_ready(self, at_s: float) -> list[ev.Instruction]:
        s = self.state
        if s.phase != "preparing" or s.awaiting_labels or s.awaiting_profiles:
            return []
        s.phase, s.planning.choosing = "running", not s.jobs
        return self._replan(at_s, PlanCause("prepared"))

    def _replan(self, at_s: float, cause: PlanCause) -> list[ev.Instruction]:
        """Ask for a plan; until it comes, the one in force goes on."""
        s = self.state
        if not s.cameras or s.phase == "idle":
            return []
        if s.phase == "preparing":
            return self._serve_only(at_s)
        s.lending.asked_for(cause.code)
        s.planning.questions += 1
        s.planning.asked = s.planning.questions
        return [MakePlan(PlanQuestion(s.planning.asked, at_s, cause, s.copy()))]

    @_handle.register
    def _(self, event: PlanMade) -> list[ev.Instruction]:
        s, made = self.state, event.made
        if made.number != s.planning.asked:
            return []  # something happened meanwhile: another plan is being made
        s.planning.asked, s.planning.choosing, s.planning.last_s = None, False, made.at_s
        taught = s.group.taught & made.group.taught
        known = s.group
        s.group = replace(made.group, possible=known.possible, kept=known.kept, taught=taught, guests=known.guests)
        s.options.update(made.options)
        now = s.lending
        s.lending = replace(made.lending, offers=now.offers, me=now.me, heard_s=now.heard_s, due=False)
        s.plan, s.plan_number = made.plan, s.plan_number + 1
        out: list[ev.Instruction] = [ev.RecordPlan(s.window, made.problem, made.plan, made.cause, made.request)]
        out += [ev.Complain("floor_unreachable", fault.what, fault.camera) for fault in made.plan.faults]
        return out + self._apply(0, event.at_s) + s.lending.begin(s.window, s.plan_number)

    @_handle.register
    def _(self, event: PlanNotMade) -> list[ev.Instruction]:
        s = self.state
        if event.number != s.planning.asked:
            return []
        s.planning.asked = None
        out: list[ev.Instruction] = [ev.Complain("planning_failed", f"no new plan: {event.why}")]
        if s.plan is None:
            return out + self._serve_only(event.at_s)
        return out + self._apply(s.segment_at(event.at_s), event.at_s)

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
        running, begun = set(s.jobs), []
        s.shares = {}
        for camera, allocation in segment.streams.items():
            if camera not in s.cameras:
                continue
            s.shares[camera] = allocation.inference_share
            if allocation.retrain_config is None:
                continue
            current = s.jobs.get(camera)
            if current is not None:
                work = current.device_seconds
                s.jobs[camera] = replace(current, share=allocation.retraining_share, since_s=at_s, work_at_since=work)
            elif allocation.retraining_share > 0:
                option = next((o for o in s.options.get(camera, ()) if o.id == allocation.retrain_config), None)
                if option is None:
                    continue
                name = f"w{s.window}-{camera}-p{s.plan_number}"
                s.jobs[camera] = Job(name, camera, option, allocation.retraining_share, at_s)
                begun.append(camera)
        s.fit_shares()  # a plan may be for more than there is now, where no new one could be made
        out.append(ev.SetShares(dict(s.shares), {c: j.share for c, j in s.jobs.items() if c in running}))
        for camera in begun:
            job = s.jobs[camera]
            members = s.group.begun(camera, job.id)
            order = ev.StartRetraining(
                camera, job.id, job.option.id, job.share, s.window - 1, members, s.plan_number,
                guests=s.group.guests_of(camera),
            )  # fmt: skip
            out.append(order)
        s.planning.next_segment = number + 1
        if s.planning.next_segment < len(s.plan.segments):
            due = s.window_start_s + s.plan.segments[s.planning.next_segment].start_s
            if due < s.window_start_s + s.settings.window_s - 1e-6:
                out.append(ev.ScheduleReplan(max(due, at_s), s.plan_number))
        return out

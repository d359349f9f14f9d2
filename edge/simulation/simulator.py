"""Drives the live window controller on a trace, under a simulated clock.

The controller and the policies are those of the appliance. Only the workers are modelled: labelling and profiling take
what they took, a retraining proceeds at its share along its recorded throughput curve, and ends at its recorded
accuracy. Three rules carry a policy's run away from the recorded one; each use is counted in the result:

- Drift: a model's accuracy in a window where it was not measured is its last known one, moved with the frozen
  student's; by a part of that only where the scene is no harder than those that the model has learned (`faded`).
- Another start: a retraining that begins from a worse model than the recorded one ends `start_influence` (0-1) of that
  difference worse; from a better one it ends so much better, but a better start alone adds no gain: never above both
  the recorded end and the start.
- No outcome: a profiled configuration that the recorded run did not train in this window ends where one did that it
  trained, with the believed part of the difference between their profiles (`unrecorded`); if it trained none, where the
  model in force is, with the believed part of the gain.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from edge.core import checks
from edge.core import events as ev
from edge.core.profiles import Estimate, InferenceProfile, RetrainingProfile
from edge.core.window import RetrainingOption
from edge.simulation.accuracies import (
    all_fresh,
    carried,
    clip,
    faded,
    fresh,
    known,
    mean,
    nearest_known,
    progress,
    trained_on,
    unrecorded,
)
from edge.simulation.trace import RecordedCamera, RecordedWindow, Trace
from scheduler.controller import WindowController, option_from_profile
from scheduler.window_planning import PlanFunction

if TYPE_CHECKING:
    from edge.simulation.promises import LearnedPromises

#: A running retraining reports after each such part of its work.
REPORT_PART = 0.1
#: Segments of plans begin at least this part of a window apart: a retraining that is later than its profile said makes
#: the controller plan "what is left" again and again, and nothing may be left by the profile.
SEGMENT_PAUSE = 0.0025
#: Devices that are there from a boundary on change right after it.
AFTER_BOUNDARY_S = 1e-6


@dataclass(frozen=True)
class CameraWindowResult:
    """One camera in one simulated window: time-averaged inference accuracy (inference factor included), that of the
    frozen student at the same inference shares, device seconds of retraining, and the models put in force. `people`:
    the accuracy against people's labels (None: the trace has none of this camera)."""

    camera: str
    window: int
    accuracy: float
    frozen: float
    retraining_device_s: float
    promoted: tuple[str, ...] = ()
    people: float | None = None


@dataclass(frozen=True)
class SimulationResult:
    """One policy on one trace. `mean_accuracy` is over cameras and windows from the second one on (the first has
    nothing to retrain on). `estimates` counts uses of each rule that stands in for a measurement. `mean_people`:
    against people's labels, over the cameras that have them (None: none has)."""

    trace: str
    policy: str
    mean_accuracy: float
    mean_frozen: float
    worst_camera: float
    rows: tuple[CameraWindowResult, ...]
    plans: int
    complaints: tuple[str, ...] = ()
    estimates: dict[str, int] = field(default_factory=dict)
    mean_people: float | None = None

    def to_json(self) -> dict[str, Any]:
        out = {k: getattr(self, k) for k in self.__dataclass_fields__}
        rows = [{k: getattr(r, k) for k in r.__dataclass_fields__} | {"promoted": list(r.promoted)} for r in self.rows]
        return out | {"rows": rows, "complaints": list(self.complaints)}


@dataclass
class _Model:
    """A model in force: its accuracies by window where known, and the window and held-out accuracy it was born with.
    `people`: the same against people's labels. `learned`: windows whose data it and its parents were trained on."""

    name: str
    born: int
    accuracy: float
    live: dict[int, float]
    people: dict[int, float] = field(default_factory=dict)
    learned: tuple[int, ...] = ()


@dataclass(frozen=True)
class _End:
    """The outcome of a retraining from the start that it has, whole windows on fresh answers. `promoted`: the
    gate's verdict, where it is on record."""

    accuracy: float
    device_seconds: float
    live: Mapping[int, float]
    people: Mapping[int, float]
    promoted: bool | None = None


@dataclass
class _SimulatedJob:
    """A running retraining in the simulation; `work` of `outcome.device_seconds` is done at time `at_s`."""

    id: str
    config: str
    profile: RetrainingProfile
    outcome: _End
    share: float
    at_s: float
    work: float = 0.0
    reported: int = 0
    turn: int = 0
    option: RetrainingOption = field(init=False)

    def __post_init__(self) -> None:
        self.option = option_from_profile(self.profile)

    def rate(self) -> float:
        return self.option.speed(self.share)


@dataclass
class _CameraState:
    """One camera as the run has it now."""

    record: RecordedCamera
    model: _Model
    inference: InferenceProfile
    frozen: Mapping[int, float]
    frozen_people: Mapping[int, float]
    share: float = 0.0
    job: _SimulatedJob | None = None
    accuracy_s: float = 0.0
    frozen_s: float = 0.0
    people_s: float = 0.0
    retraining_device_s: float = 0.0
    promoted: list[str] = field(default_factory=list)

    @staticmethod
    def of(record: RecordedCamera) -> _CameraState:
        """Before the first window, with the student in force that the record begins with. One that had learned is taken
        to have learned scenes as hard as any in the record; the last of them it forgets first."""
        frozen = all_fresh(record.frozen, record.factors)
        people = all_fresh(record.frozen_people, record.factors)
        live = all_fresh(record.begins_with, record.factors) or dict(frozen)
        name, learned = ("recorded", tuple(sorted(frozen)[::-1])) if record.begins_with else ("frozen", ())
        model = _Model(name, 1, live[min(live)], live, dict(people), learned)
        return _CameraState(record, model, record.inference_profile, frozen, people)

    def most(self, window: int) -> float:
        """The highest accuracy on fresh answers that a measured one of `window` stands for."""
        return fresh(1.0, self.record.factors, window)

    def at(self, window: int, accuracy: float) -> float:
        """The same, within what is possible."""
        return clip(accuracy, self.most(window))


class Simulator:
    """One run of one policy. `run()` returns the result; build a new one for the next."""

    def __init__(
        self,
        trace: Trace,
        policy: str,
        plan: PlanFunction,
        *,
        start_influence: float = 0.5,
        on_event: Callable[[WindowController], None] | None = None,
        on_measured: Callable[[str, int, float], None] | None = None,
        promises: LearnedPromises | None = None,
    ) -> None:
        """`promises` correct the accuracies that plans count on, as in the appliance (None: nothing does). `on_event`
        is called after every event, for tests that check the controller's invariants; `on_measured` with camera, window
        and realised accuracy once these are known."""
        checks.in_range("start_influence", start_influence, 0.0, 1.0)
        self._trace, self._policy = trace, policy
        self._influence = start_influence
        self._on_event, self._on_measured, self._promises = on_event, on_measured, promises
        settings = ev.WindowSettings(trace.window_s, trace.a_min, policy, delta=trace.delta)
        self._controller = WindowController(settings, trace.num_gpus, plan)
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._now = 0.0
        self._window = 0
        self._profiler_free_s = 0.0
        self._last_segment_s = -trace.window_s
        self._rows: list[CameraWindowResult] = []
        self._plans = 0
        self._complaints: list[str] = []
        self._estimates = {"drift": 0, "start": 0, "outcome": 0}
        self._cameras = {c.id: _CameraState.of(c) for c in trace.cameras}
        self._turn = dict.fromkeys(self._cameras, 0)

    def run(self) -> SimulationResult:
        """Play all windows of the trace."""
        self.begin()
        while self.due_s is not None:
            self.step()
        return self.result()

    def begin(self) -> None:
        """The cameras join, and the first window opens."""
        for name, state in sorted(self._cameras.items()):
            first = clip(self._live(state, state.model, 1))
            self._handle(
                ev.CameraJoined(0.0, name, first, state.inference, state.record.every_kth_window, state.model.name)
            )
        for at_s, num_gpus in self._trace.num_gpus_at:
            self._at(at_s + AFTER_BOUNDARY_S, partial(self._capacity_changed, num_gpus))
        for name, state in sorted(self._cameras.items()):
            for at_s, profile in state.record.inference_at:
                self._at(at_s + AFTER_BOUNDARY_S, partial(self._inference_measured, name, profile))
        self._boundary()

    @property
    def due_s(self) -> float | None:
        """When something happens next, in seconds from the beginning; None: all windows are over."""
        return self._queue[0][0] if self._queue and self._window <= self._trace.windows else None

    def step(self) -> None:
        """Go on to the time that is due next, and do what is due then."""
        at_s, _, action = heapq.heappop(self._queue)
        self._advance(at_s)
        action()

    def handle_now(self, event: ev.Event) -> None:
        """Something outside of the cameras happened at `event.at_s`: not before the last step, nor after the next."""
        self._advance(max(self._now, event.at_s))
        self._handle(event)

    @property
    def controller(self) -> WindowController:
        """The window controller, to be read."""
        return self._controller

    def result(self) -> SimulationResult:
        """The result of the windows that are over."""
        scored = [r for r in self._rows if r.window > 1] or self._rows
        by_camera = {c: [r.accuracy for r in scored if r.camera == c] for c in self._cameras}
        people = [r.people for r in scored if r.people is not None]
        return SimulationResult(
            self._trace.name,
            self._policy,
            mean([r.accuracy for r in scored]),
            mean([r.frozen for r in scored]),
            min(mean(v) for v in by_camera.values()),
            tuple(self._rows),
            self._plans,
            tuple(self._complaints),
            dict(self._estimates),
            mean(people) if people else None,
        )

    # -- the clock and the measurements under it

    def _at(self, at_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (max(at_s, self._now), next(self._order), action))

    def _advance(self, at_s: float) -> None:
        """Integrate accuracy and work up to `at_s`."""
        seconds = at_s - self._now
        if seconds > 0:
            for state in self._cameras.values():
                factor = state.inference.factor(state.share)
                state.accuracy_s += clip(self._live(state, state.model, self._window) * factor) * seconds
                state.frozen_s += clip(known(state.frozen, self._window) * factor) * seconds
                if state.frozen_people:
                    state.people_s += clip(self._by_people(state, self._window) * factor) * seconds
                if state.job is not None:
                    done = state.job.rate() * seconds
                    state.job.work += done
                    state.retraining_device_s += done
                    state.job.at_s = at_s
        self._now = at_s

    def _boundary(self) -> None:
        if self._window:
            for name, state in sorted(self._cameras.items()):
                self._rows.append(
                    CameraWindowResult(
                        name,
                        self._window,
                        state.accuracy_s / self._trace.window_s,
                        state.frozen_s / self._trace.window_s,
                        state.retraining_device_s,
                        tuple(state.promoted),
                        state.people_s / self._trace.window_s if state.frozen_people else None,
                    )
                )
                state.accuracy_s = state.frozen_s = state.people_s = state.retraining_device_s = 0.0
                state.promoted = []
        # Jobs that the boundary ends are gated as work of the window that is over, so its number goes up afterwards.
        instructions = self._controller.handle(ev.BoundaryReached(self._now))
        late = [i for i in instructions if isinstance(i, ev.StopRetraining)]
        for instruction in late:
            self._stop(instruction)
        self._window += 1
        self._profiler_free_s = self._now
        if self._window <= self._trace.windows:
            self._carry_out([i for i in instructions if not isinstance(i, ev.StopRetraining)])

    def _handle(self, event: ev.Event) -> None:
        self._carry_out(self._controller.handle(event))
        if self._on_event is not None:
            self._on_event(self._controller)

    def _capacity_changed(self, num_gpus: float) -> None:
        self._handle(ev.CapacityChanged(self._now, num_gpus))

    def _inference_measured(self, camera: str, profile: InferenceProfile) -> None:
        """A camera's inference was measured inside of a window."""
        state = self._cameras[camera]
        state.inference = profile
        accuracy = self._controller.state.cameras[camera].accuracy
        every = state.record.every_kth_window
        self._handle(ev.CameraChanged(self._now, "camera_measured", camera, accuracy, profile, every, state.model.name))

    # -- instructions

    def _carry_out(self, instructions: list[ev.Instruction]) -> None:
        for order in instructions:
            match order:
                case ev.SetShares():
                    self._set_shares(order)
                case ev.StartRetraining():
                    self._start(order)
                case ev.StopRetraining():
                    self._stop(order)
                case ev.CloseSample():
                    self._close_sample(order)
                case ev.StartProfiling():
                    self._profile(order)
                case ev.ScheduleBoundary():
                    self._at(order.at_s, self._boundary)
                case ev.ScheduleReplan():
                    self._schedule_segment(order)
                case ev.ScheduleDeadline():
                    window = order.window
                    self._at(order.at_s, lambda w=window: self._handle(ev.DeadlinePassed(self._now, w)))  # type: ignore[misc]
                case ev.RecordPlan():
                    self._plans += 1
                    if self._promises is not None:
                        self._promises.planned(order.window, order.problem, order.plan)
                case ev.Complain():
                    about = "" if order.camera is None else f"{order.camera}: "
                    self._complaints.append(f"window {self._window}: {about}{order.message}")
                case ev.CloseWindow() | ev.StopProfiling() | ev.HandIn() | ev.ScheduleHandIn():
                    pass  # results are kept at the boundary; profiles come when the recorded run had them
                case _:
                    raise TypeError(f"the simulator does not know {type(order).__name__}")

    def _schedule_segment(self, order: ev.ScheduleReplan) -> None:
        def due() -> None:
            self._last_segment_s = self._now
            self._handle(ev.SegmentDue(self._now, order.plan_number))

        self._at(max(order.at_s, self._last_segment_s + SEGMENT_PAUSE * self._trace.window_s), due)

    def _set_shares(self, order: ev.SetShares) -> None:
        for name, state in self._cameras.items():
            state.share = order.inference.get(name, 0.0)
            if state.job is not None and name in order.retraining:
                state.job.share = order.retraining[name]
                self._schedule_job(name, state.job)

    def _close_sample(self, order: ev.CloseSample) -> None:
        state = self._cameras[order.camera]
        record = state.record.windows.get(order.window + 1)
        row = next(r for r in reversed(self._rows) if r.camera == order.camera)
        if record is not None and record.inference_profile is not None:
            state.inference = record.inference_profile
        event = ev.SampleLabelled(
            0.0,
            order.camera,
            order.window,
            0 if record is None else record.train_frames,
            0 if record is None else record.held_out_frames,
            row.accuracy,
            state.inference,
        )
        delay = 0.0 if record is None else record.labelling_s

        def labelled() -> None:
            correction = None
            if self._promises is not None:
                self._promises.seen(order.camera, order.window, row.accuracy)
                correction = self._promises.correction(order.camera, order.window + 1, event.held_out_frames)
            self._handle(replace(event, at_s=self._now, correction=correction))
            if self._on_measured is not None:
                self._on_measured(order.camera, order.window, row.accuracy)

        self._at(self._now + delay, labelled)

    def _profile(self, order: ev.StartProfiling) -> None:
        """Cameras are profiled one after another on the share that inference leaves."""
        state = self._cameras[order.camera]
        record = state.record.windows.get(order.window + 1)
        start = self._held_out(state, state.model, record)
        profiles = () if record is None else tuple(self._shifted(p, record, start) for p in record.profiles)
        work = 0.0 if record is None else record.profiling_device_s
        begin = max(self._now, self._profiler_free_s)
        self._profiler_free_s = begin + work / max(order.share, 1e-6)
        event = ev.Profiled(0.0, order.camera, order.window, profiles, start, work)
        self._at(self._profiler_free_s, lambda: self._handle(replace(event, at_s=self._now)))

    def _start(self, order: ev.StartRetraining) -> None:
        state = self._cameras[order.camera]
        record = state.record.windows[order.window + 1]
        start = self._held_out(state, state.model, record)
        profile = next(p for p in record.profiles if p.config.id == order.config)
        end = self._end(state, record, profile, start)
        shifted = self._shifted(profile, record, start)
        state.job = _SimulatedJob(order.job, order.config, shifted, end, order.share, self._now)
        self._schedule_job(order.camera, state.job)

    def _end(self, state: _CameraState, record: RecordedWindow, profile: RetrainingProfile, start: float) -> _End:
        """The outcome of a retraining of `profile` that begins at `start`."""
        outcome, factors, more = record.outcomes.get(profile.config.id), state.record.factors, 0.0
        promoted = None if outcome is None else outcome.promoted
        if outcome is None:
            self._estimates["outcome"] += 1
            outcome, more = unrecorded(record, profile, self._window)
            if not outcome.live:
                more += outcome.accuracy - record.start_accuracy
                live = {self._window: state.at(self._window, self._live(state, state.model, self._window) + more)}
                return _End(clip(start + more), outcome.device_seconds, live, {})
        shift = self._shift(record, start, outcome.accuracy + more)
        if shift:
            self._estimates["start"] += 1
        live, people = (
            {w: state.at(w, a + more + shift) for w, a in all_fresh(found, factors).items()}
            for found in (outcome.live, outcome.people)
        )
        return _End(clip(outcome.accuracy + more + shift), outcome.device_seconds, live, people, promoted)

    def _schedule_job(self, camera: str, job: _SimulatedJob) -> None:
        """The job's next report or its end, at its present rate; earlier scheduled ones are void."""
        self._turn[camera] += 1
        job.turn = self._turn[camera]
        rate = job.rate()
        if rate <= 0:
            return
        total = job.outcome.device_seconds
        goal = min(total, (job.reported + 1) * REPORT_PART * total)
        turn = job.turn
        self._at(self._now + max(0.0, goal - job.work) / rate, lambda: self._job_due(camera, turn))

    def _job_due(self, camera: str, turn: int) -> None:
        state = self._cameras[camera]
        job = state.job
        if job is None or job.turn != turn:
            return
        total = job.outcome.device_seconds
        if job.work >= total * (1 - 1e-9):
            state.job = None
            accuracy, promoted, name = self._gate(state, job, 1.0)
            self._handle(ev.RetrainingCompleted(self._now, camera, job.id, promoted, accuracy, name))
            return
        job.reported += 1
        self._handle(ev.RetrainingProgressed(self._now, camera, job.id, job.work, job.work / total))
        if state.job is job and job.turn == turn:
            self._schedule_job(camera, job)

    def _stop(self, order: ev.StopRetraining) -> None:
        state = self._cameras[order.camera]
        job, state.job = state.job, None
        if job is None or not order.keep or job.outcome.device_seconds <= 0:
            return
        part = min(1.0, job.work / job.outcome.device_seconds)
        accuracy, promoted, name = self._gate(state, job, part)
        camera = order.camera
        event = ev.RetrainingCompleted(0.0, camera, job.id, promoted, accuracy, name, "stopped early")
        self._at(self._now, lambda: self._handle(replace(event, at_s=self._now)))

    def _gate(self, state: _CameraState, job: _SimulatedJob, part: float) -> tuple[float, bool, str]:
        """(accuracy in force, promoted, model) after `part` of the work of `job`. Noise is not asked for: a gate
        on record did, and a published student's contest (scheduler.contenders) prefers the new one within it."""
        old = state.model
        record = state.record.windows.get(self._window)
        before = self._held_out(state, old, record)
        gained = progress(job.profile, part)
        after = before + gained * (job.outcome.accuracy - before)
        # Where nothing is right before, a refused one cannot be worse.
        if clip(after) < before or (job.outcome.promoted is False and clip(after) <= before):
            return before, False, old.name
        live = {}
        for window, accuracy in job.outcome.live.items():
            base = self._live(state, old, window)
            live[window] = state.at(window, base + gained * (accuracy - base))
        people = {}
        for window, accuracy in job.outcome.people.items():
            base = carried(old.people, state.frozen_people, window, old.learned, state.most(window))
            people[window] = state.at(window, base + gained * (accuracy - base))
        learned = trained_on(old.learned, self._window - 1)
        state.model = _Model(f"w{self._window}-{job.config}", self._window, clip(after), live, people, learned)
        state.promoted.append(job.config)
        return state.model.accuracy, True, state.model.name

    # -- the truth about models

    def _by_people(self, state: _CameraState, window: int) -> float:
        """Accuracy of the model in force on the data of `window`, against people's labels."""
        people, learned, window = state.model.people, state.model.learned, max(1, window)
        if window not in people:
            people[window] = carried(people, state.frozen_people, window, learned, state.most(window))
        return people[window]

    def _live(self, state: _CameraState, model: _Model, window: int) -> float:
        """Accuracy of `model` on the data of `window`, on fresh answers."""
        window = max(1, window)
        if window in model.live:
            return model.live[window]
        if model.live:
            since = nearest_known(model.live, window)
            value = model.live[since]
        else:
            # Held-out accuracy was measured on the data of the window before it was made.
            since, value = max(1, model.born - 1), model.accuracy
        self._estimates["drift"] += 1
        model.live[window] = faded(value, state.frozen, since, window, model.learned, state.most(window))
        return model.live[window]

    def _held_out(self, state: _CameraState, model: _Model, record: RecordedWindow | None) -> float:
        """Accuracy of `model` at the boundary before this window, on the held-out data that profiles and outcomes are
        measured on: the recorded model's accuracy there, plus `model`'s advantage over that whole window.
        """
        live = self._live(state, model, self._window - 1)
        if record is None or record.start_live is None:
            return clip(live)
        start_live = fresh(record.start_live, state.record.factors, max(1, self._window - 1))
        return clip(record.start_accuracy + live - start_live)

    def _shift(self, record: RecordedWindow, start: float, end: float) -> float:
        """The rise in end accuracy of a retraining recorded to end at `end` when it begins at `start`."""
        difference = start - record.start_accuracy
        if abs(difference) <= 1e-9:
            return 0.0
        shift = self._influence * difference
        return shift if shift < 0 else min(shift, max(0.0, start - end))

    def _shifted(self, profile: RetrainingProfile, record: RecordedWindow, start: float) -> RetrainingProfile:
        """`profile` as the profiler would have made it from a model of accuracy `start`."""
        full = start - record.start_accuracy
        if abs(full) <= 1e-9:
            return profile
        e = profile.end_accuracy
        shift = self._shift(record, start, e.value)
        end = Estimate(clip(e.value + shift), clip(e.low + shift), clip(e.high + shift))
        total = max(profile.device_seconds.value, 1e-9)
        curve = tuple((x, clip(y + full + (shift - full) * min(1.0, x / total))) for x, y in profile.curve)
        return replace(profile, start_accuracy=clip(start), end_accuracy=end, curve=curve)


def simulate(
    trace: Trace,
    policy: str,
    plan: PlanFunction,
    *,
    start_influence: float = 0.5,
    corrected: bool = False,
) -> SimulationResult:
    """Replay `trace` under `policy`; `plan` plans (scheduler.follow.planner is the appliance's own). `corrected`: plans
    count on what past windows really showed, as in the appliance; without, on held-out accuracies as they are."""
    promises: LearnedPromises | None = None
    if corrected:
        # The appliance's settings take a while to import.
        from edge.simulation.promises import LearnedPromises

        promises = LearnedPromises(trace.window_s)
    return Simulator(trace, policy, plan, start_influence=start_influence, promises=promises).run()

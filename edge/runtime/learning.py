"""The runtime's knowledge of learning: measured costs, the budget in force, and plans' promises with their results.

Decisions are those of `scheduler.learning`; this keeps their facts, asks them at every boundary, and hands the runtime
numbers to act on. Touched on the control process's event loop only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from edge.core.accuracy import realised
from edge.core.configs import RetrainingConfig
from edge.core.errors import MagpieError
from edge.core.labels import LabelledFrame, LabelledWindow
from edge.core.learning import (
    BudgetProblem,
    Correction,
    LearningBudget,
    LearningFacts,
    LearningReport,
    PromiseHistory,
    PromiseOutcome,
    WindowChoice,
)
from edge.core.profiles import RetrainingProfile
from edge.core.window import WindowPlan, WindowProblem
from edge.runtime import messages as m
from edge.settings import CameraSettings, RetrainingSettings
from microprofiler.history import ProfilerHistory
from microprofiler.known import merged, unprofiled
from microprofiler.trials import families
from scheduler.learning.budget import (
    LEAST_EVALUATION,
    MOST_GOLDEN,
    decide,
    most_golden_share,
    needed_evaluation_share,
    needed_golden_share,
)
from scheduler.learning.costs import learned
from scheduler.learning.elsewhere import LabelsElsewhere
from scheduler.learning.promise import correction, decay_per_s, kept_promises, remembered
from scheduler.learning.windows import PRIOR_DECAY_PER_S, choose_window
from scheduler.timeline import evaluate

#: Before the cost of a label is known: the golden model's share, and labels per camera.
FIRST_GOLDEN_SHARE, FIRST_LABELS = 0.15, 48
#: A share that others squeeze is taken to be worth at least this part of what it says.
MOST_SLOWER = 4.0
#: A share for labelling or measuring that is right within this part stays at a boundary.
KEEP_WITHIN = 0.2
#: A share follows a cost that was measured so often.
FEWEST_SAMPLES = 3
#: The golden share follows inside a window where it is off by this part, and not more often than that of a window.
FOLLOW_OFF, FOLLOW_EVERY = 0.5, 0.15
#: It grows to so many times itself at once, or so many times the first one, if that is more: while a box begins, and
#: its workers load, a label seems far too dear.
FOLLOW_MOST = 2.0
#: A student must have answered so many frames of a window for its drift inside it to be measured.
_FEWEST_FOR_DRIFT = 16


@dataclass
class _PlannedCamera:
    """A camera in the window that runs, as the first plan with profiles saw it."""

    predicted: float | None
    measured: float | None
    factor: float
    planned_gain: float
    usual: float | None


@dataclass(frozen=True)
class BudgetBox:
    """The runtime's facts of the box for a budget (`BudgetProblem` has the words)."""

    capacity: float
    inference: float
    cameras: int
    thread: float
    profilers: int
    least_trials: int = 0
    published: bool = False
    #: Older frames that a camera's next retraining has, in the mean.
    exemplars: float = 0.0


def _kept_if_near(now: float, wanted: float) -> float:
    """The share that is given from a boundary on, where it was `now`."""
    return wanted if abs(wanted - now) > KEEP_WITHIN * now else now


class Learning:
    """`keep(document)` writes what was learned behind; `restore` takes it back after a restart."""

    def __init__(self, keep: Callable[[dict[str, Any]], None]) -> None:
        self._keep = keep
        self.facts = LearningFacts()
        self.promises = PromiseHistory()
        self.budget: LearningBudget | None = None
        self.late_labels_used = self.unprofiled_retrainings = self.handed_in = 0
        self._planned: dict[tuple[int, str], _PlannedCamera] = {}
        self._problem: BudgetProblem | None = None
        self._golden: float | None = None
        self._evaluation = LEAST_EVALUATION
        self._followed_s = 0.0
        self._profiled_in: dict[str, int] = {}
        self._unpromised: set[tuple[int, str]] = set()
        #: The labels that other boxes made; what one costs there says nothing about this box.
        self.elsewhere = LabelsElsewhere()

    def restore(self, document: Mapping[str, Any] | None) -> None:
        """Raises InvalidValue if the document is damaged."""
        if document is None:
            return
        self.facts = LearningFacts.from_json(document.get("facts", {}))
        self.promises = PromiseHistory.from_json(document.get("promises", {}))

    def forget(self, camera: str) -> None:
        """A camera is gone."""
        self.promises = PromiseHistory({c: o for c, o in self.promises.cameras.items() if c != camera})
        self._planned = {k: v for k, v in self._planned.items() if k[1] != camera}
        self._profiled_in.pop(camera, None)

    def _learned(self, **measured: float) -> None:
        self.facts = learned(self.facts, **measured)

    def _save(self) -> None:
        problem = None if self._problem is None else replace(self._problem, facts=self.facts).to_json()
        self._keep({"facts": self.facts.to_json(), "promises": self.promises.to_json(), "problem": problem})

    # -- the budget

    def problem(self, s: RetrainingSettings, box: BudgetBox) -> BudgetProblem:
        """The budget problem of a window under settings `s`."""
        configs = s.configs(box.published)
        own = None
        if s.profiling_budget is not None:
            own = s.profiling_budget * s.window_s * max(0.05, box.capacity) / max(1, box.cameras)
        return BudgetProblem(
            window_s=s.window_s,
            cameras=max(1, box.cameras),
            capacity=box.capacity,
            inference=box.inference,
            facts=self.facts,
            evaluation=self.evaluation_share(s),
            thread=box.thread,
            profilers=box.profilers,
            visits=tuple(sorted({c.epochs * c.data_fraction for c in configs})),
            families=len(families(configs)),
            exemplars=round(box.exemplars),
            held_out=s.held_out,
            golden_share=s.golden_share,
            labels=s.label_budget,
            profiling_s=own,
            least_trials=box.least_trials,
            elsewhere=self.elsewhere.expected / s.window_s,
        )

    def decide(self, s: RetrainingSettings, box: BudgetBox) -> LearningBudget:
        """The budget of the window that begins now."""
        cost = self.facts.evaluation_s
        if cost is not None and cost.samples >= FEWEST_SAMPLES:
            known = FIRST_LABELS if self.budget is None or not self.budget.known else self.budget.labels
            frames = max(1, box.cameras) * (known if s.label_budget is None else s.label_budget)
            # Profilers measure, each in a thread: more than they can use would lie idle.
            usable = max(LEAST_EVALUATION, box.profilers * box.thread)
            share = round(min(usable, needed_evaluation_share(frames, cost, s.window_s)), 3)
            self._evaluation = _kept_if_near(self._evaluation, share)
        self.elsewhere = self.elsewhere.window_over()
        self._problem = self.problem(s, box)
        self.budget = decide(self._problem)
        # Before the first label is timed its cost is a guess: the share follows as soon as it is known. A little more
        # or less is not worth another share: where shares cannot change live that costs another process.
        share = self.budget.golden_share
        if not self.budget.known:
            self._golden = None
        else:
            self._golden = share if self._golden is None else _kept_if_near(self._golden, share)
        return self.budget

    def choice(self, s: RetrainingSettings, box: BudgetBox) -> WindowChoice:
        """The window length that this box would choose."""
        decay = max(PRIOR_DECAY_PER_S, decay_per_s(self.promises, None, s.window_s))
        return choose_window(self.problem(s, box), decay)

    def golden_share(self, s: RetrainingSettings) -> float:
        """The golden model's share now."""
        if s.golden_share is not None:
            return s.golden_share
        if self._golden is not None:
            return self._golden
        return FIRST_GOLDEN_SHARE if self._problem is None else min(FIRST_GOLDEN_SHARE, self._problem.thread)

    def evaluation_share(self, s: RetrainingSettings) -> float:
        """The share for measuring windows and exemplars now."""
        return self._evaluation if s.evaluation_share is None else s.evaluation_share

    def labels(self, s: RetrainingSettings, camera: CameraSettings) -> int:
        """Frames of a camera's window that shall be labelled."""
        fixed = camera.retraining.label_budget or s.label_budget
        if fixed is not None:
            return fixed
        return FIRST_LABELS if self.budget is None or not self.budget.known else self.budget.labels

    def profiling_s(self) -> float:
        """Device seconds for one camera's trials."""
        if self._problem is None or self.budget is None:
            return 1.0
        if self._problem.profiling_s is not None:
            return max(0.01, self._problem.profiling_s)
        return max(0.01, self.budget.profiling_s)

    def follow(self, s: RetrainingSettings, coming: float, left_s: float, now_s: float) -> float | None:
        """The golden share that labels what is still `coming` in the `left_s` seconds of the window; None: as it is."""
        cost = self.facts.label_s
        if s.golden_share is not None or cost is None or cost.samples < FEWEST_SAMPLES or left_s <= 1.0:
            return None
        if now_s - self._followed_s < FOLLOW_EVERY * s.window_s and self._golden is not None:
            return None
        most = MOST_GOLDEN if self._problem is None else most_golden_share(self._problem)
        now = self.golden_share(s)
        most = min(most, FOLLOW_MOST * max(now, FIRST_GOLDEN_SHARE))
        wanted = round(min(most, needed_golden_share(coming, cost, left_s)), 4)
        if self._golden is not None and abs(wanted - now) <= FOLLOW_OFF * now:
            return None
        self._followed_s, self._golden = now_s, wanted
        return wanted

    def trials_s(self, trials: int) -> float:
        """Device seconds of so many trials of a camera, wherever they run; at least those of its budget."""
        f = self.facts
        setup, trial = (0.0 if cost is None else cost.value for cost in (f.setup_s, f.trial_s))
        return max(self.profiling_s(), setup + trials * trial)

    # -- what was measured

    def labelled(self, device_s: float, shared_s: float | None = None) -> None:
        """One label took `device_s` device seconds. `shared_s` is its wall time times the golden model's share, where
        there was always more to do: on a machine that others use too a share brings less than it says."""
        self._learned(label_s=max(device_s, min(shared_s or 0.0, MOST_SLOWER * device_s)))

    def evaluated(self, device_s: float, frames: int) -> None:
        """The students in shadow were measured on `frames` frames."""
        if frames > 0 and device_s > 0:
            self._learned(evaluation_s=device_s / frames)

    def memorised(self, device_s: float) -> None:
        """A camera's exemplars were picked."""
        if device_s > 0:
            self._learned(memory_s=device_s)

    def profiled(self, done: m.ProfileDone, before: ProfilerHistory) -> None:
        """A profiler handed in: record its trials' cost, and their gain over the best-known configuration."""
        self.handed_in += done.handed_in
        if done.trials:
            self._profiled_in[done.camera] = done.window
        # Another box may be faster than its cores say.
        if done.trials and not done.box:
            self._learned(trial_s=max(0.0, done.device_seconds - done.setup_s) / done.trials)
        if done.setup_s > 0 and not done.box:
            self._learned(setup_s=done.setup_s)
        profiles: tuple[RetrainingProfile, ...] = done.profiles
        tried = {p.config.id: p for p in profiles if p.profiled}
        known = [tried[c] for c in before.known if c in tried]
        if known:
            usual = max(known, key=lambda p: before.known[p.config.id].gain)
            best = max(tried.values(), key=lambda p: p.end_accuracy.value)
            self._learned(choice=best.end_accuracy.value - usual.end_accuracy.value)

    def retrained(self, done: m.TrainingDone, profile: RetrainingProfile, labels: int, gained: float) -> None:
        """A retraining with this profile gained `gained` held-out accuracy (0 where it was refused); `labels` frames of
        its window were labelled. One that was cut short had all that precedes the first step: it costs what its
        profile expects of a whole one, or what it took, where that is more."""
        whole = done.fraction >= 1.0
        visits = done.visits or profile.config.epochs * done.train_frames
        if visits >= 1 and (whole or not done.visits):
            expected = 0.0 if whole else profile.device_seconds.value
            self._learned(visit_s=max(done.device_seconds, expected) / visits)
        if whole and not done.taught_with:  # a group's gain is not that of the camera's own labels
            self._learned(gain=max(0.0, gained), gain_labels=float(labels))
        self._save()

    def ready(self, seconds: float) -> None:
        """Labels and profiles were there so many seconds after the boundary."""
        if self.budget is not None and self.budget.known and self.budget.ready_s > 0:
            wait = 1.0 if self.facts.wait is None else min(4.0, max(0.7, self.facts.wait.value))
            self._learned(wait=min(4.0, seconds * wait / self.budget.ready_s))

    # -- profiles without a trial

    def wants_trial(self, camera: str, history: ProfilerHistory, cameras: Sequence[str]) -> bool:
        """Whether a camera's configurations are tried in this window. Where the budget has no time for trials of all,
        those go first that were not tried for the longest."""
        if self.budget is None or self.budget.trials > 0 or not history.known:
            return True
        oldest = sorted(cameras, key=lambda c: (self._profiled_in.get(c, 0), c))
        return camera in oldest[: 1 if self._problem is None else self._problem.profilers]

    def urgency(self, job: m.Remember | m.Look | m.Profile | m.Evaluate | m.JudgeCandidate) -> tuple[int, int]:
        """Order of the profilers' work: of profiles, those of cameras that were not tried for the longest go first,
        since the last ones may be handed in without a trial."""
        if isinstance(job, m.Profile):
            return 1, self._profiled_in.get(job.data.camera, 0)
        return (0 if isinstance(job, m.Remember | m.Look | m.JudgeCandidate) else 2), 0

    @staticmethod
    def known_profiles(
        space: Sequence[RetrainingConfig], data: LabelledWindow, own: ProfilerHistory,
        others: Sequence[ProfilerHistory], start_accuracy: float, thread: float,
    ) -> tuple[RetrainingProfile, ...]:  # fmt: skip
        """Profiles of a camera's best-known configurations of `space`, from its own windows and those of others."""
        frames = len(data.train) + len(data.exemplars)
        throughput = ((thread, thread), (1.0, thread)) if thread < 1.0 else ((1.0, 1.0),)
        known = merged(own.known, [o.known for o in others])
        start = min(1.0, max(0.0, start_accuracy))
        return unprofiled(space, known, frames, start, own.pruning.windows, throughput)

    # -- promise and keep

    def has_plan(self, window: int) -> bool:
        """Whether a plan of `window` was noted already."""
        return any(w == window for w, _ in self._planned)

    def planned(self, window: int, problem: WindowProblem, plan: WindowPlan) -> None:
        """A plan was made: the first one that knew of retrainings is what was promised of the window."""
        outcome = evaluate(problem, plan.segments)
        for stream in problem.streams:
            key = (window, stream.id)
            if key in self._unpromised:
                continue
            first = key not in self._planned
            if not first and (not stream.options or self._planned[key].planned_gain > 0):
                continue
            steps = outcome.steps[stream.id]
            area = sum(step.end_s - step.start_s for step in steps)
            if area <= 0:
                continue
            factor = sum(step.factor * (step.end_s - step.start_s) for step in steps) / area
            promise = stream.promise
            gained = max(0.0, outcome.by_stream[stream.id] - stream.start_accuracy * factor)
            if promise is not None:
                gained /= max(0.05, promise.correction.gain)
            # In the first window nothing is measured yet: a start accuracy is that of another time and place.
            measured = (stream.start_accuracy if promise is None else promise.measured) if window > 1 else None
            usual = None if promise is None else promise.correction.usual
            self._planned[key] = _PlannedCamera(outcome.by_stream[stream.id], measured, factor, gained, usual)
        self._planned = {k: v for k, v in self._planned.items() if k[0] >= window - 2}

    def not_promised(self, camera: str, window: int) -> None:
        """Exclude the camera's window from promises: its gain was not in the plan. Its showing still says what is
        usual of the camera."""
        key = (window, camera)
        if key in self._planned:
            self._planned[key] = replace(self._planned[key], predicted=None, measured=None, planned_gain=0.0)
        self._unpromised = {k for k in self._unpromised if k[0] >= window - 2} | {(window, camera)}

    def seen(self, camera: str, window: int, value: float, drift_per_s: float | None) -> None:
        """The realised accuracy of a camera's window is known."""
        planned = self._planned.get((window, camera))
        if planned is None:
            return
        outcome = PromiseOutcome(
            window, planned.predicted, value, planned.measured, planned.factor, planned.planned_gain, planned.usual,
            drift_per_s,
        )  # fmt: skip
        self.promises = remembered(self.promises, camera, outcome)
        self._save()

    def correction(self, camera: str, window: int, s: RetrainingSettings, frames: int | None = None) -> Correction:
        """For the camera's plan of `window`; `frames` were held out to measure its student and profiles."""
        return correction(self.promises, camera, window, s.window_s, frames)

    def kept(self, camera: str, window: int) -> dict[str, float] | None:
        """Predicted and realised accuracy of a camera's window, for its record."""
        found = [o for o in self.promises.cameras.get(camera, ()) if o.window == window]
        if not found or found[0].predicted is None:
            return None
        return {"predicted": round(found[0].predicted, 6), "realised": round(found[0].realised, 6)}

    # -- for people

    def report(self, s: RetrainingSettings, box: BudgetBox) -> LearningReport:
        """Facts, budget, the window length that this box would choose, and how promises were kept."""
        bias, error, count = kept_promises(self.promises)
        return LearningReport(
            window_s=s.window_s,
            cameras=box.cameras,
            budget=self.budget or decide(self.problem(s, box)),
            golden_share=self.golden_share(s),
            fixed={
                "golden_share": s.golden_share is not None,
                "label_budget": s.label_budget is not None,
                "profiling_budget": s.profiling_budget is not None,
            },
            facts=self.facts,
            choice=self.choice(s, box),
            bias=round(bias, 6),
            mean_error=round(error, 6),
            camera_windows=count,
            late_labels_used=self.late_labels_used,
            unprofiled_retrainings=self.unprofiled_retrainings,
            handed_in=self.handed_in,
        )


def drift_per_s(data: LabelledWindow) -> float | None:
    """By how much the student that answered most of a window was worse in the later half of its answers, per second;
    None: too few."""
    by_version: dict[str, list[LabelledFrame]] = {}
    for frame in data.all_sampled:
        by_version.setdefault(frame.frame.answer_version, []).append(frame)
    frames = max(by_version.values(), key=len, default=[])
    if len(frames) < _FEWEST_FOR_DRIFT:
        return None
    half = len(frames) // 2
    early, late = frames[:half], frames[half:]
    apart = sum(f.frame.utc_s for f in late) / len(late) - sum(f.frame.utc_s for f in early) / len(early)
    if apart <= 0:
        return None
    classes = len(data.classes)
    return (realised(data.task, early, classes).value - realised(data.task, late, classes).value) / apart


def with_late_labels(data: LabelledWindow, late: Sequence[LabelledFrame]) -> LabelledWindow:
    """`data` trained on labels of earlier windows too, that came too late for them."""
    seen = {f.frame.id for f in (*data.all_sampled, *data.exemplars)}
    added = tuple(f for f in late if f.frame.id not in seen and f.frame.window != data.window)
    return replace(data, exemplars=data.exemplars + added) if added else data


def history_of(document: Mapping[str, Any] | None) -> ProfilerHistory:
    """A camera's profiler history; an unreadable one counts as none."""
    if document is None:
        return ProfilerHistory()
    try:
        return ProfilerHistory.from_json(document)
    except MagpieError:
        return ProfilerHistory()

"""A made-up box that a change really happens to: students with memories, under the appliance's own controller.

A scene is a point that goes round in a day and wanders. A student has an accuracy in each half window of the run.
Retraining on a window and on exemplars of all earlier ones moves it a part of the way to what a student of just these
pictures would have: the nearer a scene is to one of them, the more (an exemplar counts as some way off). So students
go on learning for days, and lose by what is new in a window. The forecast's rules of trend, loss and true gains are not
used here. Its controller, gate and learning budget are: costs of labels, profiles and pictures, and the part of the way
that so many labels teach, are the budget's, so whether these are right is not seen here. Accuracies are
measured with the noise of as many frames as were labelled. All by a seed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge.core import events as ev
from edge.core.configs import RetrainingConfig
from edge.core.learning import BudgetProblem, Cost, LearningBudget, LearningFacts
from edge.core.profiles import Estimate, InferenceProfile, RetrainingProfile
from edge.core.shares import ideal_caps
from edge.core.window import WindowPlan, WindowProblem
from edge.simulation.accuracies import clip, progress
from edge.simulation.promises import LearnedPromises
from edge.simulation.simulator import Simulator
from edge.simulation.trace import RecordedCamera, RecordedOutcome, RecordedWindow, Trace
from scheduler.follow import planner
from scheduler.learning.budget import BACKLOG, decide, taught_part

Floats = NDArray[np.float64]

POLICY = "relay"
#: Windows of a day of the scene, their length in seconds, and windows after the change of which the first is not
#: counted.
DAY, WINDOW_S, AFTER = 6, 60.0, 7
#: (configuration, part of the way that it goes with very many labels).
CONFIGS = ((RetrainingConfig(2), 0.4), (RetrainingConfig(5), 0.65), (RetrainingConfig(8), 0.85))
EXEMPLARS, HELD_OUT = 64, 0.3
#: Squared distance that an exemplar of an earlier window counts as further off than a picture of the window.
EXEMPLAR_OFF = 0.5
#: A score of one frame is off by so much (standard deviation); two scores on the same frames share this part.
FRAME_NOISE, SAME_FRAMES = 0.3, 0.8
BUDGET = BudgetProblem(
    WINDOW_S, 3, 0.9, 0.2,
    LearningFacts(
        label_s=Cost(0.15, 0.03, 50), trial_s=Cost(0.6, 0.1, 20), setup_s=Cost(0.3, 0.05, 20),
        visit_s=Cost(0.012, 0.001, 20), memory_s=Cost(0.2, 0.02, 20), evaluation_s=Cost(0.02, 0.0, 20),
        wait=Cost(1.2, 0.1, 20), gain=Cost(0.06, 0.02, 20), gain_labels=Cost(24.0, 0.0, 20),
        choice=Cost(0.02, 0.01, 20),
    ),
    thread=0.5, visits=tuple(float(c.epochs) for c, _ in CONFIGS), families=3, exemplars=EXEMPLARS, held_out=HELD_OUT,
)  # fmt: skip
INFERENCE = InferenceProfile("subsampling", 0.06, (1.0, 2.0, 4.0, 8.0), (0.98, 0.95, 0.88, 0.75))


@dataclass
class WorldCamera:
    """`scene` (H, 4): a point each half window. `students` by name: accuracy (H,) in each half window."""

    name: str
    scene: Floats
    top: float
    deep: float
    students: dict[str, Floats] = field(default_factory=dict)

    def taught(self, data: Sequence[int], exemplars: Sequence[int]) -> Floats:
        """(H,) of a student that knows pictures of these half windows, and nothing else."""
        apart = ((self.scene[:, None, :] - self.scene[None, list(data), :]) ** 2).sum(2).min(1)
        if len(exemplars):
            old = ((self.scene[:, None, :] - self.scene[None, list(exemplars), :]) ** 2).sum(2).min(1)
            apart = np.minimum(apart, old + EXEMPLAR_OFF)
        return np.asarray(self.top - self.deep * (1 - np.exp(-apart / 2)))


def world_camera(name: str, seed: int, number: int, halves: int, kind: int) -> WorldCamera:
    """Cameras of one `kind` have the same day and student; each wanders in its own way."""
    like, own = np.random.default_rng([seed, kind, 1]), np.random.default_rng([seed, number, 2])
    phase, round_ = like.uniform(0, 2 * math.pi), like.uniform(0.7, 1.3)
    top, deep, pace = float(like.uniform(0.78, 0.92)), float(like.uniform(0.4, 0.6)), like.uniform(0.1, 0.3)
    angle = phase + 2 * math.pi * np.arange(halves) / (2 * DAY)
    scene = np.zeros((halves, 4))
    scene[:, 0], scene[:, 1] = round_ * np.cos(angle), round_ * np.sin(angle)
    for h in range(1, halves):
        scene[h, 2:] = 0.9 * scene[h - 1, 2:] + pace * own.normal(0.0, 1.0, 2)
    made = WorldCamera(name, scene, top, deep)
    made.students["frozen"] = made.taught([0], [])
    return made


@dataclass(frozen=True)
class WorldBox:
    """The decided budget of a box, and its cameras' share of today's device."""

    problem: BudgetProblem
    budget: LearningBudget

    @staticmethod
    def of(cameras: int = 3, device: float = 1.0, window_s: float = WINDOW_S) -> WorldBox:
        problem = replace(
            BUDGET, cameras=cameras, capacity=BUDGET.capacity * device, evaluation=BUDGET.evaluation * device,
            inference=BUDGET.inference * cameras / BUDGET.cameras, window_s=window_s,
        )  # fmt: skip
        return WorldBox(problem, decide(problem))

    @property
    def share(self) -> float:
        return max(0.05, self.problem.capacity - self.problem.evaluation - self.budget.golden_share)

    @property
    def profiling_s(self) -> float:
        """Device seconds of a camera's profiles in a window."""
        trial, setup = self.problem.facts.trial_s, self.problem.facts.setup_s
        assert trial is not None
        assert setup is not None
        return setup.value + self.budget.trials * trial.value

    @property
    def labelling_s(self) -> float:
        """Seconds after a boundary until the labels are there."""
        label = self.problem.facts.label_s
        assert label is not None
        return BACKLOG * self.problem.cameras * label.high / max(self.budget.golden_share, self.share / 4)


class _KeptPlans(LearnedPromises):
    def __init__(self, window_s: float) -> None:
        super().__init__(window_s)
        self.kept: list[tuple[int, WindowProblem, WindowPlan]] = []

    def planned(self, window: int, problem: WindowProblem, plan: WindowPlan) -> None:
        super().planned(window, problem, plan)
        self.kept.append((window, problem, plan))


class WorldRun(Simulator):
    """A run of a box from half window `begin` on, in `windows` windows of `halves` halves each. `in_force`: the
    student of each camera as it begins. `known`: half windows that each camera has labels of."""

    def __init__(
        self, cameras: Sequence[WorldCamera], box: WorldBox, begin: int, windows: int, halves: int,
        in_force: Mapping[str, str], known: Mapping[str, Sequence[int]], seed: int,
    ) -> None:  # fmt: skip
        self.world = {c.name: c for c in cameras}
        self.box, self.begin_half, self.halves = box, begin, halves
        self.known = {c.name: list(known.get(c.name, ())) for c in cameras}
        self.rng = np.random.default_rng([seed, begin, halves, len(cameras), 3])
        self.made: dict[str, dict[int, RecordedWindow]] = {c.name: {} for c in cameras}
        self.jobs: list[dict[str, Any]] = []
        self.plan_times: list[float] = []
        #: The student at the end of a camera's window; seconds of it until it came into force, and the frozen
        #: student's accuracy times seconds until then.
        self.at_end: dict[tuple[str, int], tuple[str, float, float]] = {}
        self.promoted_at: dict[str, tuple[float, float]] = {}
        self.count = windows
        recorded = tuple(
            RecordedCamera(
                c.name, INFERENCE, self._live_of(c, c.students["frozen"]), self.made[c.name],
                begins_with=self._live_of(c, c.students[in_force[c.name]]) if in_force.get(c.name) else {},
            )
            for c in cameras
        )  # fmt: skip
        for c in cameras:
            c.students["recorded"] = c.students[in_force.get(c.name) or "frozen"]
        trace = Trace("world", WINDOW_S * halves / 2, box.share, recorded, windows, 0.05, caps=ideal_caps())
        self.plans = _KeptPlans(trace.window_s)
        super().__init__(trace, POLICY, planner(ideal_caps()), promises=self.plans)

    def halves_of(self, window: int) -> list[int]:
        first = self.begin_half + (window - 1) * self.halves
        return list(range(first, first + self.halves))

    def _live_of(self, camera: WorldCamera, student: Floats) -> dict[int, float]:
        return {w: clip(float(student[self.halves_of(w)].mean())) for w in range(1, self.count + 1)}

    def noisy(self, value: float, frames: float) -> float:
        return clip(value + float(self.rng.normal(0.0, FRAME_NOISE / math.sqrt(max(1.0, frames)))))

    # -- the truth instead of a record

    def _close_sample(self, order: ev.CloseSample) -> None:
        name = order.camera
        in_force = self._cameras[name].model.name
        self.at_end[name, order.window] = (in_force, *self.promoted_at.pop(name, (0.0, 0.0)))
        if order.window < self.count:
            self.made[name][order.window + 1] = self._record(name, in_force, order.window)
            self.known[name] += self.halves_of(order.window)
        super()._close_sample(order)

    def _record(self, name: str, in_force: str, window: int) -> RecordedWindow:
        camera, budget, problem = self.world[name], self.box.budget, self.box.problem
        data, parent = self.halves_of(window), self.world[name].students[in_force]
        held_out = max(1.0, HELD_OUT * budget.labels)
        shared = float(self.rng.normal(0.0, math.sqrt(SAME_FRAMES)))

        def scored(student: Floats) -> float:
            own = float(self.rng.normal(0.0, math.sqrt(1 - SAME_FRAMES)))
            return clip(float(student[data].mean()) + (shared + own) * FRAME_NOISE / math.sqrt(held_out))

        start, goal = scored(parent), camera.taught(data, self.known[name])
        frames = max(1.0, (1 - HELD_OUT) * budget.labels) + EXEMPLARS
        visit = problem.facts.visit_s
        assert visit is not None
        profiles, outcomes = [], {}
        for config, part in CONFIGS:
            student = parent + part * taught_part(budget.labels, problem) * (goal - parent)
            end, work = scored(student), config.epochs * frames * visit.value
            outcomes[config.id] = RecordedOutcome(end, work, self._live_of(camera, student))
            camera.students[f"{window + 1}-{config.id}"] = student
            said = clip(end + float(self.rng.normal(0.0, 0.03)))
            profiles.append(
                RetrainingProfile(
                    config, start, Estimate(said, clip(said - 0.05), clip(said + 0.05)), Estimate.exact(work),
                    ((0.0, start), (work, said)),
                )
            )  # fmt: skip
        start_live = clip(float(parent[data].mean()))
        return RecordedWindow(
            start, tuple(profiles), outcomes, self.box.labelling_s, self.box.profiling_s, budget.labels,
            max(1, round(held_out)), INFERENCE, start_live,
        )  # fmt: skip

    def _carry_out(self, instructions: list[ev.Instruction]) -> None:
        self.plan_times += [self._now] * sum(isinstance(order, ev.RecordPlan) for order in instructions)
        super()._carry_out(instructions)

    def _gate(self, state: Any, job: Any, part: float) -> tuple[float, bool, str]:
        name, parent, window = state.record.id, state.model.name, self._window
        accuracy, promoted, version = super()._gate(state, job, part)
        students, record = self.world[name].students, self.made[name][window]
        if promoted:
            full, before = students[f"{window}-{job.config}"], students[parent]
            students[version] = before + progress(job.profile, part) * (full - before)
            self.promoted_at[name] = (self._now - (window - 1) * self._trace.window_s, state.frozen_s)
        self.jobs.append(
            {
                "window": window, "camera": name, "state": "completed", "config": job.config,
                "accuracy_before": record.start_accuracy, "accuracy_after": clip(accuracy), "promoted": promoted,
                "model_version": version if promoted else None,
                "device_seconds": part * record.outcomes[job.config].device_seconds,
            }
        )  # fmt: skip
        return accuracy, promoted, version

    # -- as the store keeps it

    def details(self) -> tuple[dict[str, Any], ...]:
        """Documents of the windows, measured with noise. Once, after `run`."""
        result = {(r.camera, r.window): r for r in self.result().rows}
        return tuple(self._detail(w, result) for w in range(1, self.count + 1))

    def _detail(self, window: int, result: Mapping[tuple[str, int], Any]) -> dict[str, Any]:
        length, labels = self._trace.window_s, self.box.budget.labels
        start = (window - 1) * length
        rows, profiles, costs = [], [], []
        for name in self.world:
            row = result[name, window]
            last = (self._cameras[name].model.name, *self.promoted_at.get(name, (0.0, 0.0)))
            model, since_s, frozen_s = self.at_end.get((name, window), last)
            shared = float(self.rng.normal(0.0, math.sqrt(0.5)))
            scale = FRAME_NOISE / math.sqrt(labels)
            own = [shared + float(self.rng.normal(0.0, math.sqrt(0.5))) for _ in range(3)]
            fresh = None
            frames = round(labels * (1 - since_s / length))
            if model != "frozen" and frames > 0:
                # As old as its own answers: their mean factor since it came into force, as the frozen student had it.
                since = (row.frozen * length - frozen_s) / (length - since_s)
                factor = since / max(1e-9, self._cameras[name].frozen[window])
                value = float(self.world[name].students[model][self.halves_of(window)].mean())
                off = own[2] * FRAME_NOISE / math.sqrt(frames)
                fresh = {"current_fresh": {"value": clip(factor * value + off), "frames": frames}}
            rows.append(
                {
                    "camera": name, "frozen": {"value": clip(row.frozen + scale * own[0])},
                    "realised": {"value": clip(row.accuracy + scale * own[1])}, "frames_labelled": labels,
                    "model_version": model, "labelling_delay_s": self.box.labelling_s, "details": fresh or {},
                }
            )  # fmt: skip
            record = self.made[name].get(window)
            if record is not None:
                profiles += [{"camera": name, "profile": p.to_json()} for p in record.profiles]
                costs.append({"camera": name, "kind": "profiling", "device_seconds": record.profiling_device_s})
        plans = [
            {"problem": problem.to_json(), "basis": None, "at_utc_s": at_s, "plan": plan.to_json()}
            for (number, problem, plan), at_s in zip(self.plans.kept, self.plan_times, strict=True)
            if number == window
        ]
        about = {
            "id": window, "open": False, "outcome": "completed", "length_s": length, "policy": POLICY,
            "start_utc_s": start, "settings": {"golden_share": self.box.budget.golden_share}, "cameras": rows,
        }  # fmt: skip
        jobs = [j for j in self.jobs if j["window"] == window]
        return {"window": about, "plans": plans, "profiles": profiles, "jobs": jobs, "costs": costs}

    def in_force(self) -> dict[str, str]:
        return {name: state.model.name for name, state in self._cameras.items()}

    def mean_accuracy(self, first: int) -> dict[str, float]:
        """Accuracy without noise by camera, the mean of its windows from `first` on."""
        found: dict[str, list[float]] = {}
        for row in self.result().rows:
            if row.window >= first:
                found.setdefault(row.camera, []).append(row.accuracy)
        return {c: sum(v) / len(v) for c, v in found.items()}


@dataclass(frozen=True)
class WorldStory:
    """Documents of the windows before, and what came by change and camera ("none": without a change)."""

    details: tuple[dict[str, Any], ...]
    came: Mapping[str, Mapping[str, float]]
    levels: Mapping[str, list[float]]


def story(seed: int, windows: int) -> WorldStory:
    """A box of three cameras that learned for `windows` windows, and each change of it at the same moment."""
    halves = 2 * (windows + AFTER)
    cameras = [world_camera(f"camera-{n}", seed, n, halves, n) for n in range(3)]
    new = world_camera("camera-new", seed, 3, halves, 0)
    before = WorldRun(cameras, WorldBox.of(), 0, windows, 2, {}, {}, seed)
    before.run()
    # Each change begins with the same students and memories.
    begun = before.in_force()
    known = {c: [*found, *before.halves_of(windows)] for c, found in before.known.items()}
    students = {c.name: dict(c.students) for c in cameras}
    came = {}
    after = {
        "none": (cameras, WorldBox.of(), AFTER, 2),
        "camera": ([*cameras, new], WorldBox.of(cameras=4), AFTER, 2),
        "device": (cameras, WorldBox.of(device=0.5), AFTER, 2),
        "window": (cameras, WorldBox.of(window_s=WINDOW_S / 2), 2 * AFTER, 1),
    }
    details = before.details()
    for name, (there, box, count, each) in after.items():
        for c in cameras:
            c.students = dict(students[c.name])
        run = WorldRun(there, box, 2 * windows, count, each, begun, known, seed)
        run.run()
        came[name] = run.mean_accuracy(1 + 2 // each)
    levels = {c.name: [r.accuracy for r in before.result().rows if r.camera == c.name] for c in cameras}
    return WorldStory(details, came, levels)

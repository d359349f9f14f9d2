"""What Ekya is compared with, on generated or recorded traces: fixed shares and configurations, retraining in the cloud
over a thin link, and models of earlier windows used again. And the replay that they all go through."""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from edge.core.plan_basis import PlanRequest
from edge.core.shares import ideal_caps
from edge.core.window import StreamProblem, WindowPlan, WindowProblem
from edge.simulation.drift_traces import CONFIGS, DriftCamera, drift_cameras
from edge.simulation.simulator import SimulationResult, simulate
from edge.simulation.trace import RecordedCamera, Trace
from scheduler.baselines import NoRetrainingPolicy, cost_front
from scheduler.follow import planner
from scheduler.policies import WindowPolicy
from scheduler.static import StreamChoice, make_plan, static_segments
from scheduler.timeline import remaining_work
from scheduler.window_planning import PlanFunction

#: Cameras of the world with this seed choose the fixed configurations, and are in no test.
HOLD_OUT_SEED = 9_001


class UniformParts:
    """The published baseline: devices split evenly over cameras, each camera's part split into a fixed part for
    inference and the rest for retraining, whether anything is retrained or not.

    `config` is the fixed configuration; None: the one with the greatest accuracy over the window, as Algorithm 2 picks
    it (Ekya-FixedRes)."""

    name = "uniform-parts"

    def __init__(self, config: str | None, inference_part: float) -> None:
        self._config, self._part = config, inference_part

    def plan(self, problem: WindowProblem) -> WindowPlan:
        """The fixed shares. A camera that has no option left has been retrained, or is not yet to be."""
        own = problem.num_gpus / len(problem.streams)
        inference, training = min(1.0, own * self._part), min(1.0, own * (1 - self._part))
        choices = {}
        for stream in problem.streams:
            option = self._option(problem, stream, inference, training)
            choices[stream.id] = (
                StreamChoice(inference) if option is None else StreamChoice(inference, training, option, inference)
            )
        return make_plan(self.name, problem, static_segments(problem, choices))

    def _option(self, problem: WindowProblem, stream: StreamProblem, inference: float, training: float) -> str | None:
        if self._config is not None:
            return next((o.id for o in stream.options if o.id == self._config), None)
        left = problem.window_s - problem.label_delay_s
        best, pick = stream.start_accuracy * left, None
        for option in stream.options:
            takes = remaining_work(stream, option) / max(option.speed(training), 1e-9)
            value = stream.start_accuracy * takes + option.end_accuracy * (left - takes)
            if takes < left and value > best:
                best, pick = value, option.id
        return pick


@dataclass
class TimedPlanner:
    """A planner whose CPU seconds per plan are kept."""

    plan: PlanFunction
    seconds: list[float] = field(default_factory=list)

    def __call__(self, request: PlanRequest) -> WindowPlan:
        began = time.process_time()
        plan = self.plan(request)
        self.seconds.append(time.process_time() - began)
        return plan


def alone(policy: WindowPolicy) -> PlanFunction:
    """A policy as published: no limits around it."""
    return lambda request: policy.plan(request.problem)


def as_followed() -> PlanFunction:
    """Ours, as the appliance follows it: the policy within limits, every camera answering."""
    return planner(ideal_caps())


def mean_of(result: SimulationResult, first_window: int = 2) -> float:
    """Mean accuracy over cameras and windows from `first_window` on, in per cent."""
    return 100 * float(np.mean([r.accuracy for r in result.rows if r.window >= first_window]))


def fixed_configurations() -> tuple[str, str]:
    """(Config 1, Config 2): the dear and the cheap point of the Pareto front on hold-out cameras, at three quarters and
    one quarter of it."""
    held_out = drift_cameras(HOLD_OUT_SEED, 2, 2)
    points = [
        (
            float(np.mean([c.device_seconds(n) for c in held_out])),
            float(np.mean([c.part(n) for c in held_out])),
            config.id,
        )
        for n, config in enumerate(CONFIGS)
    ]
    front = cost_front(points)
    return front[3 * (len(front) - 1) // 4][1], front[(len(front) - 1) // 4][1]


def frozen_only(trace: Trace, accuracy: Mapping[str, Mapping[int, float]], window_s: float, windows: int) -> Trace:
    """`trace` whose cameras have nothing to retrain, and by window the accuracy given: that of whatever model is in
    force then."""
    cameras = tuple(RecordedCamera(c.id, c.inference_profile, accuracy[c.id]) for c in trace.cameras)
    return replace(trace, cameras=cameras, window_s=window_s, windows=windows)


def served(trace: Trace) -> SimulationResult:
    """All devices to inference: nothing is retrained here."""
    return simulate(trace, "no-retraining", alone(NoRetrainingPolicy()))


# -- retraining in the cloud

#: Mbit of a camera's sample of one window of 400 s (4 Mbit/s, a tenth of it), and of a model.
SAMPLE_MBIT, MODEL_MBIT = 160.0, 398.0
#: The cloud's models come into force at multiples of this (seconds).
SLOT_S = 10.0


@dataclass(frozen=True)
class CloudLink:
    """A network between the edge and the cloud: Mbit/s up and down. `duplex`: models come down while samples go up;
    else, as the paper counts, all samples go up first and then all models come down."""

    name: str
    up: float
    down: float
    duplex: bool = False

    def faster(self, times: float) -> CloudLink:
        """The same link, so many times as fast in both directions."""
        return replace(self, up=self.up * times, down=self.down * times)

    def round_s(self, cameras: int) -> float:
        """Seconds from the first bit of a window's samples to the last bit of its models."""
        return self.arrivals(cameras)[-1]

    def arrivals(self, cameras: int) -> tuple[float, ...]:
        """Seconds after which each camera's model is there; training in the cloud takes no time."""
        up, down = SAMPLE_MBIT / self.up, MODEL_MBIT / self.down
        free, out = (0.0, []) if self.duplex else (cameras * up, [])
        for n in range(cameras):
            free = max(free, (n + 1) * up) + down
            out.append(free)
        return tuple(out)


def cloud_accuracy(trace: Trace, cameras: Sequence[DriftCamera], link: CloudLink) -> SimulationResult:
    """Retraining in the cloud as retrainings that cost no device here and come late.

    A round takes the newest finished window's samples as soon as the link is free; every model is trained to the end.
    Slots of SLOT_S seconds stand for windows in the result."""
    first = cameras[0]
    slots = round(first.window_s / SLOT_S)
    in_force = np.zeros((len(cameras), slots * first.windows), int)  # window that the model was trained on
    free = 0.0
    for window in itertools.count(1):
        ready = window * first.window_s  # window `window` is over
        if ready >= first.windows * first.window_s:
            break
        if free > ready:
            if free >= ready + first.window_s:
                continue  # the link is busy until newer samples are there
            ready = free
        for n, after in enumerate(link.arrivals(len(cameras))):
            in_force[n, min(in_force.shape[1], int(np.ceil((ready + after) / SLOT_S))) :] = window
        free = ready + link.round_s(len(cameras))
    accuracy = {}
    for n, camera in enumerate(cameras):
        goals = camera.goals
        accuracy[camera.ways.id] = {
            k + 1: float(np.clip(goals[in_force[n, k], k // slots + 1], 0, 1)) for k in range(in_force.shape[1])
        }
    return served(frozen_only(trace, accuracy, SLOT_S, in_force.shape[1]))


def slots_from(cameras: Sequence[DriftCamera], window: int) -> int:
    """The first slot of a window."""
    return (window - 1) * round(cameras[0].window_s / SLOT_S) + 1


# -- cached models


def cached_accuracy(trace: Trace, cameras: Sequence[DriftCamera], how: str, seed: int) -> SimulationResult:
    """In each window the model of an earlier one, trained to the end: `how` says which.

    "classes": of the window whose mix of classes is nearest to that of the last one; "labels": the one that does best
    on the last window's labels; "any": any one; "oldest": always the first. Nothing is retrained."""
    rng = np.random.default_rng([seed, 11])
    accuracy = {}
    for camera in cameras:
        goals, near = camera.goals, camera.class_distance
        series = {}
        for window in range(1, camera.windows + 1):
            seen = window - 1
            # The newest model in the cache is of the window before the last: what was seen last is not trained on.
            cache = np.arange(max(1, seen))
            pick = {
                "classes": lambda c, s=seen, d=near: c[d[s, c].argmin()],
                "labels": lambda c, s=seen, g=goals: c[g[c, s].argmax()],
                "any": lambda c: rng.choice(c),
                "oldest": lambda c: c[0],
            }[how](cache)
            series[window] = float(np.clip(goals[pick, window], 0, 1))
        accuracy[camera.ways.id] = series
    return served(frozen_only(trace, accuracy, cameras[0].window_s, cameras[0].windows))

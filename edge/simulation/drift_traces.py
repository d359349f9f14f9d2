"""Generated traces of cameras whose scenes drift, with the gain of every retraining configuration in every window.

A scene is a point that wanders: two of its coordinates are its mix of classes, four its appearance (light, poses). A
student that was trained on one window loses accuracy in another by how far the scene has gone between them, and, as a
small network holds little, by how much it moved inside each. A camera has a student that was trained before the first
window; 18 configurations train towards what the window's data can give, each to its own part of it and at its own cost.

The shapes (18 configurations with costs 200 times apart, sub-linear gains, frames left out when a share is small) are
those of published measurements (Ekya, NSDI 2022); the numbers are ours. The same seed gives the same cameras, and the
first of many cameras are those of few.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from edge.core import checks
from edge.core.configs import LAYERS, Layers, RetrainingConfig
from edge.core.profiles import Estimate, InferenceProfile, RetrainingProfile
from edge.simulation.trace import RecordedCamera, RecordedOutcome, RecordedWindow, Trace

Floats = npt.NDArray[np.float64]

#: Every configuration is offered in every window.
CONFIGS: tuple[RetrainingConfig, ...] = tuple(
    RetrainingConfig(epochs, 8, layers, fraction)
    for layers, epochs, fraction in itertools.product(LAYERS, (5, 15, 30), (0.2, 1.0))
)
#: Of each choice of layers: the work of an epoch over that of all layers, the greatest part of the way to what the data
#: can give, and the epochs (of all data) that go two thirds of that way.
_WORK: dict[Layers, float] = {"head": 0.15, "last_stage": 0.45, "all": 1.0}
_REACH: dict[Layers, float] = {"head": 0.6, "last_stage": 0.85, "all": 0.97}
_PACE: dict[Layers, float] = {"head": 4.0, "last_stage": 5.0, "all": 7.0}
#: Less data bring more than their part: the effort is epochs times the fraction to this power.
_DATA_POWER = 0.7
#: Accuracy factor when one frame of so many is looked at.
SUBSAMPLING = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 20.0)
FACTORS = (1.0, 0.8, 0.67, 0.58, 0.46, 0.36, 0.2, 0.05)
#: Seconds between two points of a scene's way.
STEP_S = 5.0
#: Coordinates of a scene, of which the first are its mix of classes; and how far each goes in a step.
_PLACES, _CLASSES = 6, 2
_PACE_OF_SCENES = 0.045
#: A scene turns back to where it was in about so many seconds.
_RETURN_S = 1500.0
#: A window's own spread counts so much: two windows in the same place are as near as the network's size allows.
_CAPACITY = 0.5


@dataclass(frozen=True)
class DriftWays:
    """The wandering scene of one camera, and what does not depend on windows.

    `way` (T, 6) is a point each STEP_S; `top` the accuracy of a student trained on the very scene, `deepest` how much
    is lost far away from it; `epoch_s` device seconds of an epoch on all layers and data; `luck` by configuration
    scales how far it gets."""

    id: str
    way: Floats
    top: float
    deepest: float
    epoch_s: float
    luck: Floats
    inference: InferenceProfile


@dataclass(frozen=True)
class DriftCamera:
    """A camera's way cut into windows. Window 0, which has `first_s` seconds, is what its first student was trained
    on."""

    ways: DriftWays
    windows: int
    window_s: float
    first_s: float

    @cached_property
    def _places(self) -> tuple[Floats, Floats]:
        """(W + 1, 6) mean and (W + 1,) spread of the scene in each window."""
        first, length = round(self.first_s / STEP_S), round(self.window_s / STEP_S)
        ends = [0, first, *(first + (w + 1) * length for w in range(self.windows))]
        parts = [self.ways.way[a:b] for a, b in itertools.pairwise(ends)]
        return np.array([p.mean(0) for p in parts]), np.array([p.var(0).sum() for p in parts])

    @cached_property
    def goals(self) -> Floats:
        """(W + 1, W + 1): accuracy in window v of a student trained to the end on window t, as [t, v]."""
        mean, spread = self._places
        apart = ((mean[:, None] - mean[None, :]) ** 2).sum(2) + _CAPACITY * (spread[:, None] + spread[None, :])
        return np.asarray(self.ways.top - self.ways.deepest * (1 - np.exp(-apart / 2)))

    @cached_property
    def class_distance(self) -> Floats:
        """(W + 1, W + 1): how far apart the mixes of classes of two windows are (Euclidean)."""
        mean = self._places[0][:, :_CLASSES]
        return np.asarray(np.sqrt(((mean[:, None] - mean[None, :]) ** 2).sum(2)))

    def part(self, number: int) -> float:
        """How far configuration `number` goes from its start to what the data can give, 0 to 1."""
        config = CONFIGS[number]
        effort = config.epochs * config.data_fraction**_DATA_POWER
        reached = _REACH[config.layers] * (1 - np.exp(-effort / _PACE[config.layers]))
        return float(min(1.0, reached * self.ways.luck[number]))

    def device_seconds(self, number: int) -> float:
        """Work of configuration `number` at 100 % of one device."""
        config = CONFIGS[number]
        return self.ways.epoch_s * config.epochs * config.data_fraction * _WORK[config.layers]


def drift_ways(seed: int, number: int, horizon_s: float, drift: float = 1.0) -> DriftWays:
    """Camera `number` of the world with this seed. `drift` scales how far its scene goes (0: it stays)."""
    checks.in_range("drift", drift, 0.0, 100.0)
    rng = np.random.default_rng([seed, number])
    pace = drift * float(np.exp(rng.normal(0.0, 0.5)))
    top, deepest = float(rng.uniform(0.84, 0.92)), float(rng.uniform(0.4, 0.55))
    epoch_s = float(rng.uniform(3.0, 5.5))
    luck = np.clip(rng.normal(1.0, 0.06, len(CONFIGS)), 0.8, 1.1)
    share = round(float(rng.uniform(0.18, 0.32)), 3)
    keep = 1 - STEP_S / _RETURN_S
    # Drawn point by point, so that a longer way begins as a shorter one.
    steps = rng.normal(0.0, 1.0, (round(horizon_s / STEP_S), _PLACES))
    way = np.zeros_like(steps)
    for k in range(1, len(steps)):
        way[k] = keep * way[k - 1] + pace * _PACE_OF_SCENES * steps[k]
    inference = InferenceProfile("subsampling", share, SUBSAMPLING, FACTORS, "generated")
    return DriftWays(f"camera-{number:02}", way, top, deepest, epoch_s, luck, inference)


def drift_cameras(
    seed: int, cameras: int, windows: int, window_s: float = 200.0, drift: float = 1.0, first_s: float = 200.0
) -> tuple[DriftCamera, ...]:
    """The first `cameras` of the world with this seed, in `windows` windows after the `first_s` seconds on which their
    students were trained. Windows of other lengths see the same scenes.

    Raises InvalidValue for fewer than one camera or window, or windows shorter than STEP_S.
    """
    checks.in_range("cameras", cameras, 1, 10_000)
    checks.in_range("windows", windows, 1, 100_000)
    checks.in_range("window_s", window_s, STEP_S, 1e6)
    checks.in_range("first_s", first_s, STEP_S, 1e6)
    horizon = first_s + (windows + 1) * window_s
    return tuple(
        DriftCamera(drift_ways(seed, number, horizon, drift), windows, window_s, first_s) for number in range(cameras)
    )


def drift_trace(
    cameras: tuple[DriftCamera, ...],
    num_gpus: float,
    *,
    seed: int = 0,
    estimate_error: float = 0.0,
    labelling_s: float = 4.0,
    profiling_device_s: float = 0.44,
    delta: float = 0.1,
) -> Trace:
    """The every-configuration trace of `cameras` on `num_gpus` devices.

    Profiles are the outcomes with a Gaussian error of standard deviation `estimate_error` (accuracy, 0-1) in the end
    accuracy, drawn from `seed`. The recorded run retrained every camera in every window with the configuration that
    ends best, and finished at the window's start.
    """
    checks.in_range("estimate_error", estimate_error, 0.0, 1.0)
    checks.not_empty("cameras", cameras)
    first = cameras[0]
    recorded = tuple(
        _recorded(c, np.random.default_rng([seed, n, 7]), estimate_error, labelling_s, profiling_device_s)
        for n, c in enumerate(cameras)
    )
    return Trace(
        name=f"drift-{len(cameras)}-cameras-{seed}", window_s=first.window_s, num_gpus=num_gpus, cameras=recorded,
        windows=first.windows, delta=delta, notes="generated by edge.simulation.drift_traces",
    )  # fmt: skip


def ended_or_nothing(trace: Trace) -> Trace:
    """`trace` with retrainings that bring nothing before their end, as published schedulers have them: one that is not
    over when its window ends is lost, where the appliance keeps the part that is done."""
    cameras = tuple(
        replace(
            camera,
            windows={n: replace(w, profiles=tuple(_late(p) for p in w.profiles)) for n, w in camera.windows.items()},
        )
        for camera in trace.cameras
    )
    return replace(trace, cameras=cameras)


def _late(profile: RetrainingProfile) -> RetrainingProfile:
    work, start, end = profile.device_seconds.value, profile.start_accuracy, profile.end_accuracy.value
    if abs(end - start) < 1e-3:  # no gain shows no curve
        end = start + 1e-3
    return replace(profile, curve=((0.0, start), (0.999 * work, start), (work, end)))


def _recorded(
    camera: DriftCamera, rng: np.random.Generator, error: float, labelling_s: float, profiling_device_s: float
) -> RecordedCamera:
    """One camera's record."""
    goals, last = camera.goals, camera.windows
    held = goals[0].copy()  # of the recorded run's model in every window
    windows: dict[int, RecordedWindow] = {}
    for window in range(2, last + 1):
        data = window - 1
        outcomes: dict[str, RecordedOutcome] = {}
        profiles = []
        best: tuple[float, Floats] = (-1.0, held)
        start = _rounded(held[data])
        for number, config in enumerate(CONFIGS):
            part = camera.part(number)
            becomes = held + part * (goals[data] - held)
            work = round(camera.device_seconds(number), 3)
            end = _rounded(becomes[data])
            outcomes[config.id] = RecordedOutcome(
                accuracy=end, device_seconds=work, live={v: _rounded(becomes[v]) for v in range(window, last + 1)}
            )
            guess = _rounded(end + error * rng.normal())
            margin = 1.28 * error
            estimate = Estimate(guess, max(0.0, guess - margin), min(1.0, guess + margin))
            profiles.append(RetrainingProfile(config, start, estimate, Estimate.exact(work)))
            best = max(best, (float(becomes[data]), becomes), key=lambda b: b[0])
        windows[window] = RecordedWindow(
            start_accuracy=start, profiles=tuple(profiles), outcomes=outcomes, labelling_s=labelling_s,
            profiling_device_s=profiling_device_s, train_frames=100, held_out_frames=50, start_live=start,
        )  # fmt: skip
        held = best[1]
    frozen = {v: _rounded(goals[0][v]) for v in range(1, last + 1)}
    return RecordedCamera(id=camera.ways.id, inference_profile=camera.ways.inference, frozen=frozen, windows=windows)


def _rounded(value: float) -> float:
    return round(min(1.0, max(0.0, float(value))), 5)

"""`micro_profile`: from a labelled window and a space of configurations to RetrainingProfiles, within a budget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edge.core import checks
from edge.core.configs import RetrainingConfig
from edge.core.labels import LabelledWindow
from edge.core.profiles import Estimate, RetrainingProfile
from edge.core.trials import TrialResult, TrialRunner
from microprofiler.curve import CurveFit, fit_curve
from microprofiler.history import Prediction, ProfilerHistory
from microprofiler.known import unprofiled
from microprofiler.pareto import PruningSettings, begin_window, end_window
from microprofiler.scaling import (
    EXPONENTS,
    ExponentWeights,
    frames_of,
    prefix_cost,
    retraining_cost,
    trial_epochs,
    with_more_data,
)
from microprofiler.trials import Family, families, sample_frames

#: Points of a profile's curve beside its start.
CURVE_POINTS = 12


@dataclass(frozen=True)
class WindowSize:
    """How much labelled data a camera's window has. `train_frames` counts exemplars too: they are trained on."""

    camera: str
    window: int
    train_frames: int
    held_out_frames: int
    held_out_objects: int

    def __post_init__(self) -> None:
        checks.in_range("window_size.train_frames", self.train_frames, 0, 1e9)
        checks.in_range("window_size.held_out_frames", self.held_out_frames, 0, 1e9)
        checks.in_range("window_size.held_out_objects", self.held_out_objects, 0, 1e9)

    @staticmethod
    def of(window: LabelledWindow) -> WindowSize:
        """Counts of `window`."""
        return WindowSize(
            window.camera,
            window.window,
            len(window.train) + len(window.exemplars),
            len(window.held_out),
            sum(len(f.labels) for f in window.held_out),
        )


@dataclass(frozen=True)
class ProfilerSettings:
    """Trials run `epochs` epochs on `fraction` of the training frames, but at least `min_frames` of them.

    `max_device_seconds` bounds all trials of one call (None: no bound): no trial is begun when it is used up or the
    trial's last cost would break it; the first trial always runs. `min_train_frames` and `min_held_out_frames`: under
    these nothing is profiled. `run_noise` is what two equal runs differ by (accuracy, standard deviation).
    """

    fraction: float = 0.1
    epochs: int = 3
    min_frames: int = 16
    max_device_seconds: float | None = None
    min_train_frames: int = 4
    min_held_out_frames: int = 2
    run_noise: float = 0.01
    pruning: PruningSettings = field(default_factory=PruningSettings)

    def __post_init__(self) -> None:
        checks.in_range("profiler.fraction", self.fraction, 0.0, 1.0, low_open=True)
        checks.in_range("profiler.epochs", self.epochs, 1, 1000)
        checks.in_range("profiler.min_frames", self.min_frames, 1, 100_000)
        if self.max_device_seconds is not None:
            checks.positive("profiler.max_device_seconds", self.max_device_seconds)
        checks.in_range("profiler.min_train_frames", self.min_train_frames, 1, 100_000)
        checks.in_range("profiler.min_held_out_frames", self.min_held_out_frames, 1, 100_000)
        checks.in_range("profiler.run_noise", self.run_noise, 0.0, 0.5, low_open=True)


@dataclass(frozen=True)
class MicroProfile:
    """The answer. `device_seconds` is what all `trials` cost together, each shared prefix once; `pruned` says of every
    configuration that has no profile why; `untried` are profiles of configurations that were not tried for lack of
    time, from past windows, and not among `profiles`; `complaint` says in words why there is none at all ("" if there
    are)."""

    camera: str
    window: int
    profiles: tuple[RetrainingProfile, ...]
    device_seconds: float
    trials: tuple[TrialResult, ...]
    pruned: Mapping[str, str]
    history: ProfilerHistory
    start_accuracy: float | None = None
    complaint: str = ""
    untried: tuple[RetrainingProfile, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """For the store and the page; the history is kept apart."""
        return {
            "camera": self.camera,
            "window": self.window,
            "profiles": [p.to_json() for p in self.profiles],
            "untried": [p.to_json() for p in self.untried],
            "device_seconds": self.device_seconds,
            "trials": [t.to_json() for t in self.trials],
            "pruned": dict(self.pruned),
            "start_accuracy": self.start_accuracy,
            "complaint": self.complaint,
        }


def micro_profile(
    window: WindowSize,
    space: Sequence[RetrainingConfig],
    runner: TrialRunner,
    settings: ProfilerSettings | None = None,
    history: ProfilerHistory | None = None,
    *,
    seed: int = 0,
    start_accuracy: float | None = None,
    throughput: tuple[tuple[float, float], ...] = ((1.0, 1.0),),
    handed_in: Callable[[], bool] = lambda: False,
) -> MicroProfile:
    """Profile `space` on one camera's window; never raises for a lack of data, but says so in `complaint`.

    `start_accuracy` is the model's accuracy now where it is known (else the first trial tells); `throughput` are the
    measured (share, speed) points of this student's training. `history` is what the last call (and
    `ProfilerHistory.learned`) gave. When `handed_in` returns true no other trial begins, and the finished ones are
    handed in. Raises InvalidValue if two configurations of `space` have one id.
    """
    settings = settings or ProfilerSettings()
    history = history or ProfilerHistory()
    checks.unique("retraining.space", [c.id for c in space])
    lack = _lack_of_data(window, settings)
    if lack or not space:
        why = lack or "the space of retraining configurations is empty"
        emptied = replace(history, pending={})
        pruned = {c.id: why for c in space}
        return MicroProfile(window.camera, window.window, (), 0.0, (), pruned, emptied, start_accuracy, why)

    pruning, pruned = begin_window(history.pruning, settings.pruning, [c.id for c in space], start_accuracy)
    groups = families([c for c in space if c.id not in pruned])
    order = sorted(groups, key=lambda f: (_promise(groups[f], history), history.trial_seconds.get(f.id, 0.0)))
    frames = sample_frames(window.train_frames, settings.fraction, settings.min_frames)

    ran = _run_trials(window, order, groups, frames, runner, settings, history, seed, handed_in)
    pruned.update(ran.refused)
    if start_accuracy is None and ran.trials:
        start_accuracy = next(iter(ran.trials.values())).start_accuracy
    profiles, pending = _profiles(ran.trials, groups, window, settings, history, throughput)
    position = {c.id: n for n, c in enumerate(space)}
    profiles.sort(key=lambda p: position[p.config.id])
    new_history = _remembered(
        replace(history, pruning=pruning), settings, ran.trials, profiles, pending, start_accuracy
    )
    new_history = new_history.profiled(profiles, window.train_frames)
    others: tuple[RetrainingProfile, ...] = ()
    if start_accuracy is not None:
        windows = new_history.pruning.windows
        others = unprofiled(ran.untried, history.known, window.train_frames, start_accuracy, windows, throughput)
    return MicroProfile(
        window.camera,
        window.window,
        tuple(profiles),
        ran.device_seconds,
        tuple(ran.trials.values()),
        pruned,
        new_history.offered(others, window.train_frames),
        start_accuracy,
        untried=others,
    )


@dataclass
class _Ran:
    """The trials of one call: results by family, their total cost, and configurations left untried, with the reason."""

    trials: dict[Family, TrialResult] = field(default_factory=dict)
    device_seconds: float = 0.0
    untried: list[RetrainingConfig] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)

    def leave(self, configs: Sequence[RetrainingConfig], why: str) -> None:
        """These are not tried."""
        self.refused.update({c.id: why for c in configs})
        self.untried += configs


def _run_trials(
    window: WindowSize,
    order: Sequence[Family],
    groups: Mapping[Family, Sequence[RetrainingConfig]],
    frames: int,
    runner: TrialRunner,
    settings: ProfilerSettings,
    history: ProfilerHistory,
    seed: int,
    handed_in: Callable[[], bool],
) -> _Ran:
    """One trial per family, in `order`, on `frames` frames, while the budget lasts and nothing is handed in."""
    ran = _Ran()
    limit = settings.max_device_seconds
    for family in order:
        expected = history.trial_seconds.get(family.id, 0.0) * frames
        spent = ran.device_seconds
        if ran.trials and limit is not None and (spent >= limit or spent + expected > limit):
            ran.leave(groups[family], f"not tried: {spent:.1f} of {limit:g} device seconds for profiling were used")
            continue
        trial = None
        if not handed_in():
            trial = runner.run(groups[family][0], frames / window.train_frames, settings.epochs, seed)
        if trial is None:
            ran.leave(groups[family], "not tried: the profiles were wanted before")
            continue
        ran.trials[family] = trial
        ran.device_seconds += trial.device_seconds
    return ran


def _profiles(
    trials: Mapping[Family, TrialResult],
    groups: Mapping[Family, Sequence[RetrainingConfig]],
    window: WindowSize,
    settings: ProfilerSettings,
    history: ProfilerHistory,
    throughput: tuple[tuple[float, float], ...],
) -> tuple[list[RetrainingProfile], dict[str, Prediction]]:
    """Profiles of every configuration whose family was tried, and by id what is remembered to learn from them."""
    profiles: list[RetrainingProfile] = []
    pending: dict[str, Prediction] = {}
    for family, trial in trials.items():
        fit = fit_curve(trial.points, trial.start_accuracy, window.held_out_objects, settings.run_noise)
        prefix = prefix_cost([t for t in trials.values() if t.config.layers == family.layers])
        for config in groups[family]:
            profile, prediction = _profile(config, trial, fit, window, prefix, history, throughput)
            profiles.append(profile)
            pending[config.id] = prediction
    return profiles, pending


def _remembered(
    history: ProfilerHistory,
    settings: ProfilerSettings,
    trials: Mapping[Family, TrialResult],
    profiles: Sequence[RetrainingProfile],
    pending: Mapping[str, Prediction],
    start_accuracy: float | None,
) -> ProfilerHistory:
    """The history after a window in which these trials ran; one in which none ran teaches nothing of the front."""
    if not trials:
        return replace(history, pending={})
    points = {p.config.id: (p.device_seconds.value, p.end_accuracy.value) for p in profiles}
    costs = {f.id: t.device_seconds / t.frames for f, t in trials.items()}
    return replace(
        history,
        pruning=end_window(history.pruning, settings.pruning, points, start_accuracy),
        pending=pending,
        trial_seconds=dict(history.trial_seconds) | costs,
    )


def _profile(
    config: RetrainingConfig,
    trial: TrialResult,
    fit: CurveFit,
    window: WindowSize,
    prefix_seconds_per_frame: float,
    history: ProfilerHistory,
    throughput: tuple[tuple[float, float], ...],
) -> tuple[RetrainingProfile, Prediction]:
    """One configuration's profile from its family's trial, and the record to learn from it."""
    family = Family.of(config).id
    frames = frames_of(config, window.train_frames)

    def worth(epochs: float, belief: ExponentWeights) -> tuple[tuple[float, float], ...]:
        return trial_epochs(epochs, frames, trial.frames, belief)

    longer = config.epochs / trial.points[-1][0]

    def scaled(value: float) -> float:
        return with_more_data(value, trial.start_accuracy, frames, trial.frames, config.layers, longer)

    fitted = fit.predict_over(worth(config.epochs, history.exponents))
    raw = Estimate(scaled(fitted.value), scaled(fitted.low), scaled(fitted.high))
    # How much the data brings is itself uncertain: half of it may be missing, or come on top.
    spread = abs(raw.value - fitted.value) / 2
    raw = Estimate(raw.value, max(0.0, raw.low - spread), min(1.0, raw.high + spread))
    end = history.corrected(family, raw)
    computed = retraining_cost(config, trial, window.train_frames, prefix_seconds_per_frame)
    factor = history.cost_factor(family)
    cost = Estimate(computed.value * factor, computed.low * factor, computed.high * factor)
    prediction = Prediction(
        family,
        raw.value,
        (raw.high - raw.low) / 2,
        computed.value,
        tuple(scaled(fit.median_over(((x, 1.0),))) for x, _ in worth(config.epochs, ExponentWeights())),
        trial.start_accuracy,
        window.train_frames,
    )
    assert len(prediction.by_exponent) == len(EXPONENTS)
    bias = end.value - raw.value
    fixed = factor * (trial.setup_seconds + prefix_seconds_per_frame * frames)
    curve = [(0.0, trial.start_accuracy)]
    steps = min(CURVE_POINTS, config.epochs)
    for n in range(1, steps + 1):
        part = n / steps
        value = scaled(fit.median_over(worth(config.epochs * part, history.exponents))) + bias * part
        curve.append((fixed + (cost.value - fixed) * part, min(1.0, max(0.0, value))))
    curve[-1] = (cost.value, end.value)
    return RetrainingProfile(config, trial.start_accuracy, end, cost, tuple(curve), throughput), prediction


def _lack_of_data(window: WindowSize, settings: ProfilerSettings) -> str:
    if window.train_frames < settings.min_train_frames:
        return f"{window.train_frames} labelled training frames, at least {settings.min_train_frames} are needed"
    if window.held_out_frames < settings.min_held_out_frames:
        return f"{window.held_out_frames} held-out frames, at least {settings.min_held_out_frames} are needed"
    if window.held_out_objects == 0:
        return "the held-out frames show no object of the camera's classes"
    return ""


def _promise(configs: Sequence[RetrainingConfig], history: ProfilerHistory) -> float:
    """Distance of the family's best configuration from the front so far (0 where nothing is known)."""
    known = history.pruning.distances
    return min(known.get(c.id, 0.0) for c in configs)

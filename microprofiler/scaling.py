"""From a trial on a sample to a retraining on all data: accuracy, cost, and speed at a share (thesis section 2.4.4).

Accuracy. One epoch on more data is more steps. How much a step on fresh data is worth is not known in advance, so an
epoch on n frames counts as (n / trial frames) ** k trial epochs with k uncertain: several k vote, and the results of
completed retrainings move the vote (`ExponentWeights`). k = 0 is the thesis' own rule (an epoch is an epoch), k = 1
counts steps. More data also lets the student end higher: the distance to 1 shrinks as a power of the data
(`DATA_EXPONENTS`, the power law of Hestness et al. 2017), the more layers are trained the faster; and a trial loses by
forgetting on a handful of frames, but a retraining on all of them does not (`FORGETTING_EXPONENT`). The exponents were
fitted on recorded retrainings (benchmarks/bench_microprofiler.py); memory of outcomes corrects what is left.

Cost. Set-up, the frozen prefix' activations once per frame, and epochs, the last two linear in frames as published.

Speed. Measured (share, relative speed) points, made monotone; between them linear. Never scaled linearly by share.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from edge.core import checks
from edge.core.configs import RetrainingConfig
from edge.core.profiles import Estimate
from edge.core.trials import TrialResult

#: Exponents k that vote.
EXPONENTS: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0)
#: The distance to accuracy 1 falls as (frames / trial frames) ** -c, by the layers that are trained.
DATA_EXPONENTS: dict[str, float] = {"head": 0.05, "last_stage": 0.08, "all": 0.25}
#: Epochs beyond those of the trial let the student end higher too, as this power of their ratio of more frames would.
EPOCHS_EXPONENT = 0.5
#: A fall under the student's own accuracy in a trial counts (frames / trial frames) ** -c.
FORGETTING_EXPONENT = 2.0
#: Relative spread (80 %) of a cost before anything was measured against it: linear scaling from a small sample.
COST_SPREAD = 0.2


@dataclass(frozen=True)
class ExponentWeights:
    """Belief over `EXPONENTS` (sums to 1)."""

    weights: tuple[float, ...] = (0.25, 0.25, 0.25, 0.25)

    def __post_init__(self) -> None:
        checks.in_range("exponent_weights", len(self.weights), len(EXPONENTS), len(EXPONENTS))
        for n, w in enumerate(self.weights):
            checks.in_range(f"exponent_weights[{n}]", w, 0.0, 1.0)

    def learned(self, predicted: Sequence[float], achieved: float, spread: float = 0.05) -> ExponentWeights:
        """After a retraining achieved an accuracy for which exponent n had `predicted[n]`. Old evidence fades by a
        tenth each time, and no exponent falls under 2 %."""
        checks.in_range("predicted", len(predicted), len(EXPONENTS), len(EXPONENTS))
        logs = [
            0.9 * math.log(w) - 0.5 * ((p - achieved) / spread) ** 2
            for w, p in zip(self.weights, predicted, strict=True)
        ]
        top = max(logs)
        raw = [math.exp(v - top) for v in logs]
        floored = [max(0.02, v / sum(raw)) for v in raw]
        return ExponentWeights(tuple(v / sum(floored) for v in floored))


def frames_of(config: RetrainingConfig, train_frames: int) -> int:
    """Training frames that `config` uses out of `train_frames`."""
    return max(1, round(config.data_fraction * train_frames))


def trial_epochs(
    epochs: float, frames: int, trial_frames: int, belief: ExponentWeights
) -> tuple[tuple[float, float], ...]:
    """(trial epochs, weight) pairs that `epochs` passes over `frames` frames are worth."""
    ratio = frames / trial_frames
    return tuple((epochs * ratio**k, w) for k, w in zip(EXPONENTS, belief.weights, strict=True))


def with_more_data(
    value: float, start: float, frames: int, trial_frames: int, layers: str, epochs_ratio: float = 1.0
) -> float:
    """A trial's extrapolated accuracy `value`, carried over to `frames` training frames, with `epochs_ratio` times the
    epochs of the trial; `start` is the student's own.

    Between `value` and 1 where it rises, between `value` and `start` (and then up) where the trial fell.
    """
    ratio = max(1.0, frames / trial_frames)
    if value < start:
        value = start + (value - start) * float(ratio**-FORGETTING_EXPONENT)
    ratio *= max(1.0, epochs_ratio) ** EPOCHS_EXPONENT
    return 1.0 - (1.0 - value) * float(ratio ** -DATA_EXPONENTS[layers])


def retraining_cost(
    config: RetrainingConfig, trial: TrialResult, train_frames: int, prefix_seconds_per_frame: float = 0.0
) -> Estimate:
    """device seconds at full share of `config` on `train_frames` available frames, from its family's `trial`."""
    frames = frames_of(config, train_frames)
    epochs = config.epochs * trial.device_seconds_per_epoch * frames / trial.frames
    total = trial.setup_seconds + prefix_seconds_per_frame * frames + epochs
    return Estimate(total, total / (1.0 + COST_SPREAD), total * (1.0 + COST_SPREAD))


def prefix_cost(trials: Sequence[TrialResult]) -> float:
    """device seconds per frame of the frozen prefix, from the trials of one layer choice (0 where none is frozen)."""
    frames = sum(t.prefix_frames for t in trials)
    return sum(t.prefix_seconds for t in trials) / frames if frames else 0.0


def monotone_throughput(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Measured (share, speed) points as RetrainingOption wants them: shares increasing, speed relative to share 1 and
    never falling (neighbours that fall are averaged: isotonic regression). Repeated shares are averaged. The last point
    is (1, 1); a speed above that of the full device is measurement noise and is cut.

    Raises InvalidValue where a share is not in (0, 1], a speed is negative, or share 1 was not measured.
    """
    by_share: dict[float, list[float]] = {}
    for n, (share, speed) in enumerate(points):
        checks.in_range(f"throughput[{n}].share", share, 0.0, 1.0, low_open=True)
        checks.in_range(f"throughput[{n}].speed", speed, 0.0, 1e9)
        by_share.setdefault(share, []).append(speed)
    checks.one_of("throughput.share 1.0", 1.0, tuple(by_share) or (None,))
    shares = sorted(by_share)
    full = sum(by_share[1.0]) / len(by_share[1.0])
    checks.positive("throughput.speed at share 1.0", full)
    blocks: list[tuple[float, int]] = []  # (mean speed, how many shares)
    for share in shares:
        mean, size = sum(by_share[share]) / len(by_share[share]) / full, 1
        while blocks and blocks[-1][0] > mean:
            last, count = blocks.pop()
            mean, size = (last * count + mean * size) / (count + size), count + size
        blocks.append((mean, size))
    speeds = [mean for mean, size in blocks for _ in range(size)]
    top = speeds[-1]
    return tuple((share, min(1.0, speed / top)) for share, speed in zip(shares, speeds, strict=True))

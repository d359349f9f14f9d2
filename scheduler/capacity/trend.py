"""The trend of accuracies that go on rising without any change: students learn a scene better with each window.

A camera's measured accuracy in a window is explained by a level of its own, a part of what the frozen student has there
(hard scenes are hard for both), the logarithm of how long the camera has learned, and what all cameras of the window
have in common. A learning curve flattens: each e-fold of the time learned brings about as much as the one before. All
cameras are fitted at once by Bayesian linear regression; a slope is drawn to that of all cameras, and that to none, so
that few or noisy windows show little trend, and say how little they know. Old windows fade, for a curve may flatten
sooner than that.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from scheduler.learning.promise import HALF_LIFE, NOISE, TRUE_GAINS, WANDER

#: Standard deviations before anything is known: of all cameras' slope (an e-fold brings about what one retraining
#: does), of a camera's slope around it, of a camera's level.
SLOPE_SPREAD, CAMERA_SLOPE_SPREAD, LEVEL_SPREAD = TRUE_GAINS, TRUE_GAINS / 2, 1.0
#: The part of the frozen student's loss or gain that a learned one shares, and its standard deviation.
SHARED, SHARED_SPREAD = 0.3, 0.3
#: The noise before anything was measured counts as that of so many windows of a camera.
NOISE_SHRINK = 6.0


@dataclass(frozen=True)
class LearnedWindow:
    """A camera's window `number`: `age`, windows that it has learned from until then (at least 1), measured accuracy,
    and that of the frozen student (None: not known), both [0, 1]."""

    number: int
    age: int
    realised: float
    frozen: float | None = None


@dataclass(frozen=True)
class LearningTrend:
    """Accuracy [0, 1] that a camera gains in an e-fold of the time that it has learned, and its standard deviation."""

    slope: float = 0.0
    spread: float = 0.0

    def gained(self, age: int, later: Sequence[int]) -> float:
        """From `age` until the mean of the ages `later`, each at least 1, without any change."""
        return self.slope * (_efolds(later) - math.log(age))

    def unsure(self, ages: Sequence[int], later: Sequence[int]) -> float:
        """Standard deviation of the mean of `gained` over `ages`."""
        return self.spread * abs(_efolds(later) - _efolds(ages))


def _efolds(ages: Sequence[int]) -> float:
    return fmean(math.log(age) for age in ages)


def learning_trends(cameras: Mapping[str, Sequence[LearnedWindow]]) -> dict[str, LearningTrend]:
    """The trend of each camera with at least one window."""
    found = {c: windows for c, windows in sorted(cameras.items()) if windows}
    if not found:
        return {}
    fit = _Fit.of(found)
    return {c: fit.trend(n) for n, c in enumerate(found)}


@dataclass(frozen=True)
class _Fit:
    """Posterior of the coefficients (K,): the common slope, then slope, level and part of the frozen student of each
    camera in turn, then the effect of each window: `mean` (K,) and `covariance` (K, K)."""

    mean: NDArray[np.float64]
    covariance: NDArray[np.float64]

    @staticmethod
    def of(cameras: Mapping[str, Sequence[LearnedWindow]]) -> _Fit:
        numbers = sorted({w.number for windows in cameras.values() for w in windows})
        effects = {number: 1 + 3 * len(cameras) + n for n, number in enumerate(numbers)}
        rows = sum(len(windows) for windows in cameras.values())
        x = np.zeros((rows, 1 + 3 * len(cameras) + len(numbers)))
        y, weight = np.zeros(rows), np.zeros(rows)
        row = itertools.count()
        for n, windows in enumerate(cameras.values()):
            middle = _efolds([w.age for w in windows])
            usual = [w.frozen for w in windows if w.frozen is not None]
            for w in windows:
                k = next(row)
                slope = math.log(w.age) - middle
                x[k, 0] = x[k, 1 + 3 * n] = slope
                x[k, 2 + 3 * n] = 1.0
                x[k, 3 + 3 * n] = 0.0 if w.frozen is None else w.frozen - fmean(usual)
                x[k, effects[w.number]] = 1.0
                y[k] = w.realised
                weight[k] = 0.5 ** ((numbers[-1] - w.number) / HALF_LIFE)
        each = (CAMERA_SLOPE_SPREAD, LEVEL_SPREAD, SHARED_SPREAD)
        spread = np.array([SLOPE_SPREAD, *each * len(cameras), *[WANDER] * len(numbers)])
        prior = np.zeros(len(spread))
        prior[3 : 1 + 3 * len(cameras) : 3] = SHARED
        x, y = x * np.sqrt(weight)[:, None], y * np.sqrt(weight)
        mean, covariance = _posterior(x, y, prior, spread, NOISE)
        # As many of the windows' values as the fit itself took say nothing of the noise.
        free = max(0.0, float(weight.sum()) - float(np.trace(x @ covariance @ x.T)) / NOISE**2)
        squares = float(np.sum((y - x @ mean) ** 2))
        noise = math.sqrt((NOISE_SHRINK * NOISE**2 + squares) / (NOISE_SHRINK + free))
        return _Fit(*_posterior(x, y, prior, spread, noise))

    def trend(self, camera: int) -> LearningTrend:
        pick = np.zeros(len(self.mean))
        pick[[0, 1 + 3 * camera]] = 1.0
        return LearningTrend(float(pick @ self.mean), math.sqrt(max(0.0, float(pick @ self.covariance @ pick))))


def _posterior(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    prior: NDArray[np.float64],
    spread: NDArray[np.float64],
    noise: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and covariance of the coefficients of `x` (R, K), from independent normal priors and noise."""
    precision = x.T @ x / noise**2 + np.diag(1.0 / spread**2)
    covariance = np.asarray(np.linalg.inv(precision), np.float64)
    return np.asarray(prior + covariance @ (x.T @ (y - x @ prior)) / noise**2, np.float64), covariance

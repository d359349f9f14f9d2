"""Accuracy-epoch curves from a few points per trial, with an interval (thesis section 2.4.4, model of its [147]).

The model is that of Optimus (EuroSys'18, eq. 1): the distance to an asymptote L falls as the inverse of the epochs,
|L - a(e)| = 1 / (b0 e + b1) with b0, b1 >= 0. For a given L it is linear in (b0, b1) and is solved by non-negative
least squares. One L chosen by least squares is what overshoots on few noisy points, so here every L of a grid is fitted
(rising, falling, and with or without the student's own start point), and all fits vote with a weight that falls with
their residuals: the estimate is the median of that mixture and the interval its 10-90 % range. Why this one and not
another basis: docs/decisions/curve-fit.md, measured in benchmarks/bench_microprofiler.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from scipy.special import ndtr

from edge.core import checks
from edge.core.profiles import Estimate

#: Share of held-out objects whose answer changes from one epoch to the next: the held-out set is the same for all
#: epochs, so the noise between epochs is this part of the binomial variance only.
DISCORDANT = 0.25
#: The noise prior is worth this many observations.
NOISE_WEIGHT = 3.0
#: Mean of the exponential prior on the accuracy that is still to be gained or lost after the last point: a least one,
#: and a part of what the trial moved already (a student that rose by 30 points in 5 epochs is not done yet).
GAIN_LEAST, GAIN_OF_MOVED = 0.03, 0.5
#: Spread of the first trained point around the student's own accuracy where training starts anew (a fresh layer).
RESTART_SPREAD = 0.25
#: Prior weight of curves that rise, fall, or stay.
RISING, FALLING, FLAT = 0.6, 0.15, 0.25
#: The noise level is itself estimated from few points: 90th percentile of Student's t with 8 degrees of freedom over
#: that of the normal (5 trial points and NOISE_WEIGHT).
FEW_POINTS = 1.09
#: Probability that an interval holds the value: from the 10th to the 90th percentile.
COVERAGE = 0.8

_GRID = np.geomspace(0.002, 0.7, 36)


@dataclass(frozen=True)
class CurveFit:
    """A mixture of fitted curves a(x) = asymptote - sign / (b0 x + b1), x in trial epochs (may be a fraction).

    Arrays are float64 of shape (M,), `weights` sum to 1; sign +1 rises, -1 falls, 0 stays at `asymptotes`.
    `noise` is the standard deviation of one more measurement, in accuracy. `last_x` is the last epoch tried.
    """

    signs: NDArray[np.float64]
    asymptotes: NDArray[np.float64]
    b0: NDArray[np.float64]
    b1: NDArray[np.float64]
    weights: NDArray[np.float64]
    noise: float
    start: float
    last_x: float

    def curves_at(self, x: float) -> NDArray[np.float64]:
        """Accuracy of each member at `x` trial epochs, shape (M,), within [0, 1]."""
        gap = self.signs / np.maximum(self.b0 * x + self.b1, 1e-9)
        return np.clip(self.asymptotes - gap, 0.0, 1.0)

    def predict(self, x: float, extra_noise: float = 0.0) -> Estimate:
        """Held-out accuracy after `x` trial epochs; `extra_noise` is added to the spread (same unit)."""
        return self.predict_over(((x, 1.0),), extra_noise)

    def predict_over(self, xs: Sequence[tuple[float, float]], extra_noise: float = 0.0) -> Estimate:
        """As `predict`, where x itself is uncertain: `xs` are (x, weight) pairs."""
        values, weights = self._members(xs)
        spread = math.hypot(self.noise, extra_noise)
        tail = (1.0 - COVERAGE) / 2.0
        low, value, high = _mixture_quantiles(values, weights, spread, (tail, 0.5, 1.0 - tail))
        return Estimate(value, min(low, value), max(value, high))

    def median_over(self, xs: Sequence[tuple[float, float]]) -> float:
        """The value that `predict_over` would give, without its interval."""
        values, weights = self._members(xs)
        return _mixture_quantiles(values, weights, self.noise, (0.5,))[0]

    def _members(self, xs: Sequence[tuple[float, float]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        checks.not_empty("xs", xs)
        total = sum(w for _, w in xs)
        values = np.concatenate([self.curves_at(x) for x, _ in xs])
        return values, np.concatenate([self.weights * (w / total) for _, w in xs])


def fit_curve(
    points: Sequence[tuple[float, float]],
    start_accuracy: float,
    held_out_objects: int = 0,
    run_noise: float = 0.005,
) -> CurveFit:
    """Fit (epoch, accuracy) `points` of one trial that began at `start_accuracy`.

    `held_out_objects` > 0 sets how noisy a measurement on that many objects must be (binomial); `run_noise` is the
    noise that two runs of the same training differ by. Raises InvalidValue where a number is out of range.
    """
    checks.not_empty("points", points)
    checks.in_range("start_accuracy", start_accuracy, 0.0, 1.0)
    for n, (epoch, accuracy) in enumerate(points):
        checks.positive(f"points[{n}].epoch", epoch)
        checks.in_range(f"points[{n}].accuracy", accuracy, 0.0, 1.0)
    x = np.array([0.0, *(p[0] for p in points)])
    y = np.array([start_accuracy, *(p[1] for p in points)])
    prior_noise = measurement_noise(float(y[-1]), held_out_objects, run_noise)

    members: list[tuple[float, float, float, float, float]] = []  # sign, asymptote, b0, b1, log weight
    for with_start in (True, False):
        if not with_start and len(points) < 2:
            continue
        xs, ys = (x, y) if with_start else (x[1:], y[1:])
        # Without the start point, the start is explained by a broad bell around the first trained point instead.
        restart = 0.0 if with_start else _log_bell(y[0] - y[1], RESTART_SPREAD) - _log_bell(0.0, prior_noise)
        level = float(ys.mean())
        masses = _grid_mass(GAIN_LEAST + GAIN_OF_MOVED * float(ys.max() - ys.min()))
        log_flat = math.log(FLAT) + _log_fit(ys - level, prior_noise)
        members.append((0.0, level, 0.0, 1.0, log_flat + restart))
        for sign, share in ((1.0, RISING), (-1.0, FALLING)):
            for distance, mass in zip(_GRID, masses, strict=True):
                fit = _fit_asymptote(xs, ys, sign, float(distance))
                if fit is not None:
                    asymptote, b0, b1, residuals = fit
                    log_weight = math.log(share * mass) + _log_fit(residuals, prior_noise) + restart
                    members.append((sign, asymptote, b0, b1, log_weight))
    table = np.array(members)
    weights = np.exp(table[:, 4] - table[:, 4].max())
    weights /= weights.sum()
    keep = weights > 1e-6
    weights = weights[keep] / weights[keep].sum()
    signs, asymptotes, b0s, b1s = (table[keep, k] for k in range(4))
    # The run that is predicted differs from the trial by run noise too, hence the second term.
    at = asymptotes[:, None] - signs[:, None] / np.maximum(b0s[:, None] * x[None, 1:] + b1s[:, None], 1e-9)
    squares = float(weights @ ((at - y[None, 1:]) ** 2).sum(axis=1))
    noise = math.sqrt((squares + NOISE_WEIGHT * prior_noise**2) / (len(points) + NOISE_WEIGHT))
    spread = FEW_POINTS * math.hypot(noise, run_noise)
    return CurveFit(signs, asymptotes, b0s, b1s, weights, spread, start_accuracy, float(x[-1]))


def measurement_noise(accuracy: float, objects: int, run_noise: float) -> float:
    """Standard deviation of one held-out measurement: run to run, and binomial on `objects` objects (0: unknown)."""
    if objects <= 0:
        return run_noise
    p = min(max(accuracy, 0.05), 0.95)
    return math.hypot(run_noise, math.sqrt(DISCORDANT * p * (1.0 - p) / objects))


def _fit_asymptote(
    x: NDArray[np.float64], y: NDArray[np.float64], sign: float, distance: float
) -> tuple[float, float, float, NDArray[np.float64]] | None:
    """NNLS of 1 / |L - y| = b0 x + b1 with L `distance` beyond the extreme of `y`; None where L leaves [0, 1]."""
    asymptote = float(y.max()) + distance if sign > 0 else float(y.min()) - distance
    if not 0.0 <= asymptote <= 1.0:
        return None
    gap = np.abs(asymptote - y)
    scale = gap**2  # d(1/g) = dg / g^2: with it, residuals are in accuracy
    matrix = np.stack([x * scale, scale], axis=1)
    (b0, b1), _ = nnls(matrix, gap)
    fitted = asymptote - sign / np.maximum(b0 * x + b1, 1e-9)
    return asymptote, float(b0), float(b1), np.asarray(fitted - y)


def _grid_mass(scale: float) -> NDArray[np.float64]:
    """Prior mass of each grid distance: an exponential density times the (logarithmic) grid's step."""
    mass = np.exp(-_GRID / scale) * _GRID
    return np.asarray(mass / mass.sum())


def _log_fit(residuals: NDArray[np.float64], prior_noise: float) -> float:
    """Log likelihood with the noise level integrated out (Student's t), up to a constant of the number of points."""
    squares = float((residuals**2).sum()) / prior_noise**2
    return -0.5 * (len(residuals) + NOISE_WEIGHT) * math.log1p(squares / NOISE_WEIGHT)


def _log_bell(difference: float, deviation: float) -> float:
    return -0.5 * (difference / deviation) ** 2 - math.log(deviation)


def _mixture_quantiles(
    values: NDArray[np.float64], weights: NDArray[np.float64], spread: float, levels: Sequence[float]
) -> tuple[float, ...]:
    """Quantiles of a mixture of normals of one width, clipped to [0, 1] (by bisection: the CDF is monotone)."""
    spread = max(spread, 1e-6)
    out = []
    for level in levels:
        low, high = float(values.min()) - 6 * spread, float(values.max()) + 6 * spread
        for _ in range(32):
            middle = 0.5 * (low + high)
            if float(weights @ ndtr((middle - values) / spread)) < level:
                low = middle
            else:
                high = middle
        out.append(min(1.0, max(0.0, 0.5 * (low + high))))
    return tuple(out)

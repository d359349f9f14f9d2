"""The interference model (gpu-lets, section 4.4, eq. 1): prediction, and the fit of its coefficients.

The slowdown of a batch beside neighbours is max(1, c5 + c1 l2 p + c3 dram p + sum over the neighbours of
(c2 l2' p' + c4 dram' p')): own and neighbours' utilisation of L2 cache and DRAM bandwidth, measured alone on the
whole device and scaled by the share p [0, 1].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge.core import checks
from edge.core.errors import InvalidValue
from edge.core.serving import Utilisation

FloatArray = NDArray[np.float64]
Coefficients = tuple[float, float, float, float, float]

#: Fewer measurements say nothing about five coefficients.
FEWEST_PAIRS = 10
#: Groups that are held out in turn.
FOLDS = 5


@dataclass(frozen=True)
class InterferencePair:
    """One measurement: a batch in a gpu-let of `share` [0, 1] took `factor` times as long as alone, beside a
    neighbour of `neighbour_share`. Utilisations are those alone on the whole device. `name` and `neighbour_name` tell
    which pairs are alike; alike pairs are held out together."""

    share: float
    own: Utilisation
    neighbour_share: float
    neighbour: Utilisation
    factor: float
    name: str = ""
    neighbour_name: str = ""

    def __post_init__(self) -> None:
        checks.in_range("pair.share", self.share, 0.0, 1.0, low_open=True)
        checks.in_range("pair.neighbour_share", self.neighbour_share, 0.0, 1.0, low_open=True)
        checks.in_range("pair.factor", self.factor, 0.0, 1e4, low_open=True)


@dataclass(frozen=True)
class Errors:
    """Distribution of |predicted - measured| / measured: quantiles, and the part of all within 10 %."""

    count: int
    median: float
    p90: float
    p95: float
    largest: float
    within_10_percent: float


@dataclass(frozen=True)
class InterferenceFit:
    """Coefficients c1..c5 for the device table, fitted on all pairs; `held_out` are the errors of predictions of
    pairs that were not fitted on, `fitted` those of the pairs that were; `unmodelled` the held-out errors of always
    predicting a factor of 1."""

    coefficients: Coefficients
    held_out: Errors
    fitted: Errors
    unmodelled: Errors

    def to_json(self) -> dict[str, Any]:
        """For a device table's `details`."""
        return asdict(self)


def predict(coefficients: Coefficients, pair: InterferencePair) -> float:
    """The slowdown (>= 1) of `pair.own` beside its neighbour."""
    return float(_predict(np.array(coefficients), _features([pair]))[0])


def fit(pairs: Sequence[InterferencePair], seed: int = 0) -> InterferenceFit:
    """Least squares of relative errors with no negative coefficient (more use never speeds anything up).

    Errors are held out five-fold: pairs of the same two models, whichever way round, are in the same fold, so that
    every prediction is of a pair of models not seen. With fewer than five different pairs of models the folds are of
    single measurements. `seed` shuffles the folds. Raises InvalidValue for fewer than ten pairs.
    """
    if len(pairs) < FEWEST_PAIRS:
        raise InvalidValue("pairs", len(pairs), f"at least {FEWEST_PAIRS} measured pairs")
    x = _features(pairs)
    y = np.array([p.factor for p in pairs])
    coefficients = _least_squares(x, y)
    predicted = np.ones(len(pairs))
    for held in _folds(pairs, seed):
        rest = np.setdiff1d(np.arange(len(pairs)), held)
        predicted[held] = _predict(_least_squares(x[rest], y[rest]), x[held])
    c = [float(v) for v in coefficients]
    return InterferenceFit(
        (c[0], c[1], c[2], c[3], c[4]),
        _errors(predicted, y),
        _errors(_predict(coefficients, x), y),
        _errors(np.ones(len(pairs)), y),
    )


def _features(pairs: Sequence[InterferencePair]) -> FloatArray:
    """One row per pair, in the order of the coefficients: (pairs, 5)."""
    return np.array(
        [
            [
                p.own.l2 * p.share,
                p.neighbour.l2 * p.neighbour_share,
                p.own.dram * p.share,
                p.neighbour.dram * p.neighbour_share,
                1.0,
            ]
            for p in pairs
        ]
    )


def _least_squares(x: FloatArray, y: FloatArray) -> FloatArray:
    """Coefficients (5,) with the least sum of squared relative errors. A second round leaves out what is at the floor
    of 1 in measurement and prediction: there the model says nothing about its coefficients."""
    from scipy.optimize import nnls  # takes half a second to load

    c, _ = nnls(x / y[:, None], np.ones(len(y)))
    used = (x @ c > 1.0) | (y > 1.0)
    if FEWEST_PAIRS <= int(used.sum()) < len(y):
        again, _ = nnls(x[used] / y[used, None], np.ones(int(used.sum())))
        if _squares(again, x, y) < _squares(c, x, y):
            c = again
    return np.asarray(c, np.float64)


def _squares(c: FloatArray, x: FloatArray, y: FloatArray) -> float:
    return float((((_predict(c, x) - y) / y) ** 2).sum())


def _predict(c: FloatArray, x: FloatArray) -> FloatArray:
    return np.maximum(1.0, x @ c)


def _folds(pairs: Sequence[InterferencePair], seed: int) -> list[NDArray[np.int64]]:
    groups = [tuple(sorted((p.name, p.neighbour_name))) for p in pairs]
    kinds = sorted(set(groups))
    random = np.random.default_rng(seed)
    if len(kinds) < FOLDS:
        fold = random.permutation(len(pairs)) % FOLDS
    else:
        of = dict(zip(kinds, (random.permutation(len(kinds)) % FOLDS).tolist(), strict=True))
        fold = np.array([of[g] for g in groups])
    return [np.flatnonzero(fold == n) for n in range(FOLDS) if (fold == n).any()]


def _errors(predicted: FloatArray, measured: FloatArray) -> Errors:
    relative = np.abs(predicted - measured) / measured
    quantiles = [round(float(v), 6) for v in np.quantile(relative, [0.5, 0.9, 0.95, 1.0])]
    return Errors(
        len(measured), quantiles[0], quantiles[1], quantiles[2], quantiles[3], round(float((relative <= 0.1).mean()), 6)
    )

"""How sure a comparison on few pictures is: a paired bootstrap over them (Efron and Tibshirani 1993, chapter 13)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edge.core.accuracy import Counts

RESAMPLES = 400


def resamples(pictures: int, seed: int) -> NDArray[np.int64]:
    """(R, N): which pictures each resample holds."""
    return np.random.default_rng(seed).integers(0, pictures, (RESAMPLES, pictures))


def resampled_f1(frames: Sequence[Counts], drawn: NDArray[np.int64]) -> NDArray[np.float64]:
    """F1 (R,) over each resample of the pictures; `drawn` (R, N) are indices into `frames`."""
    right = np.array([c.right for c in frames], np.float64)[drawn].sum(1)
    other = np.array([c.wrong + c.missed for c in frames], np.float64)[drawn].sum(1)
    total = 2 * right + other
    out: NDArray[np.float64] = np.divide(2 * right, total, out=np.ones_like(total), where=total > 0)
    return out

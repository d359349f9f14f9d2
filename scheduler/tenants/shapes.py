"""Monotone curves that a tenant's performance may follow, before anything was measured.

A curve lives on `GRID`: the logarithm of (units per load) over (entitlement per first load), so that 0 is the
entitlement under the first load seen. Each shape rises from 0 to 1: a mixture of two sigmoids, gradual or steep, with
its scale anywhere from far below the entitlement to several times it. The sample is drawn once, from a fixed seed.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
#: The performance that a curve may end at: a part of requests, an accuracy, a multiple of the goal.
Ending = Literal["part", "accuracy", "multiple"]

#: Distance of two grid points (a share 8 % larger), and the grid's ends: 1/1100 and 33 times the entitlement.
STEP, LOWEST, POINTS = 0.08, -7.0, 132
GRID: Floats = LOWEST + STEP * np.arange(POINTS, dtype=np.float64)
COUNT, SEED = 1600, 20
#: Accuracies end at so much at least.
LEAST_ACCURACY = 0.05


@cache
def shapes() -> Floats:
    """(COUNT, POINTS): curves from 0 to 1 over `GRID`, none of them falling."""
    rng = np.random.default_rng(SEED)
    first, second = _sigmoids(rng), _sigmoids(rng)
    # Half of the curves have one scale only; two scales describe a fast rise with a long tail.
    part = np.where(rng.random(COUNT) < 0.5, 1.0, rng.random(COUNT))[:, None]
    curves: Floats = part * first + (1 - part) * second
    curves.flags.writeable = False
    return curves


@cache
def tops(ending: Ending) -> Floats:
    """(COUNT,): the performance that each curve ends at.

    Half of the parts end near 1, as those of requests in time do, the others above 0.5. An accuracy ends anywhere: no
    share makes a student better than its scene allows."""
    rng = np.random.default_rng(SEED + 1)
    near, wide = 0.96 + 0.04 * rng.random(COUNT), 0.5 + 0.5 * rng.random(COUNT)
    free = np.exp(rng.uniform(np.log(0.5), np.log(3.0), COUNT))
    parts = np.where(rng.random(COUNT) < 0.5, near, wide)
    anywhere = LEAST_ACCURACY + (1.0 - LEAST_ACCURACY) * rng.random(COUNT)
    ends: Floats = {"part": parts, "accuracy": anywhere, "multiple": free}[ending]
    ends.flags.writeable = False
    return ends


def _sigmoids(rng: np.random.Generator) -> Floats:
    """(COUNT, POINTS): Hill curves and stretched exponentials, half of each, of random scale and steepness."""
    scale = rng.uniform(-5.0, 2.5, COUNT)[:, None]
    steep = np.exp(rng.uniform(np.log(0.4), np.log(8.0), COUNT))[:, None]
    at = np.clip(steep * (GRID - scale), -40.0, 40.0)
    hill = 1.0 / (1.0 + np.exp(-at))
    exponential = -np.expm1(-np.exp(np.minimum(at, 20.0)))
    return np.where(rng.random(COUNT)[:, None] < 0.5, hill, exponential)

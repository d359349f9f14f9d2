"""Promises of a plan: accuracies measured before a window, corrected to those that the window will show.

A held-out accuracy is measured on the end of the window past; the scene then goes on (drift), the best of several noisy
profiles was picked (winner's curse), candidates are refused by the gate, retrainings end later than profiled. The
results of past windows tell how large each of these effects is. Over a window, with F the mean inference factor,

    realised / F = held-out + pull * (usual - held-out) - decay * T / 2 + offset + gain * (planned gain / F)

(usual: the camera's realised / F in past windows; a held-out score of a dozen frames is mostly noise; a planned gain is
what profiles say, times their reliability where few frames were held out)
is fitted by ridge regression towards a prior: first on all cameras (towards what is usual), then on the camera's own
windows (towards all cameras). Old windows fade; an outcome far off the others counts less (Huber's weights). The decay
is what the same student lost between the halves of a window. Only plain numbers come in, so a plan can be made again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edge.core import checks
from edge.core.learning import Correction, Promise, PromiseHistory, PromiseOutcome
from edge.core.window import RetrainingOption, StreamProblem, WindowProblem

FloatArray = NDArray[np.float64]

#: (offset, gain, pull) before anything was learned, and their standard deviations.
PRIOR = np.array([-0.01, 0.6, 0.3])
PRIOR_SPREAD = np.array([0.06, 0.2, 0.1])
#: A held-out score of one frame is off by so much, and a scene wanders so far from what is usual of it between two
#: windows (standard deviations of an accuracy): they say how far a score of few frames is pulled towards what is usual.
FRAME_NOISE, WANDER = 0.3, 0.05
#: How far the true gains of retrainings lie from none (root of the mean square): 0.13 on the 15 held-out frames of the
#: recorded demo, less the noise of these frames. A gain is the difference of two scores on the same frames: what errs
#: in both cancels, and its noise is taken as that of one score, as at the gate (scheduler.promotion).
TRUE_GAINS = 0.1
#: The gain in PRIOR is for profiles that were judged on so many held-out frames.
PRIOR_FRAMES = 12
#: How far one camera's numbers lie from those of all (standard deviations).
CAMERA_SPREAD = np.array([0.025, 0.12, 0.1])
#: Standard deviation of a realised accuracy around what is explained: few labelled frames, and a scene of its own mind.
NOISE = 0.1
#: Residuals beyond so many standard deviations count less.
ROBUST = 1.5
#: A window that is so many windows old counts half.
HALF_LIFE = 8.0
#: The same for what is usual of a camera, which follows its scene.
USUAL_HALF_LIFE = 8.0
#: Outcomes kept per camera.
MEMORY = 32
#: A decay is believed with the weight n / (n + DECAY_SHRINK) after n windows, and never beyond the limit (per window):
#: half a window's frames say little of it.
DECAY_SHRINK, MOST_DECAY = 40.0, 0.1
GAIN_RANGE, PULL_RANGE, MOST_OFFSET = (0.1, 1.2), (0.0, 1.0), 0.3
#: Factors under it say nothing about accuracy.
LEAST_FACTOR = 0.2


def level(accuracy: float, measured: float, correction: Correction, window_s: float) -> float:
    """The expected showing over the window of a model of held-out `accuracy`. `measured` is that of the model that the
    window began with: anything above it was or will be gained by retraining.
    """
    base = measured + correction.offset - correction.decay_per_s * window_s / 2.0
    if correction.usual is not None:
        base += correction.pull * (correction.usual - measured)
    gained = accuracy - measured
    part = correction.gain * correction.reliability
    return min(1.0, max(0.0, base + (part * gained if gained > 0 else gained)))


def corrected(problem: WindowProblem, promises: dict[str, Promise]) -> WindowProblem:
    """`problem` with the accuracies that its window will show, and with what was done to them on record.

    A stream without a promise stays as it is. `promises[].measured` is the held-out accuracy of the model that the
    window began with; the stream's own `start_accuracy` may be above it already.
    """
    return replace(problem, streams=tuple(_stream(s, promises.get(s.id), problem.window_s) for s in problem.streams))


def _stream(stream: StreamProblem, promise: Promise | None, window_s: float) -> StreamProblem:
    if promise is None:
        return stream

    def shown(accuracy: float) -> float:
        return round(level(accuracy, promise.measured, promise.correction, window_s), 6)

    def option(o: RetrainingOption) -> RetrainingOption:
        low = None if o.end_accuracy_low is None else shown(o.end_accuracy_low)
        curve = tuple((x, shown(y)) for x, y in o.curve)
        return replace(o, end_accuracy=shown(o.end_accuracy), end_accuracy_low=low, curve=curve)

    options = tuple(option(o) for o in stream.options)
    return replace(stream, start_accuracy=shown(stream.start_accuracy), options=options, promise=promise)


# -- learning


def remembered(history: PromiseHistory, camera: str, outcome: PromiseOutcome) -> PromiseHistory:
    """`history` with one more outcome; one of the same window is replaced."""
    checks.in_range("outcome.realised", outcome.realised, 0.0, 1.0)
    before = tuple(o for o in history.cameras.get(camera, ()) if o.window != outcome.window)
    return PromiseHistory(dict(history.cameras) | {camera: (*before, outcome)[-MEMORY:]})


def usual_pull(frames: int) -> float:
    """Before anything was learned: how far a score on `frames` held-out frames is pulled towards what is usual of the
    camera, as two measurements are weighed by their variances. Raises InvalidValue for fewer than 1 frame."""
    checks.in_range("frames", frames, 1, 1e9)
    noise = FRAME_NOISE**2 / frames
    return noise / (noise + WANDER**2)


def reliability(frames: int) -> float:
    """The part [0, 1] of a gain on `frames` held-out frames that is believed, against one on PRIOR_FRAMES (or more: 1).

    The expectation of the true gain, given the measured one, is TRUE_GAINS^2 / (TRUE_GAINS^2 + noise of the frames) of
    it. It holds for the best of several, too: the expectation of each, given all measurements, does not depend on
    which one is picked. Raises InvalidValue for fewer than 1 frame.
    """
    checks.in_range("frames", frames, 1, 1e9)
    return min(1.0, _believed(frames) / _believed(PRIOR_FRAMES))


def _believed(frames: int) -> float:
    return TRUE_GAINS**2 / (TRUE_GAINS**2 + FRAME_NOISE**2 / frames)


def correction(
    history: PromiseHistory, camera: str, window: int, window_s: float, frames: int | None = None
) -> Correction:
    """The correction of `camera`'s numbers in `window` of `window_s` seconds. `frames` were held out to measure its
    student and the gains of its retrainings (None: not known)."""
    prior = PRIOR if not frames else np.array([PRIOR[0], PRIOR[1], usual_pull(frames)])
    every = [
        (c, o, o.measured)
        for c, found in sorted(history.cameras.items())
        for o in found
        if o.factor >= LEAST_FACTOR and o.measured is not None
    ]
    decay = _decays_per_s(history, {c for c, _, _ in every} | {camera}, window_s)
    rows = _rows(every, decay, window_s)
    site = _ridge(rows, window, prior, PRIOR_SPREAD)
    own = np.array([c == camera for c, _, _ in every], np.bool_)
    fitted = _ridge(_Regression(rows.x[own], rows.y[own], rows.windows[own]), window, site, CAMERA_SPREAD)
    return Correction(
        round(float(np.clip(fitted[0], -MOST_OFFSET, MOST_OFFSET)), 6),
        round(float(np.clip(fitted[1], *GAIN_RANGE)), 6),
        round(float(np.clip(fitted[2], *PULL_RANGE)), 6),
        usual_level(history, camera),
        round(decay[camera], 9),
        1.0 if not frames else round(reliability(frames), 6),
    )


def usual_level(history: PromiseHistory, camera: str) -> float | None:
    """The showing of `camera` over its past windows before the inference factor, the latest counting most; None:
    nothing is known."""
    found = [o for o in history.cameras.get(camera, ()) if o.factor >= LEAST_FACTOR]
    if not found:
        return None
    weights = [0.5 ** ((found[-1].window - o.window) / USUAL_HALF_LIFE) for o in found]
    mean = sum(w * o.realised / o.factor for w, o in zip(weights, found, strict=True)) / sum(weights)
    return round(min(1.0, float(mean)), 6)


def decay_per_s(history: PromiseHistory, camera: str | None, window_s: float) -> float:
    """A student's loss per second inside a window: the median of the site shrunk to 0, that of the camera shrunk to
    the site's (`camera` None: the site's). Negative where scenes became easier."""
    return _decays_per_s(history, {camera}, window_s)[camera]


def _decays_per_s(history: PromiseHistory, cameras: Collection[str | None], window_s: float) -> dict[str | None, float]:
    """`decay_per_s` of several cameras."""
    limit = MOST_DECAY / window_s
    losses = {c: [o.drift_per_s for o in found if o.drift_per_s is not None] for c, found in history.cameras.items()}
    site = _shrunken_median([loss for own in losses.values() for loss in own], 0.0)
    return {
        c: float(np.clip(site if c is None else _shrunken_median(losses.get(c, ()), site), -limit, limit))
        for c in cameras
    }


def _shrunken_median(values: Sequence[float], towards: float) -> float:
    if not values:
        return towards
    n = len(values)
    return (n * float(np.median(values)) + DECAY_SHRINK * towards) / (n + DECAY_SHRINK)


@dataclass(frozen=True)
class _Regression:
    """Outcomes of windows: regressors `x` (R, 3: 1, planned gain, usual - held-out), the responses `y` (R,) that they
    shall explain, and the windows' numbers (R,)."""

    x: FloatArray
    y: FloatArray
    windows: FloatArray


def _rows(
    outcomes: Sequence[tuple[str, PromiseOutcome, float]], decay: Mapping[str | None, float], window_s: float
) -> _Regression:
    """The rows of (camera, outcome, its `measured`)."""
    factor = np.array([o.factor for _, o, _ in outcomes], np.float64)
    known = np.array([measured - decay[c] * window_s / 2.0 for c, _, measured in outcomes], np.float64)
    x = np.ones((len(outcomes), 3))
    x[:, 1] = np.array([o.planned_gain for _, o, _ in outcomes], np.float64) / factor
    x[:, 2] = [0.0 if o.usual is None else o.usual - measured for _, o, measured in outcomes]
    y = np.array([o.realised for _, o, _ in outcomes], np.float64) / factor - known
    return _Regression(x, y, np.array([o.window for _, o, _ in outcomes], np.float64))


def _ridge(rows: _Regression, now: int, prior: FloatArray, spread: FloatArray) -> FloatArray:
    """Weighted least squares with a normal prior, reweighted twice by Huber's rule."""
    x = rows.x
    if not len(x):
        return prior
    y = rows.y - x @ prior
    age = np.maximum(0.0, now - rows.windows)
    faded = 0.5 ** (age / HALF_LIFE)
    weight: FloatArray = faded
    beta: FloatArray = np.zeros(3)
    for _ in range(3):
        scaled = x * (weight / NOISE**2)[:, None]
        beta = np.asarray(np.linalg.solve(scaled.T @ x + np.diag(1.0 / spread**2), scaled.T @ y), np.float64)
        off = np.abs(y - x @ beta) / (ROBUST * NOISE)
        weight = faded / np.maximum(1.0, off)
    return np.asarray(prior + beta)


def kept_promises(history: PromiseHistory, since: int = 3) -> tuple[float, float, int]:
    """(mean of predicted - realised, mean of its absolute value, outcomes) over windows from number `since` on."""
    off = [
        o.predicted - o.realised
        for found in history.cameras.values()
        for o in found
        if o.window >= since and o.predicted is not None
    ]
    if not off:
        return 0.0, 0.0, 0
    return sum(off) / len(off), sum(map(abs, off)) / len(off), len(off)

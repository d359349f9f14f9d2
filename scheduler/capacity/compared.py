"""Forecasts beside what came: which recorded change was the one that was asked about, and how far off the answer is."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean, median_low

from edge.core.capacity import (
    LEAST_WINDOWS,
    BoxWindow,
    CameraOutcome,
    CapacityForecast,
    CapacityOutcome,
    ModelOutcome,
)
from scheduler.capacity.intervals import HORIZON

#: Lengths of windows, rates and shares that differ by no larger part are the same.
SAME_LENGTH, SAME_RATE, SAME_SHARE = 0.03, 0.1, 0.3


def steady(windows: Sequence[BoxWindow]) -> tuple[BoxWindow, ...]:
    """The newest windows in a row with the same cameras and length, in order; `windows` in order."""
    kept: list[BoxWindow] = []
    for window in reversed(windows):
        if kept and not (_same_length(kept[-1], window, 1.0) and kept[-1].realised.keys() == window.realised.keys()):
            break
        kept.append(window)
    return tuple(reversed(kept))


def outcome(
    forecast: CapacityForecast,
    windows: Sequence[BoxWindow],
    measured_ms: Mapping[str, float] | None = None,
    horizon: int = HORIZON,
) -> CapacityOutcome | None:
    """The outcome of a forecast; None: the change was not made, was not made alone, or too few windows are over since
    (`horizon` windows of the recorded length, or `LEAST_WINDOWS` before yet another change). `windows` are closed ones
    in order, those of the forecast with them. The first window after the change is not counted: nothing was retrained
    in it under the change. `measured_ms`: latency of recent answers by model, of now."""
    calm = _calm(windows)
    before = [w for w in calm if w.number <= forecast.last_window]
    later = [w for w in calm if w.number > forecast.last_window]
    if not before:
        return None
    was = before[-1]
    if forecast.change.kind == "window":
        horizon = round(horizon / forecast.change.factor)
    for n, window in enumerate(later):
        if _same(was, window):
            was = window
            continue
        if not _is_change(forecast, was, window):
            return None
        after = list(itertools.takewhile(partial(_same, window), later[n + 1 :]))
        over = len(after) < len(later) - n - 1
        if len(after) < (LEAST_WINDOWS if over else horizon):
            return None
        return _outcome(forecast, window.number, after[:horizon], measured_ms or {})
    return None


def _calm(windows: Sequence[BoxWindow]) -> list[BoxWindow]:
    """Each window with the median of its own share and its neighbours': labelling takes more or less from window to
    window, and a change stays."""
    shares = [w.share for w in windows]
    return [replace(w, share=median_low(shares[max(0, n - 1) : n + 2])) for n, w in enumerate(windows)]


def _outcome(
    forecast: CapacityForecast, number: int, after: Sequence[BoxWindow], measured_ms: Mapping[str, float]
) -> CapacityOutcome | None:
    known = {c.camera for c in forecast.cameras if c.now is not None}
    new = {name for w in after for name in w.realised} - known
    cameras = []
    for c in forecast.cameras:
        name = c.camera if c.now is not None else next(iter(new), c.camera)
        came = [v for w in after if (v := w.realised.get(name)) is not None]
        if came:
            mean = fmean(came)
            outside = max(0.0, c.then.low - mean, mean - c.then.high)
            cameras.append(CameraOutcome(name, c.then.value, mean, outside <= 0.0, outside))
    if not cameras:
        return None
    models = tuple(
        ModelOutcome(m.model, m.then_ms.value, ms, m.then_ms.low <= ms <= m.then_ms.high)
        for m in forecast.models
        if m.then_ms is not None and (ms := measured_ms.get(m.model)) is not None
    )
    error = fmean(abs(c.forecast - c.came) for c in cameras)
    return CapacityOutcome(number, len(after), error, tuple(cameras), models)


def _is_change(forecast: CapacityForecast, was: BoxWindow, now: BoxWindow) -> bool:
    """Whether a box that was so and is so now had the change that was asked about, and no other."""
    change = forecast.change
    added, gone = now.realised.keys() - was.realised.keys(), was.realised.keys() - now.realised.keys()
    length = _same_length(was, now, 1.0)
    match change.kind:
        case "camera":
            return len(added) == 1 and not gone and length
        case "window":
            return not added and not gone and _same_length(was, now, change.factor)
        case "device":
            wanted_share = was.share * forecast.share_then / forecast.share_now
            near = abs(now.share - wanted_share) <= SAME_SHARE * wanted_share
            return not added and not gone and length and near
        case "frame_rate":
            wanted = was.realised.keys() if change.camera is None else {change.camera}
            return not added and not gone and length and _faster(was, now) == set(wanted)
    moved = {c.camera for c in forecast.cameras if c.box != 1}
    return bool(gone) and gone == moved and not added and length


def _same(was: BoxWindow, now: BoxWindow) -> bool:
    alike = was.realised.keys() == now.realised.keys() and _same_length(was, now, 1.0)
    return alike and abs(now.share - was.share) <= SAME_SHARE * was.share and not _faster(was, now)


def _same_length(was: BoxWindow, now: BoxWindow, factor: float) -> bool:
    return abs(now.length_s - factor * was.length_s) <= SAME_LENGTH * factor * was.length_s


def _faster(was: BoxWindow, now: BoxWindow) -> set[str]:
    """Cameras whose highest rate rose."""
    return {c for c, rate in now.rates.items() if c in was.rates and rate > (1.0 + SAME_RATE) * was.rates[c]}

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

#: Lengths of windows, rates, devices and shares that differ by no larger part are the same.
SAME_LENGTH, SAME_RATE, SAME_DEVICE, SAME_SHARE = 0.03, 0.1, 0.1, 0.3


def steady(windows: Sequence[BoxWindow]) -> tuple[BoxWindow, ...]:
    """The newest windows in a row, without holes, with the same cameras, length, policy, rates and about the same
    share, in order; `windows` in order."""
    calm = calmed(windows)
    first = len(windows) - 1
    while first > 0 and _in_a_row(calm[first - 1], calm[first]):
        first -= 1
    return tuple(windows[max(0, first) :])


def _in_a_row(was: BoxWindow, now: BoxWindow) -> bool:
    return now.number == was.number + 1 and now.policy == was.policy and _same(was, now)


def outcome(
    forecast: CapacityForecast,
    windows: Sequence[BoxWindow],
    measured_ms: Mapping[str, float] | None = None,
    horizon: int = HORIZON,
) -> CapacityOutcome | None:
    """The outcome of a forecast; None: the change was not made, was not made alone, or too few windows are over since
    (`horizon` windows of the recorded length, or `LEAST_WINDOWS` before yet another change). `windows` are closed ones
    in order; those of the forecast may be gone, for it keeps the newest of them. The first window after the change is
    not counted: nothing was retrained in it under the change. Nor is a window in which a camera was not measured (yet)
    that others of these windows have. `measured_ms`: latency of recent answers by model, of now."""
    calm = calmed(windows)
    before = [w for w in calm if w.number <= forecast.last_window]
    later = [w for w in calm if w.number > forecast.last_window]
    was = before[-1] if before else forecast.last
    if was is None:
        return None
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
        after = _measured(after)
        if len(after) < (LEAST_WINDOWS if over else horizon):
            return None
        return _outcome(forecast, window.number, after[:horizon], measured_ms or {})
    return None


def _measured(windows: Sequence[BoxWindow]) -> list[BoxWindow]:
    """Those that have each camera that was measured in any of them: accuracies come some time after a window is
    closed."""
    known = {c for w in windows for c, v in w.realised.items() if v is not None}
    return [w for w in windows if known and all(w.realised.get(c) is not None for c in known)]


def calmed(windows: Sequence[BoxWindow]) -> list[BoxWindow]:
    """Each window with the median of its own share and its neighbours': labelling takes more or less from window to
    window, and a change stays."""
    shares = [w.share for w in windows]
    return [replace(w, share=median_low(shares[max(0, n - 1) : n + 2])) for n, w in enumerate(windows)]


def _outcome(
    forecast: CapacityForecast, number: int, after: Sequence[BoxWindow], measured_ms: Mapping[str, float]
) -> CapacityOutcome | None:
    known = {c.camera for c in forecast.cameras if c.now is not None}
    new = {name for w in after for name in w.realised} - known
    # An earlier version did not count on what students go on learning: it was off for reasons of its own.
    of_this = any(c.unchanged is not None for c in forecast.cameras)
    cameras = []
    for c in forecast.cameras:
        name = c.camera if c.now is not None else next(iter(new), c.camera)
        came = [v for w in after if (v := w.realised.get(name)) is not None]
        if came:
            mean = fmean(came)
            first = forecast.unwidened.get(c.camera, c.then)
            outside = max(0.0, first.low - mean, mean - first.high)
            held = c.then.low <= mean <= c.then.high
            cameras.append(CameraOutcome(name, c.then.value, mean, held, outside, first if of_this else None))
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
    length, rates = _same_length(was, now, 1.0), not _other_rate(was, now, 1.0)
    device = _same_device(was, now, 1.0)
    wanted = was.share * forecast.share_then / forecast.share_now
    share = abs(now.share - wanted) <= SAME_SHARE * wanted
    match change.kind:
        case "camera":
            return len(added) == 1 and not gone and length and rates and device and share
        case "window":
            shorter = _same_length(was, now, change.factor)
            return not added and not gone and shorter and rates and device and share
        case "device":
            # The golden model and the profilers adapt to another device: what cameras have may change by less.
            made = share if device else _same_device(was, now, change.factor)
            return not added and not gone and length and rates and made
        case "frame_rate":
            known = was.rates.keys() & now.rates.keys()
            asked = known if change.camera is None else known & {change.camera}
            risen = bool(asked) and _other_rate(was, now, 1.0) == asked
            other = asked & _other_rate(was, now, change.factor)
            return risen and not other and not added and not gone and length and device
    moved = {c.camera for c in forecast.cameras if c.box != 1}
    return bool(gone) and gone == moved and not added and length and rates and device


def _same(was: BoxWindow, now: BoxWindow) -> bool:
    alike = was.realised.keys() == now.realised.keys() and _same_length(was, now, 1.0) and _same_device(was, now, 1.0)
    return alike and abs(now.share - was.share) <= SAME_SHARE * was.share and not _other_rate(was, now, 1.0)


def _same_length(was: BoxWindow, now: BoxWindow, factor: float) -> bool:
    return abs(now.length_s - factor * was.length_s) <= SAME_LENGTH * factor * was.length_s


def _same_device(was: BoxWindow, now: BoxWindow, factor: float) -> bool:
    """Also where one of both is not known."""
    if was.device is None or now.device is None:
        return True
    return abs(now.device - factor * was.device) <= SAME_DEVICE * factor * was.device


def _other_rate(was: BoxWindow, now: BoxWindow, factor: float) -> set[str]:
    """Cameras on both sides whose highest rate now is not `factor` times what it was."""
    both = was.rates.keys() & now.rates.keys()
    return {c for c in both if abs(now.rates[c] - factor * was.rates[c]) > SAME_RATE * factor * was.rates[c]}

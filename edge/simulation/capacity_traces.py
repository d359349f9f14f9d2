"""Recorded windows as they would have been with another box: one more camera, another rate, length or device.

Pure. Each function gives a trace that the simulator plays; docs/capacity.md names its assumptions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from edge.core.configs import InferenceConfig
from edge.core.profiles import Estimate, InferencePoint, InferenceProfile, RetrainingProfile
from edge.simulation.accuracies import WITHIN, aged, all_fresh, clip, fresh, known
from edge.simulation.trace import RecordedCamera, RecordedOutcome, RecordedWindow, Trace
from scheduler.capacity.learning import LearningEffect
from scheduler.learning.promise import CAMERA_SPREAD, NOISE, WANDER

#: The parts of a window that is cut in half.
HALVES = 2


def with_camera(trace: Trace, name: str, like: str) -> Trace:
    """One more camera `name`, to which all happens that was recorded of `like`; it begins with a first student."""
    model = next(c for c in trace.cameras if c.id == like)
    return replace(trace, cameras=(*trace.cameras, replace(model, id=name, begins_with={})))


def of_cameras(trace: Trace, kept: Collection[str]) -> Trace:
    """Those cameras alone."""
    return replace(trace, cameras=tuple(c for c in trace.cameras if c.id in kept))


def with_rate(trace: Trace, factor: float, only: str | None, gains: bool) -> Trace:
    """Cameras (or `only` one) that may be answered at up to `factor` times their highest measured rate. `gains`: an
    answer loses in proportion to its age; else the higher rate brings nothing."""

    def faster(profile: InferenceProfile) -> InferenceProfile:
        return _faster(profile, factor, gains)

    def camera(c: RecordedCamera) -> RecordedCamera:
        return c if only not in (None, c.id) else _with_inference(c, faster)

    return replace(trace, cameras=tuple(map(camera, trace.cameras)))


def _faster(profile: InferenceProfile, factor: float, gains: bool) -> InferenceProfile:
    if profile.kind != "subsampling" or not profile.points:
        return profile
    top = max(profile.points, key=lambda p: p.share)
    best = 1.0 - (1.0 - top.factor) / factor if gains else top.factor
    config = InferenceConfig(top.config.frame_rate * factor, top.config.resolution)
    point = InferencePoint(config, min(1024.0, top.share * factor), best)
    return replace(
        profile,
        max_gpu=profile.max_gpu * factor,
        subsampling=(1.0, *(factor * x for x in profile.subsampling)),
        factors=(max(best, profile.factors[0]), *profile.factors),
        points=(point, *profile.points),
    )


def on_device(trace: Trace, factor: float) -> Trace:
    """In units of a device `factor` times as large; `num_gpus` is left as it is. One retraining gets no faster than on
    the whole of the recorded device."""

    def inference(profile: InferenceProfile) -> InferenceProfile:
        points = tuple(replace(p, share=p.share / factor) for p in profile.points)
        return replace(profile, max_gpu=profile.max_gpu / factor, points=points)

    def window(record: RecordedWindow) -> RecordedWindow:
        profiles = tuple(_slower(p, 1.0 / factor) for p in record.profiles)
        outcomes = {i: replace(o, device_seconds=o.device_seconds / factor) for i, o in record.outcomes.items()}
        work = record.profiling_device_s / factor
        return replace(record, profiles=profiles, outcomes=outcomes, profiling_device_s=work)

    def camera(c: RecordedCamera) -> RecordedCamera:
        return replace(
            _with_inference(c, inference),
            windows={w: window(r) for w, r in _with_inference(c, inference).windows.items()},
        )

    return replace(trace, cameras=tuple(map(camera, trace.cameras)))


def _slower(profile: RetrainingProfile, factor: float) -> RetrainingProfile:
    """`factor` times the device seconds, and as many of the shares for the same time."""
    return replace(
        _with_work(profile, factor), throughput=tuple((x * factor, y * factor) for x, y in profile.throughput)
    )


def learned(trace: Trace, effect: LearningEffect) -> Trace:
    """Retrainings and labelling as a changed budget makes them. Of windows, the gain that was measured on windows
    changes (`gained_on_windows`): one on few held-out frames is mostly noise, of which the best was kept. Held-out
    accuracies stay on their side of the start: the gate decided by them, and decides so again."""
    if effect == LearningEffect(golden=effect.golden):
        return trace
    gains = gained_on_windows(trace)
    return replace(trace, cameras=tuple(_learned_camera(c, effect, gains[c.id]) for c in trace.cameras))


def _learned_camera(camera: RecordedCamera, effect: LearningEffect, gain: float) -> RecordedCamera:
    change, windows = (effect.gain - 1.0) * gain, {}
    changed = False  # the student in force as the window begins
    for w, record in sorted(camera.windows.items()):
        if changed and record.start_live is not None:
            # It is as much better on windows as it is in the changed replay: no start on held-out frames moves by it.
            start_live = clip(record.start_live + aged(change, camera.factors, w - 1))
            record = replace(record, start_live=start_live)
        windows[w] = _learned_window(record, effect, camera.factors, change)
        # Nothing is retrained in the first window of a replay.
        changed = changed or (w > 1 and any(map(_in_force, record.outcomes.values())))
    return replace(camera, windows=windows)


def _in_force(outcome: RecordedOutcome) -> bool:
    """Whether it came into force, by the record or, where that does not say it, because windows know it."""
    return bool(outcome.live) if outcome.promoted is None else outcome.promoted


def _learned_window(
    record: RecordedWindow, effect: LearningEffect, factors: Mapping[int, float], change: float
) -> RecordedWindow:
    """`change`: of the accuracy on fresh answers of a student that came into force."""

    def gained(start: float, end: float) -> float:
        return end if end <= start else min(1.0, start + (end - start) * effect.gain)

    def profile(p: RetrainingProfile) -> RetrainingProfile:
        start, e = p.start_accuracy, p.end_accuracy
        end = Estimate(*(gained(start, v) for v in (e.value, e.low, e.high)))
        curve = tuple((x, gained(start, y)) for x, y in p.curve)
        return _with_work(replace(p, end_accuracy=end, curve=curve), effect.work)

    def held_out(o: RecordedOutcome) -> float:
        # One that windows know is replayed by these; of another, the accuracy stands in for them.
        if o.live or o.promoted is False or o.accuracy < record.start_accuracy:
            return o.accuracy
        return max(record.start_accuracy, clip(o.accuracy + change))

    def outcome(o: RecordedOutcome) -> RecordedOutcome:
        live = {w: clip(a + aged(change, factors, w)) for w, a in o.live.items()}
        return RecordedOutcome(held_out(o), o.device_seconds * effect.work, live, promoted=o.promoted)

    return replace(
        record,
        profiles=tuple(map(profile, record.profiles)),
        outcomes={i: outcome(o) for i, o in record.outcomes.items()},
        labelling_s=record.labelling_s * effect.labelling,
        profiling_device_s=record.profiling_device_s * effect.profiling,
    )


def gained_on_windows(trace: Trace) -> dict[str, float]:
    """Accuracy on fresh answers, at least 0, that a retraining of each camera brought on the window that it was made
    in, in the trace: of those that have there an accuracy as the student before them has, few of them drawn to all
    cameras, and these to no gain."""
    return _by_camera(trace, lambda camera: list(gains_by_window(camera).values()))


def lost_per_window(trace: Trace) -> dict[str, float]:
    """Accuracy on fresh answers, at least 0, that students of each camera lose from one window to the next, beyond what
    the scene explains: of those that have one in both, drawn as `gained_on_windows`."""
    return _by_camera(trace, _losses)


def _by_camera(trace: Trace, measured: Callable[[RecordedCamera], list[float]]) -> dict[str, float]:
    found = {c.id: measured(c) for c in trace.cameras}
    site = _drawn(list(itertools.chain.from_iterable(found.values())), 0.0, WANDER)
    return {c: max(0.0, _drawn(values, site, float(CAMERA_SPREAD[0]))) for c, values in found.items()}


def _drawn(values: Sequence[float], towards: float, spread: float) -> float:
    """The mean of values with the usual noise, drawn towards what lies about `spread` (standard deviation) off it."""
    prior = NOISE**2 / spread**2
    return (sum(values) + prior * towards) / (len(values) + prior)


def gains_by_window(camera: RecordedCamera) -> dict[int, float]:
    """By how much a retraining's student is better on its window than the one before it, on fresh answers."""
    found, factors, before = {}, camera.factors, camera.begins_with or camera.frozen
    for w, record in sorted(camera.windows.items()):
        for o in record.outcomes.values():
            if not _in_force(o):
                continue
            if w in o.live and w in before:
                found[w] = fresh(o.live[w], factors, w) - fresh(before[w], factors, w)
            before = o.live  # the next student replaces this one, also where no window knows it
    return found


def _losses(camera: RecordedCamera) -> list[float]:
    lives = [camera.begins_with, *(o.live for r in camera.windows.values() for o in r.outcomes.values())]
    frozen, factors = all_fresh(camera.frozen, camera.factors), camera.factors
    return [
        fresh(live[w], factors, w) - fresh(live[w + 1], factors, w + 1) - _harder(frozen, w, w + 1)
        for live in lives
        for w in live
        if w + 1 in live
    ]


def _harder(frozen: Mapping[int, float], since: int, window: int) -> float:
    """The loss of a student between two windows because the scene of the later one is harder."""
    return WITHIN * (known(frozen, since) - known(frozen, window))


def halved(trace: Trace) -> Trace:
    """Windows half as long: both halves have the accuracy of the frozen student of the whole. A half is retrained on
    the half before, with what a retraining on the data of that whole window gave. Its data are half as old, so that it
    is better by half of what students lose from one window to the next (`lost_per_window`); in the second half after
    them it is as in the whole window, and so on. The excess of held-out accuracies stays. The last half is left
    out: nothing was retrained on the half before it."""
    windows = HALVES * trace.windows - 1
    lost = lost_per_window(trace)
    cameras = tuple(_halved_camera(c, windows, lost[c.id]) for c in trace.cameras)
    return replace(trace, window_s=trace.window_s / HALVES, windows=windows, cameras=cameras)


def whole_of(half: int) -> int:
    """The recorded window that a half belongs to; both are numbered from 1."""
    return (half + 1) // HALVES


def _halved_camera(camera: RecordedCamera, windows: int, lost: float) -> RecordedCamera:
    def halves(by_window: Mapping[int, float]) -> dict[int, float]:
        return {h: by_window[whole_of(h)] for h in range(1, windows + 1) if whole_of(h) in by_window}

    kept = {
        h: _halved_window(camera, record, h, lost)
        for h in range(2, windows + 1)
        if (record := camera.windows.get(whole_of(h - 1) + 1)) is not None
    }
    frozen = halves(camera.frozen) or dict(camera.frozen)
    begins_with = halves(camera.begins_with)
    return replace(camera, frozen=frozen, windows=kept, factors=halves(camera.factors), begins_with=begins_with)


def _halved_window(camera: RecordedCamera, record: RecordedWindow, half: int, lost: float) -> RecordedWindow:
    """`record` of the window whose half `half` is, or of the one after it."""
    whole = whole_of(half - 1) + 1
    frozen, factors = all_fresh(camera.frozen, camera.factors), camera.factors

    def outcome(o: RecordedOutcome) -> RecordedOutcome:
        if whole not in o.live:
            return replace(o, live={})
        then = fresh(o.live[whole], factors, whole)
        of_half = then + lost / HALVES - _harder(frozen, whole, whole_of(half))
        found = {half: of_half, half + 1: then - _harder(frozen, whole, whole_of(half + 1))}
        if whole + 1 in o.live:
            later = fresh(o.live[whole + 1], factors, whole + 1)
            there = whole_of(half + 2)
            scenes = _harder(frozen, whole, there), _harder(frozen, whole + 1, there)
            found |= {half + 2: (then + later - sum(scenes)) / 2, half + 3: later}
        return replace(o, live={h: clip(aged(a, factors, whole_of(h))) for h, a in found.items()})

    return replace(record, outcomes={i: outcome(o) for i, o in record.outcomes.items()})


def load_of(camera: RecordedCamera, window_s: float) -> float:
    """Devices that a camera needs at its best: its inference, and the cheapest retraining of each window."""
    work = [min(p.device_seconds.value for p in r.profiles) for r in camera.windows.values() if r.profiles]
    return min(1.0, camera.inference_profile.max_gpu) + sum(work) / max(1, len(work)) / window_s


def _with_work(profile: RetrainingProfile, factor: float) -> RetrainingProfile:
    g = profile.device_seconds
    work = Estimate(*(factor * v for v in (g.value, g.low, g.high)))
    return replace(profile, device_seconds=work, curve=tuple((x * factor, y) for x, y in profile.curve))


def _with_inference(camera: RecordedCamera, change: Callable[[InferenceProfile], InferenceProfile]) -> RecordedCamera:
    windows = {
        w: replace(r, inference_profile=None if r.inference_profile is None else change(r.inference_profile))
        for w, r in camera.windows.items()
    }
    inside = tuple((at_s, change(profile)) for at_s, profile in camera.inference_at)
    return replace(camera, inference_profile=change(camera.inference_profile), windows=windows, inference_at=inside)

"""Chance in recorded windows, by seed: a run of the same retraining would have ended a little better or worse, and cost
a little more or less. Beside the recorded student in force a gate's verdict on record stays: it was of more pictures,
and beyond the noise. The same seed gives the same luck to every policy, so that policies are compared in pairs."""

from __future__ import annotations

import random
from dataclasses import replace

from edge.simulation.accuracies import aged, clip
from edge.simulation.trace import RecordedCamera, RecordedOutcome, RecordedWindow, Trace

#: Standard deviation of the accuracy between two equal retrainings (the micro-profiler counts on the same), and of the
#: logarithm of their cost.
ACCURACY_SD, COST_SD = 0.01, 0.1


def varied(trace: Trace, seed: int) -> Trace:
    """`trace` with other luck; with seed 0 as it was recorded. Profiles stay: they are what planners knew."""
    if seed == 0:
        return trace
    return replace(trace, cameras=tuple(_camera(c, seed) for c in trace.cameras))


def _camera(camera: RecordedCamera, seed: int) -> RecordedCamera:
    windows = {w: _window(camera, w, r, seed) for w, r in camera.windows.items()}
    return replace(camera, windows=windows)


def _window(camera: RecordedCamera, number: int, window: RecordedWindow, seed: int) -> RecordedWindow:
    outcomes = {}
    for config, outcome in window.outcomes.items():
        chance = random.Random(f"{seed} {camera.id} {number} {config}")
        more, dearer = chance.gauss(0.0, ACCURACY_SD), chance.lognormvariate(0.0, COST_SD)
        outcomes[config] = RecordedOutcome(
            _decided(outcome, clip(outcome.accuracy + more), window.start_accuracy),
            outcome.device_seconds * dearer,
            {w: clip(a + aged(more, camera.factors, w)) for w, a in outcome.live.items()},
            {w: clip(a + aged(more, camera.factors, w)) for w, a in outcome.people.items()},
            outcome.promoted,
        )
    return replace(window, outcomes=outcomes)


def _decided(outcome: RecordedOutcome, accuracy: float, start: float) -> float:
    """`accuracy` on the side of `start` that says what the gate said, where that is on record."""
    if outcome.promoted is None:
        return accuracy
    return max(accuracy, start) if outcome.promoted else min(accuracy, outcome.accuracy)

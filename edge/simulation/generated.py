"""Generated boxes: windows with drift and requests in waves, all of it by a seed. They show how fast the simulator is,
and stand in where nothing was recorded; how policies compare on them says little about a real site."""

from __future__ import annotations

import math
import random

from edge.core.configs import RetrainingConfig
from edge.core.profiles import Estimate, InferenceProfile, RetrainingProfile
from edge.core.serving import DeviceTable
from edge.simulation.serving_trace import ServedRecord, ServingTrace
from edge.simulation.trace import RecordedCamera, RecordedOutcome, RecordedWindow, Trace

#: (configuration, part of the possible gain that it brings, device seconds).
_CONFIGS = (
    (RetrainingConfig(2, 4, "last_stage"), 0.45, 6.0),
    (RetrainingConfig(8, 4, "last_stage"), 0.75, 20.0),
    (RetrainingConfig(8, 4, "all"), 1.0, 36.0),
)


def generated_windows(
    cameras: int, windows: int, seed: int, *, window_s: float = 200.0, num_gpus: float = 0.8, delta: float = 0.05
) -> Trace:
    """Cameras whose frozen student gets worse and better over a day of 432 windows, each in its own way."""
    made = tuple(_camera(f"camera-{n + 1}", windows, random.Random(f"{seed} {n}")) for n in range(cameras))
    return Trace(f"generated-{seed}", window_s, num_gpus, made, windows, delta, notes="generated")


def _camera(name: str, windows: int, chance: random.Random) -> RecordedCamera:
    mean, wave, phase, walk = chance.uniform(0.5, 0.7), chance.uniform(0.05, 0.15), chance.random(), 0.0
    frozen: dict[int, float] = {}
    for w in range(1, windows + 1):
        walk = 0.9 * walk + chance.gauss(0.0, 0.02)
        frozen[w] = _part(mean + wave * math.sin(2 * math.pi * (w / 432 + phase)) + walk)
    records = {}
    for w in range(2, windows + 1):
        start = _part(frozen[w - 1] + chance.uniform(0.0, 0.12))
        possible = chance.uniform(0.0, 0.16)
        profiles, outcomes = [], {}
        for config, gain, cost in _CONFIGS:
            end, spent = _part(start + gain * possible + chance.gauss(0, 0.01)), cost * chance.lognormvariate(0, 0.1)
            said = _part(end + chance.gauss(0, 0.03))
            profiles.append(
                RetrainingProfile(
                    config, start, Estimate(said, _part(said - 0.04), _part(said + 0.04)),
                    Estimate(cost, 0.8 * cost, 1.2 * cost),
                    ((0.0, start), (0.5 * cost, (start + said) / 2), (cost, said)),
                )
            )  # fmt: skip
            outcomes[config.id] = RecordedOutcome(end, spent, {w: _part(end - chance.uniform(0.0, 0.03))})
        records[w] = RecordedWindow(start, tuple(profiles), outcomes, 4.0, 0.4, 30, 12, start_live=start)
    inference = InferenceProfile("subsampling", 0.06, (1.0, 2.0, 4.0, 8.0), (1.0, 0.97, 0.9, 0.75))
    return RecordedCamera(name, inference, frozen, records)


def generated_serving(models: int, seconds: float, seed: int, *, rate: float = 20.0) -> ServingTrace:
    """Models with about `rate` requests a second each, in waves of minutes, on a device that serves some hundreds."""
    interval_s = 10.0
    records, rows = [], {}
    for n in range(models):
        chance, name = random.Random(f"{seed} model {n}"), f"model-{n + 1}"
        phase, work = chance.random(), chance.uniform(0.8, 2.0)
        counts = [
            max(0, round(interval_s * rate * (1 + 0.5 * math.sin(2 * math.pi * (k / 30 + phase))) + chance.gauss(0, 9)))
            for k in range(max(1, math.ceil(seconds / interval_s)))
        ]
        records.append(ServedRecord(name, chance.choice([60.0, 100.0, 150.0]), tuple(counts)))
        rows[name] = {p: tuple(round((0.5 + work * b) * 100 / p, 4) for b in range(1, 17)) for p in range(5, 101, 5)}
    return ServingTrace(interval_s, tuple(records), DeviceTable("generated", rows, {}))


def _part(value: float) -> float:
    return round(min(0.98, max(0.05, value)), 5)

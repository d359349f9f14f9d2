"""Replays a recorded demo run under every policy: `python -m benchmarks.bench_replay [TRACE.json]`.

The trace is benchmarks/results/demo_trace.json by default (made by `python -m benchmarks.record_trace`). As in the
thesis (section 2.6.1) some cameras are held out, to choose the two fixed configurations of `uniform`: the cheapest and
the dearest point of the Pareto front of (work, accuracy) over what their retrainings really gave. The others are
replayed, with the whole device and with parts of it (the rest serves other models). Target: the default policy at
least 5 points above `uniform` with the better of its two fixed configurations.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.demo_windows import write_result
from edge.commands.simulate import table
from edge.core.shares import ideal_caps
from edge.simulation.simulator import SimulationResult, simulate
from edge.simulation.trace import RecordedCamera, Trace, read_trace
from scheduler.baselines import UniformPolicy, cost_front
from scheduler.follow import planner
from scheduler.policies import WINDOW_POLICIES, window_policy

RESULTS = Path(__file__).resolve().parent / "results"
TRACE = RESULTS / "demo_trace.json"
#: Made by `python -m benchmarks.bench_start_influence`.
INFLUENCE = RESULTS / "start_influence.json"


def held_out_front(cameras: Sequence[RecordedCamera]) -> list[tuple[float, str]]:
    """(work, configuration), the cheapest first: the Pareto front of what retrainings of `cameras` gave and cost."""
    seen: dict[str, list[tuple[float, float]]] = {}
    for camera in cameras:
        for window in camera.windows.values():
            for name, outcome in window.outcomes.items():
                seen.setdefault(name, []).append((outcome.device_seconds, outcome.accuracy - window.start_accuracy))
    most = max(len(v) for v in seen.values())
    mean = statistics.fmean
    return cost_front([
        (mean(c for c, _ in v), 1.0 + mean(a for _, a in v), name) for name, v in seen.items() if len(v) == most
    ])  # fmt: skip


def play(trace: Trace, fixed: tuple[str, str], influence: float) -> dict[str, SimulationResult]:
    """Every policy on `trace`; the two uniform ones with their fixed configurations."""
    policies: dict[str, Any] = {name: window_policy(name) for name in WINDOW_POLICIES}
    policies["uniform"], policies["uniform-heavy"] = UniformPolicy("light", fixed[0]), UniformPolicy("heavy", fixed[1])

    plan = planner(trace.caps or ideal_caps(), policies=policies.__getitem__)
    return {name: simulate(trace, name, plan, start_influence=influence) for name in policies}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path, nargs="?", default=TRACE)
    parser.add_argument("--hold-out", nargs="*", default=["overpass-2", "junction-2"], help="cameras held out")
    parser.add_argument(
        "--devices", nargs="+", type=float, default=[1.0, 0.75, 0.5], help="parts of what the demo gives"
    )
    parser.add_argument("--out", default="replay.json")
    args = parser.parse_args()
    whole = read_trace(args.trace)
    held_out = [c for c in whole.cameras if c.id in args.hold_out]
    tested = tuple(c for c in whole.cameras if c.id not in args.hold_out)
    front = held_out_front(held_out or tested)
    fixed = front[0][1], front[-1][1]
    print(f"{len(tested)} cameras; fixed configurations {fixed[0]} and {fixed[1]}")
    measured = round(float(json.loads(INFLUENCE.read_text())["influence"]), 2)
    out: dict[str, Any] = {
        "start_influence": measured,
        "trace": whole.name, "notes": whole.notes, "cameras": [c.id for c in tested], "target_points": 5.0,
        "held_out": [c.id for c in held_out], "fixed": fixed, "by_device": {},
    }  # fmt: skip
    for devices in args.devices:
        trace = replace(whole, cameras=tested, num_gpus=whole.num_gpus * devices)
        gains: dict[float, float] = {}
        # How much of another start is left after a retraining: as measured, and at both extremes.
        for influence in (0.0, measured, 1.0):
            results = play(trace, fixed, influence)
            mean = {name: r.mean_accuracy for name, r in results.items()}
            gains[influence] = 100 * (mean["relay"] - max(mean["uniform"], mean["uniform-heavy"]))
            if influence == measured:
                middle = results
        print(f"device {devices:g}: relay over the better uniform "
              + ", ".join(f"{g:+.2f} (start influence {i:g})" for i, g in gains.items()))  # fmt: skip
        print(table(list(middle.values())))
        out["by_device"][f"{devices:g}"] = {
            "mean_accuracy": {name: r.mean_accuracy for name, r in middle.items()},
            "worst_camera": {name: r.worst_camera for name, r in middle.items()},
            "frozen": middle["relay"].mean_frozen,
            "relay_over_better_uniform_points": gains[measured],
            "by_start_influence": {f"{i:g}": g for i, g in gains.items()},
            "estimates": {name: r.estimates for name, r in middle.items()},
        }
    print(write_result(args.out, out))


if __name__ == "__main__":
    main()

"""Policies on real drift: `python -m benchmarks.bench_drift [TRACE.json] [--seeds N]`.

The trace is benchmarks/results/drift_trace.json by default, made by `python -m benchmarks.record_drift` of stills of
real traffic cameras over a day: every configuration of every window was trained, and measured against the teacher's
and against people's labels. As in the thesis (section 2.6.1) some cameras are held out, to choose the two fixed
configurations of `uniform`: the cheapest and the dearest of the Pareto front of what their retrainings gave (where one
is better than all others: it, and the dearest of all). They are the six that constants of the students were chosen on.
The others are replayed on devices of several sizes, with the luck of N seeds; no-retraining is the frozen student.
Beside: `relay` and no retraining camera by camera, and for both sets of cameras the gains that profiles promised, those
that were believed, and those that came.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.bench_replay import held_out_front
from benchmarks.bench_students import SHOWN
from benchmarks.demo_windows import write_result
from edge.commands.simulate import comparison_table
from edge.core.shares import ideal_caps
from edge.simulation.box_trace import BoxTrace
from edge.simulation.chance import varied
from edge.simulation.compare import compare, contender
from edge.simulation.simulator import simulate
from edge.simulation.trace import RecordedCamera, Trace, read_trace
from scheduler.follow import planner
from scheduler.learning.promise import PRIOR, reliability

TRACE = Path(__file__).resolve().parent / "results" / "drift_trace.json"
#: Devices (cores) for each camera.
SIZES = (0.13, 0.25)


def on_size(trace: Trace, fixed: tuple[str, str], size: float, seeds: int) -> dict[str, Any]:
    """The policies on so many cores for each camera; `fixed`: uniform's configurations."""
    cheap, dear = fixed
    names = ["relay", "thief", f"uniform={cheap}", f"uniform={dear}", "no-retraining"]
    there = replace(trace, num_gpus=round(size * len(trace.cameras), 3), name=f"{trace.name}, {size:g} cores a camera")
    found = compare(BoxTrace(there.name, there), [contender(n) for n in dict.fromkeys(names)], seeds)
    sys.stdout.write(comparison_table(found))
    sys.stdout.flush()
    return found.to_json() | {"num_gpus": there.num_gpus, "by_camera": by_camera(there, seeds)}


def by_camera(trace: Trace, seeds: int) -> dict[str, dict[str, float]]:
    """Accuracy (0-1) of each camera from the second window on, by the teacher and by people, with `relay` and without
    retraining: means over the seeds; and how often a retraining came into force in a run."""
    worlds = [varied(trace, seed) for seed in range(1, seeds + 1)] if seeds > 1 else [trace]
    runs = {
        policy: [simulate(world, policy, planner(ideal_caps()), corrected=True) for world in worlds]
        for policy in ("relay", "no-retraining")
    }
    out: dict[str, dict[str, float]] = {}
    for camera in trace.cameras:
        found = out.setdefault(camera.id, {})
        for policy, results in runs.items():
            rows = [row for r in results for row in r.rows if row.camera == camera.id and row.window > 1]
            found[policy] = statistics.fmean(row.accuracy for row in rows)
            found[f"{policy} by people"] = statistics.fmean(row.people for row in rows if row.people is not None)
            if policy == "relay":
                found["promotions"] = sum(len(row.promoted) for row in rows) / len(results)
    better = [f["relay"] - f["no-retraining"] for f in out.values()]
    worse = sum(gain < -1e-6 for gain in better)
    print(
        f"relay less no retraining, by camera: {min(better):+.3f} to {max(better):+.3f}, {worse} of {len(better)} below"
    )
    return out


def promised(cameras: Sequence[RecordedCamera]) -> dict[str, float]:
    """Mean gains of the most promising profile of each window: as profiled, and as a first plan believes it; of those
    whose retraining came into force, what it had on the same held-out pictures, and over the frozen student in the
    window that it would serve."""
    rows, came = [], []
    for camera in cameras:
        for number, window in camera.windows.items():
            if not window.profiles:
                continue
            best = max(window.profiles, key=lambda p: p.end_accuracy.value)
            made = window.outcomes[best.config.id]
            gain = best.end_accuracy.value - window.start_accuracy
            rows.append((gain, float(PRIOR[1]) * reliability(window.held_out_frames) * max(0.0, gain) + min(0.0, gain)))
            if made.promoted is not False:
                came.append((made.accuracy - window.start_accuracy, made.live[number] - camera.frozen[number]))
    found = dict(zip(("profiled", "believed"), map(statistics.fmean, zip(*rows, strict=True)), strict=True))
    if came:
        found |= dict(zip(("on_held_out", "served"), map(statistics.fmean, zip(*came, strict=True)), strict=True))
    return found | {"windows": len(rows), "in_force": len(came)}


def dearest(cameras: Sequence[RecordedCamera]) -> str:
    """The configuration whose retrainings cost most."""
    outcomes = [o for c in cameras for w in c.windows.values() for o in w.outcomes.items()]
    return max(outcomes, key=lambda o: o[1].device_seconds)[0]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path, nargs="?", default=TRACE)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sizes", type=float, nargs="+", default=SIZES)
    parser.add_argument("--out", default="drift.json")
    args = parser.parse_args()
    trace = read_trace(args.trace)
    held = tuple(c for c in trace.cameras if c.id in SHOWN)
    if not held:
        raise SystemExit(f"{args.trace}: none of the cameras that choose uniform's configurations: {', '.join(SHOWN)}")
    front = held_out_front(held)
    fixed = (front[0][1], front[-1][1] if len(front) > 1 else dearest(held))
    rest = replace(trace, cameras=tuple(c for c in trace.cameras if c not in held))
    result = {
        "date": time.strftime("%Y-%m-%d"),
        "command": "python -m benchmarks.bench_drift " + " ".join(sys.argv[1:]),
        "cameras": [c.id for c in rest.cameras],
        "held_out": [c.id for c in held],
        "front": front,
        "fixed": fixed,
        "window_s": rest.window_s,
        "notes": rest.notes,
        "best_profiles": {"choose": promised(held), "replayed": promised(rest.cameras)},
        "sizes": {f"{size:g}": on_size(rest, fixed, size, args.seeds) for size in args.sizes},
    }
    write_result(args.out, result)


if __name__ == "__main__":
    main()

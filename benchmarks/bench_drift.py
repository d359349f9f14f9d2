"""Policies on real drift: `python -m benchmarks.bench_drift [TRACE.json] [--seeds N]`.

The trace is benchmarks/results/drift_trace.json by default, made by `python -m benchmarks.record_drift` of stills of
real traffic cameras over a day: every configuration of every window was trained, and measured against the teacher's
and against people's labels. As in the thesis (section 2.6.1) some cameras are held out, to choose the two fixed
configurations of `uniform`: the cheapest and the dearest of the Pareto front of what their retrainings gave (where one
is better than all others: it, and the dearest of all). The others are replayed on devices of several sizes, with the
luck of N seeds; no-retraining is the frozen student.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.bench_replay import held_out_front
from benchmarks.demo_windows import write_result
from edge.commands.simulate import comparison_table
from edge.simulation.box_trace import BoxTrace
from edge.simulation.compare import compare, contender
from edge.simulation.trace import RecordedCamera, Trace, read_trace

TRACE = Path(__file__).resolve().parent / "results" / "drift_trace.json"
#: Cameras that choose uniform's configurations.
HELD_OUT = 4
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
    return found.to_json() | {"num_gpus": there.num_gpus}


def dearest(cameras: Sequence[RecordedCamera]) -> str:
    """The configuration whose retrainings cost most."""
    outcomes = [o for c in cameras for w in c.windows.values() for o in w.outcomes.items()]
    return max(outcomes, key=lambda o: o[1].gpu_seconds)[0]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path, nargs="?", default=TRACE)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sizes", type=float, nargs="+", default=SIZES)
    parser.add_argument("--out", default="drift.json")
    args = parser.parse_args()
    trace = read_trace(args.trace)
    held = trace.cameras[:: max(1, len(trace.cameras) // HELD_OUT)][:HELD_OUT]
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
        "sizes": {f"{size:g}": on_size(rest, fixed, size, args.seeds) for size in args.sizes},
    }
    write_result(args.out, result)


if __name__ == "__main__":
    main()

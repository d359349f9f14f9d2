"""Replays a recorded demo run under every policy: `python -m benchmarks.bench_replay [TRACE.json]`.

The trace is benchmarks/results/demo_trace.json by default (made by `python -m benchmarks.record_trace`). Target: the
default policy at least 5 points above `uniform` with the better of its two fixed configurations.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.demo_windows import write_result
from edge.commands.simulate import table
from edge.core.window import WindowPlan, WindowProblem
from edge.simulation.simulator import simulate
from edge.simulation.trace import read_trace
from scheduler.policies import WINDOW_POLICIES, window_policy

TRACE = Path(__file__).resolve().parent / "results" / "demo_trace.json"


def plan(name: str, problem: WindowProblem) -> WindowPlan:
    """The planning function that the simulator is given."""
    return window_policy(name).plan(problem)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path, nargs="?", default=TRACE)
    parser.add_argument("--out", default="replay.json")
    args = parser.parse_args()
    trace = read_trace(args.trace)
    out: dict[str, Any] = {"trace": trace.name, "notes": trace.notes, "target_points": 5.0, "by_start_influence": {}}
    # How much of another start is left after a retraining is an assumption of the replay: show that it decides little.
    for influence in (0.0, 0.5, 1.0):
        results = [simulate(trace, name, plan, start_influence=influence) for name in WINDOW_POLICIES]
        mean = {r.policy: r.mean_accuracy for r in results}
        gain = 100 * (mean["relay"] - max(mean["uniform"], mean["uniform-heavy"]))
        print(f"start influence {influence:g}: relay {gain:+.2f} points over the better uniform")
        print(table(results))
        out["by_start_influence"][str(influence)] = {
            "mean_accuracy": mean,
            "frozen": results[0].mean_frozen,
            "relay_over_better_uniform_points": gain,
            "estimates": {r.policy: r.estimates for r in results},
        }
    print(write_result(args.out, out))


if __name__ == "__main__":
    main()

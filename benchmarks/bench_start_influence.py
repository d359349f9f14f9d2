"""How much of another start is left after a retraining: `python -m benchmarks.bench_start_influence`.

A replay (benchmarks/bench_replay.py) has to say where a retraining ends that begins from another model than the
recorded one. Here the same configurations are trained on the same window from two parents, the first student and the
one that was retrained in every window before; the influence is the slope of the difference at the end (held-out
accuracy) over the difference at the start, through the origin, over cameras, windows and configurations.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import cv2
import numpy as np
import torch

from benchmarks.demo_windows import NAMES, demo_scene, first_student, labelled_window, train_and_watch, write_result
from edge.core.configs import RetrainingConfig
from edge.training import evaluate

CONFIGS = tuple(RetrainingConfig(e, 8, layers, 1.0, 2e-3) for layers in ("last_stage", "all") for e in (10,))  # type: ignore[arg-type]
WINDOW_S, CYCLE_WINDOWS, FRAMES = 90.0, 24.0, 48


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cameras", type=int, nargs="+", default=[0, 1, 2, 3])
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for camera in args.cameras:
            scene = demo_scene(camera, args.seed, CYCLE_WINDOWS * WINDOW_S)
            first = parent = first_student("detection")
            for window in range(1, args.windows + 1):
                data = labelled_window(
                    scene, NAMES[camera], "detection", window, WINDOW_S, FRAMES, Path(folder), seed=args.seed
                )
                best = (-1.0, parent)
                for config in CONFIGS:
                    ends = {}
                    for name, start in (("first", first), ("retrained", parent)):
                        if name == "first" and parent is first:
                            continue
                        accuracy, _, student = train_and_watch(start, data, config, (config.epochs,), args.seed)[
                            config.epochs
                        ]
                        ends[name] = (evaluate(start, data.held_out).value, accuracy)
                        if name == "retrained":
                            best = max(best, (accuracy, student), key=lambda b: b[0])
                    if len(ends) == 2:
                        (s0, e0), (s1, e1) = ends["first"], ends["retrained"]
                        row = {"camera": NAMES[camera], "window": window, "config": config.id,
                               "start_difference": s1 - s0, "end_difference": e1 - e0}  # fmt: skip
                        rows.append(row)
                        print(row, flush=True)
                parent = best[1]
    x = np.array([r["start_difference"] for r in rows])
    y = np.array([r["end_difference"] for r in rows])
    influence = float((x * y).sum() / (x * x).sum())
    spread = float(np.sqrt(((y - influence * x) ** 2).sum() / max(1, len(x) - 1) / (x * x).sum()))
    print(f"influence {influence:.2f} +- {spread:.2f} (standard error), {len(rows)} pairs")
    print(write_result("start_influence.json", {"influence": influence, "standard_error": spread, "pairs": rows}))


if __name__ == "__main__":
    main()

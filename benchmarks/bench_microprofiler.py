"""Micro-profiler: predicted against achieved end accuracy, and its cost against training everything.

`python -m benchmarks.bench_microprofiler` runs three checks:
- demo: on windows of the demo's street cameras (real pictures, real students, real training) every configuration of a
  grid of 18 is trained fully and compared with the micro-profiler's prediction, with and without its memory;
- trace: the same from an exhaustive trace of the demo (benchmarks.record_trace), where that was made;
- recorded: the accuracy curves of the planning problems in the developers' shared folder, where that is present.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch

from benchmarks.demo_windows import (
    NAMES,
    WEIGHTS,
    demo_scene,
    first_student,
    labelled_window,
    train_and_watch,
    write_result,
)
from benchmarks.record_trace import RecordedTrials, recorded_trial
from benchmarks.shared_data import shared_folder
from edge.core.configs import LAYERS, RetrainingConfig
from edge.core.labels import LabelledWindow
from edge.core.trials import TrialResult
from edge.simulation.trace import read_trace
from edge.students import Student
from edge.training.trials import Trials
from microprofiler.curve import fit_curve
from microprofiler.history import ProfilerHistory
from microprofiler.pareto import PruningSettings
from microprofiler.profile import ProfilerSettings, WindowSize, micro_profile

RESULTS = Path(__file__).resolve().parent / "results"
TRACE = RESULTS / "demo_trace.json"
EPOCHS = (5, 15, 30)
FRACTIONS = (0.5, 1.0)
WINDOW_S, CYCLE_WINDOWS = 90.0, 6
GRID = tuple(
    RetrainingConfig(e, 8, layers, f, 2e-3) for layers in LAYERS for f in FRACTIONS for e in EPOCHS
)  # fmt: skip


class Once:
    """A runner that runs each trial once, so that two ways to read it cost one."""

    def __init__(self, runner: Trials) -> None:
        self._runner, self._done = runner, dict[Any, TrialResult]()

    def run(self, config: RetrainingConfig, data_fraction: float, epochs: int, seed: int) -> TrialResult:
        """The trial, or the same answer as before."""
        key = (config, data_fraction, epochs, seed)
        if key not in self._done:
            self._done[key] = self._runner.run(config, data_fraction, epochs, seed)
        return self._done[key]


def one_window(
    parent: Student, data: LabelledWindow, history: ProfilerHistory, frames_tried: int, seed: int
) -> tuple[list[dict[str, Any]], dict[str, Any], ProfilerHistory, Student]:
    """Profile the grid, then train all of it; rows of (predicted, achieved), costs, the history, best student."""
    keep_all = ProfilerSettings(min_frames=frames_tried, pruning=PruningSettings(fraction=0.0))
    size = WindowSize.of(data)
    runner = Once(Trials(parent, data))
    answers = {
        name: micro_profile(size, GRID, runner, keep_all, memory, seed=seed)
        for name, memory in (("fresh", ProfilerHistory()), ("learnt", history))
    }
    last = {t.config.layers: t.points[-1][1] for t in answers["learnt"].trials}
    rows, full_cost = [], 0.0
    best: tuple[float, Student] = (-1.0, parent)
    learnt = answers["learnt"].history
    said = {name: {p.config.id: p for p in a.profiles} for name, a in answers.items()}
    for layers in LAYERS:
        for fraction in FRACTIONS:
            base = RetrainingConfig(max(EPOCHS), 8, layers, fraction, 2e-3)
            for epochs, (achieved, cost, student) in train_and_watch(parent, data, base, EPOCHS, seed + 1).items():
                config = RetrainingConfig(epochs, 8, layers, fraction, 2e-3)
                full_cost += cost
                row: dict[str, Any] = {
                    "config": config.id, "layers": layers, "epochs": epochs, "fraction": fraction,
                    "achieved": achieved, "cpu_seconds": cost, "last_trial_point": last[layers],
                    "start": answers["fresh"].start_accuracy,
                }  # fmt: skip
                for name in answers:
                    p = said[name][config.id]
                    row[name] = p.end_accuracy.to_json()
                    row[f"{name}_gpu_seconds"] = p.device_seconds.value
                rows.append(row)
                if achieved > best[0]:
                    best = (achieved, student)
    ran = max(rows, key=worth_running)
    learnt = learnt.learned(ran["config"], ran["achieved"], ran["cpu_seconds"])
    costs: dict[str, Any] = {"profiling": answers["learnt"].device_seconds, "all": full_cost}
    costs |= {"train_frames": size.train_frames, "held_out_frames": size.held_out_frames}
    costs["trials"] = [t.to_json() for t in answers["learnt"].trials]
    return rows, costs, learnt, best[1]


def demo(args: argparse.Namespace) -> dict[str, Any]:
    """The check on demo windows."""
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        for task in args.tasks:
            for camera in range(args.cameras):
                scene = demo_scene(camera, args.seed, CYCLE_WINDOWS * WINDOW_S, start_phase=0.0)
                parent, history = first_student(task, args.weights), ProfilerHistory()
                for window in range(2, 2 + args.windows):
                    began = time.monotonic()
                    data = labelled_window(scene, NAMES[camera], task, window, WINDOW_S, args.frames, Path(folder))
                    rows, costs, history, parent = one_window(parent, data, history, args.min_frames, args.seed)
                    runs.append({"task": task, "camera": NAMES[camera], "window": window, "rows": rows, "costs": costs})
                    errors = [abs(r["fresh"]["value"] - r["achieved"]) for r in rows]
                    print(
                        f"{task:14} {NAMES[camera]:12} window {window}: median error {100 * np.median(errors):4.1f} "
                        f"points, cost 1/{costs['all'] / costs['profiling']:.0f}, {time.monotonic() - began:.0f} s",
                        flush=True,
                    )
                    write_result(f"{args.out}.partial", runs)
    return {"runs": runs, "summary": summary(runs)}


def reprofiled(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Recorded `runs` (trials, and every configuration's result) with the present micro-profiler's predictions."""
    history: dict[tuple[str, str], ProfilerHistory] = {}
    out = []
    for run in runs:
        trials = [recorded_trial(t) for t in run["costs"]["trials"]]
        objects = trials[0].held_out_objects
        train, held_out = run["costs"]["train_frames"], run["costs"]["held_out_frames"]
        size = WindowSize(run["camera"], run["window"], train, held_out, objects)
        settings = ProfilerSettings(pruning=PruningSettings(fraction=0.0))
        key = run["task"], run["camera"]
        memories = {"fresh": ProfilerHistory(), "learnt": history.get(key, ProfilerHistory())}
        answers = {n: micro_profile(size, GRID, RecordedTrials(trials), settings, h) for n, h in memories.items()}
        rows = []
        for row in run["rows"]:
            new = dict(row) | {"start": answers["fresh"].start_accuracy}
            new["last_trial_point"] = next(t.points[-1][1] for t in trials if t.config.layers == row["layers"])
            for name, answer in answers.items():
                said = next(p for p in answer.profiles if p.config.id == row["config"])
                new |= {name: said.end_accuracy.to_json(), f"{name}_gpu_seconds": said.device_seconds.value}
            rows.append(new)
        ran = max(rows, key=worth_running)
        history[key] = answers["learnt"].history.learned(ran["config"], ran["achieved"], ran["cpu_seconds"])
        out.append(run | {"rows": rows, "costs": run["costs"] | {"profiling": answers["fresh"].device_seconds}})
    return out


def worth_running(row: dict[str, Any]) -> float:
    """A window teaches what a live one does: the one configuration that the planner would run has the most of this."""
    return float(row["learnt"]["value"] - 0.002 * row["learnt_gpu_seconds"])


def summary(runs: list[dict[str, Any]], names: tuple[str, ...] = ("fresh", "learnt")) -> dict[str, Any]:
    """Errors in points, coverage of the 80 % interval, and cost ratios, each with its spread over camera-windows."""
    out: dict[str, Any] = {"camera_windows": len(runs), "configurations": sum(len(r["rows"]) for r in runs)}
    for name in names:
        out[name] = _errors([(row, row[name]) for r in runs for row in r["rows"]])
        per_run = [float(np.median([abs(w[name]["value"] - w["achieved"]) for w in r["rows"]])) * 100 for r in runs]
        out[name]["median_error_by_camera_window"] = _spread(per_run)
    for name in ("last_trial_point", "start"):
        kept = [abs(row[name] - row["achieved"]) * 100 for r in runs for row in r["rows"] if name in row]
        out[f"median_error_of_keeping_the_{name}"] = float(np.median(kept)) if kept else None
    out["cost_ratio"] = _spread([r["costs"]["all"] / r["costs"]["profiling"] for r in runs])
    out["cost_ratio_total"] = sum(r["costs"]["all"] for r in runs) / sum(r["costs"]["profiling"] for r in runs)
    cost = [row[f"{names[0]}_gpu_seconds"] / row["cpu_seconds"] for r in runs for row in r["rows"]]
    out["predicted_over_measured_cost"] = _spread(cost)
    ranks = []
    for r in runs:
        said, was = [np.array([w[k]["value"] if k else w["achieved"] for w in r["rows"]]) for k in (names[0], "")]
        # The loss by running the configuration that looked best.
        ranks.append(float(was.max() - was[int(said.argmax())]) * 100)
    out["loss_of_the_predicted_best"] = _spread(ranks)
    return out


def _errors(pairs: list[tuple[dict[str, Any], dict[str, float]]]) -> dict[str, float]:
    difference = np.array([said["value"] - row["achieved"] for row, said in pairs]) * 100
    inside = [said["low"] <= row["achieved"] <= said["high"] for row, said in pairs]
    width = [said["high"] - said["low"] for _, said in pairs]
    return {
        "median_error": float(np.median(np.abs(difference))),
        "p90_error": float(np.quantile(np.abs(difference), 0.9)),
        "bias": float(difference.mean()),
        "coverage_of_80": float(np.mean(inside)),
        "median_width": float(np.median(width)) * 100,
    }


def _spread(values: list[float]) -> dict[str, float]:
    low, middle, high = np.quantile(values, (0.1, 0.5, 0.9))
    return {"p10": float(low), "median": float(middle), "p90": float(high)}


def recorded(shared: Path) -> dict[str, Any]:
    """Curves of the planning problems: the first 5 epochs of the 5-epoch run predict the end of all three runs."""
    errors: dict[int, list[tuple[float, float]]] = {e: [] for e in EPOCHS}
    inside = []
    for path in sorted((shared / "data" / "window-problems").glob("s*.json")):
        for stream in json.loads(path.read_text())["streams"]:
            runs: dict[str, dict[int, Any]] = {}
            for config in stream["retrain_configs"]:
                runs.setdefault(config["hyp"], {})[config["epochs"]] = config
            for by_epochs in runs.values():
                y = [a for _, a in by_epochs[5]["curve"]]
                fit = fit_curve([(k, y[k]) for k in range(1, 6)], stream["start_accuracy"])
                for epochs in EPOCHS:
                    end, said = by_epochs[epochs]["end_accuracy"], fit.predict(epochs)
                    errors[epochs].append((100 * abs(said.value - end), 100 * abs(y[-1] - end)))
                    if epochs > 5:
                        inside.append(said.low <= end <= said.high)
    return {
        "curves": len(errors[5]),
        "median_error": {e: float(np.median([a for a, _ in pairs])) for e, pairs in errors.items()},
        "keeping_the_last_point": {e: float(np.median([b for _, b in pairs])) for e, pairs in errors.items()},
        "coverage_of_80_beyond_the_trial": float(np.mean(inside)),
    }


def from_trace(path: Path) -> dict[str, Any]:
    """The same figures from an exhaustive trace (benchmarks.record_trace): small windows, with memory over windows."""
    runs = []
    for camera in read_trace(path).cameras:
        for number, window in camera.windows.items():
            rows = []
            for p in window.profiles:
                outcome = window.outcomes.get(p.config.id)
                if outcome is not None:
                    rows.append({
                        "config": p.config.id, "achieved": outcome.accuracy, "start": p.start_accuracy,
                        "cpu_seconds": outcome.device_seconds, "learnt": p.end_accuracy.to_json(),
                        "learnt_gpu_seconds": p.device_seconds.value,
                    })  # fmt: skip
            if rows:
                costs = {
                    "profiling": window.profiling_device_s, "train_frames": window.train_frames,
                    "all": sum(o.device_seconds for o in window.outcomes.values()),
                }  # fmt: skip
                runs.append({"camera": camera.id, "window": number, "rows": rows, "costs": costs})
    return {"summary": summary(runs, ("learnt",)), "runs": runs}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=["detection", "classification"])
    parser.add_argument("--cameras", type=int, default=4)
    parser.add_argument("--windows", type=int, default=2, help="windows per camera, from the second on")
    parser.add_argument("--frames", type=int, default=240, help="labelled frames of a window")
    parser.add_argument("--min-frames", type=int, default=16, help="training frames of a trial at least")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--weights", type=Path, default=WEIGHTS, help="folder of the first students")
    parser.add_argument("--only", choices=("demo", "recorded", "trace"))
    parser.add_argument("--trace", type=Path, default=TRACE, help="an exhaustive trace, used where it is present")
    parser.add_argument(
        "--reprofile", action="store_true", help="profile the runs that --out holds anew, instead of training anew"
    )
    parser.add_argument("--out", default="microprofiler.json")
    args = parser.parse_args()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    path = RESULTS / args.out
    # A part that is made alone leaves the others as they were.
    kept = (args.only or args.reprofile) and path.is_file()
    result: dict[str, Any] = json.loads(path.read_text()) if kept else {}
    result |= {"machine": platform.processor() or platform.machine(), "cores": os.cpu_count()}
    shared = shared_folder()
    if args.only in (None, "trace") and args.trace.is_file():
        result["trace"] = from_trace(args.trace)
        print(json.dumps(result["trace"]["summary"], indent=1))
    if args.only in (None, "recorded"):
        if (shared / "data" / "window-problems").is_dir():
            result["recorded"] = recorded(shared)
            print(json.dumps(result["recorded"], indent=1))
        else:
            print("recorded curves: the developers' shared folder is absent (set MAGPIE_SHARED)")
    if args.reprofile:
        runs = reprofiled(result["demo"]["runs"])
        result["demo"] = {"runs": runs, "summary": summary(runs)}
        print(json.dumps(result["demo"]["summary"], indent=1))
    elif args.only in (None, "demo"):
        result["demo"] = demo(args)
        print(json.dumps(result["demo"]["summary"], indent=1))
    print(write_result(args.out, result))


if __name__ == "__main__":
    main()

"""Records an exhaustive trace of the demo's cameras, "magpie-trace/1": `python -m benchmarks.record_trace`.

Per camera and window, on the labelled frames that the demo would have: micro-profile, then train *every* configuration
of the demo's space and measure it on the held-out frames, on the window it would serve, and on the one after. The best
one on held-out frames per window is carried on as the recorded model. So a replay under any policy mostly meets
measured outcomes (as the thesis' simulator does, section 2.5). Costs are CPU-seconds over the `--cores` of the device.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
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
    measured_inference,
    train_and_watch,
    write_result,
)
from edge.core.configs import RetrainingConfig
from edge.core.labels import LabelledFrame, LabelledWindow
from edge.core.trials import TrialResult
from edge.settings import ConfigurationSpace
from edge.simulation.trace import RecordedCamera, RecordedOutcome, RecordedWindow, Trace, read_trace
from edge.students import Student
from edge.training import evaluate
from edge.training.trials import Trials
from microprofiler.history import ProfilerHistory
from microprofiler.profile import ProfilerSettings, WindowSize, micro_profile
from microprofiler.trials import families

RESULTS = Path(__file__).resolve().parent / "results"

#: Epochs of a trial.
TRIAL_EPOCHS = ProfilerSettings().epochs
#: CPU-seconds of the golden model per labelled frame, counted as labelling work left at the boundary.
LABELS_LEFT, TEACHER_S = 8, 0.15


def all_outcomes(
    parent: Student,
    data: LabelledWindow,
    space: Sequence[RetrainingConfig],
    later: dict[int, LabelledWindow],
    seed: int,
) -> dict[str, tuple[RecordedOutcome, Student]]:
    """Train every configuration; configurations that differ only in epochs are one run."""
    out = {}
    for family, configs in families(space).items():
        for fraction in sorted({c.data_fraction for c in configs}):
            epochs = sorted({c.epochs for c in configs if c.data_fraction == fraction})
            base = RetrainingConfig(
                max(epochs), family.batch_size, family.layers, fraction, family.learning_rate, family.last_layer_width
            )
            for done, (accuracy, cost, student) in train_and_watch(parent, data, base, epochs, seed).items():
                live = {w: evaluate(student, d.all_sampled).value for w, d in later.items()}
                out[replace(base, epochs=done).id] = RecordedOutcome(accuracy, cost, live), student
    return out


def record_camera(
    number: int,
    task: str,
    args: argparse.Namespace,
    space: Sequence[RetrainingConfig],
    folder: Path,
    trials: list[dict[str, Any]],
    so_far: Callable[[RecordedCamera], None],
) -> RecordedCamera:
    """One camera, all windows."""
    name = NAMES[number % 4] + ("" if number < 4 else f"-{number // 4 + 1}")
    scene = demo_scene(number, args.seed, args.cycle_windows * args.window_seconds)
    first = first_student(task, args.weights)
    data = {
        w: labelled_window(scene, name, task, w, args.window_seconds, args.frames, folder, seed=args.seed)
        for w in range(1, args.windows + 1)
    }
    frozen = {w: evaluate(first, d.all_sampled).value for w, d in data.items()}
    inference = measured_inference(first, scene, 2, args.window_seconds, args.cores)
    parent, history = first, ProfilerHistory()
    old: list[LabelledFrame] = []
    windows: dict[int, RecordedWindow] = {}
    rng = np.random.default_rng(args.seed)
    for w in range(2, args.windows + 1):
        began = time.monotonic()
        keep = rng.permutation(len(old))[: args.exemplars]
        now = replace(data[w - 1], exemplars=tuple(old[i] for i in keep))
        size = WindowSize.of(now)
        profile = micro_profile(
            size,
            space,
            Trials(parent, now, args.cores),
            ProfilerSettings(),
            history,
            seed=args.seed + w,
        )
        later = {v: data[v] for v in range(w, min(w + 2, args.windows + 1))}
        trained = all_outcomes(parent, now, space, later, args.seed + w)
        outcomes = {i: replace(o, device_seconds=o.device_seconds / args.cores) for i, (o, _) in trained.items()}
        start = profile.start_accuracy if profile.start_accuracy is not None else 0.0
        windows[w] = RecordedWindow(
            start, profile.profiles, outcomes, LABELS_LEFT * TEACHER_S / args.cores, profile.device_seconds,
            size.train_frames, size.held_out_frames, start_live=evaluate(parent, now.all_sampled).value,
        )  # fmt: skip
        best = max(outcomes, key=lambda i: outcomes[i].accuracy)
        trials += [t.to_json() | {"camera": name, "window": w} for t in profile.trials]
        history = profile.history.learned(best, outcomes[best].accuracy, outcomes[best].device_seconds)
        errors = [abs(p.end_accuracy.value - outcomes[p.config.id].accuracy) for p in profile.profiles]
        if outcomes[best].accuracy > start:
            parent = trained[best][1]
        old += list(data[w - 1].train)
        print(
            f"{name:12} {task:14} window {w}: frozen {frozen[w]:.3f} start {start:.3f} best {best} "
            f"{outcomes[best].accuracy:.3f}, in window {outcomes[best].live[w]:.3f}; profile error "
            f"{100 * float(np.median(errors)):.1f} points, {time.monotonic() - began:.0f} s",
            flush=True,
        )
        so_far(RecordedCamera(name, inference, frozen, dict(windows)))
    return RecordedCamera(name, inference, frozen, windows)


class RecordedTrials:
    """Answers the micro-profiler with trials that were run before, one for each choice of layers."""

    def __init__(self, trials: Sequence[TrialResult]) -> None:
        self._trials = {t.config.layers: t for t in trials}

    def run(self, config: RetrainingConfig, data_fraction: float, epochs: int, seed: int) -> TrialResult:
        """The recorded trial."""
        return replace(self._trials[config.layers], config=config)


def reprofile(trace: Trace, trials: Sequence[dict[str, Any]]) -> Trace:
    """`trace` with the profiles that the present micro-profiler makes of the recorded `trials`."""
    cameras = []
    for camera in trace.cameras:
        history, windows = ProfilerHistory(), {}
        in_force: RecordedOutcome | None = None
        for w, old in sorted(camera.windows.items()):
            start_live = camera.frozen[w - 1] if in_force is None else in_force.live.get(w - 1)
            ran = [recorded_trial(t) for t in trials if (t["camera"], t["window"]) == (camera.id, w)]
            size = WindowSize(camera.id, w, old.train_frames, old.held_out_frames, ran[0].held_out_objects)
            space = [p.config for p in old.profiles]
            profile = micro_profile(size, space, RecordedTrials(ran), ProfilerSettings(), history)
            windows[w] = replace(
                old, profiles=profile.profiles, profiling_device_s=profile.device_seconds, start_live=start_live
            )
            best = max(old.outcomes, key=lambda i: old.outcomes[i].accuracy)
            history = profile.history.learned(best, old.outcomes[best].accuracy, old.outcomes[best].device_seconds)
            if old.outcomes[best].accuracy > old.start_accuracy:
                in_force = old.outcomes[best]
        cameras.append(replace(camera, windows=windows))
    return replace(trace, cameras=tuple(cameras))


def recorded_trial(value: dict[str, Any]) -> TrialResult:
    """A trial as it was written, cut to the epochs that a trial has now."""
    value = {key.replace("gpu_seconds", "device_seconds"): found for key, found in value.items()}  # older records
    config = RetrainingConfig(**{f.name: value["config"][f.name] for f in fields(RetrainingConfig)})
    points = tuple((int(epoch), float(y)) for epoch, y in value["points"][:TRIAL_EPOCHS])
    kept = {f.name: value[f.name] for f in fields(TrialResult) if f.name not in ("config", "points")}
    # One evaluation of the student itself, and one after each epoch.
    kept["evaluation_seconds"] *= (len(points) + 1) / (len(value["points"]) + 1)
    return TrialResult(config, points, **kept)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cameras", type=int, default=4)
    parser.add_argument("--first-camera", type=int, default=0)
    parser.add_argument("--windows", type=int, default=6)
    parser.add_argument("--window-seconds", type=float, default=90.0)
    parser.add_argument("--frames", type=int, default=48, help="labelled frames per camera and window")
    parser.add_argument("--cycle-windows", type=float, default=24.0, help="windows of one day, night and weather cycle")
    parser.add_argument("--trials", default="demo_trials.json", help="the trials, for work on the curve fit")
    parser.add_argument("--exemplars", type=int, default=12, help="frames of older windows beside")
    parser.add_argument("--task", choices=("detection", "classification", "mixed"), default="detection")
    parser.add_argument("--cores", type=float, default=1.7, help="cores behind one device")
    parser.add_argument(
        "--num-gpus",
        type=float,
        default=0.8,
        help="the share that the demo leaves after control, labelling and evaluation",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--weights", type=Path, default=WEIGHTS)
    parser.add_argument("--out", default="demo_trace.json")
    parser.add_argument("--reprofile", action="store_true", help="only make the profiles anew, of the recorded trials")
    args = parser.parse_args()
    if args.reprofile:
        write_result(
            args.out,
            reprofile(read_trace(RESULTS / args.out), json.loads((RESULTS / args.trials).read_text())).to_json(),
        )
        return
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    # The space of the demo: with so few frames and so strong a drift, the head alone rarely pays.
    space = ConfigurationSpace(layers=("last_stage", "all"), epochs=(5, 10, 20)).configs()
    cameras: list[RecordedCamera] = []
    trials: list[dict[str, Any]] = []

    def keep(camera: RecordedCamera) -> None:
        trace = Trace(
            "demo", args.window_seconds, args.num_gpus, (*cameras, camera), args.windows,
            notes=f"exhaustive, {args.frames} labelled frames a window, one device of {args.cores} cores",
        )  # fmt: skip
        write_result(args.out, trace.to_json())
        write_result(args.trials, trials)

    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.first_camera, args.first_camera + args.cameras):
            task = args.task if args.task != "mixed" else ("detection", "classification")[number % 2]
            cameras.append(record_camera(number, task, args, space, Path(folder), trials, keep))


if __name__ == "__main__":
    main()

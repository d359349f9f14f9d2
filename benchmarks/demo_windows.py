"""Labelled windows of the demo's street cameras, for benchmarks: drawn pictures, labels from the scene's own truth."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path

import cv2
import numpy as np

from edge.core.accuracy import accuracy
from edge.core.configs import RetrainingConfig
from edge.core.errors import MagpieError
from edge.core.labels import LabelledFrame, LabelledWindow, SampledFrame
from edge.core.profiles import InferenceProfile
from edge.core.vision import Detections
from edge.demo.scene import CLASSES, Scene, SceneSpec
from edge.demo.site import scene_cameras
from edge.students import Student, load_student
from edge.training.retraining import Retraining

WEIGHTS = Path(__file__).resolve().parent.parent / "edge" / "demo" / "weights"
NAMES = ("overpass", "junction", "residential", "boulevard")


def demo_scene(number: int, seed: int, cycle_s: float, start_phase: float | None = None) -> Scene:
    """The scene that the demo's camera `number` looks at; `start_phase` None: where the demo begins in its cycle."""
    camera = scene_cameras(number + 1, seed, cycle_s)[number]
    if start_phase is not None:
        camera["start_phase"] = start_phase
    known = {f.name for f in fields(SceneSpec)}
    return Scene(SceneSpec(**{k: v for k, v in camera.items() if k in known}))


def first_student(task: str, weights: Path = WEIGHTS) -> Student:
    """The demo's first student of `task`. Raises MagpieError where its weights are absent."""
    path = weights / f"student_{task}.safetensors"
    if not path.is_file():
        raise MagpieError(f"{path} is absent", "make it with `python -m edge.demo.train_weights students`")
    return load_student(path)


def truth(scene: Scene, t_s: float) -> tuple[np.ndarray, Detections]:
    """Picture and labels at `t_s`."""
    picture, objects = scene.render(t_s)
    boxes = np.array([o.box for o in objects], np.float32).reshape(-1, 4)
    classes = np.array([CLASSES.index(o.class_name) for o in objects], np.int64)
    return picture, Detections.build(boxes, np.ones(len(boxes)), classes)


def labelled_window(
    scene: Scene, camera: str, task: str, window: int, window_s: float, frames: int, folder: Path,
    held_out: float = 0.3, exemplars: Sequence[LabelledFrame] = (), seed: int = 0,
) -> LabelledWindow:  # fmt: skip
    """Window number `window` (from 1) with `frames` labelled frames spread over its time, the latest held out."""
    rng = np.random.default_rng((seed, window))
    begin, step = (window - 1) * window_s, window_s / frames
    place = folder / camera / str(window)
    place.mkdir(parents=True, exist_ok=True)
    made = []
    for n in range(frames):
        t_s = begin + (n + float(rng.random())) * step
        picture, labels = truth(scene, t_s)
        path = place / f"{n:04}.jpg"
        cv2.imwrite(str(path), picture[..., ::-1], (cv2.IMWRITE_JPEG_QUALITY, 85))
        frame = SampledFrame(camera, window, n, t_s, path, Detections.empty(), "none")
        made.append(LabelledFrame(frame, labels, "truth"))
    cut = frames - math.ceil(held_out * frames)
    return LabelledWindow(camera, window, task, CLASSES, tuple(made[:cut]), tuple(made[cut:]), tuple(exemplars))  # type: ignore[arg-type]


def train_and_watch(
    parent: Student, data: LabelledWindow, config: RetrainingConfig, epochs: Sequence[int], seed: int,
    at: Callable[[int, Student], None] | None = None,
) -> dict[int, tuple[float, float, Student]]:  # fmt: skip
    """Train once for the largest of `epochs`; {epochs: (held-out accuracy, CPU seconds without evaluations, student)}.

    The learning rate does not depend on the number of epochs, so a run of 30 epochs is one of 5 at its fifth.
    """
    run = Retraining(parent, data, replace(config, epochs=max(epochs)), seed, held_out_every=0)
    watched, out = 0.0, {}
    for progress in run.steps():
        done = progress.epoch + 1
        if progress.epoch_over and done in epochs:
            cost = run.cpu_seconds - watched
            began = time.process_time()
            student = run.result()
            out[done] = (run.held_out().value, cost, student)
            watched += time.process_time() - began
    return out


def measured_inference(
    student: Student,
    scene: Scene,
    window: int,
    window_s: float,
    cores: float,
    rates: Sequence[float] = (8.0, 4.0, 2.0, 1.0),
) -> InferenceProfile:
    """Accuracy factor by share, measured: CPU per answer, and how much staler answers lose against the truth."""
    times = (window - 1) * window_s + (np.arange(16) + 0.5) / 16 * window_s
    ages = (0.0, *(0.5 / rate for rate in rates))
    pairs: dict[float, list[tuple[Detections, Detections]]] = {age: [] for age in ages}
    spent, answers = 0.0, 0
    for t_s in times:
        _, labels = truth(scene, float(t_s))
        for age in ages:
            picture, then = truth(scene, max(0.0, float(t_s) - age))
            began = time.process_time()
            if student.spec.task == "detection":
                answer = student.detect([picture])[0]
            else:
                classes, scores = student.name(picture, then.boxes)
                answer = Detections(then.boxes, scores, classes)
            spent, answers = spent + time.process_time() - began, answers + 1
            pairs[age].append((answer, labels))
    fresh = max(1e-6, accuracy(student.spec.task, pairs[0.0], len(CLASSES)).value)
    factors, last = [], 1.0
    for rate in rates:
        value = accuracy(student.spec.task, pairs[0.5 / rate], len(CLASSES)).value / fresh
        last = min(last, max(0.0, value))
        factors.append(round(last, 4))
    top = max(rates)
    share = top * spent / answers / cores
    subsampling = tuple(top / rate for rate in rates)
    return InferenceProfile("subsampling", round(share, 5), subsampling, tuple(factors), "measured")


def write_result(name: str, value: object) -> Path:
    """Keep a result beside the others; returns where."""
    path = (Path(__file__).resolve().parent / "results" / name).resolve()
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    return path

"""Common parts of the training commands for the demo's weights: samples of the scene, scores on held-out scenes, files.

Scene seeds from `TRAIN_SEEDS` on are for training, from `HELD_OUT_SEEDS` on for the scores in the sidecars; a demo
uses small seeds, so it shows neither.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from safetensors.torch import save

from edge.core.vision import Detections
from edge.demo.scene import CLASSES, Scene, SceneObject, SceneSpec, conditions
from edge.detectors.pictures import jpeg_bytes, read_jpeg
from edge.files import store_whole

TRAIN_SEEDS = 10_000
HELD_OUT_SEEDS = 90_000
CYCLE_S = 900.0


def truth_arrays(objects: list[SceneObject]) -> tuple[np.ndarray, np.ndarray]:
    """Boxes float32 (N, 4) in [0, 1] and class indices int64 (N,) of a scene's truth."""
    boxes = np.array([o.box for o in objects], np.float32).reshape(-1, 4)
    return boxes, np.array([CLASSES.index(o.class_name) for o in objects], np.int64)


@dataclass(frozen=True)
class TrainingPicture:
    """One training picture: uint8 RGB (H, W, 3), boxes float32 (N, 4) in [0, 1], classes int64 (N,)."""

    picture: np.ndarray
    boxes: np.ndarray
    classes: np.ndarray


def _compressed(picture: np.ndarray, quality: int) -> np.ndarray:
    """The picture after lossy compression with halved colour resolution: a camera's stream has suffered the same."""
    data = jpeg_bytes(picture, quality)
    read = None if data is None else read_jpeg(data)
    assert read is not None, "a drawn picture can be compressed"
    return read


def samples(
    seed: int, width: int, height: int, phases: tuple[float, float], first_seed: int = TRAIN_SEEDS, per_scene: int = 24
) -> Iterator[TrainingPicture]:
    """Endless pictures of ever new scenes at random times of the part `phases` of the cycle, characters in turn."""
    rng = np.random.default_rng(seed)
    number = 0
    while True:
        scene = Scene(SceneSpec(seed=first_seed + number, character=number % 4, day_s=CYCLE_S))
        starts = rng.uniform(phases[0], phases[1], per_scene)
        for phase in sorted(starts.tolist()):
            picture, objects = scene.render(phase * CYCLE_S)
            boxes, classes = truth_arrays(objects)
            if rng.random() < 0.6:
                picture = _compressed(picture, int(rng.integers(35, 90)))
            small = cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA)
            yield TrainingPicture(small, boxes, classes)
        number += 1


@dataclass
class DetectionCounts:
    """Objects found, invented and missed."""

    hits: int = 0
    wrong: int = 0
    missed: int = 0

    @property
    def f1(self) -> float:
        """F1 score; 1 when there was nothing to find and no answer."""
        total = 2 * self.hits + self.wrong + self.missed
        return 2 * self.hits / total if total else 1.0


def count_matches(found: Detections, boxes: np.ndarray, classes: np.ndarray, iou: float, into: DetectionCounts) -> None:
    """Greedy matching, best score first, same class and overlap of at least `iou`; adds to `into`."""
    free = np.ones(len(boxes), bool)
    hits = 0
    for i in np.argsort(-found.scores):
        if not len(boxes):
            break
        x0, y0, x1, y1 = found.boxes[i]
        inter = np.clip(np.minimum(x1, boxes[:, 2]) - np.maximum(x0, boxes[:, 0]), 0, None) * np.clip(
            np.minimum(y1, boxes[:, 3]) - np.maximum(y0, boxes[:, 1]), 0, None
        )
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        overlap = inter / np.maximum((x1 - x0) * (y1 - y0) + area - inter, 1e-9)
        overlap[~free | (classes != found.classes[i])] = 0.0
        best = int(np.argmax(overlap))
        if overlap[best] >= iou:
            free[best] = False
            hits += 1
    into.hits += hits
    into.wrong += len(found) - hits
    into.missed += len(boxes) - hits


def evaluate(
    label: Callable[[np.ndarray], Detections], seeds: int = 3, times: int = 36, iou: float = 0.5
) -> dict[str, Any]:
    """F1 on held-out scenes: overall, per condition, per character and per tenth of the cycle."""
    total = DetectionCounts()
    groups: dict[str, dict[str, DetectionCounts]] = {"by_condition": {}, "by_character": {}, "by_phase": {}}
    for number in range(seeds * 4):
        spec = SceneSpec(seed=HELD_OUT_SEEDS + number, character=number % 4, day_s=CYCLE_S)
        scene = Scene(spec)
        for i in range(times):
            t_s = (i + 0.37) / times * CYCLE_S
            picture, objects = scene.render(t_s)
            boxes, classes = truth_arrays(objects)
            one = DetectionCounts()
            count_matches(label(picture), boxes, classes, iou, one)
            state = conditions(spec, t_s)
            names = (
                ("by_condition", state.label),
                ("by_character", spec.layout),
                ("by_phase", f"{math.floor(state.phase * 10) / 10:.1f}"),
            )
            for into in (total, *(groups[group].setdefault(name, DetectionCounts()) for group, name in names)):
                into.hits += one.hits
                into.wrong += one.wrong
                into.missed += one.missed
    report: dict[str, Any] = {"iou": iou, "pictures": seeds * 4 * times, "f1": round(total.f1, 4)}
    for group, found in groups.items():
        report[group] = {name: round(found[name].f1, 4) for name in sorted(found)}
    return report


def say(text: str) -> None:
    """One line of progress on the console."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def write_weights(path: Path, state: dict[str, torch.Tensor], sidecar: dict[str, Any]) -> None:
    """Stores weights as fp16 safetensors with a JSON sidecar of the same name, each whole or not at all."""
    half = {name: (t.half() if t.is_floating_point() else t).contiguous() for name, t in state.items()}
    store_whole(path, save(half))
    store_whole(path.with_suffix(".json"), (json.dumps(sidecar, indent=2) + "\n").encode())


class DemoProgress:
    """Share of the training done, by steps or by minutes, whichever is further."""

    def __init__(self, steps: int, minutes: float | None) -> None:
        self._steps, self._minutes, self._start = steps, minutes, time.monotonic()

    def at(self, step: int) -> float:
        """Share done (0-1, or above when time is up) after `step` steps."""
        by_time = 0.0 if self._minutes is None else (time.monotonic() - self._start) / (60.0 * self._minutes)
        return max(step / self._steps, by_time)

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start


def learning_rate(progress: float, peak: float) -> float:
    """Learning rate: a short warm-up, then a cosine to a hundredth of the peak."""
    if progress < 0.03:
        return peak * (0.05 + 0.95 * progress / 0.03)
    return peak * (0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * min(1.0, (progress - 0.03) / 0.97))))


class Average:
    """Keeps the running mean of a network's weights and statistics in a second network of the same shape."""

    def __init__(self, network: torch.nn.Module, mean: torch.nn.Module) -> None:
        self._network, self.mean, self._steps = network, mean.eval(), 0
        mean.load_state_dict(network.state_dict())

    def update(self) -> None:
        """Takes in the network's present weights."""
        self._steps += 1
        keep = min(0.998, self._steps / (self._steps + 20.0))
        with torch.no_grad():
            for mean, now in zip(self.mean.state_dict().values(), self._network.state_dict().values(), strict=True):
                if mean.is_floating_point():
                    mean.lerp_(now, 1.0 - keep)


class Pool:
    """A bounded stock of training samples that is renewed while the training goes on."""

    def __init__(self, stream: Iterator[TrainingPicture], first: int, limit: int, rng: np.random.Generator) -> None:
        self._stream, self._limit, self._rng = stream, limit, rng
        self._kept = [next(stream) for _ in range(first)]

    def __len__(self) -> int:
        return len(self._kept)

    def renew(self, count: int) -> None:
        """Draws `count` new samples; once the stock is full each replaces a random old one."""
        for _ in range(count):
            new = next(self._stream)
            if len(self._kept) < self._limit:
                self._kept.append(new)
            else:
                self._kept[int(self._rng.integers(len(self._kept)))] = new

    def draw(self, count: int) -> list[TrainingPicture]:
        """`count` samples at random, each mirrored left to right half of the time."""
        chosen = []
        for i in self._rng.integers(0, len(self._kept), count):
            s = self._kept[i]
            if self._rng.random() < 0.5:
                boxes = np.stack([1 - s.boxes[:, 2], s.boxes[:, 1], 1 - s.boxes[:, 0], s.boxes[:, 3]], 1)
                s = TrainingPicture(np.ascontiguousarray(s.picture[:, ::-1]), boxes, s.classes)
            chosen.append(s)
        return chosen


def say_step(step: int, progress: DemoProgress, losses: Sequence[float], pool: Pool) -> None:
    """After every hundredth step how far the training is."""
    if step % 100 == 0:
        say(
            f"step {step} {100 * progress.at(step):.0f}% {progress.seconds:.0f} s "
            f"loss {np.mean(losses[-100:]):.3f} pool {len(pool)}"
        )

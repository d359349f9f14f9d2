"""Labelled windows on disk, with a street of boxes whose truth the test knows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from edge.core.accuracy import match
from edge.core.labels import LabelledFrame, LabelledWindow, SampledFrame
from edge.core.truth import AskableFrame, FrameKey, Question, Verdict, askable, fitting
from edge.core.vision import Detections
from edge.recording.labelled_windows import write_manifest
from edge.recording.recorder import window_folder

CLASSES = ("car", "bus")


@dataclass(frozen=True)
class Street:
    """A labelled window and the real objects in its pictures, by frame."""

    window: LabelledWindow
    truth: dict[FrameKey, Detections]

    @property
    def frames(self) -> tuple[AskableFrame, ...]:
        return tuple(askable(f) for f in self.window.all_sampled)

    def verdict(self, question: Question) -> tuple[Verdict, int | None]:
        """A perfect person's answer."""
        labelled = next(f for f in self.window.all_sampled if f.frame.number == question.key.frame)
        frame, truth = askable(labelled), self.truth[question.key]
        seen: set[int] = set()
        for c in frame.candidates:
            mine, theirs = (
                -1 if box is None else int(match(Detections.build([box], [1.0], [c.class_index]), truth, 0.5)[0])
                for box in (c.student, c.teacher)
            )
            seen |= {o for o in (mine, theirs) if o >= 0}
            if c.index == question.candidate:
                return fitting(c.group, mine >= 0, theirs >= 0), None
        return "counted", len(truth) - len(seen)


def street(
    data: Path, window: int = 1, frames: int = 12, camera: str = "north", seed: int = 0,
    student: float = 0.6, teacher: float = 0.8,
) -> Street:  # fmt: skip
    """Write a window's pictures and manifest. Student and teacher each see an object with their probability, and now
    and then one that is not there."""
    rng = np.random.default_rng([seed, window])
    folder = window_folder(data / "pictures", camera, window)
    folder.mkdir(parents=True, exist_ok=True)
    labelled, truth = [], {}
    for number in range(1, frames + 1):
        cells = rng.permutation(24)
        count = int(rng.integers(3, 8))
        objects = [_cell(int(c)) for c in cells[:count]]
        classes = [int(c) for c in rng.integers(0, 2, count)]
        path = folder / f"{number:08d}.jpg"
        assert cv2.imwrite(str(path), _drawn(objects))
        truth[FrameKey(window, number)] = Detections.build(objects, [1.0] * count, classes)
        ghosts = [_cell(int(c)) for c in cells[count : count + 2]]
        found = []
        for part in (student, teacher):
            keep = [n for n in range(count) if rng.random() < part]
            false = [g for g in ghosts if rng.random() < 0.3]
            boxes = [_near(objects[n], rng) for n in keep] + false
            scores = [0.5 + 0.4 * rng.random() for _ in keep] + [0.3 + 0.3 * rng.random() for _ in false]
            found.append(Detections.build(boxes, scores, [classes[n] for n in keep] + [0] * len(false)))
        sample = SampledFrame(camera, window, number, 1000.0 * window + number, path, found[0], f"{camera}-w{window}")
        labelled.append(LabelledFrame(sample, found[1], "teacher"))
    value = LabelledWindow(camera, window, "detection", CLASSES, tuple(labelled[:-2]), tuple(labelled[-2:]))
    write_manifest(data, value)
    return Street(value, truth)


def _cell(n: int) -> tuple[float, float, float, float]:
    x, y = (n % 6) / 6 + 0.02, (n // 6) / 4 + 0.03
    return (x, y, x + 0.11, y + 0.16)


def _near(box: tuple[float, float, float, float], rng: np.random.Generator) -> list[float]:
    shift = rng.normal(0.0, 0.004, 2)
    return [box[0] + shift[0], box[1] + shift[1], box[2] + shift[0], box[3] + shift[1]]


def _drawn(objects: list[tuple[float, float, float, float]], width: int = 320, height: int = 180) -> np.ndarray:
    picture = np.full((height, width, 3), (120, 125, 122), np.uint8)
    for x1, y1, x2, y2 in objects:
        corners = (int(x1 * width), int(y1 * height)), (int(x2 * width), int(y2 * height))
        cv2.rectangle(picture, *corners, (60, 60, 170), -1)
    return picture

"""From labelled frames to training examples, each in two variants: as it is, and mirrored.

Detection: one example per frame. Classification: one per golden object, one per recorded answer that stands for a
golden object (that is how proposals really cut it out), and backgrounds: recorded answers where no object is, and
random places of the same sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge.core.accuracy import box_iou
from edge.core.configs import StudentSpec
from edge.core.labels import LabelledFrame
from edge.core.vision import Detections
from edge.students import cut_outs, input_size_at, resize_picture
from edge.training.pictures import read_frame

VARIANTS = 2
SAME_OBJECT_IOU, NO_OBJECT_IOU = 0.5, 0.15
# Random backgrounds per frame, and how far a golden box is moved and resized in the mirrored variant.
RANDOM_BACKGROUNDS, MOST_BACKGROUNDS, JITTER = 2, 6, 0.12
BACKGROUND_WEIGHT, PROPOSAL_WEIGHT = 0.7, 0.7


@dataclass(frozen=True)
class Example:
    """One example: the pictures of its variants, uint8 (h, w, 3) each, and their objects.

    Detection: `labels` per variant. Classification: `klass`, and `golden` where it is a golden object's own cut-out.
    `frame` is the index of its frame, `weight` scales its loss.
    """

    frame: int
    pictures: tuple[NDArray[np.uint8], ...]
    labels: tuple[Detections, ...] = ()
    klass: int = -1
    weight: float = 1.0
    golden: bool = True


def mirrored(labels: Detections) -> Detections:
    """The labels of the mirrored picture."""
    x0, y0, x1, y1 = labels.boxes.T
    return Detections(np.stack([1 - x1, y0, 1 - x0, y1], 1).astype(np.float32), labels.scores, labels.classes)


def make_examples(
    spec: StudentSpec, frames: Sequence[LabelledFrame], seed: int
) -> tuple[list[Example], tuple[LabelledFrame, ...], int]:
    """The examples of `frames`, the frames that could be read, and how many could not."""
    rng = np.random.default_rng(seed)
    size = input_size_at(spec)
    out: list[Example] = []
    good: list[LabelledFrame] = []
    for frame in frames:
        picture = read_frame(frame)
        if picture is None:
            continue
        if spec.task == "detection":
            small = resize_picture(picture, size)
            labels = frame.labels
            pair = (small, np.ascontiguousarray(small[:, ::-1]))
            out.append(Example(len(good), pair, (labels, mirrored(labels)), weight=frame.weight))
        else:
            out += _cut_out_examples(spec, size, picture, frame, len(good), rng)
        good.append(frame)
    return out, tuple(good), len(frames) - len(good)


def _cut_out_examples(
    spec: StudentSpec,
    size: tuple[int, int],
    picture: NDArray[np.uint8],
    frame: LabelledFrame,
    index: int,
    rng: np.random.Generator,
) -> list[Example]:
    labels, answer = frame.labels, frame.frame.answer
    background = len(spec.classes)
    boxes, classes, weights = [labels.boxes], [labels.classes], [labels.scores * frame.weight]
    overlap = box_iou(answer.boxes, labels.boxes)
    best = overlap.max(1) if len(labels) else np.zeros(len(answer))
    same = best >= SAME_OBJECT_IOU
    if same.any():
        owner = overlap[same].argmax(1)
        boxes.append(answer.boxes[same])
        classes.append(labels.classes[owner])
        weights.append(labels.scores[owner] * (frame.weight * PROPOSAL_WEIGHT))
    empty = answer.boxes[best < NO_OBJECT_IOU][:MOST_BACKGROUNDS]
    empty = np.concatenate([empty, _random_places(labels, rng)])
    boxes.append(empty)
    classes.append(np.full(len(empty), background, np.int64))
    weights.append(np.full(len(empty), frame.weight * BACKGROUND_WEIGHT, np.float32))
    all_boxes = np.concatenate(boxes)
    plain = cut_outs(picture, all_boxes, size)
    moved = cut_outs(picture, _jittered(all_boxes, rng), size)[:, :, ::-1]
    return [
        Example(index, (plain[n], np.ascontiguousarray(moved[n])), (), int(klass), float(weight), n < len(labels))
        for n, (klass, weight) in enumerate(zip(np.concatenate(classes), np.concatenate(weights), strict=True))
    ]


def _jittered(boxes: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    sides = boxes[:, 2:] - boxes[:, :2]
    centres = (boxes[:, 2:] + boxes[:, :2]) / 2 + rng.uniform(-JITTER, JITTER, sides.shape) * sides
    half = sides * rng.uniform(1 - JITTER, 1 + 2 * JITTER, (len(boxes), 1)) / 2
    moved = np.concatenate([centres - half, centres + half], 1)
    return np.asarray(np.clip(moved, 0.0, 1.0), np.float32)


def _random_places(labels: Detections, rng: np.random.Generator) -> NDArray[np.float32]:
    """Places where no golden object is, as large as golden objects are (or 5-20 % of the picture's sides)."""
    found: list[NDArray[np.float32]] = []
    for _ in range(RANDOM_BACKGROUNDS * 5):
        if len(labels):
            one = labels.boxes[rng.integers(len(labels))]
            sides = np.clip((one[2:] - one[:2]) * rng.uniform(0.7, 1.4), 0.01, 0.9)
        else:
            sides = rng.uniform(0.05, 0.2, 2)
        corner = rng.uniform(0, 1 - sides)
        place = np.concatenate([corner, corner + sides]).astype(np.float32)
        if not len(labels) or box_iou(place[None], labels.boxes).max() < NO_OBJECT_IOU:
            found.append(place)
        if len(found) == RANDOM_BACKGROUNDS:
            break
    return np.stack(found) if found else np.zeros((0, 4), np.float32)

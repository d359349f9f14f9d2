"""Views of a labelled picture for training a published detector: moved, scaled, mirrored, brighter or darker."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge.core.configs import WHOLE, Region
from edge.core.detectors import InputSpec
from edge.core.labels import LabelledFrame
from edge.core.vision import Detections
from edge.detectors.session import to_tensor
from edge.students.detector_loss import Objects
from edge.students.pictures import cropped

Picture = NDArray[np.uint8]

#: How far a view is moved and scaled, in parts of the picture's sides; how much brighter, and how many steps added.
MOVED, SCALED, GAIN, OFFSET = 0.15, 0.15, 0.30, 18.0
#: An object of which less than this part is inside the view is neither object nor background.
LEAST_VISIBLE = 0.4
#: A label of this score counts fully; the surest and the least sure count by so much.
FULL_SCORE, LEAST_WEIGHT = 0.5, 0.4


@dataclass(frozen=True)
class LabelledPicture:
    """A picture in memory, uint8 RGB (H, W, 3), with its labels and the objects that are not sure."""

    picture: Picture
    labels: Detections
    unsure: Detections
    weight: float = 1.0

    @staticmethod
    def of(frame: LabelledFrame, picture: Picture, largest: tuple[int, int], region: Region = WHOLE) -> LabelledPicture:
        """The part `region` of a frame. `largest` (height, width): a picture with longer sides is kept smaller (nothing
        finer is ever looked at). An object outside the region by more than 60 % is neither object nor background."""
        labels, unsure = frame.labels, frame.unsure
        if region != WHOLE:
            picture = np.ascontiguousarray(cropped(picture, region))
            labels, cut = _inside(labels, region)
            unsure = _joined(_inside(unsure, region)[0], cut)
        scale = max(largest[0] / picture.shape[0], largest[1] / picture.shape[1])
        if scale < 1.0:
            size = (max(2, round(picture.shape[1] * scale)), max(2, round(picture.shape[0] * scale)))
            picture = np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8)
        return LabelledPicture(picture, labels, unsure, frame.weight)


def _inside(objects: Detections, region: Region) -> tuple[Detections, Detections]:
    """Objects in fractions of `region`: those of which enough is inside, and those of which a part is."""
    corner = np.array([region[0], region[1]] * 2, np.float32)
    sides = np.array([region[2] - region[0], region[3] - region[1]] * 2, np.float32)
    moved = (objects.boxes - corner) / sides
    cut = np.clip(moved, 0.0, 1.0)
    area = np.prod(moved[:, 2:] - moved[:, :2], axis=1)
    part = np.prod(cut[:, 2:] - cut[:, :2], axis=1) / np.maximum(area, 1e-9)
    there = Detections(cut.astype(np.float32), objects.scores, objects.classes)
    return there.select(part >= LEAST_VISIBLE), there.select((part < LEAST_VISIBLE) & (part > 0))


def _joined(one: Detections, other: Detections) -> Detections:
    return Detections(
        np.concatenate([one.boxes, other.boxes]),
        np.concatenate([one.scores, other.scores]),
        np.concatenate([one.classes, other.classes]),
    )


def view(
    labelled: LabelledPicture, spec: InputSpec, size: tuple[int, int], rng: np.random.Generator | None
) -> tuple[Tensor, Objects]:
    """The input (1, 3, *size) and its objects. `rng` None: the picture as it is when the student answers."""
    height, width = size
    tall, wide = labelled.picture.shape[:2]
    ratio = (
        np.array([width / wide, height / tall])
        if spec.fit == "stretch"
        else np.full(2, min(width / wide, height / tall))
    )
    shift = np.zeros(2)
    if spec.fit == "letterbox":
        shift = (np.array([width, height]) - ratio * (wide, tall)) / 2
    mirrored, gain, offset = False, 1.0, 0.0
    if rng is not None:
        scale = float(np.exp(rng.uniform(-SCALED, SCALED)))
        # About the middle of the input, then moved.
        middle = np.array([width, height]) / 2
        moved = rng.uniform(-MOVED, MOVED, 2) * (width, height)
        shift = (shift - middle) * scale + middle + moved
        ratio = ratio * scale
        mirrored = bool(rng.random() < 0.5)
        gain, offset = 1.0 + float(rng.uniform(-GAIN, GAIN)), float(rng.uniform(-OFFSET, OFFSET))
    matrix = np.array([[ratio[0], 0.0, shift[0]], [0.0, ratio[1], shift[1]]])
    if mirrored:
        matrix[0] = [-ratio[0], 0.0, width - shift[0]]
    # Boxes are measured from the corner of the first pixel, warping from its middle.
    centred = matrix.copy()
    centred[:, 2] += 0.5 * (np.diag(matrix[:, :2]) - 1.0)
    seen = cv2.warpAffine(
        labelled.picture, centred, (width, height), flags=cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_CONSTANT, borderValue=(spec.pad,) * 3,
    )  # fmt: skip
    if rng is not None:
        table = np.clip(np.arange(256) * gain + offset, 0, 255).astype(np.uint8)
        seen = cv2.LUT(np.asarray(seen), table)
    tensor, _ = to_tensor(np.asarray(seen, np.uint8), spec, size)
    return torch.from_numpy(tensor), _objects(labelled, matrix, (wide, tall), size)


def _objects(
    labelled: LabelledPicture, matrix: NDArray[np.float64], picture: tuple[int, int], size: tuple[int, int]
) -> Objects:
    boxes, visible = _moved(labelled.labels.boxes, matrix, picture, size)
    kept = visible >= LEAST_VISIBLE
    unsure, inside = _moved(labelled.unsure.boxes, matrix, picture, size)
    left_out = np.concatenate([boxes[~kept & (visible > 0)], unsure[inside > 0]])
    weights = np.clip(labelled.labels.scores / FULL_SCORE, LEAST_WEIGHT, 1.0) * labelled.weight
    return Objects(
        torch.from_numpy(boxes[kept]),
        torch.from_numpy(labelled.labels.classes[kept]),
        torch.from_numpy(weights[kept].astype(np.float32)),
        torch.from_numpy(left_out),
    )


def _moved(
    boxes: NDArray[np.float32], matrix: NDArray[np.float64], picture: tuple[int, int], size: tuple[int, int]
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Boxes (N, 4) in fractions of the picture, in pixels of the view, cut at its border; and their visible parts."""
    if not len(boxes):
        return np.zeros((0, 4), np.float32), np.zeros(0)
    pixels = boxes.astype(np.float64) * (picture * 2)
    x = pixels[:, [0, 2]] * matrix[0, 0] + matrix[0, 2]
    y = pixels[:, [1, 3]] * matrix[1, 1] + matrix[1, 2]
    whole = np.stack([x.min(1), y.min(1), x.max(1), y.max(1)], 1)
    cut = np.clip(whole, 0, [size[1], size[0]] * 2)
    area = np.prod(whole[:, 2:] - whole[:, :2], axis=1)
    left = np.prod(np.clip(cut[:, 2:] - cut[:, :2], 0, None), axis=1)
    return cut.astype(np.float32), np.divide(left, area, out=np.zeros_like(left), where=area > 0)

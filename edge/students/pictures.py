"""From pictures to network input: the same code for inference and for training."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge.core import checks
from edge.core.configs import WHOLE, Region, StudentSpec
from edge.core.vision import Detections

# Per-channel mean and deviation of ImageNet in 0-255 steps, as torchvision's published backbones expect.
MEAN = (123.675, 116.28, 103.53)
DEVIATION = (58.395, 57.12, 57.375)

# Part of a cut-out's side that is context: the surroundings help to tell a small truck from a car.
CUT_OUT_CONTEXT = 1.2


def input_size_at(spec: StudentSpec, resolution: float = 1.0) -> tuple[int, int]:
    """(height, width) in pixels of the network input at `resolution` (0-1] of the student's own input size.

    Detection sizes are multiples of 16, classification sizes of 8, so that proportions stay; never under 32.
    """
    checks.in_range("inference_config.resolution", resolution, 0.05, 1.0)
    step = 16 if spec.task == "detection" else 8
    height, width = (max(32, round(side * resolution / step) * step) for side in spec.input_size)
    return height, width


def resize_picture(picture: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """uint8 RGB (H, W, 3) to `size` (height, width); area-averaged when it shrinks, so that nothing aliases."""
    height, width = size
    if picture.shape[:2] == (height, width):
        return np.ascontiguousarray(picture)
    shrinks = picture.shape[0] >= height and picture.shape[1] >= width
    how = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(picture, (width, height), interpolation=how), dtype=np.uint8)


def cropped(picture: NDArray[np.uint8], region: Region) -> NDArray[np.uint8]:
    """The part of a picture (H, W, 3) that `region` names (a view, no copy)."""
    if region == WHOLE:
        return picture
    height, width = picture.shape[:2]
    x0, y0 = int(region[0] * width), int(region[1] * height)
    x1, y1 = max(x0 + 1, round(region[2] * width)), max(y0 + 1, round(region[3] * height))
    return picture[y0:y1, x0:x1]


def from_region(found: Detections, region: Region) -> Detections:
    """Objects found in the part `region`, in fractions of the whole picture."""
    if region == WHOLE:
        return found
    corner = np.array([region[0], region[1]] * 2, np.float32)
    sides = np.array([region[2] - region[0], region[3] - region[1]] * 2, np.float32)
    return Detections.build(corner + found.boxes * sides, found.scores, found.classes)


def cut_outs(picture: NDArray[np.uint8], boxes: NDArray[np.float32], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Square cut-outs around `boxes` (N, 4) normalised xyxy, with a margin: uint8 (N, h, w, 3).

    The square keeps an object's proportions; outside the picture its edge is repeated.
    """
    height, width = picture.shape[:2]
    out = np.empty((len(boxes), size[0], size[1], 3), np.uint8)
    for n, (x0, y0, x1, y1) in enumerate(np.asarray(boxes, np.float64) * (width, height, width, height)):
        side = max(4.0, CUT_OUT_CONTEXT * max(x1 - x0, y1 - y0))
        left, top = round((x0 + x1 - side) / 2), round((y0 + y1 - side) / 2)
        columns = np.clip(np.arange(left, left + round(side)), 0, width - 1)
        rows = np.clip(np.arange(top, top + round(side)), 0, height - 1)
        square = picture[rows[0] : rows[-1] + 1][rows - rows[0]][:, columns]
        out[n] = resize_picture(square, size)
    return out


def pictures_to_tensor(pictures: Sequence[NDArray[np.uint8]] | NDArray[np.uint8], device: str = "cpu") -> Tensor:
    """Pictures of one size, uint8 (h, w, 3), to a normalised float32 tensor (N, 3, h, w), channels last in memory."""
    stacked = pictures if isinstance(pictures, np.ndarray) else np.stack(list(pictures))
    x = torch.from_numpy(stacked).to(device).permute(0, 3, 1, 2).float()
    mean = torch.tensor(MEAN, device=device).view(1, 3, 1, 1)
    scale = torch.tensor([1.0 / d for d in DEVIATION], device=device).view(1, 3, 1, 1)
    return x.sub_(mean).mul_(scale).contiguous(memory_format=torch.channels_last)

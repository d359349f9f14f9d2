"""Arithmetic of many boxes at once: (N, 4) arrays xyxy in fractions of the picture."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Boxes = NDArray[np.float64]
Areas = NDArray[np.float64]
#: Nearer to the picture's edge than this a box is cut off by it.
_EDGE = 0.01


def size(boxes: Boxes) -> NDArray[np.float64]:
    """(N,) root of the area."""
    sides = np.maximum(boxes[:, 2:] - boxes[:, :2], 1e-6)
    return np.asarray(np.sqrt(sides[:, 0] * sides[:, 1]))


def centre(boxes: Boxes) -> NDArray[np.float64]:
    """(N, 2) middle of each box."""
    return np.asarray((boxes[:, :2] + boxes[:, 2:]) / 2)


def cut_off(boxes: Boxes) -> NDArray[np.bool_]:
    """(N,) whether a box touches the picture's edge."""
    low, high = np.minimum(boxes[:, 0], boxes[:, 1]), np.maximum(boxes[:, 2], boxes[:, 3])
    return np.asarray((low <= _EDGE) | (high >= 1 - _EDGE))


def within(a: Boxes, b: Boxes) -> NDArray[np.float64]:
    """(len(a), len(b)) how much of the smaller of two boxes lies in the other."""
    return _within(*_common(a[:, None], b[None]))


def iou(a: Boxes, b: Boxes) -> NDArray[np.float64]:
    """(len(a), len(b)) intersection over union."""
    return _iou(*_common(a[:, None], b[None]))


def iou_and_within(a: Boxes, b: Boxes) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Both, (len(a), len(b)) each."""
    areas = _common(a[:, None], b[None])
    return _iou(*areas), _within(*areas)


def iou_each(a: Boxes, b: Boxes) -> NDArray[np.float64]:
    """(N,) intersection over union of each of N boxes with the one of `b` at its place."""
    return _iou(*_common(a, b))


def _iou(both: Areas, own_a: Areas, own_b: Areas) -> Areas:
    return np.asarray(both / np.maximum(own_a + own_b - both, 1e-12))


def _within(both: Areas, own_a: Areas, own_b: Areas) -> Areas:
    return np.asarray(both / np.maximum(np.minimum(own_a, own_b), 1e-12))


def _common(a: Boxes, b: Boxes) -> tuple[Areas, Areas, Areas]:
    """Of boxes (..., 4): the areas that they have in common, and their own."""
    sides = np.minimum(a[..., 2:], b[..., 2:]) - np.maximum(a[..., :2], b[..., :2])
    return _area(np.maximum(sides, 0.0)), _area(a[..., 2:] - a[..., :2]), _area(b[..., 2:] - b[..., :2])


def _area(sides: NDArray[np.float64]) -> Areas:
    return np.asarray(sides[..., 0] * sides[..., 1])

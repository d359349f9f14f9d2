"""Arithmetic of many boxes at once: (N, 4) arrays xyxy in fractions of the picture."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Boxes = NDArray[np.float64]
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
    return np.asarray((boxes[:, :2] <= _EDGE).any(1) | (boxes[:, 2:] >= 1 - _EDGE).any(1))


def within(a: Boxes, b: Boxes) -> NDArray[np.float64]:
    """(len(a), len(b)) how much of the smaller of two boxes lies in the other."""
    both, own_a, own_b = _common(a, b)
    return np.asarray(both / np.maximum(np.minimum(own_a[:, None], own_b[None]), 1e-12))


def iou(a: Boxes, b: Boxes) -> NDArray[np.float64]:
    """(len(a), len(b)) intersection over union."""
    both, own_a, own_b = _common(a, b)
    return np.asarray(both / np.maximum(own_a[:, None] + own_b[None] - both, 1e-12))


def _common(a: Boxes, b: Boxes) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    both = np.prod(np.clip(high - low, 0.0, None), axis=2)
    return both, np.prod(a[:, 2:] - a[:, :2], axis=1), np.prod(b[:, 2:] - b[:, :2], axis=1)

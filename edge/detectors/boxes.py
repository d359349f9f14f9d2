"""Boxes xyxy in any one unit: overlap and suppression. Pure numpy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


def iou_matrix(a: Floats, b: Floats) -> Floats:
    """Intersection over union of boxes `a` (N, 4) with `b` (M, 4), shape (N, M); 0 where both are empty."""
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    size = np.clip(high - low, 0, None)
    both = size[..., 0] * size[..., 1]
    area_a = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1])
    area_b = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    union = area_a[:, None] + area_b[None, :] - both
    out: Floats = np.divide(both, union, out=np.zeros_like(both), where=union > 0).astype(np.float32)
    return out


def suppress(boxes: Floats, scores: Floats, classes: NDArray[np.int64], iou: float, limit: int) -> NDArray[np.int64]:
    """Greedy non-maximum suppression inside each class: indices kept, best first, at most `limit`.

    A box goes when it overlaps a better box of its class by more than `iou`; ties in score go by position.
    """
    order = np.argsort(-scores, kind="stable")
    kept: list[int] = []
    while len(order) and len(kept) < limit:
        best = int(order[0])
        kept.append(best)
        rest = order[1:]
        near = iou_matrix(boxes[best : best + 1], boxes[rest])[0] > iou
        order = rest[~(near & (classes[rest] == classes[best]))]
    return np.asarray(kept, np.int64)

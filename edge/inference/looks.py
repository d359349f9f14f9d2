"""How an object looks, in a few numbers: enough to tell two cars that pass each other, and to know one again."""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

#: Colours are looked at in so many rows and columns of the box's inner part, which is this part of each side.
_ROWS, _COLUMNS, _INNER = 3, 2, 0.7
#: Numbers that describe one object.
LENGTH = 3 * _ROWS * _COLUMNS


def looks(picture: NDArray[np.uint8], boxes: NDArray[np.floating]) -> NDArray[np.float32]:
    """(N, LENGTH) mean colours (Lab, in units of 100) of the parts of each box (N, 4; xyxy in fractions) on an RGB
    picture (H, W, 3). The part of a box outside the picture is not looked at."""
    height, width = picture.shape[:2]
    small = np.zeros((len(boxes) * _ROWS, _COLUMNS, 3), np.uint8)
    for n, (x0, y0, x1, y1) in enumerate(np.asarray(boxes, np.float64).tolist()):
        mx, my = (x1 - x0) * (1 - _INNER) / 2, (y1 - y0) * (1 - _INNER) / 2
        left, top = int(max(0.0, x0 + mx) * width), int(max(0.0, y0 + my) * height)
        right, low = math.ceil(min(1.0, x1 - mx) * width), math.ceil(min(1.0, y1 - my) * height)
        part = picture[top : max(low, top + 1), left : max(right, left + 1)]
        if part.size:
            small[n * _ROWS : (n + 1) * _ROWS] = cv2.resize(part, (_COLUMNS, _ROWS), interpolation=cv2.INTER_AREA)
    if not len(small):
        return np.zeros((0, LENGTH), np.float32)
    lab = cv2.cvtColor(small.astype(np.float32) / 255.0, cv2.COLOR_RGB2LAB)
    return np.asarray(lab.reshape(len(boxes), LENGTH) / 100.0, np.float32)

"""Reading sampled pictures back."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from edge.core.labels import LabelledFrame


def read_picture(path: Path) -> NDArray[np.uint8] | None:
    """The picture at `path` as uint8 RGB (H, W, 3), or None if it is missing or damaged."""
    picture = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if picture is None:
        return None
    return np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB), np.uint8)


def read_frame(frame: LabelledFrame) -> NDArray[np.uint8] | None:
    """The picture of a labelled frame, or None if it is missing or damaged."""
    return read_picture(frame.frame.path)

"""Reading sampled pictures back."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from edge.core.labels import LabelledFrame
from edge.detectors.pictures import read_picture


def read_frame(frame: LabelledFrame) -> NDArray[np.uint8] | None:
    """The picture of a labelled frame, or None if it is missing or damaged."""
    return read_picture(frame.frame.path)

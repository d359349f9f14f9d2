"""The shape of a network's input that fits a picture at a given cost."""

from __future__ import annotations

import functools
from typing import Final

#: Sides of an input are multiples of it: the coarsest stride of the detectors here, or half of it.
STEP: Final = 32


@functools.lru_cache(maxsize=1024)
def camera_shape(pixels: int, picture: tuple[int, int], step: int = STEP) -> tuple[int, int]:
    """(height, width), multiples of `step`, of at most `pixels` pixels in which a picture of shape `picture` (height,
    width) is shown largest with its proportions kept; among equals the smallest input."""
    best: tuple[float, int, tuple[int, int]] | None = None
    for height in range(step, pixels // step + 1, step):
        width = pixels // height // step * step
        for wide in range(step, width + 1, step):
            scale = min(wide / picture[1], height / picture[0])
            rank = (round(scale, 6), -height * wide, (height, wide))
            if best is None or rank > best:
                best = rank
    return (step, step) if best is None else best[2]

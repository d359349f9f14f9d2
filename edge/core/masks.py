"""Privacy masks: areas of a camera's picture that are blacked out before they are shown, kept or sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from edge.core.zones import Point, check_polygon

#: Masks of one camera.
MOST_MASKS: Final = 16


@dataclass(frozen=True)
class Mask:
    """A named area: `polygon` as fractions of the picture, closed by itself. Raises InvalidValue."""

    name: str
    polygon: tuple[Point, ...]

    def __post_init__(self) -> None:
        check_polygon("mask.polygon", self.polygon)

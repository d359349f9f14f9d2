"""The newest decoded picture of a camera: one place that each picture takes from the one before."""

from __future__ import annotations

from dataclasses import dataclass

from edge.ingest.streams import Picture
from edge.ingest.timing import FrameTime


@dataclass(frozen=True)
class RawFrame:
    """A decoded picture as the decoder left it: convert it (`CameraReader.convert`) only when it will be used."""

    camera: str
    number: int
    monotonic_s: float
    utc_s: float
    picture: Picture
    width: int
    height: int


class NewestFrame:
    """Numbers count from 1 and only grow. Not thread-safe: callers hold the reader's lock."""

    def __init__(self, camera: str) -> None:
        self._camera = camera
        self._frame: RawFrame | None = None
        self._taken = True
        self._number = 0

    def put(self, picture: Picture, at: FrameTime, width: int, height: int) -> bool:
        """Put a picture in the place of the one before; True if that one had not been taken."""
        replaced = not self._taken
        self._number += 1
        self._frame = RawFrame(self._camera, self._number, at.monotonic_s, at.utc_s, picture, width, height)
        self._taken = False
        return replaced

    def has(self, after: int) -> bool:
        """Whether a frame with a number above `after` is there."""
        return self._frame is not None and self._frame.number > after

    def take(self, after: int) -> RawFrame | None:
        """The frame, if its number is above `after`; it stays for others to take."""
        if not self.has(after):
            return None
        self._taken = True
        return self._frame

    def clear(self) -> None:
        """Let the frame go; numbers go on where they were."""
        self._frame = None

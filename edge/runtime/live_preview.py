"""The live picture of a camera, for those who watch: so many a second, no wider than asked, with the answer."""

from __future__ import annotations

from typing import Any

import cv2
from numpy.typing import NDArray

from edge.core.vision import Frame, Observation
from edge.detectors.pictures import jpeg_bytes
from edge.runtime import messages as m

#: Quality of JPEG pictures for people.
JPEG_QUALITY = 75


class LivePreview:
    """`fps` pictures a second at most (0: no watcher), `width` pixels wide at most."""

    def __init__(self, fps: float, width: int = 640) -> None:
        self.fps, self.width = fps, width
        self._due_s = 0.0

    def due(self, now_s: float) -> bool:
        """Whether a picture taken at `now_s` (monotonic) is to be shown."""
        return self.fps > 0 and now_s >= self._due_s

    def picture(self, frame: Frame, observation: Observation) -> m.Preview | None:
        """The frame as it is shown; None if it cannot be encoded. The next is due after it."""
        self._due_s = frame.monotonic_s + 0.9 / self.fps
        picture: NDArray[Any] = frame.picture
        height, width = picture.shape[:2]
        if width > self.width:
            size = (self.width, max(2, round(height * self.width / width)))
            picture = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
        jpeg = jpeg_bytes(picture, JPEG_QUALITY)
        if jpeg is None:
            return None
        return m.Preview(
            frame.number,
            frame.utc_s,
            picture.shape[1],
            picture.shape[0],
            observation.detections,
            observation.stale,
            observation.model_version,
            jpeg,
        )

"""Answers of a camera for those that follow objects, and the pictures of recent frames that they ask for."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import cv2
from numpy.typing import NDArray

from edge.core.vision import Frame, Observation
from edge.detectors.pictures import jpeg_bytes
from edge.inference.looks import looks
from edge.runtime import messages as m
from edge.runtime.application_feed import ApplicationFeed
from edge.runtime.live_preview import JPEG_QUALITY

#: Answers sent to those that follow objects: at most so many a second. Answered frames kept for their pictures.
_SENT_PER_S, _KEPT_FRAMES = 10.0, 3
#: Pictures of alarms are so wide; those of objects show the object and half its size around it.
_PICTURE_WIDTH, _CROP_WIDTH, _CROP_AROUND = 640, 320, 0.5


class AnswerFeed:
    """Passes some of the answers on; the others are counted. `applications` get theirs beside."""

    def __init__(self, applications: ApplicationFeed) -> None:
        self.applications = applications
        self.not_sent = 0
        self._sent_at_s = 0.0
        self._frames: deque[Frame] = deque(maxlen=_KEPT_FRAMES)

    def offer(self, frame: Frame, observation: Observation) -> m.Answered | None:
        """The answer to `frame` as it is sent; None if it comes too soon after the one before."""
        if frame.monotonic_s - self._sent_at_s < 0.9 / _SENT_PER_S:
            self.not_sent += 1
            return None
        self._sent_at_s = frame.monotonic_s
        self._frames.append(frame)
        found = observation.detections
        look = looks(frame.picture, found.boxes)
        return m.Answered(frame.number, frame.monotonic_s, frame.utc_s, found, look)

    def pictures(self, order: m.TakePictures) -> Iterator[m.Picture]:
        """The pictures wanted of a lately answered frame; empty pictures of one that is gone."""
        frame = next((f for f in self._frames if f.number == order.number), None)
        for wanted in order.wanted:
            yield m.Picture(wanted.of, b"" if frame is None else _jpeg(frame.picture, wanted.crop))


def _jpeg(picture: NDArray[Any], crop: tuple[float, float, float, float] | None) -> bytes:
    """The picture, or the part of it around a box; b"" if it cannot be encoded."""
    height, width = picture.shape[:2]
    widest = _PICTURE_WIDTH
    if crop is not None:
        widest = _CROP_WIDTH
        around = [_CROP_AROUND * (crop[k + 2] - crop[k]) for k in range(2)]
        left, top = (max(0, round(n * (crop[k] - around[k]))) for k, n in ((0, width), (1, height)))
        right, bottom = (round(n * (crop[k + 2] + around[k])) for k, n in ((0, width), (1, height)))
        picture = picture[top : max(bottom, top + 8), left : max(right, left + 8)]
        height, width = picture.shape[:2]
        if not height or not width:
            return b""
    if width > widest:
        size = (widest, max(2, round(height * widest / width)))
        picture = cv2.resize(picture, size, interpolation=cv2.INTER_AREA)
    return jpeg_bytes(picture, JPEG_QUALITY) or b""

"""Black in place of what privacy masks cover, right after a picture was decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from edge.core.masks import Mask

Picture = av.VideoFrame | NDArray[np.uint8]

#: Formats with planes of 8 bits each, whose samples can be set in place.
_PLANAR: Final = ("yuv420p", "yuvj420p", "yuv422p", "yuvj422p", "yuv444p", "yuvj444p")
#: Corners are given to 1/16 of a pixel.
_SHIFT: Final = 4
_GREY: Final = 128

Pixels = NDArray[np.bool_]


class Masker:
    """Blacks out `masks` in pictures of any size. One per reader or writer: it keeps the pixels of the last size.

    Every pixel that a mask touches is covered, and one more around it; so is each colour sample that a covered pixel
    has part in, and one more around it, so that no colour reaches into the black. Raises nothing for any picture.
    """

    def __init__(self, masks: Sequence[Mask]) -> None:
        self._masks = tuple(masks)
        self._key: tuple[object, ...] = ()
        self._pixels: list[Pixels] = []
        self._reformatter: av.video.reformatter.VideoReformatter | None = None

    def apply(self, picture: Picture) -> Picture:
        """The picture, black where masks cover it; itself where there is no mask. The given array keeps its pixels."""
        if not self._masks:
            return picture
        if isinstance(picture, np.ndarray):
            (covered,) = self._covered(((picture.shape[0], picture.shape[1]),))
            black = picture.copy()
            black[covered] = 0
            return black
        return self.frame(picture)

    def frame(self, frame: av.VideoFrame) -> av.VideoFrame:
        """The same of a decoded frame, which keeps its time."""
        pts, time_base = frame.pts, frame.time_base
        if frame.format.name not in _PLANAR:
            if self._reformatter is None:
                self._reformatter = av.video.reformatter.VideoReformatter()
            frame = self._reformatter.reformat(frame, format=_settable(frame.format), threads=1)
            frame.pts, frame.time_base = pts, time_base
        # The decoder looks at its pictures again: it keeps its own.
        frame.make_writable()
        full_range = int(frame.color_range) == 2 or frame.format.name.startswith("yuvj")
        sizes = [(frame.height, frame.width), *((p.height, p.width) for p in frame.planes[1:3])]
        for n, (plane, covered) in enumerate(zip(frame.planes, self._covered(tuple(sizes)), strict=False)):
            whole = np.frombuffer(memoryview(plane), np.uint8).reshape(-1, plane.line_size)
            black = _GREY if n else (0 if full_range else 16)
            np.copyto(whole[: covered.shape[0], : covered.shape[1]], np.uint8(black), where=covered)
        return frame

    def _covered(self, sizes: tuple[tuple[int, int], ...]) -> list[Pixels]:
        """Of each plane (height, width) the covered pixels; the first is the picture itself."""
        if sizes != self._key:
            luma = covered_pixels(self._masks, sizes[0][1], sizes[0][0])
            self._key, self._pixels = sizes, [luma, *(_samples(luma, *size) for size in sizes[1:])]
        return self._pixels


def _settable(given: av.VideoFormat) -> str:
    """A format that can be set in place and has as many colour samples: to make fewer would mix covered ones into those
    around them."""
    if given.is_rgb or given.chroma_width(16) == 16:
        return "yuv444p"
    return "yuv422p" if given.chroma_height(16) == 16 else "yuv420p"


def covered_pixels(masks: Sequence[Mask], width: int, height: int) -> Pixels:
    """Which pixels of a picture masks cover: bool (height, width)."""
    drawn: NDArray[np.uint8] = np.zeros((height, width), np.uint8)
    scale = np.array([width, height], np.float64) * (1 << _SHIFT)
    for mask in masks:
        # A pixel's centre is half a pixel from its edge.
        corners = np.round(np.array(mask.polygon, np.float64) * scale - (1 << _SHIFT) / 2).astype(np.int32)
        cv2.fillPoly(drawn, [corners], 255, lineType=cv2.LINE_8, shift=_SHIFT)
    return np.asarray(cv2.dilate(drawn, np.ones((3, 3), np.uint8)) > 0)


def _samples(luma: Pixels, height: int, width: int) -> Pixels:
    """Which samples of a smaller plane have part in a covered pixel."""
    down, across = -(-luma.shape[0] // height), -(-luma.shape[1] // width)
    padded = np.zeros((height * down, width * across), np.bool_)
    padded[: luma.shape[0], : luma.shape[1]] = luma
    part = np.asarray(padded.reshape(height, down, width, across).any((1, 3)), np.uint8)
    return np.asarray(cv2.dilate(part, np.ones((3, 3), np.uint8)) > 0)

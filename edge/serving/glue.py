"""Operations between the stages of an application: work on pictures, with numpy and OpenCV only.

Pictures are (rows, height, width, channels), channels being R, G, B or one of luminance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge.core.applications import Crop, CropBoxes, Feed, Grey, Normalise, Operation, Resize, ValueSource
from edge.core.errors import InvalidValue

_CHANNELS = (1, 3, 4)
#: Scaled pictures of one request may take so much: a body of many tiny pictures is small, the pictures scaled up are
#: not, and all models are served from this process.
MOST_BYTES = 64 * 2**20


@dataclass(frozen=True, eq=False)
class Prepared:
    """A stage's input: `array`, and for cut-outs how many of them each row has (`counts`: (rows,), int32) and of which
    box each is (`boxes`: (rows, `most`), int32; -1: unused)."""

    array: NDArray[Any]
    counts: NDArray[np.int32] | None = None
    boxes: NDArray[np.int32] | None = None


def prepare(feed: Feed, values: Mapping[ValueSource, NDArray[Any]]) -> Prepared:
    """The input that `feed` describes, C-contiguous. Raises InvalidValue where a value does not fit an operation."""
    array, counts, boxes = values[feed.source], None, None
    for operation in feed.operations:
        try:
            if isinstance(operation, CropBoxes):
                array, counts, boxes = cut_boxes(operation, array, values)
            else:
                array = apply(operation, array)
        except InvalidValue as error:
            raise InvalidValue(f"{feed.source.text}: {error.path}", error.given, error.allowed) from None
    return Prepared(np.ascontiguousarray(array), counts, boxes)


def apply(operation: Operation, pictures: NDArray[Any]) -> NDArray[Any]:
    """One operation that keeps the rows. Raises InvalidValue."""
    height, width, channels = _size(operation, pictures)
    if isinstance(operation, Crop):
        rows = slice(*_span(operation.top, operation.bottom, height))
        return pictures[:, rows, slice(*_span(operation.left, operation.right, width))]
    if isinstance(operation, Resize):
        _bounded("resize", len(pictures), (operation.height, operation.width, channels), pictures.dtype)
        return _resized(list(pictures), operation.height, operation.width, channels, pictures.dtype)
    if isinstance(operation, Grey):
        if channels == 1:
            return pictures
        weights = np.array([0.299, 0.587, 0.114], np.float32)
        grey = pictures[..., :3].astype(np.float32) @ weights
        grey = np.rint(grey) if pictures.dtype.kind in "iu" else grey
        return grey.astype(pictures.dtype)[..., None]
    assert isinstance(operation, Normalise)
    if channels != len(operation.mean):
        raise InvalidValue("normalise", pictures.shape, f"pictures of {len(operation.mean)} channels, as mean has")
    std = np.asarray(operation.std, np.float32)
    scale, shift = 1 / (255 * std), np.asarray(operation.mean, np.float32) / std
    out = np.empty((len(pictures), channels, height, width), np.float32)
    np.multiply(pictures.transpose(0, 3, 1, 2), scale[:, None, None], out=out)
    out -= shift[:, None, None]
    return out


def cut_boxes(
    cut: CropBoxes, pictures: NDArray[Any], values: Mapping[ValueSource, NDArray[Any]]
) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.int32]]:
    """Cut-outs of all rows, one after the other, their number per row, and the box of each. Raises InvalidValue.

    Returns (cut-outs, `height`, `width`, channels), (rows,), and (rows, `most`) with -1 where none is used. A box that
    reaches out of the picture is cut off at its edge; one without any area, or with a number that is not finite, is
    left out.
    """
    height, width, channels = _size(cut, pictures)
    rows = len(pictures)
    boxes = np.asarray(values[cut.boxes], np.float64)
    if boxes.ndim != 3 or boxes.shape[0] != rows or boxes.shape[2] != 4:
        raise InvalidValue(f"crop_boxes.boxes ({cut.boxes.text})", boxes.shape, f"the shape ({rows}, boxes, 4)")
    scores = _per_box(cut.scores, "scores", values, boxes)
    labels = _per_box(cut.labels, "labels", values, boxes)
    with np.errstate(invalid="ignore"):
        high, wide = cut.scale or (1, 1)
        pixels = boxes / (wide, high, wide, high) * (width, height, width, height)
        sides = pixels[..., 2:] - pixels[..., :2]
        taken = np.isfinite(boxes).all(axis=2) & (sides > 0).all(axis=2)
        if cut.square or cut.margin != 1:
            centre, half = pixels[..., :2] + sides / 2, sides * (cut.margin / 2)
            half = half.max(axis=2, keepdims=True) if cut.square else half
            pixels = np.concatenate([centre - half, centre + half], axis=2)
        edges = np.clip(pixels, 0.0, (width, height, width, height))
        low = np.floor(edges[..., :2] + 1e-6)
        far = np.ceil(edges[..., 2:] - 1e-6)
        taken = np.asarray(taken & (far > low).all(axis=2))
        if scores is not None:
            taken &= scores >= cut.above
    if labels is not None and cut.classes:
        taken &= np.isin(labels, cut.classes)
    cuts: list[NDArray[Any]] = []
    counts = np.zeros(rows, np.int32)
    places = np.full((rows, cut.most), -1, np.int32)
    for row in range(rows):
        which = np.flatnonzero(taken[row])
        if scores is not None:
            which = which[np.argsort(-scores[row, which], kind="stable")]
        for box in which[: cut.most]:
            left, top = low[row, box].astype(int)
            right, bottom = far[row, box].astype(int)
            cuts.append(pictures[row, top:bottom, left:right])
        counts[row] = min(len(which), cut.most)
        places[row, : counts[row]] = which[: cut.most]
        _bounded("crop_boxes", len(cuts), (cut.height, cut.width, channels), pictures.dtype)
    return _resized(cuts, cut.height, cut.width, channels, pictures.dtype), counts, places


def spread(array: NDArray[Any], counts: NDArray[np.int32], most: int) -> NDArray[Any]:
    """A model's answers for cut-outs (cut-outs, ...) put back to their rows: (rows, `most`, ...), the rest zero."""
    empty: Any = b"" if array.dtype == object else 0
    out = np.full((len(counts), most, *array.shape[1:]), empty, array.dtype)
    out[np.arange(most) < counts[:, None]] = array
    return out


def _size(operation: Operation, pictures: NDArray[Any]) -> tuple[int, int, int]:
    name = type(operation).__name__.lower()
    if pictures.ndim != 4 or pictures.shape[3] not in _CHANNELS or 0 in pictures.shape[1:]:
        raise InvalidValue(name, pictures.shape, "pictures of the shape (rows, height, width, 1, 3 or 4 channels)")
    if pictures.dtype not in (np.dtype(np.uint8), np.dtype(np.float32)):
        raise InvalidValue(name, str(pictures.dtype), "pictures of uint8 or float32 (UINT8 or FP32)")
    return pictures.shape[1], pictures.shape[2], pictures.shape[3]


def _bounded(name: str, pictures: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    nbytes = pictures * math.prod(shape) * dtype.itemsize
    if nbytes > MOST_BYTES:
        given = f"{pictures} pictures of {shape[0]} x {shape[1]} ({nbytes} bytes)"
        raise InvalidValue(name, given, f"at most {MOST_BYTES} bytes: ask for fewer rows at a time")


def _span(low: float, high: float, size: int) -> tuple[int, int]:
    first = min(int(low * size), size - 1)
    return first, max(first + 1, round(high * size))


def _per_box(
    source: ValueSource | None, name: str, values: Mapping[ValueSource, NDArray[Any]], boxes: NDArray[Any]
) -> NDArray[Any] | None:
    if source is None:
        return None
    array = np.asarray(values[source])
    if array.shape != boxes.shape[:2]:
        allowed = f"the shape {boxes.shape[:2]}, one per box"
        raise InvalidValue(f"crop_boxes.{name} ({source.text})", array.shape, allowed)
    return array


def _resized(
    pictures: list[NDArray[Any]], height: int, width: int, channels: int, dtype: np.dtype[Any]
) -> NDArray[Any]:
    import cv2  # the front loads it only where an application needs it

    out = np.empty((len(pictures), height, width, channels), dtype)
    for n, picture in enumerate(pictures):
        if picture.shape[:2] == (height, width):
            out[n] = picture
            continue
        smaller = picture.shape[0] > height and picture.shape[1] > width
        how = cv2.INTER_AREA if smaller else cv2.INTER_LINEAR
        out[n] = cv2.resize(np.ascontiguousarray(picture), (width, height), interpolation=how).reshape(
            height, width, channels
        )
    return out

"""Raw outputs of ONNX detectors -> boxes. One function per published output layout; pure numpy.

Every decoder gets the outputs by name and returns candidates in *input pixels* of the network (or already normalised
to the picture, see `Candidates.normalised`), before suppression. Layouts:

- `end_to_end`: separate outputs of labels, boxes and scores (DETR kind: DEIMv2, RT-DETR; also exported SSDs).
- `rows`: one tensor (1, N, 4 + [1] + C) or its transpose, boxes decoded by the graph (YOLOv5, YOLOv8 exports).
- `grid`: one tensor (1, N, 5 + C), boxes relative to grid cells of several strides (YOLOX: arXiv 2107.08430).
- `distribution`: per stride a score tensor (1, N, C) and a side-distance distribution (1, N, 4 (R + 1)) (generalised
  focal loss, arXiv 2006.04388: NanoDet, PicoDet).
- `cells`: one tensor (1, 5 + C, H, W): objectness, tanh offset, sigmoid size, class shares (FastestDet).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edge.core.errors import WeightsError

Floats = NDArray[np.float32]
OutputKind = Literal["end_to_end", "rows", "grid", "distribution", "cells"]
OUTPUT_KINDS: tuple[OutputKind, ...] = ("end_to_end", "rows", "grid", "distribution", "cells")
BoxUnits = Literal["input", "picture", "normalised"]
BOX_UNITS: tuple[BoxUnits, ...] = ("input", "picture", "normalised")
BoxFormat = Literal["xyxy", "cxcywh"]
BOX_FORMATS: tuple[BoxFormat, ...] = ("xyxy", "cxcywh")


@dataclass(frozen=True)
class OutputSpec:
    """How the outputs of a detector are read.

    `strides`: of `grid`, `distribution`, `cells`. `box_format`, `box_units`: of `end_to_end` and `rows`; units are
    pixels of the network's input, pixels of the original picture (the graph was told its size), or normalised.
    `objectness`: `rows` carry an objectness before the class scores. `labels`, `boxes`, `scores`: output names of
    `end_to_end`. `cell_centre`: where a `distribution` cell's centre lies, in cells. `first_class`: index of the
    graph's label that is the first of `classes` (1 where 0 means background).
    """

    kind: OutputKind
    strides: tuple[int, ...] = ()
    box_format: BoxFormat = "xyxy"
    box_units: BoxUnits = "input"
    objectness: bool = False
    labels: str = "labels"
    boxes: str = "boxes"
    scores: str = "scores"
    cell_centre: float = 0.5
    first_class: int = 0


@dataclass(frozen=True)
class Candidates:
    """Boxes xyxy float32 (N, 4) in `units`, scores float32 (N,), classes int64 (N,) before suppression."""

    boxes: Floats
    scores: Floats
    classes: NDArray[np.int64]
    units: BoxUnits


def decode(
    outputs: Mapping[str, NDArray[np.generic]], spec: OutputSpec, size: tuple[int, int], classes: int, score: float
) -> Candidates:
    """Candidates with a score of at least `score`. `size` is the network input (width, height).

    Raises:
        WeightsError: the outputs do not have the layout that `spec` says.
    """
    try:
        return _DECODERS[spec.kind](outputs, spec, size, classes, score)
    except (KeyError, ValueError, IndexError) as error:
        shapes = ", ".join(f"{name} {value.shape}" for name, value in outputs.items())
        raise WeightsError(
            f"the model's outputs do not fit output.kind {spec.kind!r} with {classes} classes ({error})",
            f"it gives: {shapes}",
        ) from error


def _end_to_end(
    outputs: Mapping[str, NDArray[np.generic]], spec: OutputSpec, size: tuple[int, int], classes: int, score: float
) -> Candidates:
    labels = outputs[spec.labels].reshape(-1).astype(np.int64) - spec.first_class
    boxes = outputs[spec.boxes].reshape(-1, 4).astype(np.float32)
    scores = outputs[spec.scores].reshape(-1).astype(np.float32)
    if not len(labels) == len(boxes) == len(scores):
        raise ValueError(f"{len(labels)} labels, {len(boxes)} boxes, {len(scores)} scores")
    keep = (scores >= score) & (labels >= 0) & (labels < classes)
    return Candidates(_corners(boxes[keep], spec.box_format), scores[keep], labels[keep], spec.box_units)


def _rows(
    outputs: Mapping[str, NDArray[np.generic]], spec: OutputSpec, size: tuple[int, int], classes: int, score: float
) -> Candidates:
    width = 4 + int(spec.objectness) + classes
    rows = _one_with(outputs, width)
    given = rows[:, 4 + int(spec.objectness) :]
    if spec.objectness:
        given = given * rows[:, 4:5]
    return _best_class(_corners(rows[:, :4], spec.box_format), given, score, spec.box_units)


def _grid(
    outputs: Mapping[str, NDArray[np.generic]], spec: OutputSpec, size: tuple[int, int], classes: int, score: float
) -> Candidates:
    rows = _one_with(outputs, 5 + classes)
    cells, strides = _cells_of(size, spec.strides, np.floor_divide)
    if len(cells) != len(rows):
        raise ValueError(f"{len(rows)} rows, but strides {spec.strides} make {len(cells)} cells")
    centre = (rows[:, :2] + cells) * strides
    half = np.exp(np.clip(rows[:, 2:4], -20, 20)) * strides / 2
    return _best_class(np.concatenate([centre - half, centre + half], 1), rows[:, 5:] * rows[:, 4:5], score, "input")


def _distribution(
    outputs: Mapping[str, NDArray[np.generic]], spec: OutputSpec, size: tuple[int, int], classes: int, score: float
) -> Candidates:
    flat = [np.asarray(v, np.float32).reshape(-1, v.shape[-1]) for v in outputs.values()]
    counts = [int(np.ceil(size[0] / s)) * int(np.ceil(size[1] / s)) for s in spec.strides]
    boxes, scores, names = [], [], []
    for stride, count in zip(spec.strides, counts, strict=True):
        given = [v for v in flat if len(v) == count and v.shape[1] == classes]
        sides = [v for v in flat if len(v) == count and v.shape[1] != classes and v.shape[1] % 4 == 0]
        if len(given) != 1 or len(sides) != 1:
            raise ValueError(f"no pair of score and distance outputs with {count} cells for stride {stride}")
        rows = np.flatnonzero(given[0].max(1) >= score)
        cells, _ = _cells_of(size, (stride,), lambda n, s: -(-n // s))
        centre = (cells[rows] + spec.cell_centre) * stride
        bins = sides[0][rows].reshape(len(rows), 4, sides[0].shape[1] // 4)
        bins = np.exp(bins - bins.max(2, keepdims=True))
        distance = (bins / bins.sum(2, keepdims=True)) @ np.arange(bins.shape[2], dtype=np.float32) * stride
        boxes.append(np.concatenate([centre - distance[:, :2], centre + distance[:, 2:]], 1))
        names.append(given[0][rows].argmax(1))
        scores.append(given[0][rows].max(1))
    return Candidates(
        np.concatenate(boxes).astype(np.float32),
        np.concatenate(scores).astype(np.float32),
        np.concatenate(names).astype(np.int64),
        "input",
    )


def _cells(
    outputs: Mapping[str, NDArray[np.generic]], spec: OutputSpec, size: tuple[int, int], classes: int, score: float
) -> Candidates:
    value = np.asarray(next(iter(outputs.values())), np.float32)
    _, channels, height, width = value.shape
    if len(outputs) != 1 or channels != 5 + classes:
        raise ValueError(f"{channels} channels instead of {5 + classes}")
    rows = value[0].reshape(channels, -1).T
    cells = np.stack(np.meshgrid(np.arange(width), np.arange(height)), -1).reshape(-1, 2).astype(np.float32)
    scale = np.array([width, height], np.float32)
    centre = (np.tanh(rows[:, 1:3]) + cells) / scale
    half = 0.5 / (1 + np.exp(-np.clip(rows[:, 3:5], -30, 30)))
    # The published score weighs objectness and class share geometrically, objectness a little more.
    shares = rows[:, 5:]
    given = np.clip(rows[:, :1], 0, 1) ** 0.6 * np.clip(shares, 0, 1) ** 0.4
    pixels = np.array([size[0], size[1]] * 2, np.float32)
    return _best_class(np.concatenate([centre - half, centre + half], 1) * pixels, given, score, "input")


_Decoder = Callable[[Mapping[str, NDArray[np.generic]], OutputSpec, tuple[int, int], int, float], Candidates]
_DECODERS: Mapping[str, _Decoder] = {
    "end_to_end": _end_to_end,
    "rows": _rows,
    "grid": _grid,
    "distribution": _distribution,
    "cells": _cells,
}


def _best_class(boxes: Floats, given: Floats, score: float, units: BoxUnits) -> Candidates:
    names = given.argmax(1)
    best = given[np.arange(len(given)), names]
    keep = best >= score
    return Candidates(
        boxes[keep].astype(np.float32), best[keep].astype(np.float32), names[keep].astype(np.int64), units
    )


def _one_with(outputs: Mapping[str, NDArray[np.generic]], width: int) -> Floats:
    """The only output, as rows of `width` numbers (transposed where it comes the other way)."""
    if len(outputs) != 1:
        raise ValueError(f"{len(outputs)} outputs instead of one")
    value = np.asarray(next(iter(outputs.values())), np.float32)
    value = value.reshape(value.shape[-2], value.shape[-1])
    if value.shape[1] == width:
        return value
    if value.shape[0] == width:
        return np.ascontiguousarray(value.T)
    raise ValueError(f"rows of {value.shape[1]} numbers instead of {width}")


def _cells_of(
    size: tuple[int, int], strides: Sequence[int], divide: Callable[[int, int], int]
) -> tuple[Floats, Floats]:
    """Cell coordinates (N, 2) as x, y, row by row, and each cell's stride (N, 1), over all strides in order."""
    cells, steps = [], []
    for stride in strides:
        across, down = int(divide(size[0], stride)), int(divide(size[1], stride))
        xy = np.stack(np.meshgrid(np.arange(across), np.arange(down)), -1).reshape(-1, 2)
        cells.append(xy.astype(np.float32))
        steps.append(np.full((len(xy), 1), stride, np.float32))
    return np.concatenate(cells), np.concatenate(steps)


def _corners(boxes: Floats, form: BoxFormat) -> Floats:
    if form == "xyxy":
        return boxes
    half = boxes[:, 2:] / 2
    return np.concatenate([boxes[:, :2] - half, boxes[:, :2] + half], 1)

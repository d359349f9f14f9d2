"""Raw outputs of ONNX detectors -> boxes. One function per published output layout; pure numpy.

Every decoder gets the outputs by name and returns candidates in *input pixels* of the network (or already normalised
to the picture, see `Candidates.normalised`), before suppression. Layouts:

- `end_to_end`: separate outputs of labels, boxes and scores (DETR kind: DEIMv2, RT-DETR; also exported SSDs).
- `rows`: one tensor (1, N, 4 + [1] + C) or its transpose, boxes decoded by the graph (YOLOv5, YOLOv8 exports).
- `grid`: one tensor (1, N, 5 + C), boxes relative to grid cells of several strides (YOLOX: arXiv 2107.08430).
- `distribution`: per stride a score tensor (1, N, C) and a side-distance distribution (1, N, 4 (R + 1)) (generalised
  focal loss, arXiv 2006.04388: NanoDet, PicoDet).
- `cells`: one tensor (1, 5 + C, H, W): objectness, tanh offset, sigmoid size, class shares (FastestDet).
- `anchors`: class logits (1, N, 1 + C), background first, and offsets (1, N, 4) from default boxes (SSD: Liu et
  al. 2016, arXiv 1512.02325, section 2.2; torchvision's ssd and ssdlite).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge.core.detectors import BoxFormat, BoxUnits, OutputSpec
from edge.core.errors import WeightsError

Floats = NDArray[np.float32]

#: An SSD's offsets are given in parts of these (centre x and y, log of width and height); a box grows at most so far.
CODER = (10.0, 10.0, 5.0, 5.0)
LARGEST = float(np.log(1000.0 / 16))


@dataclass(frozen=True)
class Candidates:
    """Boxes xyxy float32 (N, 4) in `units`, scores float32 (N,), classes int64 (N,) before suppression."""

    boxes: Floats
    scores: Floats
    classes: NDArray[np.int64]
    units: BoxUnits


@dataclass(frozen=True)
class Rows:
    """Which columns of class scores count, and for what: `columns[i]` is a class of the detector that belongs to class
    `names[i]` of the answer. Several columns of one name are merged (the best counts) before suppression."""

    columns: NDArray[np.int64]
    names: NDArray[np.int64]
    count: int

    @staticmethod
    def build(table: Sequence[int]) -> Rows:
        """From a class map's table: of each class of the detector the class of the answer, or -1 for none."""
        names = np.asarray(table, np.int64)
        columns = np.flatnonzero(names >= 0)
        return Rows(columns, names[columns], len(names))

    def best(self, given: Floats) -> tuple[Floats, NDArray[np.int64]]:
        """Of class scores (N, C): the best score that counts (N,), and the class of the answer it is for (N,)."""
        mine = given[:, self.columns]
        if not mine.shape[1]:
            return np.zeros(len(given), np.float32), np.zeros(len(given), np.int64)
        at = mine.argmax(1)
        return mine[np.arange(len(mine)), at], self.names[at]


def decode(
    outputs: Mapping[str, NDArray[np.generic]],
    spec: OutputSpec,
    size: tuple[int, int],
    classes: int | Rows,
    score: float,
) -> Candidates:
    """Candidates with a score of at least `score`. `size` is the network input (width, height); `classes` is how many
    the detector has, or which of them count for what.

    Raises:
        WeightsError: the outputs do not have the layout that `spec` says.
    """
    classes = Rows.build(range(classes)) if isinstance(classes, int) else classes
    try:
        return _DECODERS[spec.kind](outputs, spec, size, classes, score)
    except (KeyError, ValueError, IndexError) as error:
        shapes = ", ".join(f"{name} {value.shape}" for name, value in outputs.items())
        raise WeightsError(
            f"the model's outputs do not fit output.kind {spec.kind!r} with {classes.count} classes ({error})",
            f"it gives: {shapes}",
        ) from error


def _end_to_end(
    outputs: Mapping[str, NDArray[np.generic]], spec: OutputSpec, size: tuple[int, int], classes: Rows, score: float
) -> Candidates:
    labels = outputs[spec.labels].reshape(-1).astype(np.int64) - spec.first_class
    boxes = outputs[spec.boxes].reshape(-1, 4).astype(np.float32)
    scores = outputs[spec.scores].reshape(-1).astype(np.float32)
    if not len(labels) == len(boxes) == len(scores):
        raise ValueError(f"{len(labels)} labels, {len(boxes)} boxes, {len(scores)} scores")
    names = np.full(classes.count, -1, np.int64)
    names[classes.columns] = classes.names
    known = (labels >= 0) & (labels < classes.count)
    named = np.where(known, names[np.where(known, labels, 0)], -1)
    keep = (scores >= score) & (named >= 0)
    return Candidates(_corners(boxes[keep], spec.box_format), scores[keep], named[keep], spec.box_units)


def _rows(
    outputs: Mapping[str, NDArray[np.generic]], spec: OutputSpec, size: tuple[int, int], classes: Rows, score: float
) -> Candidates:
    width = 4 + int(spec.objectness) + classes.count
    rows = _one_with(outputs, width)
    given = rows[:, 4 + int(spec.objectness) :]
    if spec.objectness:
        given = given * rows[:, 4:5]
    return _best_class(_corners(rows[:, :4], spec.box_format), given, classes, score, spec.box_units)


def _grid(
    outputs: Mapping[str, NDArray[np.generic]], spec: OutputSpec, size: tuple[int, int], classes: Rows, score: float
) -> Candidates:
    rows = _one_with(outputs, 5 + classes.count)
    cells, strides = _cells_of(size, spec.strides, np.floor_divide)
    if len(cells) != len(rows):
        raise ValueError(f"{len(rows)} rows, but strides {spec.strides} make {len(cells)} cells")
    # A cell without an object answers for no class: most are left out before their boxes are computed.
    likely = np.flatnonzero(rows[:, 4] >= score)
    rows, cells, strides = rows[likely], cells[likely], strides[likely]
    centre = (rows[:, :2] + cells) * strides
    half = np.exp(np.clip(rows[:, 2:4], -20, 20)) * strides / 2
    boxes = np.concatenate([centre - half, centre + half], 1)
    return _best_class(boxes, rows[:, 5:] * rows[:, 4:5], classes, score, "input")


def _distribution(
    outputs: Mapping[str, NDArray[np.generic]], spec: OutputSpec, size: tuple[int, int], classes: Rows, score: float
) -> Candidates:
    flat = [np.asarray(v, np.float32).reshape(-1, v.shape[-1]) for v in outputs.values()]
    counts = [int(np.ceil(size[0] / s)) * int(np.ceil(size[1] / s)) for s in spec.strides]
    boxes, scores, names = [], [], []
    for stride, count in zip(spec.strides, counts, strict=True):
        given = [v for v in flat if len(v) == count and v.shape[1] == classes.count]
        sides = [v for v in flat if len(v) == count and v.shape[1] != classes.count and v.shape[1] % 4 == 0]
        if len(given) != 1 or len(sides) != 1:
            raise ValueError(f"no pair of score and distance outputs with {count} cells for stride {stride}")
        best, named = classes.best(given[0])
        rows = np.flatnonzero(best >= score)
        cells, _ = _cells_of(size, (stride,), lambda n, s: -(-n // s))
        centre = (cells[rows] + spec.cell_centre) * stride
        bins = sides[0][rows].reshape(len(rows), 4, sides[0].shape[1] // 4)
        bins = np.exp(bins - bins.max(2, keepdims=True))
        distance = (bins / bins.sum(2, keepdims=True)) @ np.arange(bins.shape[2], dtype=np.float32) * stride
        boxes.append(np.concatenate([centre - distance[:, :2], centre + distance[:, 2:]], 1))
        names.append(named[rows])
        scores.append(best[rows])
    return Candidates(
        np.concatenate(boxes).astype(np.float32),
        np.concatenate(scores).astype(np.float32),
        np.concatenate(names).astype(np.int64),
        "input",
    )


def _cells(
    outputs: Mapping[str, NDArray[np.generic]], spec: OutputSpec, size: tuple[int, int], classes: Rows, score: float
) -> Candidates:
    value = np.asarray(next(iter(outputs.values())), np.float32)
    _, channels, height, width = value.shape
    if len(outputs) != 1 or channels != 5 + classes.count:
        raise ValueError(f"{channels} channels instead of {5 + classes.count}")
    rows = value[0].reshape(channels, -1).T
    cells = np.stack(np.meshgrid(np.arange(width), np.arange(height)), -1).reshape(-1, 2).astype(np.float32)
    scale = np.array([width, height], np.float32)
    centre = (np.tanh(rows[:, 1:3]) + cells) / scale
    half = 0.5 / (1 + np.exp(-np.clip(rows[:, 3:5], -30, 30)))
    # The published score weighs objectness and class share geometrically, objectness a little more.
    shares = rows[:, 5:]
    given = np.clip(rows[:, :1], 0, 1) ** 0.6 * np.clip(shares, 0, 1) ** 0.4
    pixels = np.array([size[0], size[1]] * 2, np.float32)
    return _best_class(np.concatenate([centre - half, centre + half], 1) * pixels, given, classes, score, "input")


def _anchors(
    outputs: Mapping[str, NDArray[np.generic]], spec: OutputSpec, size: tuple[int, int], classes: Rows, score: float
) -> Candidates:
    logits, deltas = (np.asarray(outputs[k], np.float32).reshape(-1, outputs[k].shape[-1]) for k in pair_of(outputs))
    centres, sizes, _ = default_boxes(spec, size)
    wanted = ((len(centres), 1 + classes.count), (len(centres), 4))
    if (logits.shape, deltas.shape) != wanted:
        raise ValueError(f"default boxes want {wanted[0]} and {wanted[1]}")
    shares = np.exp(logits - logits.max(1, keepdims=True))
    best, names = classes.best((shares / shares.sum(1, keepdims=True))[:, 1:])
    rows = np.flatnonzero(best >= score)
    given = deltas[rows] / np.asarray(CODER, np.float32)
    centre = centres[rows] + given[:, :2] * sizes[rows]
    half = np.exp(np.minimum(given[:, 2:], LARGEST)) * sizes[rows] / 2
    boxes = np.concatenate([centre - half, centre + half], 1).astype(np.float32)
    return Candidates(boxes, best[rows].astype(np.float32), names[rows].astype(np.int64), "input")


def pair_of(outputs: Mapping[str, Any]) -> tuple[str, str]:
    """Names of the class logits and of the box offsets of `anchors`: the output of four columns is the offsets; where
    both have four (three classes and the background), logits come first. Raises ValueError for anything else."""
    names = list(outputs)
    if len(names) != 2:
        raise ValueError(f"{len(names)} outputs instead of two")
    if outputs[names[1]].shape[-1] == 4:
        return names[0], names[1]
    return names[1], names[0]


def default_boxes(spec: OutputSpec, size: tuple[int, int]) -> tuple[Floats, Floats, Floats]:
    """Of `anchors` at an input of `size` (width, height): centres (N, 2), sizes (N, 2) and strides (N,) in its pixels.

    A map has ceil(side / stride) cells, which share the side evenly, as torchvision's DefaultBoxGenerator has it.
    """
    centres, sides, steps = [], [], []
    for stride, boxes in zip(spec.strides, spec.anchors, strict=True):
        across, down = -(-size[0] // stride), -(-size[1] // stride)
        xy = np.stack(np.meshgrid(np.arange(across), np.arange(down)), -1).reshape(-1, 2) + 0.5
        xy = xy * (size[0] / across, size[1] / down)
        centres.append(np.repeat(xy, len(boxes), 0))
        sides.append(np.tile(np.asarray(boxes), (len(xy), 1)))
        steps.append(np.full(len(xy) * len(boxes), stride))
    return tuple(np.concatenate(v).astype(np.float32) for v in (centres, sides, steps))  # type: ignore[return-value]


_Decoder = Callable[[Mapping[str, NDArray[np.generic]], OutputSpec, tuple[int, int], Rows, float], Candidates]
_DECODERS: Mapping[str, _Decoder] = {
    "end_to_end": _end_to_end,
    "rows": _rows,
    "grid": _grid,
    "distribution": _distribution,
    "cells": _cells,
    "anchors": _anchors,
}


def _best_class(boxes: Floats, given: Floats, classes: Rows, score: float, units: BoxUnits) -> Candidates:
    best, names = classes.best(given)
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

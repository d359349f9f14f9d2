"""Fusion of several detectors' answers, and tiles. Pure numpy; boxes are xyxy in any one unit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edge.core.vision import Detections
from edge.detectors.boxes import iou_matrix

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Fused:
    """Boxes fused from M detectors; `agreement` float32 (N,) is the weight share of detectors that saw the object."""

    detections: Detections
    agreement: Floats


def fuse(members: Sequence[Detections], weights: Sequence[float], iou: float, limit: int = 300) -> Fused:
    """Weighted boxes fusion of several detectors' answers on one picture, all in the same class list.

    After Solovyev, Wang, Gabruska 2021 (arXiv 1910.13302 §3): boxes are taken from best to worst; each joins the
    cluster of its class whose fused box it overlaps most, if above `iou`, else it starts one. The fused box is the
    mean of the cluster's boxes weighted by score times detector weight. Where we differ: a cluster's score is the
    weighted mean over *detectors* (each with its best box in the cluster, 0 for those that saw nothing), so two
    boxes of one detector never raise it above what one would give.
    """
    total = float(sum(weights))
    rows = [(float(d.scores[i]), m, i) for m, d in enumerate(members) for i in range(len(d))]
    rows.sort(key=lambda r: (-r[0] * weights[r[1]], r[1], r[2]))
    boxes = np.zeros((len(rows), 4), np.float64)  # fused box per cluster; a cluster is a row
    sums = np.zeros((len(rows), 4), np.float64)
    mass = np.zeros(len(rows))
    names = np.full(len(rows), -1, np.int64)
    best = np.zeros((len(rows), len(members)))
    used = 0
    for score, m, i in rows:
        box, name = members[m].boxes[i].astype(np.float64), int(members[m].classes[i])
        same = np.flatnonzero(names[:used] == name)
        target = -1
        if len(same):
            overlap = iou_matrix(box[None].astype(np.float32), boxes[same].astype(np.float32))[0]
            if float(overlap.max()) > iou:
                target = int(same[int(overlap.argmax())])
        if target < 0:
            target, used = used, used + 1
            names[target] = name
        part = max(score * weights[m], 1e-9)
        sums[target] += part * box
        mass[target] += part
        boxes[target] = sums[target] / mass[target]
        best[target, m] = max(best[target, m], score)
    share = np.asarray(weights, np.float64) / total
    scores = best[:used] @ share
    agreement = (best[:used] > 0) @ share
    order = np.argsort(-scores, kind="stable")[:limit]
    return Fused(
        Detections.build(boxes[order], np.clip(scores[order], 0, 1), names[order]),
        agreement[order].astype(np.float32),
    )


@dataclass(frozen=True)
class Tile:
    """A part of the picture in pixels: x0, y0 (in), x1, y1 (out)."""

    x0: int
    y0: int
    x1: int
    y1: int


def tiles(width: int, height: int, columns: int, rows: int, overlap: float) -> tuple[Tile, ...]:
    """`columns` x `rows` tiles that cover the picture; neighbours share `overlap` (0 to 0.5) of a tile's side."""

    def cuts(size: int, count: int) -> list[tuple[int, int]]:
        side = min(float(size), size / (count - (count - 1) * overlap))
        step = 0.0 if count == 1 else (size - side) / (count - 1)
        return [(round(k * step), min(size, round(k * step + side))) for k in range(count)]

    return tuple(Tile(x0, y0, x1, y1) for y0, y1 in cuts(height, rows) for x0, x1 in cuts(width, columns))


def from_tile(
    found: Detections, tile: Tile, width: int, height: int, border: float = 0.01
) -> tuple[Detections, NDArray[np.bool_]]:
    """A tile's detections in the whole picture's normalised units, and the mask (N,) of those that were kept.

    Boxes that touch an *inner* side of the tile (within `border` of its size) are cut-off objects: left out, since
    the neighbouring tile or the whole picture shows them better.
    """
    b = found.boxes
    cut = (
        ((b[:, 0] < border) & (tile.x0 > 0))
        | ((b[:, 1] < border) & (tile.y0 > 0))
        | ((b[:, 2] > 1 - border) & (tile.x1 < width))
        | ((b[:, 3] > 1 - border) & (tile.y1 < height))
    )
    size = np.array([tile.x1 - tile.x0, tile.y1 - tile.y0] * 2, np.float32)
    corner = np.array([tile.x0, tile.y0] * 2, np.float32)
    scale = np.array([width, height] * 2, np.float32)
    whole = found.select(~cut)
    return Detections.build((whole.boxes * size + corner) / scale, whole.scores, whole.classes), ~cut

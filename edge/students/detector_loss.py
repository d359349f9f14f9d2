"""The training loss of a published detector: its answers decoded with gradients, and a loss on the decoded answers.

The same loss serves every layout, since it sees boxes and class scores only. Matching: SimOTA (Ge et al. 2021, YOLOX,
section 2.2). Scores: quality focal loss (Li et al. 2020, Generalized Focal Loss, equation 5). Boxes: GIoU (Rezatofighi
et al. 2019).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torchvision.ops import box_iou, generalized_box_iou_loss

from edge.core.detectors import OutputSpec
from edge.core.errors import WeightsError
from edge.detectors.decoding import CODER, LARGEST, default_boxes, pair_of

#: Layouts that can be trained.
TRAINABLE = ("grid", "distribution", "anchors")
CANDIDATES, CENTRE_CELLS = 10, 2.5
SCORE_COST, BOX_COST = 0.5, 3.0
LEAST_TARGET, FOCUS, BOX_WEIGHT, LEAST_POSITIVES = 0.05, 2.0, 2.0, 4.0
_EPS = 1e-6


@dataclass(frozen=True)
class Decoded:
    """Of a batch: boxes (B, N, 4) xyxy in input pixels, scores (B, N, K) of the camera's classes; of each cell its
    centre (N, 2) in input pixels and its stride (N,)."""

    boxes: Tensor
    scores: Tensor
    centres: Tensor
    strides: Tensor


@dataclass(frozen=True)
class Objects:
    """Of one picture: boxes (M, 4) xyxy in input pixels, classes (M,), weights (M,); `left_out` (L, 4) are places of
    which nothing is known."""

    boxes: Tensor
    classes: Tensor
    weights: Tensor
    left_out: Tensor

    def to(self, device: str) -> Objects:
        """The same on another device."""
        return Objects(*(t.to(device) for t in (self.boxes, self.classes, self.weights, self.left_out)))


class Decoder:
    """Raw outputs -> `Decoded`, with gradients. `table` says of each of the detector's classes which class of the
    camera it is (-1: none); a class' score is the best of its members, so an untrained detector answers as its
    download."""

    def __init__(self, output: OutputSpec, table: Sequence[int], classes: int) -> None:
        """Raises WeightsError if the layout cannot be trained."""
        if output.kind not in TRAINABLE:
            raise WeightsError(
                f"output.kind {output.kind!r} cannot be trained", f"layouts that can: {', '.join(TRAINABLE)}"
            )
        self._output, self._offered = output, len(table)
        self._members = [torch.tensor([n for n, k in enumerate(table) if k == c]) for c in range(classes)]

    def __call__(self, values: Mapping[str, Tensor], size: tuple[int, int]) -> Decoded:
        """`values` by name, `size` the input (height, width)."""
        decode = {"grid": self._grid, "anchors": self._anchors}.get(self._output.kind, self._distribution)
        boxes, given, centres, strides = decode(values, size)
        merged = [given[..., m].amax(-1) if len(m) else given[..., 0] * 0.0 for m in self._members]
        return Decoded(boxes, torch.stack(merged, -1), centres, strides)

    def _grid(self, values: Mapping[str, Tensor], size: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        rows = next(iter(values.values()))
        if rows.shape[-1] != 5 + self._offered:
            rows = rows.transpose(1, 2)
        corners, strides = _cells(size, self._output.strides, rows, ceil=False)
        centre = (rows[..., :2] + corners) * strides[:, None]
        half = rows[..., 2:4].clamp(-20, 12).exp() * strides[:, None] / 2
        boxes = torch.cat([centre - half, centre + half], -1)
        return boxes, rows[..., 5:] * rows[..., 4:5], (corners + 0.5) * strides[:, None], strides

    def _distribution(
        self, values: Mapping[str, Tensor], size: tuple[int, int]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        boxes, given, centres, strides = [], [], [], []
        for stride in self._output.strides:
            count = -(-size[0] // stride) * -(-size[1] // stride)
            flat = [v.reshape(v.shape[0], -1, v.shape[-1]) for v in values.values()]
            scores = next(v for v in flat if v.shape[1] == count and v.shape[2] == self._offered)
            sides = next(v for v in flat if v.shape[1] == count and v.shape[2] != self._offered)
            corners, steps = _cells(size, (stride,), scores, ceil=True)
            centre = (corners + self._output.cell_centre) * stride
            bins = sides.reshape(sides.shape[0], count, 4, -1).softmax(-1)
            distance = (bins * torch.arange(bins.shape[-1], device=bins.device)).sum(-1) * stride
            boxes.append(torch.cat([centre - distance[..., :2], centre + distance[..., 2:]], -1))
            given.append(scores)
            centres.append(centre)
            strides.append(steps)
        return torch.cat(boxes, 1), torch.cat(given, 1), torch.cat(centres), torch.cat(strides)

    def _anchors(self, values: Mapping[str, Tensor], size: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        logits, deltas = (values[k] for k in pair_of(values))
        centres, sizes, strides = (
            torch.from_numpy(v).to(deltas) for v in default_boxes(self._output, (size[1], size[0]))
        )
        given = deltas / deltas.new_tensor(CODER)
        centre = centres + given[..., :2] * sizes
        half = given[..., 2:].clamp(max=LARGEST).exp() * sizes / 2
        return torch.cat([centre - half, centre + half], -1), logits.softmax(-1)[..., 1:], centres, strides


def _cells(size: tuple[int, int], strides: Sequence[int], like: Tensor, ceil: bool) -> tuple[Tensor, Tensor]:
    """Cell coordinates (N, 2) as x, y, row by row, and strides (N,), over all strides in order."""
    corners, steps = [], []
    for stride in strides:
        high, wide = (-(-s // stride) if ceil else s // stride for s in size)
        y, x = torch.meshgrid(torch.arange(high), torch.arange(wide), indexing="ij")
        corners.append(torch.stack([x, y], -1).reshape(-1, 2).to(like))
        steps.append(torch.full((high * wide,), float(stride)).to(like))
    return torch.cat(corners), torch.cat(steps)


def published_loss(found: Decoded, wanted: Sequence[Objects]) -> Tensor:
    """The loss of a batch, over its number of positive cells (at least 4)."""
    total, positives = found.boxes.new_zeros(()), 0
    for n, objects in enumerate(wanted):
        boxes, scores = found.boxes[n], found.scores[n].clamp(_EPS, 1 - _EPS)
        usable = torch.ones(len(boxes), dtype=torch.bool, device=boxes.device)
        if len(objects.left_out):
            usable &= ~_near(found, objects.left_out).any(0)
        target = torch.zeros_like(scores)
        weight = torch.ones_like(scores)
        if len(objects.boxes):
            with torch.no_grad():
                cell, owner, overlap = _matched(boxes.detach(), scores.detach(), found, objects)
            if len(cell):
                usable[cell] = True
                klass, trust = objects.classes[owner], objects.weights[owner]
                target[cell, klass] = overlap.clamp(min=LEAST_TARGET)
                weight[cell] = trust[:, None]
                giou = generalized_box_iou_loss(boxes[cell], objects.boxes[owner], reduction="none")
                total = total + BOX_WEIGHT * (giou * trust).sum()
                positives += len(cell)
        entropy = -(target * scores.log() + (1 - target) * (1 - scores).log())
        focal = entropy * (target - scores).detach().abs() ** FOCUS * weight
        total = total + focal[usable].sum()
    return total / max(LEAST_POSITIVES, float(positives))


def _near(found: Decoded, boxes: Tensor) -> Tensor:
    """(M, N): whether a cell's centre lies in a box or within the centre radius of it."""
    x, y = found.centres[None, :, 0], found.centres[None, :, 1]
    inside = (x > boxes[:, None, 0]) & (x < boxes[:, None, 2]) & (y > boxes[:, None, 1]) & (y < boxes[:, None, 3])
    middle = (boxes[:, :2] + boxes[:, 2:]) / 2
    reach = CENTRE_CELLS * found.strides[None]
    close = ((x - middle[:, None, 0]).abs() < reach) & ((y - middle[:, None, 1]).abs() < reach)
    return inside | close


def _matched(boxes: Tensor, scores: Tensor, found: Decoded, objects: Objects) -> tuple[Tensor, Tensor, Tensor]:
    """SimOTA: cells (P,), the object that each answers for (P,), and the overlap reached (P,)."""
    allowed = _near(found, objects.boxes)
    middle = (objects.boxes[:, :2] + objects.boxes[:, 2:]) / 2
    reach = CENTRE_CELLS * found.strides[None]
    offset = (found.centres[None] - middle[:, None]).abs()
    central = (offset[..., 0] < reach) & (offset[..., 1] < reach)
    candidates = allowed.any(0).nonzero().squeeze(1)
    if not len(candidates):
        empty = candidates.new_zeros(0)
        return empty, empty, boxes.new_zeros(0)
    overlap = box_iou(objects.boxes, boxes[candidates])
    given = scores[candidates][:, objects.classes].T
    cost = -SCORE_COST * given.log() - BOX_COST * (overlap + 1e-3).log()
    cost = cost + 1e3 * (~(allowed & central)[:, candidates]).float()
    wanted = overlap.topk(min(CANDIDATES, overlap.shape[1]), 1).values.sum(1).int().clamp(min=1)
    chosen = torch.zeros_like(cost, dtype=torch.bool)
    for m, count in enumerate(wanted.tolist()):
        chosen[m, cost[m].topk(min(count, cost.shape[1]), largest=False).indices] = True
    crowded = chosen.sum(0) > 1
    if crowded.any():
        best = cost[:, crowded].argmin(0)
        chosen[:, crowded] = False
        chosen[best, crowded.nonzero().squeeze(1)] = True
    owner, cell = chosen.nonzero(as_tuple=True)
    return candidates[cell], owner, overlap[owner, cell]

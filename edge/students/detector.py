"""The detection student: SSDLite on MobileNetV3 with a light top-down path, and its loss.

Source: SSD (Liu et al. 2016: matching, hard negative mining, box encoding) and SSDLite (depthwise separable heads,
MobileNetV2 section 6.2), built from torchvision's MobileNetV3 and box utilities. Two things differ from torchvision's
ssdlite320, both for small far objects: the finest map has stride 8, enriched by a top-down path, and anchors have sizes
in input pixels, so that a lower resolution moves an object to a finer map instead of changing how it looks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torchvision.models import mobilenet_v3_large
from torchvision.ops import Conv2dNormActivation, batched_nms, box_iou

from edge.core.configs import Layers, StudentSpec
from edge.core.vision import Detections
from edge.students.network import Activations, StudentNet

STRIDES = (8, 16, 32, 64)
# Side (square root of the area) of the smallest anchor in input pixels, and the step between neighbouring sizes.
SMALLEST_PX, SIZE_STEP, SIZES_PER_LEVEL = 9.0, 1.5, 2
# Width over height: lying vehicles, compact ones, standing people.
ASPECTS = (2.0, 1.0, 0.45)
# Box encoding variances of SSD.
CODER = (10.0, 10.0, 5.0, 5.0)
MATCH_IOU, IGNORE_IOU, FORCED, FORCED_IOU = 0.5, 0.4, 2, 0.2
NEGATIVES_PER_POSITIVE, LEAST_NEGATIVES = 3, 16
MAX_CANDIDATES, MAX_OBJECTS = 300, 100
NMS_IOU = 0.55

# Indices into MobileNetV3-large's features: ends of the stages with stride 8, 16 and 32.
STAGE_ENDS = (7, 13, 17)


def _separable(channels: int, out: int, stride: int = 1) -> nn.Sequential:
    """A depthwise 3x3 and a pointwise convolution, each normalised."""
    return nn.Sequential(
        Conv2dNormActivation(
            channels, channels, 3, stride, groups=channels, norm_layer=nn.BatchNorm2d, activation_layer=None
        ),
        Conv2dNormActivation(channels, out, 1, norm_layer=nn.BatchNorm2d, activation_layer=nn.Hardswish),
    )


class DetectionNet(StudentNet):
    """Output of `forward`: class logits (B, A, C + 1), background last, and box deltas (B, A, 4) for A anchors."""

    def __init__(self, spec: StudentSpec) -> None:
        super().__init__()
        self.spec = spec
        # The full tail only at full width, where torchvision's published backbone fits.
        backbone = mobilenet_v3_large(weights=None, width_mult=spec.width, reduced_tail=spec.width < 1.0)
        self.features: nn.Sequential = backbone.features
        channels = self._channels()
        neck = 64 if spec.width < 1.0 else 96
        self.lateral = nn.ModuleList(nn.Conv2d(c, neck, 1) for c in channels)
        self.smooth = nn.ModuleList(_separable(neck, neck) for _ in channels)
        self.coarser = _separable(neck, neck, stride=2)
        anchors = SIZES_PER_LEVEL * len(ASPECTS)
        hidden = spec.last_layer_width or neck
        self.class_tower = nn.Sequential(_separable(neck, neck), _separable(neck, hidden))
        self.class_out = nn.Conv2d(hidden, anchors * (len(spec.classes) + 1), 1)
        self.box_tower = nn.Sequential(_separable(neck, neck), _separable(neck, neck))
        self.box_out = nn.Conv2d(neck, anchors * 4, 1)
        self._start()
        for module in self.modules():
            if isinstance(module, nn.BatchNorm2d):
                # MobileNetV3's own 0.01 needs hundreds of steps to follow; a retraining has tens.
                module.momentum = 0.1
        self._anchors: dict[tuple[int, int, str], Tensor] = {}

    def _channels(self) -> list[int]:
        probe = torch.zeros(1, 3, 64, 64)
        was_training = self.training
        self.eval()
        with torch.no_grad():
            out = [f.shape[1] for f in self.run_last_stage(self.run_stem(probe))]
        self.train(was_training)
        return out

    def _start(self) -> None:
        for layer in (*self.lateral, self.class_out, self.box_out):
            nn.init.normal_(layer.weight, std=0.03)
            nn.init.zeros_(layer.bias)
        # Nearly every anchor is background: say so from the start.
        start = torch.zeros(SIZES_PER_LEVEL * len(ASPECTS), len(self.spec.classes) + 1)
        start[:, -1] = 3.0
        self.class_out.bias = nn.Parameter(start.flatten())

    def run_stem(self, x: Tensor) -> Activations:
        """(B, 3, h, w) -> maps of stride 8 and 16."""
        third = x
        for n in range(STAGE_ENDS[0]):
            third = self.features[n](third)
        fourth = third
        for n in range(STAGE_ENDS[0], STAGE_ENDS[1]):
            fourth = self.features[n](fourth)
        return third, fourth

    def run_last_stage(self, stem: Activations) -> Activations:
        """Maps of stride 8 and 16 -> maps of stride 8, 16 and 32."""
        fifth = stem[1]
        for n in range(STAGE_ENDS[1], STAGE_ENDS[2]):
            fifth = self.features[n](fifth)
        return stem[0], stem[1], fifth

    def run_head(self, features: Activations) -> Activations:
        """Maps of stride 8, 16 and 32 -> (logits, deltas) over all anchors."""
        maps = [lateral(f) for lateral, f in zip(self.lateral, features, strict=True)]
        for n in (1, 0):
            maps[n] = maps[n] + F.interpolate(maps[n + 1], size=maps[n].shape[-2:], mode="nearest")
        levels = [smooth(m) for smooth, m in zip(self.smooth, maps, strict=True)]
        levels.append(self.coarser(levels[-1]))
        logits = [self._flat(self.class_out(self.class_tower(m)), len(self.spec.classes) + 1) for m in levels]
        deltas = [self._flat(self.box_out(self.box_tower(m)), 4) for m in levels]
        return torch.cat(logits, 1), torch.cat(deltas, 1)

    @staticmethod
    def _flat(x: Tensor, last: int) -> Tensor:
        return x.permute(0, 2, 3, 1).reshape(x.shape[0], -1, last)

    def parts(self, layers: Layers) -> Sequence[nn.Module]:
        head = [
            self.lateral, self.smooth, self.coarser, self.class_tower, self.class_out, self.box_tower, self.box_out,
        ]  # fmt: skip
        if layers == "head":
            return head
        if layers == "last_stage":
            return [*(self.features[n] for n in range(STAGE_ENDS[1], STAGE_ENDS[2])), *head]
        return [self]

    def anchors(self, size: tuple[int, int]) -> Tensor:
        """Anchors (A, 4) as centre x, centre y, width, height in input pixels, for an input of `size` (h, w)."""
        device = self.class_out.weight.device
        key = (*size, str(device))
        if key not in self._anchors:
            self._anchors[key] = _grid(size).to(device)
        return self._anchors[key]

    @torch.no_grad()
    def decode(self, output: Activations, size: tuple[int, int], score: float) -> list[Detections]:
        """Objects with a score of at least `score`, best first, at most 100 per picture.

        Overlapping answers are thinned across classes: one object is not a car and a truck at once.
        """
        logits, deltas = output
        scores, classes = logits.float().softmax(-1)[..., :-1].max(-1)
        height, width = size
        scale = torch.tensor([width, height, width, height], dtype=torch.float32, device=logits.device)
        anchors = self.anchors(size)
        found = []
        for one_scores, one_classes, one_deltas in zip(scores, classes, deltas.float(), strict=True):
            candidates = (one_scores >= score).nonzero().squeeze(1)
            if len(candidates) > MAX_CANDIDATES:
                candidates = candidates[one_scores[candidates].topk(MAX_CANDIDATES).indices]
            boxes = _decode(one_deltas[candidates], anchors[candidates]) / scale
            boxes = boxes.clamp_(0.0, 1.0)
            kept_scores = one_scores[candidates]
            solid = ((boxes[:, 2] - boxes[:, 0]) > 1e-3) & ((boxes[:, 3] - boxes[:, 1]) > 1e-3)
            boxes, kept_scores, candidates = boxes[solid], kept_scores[solid], candidates[solid]
            one_group = torch.zeros(len(boxes), dtype=torch.int64, device=boxes.device)
            keep = batched_nms(boxes, kept_scores, one_group, NMS_IOU)[:MAX_OBJECTS]
            found.append(
                Detections(
                    boxes[keep].cpu().numpy().astype(np.float32),
                    kept_scores[keep].cpu().numpy().astype(np.float32),
                    one_classes[candidates[keep]].cpu().numpy().astype(np.int64),
                )
            )
        return found


def _grid(size: tuple[int, int]) -> Tensor:
    levels = []
    for n, stride in enumerate(STRIDES):
        # Each coarser map is half the finer one, rounded up, as strided convolutions with padding make it.
        rows, columns = (math.ceil(side / stride) for side in size)
        shapes = []
        for k in range(SIZES_PER_LEVEL):
            side = SMALLEST_PX * SIZE_STEP ** (n * SIZES_PER_LEVEL + k)
            shapes += [(side * math.sqrt(a), side / math.sqrt(a)) for a in ASPECTS]
        y, x = torch.meshgrid(torch.arange(rows) + 0.5, torch.arange(columns) + 0.5, indexing="ij")
        centres = torch.stack([x, y], -1).reshape(-1, 1, 2) * stride
        sides = torch.tensor(shapes).reshape(1, -1, 2)
        pairs = torch.cat([centres.expand(-1, len(shapes), 2), sides.expand(len(centres), -1, 2)], -1)
        levels.append(pairs.reshape(-1, 4))
    return torch.cat(levels)


def _corners(boxes: Tensor) -> Tensor:
    centre, half = boxes[:, :2], boxes[:, 2:] / 2
    return torch.cat([centre - half, centre + half], -1)


def _decode(deltas: Tensor, anchors: Tensor) -> Tensor:
    weights = deltas.new_tensor(CODER)
    d = deltas / weights
    centre = anchors[:, :2] + d[:, :2] * anchors[:, 2:]
    sides = anchors[:, 2:] * d[:, 2:].clamp(max=4.0).exp()
    return _corners(torch.cat([centre, sides], -1))


@dataclass(frozen=True)
class Matched:
    """Which anchors answer for which object of one picture (sparse): indices (P,), classes (P,), deltas (P, 4) and
    weights (P,) of the positive anchors, and the indices (I,) of those that are neither positive nor background."""

    index: Tensor
    classes: Tensor
    deltas: Tensor
    weights: Tensor
    ignored: Tensor


def match_targets(
    net: DetectionNet, size: tuple[int, int], labels: Detections, weights: NDArray[np.float32] | None = None
) -> Matched:
    """Match the golden objects of a picture to the anchors of an input of `size` (height, width).

    An anchor is positive at IoU 0.5 with an object or when it is one of the two best of an object; between 0.4 and 0.5
    it is left out. `weights` (N,) scale the objects' losses; by default the labels' confidence.
    """
    anchors = net.anchors(size)
    device = anchors.device
    if len(labels) == 0:
        none = torch.zeros(0, dtype=torch.int64, device=device)
        return Matched(none, none, anchors.new_zeros((0, 4)), anchors.new_zeros(0), none)
    height, width = size
    scale = torch.tensor([width, height, width, height], dtype=torch.float32, device=device)
    boxes = torch.from_numpy(labels.boxes).to(device) * scale
    iou = box_iou(boxes, _corners(anchors))
    best, owner = iou.max(0)
    ignored = (best >= IGNORE_IOU) & (best < MATCH_IOU)
    positive = best >= MATCH_IOU
    forced_iou, forced = iou.topk(FORCED, dim=1)
    # The single best anchor of an object always belongs to it, however badly it fits; later objects do not take it.
    for rank in range(FORCED - 1, -1, -1):
        wanted = (forced_iou[:, rank] >= FORCED_IOU) | (rank == 0)
        owner[forced[wanted, rank]] = wanted.nonzero().squeeze(1)
        positive[forced[wanted, rank]] = True
    index = positive.nonzero().squeeze(1)
    own = owner[index]
    mine = anchors[index]
    target = boxes[own]
    sides = (target[:, 2:] - target[:, :2]).clamp(min=1.0)
    centre = (target[:, 2:] + target[:, :2]) / 2
    deltas = torch.cat([(centre - mine[:, :2]) / mine[:, 2:], (sides / mine[:, 2:]).log()], -1)
    trust = labels.scores if weights is None else weights
    return Matched(
        index,
        torch.from_numpy(labels.classes).to(device)[own],
        deltas * deltas.new_tensor(CODER),
        torch.from_numpy(np.asarray(trust, np.float32)).to(device)[own],
        (ignored & ~positive).nonzero().squeeze(1),
    )


def detection_loss(output: Activations, targets: Sequence[Matched]) -> Tensor:
    """The multibox loss of SSD: smooth L1 on the positives' boxes plus cross entropy on the positives and the three
    times as many hardest negatives, over the (weighted) number of positives."""
    logits, deltas = output
    batch, count, classes = logits.shape
    labels = torch.full((batch, count), classes - 1, dtype=torch.int64, device=logits.device)
    weights = logits.new_ones((batch, count))
    usable = torch.ones((batch, count), dtype=torch.bool, device=logits.device)
    for n, t in enumerate(targets):
        labels[n, t.index] = t.classes
        weights[n, t.index] = t.weights
        usable[n, t.ignored] = False
    picture = torch.cat([torch.full_like(t.index, n) for n, t in enumerate(targets)])
    anchor = torch.cat([t.index for t in targets])
    wanted = torch.cat([t.deltas for t in targets])
    trust = torch.cat([t.weights for t in targets])
    box = F.smooth_l1_loss(deltas[picture, anchor], wanted, reduction="none").sum(-1)
    entropy = F.cross_entropy(logits.reshape(-1, classes), labels.reshape(-1), reduction="none").view(batch, count)
    positive = labels != classes - 1
    with torch.no_grad():
        hardness = entropy.detach().masked_fill(positive | ~usable, -1.0).reshape(-1)
        wanted_negatives = max(NEGATIVES_PER_POSITIVE * int(positive.sum()), LEAST_NEGATIVES * batch)
        hard = hardness.topk(min(wanted_negatives, hardness.numel())).indices
        chosen = torch.zeros_like(hardness, dtype=torch.bool)
        chosen[hard] = hardness[hard] > 0
        chosen = chosen.view(batch, count)
    total = (entropy * weights)[positive].sum() + entropy[chosen].sum() + (box * trust).sum()
    return total / trust.sum().clamp(min=1.0)

"""The demo's own teacher: a small FCOS detector trained from scratch on the procedural street scene.

FCOS (Tian et al., "FCOS: Fully Convolutional One-Stage Object Detection", ICCV 2019) as built by torchvision, on a
residual backbone of half ResNet18's width with a three-level feature pyramid: 1.6 million weights, stored as fp16.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.fcos import FCOS, FCOSHead
from torchvision.models.resnet import BasicBlock
from torchvision.ops import FeaturePyramidNetwork, nms

from edge.core.errors import InvalidValue, WeightsError
from edge.core.vision import Detections

_PYRAMID = 64
_SAME_OBJECT_IOU = 0.7


@dataclass(frozen=True)
class TeacherSpec:
    """Shape of the teacher network: class names, input size in pixels (multiples of 32), backbone widths, score
    threshold of an answer (0-1)."""

    classes: tuple[str, ...]
    width: int = 384
    height: int = 224
    widths: tuple[int, int, int, int] = (32, 64, 128, 192)
    score: float = 0.48

    @staticmethod
    def from_json(value: dict[str, Any]) -> TeacherSpec:
        """Reads the `spec` object of a sidecar file.

        :raises KeyError, TypeError, ValueError: when it is not one.
        """
        a, b, c, d = (int(v) for v in value["widths"])
        return TeacherSpec(
            classes=tuple(str(v) for v in value["classes"]),
            width=int(value["width"]),
            height=int(value["height"]),
            widths=(a, b, c, d),
            score=float(value["score"]),
        )

    def to_json(self) -> dict[str, Any]:
        """Inverse of `from_json`."""
        return {
            "classes": list(self.classes),
            "width": self.width,
            "height": self.height,
            "widths": list(self.widths),
            "score": self.score,
        }


class _Backbone(nn.Module):
    """Residual stages with strides 4, 8, 16, 32 and a pyramid over the last three."""

    out_channels = _PYRAMID

    def __init__(self, widths: tuple[int, int, int, int]) -> None:
        super().__init__()
        first = widths[0]
        self.stem = nn.Sequential(
            nn.Conv2d(3, first, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(first),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
        )
        stages = []
        before = first
        for i, width in enumerate(widths):
            down = None
            stride = 1 if i == 0 else 2
            if stride != 1 or before != width:
                down = nn.Sequential(nn.Conv2d(before, width, 1, stride=stride, bias=False), nn.BatchNorm2d(width))
            stages.append(nn.Sequential(BasicBlock(before, width, stride, down), BasicBlock(width, width)))
            before = width
        self.stages = nn.ModuleList(stages)
        self.pyramid = FeaturePyramidNetwork(list(widths[1:]), _PYRAMID)

    def forward(self, x: Tensor) -> OrderedDict[str, Tensor]:
        x = self.stem(x)
        levels: OrderedDict[str, Tensor] = OrderedDict()
        for i, stage in enumerate(self.stages):
            x = stage(x)
            if i > 0:
                levels[str(i - 1)] = x
        out: OrderedDict[str, Tensor] = self.pyramid(levels)
        return out


def build_network(spec: TeacherSpec) -> FCOS:
    """The untrained network of a spec. Input of its `backbone`: float32 (B, 3, height, width), RGB in -1..1."""
    count = len(spec.classes)
    anchors = AnchorGenerator(((8,), (16,), (32,)), ((1.0,),) * 3)
    return FCOS(
        _Backbone(spec.widths),
        num_classes=count,
        min_size=spec.height,
        max_size=spec.width,
        image_mean=[0.5, 0.5, 0.5],
        image_std=[0.5, 0.5, 0.5],
        anchor_generator=anchors,
        head=FCOSHead(_PYRAMID, 1, count, num_convs=2),
        score_thresh=0.05,
        nms_thresh=0.55,
        detections_per_img=100,
        fixed_size=(spec.width, spec.height),
    )


def to_input(picture: np.ndarray, spec: TeacherSpec) -> np.ndarray:
    """A picture (uint8 RGB (H, W, 3)) at the network's size, uint8 (height, width, 3)."""
    if picture.shape[:2] == (spec.height, spec.width):
        return picture
    return cv2.resize(picture, (spec.width, spec.height), interpolation=cv2.INTER_AREA)


class DemoTeacher:
    """Labels pictures of the demo scene.

    `weights` is the `.safetensors` file; its sidecar (same name, `.json`) says which classes and shape it has.
    `device` is a torch device; `threads` sets torch's CPU threads of the whole process when given.

    :raises WeightsError: when a file is missing, damaged, or does not fit its sidecar; names the file.
    """

    def __init__(self, weights: Path, device: str = "cpu", threads: int | None = None) -> None:
        self.weights = Path(weights)
        if threads is not None:
            torch.set_num_threads(threads)
        self.spec, self._network = _load(self.weights)
        self.classes: tuple[str, ...] = self.spec.classes
        self._device = torch.device(device)
        self._network.to(self._device)
        if self._device.type == "cpu":
            self._network.to(memory_format=torch.channels_last)

    def label(self, picture: np.ndarray) -> Detections:
        """Objects on a picture (uint8 RGB (H, W, 3)) scored above the sidecar's threshold; classes index
        `self.classes`.

        :raises InvalidValue: when the picture has another shape or type.
        """
        if picture.ndim != 3 or picture.shape[2] != 3 or picture.dtype != np.uint8:
            raise InvalidValue("picture", f"{picture.dtype}{picture.shape}", "uint8 RGB of shape (H, W, 3)")
        small = torch.from_numpy(np.ascontiguousarray(to_input(picture, self.spec))).to(self._device)
        with torch.inference_mode():
            found = self._network([small.permute(2, 0, 1).float() / 255.0])[0]
        size = torch.tensor([self.spec.width, self.spec.height] * 2, device=self._device)
        found = {name: value[found["scores"] >= self.spec.score] for name, value in found.items()}
        keep = nms(found["boxes"], found["scores"], _SAME_OBJECT_IOU)  # one object has one class
        return Detections.build(
            (found["boxes"][keep] / size).cpu().numpy(),
            found["scores"][keep].cpu().numpy(),
            found["labels"][keep].cpu().numpy(),
        )


def _load(weights: Path) -> tuple[TeacherSpec, FCOS]:
    sidecar = weights.with_suffix(".json")
    for path in (weights, sidecar):
        if not path.is_file():
            raise WeightsError(f"{path}: the demo teacher's file is missing")
    try:
        spec = TeacherSpec.from_json(json.loads(sidecar.read_text(encoding="utf-8"))["spec"])
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise WeightsError(f"{sidecar}: not a sidecar of the demo teacher ({error})") from error
    network = build_network(spec)
    try:
        tensors = {name: tensor.float() for name, tensor in load_file(weights).items()}
        damaged = [name for name, tensor in tensors.items() if not bool(torch.isfinite(tensor).all())]
        if damaged:
            raise WeightsError(f"{weights}: {damaged[0]} holds numbers that are not finite")
        state = network.state_dict()
        state.update(tensors)
        missing = [n for n in network.state_dict() if n not in tensors and not n.endswith("num_batches_tracked")]
        if missing:
            raise WeightsError(f"{weights}: lacks {len(missing)} tensors, {missing[0]} first")
        network.load_state_dict(state)
    except (OSError, SafetensorError, RuntimeError) as error:
        raise WeightsError(f"{weights}: cannot be read as the demo teacher's weights ({error})") from error
    network.eval()
    return spec, network

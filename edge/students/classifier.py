"""The classification students: ResNet18, MobileNetV2 and ShuffleNetV2 on cut-outs, each with a width and a hidden
last layer. The output has the camera's classes in order and the background last."""

from __future__ import annotations

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.models import ShuffleNetV2, mobilenet_v2
from torchvision.models.resnet import BasicBlock

from edge.core.configs import Layers, StudentSpec
from edge.students.network import Activations, StudentNet, even

# Channels of the published ShuffleNetV2 sizes: stem, three stages, last convolution.
SHUFFLENET_CHANNELS = {
    0.5: [24, 48, 96, 192, 1024],
    1.0: [24, 116, 232, 464, 1024],
    1.5: [24, 176, 352, 704, 1024],
    2.0: [24, 244, 488, 976, 2048],
}


def _resnet18(width: float) -> tuple[nn.Module, nn.Module, int]:
    """ResNet18 of torchvision's BasicBlocks with scaled channels; names of layers as torchvision's."""
    planes = [even(64 * width), even(128 * width), even(256 * width), even(512 * width)]

    def layer(inputs: int, outputs: int, stride: int) -> nn.Sequential:
        shortcut = None
        if stride != 1 or inputs != outputs:
            shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        return nn.Sequential(BasicBlock(inputs, outputs, stride, shortcut), BasicBlock(outputs, outputs))

    stem = nn.Sequential()
    stem.add_module("conv1", nn.Conv2d(3, planes[0], 7, 2, 3, bias=False))
    stem.add_module("bn1", nn.BatchNorm2d(planes[0]))
    stem.add_module("relu", nn.ReLU(inplace=True))
    stem.add_module("maxpool", nn.MaxPool2d(3, 2, 1))
    stem.add_module("layer1", layer(planes[0], planes[0], 1))
    stem.add_module("layer2", layer(planes[0], planes[1], 2))
    stem.add_module("layer3", layer(planes[1], planes[2], 2))
    last = nn.Sequential()
    last.add_module("layer4", layer(planes[2], planes[3], 2))
    for module in (*stem.modules(), *last.modules()):
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return stem, last, planes[3]


def _mobilenet_v2(width: float) -> tuple[nn.Module, nn.Module, int]:
    net = mobilenet_v2(weights=None, width_mult=width)
    stem, last = nn.Sequential(), nn.Sequential()
    for n, block in enumerate(net.features):
        (stem if n < 14 else last).add_module(f"features_{n}", block)
    return stem, last, int(net.last_channel)


def _shufflenet_v2(width: float) -> tuple[nn.Module, nn.Module, int]:
    channels = SHUFFLENET_CHANNELS.get(width)
    if channels is None:
        channels = [24, *(even(c * width, 4) for c in (116, 232, 464)), 1024 if width < 2 else 2048]
    net = ShuffleNetV2([4, 8, 4], channels)
    stem, last = nn.Sequential(), nn.Sequential()
    for name in ("conv1", "maxpool", "stage2", "stage3"):
        stem.add_module(name, getattr(net, name))
    for name in ("stage4", "conv5"):
        last.add_module(name, getattr(net, name))
    return stem, last, channels[-1]


class ClassificationNet(StudentNet):
    """Output of `forward`: one tensor of logits (B, C + 1), background last."""

    def __init__(self, spec: StudentSpec) -> None:
        super().__init__()
        self.spec = spec
        make = {"resnet18": _resnet18, "mobilenet_v2": _mobilenet_v2, "shufflenet_v2": _shufflenet_v2}
        self.stem, self.last, width = make[spec.architecture](spec.width)
        layers: list[nn.Module] = []
        if spec.last_layer_width:
            layers += [nn.Linear(width, spec.last_layer_width), nn.ReLU(inplace=True)]
        self.hidden = nn.Sequential(*layers)
        self.out = nn.Linear(spec.last_layer_width or width, len(spec.classes) + 1)

    def run_stem(self, x: Tensor) -> Activations:
        """(B, 3, h, w) -> the map of stride 16."""
        return (self.stem(x),)

    def run_last_stage(self, stem: Activations) -> Activations:
        """The map of stride 16 -> one feature vector (B, D) per cut-out."""
        return (self.last(stem[0]).mean((2, 3)),)

    def run_head(self, features: Activations) -> Activations:
        """Feature vectors (B, D) -> logits (B, C + 1)."""
        return (self.out(self.hidden(features[0])),)

    def parts(self, layers: Layers) -> Sequence[nn.Module]:
        if layers == "head":
            return [self.hidden, self.out]
        if layers == "last_stage":
            return [self.last, self.hidden, self.out]
        return [self]


def classification_loss(output: Activations, classes: Tensor, weights: Tensor) -> Tensor:
    """Cross entropy of logits (B, C + 1) against `classes` (B,), each cut-out weighted by `weights` (B,)."""
    entropy = F.cross_entropy(output[0], classes, reduction="none")
    return (entropy * weights).sum() / weights.sum().clamp(min=1e-6)

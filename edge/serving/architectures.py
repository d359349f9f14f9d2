"""Networks that are served by name: those of torchvision, and LeNet."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from edge.core.errors import InvalidValue, WeightsError

#: Auxiliary heads that published weights carry and that only training uses.
_AUXILIARY = ("aux1.", "aux2.", "AuxLogits.", "aux_classifier.")


class LeNet(nn.Module):
    """LeNet-5 on grey pictures (B, 1, 28, 28) with values 0-1; logits (B, num_classes). With ReLU and max pooling, as
    it is run today (LeCun et al. 1998 had tanh and averages)."""

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5, padding=2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.max_pool2d(torch.relu(self.conv1(x)), 2)
        x = torch.max_pool2d(torch.relu(self.conv2(x)), 2)
        x = torch.relu(self.fc1(x.flatten(1)))
        out: Tensor = self.fc3(torch.relu(self.fc2(x)))
        return out


class Detector(nn.Module):
    """A torchvision detector as one tensor in, tensors of fixed size out: `boxes` (B, K, 4) in pixels, `scores` (B, K),
    `labels` (B, K), the best first; rows that found less than K are filled with zeros."""

    def __init__(self, net: nn.Module, most: int) -> None:
        super().__init__()
        self.net, self.most = net, most

    def forward(self, x: Tensor) -> Mapping[str, Tensor]:
        k = self.most
        boxes, scores = x.new_zeros(len(x), k, 4), x.new_zeros(len(x), k)
        labels = torch.zeros(len(x), k, dtype=torch.int64, device=x.device)
        for n, found in enumerate(self.net(list(x))):
            m = min(k, len(found["scores"]))
            boxes[n, :m], scores[n, :m], labels[n, :m] = found["boxes"][:m], found["scores"][:m], found["labels"][:m]
        return {"boxes": boxes, "scores": scores, "labels": labels}


def is_detector(architecture: str) -> bool:
    """True for torchvision's detection networks."""
    import torchvision.models

    return architecture in torchvision.models.list_models(module=torchvision.models.detection)


def build_architecture(architecture: str, num_classes: int = 0) -> nn.Module:
    """A network by its name, with random weights; 0 classes: its usual number. Nothing is downloaded.

    Raises InvalidValue for a name that is not known.
    """
    if architecture == "lenet":
        return LeNet(num_classes or 10)
    import torchvision.models

    models = torchvision.models
    known = models.list_models(module=models) + models.list_models(module=models.detection)
    known += models.list_models(module=models.segmentation)
    if architecture not in known:
        near = [name for name in known if name[:4] == architecture[:4]] or ["resnet50", "mobilenet_v2", "vgg16"]
        raise InvalidValue(
            "architecture", architecture, "lenet or a torchvision network, such as " + ", ".join(near[:8])
        )
    options: dict[str, Any] = {"weights": None}
    if num_classes:
        options["num_classes"] = num_classes
    if architecture in ("googlenet", "inception_v3"):
        options |= {"aux_logits": False, "init_weights": False}
    elif architecture.startswith("vgg"):
        options["init_weights"] = False
    elif architecture not in models.list_models(module=models):
        options["weights_backbone"] = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about initial weights, which are replaced
        net: nn.Module = models.get_model(architecture, **options)
        return net


def load_weights(net: nn.Module, path: Path) -> None:
    """Fill `net` from a safetensors file. Raises WeightsError if it is missing, damaged or of another network."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise WeightsError(
            f"weight file {path.name} does not exist", "it must hold the network's weights (safetensors)"
        )
    try:
        given = load_file(path)
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"weight file {path.name} is damaged or no safetensors file: {error}") from error
    own = net.state_dict()
    given = {k: v for k, v in given.items() if k in own or not k.startswith(_AUXILIARY)}
    lacking = sorted(k for k in own if k not in given and not k.endswith("num_batches_tracked"))
    unknown = sorted(given.keys() - own.keys())
    shapes = sorted(k for k in own.keys() & given.keys() if own[k].shape != given[k].shape)
    for what, names in (("lacks", lacking), ("has unknown", unknown), ("has other shapes for", shapes)):
        if names:
            raise WeightsError(
                f"weight file {path.name} does not fit its network: it {what} {len(names)}, e.g. {names[0]}"
            )
    net.load_state_dict(given, strict=False)

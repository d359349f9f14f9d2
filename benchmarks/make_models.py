"""Writes a model repository of real networks, for trying the serving side, benchmarks and tests.

    python -m benchmarks.make_models DIR [--set small|mixed|paper] [--batch 16]

`small`: three that a CPU serves. `vehicles` is the demo's trained classification student (TorchScript); `shufflenet`
(torchvision, 96 x 96) and `lenet` (28 x 28) have random weights: their answers mean nothing, their times do.
`mixed` adds one that is bound by memory bandwidth (random weights).
`paper`: the five networks of the gpu-let paper for a GPU, all with random weights (ssd: torchvision's SSDLite on
MobileNetV3 instead of SSD-MobileNetV1, raw outputs). Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from edge.core.errors import InvalidValue

REPO = Path(__file__).resolve().parents[1]
STUDENT = REPO / "edge" / "demo" / "weights" / "student_classification.safetensors"


@dataclass(frozen=True)
class Made:
    """A model to be written: its YAML beyond the name, and the function that writes its file into a folder."""

    settings: Mapping[str, Any]
    write: Callable[[Path], None]


def tensor(name: str, shape: Sequence[int]) -> dict[str, Any]:
    """A float tensor of the YAML; the batch comes first."""
    return {"name": name, "datatype": "FP32", "shape": [-1, *shape]}


def _weights(architecture: str, num_classes: int, seed: int) -> Callable[[Path], None]:
    """Random weights of a network by name."""

    def write(folder: Path) -> None:
        import torch
        from safetensors.torch import save_file

        from edge.serving.backends import build_architecture

        torch.manual_seed(seed)
        net = build_architecture(architecture, num_classes)
        state = {name: value.contiguous() for name, value in net.state_dict().items()}
        save_file(state, folder / "model.safetensors")

    return write


def _named(
    architecture: str, size: tuple[int, ...], num_classes: int, slo_ms: float, seed: int, platform: str = "torchvision"
) -> Made:
    return Made(
        {
            "platform": platform,
            "architecture": architecture,
            "num_classes": num_classes,
            "inputs": [tensor("input", size)],
            "outputs": [tensor("logits", (num_classes,))],
            "slo_ms": slo_ms,
        },
        _weights(architecture, num_classes, seed),
    )


def traced(make: Callable[[], Any], size: tuple[int, ...], path: Path) -> None:
    """Write a network as TorchScript for rows of `size`."""
    import torch

    net = make().eval()
    with torch.no_grad(), warnings.catch_warnings():
        # TorchScript is deprecated in favour of torch.export, and the format that most people still have.
        warnings.simplefilter("ignore")
        script = torch.jit.freeze(torch.jit.trace(net, torch.rand(2, *size)))
        torch.jit.save(script, str(path))


def _student(slo_ms: float) -> Made:
    """The demo's classification student: pictures (64 x 64, 0-1) in, logits of its classes and the background out."""

    def make() -> Any:
        import torch

        from edge.students import load_student

        class Logits(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.student = load_student(STUDENT).for_inference().module

            def forward(self, x: Any) -> Any:
                return self.student(x)[0]

        return Logits()

    return Made(
        {
            "platform": "torchscript",
            "inputs": [tensor("pictures", (3, 64, 64))],
            "outputs": [tensor("logits", (6,))],
            "slo_ms": slo_ms,
        },
        lambda folder: traced(make, (3, 64, 64), folder / "model.pt"),
    )


def _ssd(slo_ms: float, seed: int) -> Made:
    """SSDLite on MobileNetV3: class logits and box deltas of all 3,234 anchors, as a detector's head gives them."""

    def make() -> Any:
        import torch
        from torchvision.models.detection import ssdlite320_mobilenet_v3_large

        torch.manual_seed(seed)
        detector = ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=91)

        class Raw(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.backbone, self.head = detector.backbone, detector.head

            def forward(self, x: Any) -> Any:
                found = self.head(list(self.backbone(x).values()))
                return found["cls_logits"], found["bbox_regression"]

        return Raw()

    return Made(
        {
            "platform": "torchscript",
            "inputs": [tensor("pictures", (3, 320, 320))],
            "outputs": [tensor("logits", (3234, 91)), tensor("boxes", (3234, 4))],
            "slo_ms": slo_ms,
        },
        lambda folder: traced(make, (3, 320, 320), folder / "model.pt"),
    )


def small() -> dict[str, Made]:
    """Three small models with objectives that a share of a few cores can keep."""
    return {
        "vehicles": _student(100.0),
        "shufflenet": _named("shufflenet_v2_x0_5", (3, 96, 96), 100, 120.0, 1),
        "lenet": _named("lenet", (1, 28, 28), 10, 60.0, 2, platform="builtin"),
    }


def _wide(slo_ms: float, seed: int) -> Made:
    """Two layers of 4096 x 4096: 134 MB of weights that each batch reads, far more than a cache holds."""

    def make() -> Any:
        import torch

        torch.manual_seed(seed)
        return torch.nn.Sequential(torch.nn.Linear(4096, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 4096))

    return Made(
        {
            "platform": "torchscript",
            "inputs": [tensor("input", (4096,))],
            "outputs": [tensor("output", (4096,))],
            "slo_ms": slo_ms,
        },
        lambda folder: traced(make, (4096,), folder / "model.pt"),
    )


def mixed() -> dict[str, Made]:
    """The small models and one that lives off memory bandwidth, for measuring interference."""
    return {**small(), "wide": _wide(150.0, 7)}


def paper() -> dict[str, Made]:
    """The five models of the gpu-let paper with the objectives of its Table 4."""
    return {
        "googlenet": _named("googlenet", (3, 224, 224), 1000, 44.0, 3),
        "lenet": _named("lenet", (1, 28, 28), 10, 5.0, 2, platform="builtin"),
        "resnet50": _named("resnet50", (3, 224, 224), 1000, 95.0, 4),
        "ssd": _ssd(136.0, 5),
        "vgg16": _named("vgg16", (3, 224, 224), 1000, 130.0, 6),
    }


def write_repository(folder: Path, models: Mapping[str, Made], max_batch: int = 16) -> Path:
    """Write every model as version 1 into `folder`; models that are there already stay as they are."""
    for name, made in models.items():
        version = folder / name / "1"
        if (folder / name / "model.yaml").exists():
            continue
        version.mkdir(parents=True, exist_ok=True)
        made.write(version)
        settings = {**made.settings, "max_batch": max_batch}
        (folder / name / "model.yaml").write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")
    return folder


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--set", choices=("small", "mixed", "paper"), default="small")
    parser.add_argument("--batch", type=int, default=16, help="largest batch (16)")
    args = parser.parse_args(argv)
    if not 1 <= args.batch <= 1024:
        raise InvalidValue("--batch", args.batch, "from 1 to 1024")
    import torch

    torch.set_num_threads(1)
    models = {"small": small, "mixed": mixed, "paper": paper}[args.set]()
    write_repository(args.folder, models, args.batch)
    print(f"{args.folder}: {', '.join(models)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

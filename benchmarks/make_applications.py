"""Writes a model repository with the two applications `game` and `traffic` and the models that they ask.

    python -m benchmarks.make_applications DIR [--set small|paper|night] [--batch 16]

`paper`: configs/applications as shipped, on LeNet, ResNet-50, SSDLite, GoogLeNet and VGG-16, for a GPU; the weights are
random: their answers mean nothing, their times do. `small`: the same graphs for a CPU; its `traffic` uses the demo's
trained students, which find and name the vehicles and people of the demo's streets. `night`: a chain of three stages
with the same students: lighten the picture, find objects in it, name the vehicles. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from benchmarks.make_models import STUDENT, Made, paper, small, tensor, traced, write_repository
from edge.core.errors import InvalidValue
from edge.serving.pipeline_files import parse_application

REPO = Path(__file__).resolve().parents[1]
FINDER = STUDENT.with_name("student_detection.safetensors")
#: Objects that a detector answers for one picture, and candidates that it thins them from.
MOST, CANDIDATES = 20, 100
OVERLAP, ROUNDS = 0.55, 8
IMAGENET = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}


def finder_module(student: Any, size: tuple[int, int]) -> Any:
    """The student's network with its boxes thinned out, `size` = (height, width) of its pictures."""
    import torch

    from edge.students.detector import CODER

    class Finder(torch.nn.Module):
        anchors: torch.Tensor
        coder: torch.Tensor
        scale: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.student = student.module
            height, width = size
            self.register_buffer("anchors", student.module.anchors(size))
            self.register_buffer("coder", torch.tensor(CODER))
            self.register_buffer("scale", torch.tensor([width, height, width, height], dtype=torch.float32))

        def forward(self, x: Any) -> Any:
            logits, deltas = self.student(x)
            scores, labels = logits.softmax(-1)[..., :-1].max(-1)
            scores, index = scores.topk(CANDIDATES, dim=1)
            labels = labels.gather(1, index)
            d = deltas.gather(1, index.unsqueeze(-1).expand(-1, -1, 4)) / self.coder
            a = self.anchors[index]
            centre = a[..., :2] + d[..., :2] * a[..., 2:]
            half = a[..., 2:] * d[..., 2:].clamp(max=4.0).exp() / 2
            boxes = (torch.cat([centre - half, centre + half], -1) / self.scale).clamp(0.0, 1.0)
            low = torch.maximum(boxes.unsqueeze(2)[..., :2], boxes.unsqueeze(1)[..., :2])
            high = torch.minimum(boxes.unsqueeze(2)[..., 2:], boxes.unsqueeze(1)[..., 2:])
            common = (high - low).clamp(min=0).prod(-1)
            area = (boxes[..., 2:] - boxes[..., :2]).prod(-1)
            iou = common / (area.unsqueeze(2) + area.unsqueeze(1) - common + 1e-9)
            # An object that overlaps with a likelier one that stays, goes: settled after as many rounds as chains
            # are long, without a loop over objects, so that it can be traced.
            over = torch.triu(iou > OVERLAP, diagonal=1).float()
            taken = torch.ones_like(scores)
            for _ in range(ROUNDS):
                taken = ((over * taken.unsqueeze(2)).amax(1) < 0.5).float()
            scores, order = (scores * taken).topk(MOST, dim=1)
            return boxes.gather(1, order.unsqueeze(-1).expand(-1, -1, 4)), scores, labels.gather(1, order)

    return Finder()


def finder(slo_ms: float) -> Made:
    """The demo's detection student as one tensor in, tensors of fixed size out: `boxes` (rows, MOST, 4) in fractions,
    `scores` and `labels` (rows, MOST), the likeliest first."""

    def write(folder: Path) -> None:
        from edge.students import load_student

        student = load_student(FINDER).for_inference()
        size = student.spec.input_size
        traced(lambda: finder_module(student, size), (3, *size), folder / "model.pt")

    return Made(
        {
            "platform": "torchscript",
            "inputs": [tensor("pictures", (3, 192, 320))],
            "outputs": [
                tensor("boxes", (MOST, 4)),
                tensor("scores", (MOST,)),
                {"name": "labels", "datatype": "INT64", "shape": [-1, MOST]},
            ],
            "slo_ms": slo_ms,
        },
        write,
    )


def lightener_module() -> Any:
    """Pictures (rows, 3, height, width), normalised as IMAGENET, each with its dark parts lightened and its noise
    smoothed: a gamma for each place that brings the mean of its surroundings near a half, as far as it is darker."""
    import torch

    class Lightener(torch.nn.Module):
        mean: torch.Tensor
        std: torch.Tensor
        kernel: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.tensor(IMAGENET["mean"]).view(1, 3, 1, 1))
            self.register_buffer("std", torch.tensor(IMAGENET["std"]).view(1, 3, 1, 1))
            line = torch.tensor([1.0, 2.0, 1.0]) / 4.0
            self.register_buffer("kernel", torch.outer(line, line).expand(3, 1, 3, 3).contiguous())

        def forward(self, x: Any) -> Any:
            value = (x * self.std + self.mean).clamp(1e-3, 1.0)
            smooth = torch.nn.functional.conv2d(value, self.kernel, padding=1, groups=3)
            around = torch.nn.functional.avg_pool2d(smooth.mean(1, keepdim=True), 16)
            gamma = (-0.6931 / around.clamp(1e-3, 0.999).log()).clamp(0.4, 1.0)
            gamma = torch.nn.functional.interpolate(gamma, scale_factor=16.0, mode="bilinear")
            return (smooth.clamp(1e-3, 1.0) ** gamma - self.mean) / self.std

    return Lightener()


def lightener(slo_ms: float) -> Made:
    """`lightener_module` as TorchScript, for the finder's pictures."""

    return Made(
        {
            "platform": "torchscript",
            "inputs": [tensor("dark", (3, 192, 320))],
            "outputs": [tensor("light", (3, 192, 320))],
            "slo_ms": slo_ms,
        },
        lambda folder: traced(lightener_module, (3, 192, 320), folder / "model.pt"),
    )


def shipped(name: str) -> dict[str, Any]:
    """The content of configs/applications/NAME.yaml."""
    value = yaml.safe_load((REPO / "configs" / "applications" / f"{name}.yaml").read_text(encoding="utf-8"))
    assert isinstance(value, dict)
    return value


def small_game(slo_ms: float, rate: float) -> dict[str, Any]:
    """`game` with ShuffleNet (96 x 96) looking at the scene."""
    game = shipped("game")
    game |= {"slo_ms": slo_ms, "rate": rate}
    game["outputs"][-1]["shape"] = [-1, 100]
    scene = [{"resize": [96, 96]}, {"normalise": IMAGENET}]
    game["stages"][-1] = {"name": "scene", "model": "shufflenet", "inputs": {"input": {"from": "picture", "do": scene}}}
    return game


def small_traffic(slo_ms: float, rate: float) -> dict[str, Any]:
    """`traffic` with the demo's students: three vehicles and three people of each picture are looked at."""
    cut = {
        "boxes": "find.boxes", "scores": "find.scores", "above": 0.4, "labels": "find.labels", "most": 3,
        "size": [64, 64], "margin": 1.2, "square": True,
    }  # fmt: skip

    def looking(name: str, classes: Sequence[int]) -> dict[str, Any]:
        do = [{"crop_boxes": {**cut, "classes": list(classes)}}, {"normalise": IMAGENET}]
        source = {"from": "picture", "do": do}
        return {"name": name, "model": "namer", "per_request": 1.5, "inputs": {"pictures": source}}

    find = {"from": "picture", "do": [{"resize": [192, 320]}, {"normalise": IMAGENET}]}
    traffic = shipped("traffic")
    outputs = copy.deepcopy(traffic["outputs"])
    for output in outputs:
        if output["name"] in ("vehicles", "people"):
            output["shape"] = [-1, 3, 6]
    return {
        **traffic,
        "slo_ms": slo_ms,
        "rate": rate,
        "outputs": outputs,
        "stages": [
            {"name": "find", "model": "finder", "inputs": {"pictures": find}},
            # Classes of the demo: car, truck, bus, bicycle, person.
            looking("vehicle", (0, 1, 2)),
            looking("person", (3, 4)),
        ],
    }


def night(slo_ms: float, rate: float) -> dict[str, Any]:
    """A chain of three stages: lighten, find, and name up to three vehicles of each picture."""
    traffic = small_traffic(slo_ms, rate)
    find, vehicle, _ = traffic["stages"]
    (dark,) = find["inputs"].values()
    light = {"name": "light", "model": "lightener", "inputs": {"dark": dark}}
    people = ("people", "person_count")
    return {
        **traffic,
        "outputs": [o for o in traffic["outputs"] if o["name"] not in people],
        "stages": [light, {**find, "inputs": {"pictures": "light.light"}}, vehicle],
    }


def repository(kind: str) -> tuple[dict[str, Made], dict[str, dict[str, Any]]]:
    """Models and applications of "small", "paper" or "night". A model's own objective is the application's: the stages'
    parts of it go with each request.
    """
    if kind == "paper":
        applications = {"game": shipped("game"), "traffic": shipped("traffic")}
        models = {name: made for name, made in paper().items() if name != "ssd"}
        models["ssd"] = _detector()
    elif kind == "night":
        applications = {"night": night(350, 3)}
        models = {"lightener": lightener(350), "namer": small()["vehicles"], "finder": finder(350)}
    else:
        applications = {"game": small_game(150, 5), "traffic": small_traffic(300, 3)}
        models = {name: made for name, made in small().items() if name in ("lenet", "shufflenet")}
        models |= {"namer": small()["vehicles"], "finder": finder(300)}
    slo_ms: dict[str, float] = {}
    for name, value in applications.items():
        for model in parse_application(name, value).models:
            slo_ms[model] = max(slo_ms.get(model, 0.0), value["slo_ms"])
    models = {
        name: Made({**made.settings, "slo_ms": slo_ms[name]}, made.write)
        for name, made in models.items()
        if name in slo_ms
    }
    return models, applications


def _detector() -> Made:
    """torchvision's SSDLite on MobileNetV3, random weights."""

    def write(folder: Path) -> None:
        import torch
        from safetensors.torch import save_file

        from edge.serving.architectures import build_architecture

        torch.manual_seed(5)
        state = build_architecture("ssdlite320_mobilenet_v3_large", 91).state_dict()
        save_file({name: value.contiguous() for name, value in state.items()}, folder / "model.safetensors")

    return Made(
        {
            "platform": "torchvision",
            "architecture": "ssdlite320_mobilenet_v3_large",
            "num_classes": 91,
            "inputs": [tensor("pictures", (3, 320, 320))],
            "outputs": [
                tensor("boxes", (MOST, 4)),
                tensor("scores", (MOST,)),
                {"name": "labels", "datatype": "INT64", "shape": [-1, MOST]},
            ],
            "slo_ms": 136,
        },
        write,
    )


def write_applications(folder: Path, applications: Mapping[str, Mapping[str, Any]]) -> None:
    """Write each as NAME/model.yaml, unless it is there."""
    for name, value in applications.items():
        file = folder / name / "model.yaml"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(yaml.safe_dump(value, sort_keys=False), encoding="utf-8")


def make(folder: Path, kind: str = "small", max_batch: int = 16) -> tuple[str, ...]:
    """Write all of it into `folder`; the names of what is there now."""
    models, applications = repository(kind)
    write_repository(folder, models, max_batch)
    write_applications(folder, applications)
    return (*models, *applications)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--set", choices=("small", "paper", "night"), default="small")
    parser.add_argument("--batch", type=int, default=16, help="largest batch (16)")
    args = parser.parse_args(argv)
    if not 1 <= args.batch <= 1024:
        raise InvalidValue("--batch", args.batch, "from 1 to 1024")
    import torch

    torch.set_num_threads(1)
    print(f"{args.folder}: {', '.join(make(args.folder, args.set, args.batch))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

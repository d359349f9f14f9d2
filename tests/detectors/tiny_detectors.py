"""Small ONNX detectors with random weights, in the layouts of published ones. They need no file of anybody.

Import as `from detectors.tiny_detectors import tiny_grid` (the `tests` folder is on the path).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import onnx
import yaml
from onnx import TensorProto, helper, numpy_helper

from edge.core.detectors import InputSpec, OnnxSpec, OutputSpec
from edge.core.labels import LabelledFrame, SampledFrame
from edge.core.vision import Detections

CLASSES = ("person", "bicycle", "car", "truck")
SIDE = 128
BINS = 8


class Writer:
    """Nodes and seeded weights of a graph; each method returns the name of its output."""

    def __init__(self, seed: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._rng = np.random.default_rng(seed)

    def constant(self, value: Any, kind: type = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, kind), name))
        return name

    def op(self, kind: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> Any:
        names = [f"v{len(self.nodes)}_{n}" for n in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def conv(
        self, x: str, given: int, made: int, kernel: int = 3, stride: int = 1, groups: int = 1,
        bias: Sequence[float] | float = 0.0, gain: float = 1.0,
    ) -> str:  # fmt: skip
        shape = (made, given // groups, kernel, kernel)
        scale = gain * np.sqrt(2.0 / (given // groups * kernel * kernel))
        weight = self.constant(self._rng.normal(0, scale, shape))
        offset = self.constant(np.broadcast_to(np.asarray(bias, np.float32), (made,)))
        return self.op(
            "Conv", [x, weight, offset], kernel_shape=[kernel] * 2, strides=[stride] * 2,
            pads=[kernel // 2] * 4, group=groups,
        )  # fmt: skip

    def silu(self, x: str) -> str:
        return self.op("Mul", [x, self.op("Sigmoid", [x])])

    def hard_swish(self, x: str) -> str:
        shifted = self.op("Add", [x, self.constant(3.0)])
        clipped = self.op("Clip", [shifted, self.constant(0.0), self.constant(6.0)])
        return self.op("Div", [self.op("Mul", [x, clipped]), self.constant(6.0)])

    def doubled(self, x: str) -> str:
        return self.op("Resize", [x, "", self.constant([1.0, 1.0, 2.0, 2.0])], mode="nearest",
                       coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip

    def model(self, side: int, outputs: dict[str, str]) -> bytes:
        nodes = [*self.nodes, *(helper.make_node("Identity", [v], [k]) for k, v in outputs.items())]
        graph = helper.make_graph(
            nodes,
            "tiny",
            [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, side, side])],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            self.constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        return bytes(model.SerializeToString())


@functools.cache
def tiny_grid(seed: int = 0, classes: tuple[str, ...] = CLASSES, side: int = SIDE) -> tuple[bytes, OnnxSpec]:
    """As YOLOX: focus by slices, SiLU, an upsampled neck, rows (1, N, 5 + C) of strides 8 and 16; pixels 0-255, BGR."""
    g, rows = Writer(seed), 5 + len(classes)
    parts = []
    for y, x in ((0, 0), (1, 0), (0, 1), (1, 1)):
        part = "images"
        for axis, start in ((2, y), (3, x)):
            cut = [g.constant(v, np.int64) for v in ([start], [2**31 - 1], [axis], [2])]
            part = g.op("Slice", [part, *cut])
        parts.append(part)
    # Batch norm folded into the first convolution makes its weights small, as in published files.
    x = g.silu(g.conv(g.op("Concat", parts, axis=1), 12, 8, gain=0.01))
    x = g.silu(g.conv(x, 8, 12, stride=2))
    fine = g.silu(g.conv(g.silu(g.conv(x, 12, 12, stride=2, groups=12)), 12, 16, kernel=1))
    deep = g.silu(g.conv(g.op("MaxPool", [fine], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4), 16, 24))
    up = g.doubled(g.silu(g.conv(deep, 24, 16, kernel=1)))
    near = g.silu(g.conv(g.op("Concat", [fine, up], axis=1), 32, 16))
    down = g.silu(g.conv(near, 16, 16, stride=2))
    levels = [near, g.silu(g.conv(g.op("Concat", [deep, down], axis=1), 40, 16))]
    flat = []
    for level in levels:
        stem = g.silu(g.conv(level, 16, 16))
        boxes = g.conv(stem, 16, 4, kernel=1, gain=0.3, bias=[0.5, 0.5, 0.7, 0.7])
        there = g.op("Sigmoid", [g.conv(stem, 16, 1, kernel=1, bias=-1.0)])
        named = g.op("Sigmoid", [g.conv(stem, 16, len(classes), kernel=1)])
        joined = g.op("Concat", [boxes, there, named], axis=1)
        flat.append(g.op("Reshape", [joined, g.constant([1, rows, -1], np.int64)]))
    out = g.op("Transpose", [g.op("Concat", flat, axis=2)], perm=[0, 2, 1])
    spec = OnnxSpec(
        "tiny_grid",
        Path("tiny_grid.onnx"),
        InputSpec(side, side, fit="corner", colour="bgr"),
        OutputSpec("grid", (8, 16)),
        classes,
        licence="Apache-2.0",
    )
    return g.model(side, {"output": out}), spec


@functools.cache
def tiny_distribution(seed: int = 0, classes: tuple[str, ...] = CLASSES, side: int = SIDE) -> tuple[bytes, OnnxSpec]:
    """As PicoDet: channel shuffle by Reshape, HardSwish of four operators, split heads of strides 8 and 16."""
    g, count = Writer(seed + 100), len(classes)
    x = g.hard_swish(g.conv("images", 3, 8, stride=2))
    x = g.hard_swish(g.conv(x, 8, 12, stride=2))
    shuffled = _shuffled(g, x, 12, side // 4)
    fine = g.hard_swish(g.conv(shuffled, 12, 16, stride=2))
    deep = g.hard_swish(g.conv(fine, 16, 24, stride=2))
    share = g.op("GlobalAveragePool", [deep])
    deep = g.op("Mul", [deep, g.op("HardSigmoid", [g.conv(share, 24, 24, kernel=1)])])
    up = g.doubled(g.hard_swish(g.conv(deep, 24, 16, kernel=1)))
    near = g.hard_swish(g.conv(g.op("Add", [fine, up]), 16, 16))
    levels = [(near, 16), (g.op("Add", [deep, g.hard_swish(g.conv(near, 16, 24, stride=2))]), 24)]
    outputs = {}
    for n, (level, channels) in enumerate(levels):
        stem = g.hard_swish(g.conv(level, channels, 16))
        both = g.conv(stem, 16, count + 4 * BINS, kernel=1, bias=[-1.0] * count + [0.0] * 4 * BINS)
        named, sides = g.op("Split", [both, g.constant([count, 4 * BINS], np.int64)], 2, axis=1)
        for kind, value, width in (("scores", g.op("Sigmoid", [named]), count), ("sides", sides, 4 * BINS)):
            flat = g.op("Reshape", [value, g.constant([1, width, -1], np.int64)])
            outputs[f"{kind}_{n}"] = g.op("Transpose", [flat], perm=[0, 2, 1])
    spec = OnnxSpec(
        "tiny_distribution",
        Path("tiny_distribution.onnx"),
        InputSpec(side, side, mean=(103.5, 116.3, 123.7), std=(57.4, 57.1, 58.4)),
        OutputSpec("distribution", (8, 16)),
        classes,
        licence="Apache-2.0",
    )
    return g.model(side, outputs), spec


def _shuffled(g: Writer, x: str, channels: int, side: int) -> str:
    two = g.op("Reshape", [x, g.constant([1, 2, channels // 2, side, side], np.int64)])
    mixed = g.op("Transpose", [two], perm=[0, 2, 1, 3, 4])
    return str(g.op("Reshape", [mixed, g.constant([1, channels, side, side], np.int64)]))


def describe(folder: Path, spec: OnnxSpec, content: bytes) -> Path:
    """Writes the file and a YAML that `read_detector` and `read_teacher` take; returns the YAML."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{spec.name}.onnx").write_bytes(content)
    i, o = spec.input, spec.output
    value = {
        "kind": "onnx",
        "name": spec.name,
        "file": f"{spec.name}.onnx",
        "classes": list(spec.classes),
        "input": {
            "width": i.width, "height": i.height, "fit": i.fit, "colour": i.colour, "mean": list(i.mean),
            "std": list(i.std),
        },
        "output": {"kind": o.kind, "strides": list(o.strides)},
        "min_score": spec.min_score,
        "nms_iou": spec.nms_iou,
    }  # fmt: skip
    if spec.licence:
        value["licence"] = spec.licence
    path = folder / f"{spec.name}.yaml"
    path.write_text(yaml.safe_dump(value), encoding="utf-8")
    return path


def in_file(spec: OnnxSpec, folder: Path) -> OnnxSpec:
    """The spec with its file in `folder`, where `describe` put it."""
    return replace(spec, file=folder / f"{spec.name}.onnx")


def street(seed: int, size: tuple[int, int] = (96, 160), count: int = 2) -> tuple[np.ndarray, Detections]:
    """A drawn picture uint8 RGB: cars (class 0, wide and red) and persons (class 1, tall and green) on dull ground."""
    rng = np.random.default_rng(seed)
    high, wide = size
    picture = rng.integers(60, 90, (high, wide, 3)).astype(np.uint8)
    boxes, classes = [], []
    column = wide // count
    for n in range(count):
        klass = int(rng.integers(2))
        w, h = (36, 20) if klass == 0 else (16, 38)
        x, y = column * n + int(rng.integers(0, column - w)), int(rng.integers(0, high - h))
        bright = int(rng.integers(190, 255))
        cv2.rectangle(picture, (x, y), (x + w - 1, y + h - 1), (bright, 30, 30) if klass == 0 else (30, bright, 30), -1)
        boxes.append((x / wide, y / high, (x + w) / wide, (y + h) / high))
        classes.append(klass)
    return picture, Detections.build(boxes, [0.9] * count, classes)


def street_frames(folder: Path, seeds: Sequence[int], window: int = 1) -> tuple[LabelledFrame, ...]:
    """Labelled pictures of `street` on disk, classes ("car", "person")."""
    out = []
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        picture, labels = street(seed)
        path = folder / f"{window}-{seed}.jpg"
        cv2.imwrite(str(path), picture[..., ::-1])
        sampled = SampledFrame("cam", window, seed, float(seed), path, Detections.empty(), "v0")
        out.append(LabelledFrame(sampled, labels, "drawn"))
    return tuple(out)

"""torchvision's published SSDLite as an ONNX graph that can be used at any shape and trained.

torchvision's own exporter needs onnxscript and makes a graph with boxes chosen inside; a student needs raw answers. The
network has few kinds of layers, so the graph is written directly, BatchNorms folded into the convolutions.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
import torchvision
from onnx import TensorProto, helper, numpy_helper
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torchvision.models.mobilenetv3 import InvertedResidual
from torchvision.ops.misc import SqueezeExcitation

from edge.core.detectors import InputSpec, OutputSpec
from edge.core.errors import DiskFull, StoreError, WeightsError

MODEL = "ssdlite320_mobilenet_v3_large"
SIDE = 320
STRIDES = (16, 32, 64, 128, 256, 512)
#: torchvision brings pixels of 0-1 to -1..1.
INPUT = InputSpec(SIDE, SIDE, scale=1 / 255, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))
#: Metadata of a converted graph: the SHA-256 of the weight file, and this converter's version.
SOURCE_KEY, VERSION = "magpie.source", "1"
_OPSET = 14


def published_classes() -> tuple[str, ...]:
    """The classes of the published weights without the background; numbers that COCO left out are "unused N"."""
    names = torchvision.models.get_model_weights(MODEL).DEFAULT.meta["categories"]
    return tuple(f"unused {n}" if name == "N/A" else name for n, name in enumerate(names) if n > 0)


def published_address() -> str:
    """Where torchvision's weights are published."""
    return str(torchvision.models.get_model_weights(MODEL).DEFAULT.url)


def output_spec() -> OutputSpec:
    """The layout: class logits and offsets from the default boxes that torchvision's generator makes at 320x320."""
    generator = _network(2).anchor_generator
    levels = [pairs.clamp(0, 1) if generator.clip else pairs for pairs in generator._wh_pairs]
    anchors = tuple(tuple((float(w) * SIDE, float(h) * SIDE) for w, h in level) for level in levels)
    return OutputSpec("anchors", STRIDES, anchors=anchors)


def converted(weights: Path, classes: int) -> Path:
    """The graph made from a weight file, beside it (`NAME.onnx`); made anew when the weight file is another.

    `classes` without the background. Raises WeightsError if the file is missing, damaged or does not fit, StoreError or
    DiskFull if the graph cannot be written.
    """
    try:
        source = f"{VERSION}:{classes}:{hashlib.sha256(weights.read_bytes()).hexdigest()}"
    except OSError as error:
        raise WeightsError(f"{weights}: cannot be read ({error.strerror or error})") from error
    graph = weights.with_suffix(".onnx")
    if _source_of(graph) != source:
        _write(graph, graph_bytes(read_network(weights, classes), source))
    return graph


def read_network(weights: Path, classes: int) -> nn.Module:
    """torchvision's network with the weights of a file. Raises WeightsError."""
    network = _network(classes + 1)
    try:
        state: Any = (
            load_file(weights)
            if weights.suffix == ".safetensors"
            else torch.load(weights, map_location="cpu", weights_only=True)
        )
    except (OSError, SafetensorError) as error:
        raise WeightsError(f"{weights}: cannot be read ({_first_line(error)})") from error
    except Exception as error:  # pickle, zip and torch raise their own classes
        raise WeightsError(f"{weights}: damaged, or no weight file ({_first_line(error)})") from error
    if not isinstance(state, Mapping):
        raise WeightsError(f"{weights}: holds a {type(state).__name__}, not a table of tensors")
    try:
        network.load_state_dict(state)
    except (RuntimeError, TypeError) as error:
        raise WeightsError(
            f"{weights}: does not fit {MODEL} with {classes} classes ({_first_line(error)})",
            "name the classes of the file with `classes`",
        ) from error
    if not all(bool(torch.isfinite(t).all()) for t in network.state_dict().values()):
        raise WeightsError(f"{weights}: holds numbers that are not finite")
    network.eval()
    return network  # type: ignore[no-any-return]


def graph_bytes(network: Any, source: str = "") -> bytes:
    """The ONNX graph of torchvision's SSDLite `network` in eval mode: "logits" (1, N, 1 + C), "offsets" (1, N, 4)."""
    g = _Writer()
    x, maps = "images", []
    for n, block in enumerate([*network.backbone.features, *network.backbone.extra]):
        x = g.write(block, x, f"backbone.{n}")
        maps.append(x)
    each = network.anchor_generator.num_anchors_per_location()
    outputs = {}
    for name, head in (("logits", network.head.classification_head), ("offsets", network.head.regression_head)):
        rows = [
            g.rows(g.write(layers, x, f"{name}.{n}"), each[n], head.num_columns, math.ceil(SIDE / STRIDES[n]))
            for n, (layers, x) in enumerate(zip(head.module_list, maps, strict=True))
        ]
        outputs[name] = g.op("Concat", rows, name, axis=1)
    cells = sum(a * math.ceil(SIDE / s) ** 2 for a, s in zip(each, STRIDES, strict=True))
    columns = {"logits": network.head.classification_head.num_columns, "offsets": 4}
    graph = helper.make_graph(
        g.nodes,
        MODEL,
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [1, 3, SIDE, SIDE])],
        [helper.make_tensor_value_info(k, TensorProto.FLOAT, [1, cells, columns[k]]) for k in outputs],
        g.constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)
    model.metadata_props.add(key=SOURCE_KEY, value=source)
    onnx.checker.check_model(model)
    return bytes(model.SerializeToString())


@dataclass(frozen=True)
class _Fused:
    """Children of a module with each BatchNorm folded into the convolution before it."""

    children: tuple[nn.Module, ...]

    @staticmethod
    def of(module: nn.Module) -> _Fused:
        out: list[nn.Module] = []
        for child in module.children():
            if isinstance(child, nn.BatchNorm2d) and out and isinstance(out[-1], nn.Conv2d):
                out[-1] = fuse_conv_bn_eval(out[-1], child)
            else:
                out.append(child)
        return _Fused(tuple(out))


class _Writer:
    """Nodes and constants of a graph, named after torchvision's modules; `write` returns the output's name."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, value: Any) -> str:
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def op(self, kind: str, inputs: Sequence[str], name: str = "", **attributes: Any) -> str:
        name = name or f"{kind.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def write(self, module: nn.Module, x: str, path: str) -> str:
        """Raises WeightsError for a layer that torchvision did not have when this was written."""
        if isinstance(module, InvertedResidual):
            inner = self.write(module.block, x, path)
            return self.op("Add", [inner, x]) if module.use_res_connect else inner
        if isinstance(module, SqueezeExcitation):
            share = self.op("GlobalAveragePool", [x])
            for n, layer in enumerate((module.fc1, module.activation, module.fc2, module.scale_activation)):
                share = self.write(layer, share, f"{path}.{n}")
            return self.op("Mul", [x, share])
        if isinstance(module, nn.Sequential):
            for n, child in enumerate(_Fused.of(module).children):
                x = self.write(child, x, f"{path}.{n}")
            return x
        if isinstance(module, nn.Conv2d):
            return self._conv(module, x, path)
        if isinstance(module, nn.ReLU6):
            bounds = [self.constant(f"{path}.{k}", np.float32(v)) for k, v in (("low", 0.0), ("high", 6.0))]
            return self.op("Clip", [x, *bounds])
        if isinstance(module, nn.Hardsigmoid):
            return self.op("HardSigmoid", [x], alpha=1 / 6, beta=0.5)
        if isinstance(module, (nn.Identity, nn.Dropout)):
            return x
        for kind, name in ((nn.Hardswish, "HardSwish"), (nn.ReLU, "Relu")):
            if isinstance(module, kind):
                return self.op(name, [x])
        raise WeightsError(f"{MODEL}: its layer {path} ({type(module).__name__}) is not known to this version")

    def rows(self, x: str, anchors: int, columns: int, side: int) -> str:
        """(1, anchors * columns, h, w) to (1, h * w * anchors, columns)."""
        split = self.constant(f"{x}.split", np.array([1, anchors, columns, side, side], np.int64))
        flat = self.constant(f"{x}.flat", np.array([1, side * side * anchors, columns], np.int64))
        turned = self.op("Transpose", [self.op("Reshape", [x, split])], perm=[0, 3, 4, 1, 2])
        return self.op("Reshape", [turned, flat])

    def _conv(self, layer: nn.Conv2d, x: str, path: str) -> str:
        names = [self.constant(f"{path}.weight", layer.weight.detach().numpy())]
        if layer.bias is not None:
            names.append(self.constant(f"{path}.bias", layer.bias.detach().numpy()))
        pads = [int(p) for p in layer.padding]  # never a text in torchvision's networks
        return self.op(
            "Conv", [x, *names], kernel_shape=list(layer.kernel_size), strides=list(layer.stride),
            pads=[*pads, *pads], dilations=list(layer.dilation), group=layer.groups,
        )  # fmt: skip


def _network(classes: int) -> Any:
    """`classes` with the background."""
    return torchvision.models.get_model(MODEL, weights=None, weights_backbone=None, num_classes=classes)


def _source_of(graph: Path) -> str:
    try:
        model = onnx.load_from_string(graph.read_bytes())
    except Exception:  # not there, or damaged: made anew
        return ""
    return next((p.value for p in model.metadata_props if p.key == SOURCE_KEY), "")


def _write(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        if error.errno == 28:  # ENOSPC
            raise DiskFull(f"no space left to write {path}", "free space in the folder of the weights") from error
        raise StoreError(f"cannot write {path}: {error.strerror or error}", "the graph is kept there") from error


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).strip().splitlines()[:2]]
    return " ".join(lines)[:240] if lines else type(error).__name__

"""A published ONNX detector as a torch module that can be trained.

Only the operators of convolutional detectors are known. Weights and biases of convolutions are the parameters, named as
in the graph, so that trained values can be written back into the same graph (`written_back`): the student then runs in
onnxruntime with the same operators, at the same speed, as the download. Batch and input size of an export are constants
of its `Reshape` nodes; here they follow from the tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch import Tensor, nn

from edge.core.configs import Layers
from edge.core.errors import WeightsError
from edge.detectors.shapes import ResizableGraph, regroup

Attributes = Mapping[str, Any]
Values = dict[str, Tensor]


@dataclass
class _Step:
    """One operator: `call(*inputs)` gives its outputs. `free` are the values that no later node needs."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    call: Callable[..., Any]
    free: list[str] = field(default_factory=list)


class GraphNet(nn.Module):
    """`forward` takes the input tensor (B, 3, h, w), float32, and gives the graph's outputs by name.

    Raises WeightsError if the graph has operators that are not known here (they are named), or none that is trained.
    """

    def __init__(self, content: bytes, name: str, picture_input: str = "") -> None:
        super().__init__()
        self.name = name
        graph = ResizableGraph(content, name)
        model = graph.model
        self.picture_input = picture_input or next(iter(graph.inputs()), "")
        unknown = sorted({n.op_type for n in model.graph.node} - _KNOWN)
        if unknown:
            raise WeightsError(
                f"{name}: cannot be trained: operators {', '.join(unknown)} are not known",
                "it can still be a teacher",
            )
        self.outputs = tuple(o.name for o in model.graph.output)
        self._shapes = graph.reshape_shapes()
        with _operator_named(name, "Constant"):
            self._constants = _constants(model)
        trained = [i for n in model.graph.node if n.op_type == "Conv" for i in n.input[1:3] if i in self._constants]
        if not trained:
            raise WeightsError(f"{name}: cannot be trained: it has no convolution with weights of its own")
        self.weight_names: tuple[str, ...] = tuple(dict.fromkeys(trained))
        self.weights = nn.ParameterList(nn.Parameter(self._constants[n].clone()) for n in self.weight_names)
        self._slot = {n: k for k, n in enumerate(self.weight_names)}
        self._steps = self._compiled(list(model.graph.node))
        self._groups = _groups(list(model.graph.node), self._shapes)

    def parts(self, layers: Layers) -> list[nn.Parameter]:
        """The parameters that a retraining config with `layers` trains: those of the heads (convolutions that answer
        for one stride only), those behind the first upsampling too ("last_stage": neck and heads), or all."""
        if layers == "all":
            return list(self.weights)
        wanted = self._groups["head"] if layers == "head" else self._groups["head"] | self._groups["neck"]
        return [self.weights[k] for k, n in enumerate(self.weight_names) if n in wanted]

    def forward(self, x: Tensor) -> Values:
        values: Values = {self.picture_input: x}
        for step in self._steps:
            given = [self._value(values, n) for n in step.inputs]
            made = step.call(*given)
            for name, value in zip(step.outputs, made if isinstance(made, tuple) else (made,), strict=False):
                values[name] = value
            for name in step.free:
                values.pop(name, None)
        return {name: values[name] for name in self.outputs}

    def deepest(self, x: Tensor) -> Tensor:
        """The map (B, C, h, w) in front of the first upsampling (or the last one there is): the backbone's features."""
        values: Values = {self.picture_input: x}
        seen = x
        upsamples = any(step.kind in _UPSAMPLING for step in self._steps)
        later = self._groups["head"] | self._groups["neck"]
        for step in self._steps:
            # Without an upsampling: in front of the first convolution that is not the backbone's.
            if step.kind in _UPSAMPLING if upsamples else not later.isdisjoint(step.inputs):
                return values[step.inputs[0]]
            made = step.call(*(self._value(values, n) for n in step.inputs))
            for name, value in zip(step.outputs, made if isinstance(made, tuple) else (made,), strict=False):
                values[name] = value
                seen = value if value.ndim == 4 else seen
        return seen

    def _value(self, values: Values, name: str) -> Tensor | None:
        if not name:
            return None
        if name in values:
            return values[name]
        slot = self._slot.get(name)
        return self._constants[name] if slot is None else self.weights[slot]

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> GraphNet:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._constants = {k: fn(v) if v.is_floating_point() else v for k, v in self._constants.items()}
        return self

    def _compiled(self, nodes: list[onnx.NodeProto]) -> list[_Step]:
        steps = []
        readers: dict[str, list[onnx.NodeProto]] = {}
        for node in nodes:
            for name in node.input:
                readers.setdefault(name, []).append(node)
        fused: set[str] = set()
        for node in nodes:
            if node.op_type == "Constant" or node.output[0] in fused:
                continue
            step = self._silu(node, readers) or self._hard_swish(node, readers)
            if step is None:
                with _operator_named(self.name, node.op_type):
                    step = self._step(node)
            else:
                fused |= set(step.outputs)
                fused |= {n.output[0] for n in nodes if n.output[0] in step.free}
                step.free = []
            steps.append(step)
        last: dict[str, int] = {}
        for number, step in enumerate(steps):
            for name in step.inputs:
                last[name] = number
        for name, number in last.items():
            if name not in self._constants and name not in self.outputs:
                steps[number].free.append(name)
        return steps

    def _silu(self, node: onnx.NodeProto, readers: Mapping[str, list[onnx.NodeProto]]) -> _Step | None:
        """x * sigmoid(x) in one: half the memory that a training step keeps."""
        if node.op_type != "Sigmoid" or len(readers.get(node.output[0], [])) != 1:
            return None
        times = readers[node.output[0]][0]
        if times.op_type != "Mul" or set(times.input) != {node.input[0], node.output[0]}:
            return None
        return _Step("SiLU", (node.input[0],), (times.output[0],), F.silu, [node.output[0]])

    def _hard_swish(self, node: onnx.NodeProto, readers: Mapping[str, list[onnx.NodeProto]]) -> _Step | None:
        """x * clip(x + 3, 0, 6) / 6 in one."""
        chain = [node]
        for kind in ("Clip", "Mul", "Div"):
            after = readers.get(chain[-1].output[0], [])
            if len(after) != 1 or after[0].op_type != kind:
                return None
            chain.append(after[0])
        add, clip, times, over = chain
        x = next((i for i in add.input if i not in self._constants), None)
        three = next((i for i in add.input if i in self._constants), None)
        if add.op_type != "Add" or x is None or three is None or x not in times.input:
            return None
        low, high = self._bounds(clip)
        six = self._constants.get(over.input[1])
        if six is None or six.numel() != 1 or self._constants[three].numel() != 1:
            return None
        if (float(self._constants[three]), low, high, float(six)) != (3.0, 0.0, 6.0, 6.0):
            return None
        return _Step("HardSwish", (x,), (over.output[0],), F.hardswish, [n.output[0] for n in chain[:-1]])

    def _bounds(self, node: onnx.NodeProto) -> tuple[float, float]:
        a = _attributes(node)
        low, high = a.get("min", -np.inf), a.get("max", np.inf)
        if len(node.input) > 1 and node.input[1]:
            low = float(self._constants[node.input[1]])
        if len(node.input) > 2 and node.input[2]:
            high = float(self._constants[node.input[2]])
        return float(low), float(high)

    def _step(self, node: onnx.NodeProto) -> _Step:
        a = _attributes(node)
        inputs, outputs = tuple(node.input), tuple(node.output)
        if node.op_type == "Reshape":
            before, after = self._shapes[node.output[0]]

            def reshape(x: Tensor) -> Tensor:
                return x.reshape(regroup(before, after, list(x.shape)))

            return _Step("Reshape", inputs[:1], outputs, reshape)
        if node.op_type == "Clip":
            low, high = self._bounds(node)
            return _Step("Clip", inputs[:1], outputs, lambda x: x.clamp(low, high))
        if node.op_type in _WITH_CONSTANTS:
            rest = [self._constants[n].tolist() if n else None for n in inputs[1:]]
            call = _WITH_CONSTANTS[node.op_type](a, rest, len(outputs))
            return _Step(node.op_type, inputs[:1], outputs, call)
        return _Step(node.op_type, inputs, outputs, _PLAIN[node.op_type](a))


@contextmanager
def _operator_named(graph: str, operator: str) -> Iterator[None]:
    """A use of an operator that is not known here is told as such."""
    try:
        yield
    except (LookupError, ValueError, TypeError, RuntimeError, StopIteration) as error:
        words = f"{graph}: cannot be trained: the operator {operator} is used in a way that is not known"
        raise WeightsError(f"{words} ({error or type(error).__name__})", "it can still be a teacher") from error


def written_back(content: bytes, weights: Mapping[str, np.ndarray[Any, Any]], properties: Mapping[str, str]) -> bytes:
    """The graph with other values for the constants named in `weights`, and `properties` as its metadata."""
    model = onnx.load_from_string(content)
    for tensor in model.graph.initializer:
        value = weights.get(tensor.name)
        if value is not None:
            tensor.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(value, np.float32), tensor.name))
    kept = [p for p in model.metadata_props if p.key not in properties]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    for key, text in properties.items():
        model.metadata_props.add(key=key, value=text)
    return bytes(model.SerializeToString())


def _constants(model: onnx.ModelProto) -> dict[str, Tensor]:
    out = {i.name: torch.from_numpy(numpy_helper.to_array(i).copy()) for i in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Constant":
            out[node.output[0]] = torch.from_numpy(_constant(node))
    return out


def _constant(node: onnx.NodeProto) -> np.ndarray[Any, Any]:
    """The value of a Constant, in whichever form it has it. Raises ValueError for text and sparse tensors."""
    for key, value in _attributes(node).items():
        if key == "value":
            return np.array(numpy_helper.to_array(value))
        if key in ("value_float", "value_floats"):
            return np.asarray(value, np.float32)
        if key in ("value_int", "value_ints"):
            return np.asarray(value, np.int64)
    raise ValueError("a constant that is no number")


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}


def _groups(nodes: Sequence[onnx.NodeProto], shapes: Mapping[str, tuple[list[int], list[int]]]) -> dict[str, set[str]]:
    """Names of the weights of heads and neck. A head's convolution leads to the answers of one stride alone (known by
    the sides of the map that is flattened); the neck is everything behind the first upsampling that is not a head, or
    in a graph without one (SSD) everything that does not lead to all strides."""
    made = {o: n for n in nodes for o in n.output}
    levels: dict[str, set[tuple[int, ...]]] = {}
    convolved: set[str] = set()
    for node in reversed(nodes):
        after = any(o in convolved for o in node.output)
        if node.op_type == "Conv" or after:
            convolved.update(node.input)
        reached = set[tuple[int, ...]]().union(*(levels.get(o, set()) for o in node.output))
        if node.op_type == "Reshape" and not after and len(shapes[node.output[0]][0]) == 4:
            reached = {tuple(shapes[node.output[0]][0][2:])}
        for name in node.input:
            levels.setdefault(name, set()).update(reached)
    behind: set[str] = set()
    for node in nodes:
        if node.op_type in _UPSAMPLING or any(i in behind for i in node.input):
            behind.update(node.output)
    pyramid = any(n.op_type in _UPSAMPLING for n in nodes)
    every = set[tuple[int, ...]]().union(*levels.values())
    head, neck = set[str](), set[str]()
    for node in nodes:
        if node.op_type != "Conv":
            continue
        mine = set(node.input[1:3])
        if len(levels.get(node.output[0], ())) == 1:
            head |= mine
            continue
        later = any(i in behind for i in node.input[:1]) or _feeds_upsampling(node, nodes, made)
        if later or (not pyramid and levels.get(node.output[0], every) < every):
            neck |= mine
    return {"head": head, "neck": neck}


def _feeds_upsampling(
    node: onnx.NodeProto, nodes: Sequence[onnx.NodeProto], made: Mapping[str, onnx.NodeProto]
) -> bool:
    """The convolution right in front of an upsampling (its activation between them)."""
    for other in nodes:
        if other.op_type in _UPSAMPLING:
            found = made.get(other.input[0])
            while found is not None and found.op_type in _ACTIVATIONS:
                found = made.get(found.input[0])
            if found is node:
                return True
    return False


# operators


def _conv(a: Attributes) -> Callable[..., Tensor]:
    pads = list(a.get("pads", [0, 0, 0, 0]))
    stride, dilation = list(a.get("strides", [1, 1])), list(a.get("dilations", [1, 1]))
    groups = int(a.get("group", 1))
    even = pads[0] == pads[2] and pads[1] == pads[3]

    def conv(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        if not even:
            x = F.pad(x, [pads[1], pads[3], pads[0], pads[2]])
        return F.conv2d(x, weight, bias, stride, pads[:2] if even else [0, 0], dilation, groups)

    return conv


def _max_pool(a: Attributes) -> Callable[..., Tensor]:
    pads = list(a.get("pads", [0, 0, 0, 0]))
    kernel, stride = list(a["kernel_shape"]), list(a.get("strides", [1, 1]))
    ceil = bool(a.get("ceil_mode", 0))

    def pool(x: Tensor) -> Tensor:
        if pads[0] == pads[2] and pads[1] == pads[3] and 2 * pads[0] <= kernel[0] and 2 * pads[1] <= kernel[1]:
            return F.max_pool2d(x, kernel, stride, pads[:2], ceil_mode=ceil)
        return F.max_pool2d(
            F.pad(x, [pads[1], pads[3], pads[0], pads[2]], value=-torch.inf), kernel, stride, ceil_mode=ceil
        )

    return pool


def _average_pool(a: Attributes) -> Callable[..., Tensor]:
    pads = list(a.get("pads", [0, 0, 0, 0]))
    kernel, stride = list(a["kernel_shape"]), list(a.get("strides", [1, 1]))
    ceil, whole = bool(a.get("ceil_mode", 0)), bool(a.get("count_include_pad", 0))

    def pool(x: Tensor) -> Tensor:
        if pads[:2] == pads[2:]:
            return F.avg_pool2d(x, kernel, stride, pads[:2], ceil, whole)
        sides = [pads[1], pads[3], pads[0], pads[2]]
        means = F.avg_pool2d(F.pad(x, sides), kernel, stride, 0, ceil)
        if whole:
            return means
        return means / F.avg_pool2d(F.pad(torch.ones_like(x[:1, :1]), sides), kernel, stride, 0, ceil)

    return pool


def _slice(a: Attributes, rest: list[Any], outputs: int) -> Callable[..., Tensor]:
    starts, ends = a.get("starts"), a.get("ends")
    axes, steps = a.get("axes"), None
    if rest:
        starts, ends = rest[0], rest[1]
        axes = rest[2] if len(rest) > 2 else axes
        steps = rest[3] if len(rest) > 3 else None
    assert starts is not None
    assert ends is not None

    def cut(x: Tensor) -> Tensor:
        where = [slice(None)] * x.ndim
        for n, (start, end) in enumerate(zip(starts, ends, strict=True)):
            axis = n if axes is None else axes[n]
            where[axis] = slice(start, min(end, 2**31 - 1) if end >= 0 else end, 1 if steps is None else steps[n])
        return x[tuple(where)]

    return cut


def _split(a: Attributes, rest: list[Any], outputs: int) -> Callable[..., tuple[Tensor, ...]]:
    axis = int(a.get("axis", 0))
    sizes = a.get("split") or (rest[0] if rest else None)

    def split(x: Tensor) -> tuple[Tensor, ...]:
        return torch.split(x, list(sizes) if sizes else -(-x.shape[axis] // outputs), axis)

    return split


def _resize(a: Attributes, rest: list[Any], outputs: int) -> Callable[..., Tensor]:
    """Nearest and linear upsampling by whole factors: `scales` are the last given constant that has four."""
    scales = next((r for r in reversed(rest) if r and len(r) == 4), None)
    mode = a.get("mode", b"nearest").decode()
    factors = None if scales is None else [float(s) for s in scales[2:]]

    def resize(x: Tensor) -> Tensor:
        if factors is None:
            raise WeightsError("cannot be trained: Resize without scales")
        if mode == "nearest":
            return F.interpolate(x, scale_factor=factors, mode="nearest")
        corners = a.get("coordinate_transformation_mode", b"half_pixel") == b"align_corners"
        return F.interpolate(x, scale_factor=factors, mode="bilinear", align_corners=corners)

    return resize


def _norm(a: Attributes) -> Callable[..., Tensor]:
    eps = float(a.get("epsilon", 1e-5))

    def norm(x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        return F.batch_norm(x, mean, var, scale, bias, False, 0.0, eps)

    return norm


def _hard_sigmoid(a: Attributes) -> Callable[..., Tensor]:
    alpha, beta = float(a.get("alpha", 0.2)), float(a.get("beta", 0.5))
    return lambda x: (x * alpha + beta).clamp(0.0, 1.0)


_UPSAMPLING = frozenset({"Resize", "Upsample"})
_ACTIVATIONS = frozenset({"Sigmoid", "Mul", "Relu", "LeakyRelu", "Clip", "HardSigmoid", "HardSwish", "Add", "Div"})
_WITH_CONSTANTS: Mapping[str, Callable[[Attributes, list[Any], int], Callable[..., Any]]] = {
    "Slice": _slice,
    "Split": _split,
    "Resize": _resize,
    "Upsample": _resize,
}
_PLAIN: Mapping[str, Callable[[Attributes], Callable[..., Any]]] = {
    "Conv": _conv,
    "MaxPool": _max_pool,
    "AveragePool": _average_pool,
    "GlobalAveragePool": lambda a: lambda x: x.mean((2, 3), keepdim=True),
    "BatchNormalization": _norm,
    "Sigmoid": lambda a: torch.sigmoid,
    "Relu": lambda a: F.relu,
    "LeakyRelu": lambda a: lambda x: F.leaky_relu(x, float(a.get("alpha", 0.01))),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": lambda a: F.hardswish,
    "Tanh": lambda a: torch.tanh,
    "Exp": lambda a: torch.exp,
    "Add": lambda a: lambda x, y: x + y,
    "Sub": lambda a: lambda x, y: x - y,
    "Mul": lambda a: lambda x, y: x * y,
    "Div": lambda a: lambda x, y: x / y,
    "Sqrt": lambda a: torch.sqrt,
    "Softmax": lambda a: lambda x: torch.softmax(x, int(a.get("axis", -1))),
    "Concat": lambda a: lambda *xs: torch.cat(xs, int(a["axis"])),
    "Transpose": lambda a: lambda x: x.permute(list(a["perm"])),
    "Identity": lambda a: lambda x: x,
}
_KNOWN = frozenset(_PLAIN) | frozenset(_WITH_CONSTANTS) | {"Reshape", "Clip", "Constant"}

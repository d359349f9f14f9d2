"""The same graph at another input shape than it was exported for.

Published detectors are exported for one square input. A picture of another shape then pays for padding, or is squeezed.
The convolutions do not care; only the constants of `Reshape` nodes do, and those can be distinguished.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import numpy_helper, shape_inference

from edge.core.errors import WeightsError

_SMALL = 64


def regroup(before: Sequence[int], after: Sequence[int], now: Sequence[int]) -> list[int]:
    """The shape that a `Reshape` from `before` to `after` gives a tensor of shape `now` (another batch, height or
    width).

    Sides are matched in the smallest runs of equal product; a run that did not change keeps its sides, and one that
    becomes a single side takes the product. Raises ValueError where that does not say how a changed run is divided.
    """
    out: list[int] = []
    i = j = 0
    while i < len(before) or j < len(after):
        start, first = i, j
        left = before[i] if i < len(before) else 1
        right = after[j] if j < len(after) else 1
        i, j = min(i + 1, len(before)), min(j + 1, len(after))
        while left != right:
            if left < right and i < len(before):
                left *= before[i]
                i += 1
            elif j < len(after):
                right *= after[j]
                j += 1
            else:
                raise ValueError(f"{list(before)} cannot become {list(after)}")
        if j == len(after) and math.prod(before[i:]) == 1:
            i = len(before)  # a map of one row or column: these sides belong to the last run
        old, new, target = before[start:i], now[start:i], after[first:j]
        if list(old) == list(new):
            out += target
        elif len(target) == 1:
            out.append(math.prod(new))
        elif not target and math.prod(new) == 1:
            continue
        else:
            raise ValueError(f"{list(old)} to {list(target)} does not say how {list(new)} is divided")
    return out


#: Metadata of a graph: the constants of its `Reshape` nodes at input shapes that were worked out before.
SHAPES_KEY = "magpie.shapes"
Settled = dict[str, list[int]]


class ResizableGraph:
    """A graph with one picture input that was exported for one shape; `at` gives it for another.

    Raises WeightsError if the content is not an ONNX graph.
    """

    def __init__(self, content: bytes, name: str) -> None:
        self.name = name
        try:
            self.model = onnx.load_from_string(content)
        except Exception as error:  # protobuf raises its own classes
            raise WeightsError(f"{name}: not an ONNX graph ({_first_line(error)})") from error
        _constants_are_no_inputs(self.model)
        self._reshapes = [n for n in self.model.graph.node if n.op_type == "Reshape"]
        self._settled = _settled_before(self.model)

    def inputs(self) -> dict[str, list[int | str]]:
        """Shapes of the inputs by name, in order; a side that may vary is a text."""
        return {
            i.name: [
                d.dim_value if d.HasField("dim_value") else (d.dim_param or "?") for d in i.type.tensor_type.shape.dim
            ]
            for i in self.model.graph.input
        }

    def plain(self) -> bytes:
        """The graph as exported (constants are not inputs)."""
        return bytes(self.model.SerializeToString())

    @functools.cached_property
    def _before(self) -> dict[str, tuple[list[int], list[int]]]:
        try:
            known = _inferred(_without_weights(self.model))
        except Exception as error:  # onnx raises its own classes
            raise WeightsError(f"{self.name}: its shapes cannot be inferred ({_first_line(error)})") from error
        out = {}
        for node in self._reshapes:
            before, after = known.get(node.input[0]), known.get(node.output[0])
            if before is None or after is None:
                raise WeightsError(f"{self.name}: the shapes around Reshape {node.output[0]!r} cannot be worked out")
            out[node.output[0]] = (before, after)
        return out

    def reshape_shapes(self) -> dict[str, tuple[list[int], list[int]]]:
        """Of each `Reshape` (by the name of its output) the shapes before and after, as exported.

        Raises WeightsError if one of them is not known."""
        return self._before

    def at(self, size: tuple[int, int], picture_input: str) -> bytes:
        """The graph for a `picture_input` of `size` (height, width), batch as exported.

        Raises WeightsError naming the operator that depends on the exported size in a way that cannot be changed.
        """
        settled = self._settled.get(size)
        if settled is None:
            settled = self._settled[size] = self._settle(size, picture_input)
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        _set_input(model, picture_input, size)
        out = _with_shapes(model, settled, [])
        for value in out.graph.output:
            value.type.tensor_type.ClearField("shape")
        return bytes(out.SerializeToString())

    def settled(self) -> str:
        """The shapes worked out so far, for the metadata of this graph with other weights (SHAPES_KEY)."""
        return json.dumps({f"{h}x{w}": shapes for (h, w), shapes in self._settled.items()})

    def _settle(self, size: tuple[int, int], picture_input: str) -> Settled:
        wanted = {name: after for name, (_, after) in self._before.items()}
        model = onnx.ModelProto()
        model.CopyFrom(self.model)
        _set_input(model, picture_input, size)
        light = _without_weights(model)
        # Each pass settles the reshapes whose input does not hang on one that is still unsettled.
        left = list(self._reshapes)
        while left:
            known = _inferred(_with_shapes(light, wanted, left))
            ready = [n for n in left if n.input[0] in known]
            if not ready:
                raise WeightsError(f"{self.name}: cannot be used at {size[1]}x{size[0]}: Reshape {left[0].output[0]!r}")
            for node in ready:
                before, after = self._before[node.output[0]]
                try:
                    wanted[node.output[0]] = regroup(before, after, known[node.input[0]])
                except ValueError as error:
                    raise WeightsError(
                        f"{self.name}: cannot be used at {size[1]}x{size[0]}: Reshape {node.output[0]!r} ({error})"
                    ) from error
            left = [n for n in left if n not in ready]
        return wanted


def _settled_before(model: onnx.ModelProto) -> dict[tuple[int, int], Settled]:
    """From the graph's metadata; unreadable values are worked out again."""
    text = next((p.value for p in model.metadata_props if p.key == SHAPES_KEY), "")
    names = {n.output[0] for n in model.graph.node if n.op_type == "Reshape"}
    try:
        given = json.loads(text) if text else {}
        sizes = {k: tuple(int(side) for side in k.split("x")) for k in given}
        return {(sizes[k][0], sizes[k][1]): shapes for k, shapes in given.items() if set(shapes) == names}
    except (ValueError, IndexError, AttributeError, TypeError):
        return {}


def _constants_are_no_inputs(model: onnx.ModelProto) -> None:
    """Old exports list weights as inputs too, and a runtime then must not fold them."""
    constants = {i.name for i in model.graph.initializer}
    inputs = [i for i in model.graph.input if i.name not in constants]
    del model.graph.input[:]
    model.graph.input.extend(inputs)


def _set_input(model: onnx.ModelProto, name: str, size: tuple[int, int]) -> None:
    for value in model.graph.input:
        if value.name == name:
            sides = value.type.tensor_type.shape.dim
            sides[2].dim_value, sides[3].dim_value = size
    del model.graph.value_info[:]


def _with_shapes(
    model: onnx.ModelProto, shapes: dict[str, list[int]], unsettled: Sequence[onnx.NodeProto]
) -> onnx.ModelProto:
    """A copy whose `Reshape` nodes take `shapes` (by output name) but those in `unsettled`, which are left out."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    waiting = {n.output[0] for n in unsettled}
    nodes = list(out.graph.node)
    del out.graph.node[:]
    for node in nodes:
        if node.op_type == "Reshape" and node.output[0] in shapes:
            if node.output[0] in waiting:
                continue  # shape inference then says nothing of what comes behind it
            constant = f"{node.output[0]}:shape"
            value = np.asarray(shapes[node.output[0]], np.int64)
            out.graph.initializer.append(numpy_helper.from_array(value, constant))
            node.input[1] = constant
            for attribute in list(node.attribute):
                if attribute.name == "allowzero":
                    node.attribute.remove(attribute)
        out.graph.node.append(node)
    return out


def _without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose large constants are inputs of the same shape: shape inference then takes milliseconds."""
    out = onnx.ModelProto()
    out.CopyFrom(model)
    kept = []
    inputs = {i.name for i in out.graph.input}
    for tensor in out.graph.initializer:
        if math.prod(tensor.dims) <= _SMALL and tensor.data_type in (onnx.TensorProto.INT64, onnx.TensorProto.FLOAT):
            kept.append(tensor)
        elif tensor.name not in inputs:
            out.graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))
    del out.graph.initializer[:]
    out.graph.initializer.extend(kept)
    del out.graph.value_info[:]
    for value in out.graph.output:
        value.type.tensor_type.ClearField("shape")
    return out


def _inferred(model: onnx.ModelProto) -> dict[str, list[int]]:
    """Shapes of the tensors for which all sides are known."""
    done = shape_inference.infer_shapes(model, data_prop=True)
    out: dict[str, list[int]] = {}
    for value in (*done.graph.value_info, *done.graph.input, *done.graph.output):
        if value.type.tensor_type.HasField("shape"):
            sides = value.type.tensor_type.shape.dim
            if all(s.HasField("dim_value") for s in sides):
                out[value.name] = [s.dim_value for s in sides]
    return out


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return text[0][:200] if text else type(error).__name__

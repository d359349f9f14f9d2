"""The input's shape for a camera, and graphs at shapes that they were not exported for."""

from __future__ import annotations

import json
import math
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest
from detectors.tiny_detectors import Writer, tiny_distribution, tiny_grid
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from edge.core.detectors import InputSpec, OutputSpec
from edge.core.errors import WeightsError
from edge.core.input_shapes import camera_shape
from edge.detectors.session import DetectorSession
from edge.detectors.shapes import SHAPES_KEY, ResizableGraph, regroup

TINY = {"grid": tiny_grid, "distribution": tiny_distribution}

sides = st.integers(40, 4000)


def shown(shape: tuple[int, int], picture: tuple[int, int]) -> float:
    return min(shape[0] / picture[0], shape[1] / picture[1])


@given(pixels=st.integers(32 * 32, 700_000), picture=st.tuples(sides, sides))
@settings(max_examples=60)
def test_no_other_input_of_that_cost_shows_the_picture_larger(pixels: int, picture: tuple[int, int]) -> None:
    height, width = camera_shape(pixels, picture)
    assert height % 32 == width % 32 == 0
    assert height * width <= pixels
    mine = shown((height, width), picture)
    steps = range(32, pixels // 32 + 1, 32)
    best = max(shown((h, pixels // h // 32 * 32), picture) for h in steps if pixels // h >= 32)
    assert mine >= best - 1e-5
    # Nor does a smaller input show it as large.
    for smaller in ((height - 32, width), (height, width - 32)):
        assert min(smaller) == 0 or shown(smaller, picture) < mine or mine - shown(smaller, picture) < 1e-6


def test_known_cameras() -> None:
    assert camera_shape(416 * 416, (360, 640)) == (288, 512)
    assert camera_shape(416 * 416, (480, 480)) == (416, 416)
    assert camera_shape(100, (480, 480)) == (32, 32)


shapes = st.lists(st.integers(1, 12), min_size=1, max_size=5)


@given(before=shapes, data=st.data())
def test_a_tensor_of_the_exported_shape_becomes_what_reshape_made_of_it(before: list[int], data: st.DataObject) -> None:
    after = data.draw(st.sampled_from(factorings(before)))
    tensor = np.zeros(before)
    assert tuple(regroup(before, after, before)) == tensor.reshape(after).shape


def factorings(before: list[int]) -> list[list[int]]:
    """Other shapes with as many elements."""
    total = math.prod(before)
    out = [[total], before, [1, *before], [*before, 1]]
    out += [[*before[:n], math.prod(before[n:])] for n in range(len(before))]
    out += [[d, total // d] for d in range(1, 13) if total % d == 0]
    return out


@given(
    batch=st.integers(1, 5),
    channels=st.sampled_from([4, 6, 9, 16]),
    old=st.tuples(st.integers(1, 20), st.integers(1, 20)),
    new=st.tuples(st.integers(1, 20), st.integers(1, 20)),
)
def test_batch_and_sides_may_change(batch: int, channels: int, old: tuple[int, int], new: tuple[int, int]) -> None:
    # A map is flattened.
    before, now = [1, channels, *old], [batch, channels, *new]
    flat = regroup(before, [1, channels, old[0] * old[1]], now)
    assert flat == [batch, channels, new[0] * new[1]]
    # Channels are shuffled.
    if channels % 2 == 0:
        parts = [1, 2, channels // 2, *old]
        assert regroup(before, parts, now) == [batch, 2, channels // 2, *new]
        assert regroup(parts, before, [batch, 2, channels // 2, *new]) == now


def test_a_map_of_one_cell_is_flattened_too() -> None:
    """The coarsest level of an SSD at a small input has one cell; the camera's shape gives it more."""
    assert regroup([1, 6, 4, 1, 1], [1, 6, 4, 1, 1], [1, 6, 4, 1, 2]) == [1, 6, 4, 1, 2]
    assert regroup([1, 1, 1, 6, 4], [1, 6, 4], [2, 1, 2, 6, 4]) == [2, 12, 4]


@pytest.mark.parametrize(
    ("before", "after", "now"),
    [
        ([1, 6, 8, 8], [1, 8, 6, 8], [1, 6, 4, 4]),  # sides and channels mixed
        ([1, 64], [1, 8, 8], [1, 32]),  # into a height and a width that are not given
        ([2, 3], [7], [2, 3]),
    ],
)
def test_what_cannot_be_distinguished_is_refused(before: list[int], after: list[int], now: list[int]) -> None:
    with pytest.raises(ValueError, match=r"how|cannot become"):
        regroup(before, after, now)


@pytest.mark.parametrize("kind", sorted(TINY))
def test_a_graph_at_its_own_shape_is_as_exported(kind: str) -> None:
    content, spec = TINY[kind]()
    session = DetectorSession(content, kind, spec.input, spec.output)
    x = np.random.default_rng(0).random((1, 3, 128, 128), np.float32)
    rebuilt = DetectorSession(ResizableGraph(content, kind).at((128, 128), "images"), kind, spec.input, spec.output)
    for name, value in session.outputs(x, (128, 128)).items():
        assert np.array_equal(value, rebuilt.outputs(x, (128, 128))[name])


@pytest.mark.parametrize(("kind", "shape"), list(product(sorted(TINY), [(96, 160), (64, 192), (32, 32)])))
def test_a_graph_at_another_shape_is_the_export_at_that_shape(kind: str, shape: tuple[int, int]) -> None:
    """A square export of another size is the same network: a picture in its top left corner gives the same cells."""
    content, spec = TINY[kind]()
    big, _ = TINY[kind](0, spec.classes, 192)
    session = DetectorSession(content, kind, spec.input, spec.output)
    other = DetectorSession(big, kind, InputSpec(192, 192), spec.output)
    x = np.random.default_rng(1).random((1, 3, 192, 192), np.float32)
    mine, exported = session.outputs(x, (192, 192)), other.outputs(x, (192, 192))
    for name, value in mine.items():
        assert np.allclose(value, exported[name], atol=1e-5)
    rows = sum(v.shape[1] for v in session.outputs(x[..., : shape[0], : shape[1]], shape).values())
    cells = sum(shape[0] // s * (shape[1] // s) for s in (8, 16))
    assert rows == cells * (1 if kind == "grid" else 2)


@pytest.mark.parametrize("kind", sorted(TINY))
def test_settled_shapes_in_the_metadata_are_used(kind: str) -> None:
    content, _ = TINY[kind]()
    first = ResizableGraph(content, kind)
    wanted = first.at((96, 160), "images")
    # The same shapes, written as no run would work them out.
    (settled,) = json.loads(first.settled()).values()
    marked = {name: [-1, *shape[1:]] for name, shape in settled.items()}
    model = onnx.load_from_string(content)
    model.metadata_props.add(key=SHAPES_KEY, value=json.dumps({"96x160": marked}))
    again = onnx.load_from_string(ResizableGraph(model.SerializeToString(), kind).at((96, 160), "images"))
    assert _reshapes(again) == marked
    assert _reshapes(onnx.load_from_string(wanted)) == settled


def _reshapes(model: onnx.ModelProto) -> dict[str, list[int]]:
    """The shape that each Reshape takes, by its output."""
    constants = {i.name: numpy_helper.to_array(i).tolist() for i in model.graph.initializer}
    return {n.output[0]: constants[n.input[1]] for n in model.graph.node if n.op_type == "Reshape"}


@pytest.mark.parametrize(
    "metadata", ["", "no json", "[]", "{}", '{"96x160": {"gone": [1]}}', '{"wide": {}}', '{"96": {}}']
)
def test_metadata_that_does_not_fit_is_worked_out_again(metadata: str) -> None:
    content, _ = tiny_grid()
    model = onnx.load_from_string(content)
    model.metadata_props.add(key=SHAPES_KEY, value=metadata)
    graph = ResizableGraph(model.SerializeToString(), "tiny")
    assert graph.at((96, 160), "images")
    assert set(json.loads(graph.settled())["96x160"]) == {
        n.output[0] for n in model.graph.node if n.op_type == "Reshape"
    }


def fixed_graph() -> bytes:
    """A map is turned on its side by a Reshape: no other size is known."""
    g = Writer(0)
    x = g.conv("images", 3, 8, stride=2)
    out = g.op("Reshape", [x, g.constant([1, 16, 8, 64, 4], np.int64)])
    return g.model(128, {"output": g.op("Reshape", [out, g.constant([1, -1, 8], np.int64)])})


def test_a_refusal_names_the_operator() -> None:
    content = fixed_graph()
    reshape = next(n for n in onnx.load_from_string(content).graph.node if n.op_type == "Reshape")
    with pytest.raises(WeightsError, match=rf"turned.*160x96.*Reshape '{reshape.output[0]}'"):
        ResizableGraph(content, "turned").at((96, 160), "images")
    session = DetectorSession(content, "turned", InputSpec(128, 128), OutputSpec("grid", (16,)))
    assert "Reshape" in session.fix_shape_if_needed()
    assert session.shape_for((96, 160)) == (128, 128)
    assert session.scaled(0.5) == (128, 128)


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(WeightsError, match="junk: not an ONNX graph"):
        ResizableGraph(b"certainly not a graph", "junk")


def test_old_exports_that_list_weights_as_inputs() -> None:
    content, spec = tiny_grid()
    model = onnx.load_from_string(content)
    model.graph.input.extend(
        helper.make_tensor_value_info(i.name, TensorProto.FLOAT, list(i.dims))
        for i in model.graph.initializer
        if i.data_type == TensorProto.FLOAT
    )
    session = DetectorSession(model.SerializeToString(), "old", spec.input, spec.output)
    x = np.zeros((1, 3, 96, 160), np.float32)
    plain = DetectorSession(content, "tiny", spec.input, spec.output)
    assert np.array_equal(session.outputs(x, (96, 160))["output"], plain.outputs(x, (96, 160))["output"])


@pytest.mark.parametrize("file", ["yolox_nano.onnx", "picodet_s_416_coco.onnx", "nanodet_m_416.onnx"])
def test_published_files_at_a_cameras_shape(file: str, shared_dir: Path) -> None:
    path = shared_dir / "data" / "models" / file
    graph = ResizableGraph(path.read_bytes(), file)
    name = next(iter(graph.inputs()))
    assert onnx.load_from_string(graph.at((288, 512), name)).graph.node
    for before, after in graph.reshape_shapes().values():
        assert math.prod(before) == math.prod(after)

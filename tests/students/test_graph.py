"""A published graph as a torch module: the same numbers, and only what is asked for is trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from detectors.tiny_detectors import Writer, tiny_distribution, tiny_grid
from onnx import numpy_helper

from edge.core.detectors import InputSpec, OutputSpec
from edge.core.errors import WeightsError
from edge.detectors.session import DetectorSession
from edge.students.graph import GraphNet, written_back

TINY = {"grid": tiny_grid, "distribution": tiny_distribution}
REAL = {"yolox_nano.onnx": 416, "picodet_s_416_coco.onnx": 416, "nanodet_m_416.onnx": 416}


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def agree(content: bytes, side: int, sizes: list[tuple[int, int]], scale: float, atol: float = 1e-3) -> None:
    net = GraphNet(content, "net")
    session = DetectorSession(content, "net", InputSpec(side, side), OutputSpec("grid", (8,)))
    rng = np.random.default_rng(0)
    for batch, size in enumerate(sizes, 1):
        x = (rng.random((batch, 3, *size), np.float32) * scale).astype(np.float32)
        with torch.inference_mode():
            ours = net(torch.from_numpy(x))
        for n in range(batch):
            theirs = session.outputs(x[n : n + 1], size)
            assert set(theirs) == set(ours)
            for name, value in theirs.items():
                assert ours[name][n : n + 1].shape == value.shape
                assert np.abs(ours[name][n : n + 1].numpy() - value).max() <= atol


@pytest.mark.parametrize("kind", sorted(TINY))
def test_torch_answers_as_onnxruntime(kind: str) -> None:
    agree(TINY[kind]()[0], 128, [(128, 128), (96, 160)], 255.0 if kind == "grid" else 2.0)


@pytest.mark.parametrize("file", sorted(REAL))
def test_torch_answers_as_onnxruntime_on_published_files(file: str, shared_dir: Path) -> None:
    content = (shared_dir / "data" / "models" / file).read_bytes()
    agree(content, REAL[file], [(REAL[file], REAL[file]), (96, 160)], 255.0 if "yolox" in file else 2.0)


@pytest.mark.parametrize("file", ["FastestDet.onnx", "deimv2_hgnetv2_atto_coco.onnx"])
def test_operators_that_are_not_known_are_named(file: str, shared_dir: Path) -> None:
    with pytest.raises(WeightsError, match="cannot be trained") as raised:
        GraphNet((shared_dir / "data" / "models" / file).read_bytes(), file)
    model = onnx.load(shared_dir / "data" / "models" / file)
    assert any(n.op_type in str(raised.value) for n in model.graph.node)


def test_an_unknown_operator_and_a_graph_without_weights_are_refused() -> None:
    g = Writer(0)
    with pytest.raises(WeightsError, match="operators Erf are not known"):
        GraphNet(g.model(64, {"output": g.op("Erf", [g.conv("images", 3, 4)])}), "erf")
    g = Writer(0)
    with pytest.raises(WeightsError, match="no convolution"):
        GraphNet(g.model(64, {"output": g.op("Relu", ["images"])}), "empty")


def read_twice(content: bytes) -> bytes:
    """The graph with a second reader inside each activation, which then is computed as written."""
    model = onnx.load_from_string(content)
    nodes = list(model.graph.node)
    del model.graph.node[:]
    for node in nodes:
        model.graph.node.append(node)
        if node.op_type in ("Sigmoid", "Clip"):
            model.graph.node.append(onnx.helper.make_node("Relu", [node.output[0]], [f"{node.output[0]}:read"]))
    return bytes(model.SerializeToString())


@pytest.mark.parametrize("kind", sorted(TINY))
def test_activations_in_one_operator_change_nothing(kind: str) -> None:
    content = TINY[kind]()[0]
    fused, plain = GraphNet(content, "fused"), GraphNet(read_twice(content), "plain")
    kinds = {s.kind for s in fused._steps}
    assert kinds & {"SiLU", "HardSwish"}
    assert not {s.kind for s in plain._steps} & {"SiLU", "HardSwish"}
    assert len(fused._steps) < len(plain._steps)
    x = torch.rand(2, 3, 96, 160, generator=torch.Generator().manual_seed(0)) * 3
    one, other = fused(x), plain(x)
    for name in one:
        assert torch.allclose(one[name], other[name], atol=1e-5)
    # And so for gradients.
    for net, values in ((fused, one), (plain, other)):
        sum(v.square().mean() for v in values.values()).backward()  # type: ignore[union-attr]
        assert all(p.grad is not None for p in net.weights)
    for a, b in zip(fused.weights, plain.weights, strict=True):
        assert torch.allclose(a.grad, b.grad, rtol=1e-3, atol=1e-5)  # type: ignore[arg-type]


def test_something_that_only_looks_like_an_activation_is_computed_as_written() -> None:
    """clip(x + 2, 0, 6) * x / 6, and x * sigmoid(x) whose sigmoid is read twice."""
    g = Writer(3)
    x = g.conv("images", 3, 4, gain=3.0)
    clipped = g.op("Clip", [g.op("Add", [x, g.constant(2.0)]), g.constant(0.0), g.constant(6.0)])
    near = g.op("Div", [g.op("Mul", [x, clipped]), g.constant(6.0)])
    gate = g.op("Sigmoid", [x])
    out = g.op("Add", [near, g.op("Sub", [g.op("Mul", [x, gate]), gate])])
    agree(g.model(64, {"output": out}), 64, [(64, 64)], 1.0, 1e-5)


@pytest.mark.parametrize("kind", sorted(TINY))
def test_a_part_of_the_layers_is_trained_and_nothing_else_changes(kind: str) -> None:
    content = TINY[kind]()[0]
    counts = {}
    for layers in ("head", "last_stage", "all"):
        net = GraphNet(content, "net")
        mine = {id(p) for p in net.parts(layers)}  # type: ignore[arg-type]
        counts[layers] = len(mine)
        with torch.no_grad():
            for p in net.weights:
                if id(p) in mine:
                    p.add_(1.0)
        weights = {n: p.detach().numpy() for n, p in zip(net.weight_names, net.weights, strict=True)}
        model, before = onnx.load_from_string(written_back(content, weights, {})), onnx.load_from_string(content)
        changed = {n for n, p in zip(net.weight_names, net.weights, strict=True) if id(p) in mine}
        for a, b in zip(before.graph.initializer, model.graph.initializer, strict=True):
            apart = numpy_helper.to_array(b) - numpy_helper.to_array(a)
            assert np.allclose(apart, 1.0 if a.name in changed else 0.0, atol=1e-6)
    assert 0 < counts["head"] < counts["last_stage"] < counts["all"] == len(net.weight_names)


def conv_names(content: bytes) -> list[tuple[str, ...]]:
    """(weight, bias) of the convolutions of a graph, in order."""
    return [tuple(n.input[1:3]) for n in onnx.load_from_string(content).graph.node if n.op_type == "Conv"]


def test_heads_and_neck_of_a_tiny_grid() -> None:
    content = tiny_grid()[0]
    net, convs = GraphNet(content, "net"), conv_names(content)
    slot = {n: k for k, n in enumerate(net.weight_names)}

    def named(parts: list[torch.nn.Parameter]) -> set[str]:
        return {n for n, k in slot.items() if any(net.weights[k] is p for p in parts)}

    # Five are the backbone; then one in front of the upsampling and one behind it, whose map both levels use.
    assert named(net.parts("head")) == {n for names in convs[7:] for n in names}
    assert named(net.parts("last_stage")) == {n for names in convs[5:] for n in names}


def test_weights_written_back_keep_other_metadata() -> None:
    content = tiny_grid()[0]
    one = written_back(content, {}, {"a": "1", "b": "2"})
    two = onnx.load_from_string(written_back(one, {}, {"b": "3"}))
    assert {p.key: p.value for p in two.metadata_props} == {"a": "1", "b": "3"}


def test_batch_of_two_is_two_of_one() -> None:
    for make in TINY.values():
        net = GraphNet(make()[0], "net")
        x = torch.rand(2, 3, 64, 96, generator=torch.Generator().manual_seed(1))
        with torch.inference_mode():
            both = net(x)
            for n in range(2):
                one = net(x[n : n + 1])
                assert all(torch.allclose(both[k][n : n + 1], one[k], atol=1e-5) for k in one)


def test_values_are_freed_as_soon_as_they_are_not_needed() -> None:
    net = GraphNet(tiny_distribution()[0], "net")
    freed = [n for s in net._steps for n in s.free]
    assert len(freed) == len(set(freed)) > 10
    assert not set(freed) & set(net.outputs)


@pytest.mark.parametrize(
    ("kind", "attributes", "extra"),
    [
        ("LeakyRelu", {"alpha": 0.2}, []),
        ("Tanh", {}, []),
        ("Exp", {}, []),
        ("HardSwish", {}, []),
        ("Softmax", {"axis": 1}, []),
        ("AveragePool", {"kernel_shape": [2, 2], "strides": [2, 2]}, []),
        ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 1, 1]}, []),
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}, []),
        ("AveragePool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [0, 0, 1, 1]}, []),
        ("AveragePool", {"kernel_shape": [3, 3], "strides": [1, 1], "pads": [1, 1, 1, 1]}, []),
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}, []),
        ("Split", {"axis": 1}, [[1, 3]]),
        ("Resize", {"mode": "linear"}, [None, [1.0, 1.0, 2.0, 2.0]]),
        ("Resize", {"mode": "linear", "coordinate_transformation_mode": "align_corners"}, [None, [1.0, 1.0, 2.0, 2.0]]),
        ("Resize", {"mode": "nearest", "coordinate_transformation_mode": "half_pixel"}, [None, [1.0, 1.0, 2.0, 2.0]]),
        ("Clip", {}, [-0.5]),
        ("Clip", {}, [None, 0.5]),
        ("Slice", {}, [[1], [-1], [2], [1]]),
        ("Slice", {}, [[-3], [-1], [-1], [1]]),
        ("Transpose", {"perm": [0, 1, 3, 2]}, []),
        ("Concat", {"axis": 1}, ["same"]),
        ("BatchNormalization", {}, [[1.0, 2, 3, 4], [0.0, 1, 2, 3], [0.1, 0.2, 0.3, 0.4], [1.0, 2, 1, 2]]),
    ],
)
def test_each_operator_is_onnxruntimes(kind: str, attributes: dict[str, object], extra: list[object]) -> None:
    g = Writer(7)
    x = g.conv("images", 3, 4, gain=2.0)
    integers = kind in ("Slice", "Split")
    given = [
        x if e == "same" else "" if e is None else g.constant(e, np.int64 if integers else np.float32) for e in extra
    ]
    made = g.op(kind, [x, *given], 2 if kind == "Split" else 1, **attributes)
    out = g.op("Concat", made[::-1], axis=1) if kind == "Split" else made
    model = onnx.load_from_string(g.model(64, {"output": out}))
    if kind == "HardSwish":
        model.opset_import[0].version = 14
    agree(model.SerializeToString(), 64, [(64, 64)], 1.0, 1e-4)

"""The contract of every platform of served models: it loads, answers by name and in rows, and refuses what does not
fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from safetensors.torch import save_file

from edge.core.errors import InvalidValue, MagpieError, WeightsError
from edge.core.front_messages import ServedVersion
from edge.core.oip import TensorSpec
from edge.serving import backends
from edge.serving.backends import Model, ModelFailed, build_architecture, example_inputs, load
from edge.serving.repository import files_digest

SIZE = (1, 28, 28)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.head = torch.nn.Linear(28 * 28, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(x.flatten(1))


def version(folder: Path, platform: str, file: str, **more: str | int) -> ServedVersion:
    x, y = TensorSpec("x", "FP32", (-1, *SIZE)), TensorSpec("y", "FP32", (-1, 10))
    made = ServedVersion("m", "1", str(folder), platform, (x,), (y,), 50.0, max_batch=4, file=file)
    return replace(made, digest=files_digest(folder), **more)


def torchscript(folder: Path) -> ServedVersion:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(Net().eval()).save(str(folder / "model.pt"))
    return version(folder, "torchscript", "model.pt")


def exported(folder: Path) -> ServedVersion:
    shapes = ({0: torch.export.Dim("rows", min=1, max=64)},)
    torch.export.save(
        torch.export.export(Net().eval(), (torch.rand(2, *SIZE),), dynamic_shapes=shapes), folder / "m.pt2"
    )
    return version(folder, "torch_export", "m.pt2")


def onnx_graph(folder: Path) -> ServedVersion:
    info, weight = helper.make_tensor_value_info, np.random.default_rng(0).random((28 * 28, 10), dtype=np.float32)
    graph = helper.make_graph(
        [helper.make_node("Flatten", ["x"], ["flat"]), helper.make_node("MatMul", ["flat", "w"], ["y"])],
        "g",
        [info("x", TensorProto.FLOAT, ["rows", *SIZE])],
        [info("y", TensorProto.FLOAT, ["rows", 10])],
        [onnx.numpy_helper.from_array(weight, "w")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, str(folder / "model.onnx"))
    return version(folder, "onnx", "model.onnx")


def named(folder: Path, platform: str) -> ServedVersion:
    torch.manual_seed(3)
    save_file(
        {k: v.contiguous() for k, v in build_architecture("lenet", 10).state_dict().items()}, folder / "m.safetensors"
    )
    return version(folder, platform, "m.safetensors", architecture="lenet", num_classes=10)


def identity(folder: Path) -> ServedVersion:
    same = TensorSpec("x", "FP32", (-1, 3)), TensorSpec("y", "FP32", (-1, 3))
    return replace(version(folder, "identity", ""), inputs=same[:1], outputs=same[1:])


#: Every platform; a new one is added here.
PLATFORMS: dict[str, Callable[[Path], ServedVersion]] = {
    "torchscript": torchscript,
    "torch_export": exported,
    "onnx": onnx_graph,
    "torchvision": lambda folder: named(folder, "torchvision"),
    "builtin": lambda folder: named(folder, "builtin"),
    "identity": identity,
}
FROM_FILES = sorted(set(PLATFORMS) - {"identity"})


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(params=sorted(PLATFORMS), scope="module")
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    made = load(PLATFORMS[request.param](tmp_path_factory.mktemp(request.param)))
    made.warm()
    return made


def test_every_platform_is_among_them() -> None:
    assert set(PLATFORMS) == set(backends._LOADERS)


def test_it_answers_any_number_of_rows_by_name(model: Model) -> None:
    for rows in range(1, model.version.max_batch + 1):
        found = model.run(example_inputs(model.version, rows, seed=rows))
        assert list(found) == ["y"]
        assert found["y"].shape == (rows, *model.version.outputs[0].shape[1:])
        assert found["y"].dtype == np.float32


def test_a_row_is_answered_alike_whatever_is_beside_it(model: Model) -> None:
    given = example_inputs(model.version, 3, seed=7)["x"]
    together = model.run({"x": given})["y"]
    for n in range(3):
        np.testing.assert_allclose(model.run({"x": given[n : n + 1]})["y"][0], together[n], rtol=1e-4, atol=1e-5)


def test_inputs_are_only_read(model: Model) -> None:
    given = example_inputs(model.version, 2)["x"]
    before = given.tobytes()
    once = np.array(model.run({"x": given})["y"])
    given.flags.writeable = False
    assert np.array_equal(model.run({"x": given})["y"], once)
    assert given.tobytes() == before


def test_a_missing_input_and_another_output_are_refused_and_it_goes_on(model: Model) -> None:
    with pytest.raises(InvalidValue, match="x among them"):
        model.run({"z": np.zeros((1, 3), np.float32)})
    assert model.run(example_inputs(model.version, 1))["y"].shape[0] == 1


def test_an_output_that_is_not_as_described_is_the_models_failure(model: Model) -> None:
    other = (replace(model.version.outputs[0], shape=(-1, 77)),)
    described = load(replace(model.version, outputs=other))
    with pytest.raises(ModelFailed, match=r"its model\.yaml says"):
        described.warm()


def test_its_memory_is_measured(model: Model) -> None:
    assert model.memory.rows == model.version.max_batch
    assert (model.memory.weights_bytes > 0) == (model.version.platform != "identity")


@pytest.mark.parametrize("platform", FROM_FILES)
def test_a_changed_a_damaged_and_a_missing_file_are_refused(platform: str, tmp_path: Path) -> None:
    good = PLATFORMS[platform](tmp_path)
    file = tmp_path / good.file
    file.write_bytes(file.read_bytes()[:-7] + b"changed")
    with pytest.raises(WeightsError, match="have changed since"):
        load(good)
    file.write_bytes(b"\x01" * 500)
    with pytest.raises(MagpieError, match="m/1"):
        load(replace(good, digest=""))
    file.unlink()
    with pytest.raises(MagpieError, match=r"m/1|does not exist"):
        load(replace(good, digest=""))

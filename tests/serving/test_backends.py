"""Backends on real files of every platform, and the files that they refuse."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pickle
import shutil
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from safetensors.torch import save_file

from edge.core.errors import InvalidValue, MagpieError, NotFound, WeightsError
from edge.core.front_messages import ServedVersion
from edge.core.oip import TensorSpec
from edge.serving.backends import ModelFailed, OutOfMemory, build_architecture, example_inputs, load
from edge.serving.repository import files_digest
from edge.serving.torch_files import Archive, check_script, fuse

torch.set_num_threads(1)

X = (TensorSpec("x", "FP32", (-1, 1, 8, 8)),)
Y = (TensorSpec("y", "FP32", (-1, 3)),)


class Net(torch.nn.Module):
    """Convolution, norm, a constant that is no parameter, sizes that follow the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4)
        self.head = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU())
        self.register_buffer("gain", torch.tensor([1.0, 2.0, 3.0]))
        self.shift = torch.tensor([0.5])

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = torch.relu(self.norm(self.conv(x))).mean((2, 3))
        return self.head(features) * self.gain + self.shift, torch.cat(x.split(4, 2), 3).reshape(x.shape[0], -1)[:, :2]


TWO = (*Y, TensorSpec("z", "FP32", (-1, 2)))


@pytest.fixture(scope="module")
def net() -> Net:
    torch.manual_seed(1)
    made = Net().eval()
    made.norm.running_mean.uniform_()
    return made


@pytest.fixture(scope="module")
def good(net: Net, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The network as a file of each kind."""
    folder = tmp_path_factory.mktemp("good")
    script(net, folder / "scripted.pt")
    trace(net, folder / "good.pt")
    export(net, folder / "good.pt2")
    script(Wrong(), folder / "wrong.pt")
    return folder


def version(folder: Path, platform: str, file: str, **changes: Any) -> ServedVersion:
    folder.mkdir(parents=True, exist_ok=True)
    made = ServedVersion("m", "1", str(folder), platform, X, TWO, 50.0, max_batch=4, file=file)
    return replace(made, **changes)


def script(model: torch.nn.Module, path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(model).save(str(path))


def trace(model: torch.nn.Module, path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.trace(model, torch.rand(2, 1, 8, 8)).save(str(path))


def export(model: torch.nn.Module, path: Path, free: bool = True) -> None:
    shapes = ({0: torch.export.Dim("rows", min=1, max=64)},) if free else None
    torch.export.save(torch.export.export(model, (torch.rand(2, 1, 8, 8),), dynamic_shapes=shapes), path)


@pytest.mark.parametrize(
    ("platform", "file"), [("torchscript", "scripted.pt"), ("torchscript", "good.pt"), ("torch_export", "good.pt2")]
)
def test_a_network_from_a_file_answers_like_itself(
    platform: str, file: str, net: Net, good: Path, tmp_path: Path
) -> None:
    shutil.copy(good / file, tmp_path / "model.bin")
    model = load(version(tmp_path, platform, "model.bin", digest=files_digest(tmp_path)))
    beats: list[int] = []
    model.warm(breathe=lambda: beats.append(1))
    assert len(beats) >= 2
    for rows in (1, 2, 3, 4):
        given = example_inputs(model.version, rows, seed=rows)
        found = model.run(given)
        with torch.no_grad():
            wanted = net(torch.from_numpy(given["x"]))
        np.testing.assert_allclose(found["y"], wanted[0].numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found["z"], wanted[1].numpy())
        assert list(found) == ["y", "z"]
    assert model.memory.weights_bytes > 4 * (4 * 9 + 4 * 3)
    assert model.memory.rows == 4
    read_only = given["x"].copy()
    read_only.flags.writeable = False
    assert model.run({"x": read_only})["y"].tolist() == found["y"].tolist()


@pytest.mark.e2e
def test_an_exported_network_with_symbolic_sizes(tmp_path: Path) -> None:
    """A torchvision network, through our own reader of .pt2."""
    torch.manual_seed(2)
    net = build_architecture("squeezenet1_1", 5).eval()
    shapes = ({0: torch.export.Dim("rows", min=1, max=64)},)
    torch.export.save(torch.export.export(net, (torch.rand(2, 3, 64, 64),), dynamic_shapes=shapes), tmp_path / "m.pt2")
    specs = (TensorSpec("x", "FP32", (-1, 3, 64, 64)),), (TensorSpec("y", "FP32", (-1, 5)),)
    model = load(version(tmp_path, "torch_export", "m.pt2", inputs=specs[0], outputs=specs[1]))
    given = example_inputs(model.version, 3)
    with torch.no_grad():
        wanted = net(torch.from_numpy(given["x"])).numpy()
    np.testing.assert_allclose(model.run(given)["y"], wanted, rtol=1e-3, atol=1e-5)


def onnx_model(path: Path, location: str | None = None) -> None:
    weight = helper.make_tensor("w", TensorProto.FLOAT, [3], [1.0, 2.0, 3.0])
    if location is not None:
        weight.ClearField("float_data")
        weight.data_location = TensorProto.EXTERNAL
        entry = weight.external_data.add()
        entry.key, entry.value = "location", location
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "w"], ["y"])],
        "g",
        [info("x", TensorProto.FLOAT, ["rows", 3])],
        [info("y", TensorProto.FLOAT, ["rows", 3])],
        [weight],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(made.SerializeToString())


ROW = (TensorSpec("x", "FP32", (-1, 3)),), (TensorSpec("y", "FP32", (-1, 3)),)


def test_onnx_with_weights_inside_and_beside(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(np.array([1, 2, 3], np.float32).tobytes())
    for location in (None, "w.bin"):
        onnx_model(tmp_path / "model.onnx", location)
        model = load(version(tmp_path, "onnx", "model.onnx", inputs=ROW[0], outputs=ROW[1]))
        model.warm()
        assert model.run({"x": np.ones((2, 3), np.float32)})["y"].tolist() == [[1, 2, 3]] * 2
    with pytest.raises(InvalidValue, match="the names in the ONNX file: y"):
        load(version(tmp_path, "onnx", "model.onnx", inputs=ROW[0], outputs=TWO))
    with pytest.raises(ModelFailed, match="failed"):
        model.run({"x": np.ones((2, 4), np.float32)})


def test_onnx_texts_are_bytes(tmp_path: Path) -> None:
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])],
        "g",
        [info("x", TensorProto.STRING, ["rows", 1])],
        [info("y", TensorProto.STRING, ["rows", 1])],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, str(tmp_path / "model.onnx"))
    texts = (TensorSpec("x", "BYTES", (-1, 1)),), (TensorSpec("y", "BYTES", (-1, 1)),)
    model = load(version(tmp_path, "onnx", "model.onnx", inputs=texts[0], outputs=texts[1]))
    model.warm()
    given = np.array([["grüße".encode()], [b""]], dtype=object)
    assert model.run({"x": given})["y"].tolist() == given.tolist()
    with pytest.raises(InvalidValue, match="UTF-8"):
        model.run({"x": np.array([[b"\xff"]], dtype=object)})


@pytest.mark.parametrize("location", ["../secret.bin", "ABSOLUTE", "link.bin", "sub/../../secret.bin"])
def test_onnx_reads_nothing_outside_its_folder(location: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.bin"
    secret.write_bytes(np.array([7, 7, 7], np.float32).tobytes())
    folder = tmp_path / "1"
    (folder / "sub").mkdir(parents=True)
    (folder / "link.bin").symlink_to(secret)
    onnx_model(folder / "model.onnx", location.replace("ABSOLUTE", str(secret)))
    with pytest.raises(WeightsError, match="m/1: the ONNX file cannot be loaded"):
        load(version(folder, "onnx", "model.onnx", inputs=ROW[0], outputs=ROW[1]))


@pytest.mark.parametrize(
    ("architecture", "size", "outputs"),
    [
        ("lenet", (1, 28, 28), (TensorSpec("y", "FP32", (-1, 10)),)),
        ("squeezenet1_1", (3, 64, 64), (TensorSpec("y", "FP32", (-1, 10)),)),
        (
            "ssdlite320_mobilenet_v3_large",
            (3, 64, 64),
            (
                TensorSpec("boxes", "FP32", (-1, 7, 4)),
                TensorSpec("scores", "FP32", (-1, 7)),
                TensorSpec("labels", "INT64", (-1, 7)),
            ),
        ),
    ],
)
def test_networks_by_name(
    architecture: str, size: tuple[int, ...], outputs: tuple[TensorSpec, ...], tmp_path: Path
) -> None:
    torch.manual_seed(3)
    net = build_architecture(architecture, 10)
    save_file({k: v.contiguous() for k, v in net.state_dict().items()}, tmp_path / "model.safetensors")
    served = version(
        tmp_path,
        "torchvision",
        "model.safetensors",
        architecture=architecture,
        num_classes=10,
        inputs=(TensorSpec("x", "FP32", (-1, *size)),),
        outputs=outputs,
        max_batch=2,
    )
    model = load(served)
    model.warm()
    found = model.run(example_inputs(served, 2))
    if len(outputs) == 1:
        with torch.no_grad():
            wanted = net.eval()(torch.from_numpy(example_inputs(served, 2)["x"])).numpy()
        np.testing.assert_allclose(found["y"], wanted, rtol=1e-4, atol=1e-5)
    else:
        assert (np.diff(found["scores"], axis=1) <= 0).all()
    with pytest.raises(WeightsError, match="does not fit its network"):
        load(replace(served, num_classes=11))


def test_names_and_weights_that_do_not_fit(tmp_path: Path) -> None:
    served = version(tmp_path, "torchvision", "model.safetensors", architecture="resnet5", num_classes=3)
    with pytest.raises(InvalidValue, match=r"architecture: got 'resnet5', allowed: lenet or .*resnet50"):
        load(served)
    with pytest.raises(WeightsError, match="does not exist"):
        load(replace(served, architecture="lenet"))
    (tmp_path / "model.safetensors").write_bytes(b"\x05" * 40)
    with pytest.raises(WeightsError, match="damaged"):
        load(replace(served, architecture="lenet"))


def test_identity_gives_back_what_it_got(tmp_path: Path) -> None:
    model = load(version(tmp_path, "identity", "", inputs=ROW[0], outputs=ROW[1]))
    model.warm()
    given = np.ones((2, 3), np.float32)
    assert model.run({"x": given})["y"] is given
    with pytest.raises(InvalidValue, match="x among them"):
        model.run({"y": given})


def test_every_datatype_of_torch(tmp_path: Path) -> None:
    names = ("BOOL", "UINT8", "UINT16", "INT8", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "BF16")

    class Same(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

    script(Same(), tmp_path / "model.pt")
    for name in names:
        specs = (TensorSpec("x", name, (-1, 2)),), (TensorSpec("y", name, (-1, 2)),)
        model = load(version(tmp_path, "torchscript", "model.pt", inputs=specs[0], outputs=specs[1]))
        model.warm()
        given = example_inputs(model.version, 3)
        assert model.run(given)["y"].tobytes() == given["x"].tobytes(), name


class Wrong(torch.nn.Module):
    """Fails in a way that depends on its input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if float(x.max()) > 1.5:
            raise ValueError("too bright")
        if float(x.max()) < -1.5:
            return torch.zeros([1 << 50])
        return x.flatten(1)[:, :3]


def test_a_model_that_raises_says_why(tmp_path: Path) -> None:
    script(Wrong(), tmp_path / "model.pt")
    model = load(version(tmp_path, "torchscript", "model.pt", outputs=Y))
    model.warm()
    good = np.ones((2, 1, 8, 8), np.float32)
    assert model.run({"x": good})["y"].shape == (2, 3)
    with pytest.raises(ModelFailed, match=r"m/1 failed: .*too bright"):
        model.run({"x": good * 2})
    with pytest.raises(OutOfMemory, match="ran out of memory"):
        model.run({"x": good * -2})
    assert model.run({"x": good})["y"].shape == (2, 3)


@pytest.mark.parametrize(
    ("outputs", "words"),
    [
        ((TensorSpec("y", "FP64", (-1, 3)), TWO[1]), "gave y as float32, its model.yaml says FP64"),
        ((TensorSpec("y", "FP32", (-1, 4)), TWO[1]), r"gave y as \[1, 3\] for 1 rows, its model.yaml says \[-1, 4\]"),
        (Y, "gave 2 outputs, its model.yaml names 1"),
    ],
)
def test_a_model_that_is_not_what_its_settings_say(
    outputs: tuple[TensorSpec, ...], words: str, good: Path, tmp_path: Path
) -> None:
    shutil.copy(good / "good.pt", tmp_path / "model.pt")
    model = load(version(tmp_path, "torchscript", "model.pt", outputs=outputs))
    with pytest.raises(ModelFailed, match=words):
        model.warm()


def test_a_program_of_fixed_batch_is_reported(tmp_path: Path) -> None:
    class Fixed(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.reshape(1, 64)[:, :3]

    script(Fixed(), tmp_path / "model.pt")
    model = load(version(tmp_path, "torchscript", "model.pt", outputs=Y))
    with pytest.raises(ModelFailed, match="with 4 rows at once; 1 went well"):
        model.warm()
    model.warm((1,))


def test_files_that_changed_after_they_were_looked_at(good: Path, tmp_path: Path) -> None:
    shutil.copy(good / "good.pt", tmp_path / "model.pt")
    served = version(tmp_path, "torchscript", "model.pt", digest=files_digest(tmp_path))
    load(served)
    with (tmp_path / "model.pt").open("ab") as file:
        file.write(b"x")
    with pytest.raises(WeightsError, match="have changed"):
        load(served)


# -- files that want to do harm


class Bomb:
    """Makes a file when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return os.system, (f"touch {self.target}",)


def rewritten(path: Path, changes: dict[str, bytes], root: str | None = None) -> bytes:
    """An archive with some records changed or added; names are below its own folder."""
    out = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as new:
        root = root or old.namelist()[0].partition("/")[0]
        for name in old.namelist():
            if name.partition("/")[2] not in changes:
                new.writestr(name, old.read(name))
        for name, content in changes.items():
            new.writestr(f"{root}/{name}", content)
    return out.getvalue()


PLATFORMS = {
    "torchscript": "model.pt",
    "torch_export": "model.pt2",
    "onnx": "model.onnx",
    "torchvision": "model.safetensors",
}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_pickle_is_never_executed_wherever_it_is_put(platform: str, good: Path, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    bomb = Bomb(mark)
    folder = tmp_path / "1"
    served = version(folder, platform, PLATFORMS[platform], architecture="lenet")
    path = folder / served.file
    candidates = [pickle.dumps(bomb, protocol=n) for n in (0, 2, 4)]
    pickle.loads(candidates[0])
    assert mark.exists()  # it would, if anything unpickled it
    mark.unlink()
    for legacy in (False, True):
        buffer = io.BytesIO()
        torch.save({"weight": bomb}, buffer, _use_new_zipfile_serialization=not legacy)
        candidates.append(buffer.getvalue())
    base = good / ("good.pt" if platform == "torchscript" else "good.pt2")
    names = Archive(base.read_bytes()).names
    for protocol in (2, 4):
        data = pickle.dumps(bomb, protocol=protocol)
        candidates += [rewritten(base, {name: data}) for name in names]
        candidates.append(rewritten(base, dict.fromkeys(names, data)))
    for content in candidates:
        path.write_bytes(content)
        with contextlib.suppress(MagpieError):
            load(served).run(example_inputs(served, 1))
        assert not mark.exists()


def test_pickles_inside_of_archives_are_named(net: Net, good: Path, tmp_path: Path) -> None:
    data = pickle.dumps(Bomb(tmp_path / "executed"), protocol=2)
    for name in ("data.pkl", "constants.pkl", "traced_inputs.pkl"):
        with pytest.raises(WeightsError, match=f"{name} names '(posix|nt) system', which may run any program"):
            check_script(rewritten(good / "good.pt", {name: data}))
    torch.save(net.state_dict(), tmp_path / "state.pt")
    with pytest.raises(WeightsError, match="pickled Python objects"):
        check_script((tmp_path / "state.pt").read_bytes())
    with pytest.raises(WeightsError, match="Python pickle, which may hold any program"):
        check_script(data)


def hostile_script(good: Path, body: str) -> bytes:
    """A good archive whose forward has `body` at its beginning."""
    archive = Archive((good / "wrong.pt").read_bytes())
    name = next(n for n in archive.names if n.endswith(".py") and b"def forward" in archive.read(n))
    code = archive.read(name).decode()
    at = code.index("Tensor:\n", code.index("def forward")) + len("Tensor:\n")
    return rewritten(good / "wrong.pt", {name: (code[:at] + f"    {body}\n" + code[at:]).encode()})


@pytest.mark.parametrize(
    "body",
    [
        'a = torch.from_file("/etc/passwd", False, 10)',
        'torch.save(x, "/tmp/owned")',
        'torch.save (x, "/tmp/owned")',
        'torch . save(x, "/tmp/owned")',
        'a = ops.aten.from_file("/etc/passwd", False, 10)',
        'a = ops.image.read_file("/etc/passwd")',
        'ops.image.write_file("/tmp/owned", x)',
        'a = getattr(torch, "from_file")("/etc/passwd")',
        'a = getattr(ops.aten, "from_file")("/etc/passwd")',
        'a = (torch).from_file("/etc/passwd")',
        "t = torch",
        "a = torch.'x'",
        'a = """ " torch.from_file("/etc/passwd") """',
        "a = torch.\\\n    from_file(x)",
        "a = ops.prim.rpc_sync(x)",
        "a = ops.c10d.barrier(x)",
        "a = __torch__.torch.classes.dist_rpc.WorkerInfo",
        'a = torch # c\n    .from_file("/etc/passwd")',
    ],
)
def test_scripts_that_do_more_than_compute_are_refused_unread(body: str, good: Path) -> None:
    with pytest.raises(WeightsError, match=r"does more than compute|torch\.jit\.save does not write"):
        check_script(hostile_script(good, body))


def test_scripts_that_only_compute_are_taken(good: Path) -> None:
    check_script(hostile_script(good, 'a = "torch.from_file and ops are only words \\" here"'))
    check_script(hostile_script(good, "b = ops.prim.NumToTensor(torch.size(x, 0))"))


def program(path: Path, change: Callable[[dict[str, Any]], None], record: str = "models/model.json") -> bytes:
    value = Archive(path.read_bytes()).json(record)
    change(value)
    return rewritten(path, {record: json.dumps(value).encode()})


def target(name: str) -> Callable[[dict[str, Any]], None]:
    def change(value: dict[str, Any]) -> None:
        value["graph_module"]["graph"]["nodes"][1]["target"] = name

    return change


def nowhere(value: dict[str, Any]) -> None:
    value["graph_module"]["graph"]["outputs"] = []
    value["graph_module"]["graph"]["nodes"] = []


def weight(key: str, given: Any) -> Callable[[dict[str, Any]], None]:
    def change(value: dict[str, Any]) -> None:
        entry = next(iter(value["config"].values()))
        (entry if key in entry else entry["tensor_meta"])[key] = given

    return change


WEIGHTS = "data/weights/model_weights_config.json"


@pytest.mark.parametrize(
    ("record", "change", "words"),
    [
        ("models/model.json", target("torch.ops.aten.from_file.default"), "calls 'torch.ops.aten.from_file"),
        ("models/model.json", target("torch.ops.image.read_file.default"), "is not served|not served"),
        ("models/model.json", target("os.system"), "calls 'os.system', which is not served"),
        ("models/model.json", target("_operator.attrgetter"), "calls '_operator.attrgetter'"),
        ("models/model.json", target("_operator.call"), "calls '_operator.call'"),
        ("models/model.json", target("torch.ops.higher_order.cond"), "higher_order"),
        ("models/model.json", target("torch.ops.aten.no_such_thing.default"), "this torch does not have"),
        ("models/model.json", target("torch.ops.aten.__class__.mro"), "damaged|not"),
        ("models/model.json", nowhere, "damaged"),
        ("models/model.json", lambda v: v["schema_version"].update(major=7), "schema 7"),
        ("models/model.json", lambda v: v.pop("graph_module"), "damaged"),
        (WEIGHTS, weight("use_pickle", True), "is pickled"),
        (WEIGHTS, weight("sizes", [{"as_int": 10**9}]), "damaged"),
        (WEIGHTS, weight("storage_offset", {"as_int": 10**6}), "damaged"),
        (WEIGHTS, weight("strides", [{"as_int": 10**6}] * 4), "damaged"),
        (WEIGHTS, weight("sizes", [{"as_expr": {"expr_str": "__import__('os').system('x')"}}]), "unknown size"),
        (WEIGHTS, weight("path_name", "../../model"), "damaged"),
    ],
)
def test_programs_that_were_tampered_with_are_refused(
    record: str, change: Callable[[dict[str, Any]], None], words: str, good: Path, tmp_path: Path
) -> None:
    served = version(tmp_path / "1", "torch_export", "model.pt2")
    (tmp_path / "1" / "model.pt2").write_bytes(program(good / "good.pt2", change, record))
    with pytest.raises(WeightsError, match=words):
        load(served)


def test_guards_and_expressions_of_a_program_are_never_evaluated(good: Path, tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    evil = f"__import__('os').system('touch {mark}')"

    def change(value: dict[str, Any]) -> None:
        value["guards_code"] = [evil]
        value["range_constraints"] = {evil: {"min_val": 1, "max_val": 2}}
        graph = value["graph_module"]["graph"]
        for entry in graph["sym_int_values"].values():
            entry["as_expr"]["expr_str"] = evil
        value["graph_module"]["module_call_graph"] = [{"fqn": evil, "signature": {"in_spec": evil}}]

    served = version(tmp_path / "1", "torch_export", "model.pt2")
    (tmp_path / "1" / "model.pt2").write_bytes(program(good / "good.pt2", change))
    load(served).warm()
    assert not mark.exists()


def test_damaged_files_of_every_platform(good: Path, tmp_path: Path) -> None:
    shutil.copy(good / "good.pt", tmp_path)
    shutil.copy(good / "good.pt2", tmp_path)
    onnx_model(tmp_path / "good.onnx")
    save_file({"w": torch.zeros(3)}, tmp_path / "good.safetensors")
    rng = np.random.default_rng(5)
    for platform, file in PLATFORMS.items():
        folder = tmp_path / platform
        served = version(folder, platform, file, architecture="lenet")
        whole = next(tmp_path.glob(f"good{Path(file).suffix}")).read_bytes()
        for content in (b"", b"\x00" * 100, whole[:-50], whole[: len(whole) // 2], rng.bytes(300)):
            (folder / file).write_bytes(content)
            with pytest.raises((WeightsError, InvalidValue)) as error:
                load(served)
            assert "Traceback" not in str(error.value)
        (folder / file).unlink()
        with pytest.raises((WeightsError, NotFound), match=r"exist|cannot be read"):
            load(served)


class Reshaped(torch.nn.Module):
    """Traced with one row it answers two rows wrongly: a size became a constant."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.flatten(1)[:, :3] * float(x.shape[0])


def test_whatever_a_library_makes_of_a_file_is_reported_in_words(good: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> Any:
        raise IndexError("list index out of range")

    made = version(good, "torchscript", "scripted.pt")
    monkeypatch.setattr("edge.serving.backends.load_script", fails)
    with pytest.raises(ModelFailed, match=r"m/1 failed: IndexError: list index out of range"):
        load(made)
    monkeypatch.setattr("edge.serving.backends.files_digest", lambda folder: Path("/proc/self/mem").read_bytes())
    with pytest.raises(WeightsError, match=r"the files of m/1 cannot be read"):
        load(replace(made, digest="1"))


def test_a_network_that_cannot_be_traced_stays_as_it_is(net: Net) -> None:
    one, two = [torch.rand(1, 1, 8, 8)], [torch.rand(2, 1, 8, 8)]
    plain = Reshaped().eval()
    assert fuse(plain, one, two) is plain
    raising = Wrong().eval()
    assert fuse(raising, one, [two[0] * 2 + 2]) is raising
    fast = fuse(net, one, two)
    assert isinstance(fast, torch.jit.ScriptModule)
    with torch.no_grad():
        for found, wanted in zip(fast(*two), net(*two), strict=True):
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)

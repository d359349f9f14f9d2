"""Teachers that run: ONNX graphs made here, torchvision with own weights, ensembles, tiles, errors before the start."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
import torchvision
from onnx import TensorProto, helper, numpy_helper
from safetensors.torch import save_file

from edge.core.detectors import InputSpec, OnnxSpec, OutputSpec, Tiling
from edge.core.errors import LabelError, WeightsError
from edge.core.vision import Detections
from edge.detectors.decoding import decode
from golden import torchvision_teacher
from golden.ensemble import CombinedTeacher, EnsembleTeacher, JointTeacher, TiledTeacher
from golden.spec import CombinedSpec, DemoSpec, EnsembleSpec, Member, TorchvisionSpec
from golden.teacher import check_teacher, open_teacher
from golden.torchvision_teacher import TorchvisionClassifier, cut_out


def constant_graph(path: Path, shape: list[int | str], outputs: dict[str, np.ndarray]) -> Path:
    """A model that takes a picture and always gives the same outputs."""
    nodes = [helper.make_node("ReduceMax", ["x"], ["m"], keepdims=0), helper.make_node("Sub", ["m", "m"], ["zero"])]
    inits, outs = [], []
    for name, value in outputs.items():
        kind = TensorProto.INT64 if value.dtype == np.int64 else TensorProto.FLOAT
        inits.append(numpy_helper.from_array(value, name + "_value"))
        zero = "zero"
        if kind == TensorProto.INT64:
            zero = name + "_zero"
            nodes.append(helper.make_node("Cast", ["zero"], [zero], to=TensorProto.INT64))
        nodes.append(helper.make_node("Add", [name + "_value", zero], [name]))
        outs.append(helper.make_tensor_value_info(name, kind, value.shape))
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)], outs, initializer=inits
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, str(path))
    return path


def detr(folder: Path, units: str = "input", **more: Any) -> OnnxSpec:
    file = constant_graph(
        folder / "m.onnx",
        [1, 3, 40, 80],
        {
            "labels": np.array([[1, 0, 1]], np.int64),
            "boxes": np.array([[[8, 4, 40, 20], [0, 0, 80, 40], [1, 1, 2, 2]]], np.float32),
            "scores": np.array([[0.9, 0.6, 0.05]], np.float32),
        },
    )
    spec = OnnxSpec("m", file, InputSpec(80, 40), OutputSpec("end_to_end", box_units=units), ("a", "b"))  # type: ignore[arg-type]
    return replace(spec, **more)


PICTURE = np.zeros((100, 200, 3), np.uint8)


def test_boxes_in_input_pixels_come_back_normalised(tmp_path: Path) -> None:
    found = open_teacher(detr(tmp_path)).label(PICTURE)
    assert np.allclose(found.boxes, [[0.1, 0.1, 0.5, 0.5], [0, 0, 1, 1]])
    assert found.classes.tolist() == [1, 0]
    assert np.allclose(found.scores, [0.9, 0.6])


def test_a_letterbox_is_taken_off_again(tmp_path: Path) -> None:
    # A 100 x 100 picture lies in the middle 40 of 80 columns: x 8..40 is -30 % .. 50 % of it.
    spec = detr(tmp_path, input=InputSpec(80, 40, fit="letterbox"))
    found = open_teacher(spec).label(np.zeros((100, 100, 3), np.uint8))
    assert np.allclose(found.boxes[0], [0.0, 0.1, 0.5, 0.5])
    corner = open_teacher(replace(spec, input=InputSpec(80, 40, fit="corner")))
    assert np.allclose(corner.label(np.zeros((100, 100, 3), np.uint8)).boxes[0], [0.2, 0.1, 1.0, 0.5])


def test_the_picture_becomes_the_tensor_that_was_described() -> None:
    from edge.detectors.session import to_tensor

    picture = np.zeros((2, 4, 3), np.uint8)
    picture[..., 0] = 200
    spec = InputSpec(4, 4, fit="letterbox", colour="bgr", scale=0.5, mean=(1, 2, 3), std=(1, 2, 4), pad=10)
    tensor, placed = to_tensor(picture, spec)
    assert placed == (0.0, 1.0, 4.0, 2.0)
    assert tensor.shape == (1, 3, 4, 4)
    assert tensor[0, :, 1, 0].tolist() == [-1.0, -1.0, (100 - 3) / 4]  # blue, green, red
    assert tensor[0, 2, 0, 0] == (5 - 3) / 4
    assert to_tensor(picture, InputSpec(4, 2, layout="nhwc", type="uint8"))[0].shape == (1, 2, 4, 3)


def test_decoders_of_raw_layouts_agree_on_one_object() -> None:
    """One object at x 16..48, y 8..24 of a 64 x 32 input, class 2 of 3, written in four layouts."""
    size, classes, truth = (64, 32), 3, [16, 8, 48, 24]
    rows = np.array([[[32, 16, 32, 16, 0.9, 0.1, 0.2, 1.0], [8, 8, 4, 4, 0.1, 1, 0, 0]]], np.float32)
    spec = OutputSpec("rows", objectness=True, box_format="cxcywh")
    results = [
        decode({"o": rows}, spec, size, classes, 0.5),
        decode({"o": rows.transpose(0, 2, 1)}, spec, size, 3, 0.5),
    ]

    grid = np.full((1, 8 + 2, 8), -9.0, np.float32)
    grid[..., 4:] = 0
    cell = 1 * 4 + 2  # stride 8 has 8 x 4 cells? 64/8 x 32/8 = 8 x 4; stride 16: 4 x 2
    grid = np.zeros((1, 32 + 8, 8), np.float32)
    cell = 32 + 1 * 4 + 1  # stride 16, row 1, column 1
    grid[0, cell] = [1.0, 0.0, np.log(2), np.log(1), 0.9, 0.1, 0.2, 1.0]
    results.append(decode({"o": grid}, OutputSpec("grid", strides=(8, 16)), size, classes, 0.5))

    scores, sides = np.zeros((1, 8, 3), np.float32), np.full((1, 8, 4 * 3), -50.0, np.float32)
    cell = 1 * 4 + 1  # centre at 24, 24: 0.5, 1, 1.5, 0 cells to left, top, right, bottom
    scores[0, cell, 2] = 0.9
    for side, value in enumerate((0.5, 1.0, 1.5, 0.0)):
        low = int(value)
        share = value - low
        sides[0, cell, 3 * side + low] = np.log(1 - share) if share < 1 else -50
        if share:
            sides[0, cell, 3 * side + low + 1] = np.log(share)
    results.append(decode({"s": scores, "d": sides}, OutputSpec("distribution", strides=(16,)), size, classes, 0.5))

    cells = np.zeros((1, 8, 2, 4), np.float32)
    cells[0, :, 1, 2] = [1.0, np.arctanh(-1e-7), np.arctanh(-1e-7), 0.0, 0.0, 0, 0, 1]
    results.append(decode({"o": cells}, OutputSpec("cells"), size, classes, 0.5))
    for found in results:
        assert found.classes.tolist() == [2]
        assert np.allclose(found.boxes, [truth], atol=1e-3)
        assert 0.85 <= found.scores[0] <= 1.0


@pytest.mark.parametrize(
    "output", [OutputSpec("rows"), OutputSpec("grid", strides=(8,)), OutputSpec("cells"), OutputSpec("end_to_end")]
)
def test_a_wrong_output_description_is_seen_when_the_teacher_opens(tmp_path: Path, output: OutputSpec) -> None:
    file = constant_graph(tmp_path / "m.onnx", [1, 3, 40, 80], {"out": np.zeros((1, 7, 5), np.float32)})
    with pytest.raises(WeightsError, match=r"out \(1, 7, 5\)"):
        open_teacher(OnnxSpec("m", file, InputSpec(80, 40), output, ("a", "b")))


def test_a_wrong_input_description_is_seen_when_the_teacher_opens(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match=r"\[1, 3, 40, 80\].*\[1, 3, 64, 64\]"):
        open_teacher(detr(tmp_path, input=InputSpec(64, 64)))
    with pytest.raises(WeightsError, match="no input 'y'"):
        open_teacher(detr(tmp_path, input=InputSpec(80, 40, name="y")))
    with pytest.raises(WeightsError, match="no input 'size' for the picture"):
        open_teacher(detr(tmp_path, input=InputSpec(80, 40, size_name="size")))


def test_files_are_checked_before_anything_starts(tmp_path: Path) -> None:
    good = detr(tmp_path)
    assert check_teacher(good).classes == ("a", "b")
    right = hashlib.sha256(good.file.read_bytes()).hexdigest()
    assert check_teacher(replace(good, sha256=right)).files == (str(good.file),)
    with pytest.raises(WeightsError, match=right):
        check_teacher(replace(good, sha256="0" * 64))
    with pytest.raises(WeightsError, match=r"gone\.onnx.*missing"):
        check_teacher(replace(good, file=tmp_path / "gone.onnx"))
    for name, data, words in (
        ("empty.onnx", b"", "empty"),
        ("lfs.onnx", b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(WeightsError, match=words):
            check_teacher(replace(good, file=tmp_path / name))
    (tmp_path / "noise.onnx").write_bytes(b"\x01" * 999)
    for check in (check_teacher, open_teacher):
        with pytest.raises(WeightsError, match=r"noise\.onnx: not an ONNX graph"):
            check(replace(good, file=tmp_path / "noise.onnx"))
    with pytest.raises(WeightsError, match=r"\[1, 3, 40, 80\].*\[1, 3, 64, 64\]"):
        check_teacher(detr(tmp_path, input=InputSpec(64, 64)))


def test_a_demo_teacher_without_its_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="missing"):
        check_teacher(DemoSpec("demo", tmp_path / "w.safetensors"))
    (tmp_path / "w.safetensors").write_bytes(b"x")
    (tmp_path / "w.json").write_text("{}")
    with pytest.raises(WeightsError, match=r"w\.json"):
        check_teacher(DemoSpec("demo", tmp_path / "w.safetensors"))


# -- torchvision


def test_published_weights_that_cannot_be_had_say_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(
        torchvision_teacher, "published_file", lambda s: ("http://127.0.0.1:9/w-1.pth", tmp_path / "w-1.pth")
    )
    spec = TorchvisionSpec("t", "fasterrcnn_resnet50_fpn_v2")
    with pytest.raises(WeightsError, match=r"fasterrcnn_resnet50_fpn_v2.*127.0.0.1:9/w-1\.pth.*w-1\.pth"):
        check_teacher(spec, timeout_s=1)
    with pytest.raises(WeightsError, match="cannot be downloaded"):
        torchvision_teacher.fetch_weights(spec)
    assert not (tmp_path / "w-1.pth").exists()


@pytest.fixture(scope="module")
def ssdlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = torchvision.models.get_model(
        "ssdlite320_mobilenet_v3_large", weights=None, weights_backbone=None, num_classes=3
    )
    path = tmp_path_factory.mktemp("w") / "ssdlite.safetensors"
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, path)
    torch.save(model.state_dict(), path.with_suffix(".pth"))
    return path


@pytest.mark.parametrize("suffix", [".safetensors", ".pth"])
def test_a_torchvision_detector_with_own_weights(ssdlite: Path, suffix: str) -> None:
    spec = TorchvisionSpec(
        "t", "ssdlite320_mobilenet_v3_large", ssdlite.with_suffix(suffix), classes=("a", "b"), min_score=0.001,
        max_objects=5,
    )  # fmt: skip
    assert check_teacher(spec).classes == ("a", "b")
    picture = np.random.default_rng(0).integers(0, 255, (60, 90, 3)).astype(np.uint8)
    found = open_teacher(spec).label(picture)
    assert len(found) == 5
    assert set(found.classes.tolist()) <= {0, 1}
    assert list(found.scores) == sorted(found.scores, reverse=True)


def test_weights_that_do_not_fit_or_are_damaged(ssdlite: Path, tmp_path: Path) -> None:
    spec = TorchvisionSpec("t", "ssdlite320_mobilenet_v3_large", ssdlite, classes=("a", "b", "c"))
    with pytest.raises(WeightsError, match="does not fit ssdlite320"):
        open_teacher(spec)
    broken = tmp_path / "broken.pth"
    broken.write_bytes(ssdlite.with_suffix(".pth").read_bytes()[:1000])
    with pytest.raises(WeightsError, match=r"broken\.pth"):
        open_teacher(replace(spec, weights=broken))
    evil = tmp_path / "evil.pth"
    torch.save({"x": Path("/")}, evil)
    with pytest.raises(WeightsError, match=r"evil\.pth"):
        open_teacher(replace(spec, weights=evil))
    with pytest.raises(WeightsError, match="not a weight file"):
        check_teacher(replace(spec, weights=constant_graph(tmp_path / "m.onnx", [1], {"a": np.zeros(1, np.float32)})))


def test_a_classifier_names_cut_outs_in_groups(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = torchvision.models.get_model("resnet18", weights=None, num_classes=3)
    file = tmp_path / "r.safetensors"
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, file)
    spec = TorchvisionSpec("c", "resnet18", file, classes=("x", "y", "z"), groups={"one": ("x", "y"), "two": ("z",)})
    assert check_teacher(spec).classes == ("one", "two")
    picture = np.random.default_rng(0).integers(0, 255, (60, 90, 3)).astype(np.uint8)
    shares = TorchvisionClassifier(spec).identify(picture, np.array([[0, 0, 0.5, 0.5], [0.9, 0.9, 1, 1]], np.float32))
    assert shares.shape == (2, 2)
    assert np.allclose(shares.sum(1), 1, atol=1e-5)
    with pytest.raises(LabelError, match=r"groups\.one.*'w'"):
        check_teacher(replace(spec, groups={"one": ("w",)}))


def test_a_cut_out_is_square_and_inside(tmp_path: Path) -> None:
    picture = np.zeros((50, 100, 3), np.uint8)
    picture[20:30, 40:60] = 255
    crop = cut_out(picture, np.array([0.4, 0.4, 0.6, 0.6], np.float32), 0.0, 20)
    assert crop.shape == (20, 20, 3)
    assert crop[10, 10, 0] == 255
    assert crop[0, 10, 0] == 0
    assert cut_out(picture, np.array([0.99, 0.99, 1, 1], np.float32), 0.5, 8).shape == (8, 8, 3)


# -- teachers of teachers


class Fixed:
    """A teacher that always says the same about a whole picture."""

    def __init__(self, name: str, classes: tuple[str, ...], found: Detections) -> None:
        self.name, self.classes, self.found = name, classes, found

    def label(self, picture: np.ndarray) -> Detections:
        return self.found


BOX = [0.2, 0.2, 0.6, 0.6]


def test_members_that_call_one_object_by_two_names_agree_in_a_group() -> None:
    a = Fixed("a", ("car", "dog"), Detections.build([BOX], [0.8], [0]))
    b = Fixed("b", ("truck", "car"), Detections.build([BOX], [0.6], [0]))
    teacher = EnsembleTeacher("e", [a, b], [1, 1], {"vehicle": ("car", "truck"), "dog": ("dog",)}, 0.5, 0.1)
    fused = teacher.label_jointly(PICTURE)
    assert teacher.classes == ("vehicle", "dog")
    assert fused.detections.classes.tolist() == [0]
    assert fused.detections.scores[0] == pytest.approx(0.7)
    assert fused.agreement.tolist() == [1.0]


def test_a_member_that_does_not_know_a_class_is_no_witness_against_it() -> None:
    a = Fixed("a", ("car", "dog"), Detections.build([BOX], [0.8], [1]))
    b = Fixed("b", ("car",), Detections.empty())
    found = EnsembleTeacher("e", [a, b], [1, 1], {}, 0.5, 0.1).label(PICTURE)
    assert found.scores[0] == pytest.approx(0.8)


def test_what_too_few_members_saw_is_left_out() -> None:
    a = Fixed("a", ("car",), Detections.build([BOX], [0.9], [0]))
    b = Fixed("b", ("car",), Detections.empty())
    assert len(EnsembleTeacher("e", [a, b], [1, 1], {}, 0.5, 0.1, min_agreement=0.5).label(PICTURE)) == 1
    assert len(EnsembleTeacher("e", [a, b], [1, 1], {}, 0.5, 0.1, min_agreement=0.6).label(PICTURE)) == 0
    with pytest.raises(LabelError, match=r"classes\.cat.*'cat'"):
        EnsembleTeacher("e", [a, b], [1, 1], {"cat": ("cat",)}, 0.5, 0.1)


def test_an_ensemble_of_files_opens(tmp_path: Path) -> None:
    member = Member(detr(tmp_path))
    spec = EnsembleSpec("e", (member, Member(detr(tmp_path), 2.0)), min_score=0.1)
    assert check_teacher(spec).classes == ("a", "b")
    teacher = open_teacher(spec)
    assert isinstance(teacher, JointTeacher)
    assert teacher.members == 2
    assert np.allclose(teacher.label(PICTURE).boxes, [[0.1, 0.1, 0.5, 0.5], [0, 0, 1, 1]])


class Bright:
    """Finds the bright block of a picture, if its mean side is at least 8 % of the picture's."""

    name, classes = "bright", ("block",)

    def label(self, picture: np.ndarray) -> Detections:
        ys, xs = np.nonzero(picture[..., 0] > 128)
        if len(ys) == 0:
            return Detections.empty()
        h, w = picture.shape[:2]
        box = np.array([xs.min() / w, ys.min() / h, (xs.max() + 1) / w, (ys.max() + 1) / h])
        side = (box[2] - box[0] + box[3] - box[1]) / 2
        return Detections.build([box], [min(1.0, 5 * side)], [0]) if side >= 0.08 else Detections.empty()


def test_tiles_find_what_is_too_small_in_the_whole_and_give_it_once() -> None:
    picture = np.zeros((200, 400, 3), np.uint8)
    picture[90:104, 190:210] = 255  # in all four tiles, cut off in none (they overlap there)
    teacher = TiledTeacher(Bright(), Tiling(2, 2, 0.2))
    assert len(Bright().label(picture)) == 0
    found = teacher.label(picture)
    assert len(found) == 1
    assert np.allclose(found.boxes, [[190 / 400, 90 / 200, 210 / 400, 104 / 200]], atol=0.005)
    assert len(teacher.label(np.zeros((200, 400, 3), np.uint8))) == 0


class Names:
    """Gives the same shares to every cut-out."""

    name, classes = "names", ("van", "car")

    def __init__(self, van: float) -> None:
        self.van = van

    def identify(self, picture: np.ndarray, boxes: np.ndarray) -> np.ndarray:
        return np.tile(np.array([self.van, 0.05], np.float32), (len(boxes), 1))


def test_a_classifier_renames_only_when_it_is_sure() -> None:
    detector = Fixed("d", ("car", "person"), Detections.build([BOX], [0.8], [0]))
    sure = CombinedTeacher("c", detector, Names(0.9), 0.6)
    assert sure.classes == ("car", "person", "van")
    assert sure.label(PICTURE).classes.tolist() == [2]
    assert sure.label(PICTURE).scores[0] == pytest.approx(0.72)
    unsure = CombinedTeacher("c", detector, Names(0.5), 0.6)
    assert unsure.label(PICTURE).classes.tolist() == [0]
    assert unsure.label(PICTURE).scores[0] == pytest.approx(0.8)


def test_a_combined_teacher_of_files_opens(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = torchvision.models.get_model("resnet18", weights=None, num_classes=2)
    save_file({k: v.contiguous() for k, v in model.state_dict().items()}, tmp_path / "r.safetensors")
    namer = TorchvisionSpec(
        "n", "resnet18", tmp_path / "r.safetensors", classes=("x", "y"), groups={"b": ("x",), "c": ("y",)}
    )
    spec = CombinedSpec("c", detr(tmp_path), namer, min_share=0.0)
    assert check_teacher(spec).classes == ("a", "b", "c")
    found = open_teacher(spec).label(PICTURE)
    assert set(found.classes.tolist()) <= {1, 2}
    assert len(found) == 2

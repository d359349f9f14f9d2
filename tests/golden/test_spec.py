"""Descriptions of teachers: strict keys, paths in errors, every shipped file."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge.core.errors import InvalidValue, LabelError
from edge.detectors.classes import COCO80, ClassMap
from golden.spec import CombinedSpec, EnsembleSpec, OnnxSpec, TorchvisionSpec, read_teacher
from golden.torchvision_teacher import check_groups, offered

SHIPPED = sorted((Path(__file__).resolve().parents[2] / "configs" / "teachers").glob("*.yaml"))
ONNX = """
kind: onnx
file: ${MODELS}/a.onnx
input: {width: 416, height: 320, fit: letterbox}
output: {kind: grid, strides: [8, 16]}
"""


def write(folder: Path, text: str, name: str = "t.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("path", SHIPPED, ids=lambda p: p.stem)
def test_every_shipped_teacher_can_be_read(path: Path) -> None:
    spec = read_teacher(path, {"MAGPIE_MODELS": "/models"})
    assert spec.name == path.stem
    if isinstance(spec, OnnxSpec):
        assert spec.file.parent == Path("/models")
        assert len(spec.sha256) == 64
    if isinstance(spec, CombinedSpec):
        groups, _ = check_groups(spec.classifier, offered(spec.classifier))
        assert set(groups) == {"car", "van", "truck", "bus"}


def test_shipped_teachers_cover_every_kind() -> None:
    kinds = {read_teacher(p, {"MAGPIE_MODELS": "/m"}).kind for p in SHIPPED}
    assert kinds == {"onnx", "torchvision", "ensemble", "demo", "combined"}


def test_names_of_files_are_relative_to_the_description_or_from_the_environment(tmp_path: Path) -> None:
    spec = read_teacher(write(tmp_path, ONNX), {"MODELS": "/m"})
    assert isinstance(spec, OnnxSpec)
    assert spec.file == Path("/m/a.onnx")
    assert (spec.input.width, spec.input.height, spec.input.fit) == (416, 320, "letterbox")
    assert spec.output.strides == (8, 16)
    assert spec.classes == COCO80
    near = read_teacher(write(tmp_path, ONNX.replace("${MODELS}/", "")), {})
    assert isinstance(near, OnnxSpec)
    assert near.file == tmp_path / "a.onnx"


@pytest.mark.parametrize(
    ("old", "new", "path"),
    [
        ("kind: onnx", "kind: tensorrt", "teacher.kind"),
        ("kind: onnx", "kindd: onnx", "teacher.kind"),
        ("fit: letterbox", "fit: squash", "teacher.input.fit"),
        ("width: 416", "width: 4.5", "teacher.input.width"),
        ("width: 416, ", "", "teacher.input.width"),
        ("fit: letterbox", "fitt: letterbox", "teacher.input.fitt"),
        ("strides: [8, 16]", "strides: []", "teacher.output.strides"),
        ("strides: [8, 16]", "strides: [8], box_format: xyxy", "teacher.output.box_format"),
        ("file:", "min_score: 2\nfile:", "teacher.min_score"),
        ("file:", "sha256: abc\nfile:", "teacher.sha256"),
        ("file:", "classes: []\nfile:", "teacher.classes"),
        ("file:", "classes: [a, a]\nfile:", "teacher.classes"),
        ("file:", "tiling: {columns: 1, rows: 1}\nfile:", "teacher.tiling.columns"),
        ("file:", "tiling: {columns: 9}\nfile:", "teacher.tiling.columns"),
        ("${MODELS}", "${NOT_SET}", "teacher.file"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(tmp_path: Path, old: str, new: str, path: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        read_teacher(write(tmp_path, ONNX.replace(old, new)), {"MODELS": "/m"})
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("[1, 2]", "teacher"),
        ("kind: [", "teacher"),
        ("kind: ensemble\nmembers: []", "teacher.members"),
        ("kind: ensemble\nmembers: [{teacher: t.yaml}, {teacher: t.yaml}]", "teacher"),  # contains itself
        ("kind: torchvision\nmodel: resnet50\ntiling: {}", "teacher.tiling"),
        ("kind: torchvision\nmodel: fcos_resnet50_fpn\nclasses: [a]", "teacher.classes"),
        ("kind: torchvision\nmodel: fcos_resnet50_fpn\ngroups: {a: [b]}", "teacher.groups"),
        ("kind: combined\ndetector: {kind: torchvision, model: resnet50}\nclassifier: x", "teacher.detector"),
    ],
)
def test_what_does_not_belong_together_is_refused(tmp_path: Path, text: str, path: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        read_teacher(write(tmp_path, text), {})
    assert caught.value.path == path


def test_a_missing_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"nothing\.yaml"):
        read_teacher(tmp_path / "nothing.yaml")


def test_members_are_other_files_or_written_inside(tmp_path: Path) -> None:
    write(tmp_path, ONNX, "inner.yaml")
    text = "kind: ensemble\nmembers:\n - {teacher: inner.yaml, weight: 2}\n - teacher:\n     kind: torchvision\n"
    text += "     model: fcos_resnet50_fpn\n"
    spec = read_teacher(write(tmp_path, text, "e.yaml"), {"MODELS": "/m"})
    assert isinstance(spec, EnsembleSpec)
    assert [m.weight for m in spec.members] == [2.0, 1.0]
    assert isinstance(spec.members[1].teacher, TorchvisionSpec)


def test_published_classes_are_known_without_a_download() -> None:
    coco = offered(TorchvisionSpec("d", "fasterrcnn_resnet50_fpn_v2"))
    assert coco == COCO80
    assert len(offered(TorchvisionSpec("c", "resnext101_32x8d"))) > 990


def test_camera_classes_are_made_from_the_teachers() -> None:
    found = ClassMap.build(("person", "vehicle"), COCO80, {"vehicle": ("car", "truck", "bus")})
    assert [found.table[COCO80.index(c)] for c in ("person", "car", "bus", "train")] == [0, 1, 1, -1]


def test_the_cut_out_class_of_nothing_needs_no_teacher() -> None:
    assert ClassMap.build(("car", "background"), ("car",)).table == (0,)


@pytest.mark.parametrize(
    ("classes", "mapping", "error", "words"),
    [
        (("van",), {}, LabelError, ["'van'", "bus", "truck"]),
        (("van",), {"van": ("minivan",)}, LabelError, ["'van'", "'minivan'"]),
        (("van",), {"van": ()}, LabelError, ["'van'"]),
        (("car",), {"truck": ("truck",)}, InvalidValue, ["cameras.north.truck"]),
        (("a", "b"), {"a": ("car",), "b": ("car",)}, InvalidValue, ["cameras.north.b", "'a'"]),
        ((), {}, InvalidValue, ["cameras.north"]),
    ],
)
def test_a_class_that_the_teacher_cannot_produce(
    classes: tuple[str, ...], mapping: dict[str, tuple[str, ...]], error: type[Exception], words: list[str]
) -> None:
    with pytest.raises(error) as caught:
        ClassMap.build(classes, ("car", "bus", "truck"), mapping, "cameras.north")
    for word in words:
        assert word in str(caught.value)

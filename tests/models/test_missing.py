"""Files that a site still needs: by description, with their state, and the one command for them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from models_kit import CONTENT

import configs
from edge.core.errors import InvalidValue, LicenceRefused, WeightsError
from edge.models.descriptions import named_files
from edge.models.folder import Accepted, ModelsFolder, Notice
from edge.models.missing import missing_models, require_models

TEACHERS = Path(configs.__file__).parent / "teachers"
STUDENTS = Path(configs.__file__).parent / "students"
ONNX = "kind: onnx\nfile: {file}\n{more}input: {{width: 416, height: 320}}\noutput: {{kind: cells}}\n"


def own(folder: Path, file: str, more: str = "", name: str = "own") -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(ONNX.format(file=file, more=more), encoding="utf-8")
    return path


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return {"MAGPIE_MODELS": str(tmp_path / "models"), "TORCH_HOME": str(tmp_path / "torch"), "HOME": str(tmp_path)}


@pytest.fixture
def models(tmp_path: Path) -> Path:
    path = tmp_path / "models"
    path.mkdir()
    return path


def test_all_that_a_site_needs_and_the_one_command(environment: dict[str, str], models: Path) -> None:
    descriptions = [TEACHERS / "traffic_ensemble.yaml", STUDENTS / "yolox_nano.yaml", STUDENTS / "yolox_nano.yaml"]
    found = missing_models(descriptions, environment)
    assert found
    assert [(f.description.stem, f.model, f.file.name, f.state) for f in found.files] == [
        ("traffic_ensemble", "deimv2_femto", "deimv2_hgnetv2_femto_coco.onnx", "missing"),
        ("traffic_ensemble", "picodet_s", "picodet_s_416_coco.onnx", "missing"),
        ("traffic_ensemble", "yolox_nano", "yolox_nano.onnx", "missing"),
        ("yolox_nano", "yolox_nano", "yolox_nano.onnx", "missing"),
    ]
    assert found.command == "magpie models pull traffic_ensemble yolox_nano"
    with pytest.raises(WeightsError) as error:
        require_models(descriptions, environment)
    said = str(error.value)
    assert "traffic_ensemble needs 3 model files" in said
    assert "yolox_nano needs 1 model file:" in said
    assert f"{models}/picodet_s_416_coco.onnx (not there)" in said
    assert "bring them with: magpie models pull traffic_ensemble yolox_nano" in said


def test_half_downloaded_and_swapped_files(environment: dict[str, str], models: Path) -> None:
    (models / "yolox_nano.onnx").write_bytes(b"not it")
    (models / "picodet_s_416_coco.onnx.part").write_bytes(b"a beginning")
    found = missing_models([TEACHERS / "traffic_ensemble.yaml"], environment)
    assert [f.state for f in found.files] == ["missing", "partial", "changed"]
    with pytest.raises(WeightsError, match=r"half downloaded.*another content"):
        found.check()


def test_nothing_is_missing(environment: dict[str, str], models: Path, shared_dir: Path) -> None:
    for file in (shared_dir / "data" / "models").glob("*.onnx"):
        (models / file.name).symlink_to(file)
    students = [p for p in STUDENTS.glob("*.yaml") if p.stem != "ssdlite320"]  # its weights are torchvision's
    found = require_models([TEACHERS / "coco_ensemble.yaml", *students], environment)
    assert not found
    assert found.command == ""
    assert found.undeclared == ()


def test_a_site_with_the_demo_s_teacher_needs_nothing(environment: dict[str, str]) -> None:
    assert not missing_models([TEACHERS / "demo.yaml"], environment)
    assert not missing_models([], environment)


def test_published_weights_may_lie_where_torch_puts_them(environment: dict[str, str], tmp_path: Path) -> None:
    description = TEACHERS / "fasterrcnn_resnext101.yaml"
    found = missing_models([description], environment)
    assert [f.file.name for f in found.files] == [
        "fasterrcnn_resnet50_fpn_v2_coco-dd69338a.pth", "resnext101_64x4d-173b62eb.pth",
    ]  # fmt: skip
    assert found.command == "magpie models pull fasterrcnn_resnext101"
    hub = tmp_path / "torch" / "hub" / "checkpoints"
    hub.mkdir(parents=True)
    for f in found.files:
        (hub / f.file.name).write_bytes(b"weights")
    assert not missing_models([description], environment)
    del environment["TORCH_HOME"]
    assert missing_models([description], environment)


def test_own_files_have_no_command(environment: dict[str, str], tmp_path: Path) -> None:
    found = missing_models([own(tmp_path, "mine.onnx")], environment)
    assert [(f.file, f.state, f.entry) for f in found.files] == [(tmp_path / "mine.onnx", "missing", None)]
    assert found.command == ""
    with pytest.raises(WeightsError, match="put the right file there yourself"):
        found.check()


def test_a_copy_of_a_description_is_served_by_its_models(environment: dict[str, str], tmp_path: Path) -> None:
    for name in ("traffic_ensemble", "deimv2_femto", "picodet_s", "yolox_nano"):
        (tmp_path / f"{name}.yaml").write_text((TEACHERS / f"{name}.yaml").read_text())
    found = missing_models([tmp_path / "traffic_ensemble.yaml"], environment)
    assert found.command == "magpie models pull deimv2_femto picodet_s yolox_nano"


def test_a_known_file_in_another_place_is_not_what_pull_would_bring(
    environment: dict[str, str], tmp_path: Path
) -> None:
    sha = "sha256: 695e750a5d5754bb5a8d5325643b59282191a7e7a564e435a415fd3c578eab14\n"
    found = missing_models([own(tmp_path, "elsewhere.onnx", sha)], environment)
    assert found.command == ""


# -- licences


@pytest.mark.parametrize("licence", ["AGPL-3.0", "AGPL-3.0-only", "unknown", "none", "CC-BY-NC-4.0"])
def test_a_description_s_licence_is_refused_by_name_until_it_is_accepted(
    environment: dict[str, str], tmp_path: Path, models: Path, licence: str
) -> None:
    (tmp_path / "Mine.onnx").write_bytes(CONTENT)
    description = own(tmp_path, "Mine.onnx", f"licence: {licence}\n")
    with pytest.raises(LicenceRefused) as refused:
        require_models([description], environment)
    said = str(refused.value)
    assert said.startswith("own: its licence is")
    shown = "unknown" if licence in ("unknown", "none") else licence
    assert refused.value.licence == shown
    assert f"--name mine --licence {shown} --accept-licence {shown}" in said
    ModelsFolder(models).accept(Accepted(licence, "another", "ann", "2026-11-22T00:00:00Z"))
    assert missing_models([description], environment)
    ModelsFolder(models).accept(Accepted(licence, "mine", "ann", "2026-11-22T00:00:00Z"))
    assert not missing_models([description], environment)


def test_the_licence_of_a_notice_counts_where_the_description_has_none(
    environment: dict[str, str], tmp_path: Path, models: Path
) -> None:
    (models / "mine.onnx").write_bytes(CONTENT)
    description = own(tmp_path, "${MAGPIE_MODELS}/mine.onnx")
    found = missing_models([description], environment)
    assert not found
    assert [n.path.name for n in found.undeclared] == ["mine.onnx"]
    digest = hashlib.sha256(CONTENT).hexdigest()
    notice = Notice("mine", "mine.onnx", "", digest, len(CONTENT), "AGPL-3.0", "", "added", "2026-11-22T00:00:00Z")
    ModelsFolder(models).write_notice(notice)
    assert [r.refused.licence for r in missing_models([description], environment).refused] == ["AGPL-3.0"]


# -- descriptions that are none


def test_descriptions_that_cannot_be_read(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("kind: [")
    (tmp_path / "self.yaml").write_text("kind: ensemble\nmembers: [{teacher: self.yaml}]\n")
    for name, allowed in (("absent", "exists"), ("broken", "valid YAML"), ("self", "contain itself")):
        with pytest.raises(InvalidValue) as wrong:
            missing_models([tmp_path / f"{name}.yaml"], environment)
        assert allowed in wrong.value.allowed
        assert f"{name}.yaml" in str(wrong.value.given)


@pytest.mark.parametrize(
    "value",
    [
        None, 3, [], {}, {"kind": "onnx"}, {"kind": "onnx", "file": 3}, {"kind": ["onnx"]}, {"kind": "ensemble"},
        {"kind": "ensemble", "members": [3, {"teacher": None}]}, {"kind": "combined"},
        {"kind": "torchvision", "model": 3},
    ],
)  # fmt: skip
def test_what_is_wrong_otherwise_is_left_to_the_descriptions_own_reader(
    environment: dict[str, str], tmp_path: Path, value: object
) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(json.dumps(value))
    assert named_files(path, environment) == () or value == {"kind": "torchvision", "model": 3}
    assert not missing_models([path], environment)

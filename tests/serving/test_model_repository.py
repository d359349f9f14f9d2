"""The model repository: what is read, what is refused, what a load request may bring."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from edge.core.errors import Conflict, InvalidValue, InvalidValues, MagpieError, NotFound, Unavailable
from edge.core.front_messages import Layout
from edge.serving.front import Front
from edge.serving.model_files import _PROTOCOL, ModelFile, from_protocol, parse_model, parse_override, rows_bytes
from edge.serving.repository import Repository, StoredVersion, files_digest
from scheduler.gpulets.batching import DeadlineBatching

PLAIN: dict[str, Any] = {
    "platform": "torchscript",
    "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}],
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 2]}],
    "slo_ms": 50,
}


def put(root: Path, name: str, files: dict[str, bytes], /, **changes: Any) -> Path:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.yaml").write_text(yaml.safe_dump({**PLAIN, **changes}))
    for version, content in files.items():
        (folder / version).mkdir()
        (folder / version / "model.pt").write_bytes(content)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    made = tmp_path / "models"
    made.mkdir()
    return made


def problems(error: Any) -> str:
    return str(error.value)


def test_a_version_is_a_value(root: Path) -> None:
    put(root, "plates", {"1": b"old", "3": b"new", "2": b"mid"}, rate=12, priority=2, max_batch=4, queue_depth=9)
    (root / "plates" / "notes").mkdir()
    (root / "plates" / "01").mkdir()
    repository = Repository(root)
    assert repository.names() == repository.models() == ("plates",)
    assert repository.versions("plates") == ("3",)
    found = repository.resolve("plates")
    assert (found.key, found.platform, found.file) == ("plates/3", "torchscript", "model.pt")
    assert (found.slo_ms, found.rate, found.priority, found.max_batch, found.depth) == (50.0, 12.0, 2, 4, 9)
    assert [(t.name, t.datatype, t.shape) for t in found.outputs] == [("y", "FP32", (-1, 2))]
    assert found.digest == files_digest(root / "plates" / "3") != ""
    assert rows_bytes(found, 5) == 40
    assert repository.index() == (StoredVersion("plates", "3"),)


def test_the_digest_follows_content(root: Path) -> None:
    put(root, "m", {"1": b"a"})
    repository = Repository(root)
    first = repository.resolve("m").digest
    assert repository.resolve("m").digest == first
    (root / "m" / "1" / "model.pt").write_bytes(b"other")
    second = repository.resolve("m").digest
    (root / "m" / "1" / "extra.bin").write_bytes(b"")
    assert len({first, second, repository.resolve("m").digest}) == 3


def test_files_that_may_not_be_read_are_an_error_in_words(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(root, "plates", {"3": b"new"})

    def refused(folder: Path) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("edge.serving.repository.files_digest", refused)
    with pytest.raises(NotFound, match=r"plates/3 cannot be read: Permission denied"):
        Repository(root).resolve("plates")


def test_versions_by_policy(root: Path) -> None:
    put(root, "m", dict.fromkeys(("1", "2", "9", "10"), b""), versions={"latest": 3})
    repository = Repository(root)
    assert repository.versions("m") == ("2", "9", "10")
    assert repository.resolve("m").version == "10"
    assert repository.resolve("m", "2").version == "2"
    with pytest.raises(NotFound, match=r"no version 1 .*it has 2, 9, 10"):
        repository.resolve("m", "1")
    put_again = {**PLAIN, "versions": {"named": [1, "9"]}}
    (root / "m" / "model.yaml").write_text(yaml.safe_dump(put_again))
    assert repository.versions("m") == ("1", "9")
    (root / "m" / "model.yaml").write_text(yaml.safe_dump({**PLAIN, "versions": {"named": [4]}}))
    with pytest.raises(InvalidValue, match=r"versions\.named\.0: got '4', allowed: one of 1, 2, 9, 10"):
        repository.versions("m")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"slo_ms": 0}, "m/model.yaml: slo_ms: got 0, allowed: "),
        ({"slo_ms": "50"}, "slo_ms: got '50'"),
        ({"slo_ms": float("nan")}, "slo_ms"),
        ({"slo_ms": None}, "slo_ms"),
        ({"slo": 5}, "slo: got 5, allowed: no such field"),
        ({"platform": "pickle"}, "platform: got 'pickle'"),
        ({"max_batch": 0}, "max_batch"),
        ({"max_batch": True}, "max_batch"),
        ({"queue_depth": -1}, "queue_depth"),
        ({"file": "../other.pt"}, "file: got '../other.pt'"),
        ({"file": "/etc/passwd"}, "file"),
        ({"architecture": "resnet18"}, "architecture: not used by platform torchscript"),
        ({"platform": "torchvision"}, "architecture: needed by platform torchvision"),
        ({"num_classes": 3}, "num_classes: not used"),
        ({"inputs": []}, "inputs"),
        ({"inputs": [PLAIN["inputs"][0]] * 2}, "inputs: each name once"),
        ({"inputs": [{"name": "x", "datatype": "FLOAT", "shape": [-1, 3]}]}, "inputs.0.datatype: got 'FLOAT'"),
        ({"inputs": [{"name": "x", "datatype": "FP32", "shape": [3]}]}, "the first dimension is the batch"),
        ({"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 0]}]}, "sizes of 1 or more"),
        ({"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, -1]}]}, "example: a shape without the batch"),
        ({"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3], "example": [4]}]}, r"\[4\] is no shape"),
        ({"inputs": [{"name": "x", "datatype": "BYTES", "shape": [-1, 3]}]}, "torchscript has no BYTES"),
        ({"versions": {"latest": 1, "named": [1]}}, "either latest or named"),
        ({"versions": {"named": ["01"]}}, "versions.named.0"),
        ({"platform": "identity"}, "outputs: datatypes and shapes as the inputs'"),
    ],
)
def test_a_wrong_field_is_named(root: Path, change: dict[str, Any], words: str) -> None:
    put(root, "m", {"1": b""}, **change)
    repository = Repository(root)
    with pytest.raises((InvalidValue, InvalidValues), match=words) as error:
        repository.resolve("m")
    assert "Error" not in problems(error)
    (entry,) = repository.index()
    assert entry.fault


@pytest.mark.parametrize("text", ["[1, 2]", "{", "a: b: c", "", "!!python/object/apply:os.system [ls]", "\x00"])
def test_a_file_that_is_no_settings(root: Path, text: str) -> None:
    (put(root, "m", {"1": b""}) / "model.yaml").write_text(text)
    with pytest.raises(MagpieError, match=r"m/model.yaml"):
        Repository(root).resolve("m")
    (root / "m" / "model.yaml").write_bytes(b"\xff\xfe")
    with pytest.raises(MagpieError, match="UTF-8"):
        Repository(root).resolve("m")


def test_what_is_not_there(root: Path) -> None:
    repository = Repository(root)
    with pytest.raises(NotFound, match="no model plates"):
        repository.resolve("plates")
    put(root, "m", {})
    with pytest.raises(NotFound, match="m/1/"):
        repository.resolve("m")
    (root / "m" / "1").mkdir()
    with pytest.raises(NotFound, match=r"m/1/model\.pt is not there"):
        repository.resolve("m")
    with pytest.raises(NotFound, match="cannot be read"):
        Repository(root / "nowhere").names()


@pytest.mark.parametrize("name", ["../m", "..", ".", "", "a/b", "/etc", ".hidden", "a" * 200, "m\n", "m\x00"])
def test_names_lead_nowhere_else(root: Path, name: str) -> None:
    put(root.parent, "m", {"1": b""})
    put(root, "m", {"1": b""})
    repository = Repository(root)
    for call in (
        lambda: repository.resolve(name),
        lambda: repository.stage(name, {}),
        lambda: repository.application(name),
    ):
        with pytest.raises(InvalidValue, match="model"):
            call()
    with pytest.raises(InvalidValue, match="version"):
        repository.resolve("m", f"../{name}")


def test_links_lead_nowhere_else(root: Path) -> None:
    outside = root.parent / "secret"
    outside.write_bytes(b"secret")
    folder = put(root, "m", {"1": b""})
    (folder / "1" / "model.pt").unlink()
    (folder / "1" / "model.pt").symlink_to(outside)
    repository = Repository(root)
    with pytest.raises(InvalidValue, match="inside the model repository"):
        repository.resolve("m")
    (folder / "1" / "model.pt").unlink()
    (root / "store").mkdir()
    (root / "store" / "big.pt").write_bytes(b"weights")
    (folder / "1" / "model.pt").symlink_to(root / "store" / "big.pt")
    assert repository.resolve("m").digest
    (folder / "1" / "more").symlink_to(outside.parent, target_is_directory=True)
    with pytest.raises(InvalidValue, match="inside the model repository"):
        repository.resolve("m")
    (folder / "1" / "more").unlink()
    os.mkfifo(folder / "1" / "pipe")
    with pytest.raises(InvalidValue, match="a file or a folder"):
        repository.resolve("m")
    (folder / "1" / "pipe").unlink()
    (folder / "model.yaml").unlink()
    (folder / "model.yaml").symlink_to(outside)
    with pytest.raises(InvalidValue, match="inside the model repository"):
        repository.resolve("m")
    elsewhere = put(root.parent / "other", "n", {"1": b""})
    (root / "n").symlink_to(elsewhere, target_is_directory=True)
    with pytest.raises(InvalidValue, match="inside the model repository"):
        repository.resolve("n")


def test_an_override_is_in_force_until_the_next_load(root: Path) -> None:
    put(root, "m", {"1": b"", "2": b""})
    repository = Repository(root)
    staged = repository.stage("m", {"config": json.dumps({"slo_ms": 20, "versions": {"named": [1]}})})
    assert [(v.version, v.slo_ms) for v in staged.versions] == [("1", 20.0)]
    assert repository.resolve("m").slo_ms == 50.0  # nothing before it is tried and committed
    staged.discard()
    assert repository.stage("m", {}).commit()[0].version == "2"
    repository.stage("m", {"config": '{"slo_ms": 20}'}).commit()
    assert repository.resolve("m").slo_ms == 20.0
    repository.stage("m", {}).commit()
    assert repository.resolve("m").slo_ms == 50.0
    for bad in ("{", "[]", '{"slo_ms": NaN}', '{"slo": 1}', '{"slo_ms": -1}', 7, "[" * 100_000):
        with pytest.raises((InvalidValue, InvalidValues), match=r"parameters\.config"):
            repository.stage("m", {"config": bad})
    with pytest.raises(InvalidValue, match=r"parameters\.speed"):
        repository.stage("m", {"speed": 1})


def test_a_client_brings_a_new_model_and_a_new_version(root: Path) -> None:
    repository = Repository(root, max_upload_bytes=1000)
    config = json.dumps({**PLAIN, "slo_ms": 30})
    content = base64.b64encode(b"weights").decode()
    staged = repository.stage("fresh", {"config": config, "file:1/model.pt": content})
    assert Path(staged.versions[0].folder, "model.pt").read_bytes() == b"weights"
    assert repository.names() == ()
    staged.discard()
    assert list(root.iterdir()) == []
    (made,) = repository.stage("fresh", {"config": config, "file:1/model.pt": content}).commit()
    assert made == Repository(root).resolve("fresh")
    assert (made.slo_ms, Path(made.folder).parent.parent) == (30.0, root)
    (newer,) = repository.stage("fresh", {"file:2/model.pt": b"better"}).commit()
    assert (newer.version, Path(newer.folder, "model.pt").read_bytes()) == ("2", b"better")
    with pytest.raises(Conflict, match="fresh/2 exists"):
        repository.stage("fresh", {"file:2/model.pt": b"again"})
    assert sorted(p.name for p in root.iterdir()) == ["fresh"]


def test_uploads_are_off_bounded_and_confined(root: Path) -> None:
    put(root, "m", {"1": b""})
    with pytest.raises(Unavailable, match="switched off"):
        Repository(root).stage("m", {"file:2/model.pt": b"x"})
    repository = Repository(root, max_upload_bytes=10)
    for key in ("file:../model.pt", "file:2/../../x", "file:2/a/b", "file:/x", "file:02/x", "file:2/.x", "file:2/"):
        with pytest.raises(InvalidValue, match="file:VERSION/NAME"):
            repository.stage("m", {key: b"x"})
    with pytest.raises(InvalidValue, match="at most 10 bytes"):
        repository.stage("m", {"file:2/a": b"x" * 9, "file:2/b": b"x" * 9})
    with pytest.raises(InvalidValue, match="base64"):
        repository.stage("m", {"file:2/a": "???"})
    with pytest.raises(InvalidValue, match="bytes, or base64"):
        repository.stage("m", {"file:2/a": 7})
    with pytest.raises(InvalidValue, match=r"parameters\.config"):
        repository.stage("unknown", {"file:1/model.pt": b"x"})
    with pytest.raises(NotFound, match=r"m/2/model\.pt is not there"):
        repository.stage("m", {"file:2/other.bin": b"x"})
    assert sorted(p.name for p in root.iterdir()) == ["m"]
    assert sorted(p.name for p in (root / "m").iterdir()) == ["1", "model.yaml"]


def test_what_a_killed_process_staged_is_swept(root: Path) -> None:
    (root / ".staging-99999999-aa" / "m").mkdir(parents=True)
    (root / f".staging-{os.getpid()}-bb").mkdir()
    repository = Repository(root)
    assert [p.name for p in root.iterdir()] == [f".staging-{os.getpid()}-bb"]
    assert repository.index() == ()


def test_a_pipeline_stands_beside_models(root: Path) -> None:
    put(root, "m", {"1": b""})
    (root / "app").mkdir()
    tensors = {"inputs": PLAIN["inputs"], "outputs": [{**PLAIN["outputs"][0], "from": "only.y"}]}
    stages = [{"name": "only", "model": "m", "inputs": {"x": "x"}}]
    (root / "app" / "model.yaml").write_text(
        yaml.safe_dump({"platform": "pipeline", "slo_ms": 90, **tensors, "stages": stages})
    )
    repository = Repository(root)
    assert repository.names() == ("app", "m")
    assert repository.models() == ("m",)
    assert repository.application("app").slo_ms == 90
    assert [e.fault for e in repository.index()] == ["", ""]
    staged = repository.stage("app", {"config": '{"slo_ms": 60}'})
    assert staged.application is not None
    assert (staged.versions, staged.application.slo_ms) == ((), 60)
    staged.commit()
    assert repository.application("app").slo_ms == 60


values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(sorted(ModelFile.model_fields)), values)
def test_any_value_of_any_field_is_taken_or_refused(field: str, value: Any) -> None:
    with contextlib.suppress(InvalidValue, InvalidValues):
        assert parse_model({**PLAIN, field: value}, "m/model.yaml").version("m", "1", "").max_batch >= 1


@given(st.text(max_size=30))
def test_any_text_as_an_override_is_taken_or_refused(text: str) -> None:
    with contextlib.suppress(InvalidValue):
        assert isinstance(parse_override(text), dict)


def test_the_shipped_example_is_valid_and_its_comments_are_the_defaults() -> None:
    text = (Path(__file__).parents[2] / "configs" / "model.yaml").read_text()
    assert parse_model(yaml.safe_load(text), "model.yaml").inputs[0].example == (3, 224, 224)
    keys = ("rate", "priority", "max_batch", "queue_depth", "versions")
    full = yaml.safe_load(re.sub(rf"^# (?=({'|'.join(keys)}):)", "", text, flags=re.M))
    assert set(keys) <= set(full)
    found = parse_model(full, "model.yaml")
    assert found == parse_model(yaml.safe_load(text), "model.yaml")
    named = set(re.findall(r"^(?:# )?([a-z_]+):", text, flags=re.M))
    assert named == set(ModelFile.model_fields)


async def test_what_the_front_tells_of_a_model_can_be_sent_back_changed(root: Path) -> None:
    put(root, "m", {"1": b"", "2": b""}, priority=3, queue_depth=7)
    repository = Repository(root)
    before = repository.resolve("m")
    sent: list[Any] = []
    front = Front(DeadlineBatching(), sent.append, sent.append)
    front.apply(Layout(1, (), (before,)))
    config = dict(front.model_config("m", None))
    (same,) = repository.stage("m", {"config": json.dumps(config)}).versions
    assert same == before
    config["max_batch_size"] = 5
    config["dynamic_batching"]["default_queue_policy"]["max_queue_size"] = 9
    (changed,) = repository.stage("m", {"config": json.dumps(config)}).versions
    assert changed == replace(before, max_batch=5, depth=9)
    for wrong in ({"parameters": {"slo_ms": {"string_value": "soon"}}}, {"parameters": 1}, {"dynamic_batching": 1}):
        with pytest.raises(InvalidValue, match=r"parameters|dynamic_batching"):
            repository.stage("m", {"config": json.dumps(wrong)})


def test_a_configuration_in_the_words_of_the_protocol(root: Path) -> None:
    put(root, "m", {"1": b"", "2": b"", "3": b""})
    repository = Repository(root)
    config = {
        "name": "m",
        "backend": "pytorch",
        "max_batch_size": 8,
        "version_policy": {"specific": {"versions": [1, 3]}},
        "input": [{"name": "x", "data_type": "TYPE_FP16", "dims": [3, 4]}],
        "output": [{"name": "y", "data_type": "TYPE_INT64", "dims": [1]}],
        "slo_ms": 9,
    }
    staged = repository.stage("m", {"config": json.dumps(config)})
    assert [v.version for v in staged.versions] == ["1", "3"]
    found = staged.versions[-1]
    assert (found.platform, found.max_batch, found.slo_ms) == ("torchscript", 8, 9.0)
    assert (found.inputs[0].datatype, found.inputs[0].shape) == ("FP16", (-1, 3, 4))
    assert (found.outputs[0].datatype, found.outputs[0].shape) == ("INT64", (-1, 1))
    newest = repository.stage("m", {"config": '{"version_policy": {"latest": {"num_versions": 2}}}'})
    assert [v.version for v in newest.versions] == ["2", "3"]
    for wrong, words in (
        ({"name": "other"}, "name: got 'other', allowed: m"),
        ({"max_batch_size": 0}, "max_batch_size"),
        ({"input": [{"name": "x", "data_type": "FP32", "dims": [3]}]}, r"input\[0\].data_type"),
        ({"output": [{"name": "x", "data_type": "TYPE_FP32"}]}, r"output\[0\].dims"),
        ({"input": "x"}, "a list of objects"),
        ({"version_policy": {"all": {}}}, "version_policy"),
        ({"input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [3], "reshape": {}}]}, "reshape"),
        ({"instance_group": []}, "instance_group: got .*no such field"),
    ):
        with pytest.raises((InvalidValue, InvalidValues), match=words):
            repository.stage("m", {"config": json.dumps(wrong)})


@given(st.dictionaries(st.sampled_from(sorted(_PROTOCOL | {"platform"})), values, max_size=4))
def test_any_configuration_of_the_protocol_is_taken_or_refused(config: dict[str, Any]) -> None:
    with contextlib.suppress(InvalidValue, InvalidValues):
        assert parse_model({**PLAIN, **from_protocol("m", config)}, "m").slo_ms > 0

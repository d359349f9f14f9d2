"""The catalogue: strict, and in step with the shipped descriptions and with torchvision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torchvision
import yaml

from edge.core.errors import InvalidValue, NotFound
from edge.core.licences import refusal
from edge.models.catalogue import read_catalogue
from edge.models.descriptions import named_files, shipped
from edge.models.shelf import chosen, entries_of

GOOD: dict[str, Any] = {
    "name": "net", "file": "net.onnx", "addresses": ["https://models.example/net.onnx"], "sha256": "ab" * 32,
    "bytes": 1000, "licence": "MIT", "attribution": "Ann Author", "what": "a net", "teachers": [], "students": [],
}  # fmt: skip


def write(folder: Path, *rows: Any) -> Path:
    path = folder / "models.yaml"
    path.write_text(yaml.safe_dump({"models": list(rows)}), encoding="utf-8")
    return path


def test_a_good_one(tmp_path: Path) -> None:
    about = {k: v for k, v in GOOD.items() if k not in ("sha256", "bytes")}
    about |= {
        "name": "other",
        "file": "other.pth",
        "sha256_prefix": "0123abcd",
        "about_bytes": 1000,
        "torchvision": "o",
    }
    catalogue = read_catalogue(write(tmp_path, GOOD, about))
    one, two = catalogue.entries
    assert (one.least_bytes, one.most_bytes, one.exact) == (1000, 1000, True)
    assert (two.least_bytes, two.most_bytes, two.exact) == (980, 1020, False)
    assert one.fits("ab" * 32)
    assert not one.fits("ab" * 31 + "ac")
    assert two.fits("0123abcd" + "0" * 56)
    assert not two.fits("0123abce" + "0" * 56)
    assert catalogue.of_content("0123abcd" + "1" * 56) == two
    assert catalogue.of_torchvision("o") == two
    assert catalogue.of_file("net.onnx") == one
    with pytest.raises(NotFound, match=r"'third'.*net, other"):
        catalogue.entry("third")


@pytest.mark.parametrize(
    ("change", "path", "allowed"),
    [
        ({"colour": "red"}, "models[0].colour", "known fields"),
        ({"name": "Net"}, "models[0].name", "small letters"),
        ({"name": None}, "models[0].name", "small letters"),
        ({"file": "../net.onnx"}, "models[0].file", "without folders"),
        ({"file": "a/net.onnx"}, "models[0].file", "without folders"),
        ({"file": "net.exe"}, "models[0].file", ".onnx"),
        ({"file": "net.onnx\n"}, "models[0].file", "without folders"),
        ({"addresses": []}, "models[0].addresses", "at least one"),
        ({"addresses": "https://x.example/"}, "models[0].addresses", "a list"),
        ({"addresses": ["ftp://x.example/n"]}, "models[0].addresses[0]", "https://"),
        ({"addresses": ["https://x.example/n", "https:///n"]}, "models[0].addresses[1]", "https://"),
        ({"addresses": ["https://ann:s3cret@x.example/n"]}, "models[0].addresses[0]", "without user"),
        ({"addresses": ["https://x.example/a b"]}, "models[0].addresses[0]", "https://"),
        ({"addresses": ["https://x.example/n"] * 2}, "models[0].addresses", "once"),
        ({"addresses": ["file://server/n"]}, "models[0].addresses[0]", "file:///"),
        ({"addresses": [7]}, "models[0].addresses[0]", "https://"),
        ({"sha256": "AB" * 32}, "models[0].sha256", "small letters"),
        ({"sha256": "ab" * 31}, "models[0].sha256", "64"),
        ({"sha256": 12345678}, "models[0].sha256", "in quotes"),
        ({"sha256_prefix": "abababab"}, "models[0].sha256", "either"),
        ({"about_bytes": 5}, "models[0].bytes", "either"),
        ({"bytes": 0}, "models[0].bytes", "from 1"),
        ({"bytes": "1000"}, "models[0].bytes", "whole number"),
        ({"bytes": True}, "models[0].bytes", "whole number"),
        ({"bytes": 2**40}, "models[0].bytes", "from 1"),
        ({"licence": None}, "models[0].licence", "SPDX"),
        ({"licence": "free for all!"}, "models[0].licence", "SPDX"),
        ({"attribution": ""}, "models[0].attribution", "a text"),
        ({"what": 3}, "models[0].what", "a text"),
        ({"teachers": "yolox_nano"}, "models[0].teachers", "a list"),
        ({"students": ["a", "a"]}, "models[0].students", "once"),
    ],
)  # fmt: skip
def test_fields_that_are_wrong(tmp_path: Path, change: dict[str, Any], path: str, allowed: str) -> None:
    with pytest.raises(InvalidValue) as wrong:
        read_catalogue(write(tmp_path, GOOD | change))
    assert wrong.value.path == path
    assert allowed in wrong.value.allowed
    assert "s3cret" not in str(wrong.value)


@pytest.mark.parametrize("key", ["sha256", "bytes", "licence", "attribution", "what", "addresses", "file"])
def test_fields_that_are_missing(tmp_path: Path, key: str) -> None:
    with pytest.raises(InvalidValue) as wrong:
        read_catalogue(write(tmp_path, {k: v for k, v in GOOD.items() if k != key}))
    assert wrong.value.path == f"models[0].{key}"


def test_a_short_prefix_would_be_anybody_s(tmp_path: Path) -> None:
    row = {k: v for k, v in GOOD.items() if k != "sha256"} | {"sha256_prefix": "ababab"}
    with pytest.raises(InvalidValue, match="8 to 64"):
        read_catalogue(write(tmp_path, row))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("models: [", "catalogue"), ("- a", "catalogue"), ("models: {}", "models"), ("models: []", "models"),
        ("{}", "models"), ("models: [3]", "models[0]"), ("version: 3\nmodels: []", "version"), ("\x00", "catalogue"),
    ],
)  # fmt: skip
def test_files_that_are_none(tmp_path: Path, text: str, path: str) -> None:
    file = tmp_path / "models.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidValue) as wrong:
        read_catalogue(file)
    assert wrong.value.path == path


def test_no_file_and_the_same_twice(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="readable YAML"):
        read_catalogue(tmp_path / "absent.yaml")
    for change, path in (({"file": "b.onnx"}, "models[].name"), ({"name": "b"}, "models[].file")):
        with pytest.raises(InvalidValue) as wrong:
            read_catalogue(write(tmp_path, GOOD, GOOD | change))
        assert wrong.value.path == path


# -- the shipped one


@pytest.mark.parametrize("description", shipped(), ids=lambda d: f"{d.kind}-{d.name}")
def test_every_file_of_a_shipped_description_is_in_the_catalogue(description: Any) -> None:
    catalogue = read_catalogue()
    for named in named_files(description.path, {"MAGPIE_MODELS": "/m"}):
        if named.torchvision:
            entry = catalogue.of_torchvision(named.torchvision)
        else:
            entry = catalogue.of_content(named.sha256)
            assert entry is not None
            assert named.path == Path("/m") / entry.file
        assert entry is not None
        assert not named.licence or named.licence == entry.licence
        users = entry.teachers if description.kind == "teacher" else entry.students
        assert description.name in users


def test_the_catalogue_names_nothing_that_does_not_use_it() -> None:
    catalogue, known = read_catalogue(), {(d.kind, d.name): d for d in shipped()}
    for entry in catalogue.entries:
        for kind, names in (("teacher", entry.teachers), ("student", entry.students)):
            for name in names:
                assert entry in entries_of(known[(kind, name)].path, catalogue, {}), (entry.name, kind, name)


def test_no_shipped_model_needs_an_acceptance() -> None:
    assert [e.name for e in read_catalogue().entries if refusal(e.licence)] == []


@pytest.mark.parametrize("entry", [e for e in read_catalogue().entries if e.torchvision], ids=lambda e: e.name)
def test_published_weights_are_torchvision_s(entry: Any) -> None:
    weights = torchvision.models.get_model_weights(entry.torchvision).DEFAULT
    assert weights.url in entry.addresses
    assert entry.file == weights.url.rsplit("/", 1)[-1]
    assert entry.file.endswith(f"-{entry.sha256_prefix}.pth")
    assert abs(entry.bytes - weights.meta["_file_size"] * 2**20) < 1000


def test_students_are_described_like_their_teachers() -> None:
    """The same file, read in the same way; a student has no label score and says its licence."""
    here = {(d.kind, d.name): yaml.safe_load(d.path.read_text(encoding="utf-8")) for d in shipped()}
    students = [name for kind, name in here if kind == "student"]
    assert students == ["nanodet_m", "picodet_s", "ssdlite320", "yolox_nano"]
    for name in students:
        if here["student", name]["kind"] != "onnx":
            continue  # torchvision's is no teacher here
        student, teacher = here["student", name], dict(here["teacher", name])
        teacher.pop("label_score", None)
        teacher.pop("licence", None)
        assert student.pop("licence") == "Apache-2.0"
        assert student == teacher


def test_names_mean_models_and_descriptions() -> None:
    catalogue = read_catalogue()
    assert [e.name for e in chosen(["traffic_ensemble"], catalogue, {})] == ["deimv2_femto", "picodet_s", "yolox_nano"]
    assert chosen(["yolox_nano", "traffic_ensemble"], catalogue, {})[0].name == "yolox_nano"
    assert len(chosen(["yolox_nano", "traffic_ensemble", "picodet_s"], catalogue, {})) == 3
    names = [e.name for e in chosen(["fasterrcnn_resnext101"], catalogue, {})]
    assert names == ["fasterrcnn_resnet50_fpn_v2", "resnext101_64x4d"]
    assert chosen(["demo"], catalogue, {}) == ()  # the demo's weights come with Magpie
    with pytest.raises(NotFound) as unknown:
        chosen(["yolox-nano"], catalogue, {})
    assert "yolox_nano" in str(unknown.value)
    assert "traffic_ensemble" in str(unknown.value)

"""Adding files: whole or not at all, with a licence, and only what onnxruntime can open."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import pytest
from models_kit import CONTENT, entry_of, largest_file, onnx_file

from edge.core.clock import ManualClock
from edge.core.errors import (
    Conflict,
    DiskFull,
    InvalidValue,
    LicenceRefused,
    MemoryLimitExceeded,
    NotFound,
    WeightsError,
)
from edge.models.adding import Added, Addition, add_model
from edge.models.catalogue import Catalogue
from edge.models.folder import Accepted, ModelsFolder
from edge.models.shelf import check, known_models

NOTHING = Catalogue(())


def addition(source: Path, name: str = "mine", licence: str = "MIT", **more: object) -> Addition:
    return dataclasses.replace(Addition(source, name, licence, "ann"), **more)  # type: ignore[arg-type]


def add(folder: ModelsFolder, wanted: Addition, catalogue: Catalogue = NOTHING) -> Added:
    return add_model(folder, catalogue, ManualClock(), wanted)


def left(folder: ModelsFolder) -> set[str]:
    return {p.name for p in folder.path.iterdir() if p.suffix != ".lock"} if folder.path.exists() else set()


def test_a_file_of_one_s_own(folder: ModelsFolder, tmp_path: Path) -> None:
    source = onnx_file(tmp_path / "net.onnx")
    done = add(folder, addition(source, attribution="Ann"))
    assert (done.how, done.path) == ("came", folder.path / "mine.onnx")
    assert done.path.read_bytes() == source.read_bytes()
    assert folder.notice("mine.onnx") == done.notice
    assert (done.notice.origin, done.notice.licence, done.notice.attribution, done.notice.modified) == (
        "added", "MIT", "Ann", False,
    )  # fmt: skip
    assert left(folder) == {"mine.onnx", "mine.onnx.json"}
    assert add(folder, addition(source)).how == "was_here"
    assert add(folder, addition(done.path, licence="ISC")).notice.licence == "ISC"  # a file that lies there already
    assert [c.verdict for c in check(NOTHING, folder)] == ["here"]
    rows = known_models(NOTHING, folder)
    assert [(m.name, m.licence, m.added, m.state) for m in rows] == [("mine", "ISC", True, "here")]


def test_another_content_takes_its_place_only_on_request(folder: ModelsFolder, tmp_path: Path) -> None:
    old, new = onnx_file(tmp_path / "old.onnx"), onnx_file(tmp_path / "new.onnx", 2.0)
    add(folder, addition(old))
    with pytest.raises(Conflict, match="--replace"):
        add(folder, addition(new))
    assert folder.file("mine.onnx").read_bytes() == old.read_bytes()
    assert add(folder, addition(new, replace=True)).how == "replaced"
    assert folder.file("mine.onnx").read_bytes() == new.read_bytes()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty"), (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
        (b"<!DOCTYPE html>\n<p>log in", "web page"), (CONTENT, "onnxruntime cannot open it: "),
        (b"kind: onnx", "onnxruntime cannot open it: "),
    ],
)  # fmt: skip
def test_what_onnxruntime_cannot_open(folder: ModelsFolder, tmp_path: Path, content: bytes, reason: str) -> None:
    source = tmp_path / "net.onnx"
    source.write_bytes(content)
    with pytest.raises(WeightsError) as refused:
        add(folder, addition(source))
    said = str(refused.value)
    assert said.startswith(str(source))
    assert reason in said
    assert len(said) > len(f"{source}: {reason}")
    assert left(folder) == set()


def test_a_file_that_takes_more_memory_than_it_may(folder: ModelsFolder, tmp_path: Path) -> None:
    source = onnx_file(tmp_path / "net.onnx", numbers=32 * 2**20)
    with pytest.raises(MemoryLimitExceeded, match=r"net\.onnx: .*--worker-memory-mb: 128 MiB"):
        add(folder, addition(source, memory_limit_bytes=128 * 2**20))
    assert left(folder) == set()
    assert add(folder, addition(source)).how == "came"


def test_half_a_model_and_one_whose_weights_lie_beside_it(folder: ModelsFolder, tmp_path: Path) -> None:
    whole = onnx_file(tmp_path / "whole.onnx").read_bytes()
    (tmp_path / "half.onnx").write_bytes(whole[: len(whole) // 2])
    split = onnx_file(tmp_path / "split.onnx", external=True)
    for source in (tmp_path / "half.onnx", split):
        with pytest.raises(WeightsError, match="onnxruntime cannot open it"):
            add(folder, addition(source))
    assert left(folder) == set()


def test_licences(folder: ModelsFolder, tmp_path: Path) -> None:
    source = onnx_file(tmp_path / "net.onnx")
    for licence in ("AGPL-3.0-only", "unknown", "CC-BY-NC-4.0"):
        with pytest.raises(LicenceRefused) as refused:
            add(folder, addition(source, licence=licence))
        assert str(refused.value).startswith(f"mine: its licence is {licence}")
        assert left(folder) == set()
    with pytest.raises(LicenceRefused):
        add(folder, addition(source, licence="AGPL-3.0-only", accept="AGPL-1.0"))
    add(folder, addition(source, licence="AGPL-3.0-only", accept="AGPL-3.0"))
    assert folder.accepted() == (Accepted("AGPL-3.0", "mine", "ann", "2023-11-14T22:13:20Z"),)
    add(folder, addition(source, licence="AGPL-3.0-only"))  # remembered
    with pytest.raises(LicenceRefused):  # of another model it was not accepted
        add(folder, addition(source, "other", licence="AGPL-3.0-only"))
    assert [m.refused for m in known_models(NOTHING, folder)] == [False]
    with pytest.raises(InvalidValue, match="SPDX"):
        add(folder, addition(source, licence="do what you like"))


def test_known_contents_get_their_own_name_and_licence(folder: ModelsFolder, tmp_path: Path) -> None:
    source = onnx_file(tmp_path / "from-a-stick.onnx")
    catalogue = Catalogue((entry_of(source.read_bytes(), name="net"),))
    done = add(folder, addition(source, "whatever", "Apache-2.0"), catalogue)
    assert (done.notice.name, done.path.name, done.notice.attribution) == ("net", "net.onnx", "Ann Author")
    with pytest.raises(InvalidValue, match=r"Apache-2\.0: the file is net of the catalogue"):
        add(folder, addition(source, "whatever", "MIT"), catalogue)
    with pytest.raises(Conflict, match="net is a name of the catalogue"):
        add(folder, addition(onnx_file(tmp_path / "b.onnx", 2.0), "net"), catalogue)


def test_what_is_no_file_and_no_name(folder: ModelsFolder, tmp_path: Path) -> None:
    source = onnx_file(tmp_path / "net.onnx")
    for name in ("../net", "Net", "", ".net", "a" * 64, "a/b", "net\n"):
        with pytest.raises(InvalidValue) as wrong:
            add(folder, addition(source, name))
        assert wrong.value.path == "--name"
    for path in (tmp_path / "absent.onnx", tmp_path):
        with pytest.raises(NotFound, match=str(path)):
            add(folder, addition(path))


def test_a_full_disk_leaves_nothing(folder: ModelsFolder, tmp_path: Path) -> None:
    source = onnx_file(tmp_path / "net.onnx")
    with largest_file(8000), pytest.raises(DiskFull):
        add(folder, addition(source))
    assert left(folder) == set()


def test_acceptances_of_many_at_once_are_all_kept(folder: ModelsFolder) -> None:
    threads = [
        threading.Thread(target=folder.accept, args=(Accepted("AGPL-3.0", f"net{n}", "ann", "t"),)) for n in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {a.model for a in folder.accepted()} == {f"net{n}" for n in range(12)}

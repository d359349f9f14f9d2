"""A closed window's files on disk: found, weighed, dropped; damage is no trouble."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge.core.errors import StoreError
from edge.core.labels import LabelledWindow
from edge.recording.labelled_windows import (
    described_windows,
    drop_window,
    manifest_path,
    picture_folder,
    pictured_windows,
    read_manifest,
    window_bytes,
    write_manifest,
)


def window(number: int) -> LabelledWindow:
    return LabelledWindow("north", number, "detection", ("car",), (), ())


def test_a_manifest_comes_back_and_windows_are_listed_newest_first(tmp_path: Path) -> None:
    for number in (2, 10, 9):
        write_manifest(tmp_path, window(number))
    assert read_manifest(tmp_path, "north", 10) == window(10)
    assert described_windows(tmp_path, "north") == [10, 9, 2]
    assert described_windows(tmp_path, "nobody") == []
    (manifest_path(tmp_path, "north", 9)).write_text('{"camera": "north"', encoding="utf-8")
    assert read_manifest(tmp_path, "north", 9) is None
    assert read_manifest(tmp_path, "north", 3) is None


def test_pictures_and_manifest_are_weighed_and_dropped_together(tmp_path: Path) -> None:
    write_manifest(tmp_path, window(3))
    alone = window_bytes(tmp_path, "north", 3)
    assert alone == manifest_path(tmp_path, "north", 3).stat().st_size
    folder = picture_folder(tmp_path, "north", 3)
    folder.mkdir(parents=True)
    (folder / "00000001.jpg").write_bytes(b"x" * 1000)
    assert window_bytes(tmp_path, "north", 3) == alone + 1000
    assert pictured_windows(tmp_path, "north") == {3}
    drop_window(tmp_path, "north", 3)
    assert window_bytes(tmp_path, "north", 3) == 0
    assert pictured_windows(tmp_path, "north") == frozenset()
    drop_window(tmp_path, "north", 3)


def test_a_manifest_that_cannot_be_written_is_said_and_leaves_nothing(tmp_path: Path) -> None:
    manifest_path(tmp_path, "north", 1).mkdir(parents=True)
    with pytest.raises(StoreError, match=r"1\.json"):
        write_manifest(tmp_path, window(1))
    assert [p.name for p in (tmp_path / "windows" / "north").iterdir()] == ["1.json"]

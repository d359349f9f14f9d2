"""Files of pictures: written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge.appliance.picture_files import PictureFiles
from edge.core.errors import NotFound


def test_a_picture_is_kept_replaced_and_dropped(tmp_path: Path) -> None:
    files = PictureFiles(tmp_path)
    assert files.write("alarms", 7, "gate", b"one") is True
    assert files.write("alarms", 7, "gate", b"two") is False, "there was one"
    assert files.write("alarms", 8, None, b"disk") is True
    assert files.read("alarms", 7, "gate") == b"two"
    assert sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.*")) == ["alarms/8.jpg", "alarms/gate/7.jpg"]
    files.drop("alarms", 7, "gate")
    files.drop("alarms", 7, "gate")
    with pytest.raises(NotFound, match="no picture of alarm 7"):
        files.read("alarms", 7, "gate")
    assert files.read("alarms", 8, None) == b"disk"


def test_a_full_disk_leaves_the_picture_that_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = PictureFiles(tmp_path)
    files.write("objects", 7, "gate", b"one")

    def full(path: Path, data: bytes) -> int:
        with path.open("wb") as stream:
            stream.write(data[:1])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        files.write("objects", 7, "gate", b"two")
    assert files.read("objects", 7, "gate") == b"one"
    assert [p.name for p in tmp_path.rglob("*.*")] == ["7.jpg"], "no half of a picture"

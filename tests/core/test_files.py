"""Files written whole."""

from __future__ import annotations

import errno
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from edge.core.errors import DiskFull, StoreError
from edge.files import TEMPORARY, os_errors, put_aside, store_whole, write_whole
from edge.fleet.folder import FleetFolder


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of what is synced, in order."""
    kinds: list[str] = []
    real = os.fsync

    def noted(handle: int) -> None:
        kinds.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")
        real(handle)

    monkeypatch.setattr(os, "fsync", noted)
    return kinds


def test_a_file_and_its_name_survive_a_power_loss(tmp_path: Path, synced: list[str]) -> None:
    write_whole(tmp_path / "a", b"one")
    assert synced == ["file", "folder"]
    write_whole(tmp_path / "a", b"two", durable=False)
    assert synced == ["file", "folder"]
    assert (tmp_path / "a").read_bytes() == b"two"
    FleetFolder(tmp_path).write_json("holdings.json", {})
    assert synced == ["file", "folder"] * 2, "a promise of an agent, too"


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_whole(tmp_path / "a", b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_whole(tmp_path / "a", b"new")
    with pytest.raises(DiskFull):
        store_whole(tmp_path / "a", b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_file_is_put_aside_over_no_other_and_stays_where_it_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a"
    for n, name in enumerate(("a.bak", "a.bak.2", "a.bak.3")):
        file.write_text(str(n))
        assert put_aside(file) == tmp_path / name
    assert [p.read_text() for p in sorted(tmp_path.iterdir())] == ["0", "1", "2"]
    file.write_text("here")

    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", refused)
        patched.setattr(os, "rename", refused)
        with pytest.raises(StoreError, match=r"a\.bak\.4: Permission denied"):
            put_aside(file)
    assert (file.read_text(), len(list(tmp_path.iterdir()))) == ("here", 4)
    for n in range(4, 100):
        (tmp_path / f"a.bak.{n}").write_text("")
    with pytest.raises(StoreError, match="99 files are put aside"):
        put_aside(file)
    assert file.read_text() == "here"


def test_a_file_is_put_aside_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names in a folder that is there take no space of their own; a new file does."""
    (tmp_path / "a").write_text("here")
    real = os.open

    def full(path: str, flags: int, *more: int) -> int:
        if flags & os.O_CREAT:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(path, flags, *more)

    monkeypatch.setattr(os, "open", full)
    assert put_aside(tmp_path / "a").read_text() == "here"
    assert [p.name for p in tmp_path.iterdir()] == ["a.bak"]


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_is_put_aside_over_no_other_where_there_are_no_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refused)
    for name in ("a.bak", "a.bak.2"):
        (tmp_path / "a").write_text(name)
        assert put_aside(tmp_path / "a") == tmp_path / name
    assert sorted((p.name, p.read_text()) for p in tmp_path.iterdir()) == [(n, n) for n in ("a.bak", "a.bak.2")]


def test_a_file_that_keeps_its_name_is_not_put_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, real = tmp_path / "a", os.unlink
    file.write_text("here")

    def refused(path: Path, *more: object, **named: object) -> None:
        if Path(path) == file:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path)

    monkeypatch.setattr(os, "unlink", refused)
    with pytest.raises(DiskFull, match=r"a\.bak"):
        put_aside(file)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("a", "here")]


def test_several_may_write_one_file_at_once(tmp_path: Path) -> None:
    contents = [bytes([n]) * 200_000 for n in range(16)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda content: store_whole(tmp_path / "new" / "a", content), contents))
    assert (tmp_path / "new" / "a").read_bytes() in contents
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["a"]


def test_errors_name_the_file_and_modes_are_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file/a"):
        store_whole(tmp_path / "file" / "a", b"")
    with pytest.raises(StoreError, match="b: No such file"), os_errors(tmp_path / "b"):
        (tmp_path / "b").stat()
    store_whole(tmp_path / "secret" / "a", b"", mode=0o600, folder_mode=0o700)
    assert (tmp_path / "secret" / "a").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o700


def test_an_agent_that_was_killed_while_it_wrote_leaves_no_rest(tmp_path: Path) -> None:
    folder = FleetFolder(tmp_path)
    folder.write_json("holdings.json", {})
    (folder.path / f".status.json.0011{TEMPORARY}").write_text("half")
    folder.clean()
    assert [p.name for p in folder.path.iterdir()] == ["holdings.json"]

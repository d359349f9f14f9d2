"""Files written whole: a reader sees the old one or the new one, never a part. Unusable files are put aside."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedRandom
from pathlib import Path
from typing import Final

from edge.core.errors import DiskFull, StoreError

#: The end of the name of a file that is being written; one that no process writes is a leftover of a crash.
TEMPORARY: Final = ".part"
#: So many unusable files are put aside beside one at most.
MOST_ASIDE: Final = 99
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def write_whole(path: Path, content: bytes, *, durable: bool = True, mode: int = 0o666) -> None:
    """Write beside, then rename; several may write the same file at once. With `durable` a power loss leaves the old
    file or the new one, and the new one once this returns. `mode` as for `os.open`.

    Raises:
        OSError: the disk refuses; nothing is left behind.
    """
    with whole_file(path, durable=durable, mode=mode) as stream:
        stream.write(content)


@contextmanager
def whole_file(path: Path, *, durable: bool = True, mode: int = 0o666) -> Iterator[BufferedRandom]:
    """A file to write and read that gets its name at the end, otherwise as `write_whole`. Nothing is left behind where
    the block raises."""
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}{TEMPORARY}")
    try:
        with open(os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode), "w+b") as stream:
            yield stream
            if durable:
                stream.flush()
                os.fsync(stream.fileno())
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    if durable:
        sync_folder(path.parent)


def store_whole(
    path: Path, content: bytes, *, durable: bool = True, mode: int = 0o666, folder_mode: int = 0o777
) -> None:
    """As `write_whole`, in a folder that is made where there is none. Raises DiskFull, StoreError."""
    with os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=folder_mode)
        write_whole(path, content, durable=durable, mode=mode)


def put_aside(path: Path) -> Path:
    """Rename a file that cannot be used, over no other file: `FILE.bak`, then `FILE.bak.2` to `FILE.bak.99`. Returns
    where it is. Raises DiskFull, StoreError; the file is then where it was."""
    for n in range(1, MOST_ASIDE + 1):
        aside = path.with_name(f"{path.name}.bak" + (f".{n}" if n > 1 else ""))
        with os_errors(aside):
            try:
                _rename_over_none(path, aside)
            except FileExistsError:
                continue
        return aside
    raise StoreError(f"{path}: {MOST_ASIDE} files are put aside there already", "remove some")


def _rename_over_none(path: Path, to: Path) -> None:
    """Rename a file within its folder; on a full disk, too, since that makes no new file. Where the file system has no
    links, a file that gets the name `to` in the same instant is lost. Raises FileExistsError, OSError; the file is then
    where it was."""
    try:
        os.link(path, to, follow_symlinks=False)  # refuses a name that is taken
    except FileExistsError:
        raise
    except OSError:
        if os.path.lexists(to):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(to)) from None
        path.rename(to)
        return
    try:
        path.unlink()
    except OSError:
        with suppress(OSError):
            to.unlink()
        raise


def sync_folder(path: Path) -> None:
    """A rename in the folder survives a power loss. Raises OSError."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def from_os_error(error: OSError, path: Path) -> StoreError:
    """DiskFull for a full disk, quota or size limit, else StoreError."""
    if error.errno in _FULL:
        return DiskFull(f"{path}: no space left on the disk", "free space where Magpie keeps its data")
    return StoreError(f"{path}: {error.strerror or error}")


@contextmanager
def os_errors(path: Path) -> Iterator[None]:
    """Turn an OSError into DiskFull or StoreError naming `path`."""
    try:
        yield
    except OSError as error:
        raise from_os_error(error, path) from error

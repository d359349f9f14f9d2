"""Small files written whole: a reader sees the old one or the new one, never a part."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

TEMPORARY = ".part"


def write_whole(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Write beside, then rename. `durable` also waits for the disk, so that it survives a power cut.

    Raises:
        OSError: the disk refuses; nothing is left behind.
    """
    part = path.with_name(path.name + TEMPORARY)
    try:
        with part.open("wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(part, path)
    except OSError:
        with suppress(OSError):
            part.unlink()
        raise
    if durable:
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

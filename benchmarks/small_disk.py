"""A small disk of its own, for trials that fill it or let it fail."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edge.core.errors import Unavailable

#: More than the appliance calls little.
DISK_MB = 420


@contextmanager
def small_disk(folder: Path, size_mb: int = DISK_MB) -> Iterator[Path]:
    """An ext4 disk mounted at `folder`/disk. Raises Unavailable where none can be made (it takes root)."""
    image, place = folder / "disk.img", folder / "disk"
    place.mkdir()
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        raise Unavailable("no disk can be made here", "root with mkfs.ext4 can")
    with image.open("wb") as file:
        file.truncate(size_mb * 2**20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    if subprocess.run(["mount", "-o", "loop", str(image), str(place)], capture_output=True, check=False).returncode:
        raise Unavailable("no loop device can be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(file: Path) -> None:
    """Write a file until the disk has no byte left."""
    for mode, size in (("wb", 2**16), ("ab", 1)):
        with file.open(mode, buffering=0) as opened:
            try:
                while True:
                    opened.write(bytes(size))
            except OSError:
                continue

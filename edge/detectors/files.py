"""Model files: there, readable, and the ones that were meant."""

from __future__ import annotations

import hashlib
from pathlib import Path

from edge.core.errors import WeightsError


def check_file(path: Path, sha256: str = "") -> None:
    """The file exists, can be read, is not empty, and has the hash given (hex; empty: any).

    Raises:
        WeightsError: naming the file and what to do.
    """
    if not path.is_file():
        raise WeightsError(f"{path}: the model file is missing", "put it there or correct the YAML file")
    try:
        with path.open("rb") as file:
            first = file.read(256)
            if not first:
                raise WeightsError(f"{path}: the model file is empty", "copy it again")
            if first.startswith(b"version https://git-lfs"):
                raise WeightsError(f"{path}: is a Git LFS pointer, not the model", "fetch it with git lfs pull")
            if sha256:
                file.seek(0)
                found = hashlib.file_digest(file, "sha256").hexdigest()
                if found != sha256:
                    raise WeightsError(
                        f"{path}: its SHA-256 is {found}, but {sha256} is expected", "damaged, or another version"
                    )
    except OSError as error:
        raise WeightsError(f"{path}: the model file cannot be read ({error.strerror})") from error

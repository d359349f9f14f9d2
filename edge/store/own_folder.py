"""Folders that are made for this account alone."""

from __future__ import annotations

from pathlib import Path


def make_own_folder(folder: Path) -> None:
    """Make the folder, and those above it that are not there, all closed to other accounts whatever the umask: an
    account that may write to one above could put another in its place. Raises OSError."""
    for missing in [one for one in (*reversed(folder.parents), folder) if not one.exists()]:
        missing.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(exist_ok=True)

"""A closed window's files: the recorder's pictures and, beside them, a manifest with answers and labels.

`data` is the appliance's data folder: pictures are in data/pictures (edge.recording.recorder), manifests in
data/windows/CAMERA/NUMBER.json. The recorder drops pictures by its own limits; a manifest stays until retention ends.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

from edge.core.errors import MagpieError, StoreError
from edge.core.labels import LabelledWindow
from edge.recording.recorder import window_folder


def manifest_path(data: Path, camera: str, window: int) -> Path:
    """Where the labelled window of a camera is described."""
    return data / "windows" / camera / f"{window}.json"


def picture_folder(data: Path, camera: str, window: int) -> Path:
    """Where the pictures of a camera's window are."""
    return window_folder(data / "pictures", camera, window)


def write_manifest(data: Path, window: LabelledWindow) -> None:
    """Whole or not at all; a full disk costs the resumption of this window after a restart, nothing else.

    Raises StoreError.
    """
    path = manifest_path(data, window.camera, window.window)
    temporary = path.with_suffix(".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(window.to_json()), encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StoreError(f"{path.name} could not be written: {error.strerror}") from None


def read_manifest(data: Path, camera: str, window: int) -> LabelledWindow | None:
    """The labelled window; None if there is none (any more) or its file is damaged."""
    try:
        return LabelledWindow.from_json(json.loads(manifest_path(data, camera, window).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, MagpieError):
        return None


def described_windows(data: Path, camera: str) -> list[int]:
    """Numbers of the camera's windows that have a manifest, the newest first."""
    try:
        names = [path.stem for path in manifest_path(data, camera, 0).parent.iterdir() if path.suffix == ".json"]
    except OSError:
        return []
    return sorted((int(name) for name in names if re.fullmatch(r"\d{1,16}", name)), reverse=True)


def pictured_windows(data: Path, camera: str) -> frozenset[int]:
    """Numbers of the camera's windows whose pictures the recorder still keeps."""
    try:
        folders = [path.name for path in picture_folder(data, camera, 0).parent.iterdir()]
    except OSError:
        return frozenset()
    return frozenset(int(m.group(1)) for name in folders if (m := re.fullmatch(r"window-(\d{8,})", name)))


def window_bytes(data: Path, camera: str, window: int) -> int:
    """Bytes that pictures and manifest of the window take now."""
    total = 0
    for path in (manifest_path(data, camera, window), *_files(picture_folder(data, camera, window))):
        try:
            total += path.stat().st_size
        except OSError:  # the recorder deletes meanwhile
            continue
    return total


def _files(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def drop_window(data: Path, camera: str, window: int) -> None:
    """Delete pictures and manifest; nothing happens where they are gone already. Raises OSError."""
    shutil.rmtree(picture_folder(data, camera, window), ignore_errors=True)
    manifest_path(data, camera, window).unlink(missing_ok=True)

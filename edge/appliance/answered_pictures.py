"""Small copies of the pictures that people answered about: they outlive the recorder's, up to a number and bytes."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from edge.appliance.labelled_pictures import jpeg_size
from edge.detectors.pictures import jpeg_bytes, read_picture

log = logging.getLogger(__name__)

#: A copy is at most so wide or high.
SIDE, _QUALITY = 960, 85
#: Limits over all cameras; the oldest go first.
MAX_PICTURES, MAX_BYTES = 5_000, 300_000_000
_CAMERA = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")


class AnsweredPictures:
    """Files `folder`/CAMERA/WINDOW-FRAME.jpg. `lost` counts copies that could not be written."""

    def __init__(self, folder: Path, max_pictures: int = MAX_PICTURES, max_bytes: int = MAX_BYTES) -> None:
        self._folder, self._most, self._most_bytes = folder, max_pictures, max_bytes
        self.lost = 0

    def _path(self, camera: str, window: int, frame: int) -> Path | None:
        return self._folder / camera / f"{window:08d}-{frame:08d}.jpg" if _CAMERA.fullmatch(camera) else None

    def keep(self, camera: str, window: int, frame: int, source: Path) -> None:
        """Copy a recorded picture, smaller; nothing happens where a copy is there or the picture is gone."""
        path = self._path(camera, window, frame)
        if path is None or path.is_file():
            return
        if not source.is_file():
            return
        picture: NDArray[np.uint8] | None = read_picture(source)
        if picture is None:
            self.lost += 1
            return
        scale = min(1.0, SIDE / max(picture.shape[:2]))
        if scale < 1.0:
            size = (round(picture.shape[1] * scale), round(picture.shape[0] * scale))
            picture = np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8)
        encoded = jpeg_bytes(picture, _QUALITY)
        temporary = path.with_suffix(".tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(encoded or b"")
            temporary.replace(path)
        except OSError as error:
            self.lost += 1
            log.warning("a picture that was answered about could not be kept: %s", error.strerror)
            temporary.unlink(missing_ok=True)

    def read(self, camera: str, window: int, frame: int) -> bytes | None:
        """The copy; None if there is none."""
        path = self._path(camera, window, frame)
        try:
            return None if path is None else path.read_bytes()
        except OSError:
            return None

    def size(self, camera: str, window: int, frame: int) -> tuple[int, int] | None:
        """(width, height) of the copy in pixels."""
        path = self._path(camera, window, frame)
        return None if path is None else jpeg_size(path)

    def retain(self) -> tuple[int, int]:
        """Delete the oldest beyond the limits; how many pictures and bytes went."""
        found = []
        for path in self._folder.glob("*/*.jpg"):
            try:
                status = path.stat()
            except OSError:
                continue
            found.append((status.st_mtime, status.st_size, path))
        found.sort(key=lambda f: f[0], reverse=True)
        total = gone = freed = 0
        for number, (_, size, path) in enumerate(found, 1):
            total += size
            if number > self._most or total > self._most_bytes:
                path.unlink(missing_ok=True)
                gone, freed = gone + 1, freed + size
        return gone, freed

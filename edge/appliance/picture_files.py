"""Pictures of alarms and objects as files: FOLDER/KIND/CAMERA/NUMBER.jpg."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

from edge.core.errors import NotFound
from edge.store.alarms import OWNER_NOUNS, PictureOwner

log = logging.getLogger(__name__)


class PictureFiles:
    """Blocking. A picture of no camera lies directly in the folder of its kind."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _path(self, kind: PictureOwner, number: int, camera: str | None) -> Path:
        return self._folder / kind / camera / f"{number}.jpg" if camera else self._folder / kind / f"{number}.jpg"

    def write(self, kind: PictureOwner, number: int, camera: str | None, jpeg: bytes) -> bool:
        """Write a picture, or replace it. Returns whether there was none before. Raises OSError; the file is as it was
        then."""
        path = self._path(kind, number, camera)
        temporary = path.with_suffix(".tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            first = not path.exists()
            temporary.write_bytes(jpeg)
            temporary.replace(path)
        except OSError:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)  # half a picture would stay on a full disk
            raise
        return first

    def read(self, kind: PictureOwner, number: int, camera: str | None) -> bytes:
        """A picture as JPEG. Raises NotFound."""
        try:
            return self._path(kind, number, camera).read_bytes()
        except OSError:
            log.info("picture of %s %s is gone", kind, number)
            raise NotFound(f"no picture of {OWNER_NOUNS[kind]} {number} is kept") from None

    def drop(self, kind: PictureOwner, number: int, camera: str | None) -> None:
        """Delete a picture, if it is there. Raises OSError."""
        self._path(kind, number, camera).unlink(missing_ok=True)

"""The files of clips under the data folder, as far as the control process sees to them."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

from edge.clips.mp4 import boxes_path, clip_path, drop_clip
from edge.core.errors import NotFound, UnreadableRecord


class ClipFiles:
    """Blocking. `folder` is the data folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def free_bytes(self) -> int:
        """Free bytes of the disk."""
        return shutil.disk_usage(self._folder).free

    def video(self, camera: str, number: int) -> Path:
        """A clip's file. Raises NotFound."""
        path = clip_path(self._folder, camera, number)
        if not path.is_file():
            raise NotFound(f"the video of clip {number} is gone")
        return path

    def boxes(self, camera: str, number: int) -> Any:
        """The boxes of a clip. Raises NotFound, UnreadableRecord."""
        try:
            return json.loads(boxes_path(clip_path(self._folder, camera, number)).read_bytes())
        except OSError:
            raise NotFound(f"the boxes of clip {number} are gone") from None
        except ValueError as error:
            raise UnreadableRecord("clip", str(number), str(error)) from None

    def drop(self, camera: str, number: int) -> None:
        """Delete a clip's files, as far as they are there. Raises OSError."""
        drop_clip(clip_path(self._folder, camera, number))

    def drop_if_possible(self, camera: str, number: int) -> None:
        """As `drop`. `sweep` finds what the disk does not let go of now."""
        with contextlib.suppress(OSError):
            self.drop(camera, number)

    def sweep(self, named: Collection[tuple[str, int]], before_utc_s: float | None = None) -> int:
        """Delete every file that is not of a clip in `named` (camera, number), of those last written before
        `before_utc_s`; returns how many."""
        names = {path for camera, n in named for path in self._names(camera, n)}
        removed = 0
        for path in (self._folder / "clips").glob("*/*"):
            with contextlib.suppress(OSError):
                old = before_utc_s is None or path.stat().st_mtime < before_utc_s
                if path not in names and old and path.is_file():
                    path.unlink()
                    removed += 1
        return removed

    def _names(self, camera: str, number: int) -> tuple[Path, Path]:
        path = clip_path(self._folder, camera, number)
        return path, boxes_path(path)

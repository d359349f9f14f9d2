"""The clips of the web tests' appliance."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

from edge.appliance.answers.clips import ClipAnswer, ClipAroundAnswer, ClipBoxes
from edge.appliance.answers.read import by_name, read
from edge.core.clips import ClipSpan, NoClipReason, VideoNow, check_span
from edge.core.errors import NotFound
from scheduler.clips.around import clip_around
from web.examples.clips import CLIP, CLIP_BOXES


class DictClips:
    """Implements `ClipsService`: one kept clip of each camera, whose video is the file `path`; those that are asked for
    stay in the making."""

    def __init__(self, cameras: Callable[[], Collection[str]], utc_s: float) -> None:
        self._cameras, self._utc_s = cameras, utc_s
        self.path: Path | None = None
        self.removed: set[int] = set()
        self.asked: list[ClipAnswer] = []

    def _every(self) -> list[ClipAnswer]:
        kept: dict[str, Any] = {}
        if self.path is not None:
            content = self.path.read_bytes()
            about = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            kept = {"video": CLIP["video"] | about}
        made = [
            read(ClipAnswer, CLIP | kept | {"id": n, "camera": camera}) for n, camera in enumerate(self._cameras(), 1)
        ]
        return [c for c in (*reversed(self.asked), *reversed(made)) if c.id not in self.removed]

    def all(
        self, limit: int, before: int | None, camera: str | None, cameras: Collection[str] | None
    ) -> list[ClipAnswer]:
        return [
            c
            for c in self._every()
            if (camera is None or c.camera == camera)
            and (cameras is None or c.camera in cameras)
            and (before is None or c.id < before)
        ][:limit]

    def one(self, clip: int) -> ClipAnswer:
        for found in self._every():
            if found.id == clip:
                return found
        raise NotFound(f"clip {clip} does not exist")

    def around(self, camera: str, at_utc_s: float) -> ClipAroundAnswer:
        spans = [
            ClipSpan(c.id, c.from_utc_s, c.to_utc_s, c.state == "making")
            for c in self._every()
            if c.camera == camera and c.state != "failed"
        ]
        missing: NoClipReason | None = None if camera in self._cameras() else "camera_removed"
        found = clip_around(spans, at_utc_s, self._utc_s, VideoNow(20.0, missing))
        return by_name(ClipAroundAnswer, found, camera=camera, at_utc_s=at_utc_s)

    def video(self, clip: int) -> Path:
        if self.path is None or self.one(clip).state != "kept":
            raise NotFound(f"clip {clip} has no video")
        return self.path

    def boxes(self, clip: int) -> ClipBoxes:
        return replace(read(ClipBoxes, CLIP_BOXES), clip=clip, camera=self.one(clip).camera)

    async def make(
        self, camera: str, before_s: float | None, after_s: float | None, at_utc_s: float | None, by: str
    ) -> ClipAnswer:
        if camera not in self._cameras():
            raise NotFound(f"camera {camera} does not exist")
        before, after = 5.0 if before_s is None else before_s, 10.0 if after_s is None else after_s
        check_span(before, after, 20.0)
        at = self._utc_s if at_utc_s is None else at_utc_s
        number = 101 + len(self.asked)
        row = {"id": number, "camera": camera, "state": "making", "asked_by": str(by), "at_utc_s": at,
               "from_utc_s": at - before, "to_utc_s": at + after, "alarms": [], "video": None,
               "failure": None}  # fmt: skip
        self.asked.append(read(ClipAnswer, row))
        return self.asked[-1]

    async def remove(self, clip: int, by: str) -> None:
        self.one(clip)
        self.removed.add(clip)

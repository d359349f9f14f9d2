"""The service of clips. Values are edge.appliance.answers.clips; errors are edge.core.errors."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Protocol

from edge.appliance.answers.clips import ClipAnswer, ClipAroundAnswer, ClipBoxes


class ClipsService(Protocol):
    """Part of `edge.appliance.service.ApplianceService`. `all`, `one`, `around`, `video` and `boxes` block."""

    def all(
        self, limit: int, before: int | None, camera: str | None, cameras: Collection[str] | None
    ) -> list[ClipAnswer]:
        """Newest first; `cameras` (not None): only clips of these."""

    def one(self, clip: int) -> ClipAnswer:
        """One clip. Raises NotFound."""

    def around(self, camera: str, at_utc_s: float) -> ClipAroundAnswer:
        """The clip that shows a moment of a camera, whether one can be made, or why there is none; of a camera that is
        not there, too."""

    def video(self, clip: int) -> Path:
        """The file of a kept clip. Raises NotFound."""

    def boxes(self, clip: int) -> ClipBoxes:
        """The boxes of a kept clip. Raises NotFound, UnreadableRecord."""

    async def make(
        self, camera: str, before_s: float | None, after_s: float | None, at_utc_s: float | None, by: str
    ) -> ClipAnswer:
        """Begin a clip around a moment (None: now), with the camera's seconds where they are None. It is in the making
        then. Raises NotFound, InvalidValue (a clip longer than the ring, a moment that it does not hold; it names the
        longest that can be had), Conflict (the camera keeps no video), DiskFull, Unavailable."""

    async def remove(self, clip: int, by: str) -> None:
        """Delete a clip that is not in the making. Raises NotFound, Conflict."""

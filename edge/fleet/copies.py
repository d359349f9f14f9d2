"""Copies of the students of cameras that other boxes answer: fetched before they are needed, checked by their hash."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from edge.core.errors import MagpieError
from edge.core.fleet_links import FleetAgreement, FleetCamera
from edge.fleet.folder import FleetFolder
from edge.fleet.links import Links

log = logging.getLogger(__name__)

_SUFFIX: Final = ".safetensors"
_DIGEST: Final = re.compile("[0-9a-f]{64}")
_AT_ONCE: Final = 8


class StudentCopies:
    """`models` is the folder of the appliance's own students, whose files have their hash as name; `agreement` gives
    the present one."""

    def __init__(
        self, me: str, folder: FleetFolder, models: Path, links: Links, agreement: Callable[[], FleetAgreement]
    ) -> None:
        self._me, self._folder, self._models, self._links = me, folder, models, links
        self._agreement = agreement
        self._logged: set[str] = set()
        #: Copies that cameras of this box began with: should their models be damaged, they begin with them again.
        self.begun_with: frozenset[str] = frozenset()

    async def follow(self) -> None:
        """Fetch up to eight students that this box lacks, and forget copies that no camera has any more."""
        agreement = self._agreement()
        wanted = {c.student for c in agreement.cameras if c.student and c.owner != self._me and self._reaches(c)}
        # A camera that is being moved here needs its copy until it answers.
        wanted |= {c.student for c in agreement.cameras if c.student and not c.answered}
        for path in (self._folder.path / "students").glob(f"*{_SUFFIX}"):
            if path.stem not in wanted | self.begun_with:
                path.unlink(missing_ok=True)
        missing = [
            c for c in agreement.cameras
            if c.student in wanted and _DIGEST.fullmatch(c.student) and self.file(c.student) is None
        ]  # fmt: skip
        for camera in missing[:_AT_ONCE]:
            await self._fetch(camera)

    def file(self, digest: str) -> Path | None:
        """A student's file: a copy, or the appliance's own."""
        if not _DIGEST.fullmatch(digest) or not any(c.student == digest for c in self._agreement().cameras):
            return None  # a name of another box leads to no other file
        places = (self._folder.path / "students" / f"{digest}{_SUFFIX}", self._models / f"{digest}{_SUFFIX}")
        return next((path for path in places if path.is_file()), None)

    async def at_hand(self, camera: FleetCamera) -> Path | None:
        """The camera's student in force, fetched now if there is no copy; None: no box has it, and the camera begins
        with its first student."""
        if not camera.student:
            return None
        found = self.file(camera.student)
        if found is None:
            await self._fetch(camera)
            found = self.file(camera.student)
        if found is None:
            log.warning("%s begins with its first student: no box has the one in force", camera.id)
        return found

    def _reaches(self, camera: FleetCamera) -> bool:
        mine = self._agreement().member(self._me)
        return not camera.zone or (mine is not None and camera.zone in mine.zones)

    async def _fetch(self, camera: FleetCamera) -> None:
        for name in dict.fromkeys((camera.previous, camera.owner)):
            box = None if name in (None, self._me) else self._agreement().member(str(name))
            if box is None:
                continue
            try:
                content = await self._links.fetch(box, f"/students/{camera.student}")
            except MagpieError as error:
                if camera.student not in self._logged:
                    log.warning("the student of %s cannot be copied from %s: %s", camera.id, name, error)
                self._logged.add(camera.student)
                continue
            if await asyncio.to_thread(self._kept, camera.student, content):
                return
            log.warning("the student of %s as %s sent it is damaged", camera.id, name)

    def _kept(self, digest: str, content: bytes) -> bool:
        """Keep a student whose content is whole. Blocks."""
        whole = hashlib.sha256(content).hexdigest() == digest
        if whole:
            self._folder.write_bytes(f"students/{digest}{_SUFFIX}", content)
        return whole

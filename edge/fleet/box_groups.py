"""The agent's part of groups over boxes: it hears what other boxes share, copies the pictures that its appliance wants,
and the students that others have for this box. It decides nothing: the appliances do.

A box that does not answer is left out; its pictures that are here already stay until it answers that it shares them no
more, is no longer in the fleet, or this appliance does not want them. Nothing waits for another box.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
from collections.abc import Callable, Collection, Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

from edge.core import checks
from edge.core.box_groups import (
    BOX_GROUP_FAULTS,
    LARGEST_MANIFEST,
    BoxGroupFault,
    CameraOfBox,
    GroupStudent,
    HeardBox,
    HeardBoxes,
    SharedBy,
    SharedCamera,
    SharedManifest,
)
from edge.core.clock import Clock
from edge.core.errors import Conflict, Forbidden, InvalidValue, MagpieError, NotFound, NotUnderstood, Unavailable
from edge.core.fleet_links import FleetAgreement, FleetMember, GroupsAnswer, GroupsAsk
from edge.files import store_whole
from edge.fleet.links import Links
from edge.runtime.box_groups_folder import BoxGroupsFolder
from edge.runtime.tasks import repeated
from edge.runtime.value_files import read_value

log = logging.getLogger(__name__)

LOOK_S: Final = 3.0
_ASK_S: Final = 3.0
_FILE_S: Final = 60.0
_AT_ONCE: Final = 4
#: A file that did not come is asked for again after so many seconds.
AGAIN_S: Final = 30.0
#: Pictures of an earlier window stay so many seconds after those of a later one came.
SUPERSEDED_S: Final = 60.0
#: A box's shared cameras are known for so many seconds after it answered last.
SILENT_S: Final = 300.0


class AgentGroups:
    """One box's part; with `share` it looks again and again while it is open (`async with`), without it this box
    answers others that it shares nothing. `agreement` gives the present one. Implements `GroupsDesk`
    (edge.fleet.server)."""

    def __init__(
        self,
        me: str,
        share: bool,
        folder: BoxGroupsFolder,
        links: Links,
        agreement: Callable[[], FleetAgreement],
        clock: Clock,
        look_s: float = LOOK_S,
    ) -> None:
        self._me, self._share, self._folder, self._links = me, share, folder, links
        self._agreement, self._clock, self._look_s = agreement, clock, look_s
        self._failures: dict[BoxGroupFault, int] = {}
        #: Until when what did not come is not asked for again, by its digest.
        self._not_before_s: dict[str, float] = {}
        #: The pictures that are here, by camera: until when each description of them counts.
        self._copies: dict[CameraOfBox, dict[str, float]] = {}
        #: The cameras that each box shared when it answered last, and when that was.
        self._shared: dict[str, tuple[float, tuple[SharedCamera, ...]]] = {}
        #: The boxes that answered in the last round, with their students for this one.
        self._answered: dict[str, tuple[GroupStudent, ...]] = {}
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    async def __aenter__(self) -> AgentGroups:
        if self._share:
            # Apart: a slow file does not keep this box from hearing the others.
            rounds = {"hear": self._hear, "copy": self._copy}
            self._tasks = tuple(
                asyncio.create_task(repeated(one, self._look_s, "groups over boxes"), name=f"groups over boxes: {name}")
                for name, one in rounds.items()
            )
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _others(self) -> dict[str, FleetMember]:
        return {m.name: m for m in self._agreement().members if m.name != self._me}

    async def _hear(self) -> None:
        """Ask all other boxes."""
        others = self._others()
        answers = dict(zip(others, await asyncio.gather(*(self._ask(m) for m in others.values())), strict=True))
        now_s = self._clock.monotonic()
        for box, (how, answer) in answers.items():
            if how == "shares":
                self._shared[box] = (now_s, answer.cameras)
            elif how != "silent" or now_s - self._shared.get(box, (now_s, ()))[0] > SILENT_S:
                self._shared.pop(box, None)
        self._shared = {box: known for box, known in self._shared.items() if box in others}
        self._answered = {box: answer.students for box, (how, answer) in answers.items() if how == "shares"}
        boxes = tuple(HeardBox(box, how, self._shared.get(box, (0.0, ()))[1]) for box, (how, _) in answers.items())
        await asyncio.to_thread(self._folder.write_heard, HeardBoxes(boxes, dict(self._failures)))
        await self._delete_others()

    async def _copy(self) -> None:
        """Copy what is wanted and not here yet."""
        others, answered = self._others(), dict(self._answered)
        await self._copy_pictures(others, answered)
        await self._copy_students(others, answered)

    async def _ask(self, box: FleetMember) -> tuple[SharedBy, GroupsAnswer]:
        """The cameras that a box shares, of no other box, and the students that it has for this one alone."""
        try:
            answer = await self._links.ask(box, "/groups", GroupsAsk(), GroupsAnswer, _ASK_S)
        except (MagpieError, ValueError) as error:
            log.debug("%s", error)
            return _outcome_of(error), GroupsAnswer()
        cameras = tuple(c for c in answer.cameras if c.box == box.name)
        students = tuple(s for s in answer.students if (s.trainer, s.box) == (box.name, self._me))
        return "shares", GroupsAnswer(cameras, students)

    # -- pictures of others

    async def _copy_pictures(self, boxes: Mapping[str, FleetMember], answered: Collection[str]) -> None:
        for camera in await self._delete_others():
            if camera.box not in answered or camera.box not in boxes:
                continue
            if await asyncio.to_thread(self._folder.manifest, camera.manifest) is None:
                await self._tried(camera.manifest, self._copy_camera(boxes[camera.box], camera))
            if await asyncio.to_thread(self._folder.manifest, camera.manifest) is not None:
                self._copied(camera)

    async def _delete_others(self) -> list[SharedCamera]:
        """Delete the pictures of cameras that are not wanted, or that their boxes share no more; of a box that is
        silent for a while all stay. Returns the cameras whose pictures are to be here."""
        wanted = await asyncio.to_thread(self._folder.wanted)
        shared = {c.of_box: c.manifest for _, cameras in self._shared.values() for c in cameras}
        named = {c.of_box for c in wanted if c.of_box in shared}
        now_s = self._clock.monotonic()
        self._copies = {
            camera: {manifest: until_s for manifest, until_s in copies.items() if until_s > now_s}
            for camera, copies in self._copies.items()
            if camera in named
        }
        found = [c for c in wanted if shared.get(c.of_box) == c.manifest]
        copied = {manifest for copies in self._copies.values() for manifest in copies}
        await asyncio.to_thread(self._folder.keep_guests, {c.manifest for c in found} | copied)
        return found

    def _copied(self, camera: SharedCamera) -> None:
        """The pictures of a camera are here: those of an earlier window go soon, a retraining may just open them."""
        copies = self._copies.setdefault(camera.of_box, {})
        if camera.manifest in copies:
            return
        until_s = self._clock.monotonic() + SUPERSEDED_S
        self._copies[camera.of_box] = {m: min(s, until_s) for m, s in copies.items()} | {camera.manifest: math.inf}

    async def _copy_camera(self, box: FleetMember, camera: SharedCamera) -> None:
        """All pictures of a camera; the description comes first, and is there when all are."""
        digest = camera.manifest
        content = await self._file(box, f"/groups/files/{digest}", digest, LARGEST_MANIFEST)
        draft = self._folder.guest(digest) / "manifest.draft"
        await asyncio.to_thread(_put, draft, content)
        sizes = await asyncio.to_thread(_sizes, draft)
        checks.in_range("size", sum(sizes.values()), 0, camera.size)
        slots = asyncio.Semaphore(_AT_ONCE)

        async def picture(name: str, size: int) -> None:
            path = self._folder.guest_blob(digest, name)
            if path.is_file():
                return
            async with slots:
                found = await self._file(box, f"/groups/files/{name}", name, size)
                await asyncio.to_thread(_put, path, found)

        async with asyncio.TaskGroup() as group:
            for name, size in sizes.items():
                group.create_task(picture(name, size))
        await asyncio.to_thread(draft.replace, draft.with_name("manifest.json"))
        log.info("%d pictures of %s are here", len(sizes), camera.of_box.name)

    # -- students of others

    async def _copy_students(
        self, boxes: Mapping[str, FleetMember], students: Mapping[str, tuple[GroupStudent, ...]]
    ) -> None:
        known = {s.id: s for s in await asyncio.to_thread(self._folder.known)}
        # One of each box for a camera waits for its judgement: a box that offers hundreds would fill the disk.
        waiting: set[tuple[str, str]] = set()
        for name, one in known.items():
            offered = one.trainer in boxes and (one.trainer not in students or one in students[one.trainer])
            if not await asyncio.to_thread(self._folder.over, name):
                waiting.add((one.trainer, one.camera))
            elif not offered:
                await asyncio.to_thread(self._folder.forget, name)
        cameras = {c.camera for c in (await asyncio.to_thread(self._folder.shared)).cameras}
        for box, found in students.items():
            for student in found:
                taken = student.id in known or (box, student.camera) in waiting
                if box in boxes and student.camera in cameras and not taken:
                    waiting.add((box, student.camera))
                    await self._tried(student.id, self._copy_student(boxes[box], student))

    async def _copy_student(self, box: FleetMember, student: GroupStudent) -> None:
        path = f"/groups/students/{student.digest}"
        content = await self._file(box, path, student.digest, student.size)
        await asyncio.to_thread(_put, self._folder.arrival(student.id), content)
        await asyncio.to_thread(self._folder.write_arrived, student)

    # -- files

    async def _tried(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Try to copy; a failure is counted, and the copy is tried again later."""
        now_s = self._clock.monotonic()
        self._not_before_s = {n: s for n, s in self._not_before_s.items() if s > now_s}
        if name in self._not_before_s:
            work.close()
            return
        try:
            await work
        except (MagpieError, OSError, ValueError, ExceptionGroup) as error:
            why = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
            fault: BoxGroupFault = "damaged" if isinstance(why, InvalidValue | ValueError) else "unreachable"
            self._failures[fault] = self._failures.get(fault, 0) + 1
            self._not_before_s[name] = now_s + AGAIN_S
            log.warning("%s: %s: %s", name, BOX_GROUP_FAULTS[fault], why)

    async def _file(self, box: FleetMember, path: str, digest: str, most: int) -> bytes:
        """A file of a box. Raises Unavailable, NotFound, InvalidValue for another content."""
        content = await self._links.fetch(box, path, _FILE_S, most=most)
        if len(content) > most or hashlib.sha256(content).hexdigest() != digest:
            raise InvalidValue("file", digest, f"the content that {box.name} announced")
        return content

    # -- what others ask

    def answer(self, sender: str) -> GroupsAnswer:
        """The cameras that this box shares, and its students for `sender`. Raises Forbidden where nothing is shared."""
        self._check_open()
        return GroupsAnswer(self._folder.shared().cameras, tuple(s for s in self._folder.students() if s.box == sender))

    def file(self, digest: str) -> Path | None:
        """A description or a picture that is shared. Raises Forbidden where nothing is shared."""
        self._check_open()
        return self._folder.file(digest)

    def student(self, digest: str, sender: str) -> Path | None:
        """A student for `sender`. Raises Forbidden where nothing is shared."""
        self._check_open()
        named = any(s.digest == digest and s.box == sender for s in self._folder.students())
        path = self._folder.student(digest) if named else None
        return path if path is not None and path.is_file() else None

    def _check_open(self) -> None:
        if not self._share:
            raise Forbidden(f"{self._me} shares no pictures", "fleet.share_pictures in its site file")


def _outcome_of(error: Exception) -> SharedBy:
    """Why a box shares nothing with this one."""
    if isinstance(error, Unavailable):
        return "silent"
    if isinstance(error, Forbidden):
        return "off"
    # It has no such route, or is of a version too far away.
    return "not_known" if isinstance(error, NotFound | NotUnderstood | Conflict) else "failed"


def _sizes(draft: Path) -> dict[str, int]:
    """The bytes of each picture of a description. Raises InvalidValue for what is none."""
    found = read_value(draft, SharedManifest)
    if found is None:
        raise InvalidValue("manifest", draft.parent.name, "a description of labelled pictures")
    return dict(found.sizes)


def _put(path: Path, content: bytes) -> None:
    store_whole(path, content, durable=False, folder_mode=0o700)

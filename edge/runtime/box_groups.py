"""Cameras of several boxes that are retrained as one: this box's pictures for others, theirs in its own retrainings,
and the students of other boxes' groups, each judged here as any other candidate.

Each box goes on alone: a group's retraining goes on without pictures that are not here, and a student that does not
come is not waited for.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from edge.core import events as ev
from edge.core.box_groups import (
    BOX_GROUP_FAULTS,
    MOST_CAMERAS,
    BoxGroup,
    BoxGroupCounts,
    BoxGroupFault,
    CameraOfBox,
    GroupGuest,
    GroupStudent,
    HeardBoxes,
    SharedCamera,
    SharedCameras,
    SharedFiles,
    kind_of,
)
from edge.core.camera_look import CameraLook
from edge.core.configs import RetrainingConfig
from edge.core.errors import MagpieError
from edge.core.journal_kinds import JournalNote
from edge.core.labels import LabelledWindow
from edge.runtime import messages as m
from edge.runtime.box_groups_folder import BoxGroupsFolder
from edge.runtime.camera import CameraRuntime
from edge.runtime.judging import Gate
from edge.runtime.leaf_parts import LeafParts
from edge.runtime.promotion import discard, unlink
from edge.runtime.running_job import RunningJob
from edge.runtime.shared_pictures import PackedPictures, packed_pictures, read_guest
from edge.runtime.siblings import Siblings
from scheduler.box_groups import box_groups, taught_boxes, with_guests

log = logging.getLogger(__name__)

#: A student that could not be judged for so many windows of this box is not waited for.
PATIENCE_WINDOWS: Final = 2.0
#: A student is judged so often: the one in force may change meanwhile.
TRIES: Final = 3
#: A student is there for other boxes for so long, in seconds.
OFFERED_S: Final = 3600.0


@dataclass(frozen=True)
class _Shared:
    """A camera's pictures as they are shared, of the labelled window `data`."""

    data: LabelledWindow
    packed: PackedPictures


@dataclass
class _Arrived:
    """A student of another box, since `since_s`; it is judged as `job` beside `version` (empty: it waits)."""

    student: GroupStudent
    since_s: float
    job: str = ""
    version: str = ""
    tries: int = 0


@dataclass
class _Offered:
    """The students of one retraining for other boxes."""

    students: tuple[GroupStudent, ...]
    until_s: float


@dataclass
class _LastLook:
    """As found at the last look: the groups over boxes, other boxes, and the guests whose pictures are here, by
    name."""

    groups: tuple[BoxGroup, ...] = ()
    heard: HeardBoxes = field(default_factory=HeardBoxes)
    guests: dict[str, tuple[SharedCamera, GroupGuest]] = field(default_factory=dict)


class BoxGroups:
    """The runtime's hands for groups over boxes. Nothing happens before `look` is called, again and again: a box that
    shares no pictures has no guests and plans alone. `retrains(camera)` says whether a retraining of a camera runs,
    `dispatch` hands an event to the controller, `note` journals, `spawn(work, name)` runs beside the loop's main work.
    Touched on the control process's event loop only."""

    def __init__(
        self,
        parts: LeafParts,
        siblings: Siblings,
        folder: BoxGroupsFolder,
        gate: Gate,
        retrains: Callable[[str], bool],
        dispatch: Callable[[ev.Event], None],
        note: JournalNote,
        spawn: Callable[..., None],
    ) -> None:
        self._parts, self._siblings, self._folder, self._gate = parts, siblings, folder, gate
        self._retrains, self._dispatch, self._note, self._spawn = retrains, dispatch, note, spawn
        self.counts = BoxGroupCounts()
        self.known = _LastLook()
        self._me = ""
        self._shared: dict[str, _Shared] = {}
        self._written: SharedCameras | None = None
        self._wanted: tuple[SharedCamera, ...] | None = None
        self._arrived: dict[str, _Arrived] = {}
        self._offered: list[_Offered] = []
        #: Descriptions of pictures that are none.
        self._bad: set[str] = set()

    # -- the runtime's orders

    def possible(self, known: ev.GroupsPossible) -> ev.GroupsPossible:
        """With the sets of cameras that have cameras of other boxes in them, whose pictures are here."""
        found, here = set(known.sets), self.known.guests
        for group in self.known.groups:
            ready = replace(group, guests=tuple(g for g in group.guests if g.of_box.name in here))
            cameras = [self._parts.cameras.get(c.camera) for c in group.own]
            own = sorted(c.id for c in cameras if c is not None and self._shares(c) and not c.version.pinned)
            if group.trainer == self._me:
                found |= set(with_guests(known.sets, ready, own))
        if found == set(known.sets):
            return known
        named = {name for names in found for name in names}
        return replace(known, sets=tuple(sorted(found)), guests=frozenset(n for n in here if n in named))

    def guests(self, names: Collection[str]) -> tuple[GroupGuest, ...]:
        """The pictures of guests for the worker of a group's retraining; those that are gone are left out."""
        return tuple(self.known.guests[n][1] for n in names if n in self.known.guests)

    async def trained(self, job: RunningJob, done: m.TrainingDone) -> None:
        """A group's retraining is over: its student is there for the boxes of the guests that taught."""
        path = done.for_guests
        if path is None or not done.guests:
            return
        taught = (CameraOfBox(self._me, job.camera), *done.guests)
        try:
            digest, size = await asyncio.to_thread(_moved, path, self._folder)
            students = tuple(
                GroupStudent(
                    self._me, guest.box, guest.camera, digest, size, job.retraining.to_json(),
                    taught_boxes(taught, guest.box), done.fraction, done.train_frames,
                )
                for guest in done.guests
            )  # fmt: skip
            self._offered.append(_Offered(students, self._parts.clock.monotonic() + OFFERED_S))
            await self._write_students()
        except (MagpieError, OSError) as error:
            log.warning("no student of %s for other boxes: %s", job.job, error)
            unlink(path)
            return
        self.counts.trained += 1

    def has(self, job: str) -> bool:
        """Whether a candidate that a profiler judges is a student of another box's group."""
        return any(one.job == job for one in self._arrived.values())

    # -- again and again

    async def look(self, me: str) -> None:
        """Share, hear, decide, and judge what came; `me` is this box's name."""
        self._me = me
        if self._written is None:
            await self._write_students()  # those of an earlier run are forgotten
        await self._share()
        await self._hear()
        await self._take_in()
        now_s = self._parts.clock.monotonic()
        if any(one.until_s < now_s for one in self._offered):
            await self._write_students()

    def _shares(self, camera: CameraRuntime | None) -> bool:
        return camera is not None and camera.published and camera.settings.retraining.enabled

    async def _share(self) -> None:
        """Write down which cameras' pictures are shared; a camera's are packed once a window."""
        looks = {known.camera: known.look for known in self._siblings.looks()}
        shared: dict[str, _Shared] = {}
        found: list[tuple[CameraRuntime, SharedCamera]] = []
        for name, camera in sorted(self._parts.cameras.items()):
            data = camera.closed.get(max(camera.closed, default=0))
            if data is None or not data.train or name not in looks or not self._shares(camera):
                continue
            before = self._shared.get(name)
            if before is None or before.data is not data:
                try:
                    packed = await asyncio.to_thread(packed_pictures, data, camera.region, self._folder.manifests)
                except (MagpieError, OSError) as error:
                    log.warning("the pictures of %s are not shared: %s", name, error)
                    continue
                before = _Shared(data, packed)
            shared[name] = before
            found.append((camera, self._shared_camera(camera, looks[name], before)))
        # One that was removed meanwhile, or whose pictures were, is not shared any more.
        cameras = [offer for camera, offer in found if self._parts.cameras.get(camera.id) is camera]
        self._shared, sharing = shared, SharedCameras(tuple(cameras[:MOST_CAMERAS]))
        if sharing == self._written and await asyncio.to_thread(self._folder.refresh_shared):
            return
        files = {digest: path for one in shared.values() for digest, path in one.packed.paths.items()}
        await asyncio.to_thread(self._folder.write_shared, sharing, SharedFiles(files))
        await asyncio.to_thread(self._folder.keep_manifests, {c.manifest for c in cameras})
        self._written = sharing

    def _shared_camera(self, camera: CameraRuntime, look: CameraLook, shared: _Shared) -> SharedCamera:
        packed, settings = shared.packed, self._parts.window.settings
        # With several tenants a window's group is of one of them, without guests.
        trains = settings.enabled and settings.groups and len(self._parts.controller.state.budgets) < 2
        # As other boxes read it: all decide by the same numbers.
        same = CameraLook.from_json(look.to_json())
        return SharedCamera(
            self._me, camera.id, kind_of(camera.version.spec), same, shared.data.window, packed.manifest,
            packed.pictures, packed.size, trains,
        )  # fmt: skip

    async def _hear(self) -> None:
        """The groups that this box and the others make, and the pictures that are wanted here for them."""
        heard = await asyncio.to_thread(self._folder.heard)
        own = () if self._written is None else self._written.cameras
        others = [c for box in heard.boxes if box.box != self._me for c in box.cameras]
        groups = box_groups([*own, *others])
        wanted = tuple(g for group in groups if group.trainer == self._me for g in group.guests)
        if wanted != self._wanted:
            await asyncio.to_thread(self._folder.write_wanted, wanted)
            self._wanted = wanted
        guests: dict[str, tuple[SharedCamera, GroupGuest]] = {}
        for camera in wanted:
            before = self.known.guests.get(camera.of_box.name)
            if before is not None and before[0] == camera:
                guests[camera.of_box.name] = before
                continue
            guest = None if camera.manifest in self._bad else await self._read(camera)
            if guest is not None:
                guests[camera.of_box.name] = (camera, guest)
            elif before is not None and before[0].kind == camera.kind and camera.manifest not in self._bad:
                guests[camera.of_box.name] = before  # of an earlier window, until those of this one are here
        self._bad &= {c.manifest for c in wanted}
        self.known = _LastLook(groups, heard, guests)

    async def _read(self, camera: SharedCamera) -> GroupGuest | None:
        try:
            return await asyncio.to_thread(read_guest, camera, self._folder)
        except MagpieError as error:
            self._bad.add(camera.manifest)
            self._failed("damaged", camera.of_box.name, str(error))
            return None

    async def _write_students(self) -> None:
        """The newest student for each camera of other boxes that is not too old."""
        now_s = self._parts.clock.monotonic()
        self._offered = [one for one in self._offered if one.until_s >= now_s]
        newest = {(s.box, s.camera): s for one in self._offered for s in one.students}
        await asyncio.to_thread(self._folder.write_students, tuple(newest.values()))

    # -- students of other boxes

    async def _take_in(self) -> None:
        """Have a profiler judge what came, one student of a camera at a time; it has a share of the device always."""
        here = {s.id: s for s in await asyncio.to_thread(self._folder.arrived)}
        now_s, patience_s = self._parts.clock.monotonic(), PATIENCE_WINDOWS * self._parts.window.settings.window_s
        self._arrived = {name: one for name, one in self._arrived.items() if name in here}
        for name, student in here.items():
            one = self._arrived.setdefault(name, _Arrived(student, now_s))
            camera = self._parts.cameras.get(student.camera)
            if camera is None or not self._shares(camera) or camera.version.pinned:
                await self._end(one)
            elif not one.job and (one.tries >= TRIES or now_s - one.since_s > patience_s):
                self._failed("late", name, "")
                await self._end(one)
            elif not one.job and self._can_judge(camera):
                await self._ask(one, camera)

    def _can_judge(self, camera: CameraRuntime) -> bool:
        """Whether the camera has pictures to judge by, and nothing else may change its student meanwhile."""
        data = camera.closed.get(max(camera.closed, default=0))
        if data is None or not (data.train and data.held_out):
            return False
        judged = any(one.job and one.student.camera == camera.id for one in self._arrived.values())
        return not judged and not self._retrains(camera.id)

    async def _ask(self, one: _Arrived, camera: CameraRuntime) -> None:
        parts, student = self._parts, one.student
        try:
            config = RetrainingConfig.from_json(dict(student.config))
        except (MagpieError, TypeError, ValueError) as error:
            self._failed("damaged", student.id, str(error))
            await self._end(one)
            return
        data, folder = camera.closed[max(camera.closed)], Path(parts.site.data_dir) / "jobs"
        one.job = f"w{parts.controller.state.window}-{camera.id}-p-{student.trainer}-{student.digest[:8]}"
        one.version = camera.version.id
        job = m.RetrainingJob(
            one.job, camera.id, data, parts.student(camera.version), config, camera.version.spec, 0,
            folder / f"{one.job}.ckpt", folder / f"{one.job}.safetensors", parts.shares.cores,
            download=parts.download(camera), region=camera.region,
        )  # fmt: skip
        path = self._folder.arrival(student.id)
        parts.profilers.ask(
            m.JudgeCandidate(data, job, path, student.trainer, 0.0, student.fraction, student.train_frames)
        )

    def judged(self, done: m.TrainingDone) -> None:
        """A profiler has judged a student of another box: it goes through the camera's gate, unless the camera has
        another student by now, or is about to: then it is judged again."""
        one = next(one for one in self._arrived.values() if one.job == done.job)
        camera = self._parts.cameras.get(one.student.camera)
        busy = camera is None or self._retrains(camera.id)
        if camera is None or busy or camera.version.id != one.version:
            discard(done)
            self._again(one)
            return
        self._spawn(self._through_gate(one, camera, done), f"gate {done.job}")

    def not_judged(self, job: m.JudgeCandidate) -> None:
        """A student could not be judged."""
        one = next(one for one in self._arrived.values() if one.job == job.job.job)
        unlink(job.job.output)
        self._again(one)

    def _again(self, one: _Arrived) -> None:
        one.job, one.version, one.tries = "", "", one.tries + 1

    async def _through_gate(self, one: _Arrived, camera: CameraRuntime, done: m.TrainingDone) -> None:
        parts, student = self._parts, one.student
        config = RetrainingConfig.from_json(dict(student.config)).id
        window, tolerance = max(camera.closed, default=0), parts.window.settings.gate_tolerance
        done = replace(done, boxes=student.boxes)
        try:
            name = f"box-{student.trainer}-{student.digest[:8]}"
            judged = await self._gate.judge(camera, done, config, window, tolerance, name)
        except MagpieError as error:
            self._failed("damaged", student.id, str(error))
            await self._end(one)
            return
        if judged.promoted:
            parts.learning.not_promised(camera.id, parts.controller.state.window)
        self.counts.taken += judged.learned and judged.promoted
        self.counts.refused += not (judged.learned and judged.promoted)
        data = judged.facts(config) | {"device_seconds": 0.0}
        self._note(judged.kind, camera=camera.id, window=parts.controller.state.window, data=data)
        parts.fact(judged.fact(camera.id, 0.0))
        self._dispatch(judged.completed(parts.clock.monotonic(), camera.id, done.job))
        await self._end(one)

    async def _end(self, one: _Arrived) -> None:
        self._arrived.pop(one.student.id, None)
        await asyncio.to_thread(self._folder.end, one.student.id)

    def _failed(self, fault: BoxGroupFault, name: str, why: str) -> None:
        self.counts.failures[fault] = self.counts.failures.get(fault, 0) + 1
        log.warning("%s: %s", name, BOX_GROUP_FAULTS[fault] + (f": {why}" if why else ""))


def _moved(path: Path, folder: BoxGroupsFolder) -> tuple[str, int]:
    """A student's file goes where the agent finds it: its SHA-256 and its bytes. Blocks."""
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    target = folder.student(digest)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.move(path, target)
    return digest, len(content)

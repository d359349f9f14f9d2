"""Cameras that learn from each other: a new camera begins with the student of the camera that looks most alike, before
it has a label of its own, and a retraining may begin with a sibling's student."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from edge.core.camera_look import CameraLook
from edge.core.clock import Clock
from edge.core.errors import MagpieError
from edge.core.journal_kinds import JournalNote
from edge.core.labels import SampledFrame
from edge.core.models import DOWNLOAD, SIBLING, ModelVersion
from edge.core.plan_causes import CameraChange
from edge.runtime import messages as m
from edge.runtime.camera import CameraRuntime
from edge.store.store import Store
from scheduler.siblings import KnownCamera, Sibling, choose_sibling

#: Pictures that a new camera is looked at with.
FIRST_PICTURES = 4


@dataclass(frozen=True)
class Hands:
    """The runtime as siblings use it. `put_in_force(camera, version, by, reason, scores)` records and switches;
    `ask` calls the store in its thread and waits, `write` does not wait."""

    store: Store
    clock: Clock
    cameras: Callable[[], Mapping[str, CameraRuntime]]
    student: Callable[[ModelVersion], m.StudentFile]
    ask: Callable[..., Awaitable[Any]]
    write: Callable[..., None]
    ask_profiler: Callable[[m.Look], None]
    put_in_force: Callable[..., Awaitable[None]]
    changed: Callable[[CameraRuntime, CameraChange], None]
    spawn: Callable[..., Any]
    note: JournalNote
    complain: Callable[..., None]


class Siblings:
    """Looks of all cameras, and the start of new ones. Touched on the control process's event loop only."""

    def __init__(self, hands: Hands) -> None:
        self._hands = hands
        self._looks: dict[str, CameraLook] = {}
        self._seen: dict[str, list[SampledFrame]] = {}
        self._asked: set[str] = set()

    def known(self, camera: str, look: dict[str, Any] | None) -> None:
        """Take up a camera's look of an earlier run."""
        if look is None:
            return
        try:
            self._looks[camera] = CameraLook.from_json(look)
        except (MagpieError, KeyError, TypeError, ValueError) as error:
            self._hands.complain("look", f"how it looks is learned anew: {error}", camera)

    def forget(self, camera: str) -> None:
        """The camera is gone."""
        self._looks.pop(camera, None)
        self._seen.pop(camera, None)
        self._asked.discard(camera)

    def sampled(self, camera: CameraRuntime, frame: SampledFrame) -> None:
        """A picture was recorded: after the first few of a new camera it is looked at, if there is anybody to begin
        with."""
        if camera.id in self._asked or not is_new(camera):
            return
        seen = self._seen.setdefault(camera.id, [])
        seen.append(frame)
        if len(seen) < FIRST_PICTURES:
            return
        self._asked.add(camera.id)
        del self._seen[camera.id]
        if self._others(camera):
            data = m.CameraSeen(camera.id, frame.window, tuple(seen))
            self._hands.ask_profiler(m.Look(data, self._hands.student(camera.frozen)))

    def looked(self, done: m.Looked) -> None:
        """A new camera was looked at: it begins with its sibling's student, if a camera looks alike."""
        camera = self._hands.cameras().get(done.camera)
        if camera is None or done.look is None:
            return
        self._keep(camera.id, done.look)
        others = self._others(camera)
        sibling = choose_sibling(done.look, others)
        if sibling is None:
            self._hands.note("sibling.none", camera=camera.id, window=done.window, data={"cameras": len(others)})
        else:
            self._hands.spawn(self._begin_with(camera, sibling), f"sibling of {camera.id}")

    def learned(self, camera: str, look: CameraLook | None) -> None:
        """A window of the camera has ended, and this is how it looked."""
        if look is not None:
            before = self._looks.get(camera)
            self._keep(camera, look if before is None else before.after(look))

    def starts(self, camera: CameraRuntime) -> tuple[m.StudentFile, ...]:
        """Students of siblings that the camera's next retraining may begin with: the most alike one's, or none."""
        look = self._looks.get(camera.id)
        sibling = None if look is None or not camera.published else choose_sibling(look, self._others(camera))
        if sibling is None:
            return ()
        version = self._hands.cameras()[sibling.camera].version
        if version.blob == camera.version.blob or not self._hands.store.blobs.has(version.blob):
            return ()
        return (self._hands.student(version),)

    def looks(self) -> list[KnownCamera]:
        """How every camera looks that was looked at, with its version in force."""
        cameras = self._hands.cameras()
        return [
            KnownCamera(name, cameras[name].version.id, look) for name, look in self._looks.items() if name in cameras
        ]

    def _keep(self, camera: str, look: CameraLook) -> None:
        self._looks[camera] = look
        put = partial(self._hands.store.settings.put_settings, audited=False)
        self._hands.write(put, f"look/{camera}", look.to_json(), "looks")

    def _others(self, camera: CameraRuntime) -> list[KnownCamera]:
        """Cameras with a student of the same kind that was retrained on pictures of their own."""
        return [
            KnownCamera(other.id, other.version.id, self._looks[other.id])
            for other in self._hands.cameras().values()
            if other.id != camera.id
            and other.id in self._looks
            and other.version.spec == camera.version.spec
            and is_retrained(other.version)
        ]

    async def _begin_with(self, camera: CameraRuntime, sibling: Sibling) -> None:
        """Put the sibling's student in force on `camera`, as a version of its own."""
        async with camera.judging:
            await self._put_in_force(camera, sibling)

    async def _put_in_force(self, camera: CameraRuntime, sibling: Sibling) -> None:
        hands = self._hands
        try:
            if len(await hands.ask(hands.store.versions.newest, camera.id, 2)) > 1 or not is_new(camera):
                return  # it has been judged by its labels before: they know better
            theirs: ModelVersion = await hands.ask(hands.store.versions.version, sibling.version)
            path = await hands.ask(hands.store.blobs.verify, theirs.blob)
            # Not which camera: a user of this one may not see it. The journal has it as a field.
            reason = f"the student of the camera that looks most alike (distance {sibling.distance:.2f})"
            scores = {"sibling_distance": round(sibling.distance, 4)}
            now = hands.clock.utc()
            made = ModelVersion(
                f"{camera.id}-sibling-{int(now)}",
                camera.id,
                "",
                theirs.spec,
                now,
                parent=camera.version.id,
                config=SIBLING,
                scores=scores,
            )
            if hands.cameras().get(camera.id) is not camera or not is_new(camera):
                return  # removed, or given another student, meanwhile
            added = await hands.ask(hands.store.add_model, made, path)
            await hands.put_in_force(camera, added, SIBLING, reason, scores)
        except MagpieError as error:
            # It names two cameras, so it is of no single one.
            words = f"{camera.id}: the student of {sibling.camera} was not put in force: {error}"
            hands.complain(error.code, words, None)
            return
        data = {"version": added.id, "sibling": sibling.camera, "sibling_version": sibling.version} | scores
        hands.note("model.from_sibling", camera=camera.id, data=data)
        hands.changed(camera, "camera_from_sibling")


def is_new(camera: CameraRuntime) -> bool:
    """Whether nothing is known of the camera yet: its student is the download as published, no window of it was
    labelled, and it is to learn."""
    return (
        camera.published
        and camera.version.id == camera.frozen.id
        and not camera.closed
        and not camera.version.pinned
        and not camera.settings.student.weights
        and camera.settings.retraining.enabled
    )


def is_retrained(version: ModelVersion) -> bool:
    """Whether a version was retrained on pictures of its own camera."""
    return version.window is not None and version.config not in (None, DOWNLOAD, SIBLING)

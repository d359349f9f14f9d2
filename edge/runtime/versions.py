"""A camera's versions in force: recorded, switched, rolled back and pinned."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from edge.core.alarms import RolledBack
from edge.core.errors import Conflict, MagpieError
from edge.core.facts import RuntimeFact
from edge.core.journal_kinds import JournalNote
from edge.core.models import ModelVersion
from edge.core.plan_causes import CameraChange
from edge.core.roll_backs import RollBackReason
from edge.runtime import messages as m
from edge.runtime.camera import CameraRuntime
from edge.runtime.store_thread import StoreThread
from edge.store.store import Store

#: A worker confirms a switch within so many seconds.
SWITCH_S = 60.0


class Versions:
    """`send(worker, message) -> bool` hands a message to a worker; False while it is not there. `fact` tells alarms and
    counts of a roll-back. `changed(camera, what)` is called after a version that was not the gate's choice came into
    force, or was pinned or unpinned."""

    def __init__(
        self,
        store: Store,
        records: StoreThread,
        send: Callable[[str, Any], bool],
        cameras: Mapping[str, CameraRuntime],
        note: JournalNote,
        fact: Callable[[RuntimeFact], None],
        window: Callable[[], int],
        changed: Callable[[CameraRuntime, CameraChange], None],
    ) -> None:
        self._store, self._records, self._send, self._cameras = store, records, send, cameras
        self._note, self._fact, self._window, self._changed = note, fact, window, changed
        self._switching: dict[str, asyncio.Future[m.Swapped]] = {}

    async def put_in_force(
        self, camera: CameraRuntime, version: ModelVersion, by: str, reason: str, scores: Mapping[str, float]
    ) -> None:
        """Record first, then switch: after a power loss the recorded model is the one that starts. Raises MagpieError;
        the version before is in force again then.
        """
        before = camera.version
        camera.version = await self._records.ask(
            self._store.versions.promote, version.id, by, reason, scores=dict(scores)
        )
        try:
            await self._switch(camera, camera.version)
        except MagpieError as error:
            if not camera.worker_up:
                return  # its next start loads the version in force
            camera.version = await self._records.ask(
                self._store.versions.roll_back, camera.id, "swap", str(error), to=before.id
            )
            raise

    async def roll_back(
        self, camera: CameraRuntime, to: str | None, by: str, reason: RollBackReason, *, judged: str | None = None
    ) -> ModelVersion:
        """Put an earlier version in force now (None: the parent), after what is being judged; returns what is in force.
        With `judged` nothing is done where another version than that one is in force by then.

        Raises NotFound, Conflict, MagpieError; the version before is in force again then.
        """
        async with camera.judging:
            if judged is not None and camera.version.id != judged:
                return camera.version
            return await self._roll_back(camera, to, by, reason)

    async def _roll_back(self, camera: CameraRuntime, to: str | None, by: str, reason: RollBackReason) -> ModelVersion:
        before = camera.version
        if to is not None and (await self._records.ask(self._store.versions.version, to)).spec != before.spec:
            raise Conflict(f"{to} is another kind of student than the camera's settings ask for")
        camera.version = await self._records.ask(self._store.versions.roll_back, camera.id, by, reason.words, to=to)
        try:
            await self._switch(camera, camera.version)
        except MagpieError as error:
            if camera.worker_up:
                camera.version = await self._records.ask(self._store.versions.promote, before.id, "swap", str(error))
                raise
            # Its next start loads the version in force.
        self._note(
            "model.rolled_back",
            camera=camera.id,
            window=self._window(),
            data=_named(camera.version) | {"by": by, "reason": reason.words, "automatic": reason.automatic},
        )
        self._fact(RolledBack(camera.id, camera.version.id, reason))
        self._changed(camera, "camera_rolled_back")
        return camera.version

    async def pin(self, version: str, pinned: bool, by: str) -> ModelVersion:
        """Pin or unpin. A pinned version in force is not replaced: the camera is not retrained. Raises NotFound."""
        found = await self._records.ask(self._store.versions.set_pinned, version, pinned, by)
        camera = self._cameras.get(found.camera)
        if camera is not None and camera.version.id == found.id:
            camera.version = found
            self._changed(camera, "camera_pinned" if pinned else "camera_unpinned")
        self._note("model.pinned" if pinned else "model.unpinned", camera=found.camera, data=_named(found) | {"by": by})
        return found

    async def parent(self, version: ModelVersion) -> ModelVersion | None:
        """The version that `version` was made from; None where there is none, or it is gone."""
        if version.parent is None:
            return None
        try:
            return await self._records.ask(self._store.versions.version, version.parent)
        except MagpieError:
            return None

    async def leave(self, camera: CameraRuntime) -> None:
        """The camera is removed and its worker has ended: returns when nothing is judged or switched for it any more.
        A version that comes into force meanwhile is recorded, and the worker's next start loads it."""
        camera.worker_up = False
        self.switched(camera.id, MagpieError(f"{camera.id}: its worker was stopped"))
        async with camera.judging:
            pass

    def switched(self, camera: str, result: m.Swapped | MagpieError) -> None:
        """Take the camera worker's report of a switch; one without a waiter is ignored."""
        future = self._switching.get(camera)
        if future is None or future.done():
            return
        if isinstance(result, MagpieError):
            future.set_exception(result)
        else:
            future.set_result(result)

    async def _switch(self, camera: CameraRuntime, version: ModelVersion) -> None:
        """Have the camera's worker switch; returns when the new student answers. Raises MagpieError."""
        path = await self._records.ask(self._store.blobs.verify, version.blob)
        if not self._send(camera.worker, m.Swap(version.id, path)):
            return
        future: asyncio.Future[m.Swapped] = asyncio.get_running_loop().create_future()
        self._switching[camera.id] = future
        try:
            async with asyncio.timeout(SWITCH_S):
                done = await future
        except TimeoutError:
            raise MagpieError(
                f"{camera.id}: the switch to {version.id} was not confirmed within {SWITCH_S:.0f} s"
            ) from None
        finally:
            self._switching.pop(camera.id, None)
        self._note(
            "model.switched",
            camera=camera.id,
            data={"version": version.id, "gap_s": done.gap_s, "frames_lost": done.frames_lost},
        )


def _named(version: ModelVersion) -> dict[str, Any]:
    """A version for the journal: its id, how it came about, and the window whose pictures trained it."""
    return {"version": version.id, "origin": version.origin, "trained_on": version.window}

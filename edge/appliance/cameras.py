"""Cameras: taken in with their first model, changed, removed. One change follows another."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from edge.appliance.access_control import AccessControl
from edge.appliance.answers.cameras import CameraAnswer, CameraTest, StateOfCamera
from edge.appliance.answers.read import read
from edge.appliance.camera_memory import forget, forget_pictures
from edge.appliance.discovery import CameraDiscovery
from edge.appliance.live import LivePictures
from edge.core.baseline import Baseline
from edge.core.clock import Clock
from edge.core.errors import Conflict, InvalidValue, MagpieError, StoreError
from edge.core.journal_kinds import JournalNote
from edge.core.models import ModelVersion
from edge.ingest.probe import probe_camera
from edge.ingest.source import CameraSource
from edge.runtime import messages as m
from edge.runtime.golden_worker import TeacherOffer
from edge.runtime.memory_limit import usable_bytes, worker_limit_bytes
from edge.runtime.runtime import Runtime
from edge.runtime.students import first_student, student_of
from edge.settings import CameraClips, CameraSettings, SiteSettings, merge, parse
from edge.store.store import Store

_FIRST_MODEL = "first model"


class Cameras:
    """Implements `CamerasService`. `note` journals, `camera_gone(camera, words)` ends a camera's objects and alarms,
    `forget_counts(camera)` what was counted of it, `masks_changed(camera)` the clips of it that are being made."""

    def __init__(
        self,
        site: SiteSettings,
        store: Store,
        clock: Clock,
        runtime: Runtime,
        access_control: AccessControl,
        teacher: TeacherOffer,
        live: LivePictures,
        note: JournalNote,
        camera_gone: Callable[[str, str], None],
        forget_counts: Callable[[str], None],
        masks_changed: Callable[[str], None],
    ) -> None:
        self._site, self._store, self._clock, self._runtime = site, store, clock, runtime
        self._access_control, self._teacher, self._live = access_control, teacher, live
        self._note, self._camera_gone, self._forget_counts = note, camera_gone, forget_counts
        self._masks_changed = masks_changed
        self.discovery = CameraDiscovery(site, access_control, self._memory_limit())
        self._data = Path(site.data_dir)
        #: Cameras change one after another: a change starts from what the one before it left.
        self._changing = asyncio.Lock()

    async def _forget_pictures(self, camera: str) -> None:
        try:
            await asyncio.to_thread(forget_pictures, self._data, camera)
        except StoreError as error:
            self._runtime.complaints.add("pictures_not_deleted", str(error), camera)

    # -- service

    def all(self) -> list[CameraAnswer]:
        """Every camera with its settings and state."""
        return [self.one(c) for c in self._runtime.cameras]

    def one(self, camera: str) -> CameraAnswer:
        """Raises NotFound."""
        found = self._runtime.camera(camera)
        return CameraAnswer(id=camera, settings=found.settings, state=read(StateOfCamera, found.state_json()))

    async def add(self, settings: Mapping[str, Any], by: str) -> CameraAnswer:
        """Raises InvalidValues, Conflict, LabelError, WeightsError."""
        camera = parse(CameraSettings, dict(settings))
        self._access_control.may_name(camera.password_from)
        self._access_control.may_show(self._source(camera))
        camera.clips.span(self._site.clips)
        self._check_classes(camera)
        async with self._changing:
            if camera.id in self._runtime.cameras:
                raise Conflict(f"camera {camera.id} exists already")
            await self._take_in_recorded(camera, by)
        return self.one(camera.id)

    async def change(self, camera: str, patch: Mapping[str, Any], by: str) -> CameraAnswer:
        """JSON merge patch. Raises as `add`, and NotFound."""
        async with self._changing:
            return await self._change(camera, patch, by)

    async def remove(self, camera: str, by: str) -> None:
        """Raises NotFound."""
        async with self._changing:
            await self._runtime.camera_workers.remove(camera)
            await asyncio.to_thread(self._store.settings.delete_camera, camera, by)
            await asyncio.to_thread(forget, self._store, self._data, camera, True)
        self._live.forget(camera)
        self._camera_gone(camera, "the camera was removed")
        self._forget_counts(camera)
        self._note("camera.removed", camera=camera, data={"by": by})

    async def test(self, settings: Mapping[str, Any]) -> CameraTest:
        """Try to connect. Raises InvalidValues."""
        camera = parse(CameraSettings, dict(settings))
        known = self._runtime.cameras.get(camera.id)
        self._access_control.may_name(
            camera.password_from, "" if known is None else _kept_reference(camera, known.settings)
        )
        source = self._source(camera)
        self._access_control.may_show(source, "" if known is None else known.settings.url)
        return read(CameraTest, await asyncio.to_thread(probe_camera, source))

    def _source(self, camera: CameraSettings) -> CameraSource:
        return m.camera_source(camera, self._access_control.secrets_file)

    # -- taking in

    async def take_in(self, settings: CameraSettings, lost: bool = False) -> None:
        """Give the camera its first model if it has none (or its last is `lost`), and start it, or journal that it is
        switched off. Raises MagpieError."""
        await self._take_in(settings, lost)
        if not settings.enabled:
            self._note_off(settings.id, "it is switched off")

    async def _take_in(self, settings: CameraSettings, lost: bool = False) -> None:
        in_force = None if lost else await asyncio.to_thread(self._store.versions.promoted, settings.id)
        wanted = (await asyncio.to_thread(student_of, settings, self._site.student, self._memory_limit()))[0]
        if in_force is not None and in_force.spec != wanted:
            # The student was changed: a new first model takes over, and everything learned of the other is forgotten.
            other = in_force.spec.classes != wanted.classes
            await asyncio.to_thread(forget, self._store, self._data, settings.id, other)
            in_force = None
        if in_force is None:
            in_force = await self._first_model(settings)
        lineage = await asyncio.to_thread(self._store.versions.lineage, in_force.id)
        self._runtime.camera_workers.add(settings, in_force, lineage[-1], await self._baseline(settings.id))
        history = await asyncio.to_thread(self._store.settings.get_settings, f"profiler/{settings.id}")
        self._runtime.cameras[settings.id].history = history
        self._runtime.students.siblings.known(
            settings.id, await asyncio.to_thread(self._store.settings.get_settings, f"look/{settings.id}")
        )

    def _note_off(self, camera: str, words: str) -> None:
        self._note("camera.stopped", camera=camera, data={"fault": None, "message": words})

    def _memory_limit(self) -> int:
        return worker_limit_bytes(self._site.machine.worker_memory_mb, usable_bytes())

    async def _first_model(self, settings: CameraSettings) -> ModelVersion:
        path = self._data / "jobs" / f"first-{settings.id}.safetensors"
        spec, words = await asyncio.to_thread(first_student, settings, self._site.student, path, self._memory_limit())
        now = self._clock.utc()
        candidate = ModelVersion(
            f"{settings.id}-first-{int(now)}", settings.id, "", spec, now, decided_by=_FIRST_MODEL, reason=words
        )
        added = await asyncio.to_thread(self._store.add_model, candidate, path)
        path.unlink(missing_ok=True)
        return await asyncio.to_thread(self._store.versions.promote, added.id, _FIRST_MODEL, words)

    async def _baseline(self, camera: str) -> Baseline | None:
        """The download's record of earlier windows; a document that cannot be read is begun anew."""
        learned = await asyncio.to_thread(self._store.settings.get_settings, f"baseline/{camera}")
        try:
            return None if learned is None else Baseline.from_json(learned)
        except (MagpieError, KeyError, TypeError, ValueError) as error:
            self._runtime.complaints.add("baseline", f"learning of the download begins anew: {error}", camera)
            return None

    # -- changes

    def _check_classes(self, camera: CameraSettings) -> None:
        """Raises LabelError if the teacher cannot produce one of the camera's classes."""
        self._teacher.check(camera.id, camera.classes, camera.class_map)

    async def _take_in_recorded(self, camera: CameraSettings, by: str) -> None:
        await asyncio.to_thread(
            self._store.settings.put_camera, camera.id, camera.model_dump(mode="json"), by, enabled=camera.enabled
        )
        try:
            await self.take_in(camera)
        except MagpieError:
            with contextlib.suppress(MagpieError):
                await asyncio.to_thread(self._store.settings.delete_camera, camera.id, by)
            raise
        self._live.ask_workers()
        self._note("camera.added", camera=camera.id, data={"by": by})

    async def _change(self, camera: str, patch: Mapping[str, Any], by: str) -> CameraAnswer:
        found = self._runtime.camera(camera)
        if patch.get("id", camera) != camera:
            raise InvalidValue("id", patch["id"], f"{camera} (an id does not change)")
        merged = merge(found.settings.model_dump(mode="json"), dict(patch))
        # A merge patch takes a class's mapping away with null.
        if isinstance(merged.get("class_map"), Mapping):
            merged["class_map"] = {k: v for k, v in merged["class_map"].items() if v is not None}
        changed = parse(CameraSettings, merged)
        if changed == found.settings:
            return self.one(camera)
        self._access_control.may_name(changed.password_from, _kept_reference(changed, found.settings))
        self._access_control.may_show(self._source(changed), found.settings.url)
        changed.clips.span(self._site.clips)
        self._check_classes(changed)
        await asyncio.to_thread(
            self._store.settings.put_camera, camera, changed.model_dump(mode="json"), by, enabled=changed.enabled
        )
        before = found.settings
        if _of_worker(changed) == _of_worker(before):
            self._runtime.camera_workers.settle(changed)
        else:
            hides_more = any(mask not in before.masks for mask in changed.masks)
            if hides_more:
                self._masks_changed(camera)
            await self._runtime.camera_workers.remove(camera)
            if hides_more:
                await self._forget_pictures(camera)
            if before.enabled and not changed.enabled:
                self._camera_gone(camera, "the camera was switched off")
                self._note_off(camera, "it was switched off")
            await self._take_in(changed)
            self._live.ask_workers()
        self._note("camera.changed", camera=camera, data={"by": by, "fields": sorted(patch)})
        return self.one(camera)


def _of_worker(settings: CameraSettings) -> CameraSettings:
    """Settings without what only the control process looks at: a change of these needs no other worker."""
    fields = CameraSettings.model_fields
    defaults = {name: fields[name].default for name in ("name", "zones", "lines", "retraining")}
    return settings.model_copy(update=defaults | {"clips": CameraClips(enabled=settings.clips.enabled)})


def _kept_reference(changed: CameraSettings, before: CameraSettings) -> str:
    """The password reference that a camera may keep unchecked: for the same server, not for another."""
    try:
        new, old = urlsplit(changed.url), urlsplit(before.url)
        # Another scheme may send the password over an open line.
        same = changed.url == before.url or (new.scheme, new.netloc) == (old.scheme, old.netloc)
    except ValueError:  # an address that cannot be read: no server that is known
        same = False
    return before.password_from if same else ""

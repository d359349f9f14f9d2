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
from edge.appliance.first_models import FirstModels, ModelChoice
from edge.appliance.live import LivePictures
from edge.core.baseline import Baseline
from edge.core.clock import Clock
from edge.core.errors import Conflict, InvalidValue, MagpieError, StoreError
from edge.core.journal_kinds import JournalNote
from edge.ingest.probe import probe_camera
from edge.ingest.source import CameraSource
from edge.runtime import messages as m
from edge.runtime.camera import score_document
from edge.runtime.golden_worker import TeacherOffer
from edge.runtime.memory_limit import usable_bytes, worker_limit_bytes
from edge.runtime.runtime import Runtime
from edge.settings import CameraClips, CameraSettings, SiteSettings, merge, parse
from edge.store.store import Store


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
        limit_bytes = worker_limit_bytes(site.machine.worker_memory_mb, usable_bytes())
        self.discovery = CameraDiscovery(site, access_control, limit_bytes)
        self._models = FirstModels(site, store, clock, limit_bytes)
        self._data = Path(site.data_dir)
        #: Cameras change one after another: a change starts from what the one before it left.
        self._changing = asyncio.Lock()

    async def _forget(self, camera: str, forgets: Callable[..., None], *given: Any) -> None:
        """Forget a part of the camera's memory; a complaint says where something stays."""
        try:
            await asyncio.to_thread(forgets, *given)
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
            await self._take_in_recorded(camera, await self._models.choose(camera), by)
        return self.one(camera.id)

    async def change(self, camera: str, patch: Mapping[str, Any], by: str) -> CameraAnswer:
        """JSON merge patch. Raises as `add`, and NotFound."""
        async with self._changing:
            return await self._change(camera, patch, by)

    async def remove(self, camera: str, by: str) -> None:
        """Raises NotFound."""
        async with self._changing:
            if camera in self._runtime.cameras:  # else it is known, and could not begin
                await self._runtime.camera_workers.remove(camera)
            await asyncio.to_thread(self._store.settings.delete_camera, camera, by)
            await self._forget(camera, forget, self._store, self._data, camera, True)
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

    async def begin(self, settings: CameraSettings, lost: bool = False) -> None:
        """At the start: give the camera its first model if it has none (or its last is `lost`), and start it, or
        journal that it is switched off. Where its student cannot be had the last one goes on; a camera that has none
        that fits is left out, and the box runs without it. Raises MagpieError for one that never had a model, and in a
        fleet, where another box may answer it."""
        try:
            await self._take_in(settings, await self._models.choose(settings, lost=lost))
        except MagpieError as error:
            kept = None if lost else await self._models.kept(settings)
            known = await asyncio.to_thread(self._store.versions.promoted, settings.id) is not None
            if kept is None and (not known or self._site.fleet is not None):
                raise
            words = "it is left out: correct or remove it" if kept is None else "its last model goes on"
            self._runtime.complaints.add("student_unusable", f"{error}; {words}", settings.id)
            if kept is None:
                return
            await self._take_in(settings, kept)
        self._note_if_off(settings)

    async def _take_in(self, settings: CameraSettings, choice: ModelChoice) -> None:
        version = await self._models.put_in_force(settings.id, choice)
        lineage = await asyncio.to_thread(self._store.versions.lineage, version.id)
        learned = await self._baseline(settings.id), await self._score(settings.id, version.id)
        self._runtime.camera_workers.add(settings, version, lineage[-1], *learned)
        history = await asyncio.to_thread(self._store.settings.get_settings, f"profiler/{settings.id}")
        self._runtime.cameras[settings.id].history = history
        self._runtime.students.siblings.known(
            settings.id, await asyncio.to_thread(self._store.settings.get_settings, f"look/{settings.id}")
        )

    def _note_if_off(self, settings: CameraSettings) -> None:
        if not settings.enabled:
            data = {"fault": None, "message": "it is switched off"}
            self._note("camera.stopped", camera=settings.id, data=data)

    async def _baseline(self, camera: str) -> Baseline | None:
        """The download's record of earlier windows; a document that cannot be read is begun anew."""
        learned = await asyncio.to_thread(self._store.settings.get_settings, f"baseline/{camera}")
        try:
            return None if learned is None else Baseline.from_json(learned)
        except (MagpieError, KeyError, TypeError, ValueError) as error:
            self._runtime.complaints.add("baseline", f"learning of the download begins anew: {error}", camera)
            return None

    async def _score(self, camera: str, version: str) -> float | None:
        """The least score that was chosen for a version; None: there is none of it."""
        kept = await asyncio.to_thread(self._store.settings.get_settings, score_document(camera)) or {}
        score = kept.get("score")
        good = isinstance(score, int | float) and 0.0 <= score <= 1.0 and kept.get("version") == version
        return float(score) if good else None  # type: ignore[arg-type]

    # -- changes

    def _check_classes(self, camera: CameraSettings) -> None:
        """Raises LabelError if the teacher cannot produce one of the camera's classes."""
        self._teacher.check(camera.id, camera.classes, camera.class_map)

    async def _take_in_recorded(self, camera: CameraSettings, choice: ModelChoice, by: str) -> None:
        await self._put(camera, by)
        try:
            await self._take_in(camera, choice)
        except MagpieError:
            with contextlib.suppress(MagpieError):
                await asyncio.to_thread(self._store.settings.delete_camera, camera.id, by)
            raise
        self._note_if_off(camera)
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
        before = found.settings
        if _of_worker(changed) == _of_worker(before):
            await self._put(changed, by)
            self._runtime.camera_workers.settle(changed)
        else:
            await self._change_worker(before, changed, by)
        self._note("camera.changed", camera=camera, data={"by": by, "fields": sorted(patch)})
        return self.one(camera)

    async def _change_worker(self, before: CameraSettings, changed: CameraSettings, by: str) -> None:
        """Another worker. All that may be refused is done before the one that answers is ended; where something fails
        all the same the camera goes on as before. Raises MagpieError."""
        camera = before.id
        kept = await self._models.kept(changed) if _of_student(changed) == _of_student(before) else None
        given = changed.student.weights not in ("", before.student.weights)
        choice = kept or await self._models.choose(changed, anew=given)
        await self._put(changed, by)
        hides_more = any(mask not in before.masks for mask in changed.masks)
        if hides_more:
            self._masks_changed(camera)
        await self._runtime.camera_workers.remove(camera)
        if hides_more:
            await self._forget(camera, forget_pictures, self._data, camera)
        try:
            await self._take_in(changed, choice)
        except MagpieError:
            with contextlib.suppress(MagpieError):
                await self._put(before, by)
                await self._take_in(before, await self._models.choose(before))
            raise
        if before.enabled and not changed.enabled:
            self._camera_gone(camera, "the camera was switched off")
            self._note_if_off(changed)
        self._live.ask_workers()

    async def _put(self, settings: CameraSettings, by: str) -> None:
        await asyncio.to_thread(
            self._store.settings.put_camera, settings.id, settings.model_dump(mode="json"), by, enabled=settings.enabled
        )


def _of_worker(settings: CameraSettings) -> CameraSettings:
    """Settings without what only the control process looks at: a change of these needs no other worker."""
    fields = CameraSettings.model_fields
    defaults = {name: fields[name].default for name in ("name", "zones", "lines", "retraining")}
    looked_at = settings.inference.model_copy(update={"region": "auto"})
    clips = CameraClips(enabled=settings.clips.enabled)
    return settings.model_copy(update=defaults | {"clips": clips, "inference": looked_at})


def _of_student(settings: CameraSettings) -> tuple[object, ...]:
    return (settings.task, settings.student, settings.classes, settings.class_map)


def _kept_reference(changed: CameraSettings, before: CameraSettings) -> str:
    """The password reference that a camera may keep unchecked: for the same server, not for another."""
    try:
        new, old = urlsplit(changed.url), urlsplit(before.url)
        # Another scheme may send the password over an open line.
        same = changed.url == before.url or (new.scheme, new.netloc) == (old.scheme, old.netloc)
    except ValueError:  # an address that cannot be read: no server that is known
        same = False
    return before.password_from if same else ""

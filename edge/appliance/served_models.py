"""Other models that the box serves: their runtime if the site serves any, their settings, and the admission answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge.appliance.access_control import AccessControl, needs_token
from edge.appliance.admission import ServedLoad, admit_camera, admit_model, admit_pipeline, box_now, with_coming
from edge.appliance.answers.read import read
from edge.appliance.answers.serving import AdmissionAnswer, ServedModelAnswer, Serving, serving_answer
from edge.appliance.answers.state import ServedModelNow, ServingNow
from edge.appliance.metrics import front_statistics
from edge.appliance.service import Json
from edge.core.access import Requester
from edge.core.application_sources import ObjectsDescribed
from edge.core.clock import Clock
from edge.core.errors import NotFound
from edge.core.front_messages import RepositoryCommand
from edge.core.journal_kinds import JournalNote
from edge.runtime.camera import assumed_profile
from edge.runtime.process import WorkerMain
from edge.runtime.runtime import Runtime
from edge.runtime.serving_cameras import CamerasNow
from edge.settings import AdmissionRequest, ServingPlanning, SiteSettings, merge, parse
from edge.store.store import Store
from scheduler.capacity.serving import ServedBox
from scheduler.tenant_admission import TenantRoom

if TYPE_CHECKING:
    from edge.runtime.serving import ServingRuntime

_OVERVIEW = tuple(f.name for f in fields(ServedModelNow))


def served_now(model: ServedModelAnswer) -> ServedModelNow:
    """A model for the overview: its reason in words (empty: nothing hinders it)."""
    fields_now = {n: getattr(model, n) for n in _OVERVIEW}
    return ServedModelNow(**{**fields_now, "reason": "" if model.reason is None else model.reason.message})


class ServedModels:
    """Implements `ServedModelsService`. `runtime` is None where the site serves no models. `front` is the main of the
    process that takes clients' requests, `note` journals, `described` gets what applications say of the objects of the
    camera that feeds them."""

    def __init__(
        self,
        site: SiteSettings,
        store: Store,
        clock: Clock,
        cameras: Runtime,
        access_control: AccessControl,
        front: WorkerMain,
        note: JournalNote,
        described: Callable[[ObjectsDescribed], None],
    ) -> None:
        self.runtime: ServingRuntime | None = None
        self._site, self._store, self._clock = site, store, clock
        self._cameras, self._access_control, self._front, self._note = cameras, access_control, front, note
        self._described = described
        self._handing_over: asyncio.Task[None] | None = None
        #: The tenants that share the box; none: one has it all.
        self.rooms: Callable[[], tuple[TenantRoom, ...]] = tuple

    async def open(self) -> None:
        """Serve models, if the site does. Raises MagpieError."""
        settings, cameras = self._site.serving, self._cameras
        if settings is None:
            return
        from edge.runtime.serving import ServingRuntime
        from edge.runtime.serving_sources import SourceCameras

        caps = cameras.shares.partitioner.caps
        # On a GPU the front takes nothing of the device.
        cameras.shares.front = settings.front_share if caps.device == "cpu" else 0.0
        keys = None
        if needs_token(settings, self._site.web.access):
            keys = Path(self._site.data_dir) / "serving" / "keys.json"
            self._handing_over = await self._access_control.hand_over(keys)
        self.runtime = ServingRuntime(
            settings,
            Path(self._site.data_dir),
            cameras.supervisor,
            caps,
            self._clock,
            self._front,
            self.cameras_now,
            cameras.set_serving_share,
            self._note,
            cameras.complaints.add,
            keys,
            self._repository_changed,
            self._site.web,
            SourceCameras(lambda: cameras.cameras, cameras.camera_workers.feeds),
            self._described,
        )
        await self.runtime.open()

    async def close(self) -> None:
        """Stop serving. Safe to call twice."""
        if self._handing_over is not None:
            self._handing_over.cancel()
            await asyncio.gather(self._handing_over, return_exceptions=True)
            self._handing_over = None
        if self.runtime is not None:
            await self.runtime.close()
            self.runtime = None

    def cameras_now(self) -> CamerasNow:
        """The share of the device that cameras have and need."""
        runtime = self._cameras
        controller = runtime.controller
        window = controller.state.problem(self._clock.monotonic()) if controller.state.cameras else None
        shares = runtime.shares
        return CamerasNow(shares.shared_capacity(), window, runtime.window.settings.policy, shares.partitioner.caps)

    # -- service

    def status(self) -> Serving:
        """Raises NotFound."""
        return serving_answer(self._serving().status())

    async def change(self, patch: Mapping[str, Any], by: str) -> Serving:
        """Raises InvalidValues, InvalidValue, NotFound."""
        serving = self._serving()
        changed = merge(serving.planning.model_dump(mode="json"), dict(patch))
        # A merge patch takes a model's settings away with null.
        given = changed.get("models")
        if isinstance(given, Mapping):
            changed["models"] = {k: v for k, v in given.items() if v is not None}
        planning = parse(ServingPlanning, changed)
        serving.change(planning)
        await asyncio.to_thread(self._store.settings.put_settings, "serving", planning.model_dump(mode="json"), by)
        self._note("serving.settings", data={"by": by, "fields": sorted(patch)})
        return serving_answer(serving.status())

    async def admission(self, request: Mapping[str, Any]) -> AdmissionAnswer:
        """Raises InvalidValues, InvalidValue."""
        asked = parse(AdmissionRequest, dict(request))
        cameras, now, served = self._cameras, self.cameras_now(), self._load(asked.tenant)
        planning = asked.planning(served.planning)
        cores = cameras.shares.cores
        served, now = with_coming(asked.coming, lambda c: assumed_profile(c.inference, cores), served, now)
        if asked.model is not None:
            return read(AdmissionAnswer, await asyncio.to_thread(admit_model, asked.model, served, now, planning))
        if asked.pipeline is not None:
            found = await asyncio.to_thread(admit_pipeline, asked.pipeline, served, now, planning)
            return read(AdmissionAnswer, found)
        assert asked.camera is not None
        assumed = assumed_profile(asked.camera.inference, cores)
        found = await asyncio.to_thread(admit_camera, asked.camera, assumed, served, now, planning)
        return read(AdmissionAnswer, found)

    def _load(self, tenant: str | None = None) -> ServedLoad:
        served, serving = ServedLoad(rooms=self.rooms(), tenant=tenant), self.runtime
        if serving is None:
            return served
        return ServedLoad(
            *serving.box(), serving.planning, serving.warm_share, self._cameras.shares.front,
            serving.front_share_per_rate, serving.sources.cameras.now(), served.rooms, served.tenant,
        )  # fmt: skip

    # -- for the rest of the appliance

    def planned_now(self) -> ServedBox | None:
        """The served models, for a forecast; None where there are none."""
        if self.runtime is None:
            return None
        now, load = self.cameras_now(), self._load()
        measured = {m.name: m.latency_ms[-1] for m in self.status().models if m.latency_ms}
        planning = load.planning
        return ServedBox(box_now(load, now), planning.policy, planning.split, now.policy, now.caps, measured)

    def current(self) -> Serving | None:
        """`status`, or None where the site serves none."""
        return None if self.runtime is None else self.status()

    def overview(self) -> ServingNow | None:
        """Small enough to be asked each second; None where the site serves none."""
        status = self.current()
        if status is None:
            return None
        return ServingNow(
            front=status.front,
            share=status.share,
            front_share=self._cameras.shares.front,
            reorganising=status.reorganising,
            models=tuple(served_now(m) for m in status.models),
        )

    def reasons(self) -> list[Json]:
        """The reasons for `/readyz`, in words."""
        found = () if self.runtime is None else self.runtime.reasons()
        return [{"code": r.code, "message": r.words(), "camera": r.camera} for r in found]

    def answering(self) -> tuple[ServedModelAnswer, ...]:
        """Models and applications that are asked and answer."""
        status = self.current()
        return () if status is None else tuple(m for m in status.models if m.state in ("serving", "capped"))

    async def statistics(self, status: Serving | None) -> list[Json] | None:
        """The inference protocol's statistics of each served version; None where none came."""
        if status is None:
            return None
        tls = self._site.serving is not None and self._site.serving.tls
        return await front_statistics(status.front, self._access_control.own_token, tls)

    def _serving(self) -> ServingRuntime:
        if self.runtime is None:
            raise NotFound("this site serves no models", "add a section serving: to its configuration")
        return self.runtime

    def _repository_changed(self, command: RepositoryCommand) -> None:
        by = Requester(command.by, command.address)
        loaded = command.action == "load"
        self._note("serving.loaded" if loaded else "serving.unloaded", data={"model": command.model, "by": command.by})
        self._access_control.record(f"served model/{command.model}", "loaded" if loaded else "unloaded", by)

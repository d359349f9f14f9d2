"""Served models in dictionaries, with the real settings model and admission, for the web tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edge.appliance.admission import ServedLoad, admit_camera, admit_model, admit_pipeline
from edge.appliance.answers.read import read
from edge.appliance.answers.serving import AdmissionAnswer, Serving
from edge.appliance.service import Json
from edge.core.errors import NotFound
from edge.core.serving import DeviceTable
from edge.runtime.camera import assumed_profile
from edge.runtime.serving_cameras import CamerasNow
from edge.settings import AdmissionRequest, ServingPlanning, merge, parse
from scheduler.tenant_admission import TenantRoom
from web.examples.serving import SERVING

if TYPE_CHECKING:
    from appliance_double import DictAppliance

TABLE = DeviceTable("toy", {"plates": {p: (400.0 / p, 500.0 / p, 600.0 / p) for p in range(10, 101, 10)}}, {})


class DictServedModels:
    """Implements `ServedModelsService`."""

    def __init__(self, box: DictAppliance) -> None:
        self.box = box
        self.planning: ServingPlanning | None = ServingPlanning()
        self.statistics: list[Json] | None = None
        #: The overview's part of what is served; None: the page shows a site that serves nothing.
        self.now: Json | None = None
        #: Tenants that share the box, for admission.
        self.rooms: tuple[TenantRoom, ...] = ()
        self._answered: dict[str, AdmissionAnswer] = {}

    def status(self) -> Serving:
        self.box.state.look("serving")
        if self.planning is None:
            raise NotFound("this site serves no models")
        return read(Serving, SERVING | {"settings": self.planning})

    async def change(self, patch: Mapping[str, Any], by: str) -> Serving:
        self.box.state.look("change_serving")
        if self.planning is None:
            raise NotFound("this site serves no models")
        changed = merge(self.planning.model_dump(mode="json"), dict(patch))
        if isinstance(changed.get("models"), Mapping):
            changed["models"] = {k: v for k, v in changed["models"].items() if v is not None}
        self.planning = parse(ServingPlanning, changed)
        return self.status()

    async def admission(self, request: Mapping[str, Any]) -> AdmissionAnswer:
        self.box.state.look("admission")
        in_force = self.planning or ServingPlanning()
        # Planning takes long, and the tests ask the same of several people.
        key = json.dumps([request, in_force.model_dump(mode="json"), str(self.rooms)], sort_keys=True)
        if key not in self._answered:
            self._answered[key] = self._admission(parse(AdmissionRequest, dict(request)), in_force)
        return self._answered[key]

    def _admission(self, asked: AdmissionRequest, in_force: ServingPlanning) -> AdmissionAnswer:
        served = ServedLoad((), TABLE, planning=in_force, rooms=self.rooms, tenant=asked.tenant)
        planning = asked.planning(in_force)
        if asked.model is not None:
            return read(AdmissionAnswer, admit_model(asked.model, served, CamerasNow(0.7), planning))
        if asked.pipeline is not None:
            return read(AdmissionAnswer, admit_pipeline(asked.pipeline, served, CamerasNow(0.7), planning))
        assert asked.camera is not None
        profile = assumed_profile(asked.camera.inference, 2.0)
        return read(AdmissionAnswer, admit_camera(asked.camera, profile, served, CamerasNow(0.7)))

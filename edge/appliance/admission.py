"""The admission answer of a running appliance: the effect of adding a camera or a model, before it is added."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edge.core.admission_reasons import AdmissionReason
from edge.core.application_sources import SOURCE_FAULTS, ApplicationSource
from edge.core.errors import InvalidValue
from edge.core.profiles import InferenceProfile
from edge.core.serving import DeviceTable, ServedModel
from edge.core.tenants import DEFAULT_CAMERAS, DEFAULT_TENANT
from edge.core.window import StreamProblem
from edge.runtime.serving_cameras import CamerasNow
from edge.runtime.serving_tables import merged
from edge.serving.pipeline_files import described_application
from edge.settings import AdmissionCamera, ModelCandidate, PipelineAdmission, ServingPlanning
from scheduler.admission import (
    Admission,
    Box,
    CameraCandidate,
    Candidate,
    PipelineCandidate,
    ServingPlanner,
    admit,
    camera_like,
    window_with,
)
from scheduler.gpulets.pipelines import PipelineDemand, asked_rows
from scheduler.gpulets.policies import serving_policy
from scheduler.gpulets.rates import RateSettings, planned_rate
from scheduler.gpulets.source_rates import SourceState, fault_of
from scheduler.joint.split_policies import split_policy
from scheduler.tenant_admission import TenantRoom, admit_in, rooms_with


@dataclass(frozen=True)
class ServedLoad:
    """The served load: models at the rates that are planned for now, their latencies, the applications that ask them,
    the settings, the share that is kept free to warm new partitions; of the front its share, and the part of the device
    that a request per second costs; and the cameras that may be the sources of applications. `rooms` are the tenants
    that share the box, `tenant` the one that is asked for."""

    models: tuple[ServedModel, ...] = ()
    table: DeviceTable | None = None
    pipelines: tuple[PipelineDemand, ...] = ()
    planning: ServingPlanning = field(default_factory=ServingPlanning)
    warm_share: float = 0.0
    front_share: float = 0.0
    front_share_per_rate: float = 0.0
    cameras: Mapping[str, SourceState] = field(default_factory=dict)
    rooms: tuple[TenantRoom, ...] = ()
    tenant: str | None = None

    def front_more(self, rate: float) -> float:
        """The share that the front takes beyond its own at so many requests per second of all models."""
        return max(0.0, rate * self.front_share_per_rate - self.front_share)


def admit_model(
    asked: ModelCandidate, served: ServedLoad, now: CamerasNow, planning: ServingPlanning | None = None
) -> dict[str, Any]:
    """As REST answers, planned by `planning` (None: the settings in force). Raises InvalidValue for a model of which no
    latencies are known."""
    table = _table(asked.table, served)
    if table is None or asked.name not in table.latency_ms:
        known = ", ".join(sorted(table.latency_ms)) if table is not None else "none"
        raise InvalidValue(
            "model.name", asked.name, f"a model whose latencies are known ({known}); magpie profile measures others"
        )
    rates = RateSettings(headroom=served.planning.headroom)
    candidate = ServedModel(asked.name, planned_rate(asked.rate, rates), asked.slo_ms, asked.priority)
    rate = candidate.rate + sum(m.rate for m in served.models if m.name != candidate.name)
    found = _admit(_box(served, now, table, rate), candidate, served, now, planning)
    return _at_rates(found, asked.rate, candidate.rate)


def admit_pipeline(
    asked: PipelineAdmission, served: ServedLoad, now: CamerasNow, planning: ServingPlanning | None = None
) -> dict[str, Any]:
    """As `admit_model`. Raises InvalidValue and InvalidValues for a description that is none, for a name that is not
    served where no description is given, and for models of which no latencies are known."""
    candidate, rate = _pipeline(asked, served)
    known = [p for p in served.pipelines if p.application.name == asked.name]
    rows = sum(asked_rows([candidate.demand]).values()) - sum(asked_rows(known).values())
    total = sum(m.rate for m in served.models) + rows
    box = _box(served, now, _table(asked.table, served), max(0.0, total))
    return _at_rates(_admit(box, candidate, served, now, planning), rate, candidate.rate)


def _pipeline(asked: PipelineAdmission, served: ServedLoad) -> tuple[PipelineCandidate, float | None]:
    """The application that is asked about, and its rate without head-room; None: as it is planned for now."""
    there = {p.application.name: p for p in served.pipelines}.get(asked.name)
    if asked.description is not None:
        application = described_application(asked.name, asked.description, "pipeline.description")
        rate: float | None = asked.rate or application.rate
    elif there is not None:
        application, rate = replace(there.application, budgets={}), asked.rate
    else:
        names = ", ".join(sorted(p.application.name for p in served.pipelines)) or "none"
        raise InvalidValue("pipeline.name", asked.name, f"an application that is served ({names}), or a description")
    if asked.slo_ms is not None:
        application = replace(application, slo_ms=asked.slo_ms)
    if application.source is not None:
        if asked.rate is not None:
            raise InvalidValue("pipeline.rate", asked.rate, "no rate: a camera is the source, which has its own")
        at = "pipeline.name" if asked.description is None else "pipeline.description"
        rate = _source_rate(f"{at}.source", application.source, served.cameras)
    # Measurements of a stage hold for a description that leaves it as it is, too.
    alike = set() if there is None else {s.name for s in application.stages if s in there.application.stages}
    fan_out = {} if there is None else {stage: rows for stage, rows in there.fan_out.items() if stage in alike}
    if rate is None and there is not None:
        return PipelineCandidate(application, there.rate, fan_out), None
    if not rate:
        raise InvalidValue("pipeline.rate", asked.rate, "a rate above 0: the description has none")
    planned = planned_rate(rate, RateSettings(headroom=served.planning.headroom))
    return PipelineCandidate(application, planned, fan_out), rate


def _source_rate(path: str, source: ApplicationSource, cameras: Mapping[str, SourceState]) -> float:
    """The rate at which a source asks. Raises InvalidValue for a camera that is not there, and for one that gives
    nothing."""
    fault = fault_of(source, cameras)
    if fault == "unknown_camera":
        known = ", ".join(sorted(cameras)) or "there is none"
        raise InvalidValue(f"{path}.camera", source.camera, f"a camera: {known}")
    if fault is not None:
        raise InvalidValue(path, source.camera, f"a camera that feeds it ({SOURCE_FAULTS[fault]})")
    return source.rate(cameras[source.camera].answers_per_s)


def _table(given: dict[str, Any] | None, served: ServedLoad) -> DeviceTable | None:
    """The latencies that are known, with those that were sent along."""
    if given is None:
        return served.table
    return merged(t for t in (served.table, DeviceTable.from_json(given)) if t is not None)


def _at_rates(out: dict[str, Any], rate: float | None, planned: float) -> dict[str, Any]:
    """Rates are planned with head-room; the rates that fit are answered without it, as they are asked. `rate` None:
    none was asked for.
    """
    if out["most_rate"] is not None and planned > 0 and rate is not None:
        out["most_rate"] = round(out["most_rate"] * rate / planned, 3)
    return out | {"rate": None if rate is None else round(rate, 3), "planned_rate": round(planned, 3)}


def admit_camera(
    asked: AdmissionCamera,
    assumed: InferenceProfile,
    served: ServedLoad,
    now: CamerasNow,
    planning: ServingPlanning | None = None,
) -> dict[str, Any]:
    """As `admit_model`. `assumed` is the inference profile of a camera that is not like another. Raises InvalidValue
    for a camera that is there, or that shall be like one that is not. Applications that wait for a camera of this name
    are counted: with the most that it may answer."""
    feeds = _fed_by(asked, assumed, served)
    candidate = replace(_camera(asked, assumed, now), feeds=feeds)
    more = sum(asked_rows([f.demand for f in feeds]).values())
    rate = more + sum(m.rate for m in served.models)
    return _admit(_box(served, now, served.table, rate), candidate, served, now, planning)


def _camera(asked: AdmissionCamera, assumed: InferenceProfile, now: CamerasNow) -> CameraCandidate:
    if asked.like is None and (now.window is None or "inference" in asked.model_fields_set):
        return CameraCandidate(StreamProblem(asked.id, asked.accuracy, assumed, ()))
    if now.window is None:
        raise InvalidValue("camera.like", asked.like, "a camera that is there; there is none")
    return camera_like(now.window, asked.id, asked.like)


def with_coming(
    coming: Sequence[AdmissionCamera],
    assumed: Callable[[AdmissionCamera], InferenceProfile],
    served: ServedLoad,
    now: CamerasNow,
) -> tuple[ServedLoad, CamerasNow]:
    """The box with cameras that are on their way to it, as cameras that are there; those that are there already count
    once. They belong to the tenant that is asked for, else to the cameras' default tenant. Raises InvalidValue for one
    that shall be like a camera that is not there."""
    there = set() if now.window is None else {s.id for s in now.window.streams}
    for camera in coming:
        if camera.id not in there:
            there.add(camera.id)
            window = window_with(now.window, _camera(camera, assumed(camera), now), now.capacity)
            now = replace(now, window=window)
    owner, ids = served.tenant or DEFAULT_CAMERAS, {c.id for c in coming}
    taken = {m for r in served.rooms for m in r.members}
    rooms = tuple(
        replace(r, members=r.members | (ids - taken)) if r.id == owner and not r.serves else r for r in served.rooms
    )
    return replace(served, rooms=rooms), now


def _fed_by(asked: AdmissionCamera, assumed: InferenceProfile, served: ServedLoad) -> tuple[PipelineCandidate, ...]:
    """The applications that wait for this camera, at the rate that it may bring."""
    like = None if asked.like is None else served.cameras.get(asked.like)
    most = like.answers_per_s if like is not None else max(p.config.frame_rate for p in assumed.points)
    rates = RateSettings(headroom=served.planning.headroom)
    return tuple(
        PipelineCandidate(replace(a, budgets={}, unfed=None), planned_rate(source.rate(most), rates), p.fan_out)
        for p in served.pipelines
        if (source := (a := p.application).source) is not None and source.camera == asked.id
    )


def _box(served: ServedLoad, now: CamerasNow, table: DeviceTable | None, rate: float) -> Box:
    held = (served.warm_share if served.models else 0.0) + served.front_more(rate)
    capacity = max(1e-6, now.capacity - held)
    priority = served.planning.cameras_priority
    return Box(capacity, served.models, table, now.window, priority, pipelines=served.pipelines)


def box_now(served: ServedLoad, now: CamerasNow) -> Box:
    """The box as it is planned now, without a candidate."""
    return _box(served, now, served.table, sum(m.rate for m in served.models))


def _planner(planning: ServingPlanning) -> ServingPlanner:
    return ServingPlanner(serving_policy(planning.policy), split_policy(planning.split))


def _admit(
    box: Box, candidate: Candidate, served: ServedLoad, now: CamerasNow, planning: ServingPlanning | None
) -> dict[str, Any]:
    """The answer with the key `tenants`: None where the box has one tenant."""
    serving, instead = _planner(served.planning), _planner(planning or served.planning)
    serves = not isinstance(candidate, CameraCandidate)
    rooms = tuple(r for r in served.rooms if r.serves == serves)
    if served.tenant is not None and not any(r.id == served.tenant for r in rooms):
        of_kind = f"a tenant of {'served models' if serves else 'cameras'}"
        names = ", ".join(r.id for r in rooms) or "none: there is no other"
        raise InvalidValue("tenant", served.tenant, f"{of_kind} ({names})")
    owner = next((r.id for r in rooms if _name(candidate) in r.members), DEFAULT_TENANT if serves else DEFAULT_CAMERAS)
    wanted = served.tenant or owner
    every = rooms_with(served.rooms, wanted) if served.rooms else ()
    if len(every) < 2:
        found = admit(box, candidate, serving, now.followed(), instead)
        return _bounded(found, served.planning, 0.0).to_json() | {"tenants": None}
    within = admit_in(every, wanted, box, candidate, serving, now.followed(), instead)
    lost = {loss.tenant: loss.loses for loss in within.losses}
    others = sum(r.held - lost.get(r.id, 0.0) for r in every if r.serves and r.id != wanted)
    bounded = _bounded(within.found, served.planning, others)
    return bounded.to_json() | {"tenants": within.after(bounded).to_json()}


def _name(candidate: Candidate) -> str:
    if isinstance(candidate, CameraCandidate):
        return candidate.stream.id
    return candidate.application.name if isinstance(candidate, PipelineCandidate) else candidate.name


def _bounded(found: Admission, planning: ServingPlanning, others: float) -> Admission:
    """Within the operator's bound of all models together: those of the plan, and those that other tenants have
    `others` for. One that brings models no more is not refused."""
    share = found.serving_share_after + others
    more = found.serving_share_after > found.serving_share_before + 1e-6
    if not found.admitted or not more or share <= planning.max_share + 1e-6:
        return found
    reason = AdmissionReason("max_share", numbers={"share": share, "allowed": planning.max_share})
    return replace(found, admitted=False, reasons=(reason,), yields=())

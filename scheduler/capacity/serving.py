"""The effect of a change on served models: their latency, and the share that they leave to cameras."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from edge.core.capacity import BoxChange, ModelForecast
from edge.core.capacity_notes import CapacityNote
from edge.core.profiles import Estimate
from edge.core.serving import DeviceTable
from edge.core.shares import ShareCaps
from scheduler.admission import Box, BoxPlanned, ServingPlanner, camera_like, planned
from scheduler.follow import followed_policy
from scheduler.gpulets.policies import serving_policy
from scheduler.joint.split_policies import split_policy

_LEAST = 1e-6


@dataclass(frozen=True)
class ServedBox:
    """The box with its served models as it is planned now. `measured_ms`: 99th percentile of recent answers by
    model."""

    box: Box
    policy: str
    split: str
    cameras_policy: str
    caps: ShareCaps
    measured_ms: Mapping[str, float] = field(default_factory=dict)

    def planned(self, box: Box) -> BoxPlanned:
        """`box`, this one or a changed one, by this one's policies."""
        planner = ServingPlanner(serving_policy(self.policy), split_policy(self.split))
        return planned(box, planner, followed_policy(self.cameras_policy, self.caps))


@dataclass(frozen=True)
class ServedEffect:
    """Devices that models take with the change, and each model's forecast."""

    share_then: float
    models: tuple[ModelForecast, ...]
    notes: tuple[CapacityNote, ...] = ()


def served_effect(
    served: ServedBox, now: BoxPlanned, change: BoxChange, more: float, stay: Collection[str], like: str | None
) -> ServedEffect:
    """`now`: the box as it is planned. `more` devices are there for models and cameras together (less: negative).
    Cameras in `stay` are still on this box; `like` stands in for a new one."""
    box = served.box
    window = box.window
    if window is not None:
        streams = tuple(s for s in window.streams if s.id in stay)
        if change.kind == "camera" and like in {s.id for s in streams}:
            new = camera_like(window, f"{like} (another)", like).stream
            streams = (*streams, new)
        window = replace(window, streams=streams) if streams else None
    # A model runs on one device, also where cameras have more.
    then = served.planned(replace(box, capacity=min(1.0, max(_LEAST, box.capacity + more)), window=window))
    known = {} if box.table is None else box.table.latency_ms
    models = tuple(_model(served, m.name, m.slo_ms, now, then) for m in box.models if m.name in known)
    notes = tuple(CapacityNote("no_latencies", model=m.name) for m in box.models if m.name not in known)
    return ServedEffect(then.serving_share, models, notes)


def _model(served: ServedBox, model: str, slo_ms: float, now: BoxPlanned, then: BoxPlanned) -> ModelForecast:
    """The measured latency moves with the planned worst case, which is the interval's end; no answer is sooner than one
    alone on the fastest share, which is its beginning."""
    assert served.box.table is not None
    worst_now, worst_then = now.worst_ms.get(model), then.worst_ms.get(model)
    measured = served.measured_ms.get(model)
    found: Estimate | None = None
    if worst_then is not None:
        ratio = 1.0 if measured is None or not worst_now else measured / worst_now
        value, soonest = worst_then * ratio, _soonest_ms(served.box.table, model)
        found = Estimate(value, min(value, soonest), max(value, worst_then))
    seen = measured if measured is not None else worst_now
    return ModelForecast(model, slo_ms, seen, found, now.parts.get(model, 0.0), then.parts.get(model, 0.0))


def _soonest_ms(table: DeviceTable, model: str) -> float:
    return min(row[0] for row in table.latency_ms[model].values())

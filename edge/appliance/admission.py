"""The admission answer of a running appliance: what adding a camera or a model would do, before it is added."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from edge.core.errors import InvalidValue
from edge.core.profiles import InferenceProfile
from edge.core.serving import DeviceTable, ServedModel
from edge.core.window import StreamProblem
from edge.runtime.serving_cameras import CamerasNow
from edge.runtime.serving_tables import merged
from edge.settings import AdmissionCamera, ModelCandidate, ServingPlanning
from scheduler.admission import Admission, Box, CameraCandidate, admit, camera_like
from scheduler.gpulets.policies import serving_policy
from scheduler.gpulets.rates import RateSettings, planned_rate


@dataclass(frozen=True)
class ServedLoad:
    """The served load: models at the rates that are planned for now, their latencies, the settings, the share that is
    kept free to warm new partitions; and of the front its share, and what a request per second costs of the device."""

    models: tuple[ServedModel, ...] = ()
    table: DeviceTable | None = None
    planning: ServingPlanning = field(default_factory=ServingPlanning)
    warm_share: float = 0.0
    front_share: float = 0.0
    front_share_per_rate: float = 0.0

    def front_more(self, rate: float) -> float:
        """The share that the front takes beyond its own at so many requests per second of all models."""
        return max(0.0, rate * self.front_share_per_rate - self.front_share)


def admit_model(asked: ModelCandidate, served: ServedLoad, now: CamerasNow) -> dict[str, Any]:
    """As REST answers. Raises InvalidValue for a model of which no latencies are known."""
    table = served.table
    if asked.table is not None:
        table = merged(t for t in (table, DeviceTable.from_json(asked.table)) if t is not None)
    if table is None or asked.name not in table.latency_ms:
        known = ", ".join(sorted(table.latency_ms)) if table is not None else "none"
        raise InvalidValue(
            "model.name", asked.name, f"a model whose latencies are known ({known}); magpie profile measures others"
        )
    rates = RateSettings(headroom=served.planning.headroom)
    candidate = ServedModel(asked.name, planned_rate(asked.rate, rates), asked.slo_ms, asked.priority)
    rate = candidate.rate + sum(m.rate for m in served.models if m.name != candidate.name)
    found = _admit(_box(served, now, table, rate), candidate, served, now)
    out = found.to_json()
    # Rates are planned with head-room; what fits is told as it is asked.
    if found.most_rate is not None and candidate.rate > 0:
        out["most_rate"] = round(found.most_rate * asked.rate / candidate.rate, 3)
    return out | {"rate": asked.rate, "planned_rate": round(candidate.rate, 3)}


def admit_camera(
    asked: AdmissionCamera, assumed: InferenceProfile, served: ServedLoad, now: CamerasNow
) -> dict[str, Any]:
    """As REST answers. `assumed` is the inference profile of a camera that is not like another. Raises InvalidValue
    for a camera that is there, or that shall be like one that is not."""
    if asked.like is not None or (now.window is not None and "inference" not in asked.model_fields_set):
        if now.window is None:
            raise InvalidValue("camera.like", asked.like, "a camera that is there; there is none")
        candidate = camera_like(now.window, asked.id, asked.like)
    else:
        candidate = CameraCandidate(StreamProblem(asked.id, asked.accuracy, assumed, ()))
    rate = sum(m.rate for m in served.models)
    return _admit(_box(served, now, served.table, rate), candidate, served, now).to_json()


def _box(served: ServedLoad, now: CamerasNow, table: DeviceTable | None, rate: float) -> Box:
    held = (served.warm_share if served.models else 0.0) + served.front_more(rate)
    capacity = max(1e-6, now.capacity - held)
    return Box(capacity, served.models, table, now.window, served.planning.cameras_priority)


def _admit(box: Box, candidate: ServedModel | CameraCandidate, served: ServedLoad, now: CamerasNow) -> Admission:
    found = admit(box, candidate, serving_policy(served.planning.policy), now.followed())
    if found.serving_share_after <= served.planning.max_share + 1e-6 or not found.admitted:
        return found
    words = (
        f"models would take {found.serving_share_after:.2f} of the device, "
        f"serving.planning.max_share allows {served.planning.max_share:g}"
    )
    return replace(found, admitted=False, reasons=(words,))

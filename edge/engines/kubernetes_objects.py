"""Values read from the objects of an API server: nodes, pods, and what is free between them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from edge.core.engine import EngineBox
from edge.core.fleet import TaskAt
from edge.engines import kubernetes_names as names
from edge.engines.kubernetes_amounts import NATIVE, amount_of, free_amount, native_amount, parse_quantity

PodPhase = Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]
_PHASES: Final[tuple[PodPhase, ...]] = ("Pending", "Running", "Succeeded", "Failed", "Unknown")
_FLEET_NAMES: Final = {resource: name for name, resource in NATIVE.items()}


@dataclass(frozen=True)
class NodeSeen:
    """A node: whether its kubelet reports that it is ready, whether new pods may come, its labels, and quantities by
    resource: those that it has, and those that pods may have of them."""

    name: str
    ready: bool
    cordoned: bool
    labels: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, str] = field(default_factory=dict)
    capacity: Mapping[str, str] = field(default_factory=dict)

    def counts(self) -> dict[str, str]:
        """The extended resources of the fleet on it."""
        return {resource: count for resource, count in self.capacity.items() if names.is_ours(resource)}


@dataclass(frozen=True)
class PodSeen:
    """A pod: `task` None where another program made it; `life` the opening of the engine that made it. `began`: its
    program runs or ran. `message`: its last words (JSON of `kubernetes_work`); `ran_s` between its container's start
    and end; `exit_code`. `waits`: why it does not run yet, for people. `asked`: its requests."""

    name: str
    phase: PodPhase
    task: TaskAt | None = None
    life: str = ""
    node: str | None = None
    began: bool = False
    exit_code: int | None = None
    message: str = ""
    reason: str = ""
    ran_s: float = 0.0
    waits: str = ""
    leaving: bool = False
    asked: Mapping[str, str] = field(default_factory=dict)
    whole_names: Mapping[str, str] = field(default_factory=dict)


def node_seen(obj: Mapping[str, Any]) -> NodeSeen:
    """A node of the API server."""
    metadata, spec, status = obj.get("metadata") or {}, obj.get("spec") or {}, obj.get("status") or {}
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ())
    return NodeSeen(
        name=metadata["name"],
        ready=ready,
        cordoned=bool(spec.get("unschedulable")),
        labels=dict(metadata.get("labels") or {}),
        allocatable=dict(status.get("allocatable") or {}),
        capacity=dict(status.get("capacity") or {}),
    )


def pod_seen(obj: Mapping[str, Any]) -> PodSeen:
    """A pod of the API server."""
    metadata, spec, status = obj.get("metadata") or {}, obj.get("spec") or {}, obj.get("status") or {}
    containers = status.get("containerStatuses") or [{}]
    state = containers[0].get("state") or {}
    ended = state.get("terminated") or {}
    task = names.task_of(metadata)
    return PodSeen(
        name=metadata["name"],
        phase=next((p for p in _PHASES if p == status.get("phase")), "Pending"),
        task=task,
        life=(metadata.get("labels") or {}).get(names.LIFE_LABEL, ""),
        node=spec.get("nodeName") or (task.box if task is not None else None),
        began="running" in state or bool(ended.get("startedAt")),
        exit_code=ended.get("exitCode"),
        message=ended.get("message") or "",
        reason=status.get("reason") or ended.get("reason") or "",
        ran_s=_between(ended.get("startedAt"), ended.get("finishedAt")),
        waits=_waits(status, state),
        leaving=bool(metadata.get("deletionTimestamp")),
        asked=_asked(spec),
        whole_names=_whole_names(metadata),
    )


def node_boxes(
    nodes: Iterable[NodeSeen], pods: Iterable[PodSeen], known: Mapping[str, str] | None = None
) -> tuple[EngineBox, ...]:
    """The boxes that are there, by name, with amounts that pods may have and that are free. `known`: whole names of
    hashed resources, beside those that pods carry."""
    asked: dict[tuple[str, str], Any] = {}
    whole = dict(known or {})
    for pod in pods:
        whole |= pod.whole_names
        if pod.node is not None and pod.phase not in ("Succeeded", "Failed"):
            for resource, quantity in pod.asked.items():
                key = (pod.node, resource)
                asked[key] = asked.get(key, 0) + parse_quantity(quantity)
    boxes = []
    for node in sorted((n for n in nodes if n.ready), key=lambda n: n.name):
        total, free = {}, {}
        for resource, quantity in node.allocatable.items():
            used = asked.get((node.name, resource), 0)
            if resource in _FLEET_NAMES:
                name = _FLEET_NAMES[resource]
                total[name] = native_amount(name, quantity)
                free[name] = max(0.0, native_amount(name, str(parse_quantity(quantity) - used)))
            elif (ours := names.name_of(resource, whole)) is not None:
                total[ours], free[ours] = amount_of(quantity), free_amount(quantity, int(used))
        boxes.append(EngineBox(node.name, total, free))
    return tuple(boxes)


def physical_amounts(node: NodeSeen) -> dict[str, float]:
    """A node's own amounts by the fleet's names."""
    rows = node.allocatable.items()
    return {_FLEET_NAMES[r]: native_amount(_FLEET_NAMES[r], q) for r, q in rows if r in _FLEET_NAMES}


def _asked(spec: Mapping[str, Any]) -> dict[str, str]:
    """Requests of all its containers; a limit alone counts as a request, as Kubernetes defaults it."""
    total: dict[str, Any] = {}
    for container in spec.get("containers") or ():
        resources = container.get("resources") or {}
        for resource, quantity in ((resources.get("limits") or {}) | (resources.get("requests") or {})).items():
            total[resource] = total.get(resource, 0) + parse_quantity(str(quantity))
    return {resource: str(amount) for resource, amount in total.items()}


def _whole_names(metadata: Mapping[str, Any]) -> dict[str, str]:
    try:
        found = json.loads((metadata.get("annotations") or {}).get(names.NAMES_ANNOTATION, "{}"))
    except ValueError:
        return {}
    rows = found.items() if isinstance(found, dict) else ()
    return {k: v for k, v in rows if isinstance(v, str) and _is_name_of(k, v)}


def _is_name_of(resource: str, name: str) -> bool:
    try:
        return names.resource_of(name) == resource
    except ValueError:
        return False


def _waits(status: Mapping[str, Any], state: Mapping[str, Any]) -> str:
    """Why a pod does not run: its container's reason (an image that cannot be pulled), else the scheduler's."""
    if status.get("phase", "Pending") != "Pending":
        return ""
    waiting = state.get("waiting") or {}
    if waiting.get("reason") not in (None, "ContainerCreating", "PodInitializing"):
        return _sentence(waiting)
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return _sentence(condition)
    return _sentence(waiting)


def _sentence(status: Mapping[str, Any]) -> str:
    return ": ".join(str(status[key]) for key in ("reason", "message") if status.get(key))


def _between(start: str | None, end: str | None) -> float:
    if not start or not end:
        return 0.0
    try:
        return max(0.0, (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds())
    except ValueError:
        return 0.0

"""Pods for tasks: values, and the objects that Kubernetes is sent for them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from edge.core import checks
from edge.core.engine import EngineMode, EngineTask, EngineWork
from edge.core.errors import InvalidValue
from edge.core.fleet import BOX_LABEL, SpatialRule, TaskAt
from edge.engines import job_folders
from edge.engines import kubernetes_names as names
from edge.engines.kubernetes_amounts import NATIVE, demand_count, native_quantity

HOSTNAME: Final = "kubernetes.io/hostname"
QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
POD_GROUP_LABEL: Final = "kueue.x-k8s.io/pod-group-name"
POD_GROUP_ANNOTATION: Final = "kueue.x-k8s.io/pod-group-total-count"
WORK_VARIABLE: Final = "MAGPIE_WORK"
#: An argument list and its environment have 128 KiB for one variable on Linux.
MOST_WORK_BYTES: Final = 100_000
CONTAINER: Final = "work"
_USER: Final = 10001


@dataclass(frozen=True)
class PodOwner:
    """The pod of the head: pods that it started go when it goes."""

    name: str
    uid: str


@dataclass(frozen=True)
class PodAffinity:
    """Pods with these `labels`, and the label of nodes whose value shall be the same (or another)."""

    labels: Mapping[str, str]
    topology: str = HOSTNAME


@dataclass(frozen=True)
class KueuePlace:
    """A queue of Kueue, and for a gang its group and the number of its pods."""

    queue: str
    group: str | None = None
    count: int = 1


@dataclass(frozen=True)
class WorkPod:
    """A pod that does one task's work. `requests` and `limits` are quantities by resource of Kubernetes; `node` binds
    it to a box, `zone` to nodes with one of the values of each label; `near` and `apart` are other pods; `gates` hold
    it back. `folders`: of its node, by name, each at the same path in the pod. `tolerates`: the taint of the fleet's
    own nodes. `strict`: nothing more than the work needs."""

    name: str
    job: str
    image: str
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    node: str | None = None
    zone: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    near: tuple[PodAffinity, ...] = ()
    apart: tuple[PodAffinity, ...] = ()
    gates: tuple[str, ...] = ()
    folders: Mapping[str, str] = field(default_factory=dict)
    tolerates: bool = False
    strict: bool = False
    owner: PodOwner | None = None
    ttl_s: int | None = None
    kueue: KueuePlace | None = None


@dataclass(frozen=True)
class PodSettings:
    """How pods are made. `ttl_s`: the kubelet ends a pod that still runs after so long. `limited`: physical
    amounts are limits too (a pod cannot use more than it asked for), else requests only. `folders`: those of nodes that
    programs may use, by name (job_folders)."""

    image: str
    command: tuple[str, ...] = ("/opt/magpie/bin/python", "-m", "edge.engines.kubernetes_work")
    ttl_s: int = 86_400
    limited: bool = True
    queue: str | None = None
    folders: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checks.not_empty("image", self.image)
        checks.plain_text("image", self.image)
        checks.not_empty("command", self.command)
        checks.in_range("ttl_s", self.ttl_s, 60, 30 * 86_400)
        if self.queue is not None:
            names.check_label_value("queue", self.queue)


@dataclass(frozen=True)
class Opening:
    """One opening of the engine: the fleet's name, the identity of this life, the head's pod where it has one, and
    whether Kueue is there."""

    fleet: str
    life: str
    mode: EngineMode
    owner: PodOwner | None = None
    kueue: bool = False


def pod_for(
    task: EngineTask,
    opening: Opening,
    settings: PodSettings,
    *,
    rule: SpatialRule | None = None,
    companions: frozenset[str] = frozenset(),
    gang: tuple[TaskAt, ...] = (),
) -> WorkPod:
    """The pod of a task. `rule`: its job's rule about boxes; `companions`: jobs that run on its box now; `gang`: all
    tasks that begin together. Raises InvalidValue for work that is too large, for amounts that cannot be counted."""
    requests, limits = resources_for(task.demand, opening.mode, limited=settings.limited)
    queue = settings.queue if opening.kueue else None
    gated = len(gang) > 1 and queue is None
    rule = rule or SpatialRule()
    folders = job_folders.folders_for(task.work, settings.folders)
    whole_names = names.hashed_names(task.demand) if opening.mode == "dynamic" else {}
    return WorkPod(
        name=names.pod_name(task.at),
        job=names.label_value(task.at.job),
        image=settings.image,
        requests=requests,
        limits=limits,
        labels={
            names.TASK_LABEL: str(task.at.task),
            names.EPOCH_LABEL: str(task.at.epoch),
            names.FLEET_LABEL: opening.fleet,
            names.LIFE_LABEL: opening.life,
            **({names.GROUP_LABEL: names.label_value(rule.avoid.group)} if rule.avoid else {}),
        },
        annotations={
            names.TASK_ANNOTATION: names.task_annotation(task.at),
            **({names.NAMES_ANNOTATION: json.dumps(whole_names, sort_keys=True)} if whole_names else {}),
        },
        command=settings.command,
        environment={WORK_VARIABLE: work_text(task.work), **_folder_variables(folders)},
        node=None if gated else task.at.box,
        near=tuple(PodAffinity({names.JOB_LABEL: names.label_value(j)}) for j in rule.near if j in companions),
        apart=() if rule.avoid is None else (_apart(rule.avoid.group, rule.avoid.per),),
        zone=zone_labels(rule),
        gates=(names.GANG_GATE,) if gated else (),
        folders=folders,
        tolerates=True,
        strict=True,
        owner=opening.owner,
        ttl_s=settings.ttl_s,
        kueue=None if queue is None else _kueue_place(queue, gang),
    )


def resources_for(
    demand: Mapping[str, float], mode: EngineMode, *, limited: bool
) -> tuple[dict[str, str], dict[str, str]]:
    """(requests, limits) of a demand. A node's own resources always count; the fleet's names in dynamic mode only, and
    then requests equal limits, as extended resources must. Raises InvalidValue, which names the field."""
    requests: dict[str, str] = {}
    extended: dict[str, str] = {}
    for name, amount in sorted(demand.items()):
        if name in NATIVE:
            if amount > 0.0:
                requests[NATIVE[name]] = native_quantity(name, amount)
        elif mode == "dynamic" and (count := demand_count(f"demand.{name}", amount)) > 0:
            extended[names.resource_of(name)] = str(count)
    # A device is an extended resource of another vendor: Kubernetes wants it in the limits.
    devices = {resource: count for resource, count in requests.items() if "/" in resource}
    return {**requests, **extended}, {**(requests if limited else devices), **extended}


def zone_labels(rule: SpatialRule) -> dict[str, tuple[str, ...]]:
    """Labels of nodes that a rule's zone asks for; the box itself is its host name. Labels of the fleet that are no
    labels of Kubernetes by name are left to the fleet's own matcher."""
    return {HOSTNAME if label == BOX_LABEL else f"{names.DOMAIN}/{label}": v for label, v in rule.zone.items()}


def work_text(given: EngineWork) -> str:
    """The work as JSON for the pod's environment. Raises InvalidValue for arguments that are no JSON or too large."""
    try:
        work = {"program": given.program, "arguments": dict(given.arguments)}
        text = json.dumps(work, allow_nan=False, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise InvalidValue("work.arguments", type(given.arguments).__name__, f"JSON ({error})") from None
    if len(text.encode()) > MOST_WORK_BYTES:
        raise InvalidValue("work.arguments", f"{len(text.encode())} bytes", f"at most {MOST_WORK_BYTES} bytes of JSON")
    return text


def node_affinity(node: str | None, zone: Mapping[str, tuple[str, ...]] | None = None) -> dict[str, Any] | None:
    """The node affinity that binds a pod to a node by its name, or to nodes with labels. None: to none."""
    term: dict[str, Any] = {}
    if node is not None:
        term["matchFields"] = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    if zone:
        term["matchExpressions"] = [{"key": k, "operator": "In", "values": list(v)} for k, v in sorted(zone.items())]
    return {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}} if term else None


def pod_body(pod: WorkPod) -> dict[str, Any]:
    """The object that is sent for a pod."""
    return {"apiVersion": "v1", "kind": "Pod", "metadata": _metadata(pod), "spec": _spec(pod)}


def _metadata(pod: WorkPod) -> dict[str, Any]:
    labels = {names.APP_LABEL: names.APP, names.JOB_LABEL: pod.job, **pod.labels}
    annotations = dict(pod.annotations)
    if pod.kueue is not None:
        labels[QUEUE_LABEL] = pod.kueue.queue
        if pod.kueue.group is not None:
            labels[POD_GROUP_LABEL] = pod.kueue.group
            annotations[POD_GROUP_ANNOTATION] = str(pod.kueue.count)
    metadata: dict[str, Any] = {"name": pod.name, "labels": labels}
    if annotations:
        metadata["annotations"] = annotations
    if pod.owner is not None:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.owner.name, "uid": pod.owner.uid}
        metadata["ownerReferences"] = [owner]
    return metadata


def _spec(pod: WorkPod) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [_container(pod)], "restartPolicy": "Never"}
    if affinity := _affinity(pod):
        spec["affinity"] = affinity
    if pod.gates:
        spec["schedulingGates"] = [{"name": gate} for gate in pod.gates]
    if pod.tolerates:
        spec["tolerations"] = [{"key": names.FLEET_LABEL, "operator": "Exists"}]
    if pod.ttl_s is not None:
        spec["activeDeadlineSeconds"] = pod.ttl_s
    if pod.strict:
        spec |= {
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": _USER,
                "runAsGroup": _USER,
                "fsGroup": _USER,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "volumes": [{"name": "scratch", "emptyDir": {}}],
        }
    if pod.folders:
        spec["volumes"] = [*spec.get("volumes", ()), *_folder_volumes(pod.folders)]
    return spec


def _container(pod: WorkPod) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": CONTAINER,
        "image": pod.image,
        "resources": {"requests": dict(pod.requests), "limits": dict(pod.limits)},
    }
    if pod.command:
        container["command"] = list(pod.command)
    if pod.environment:
        container["env"] = [{"name": name, "value": value} for name, value in sorted(pod.environment.items())]
    if pod.strict:
        container |= {
            "terminationMessagePolicy": "File",
            "securityContext": {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": True,
            },
            "volumeMounts": [{"name": "scratch", "mountPath": "/tmp"}],
        }
    if pod.folders:
        mounts = [{"name": f"folder-{n}", "mountPath": path} for n, path in enumerate(pod.folders.values())]
        container["volumeMounts"] = [*container.get("volumeMounts", ()), *mounts]
    return container


def _folder_volumes(folders: Mapping[str, str]) -> list[dict[str, Any]]:
    """Folders of the node; a node that does not have one does not run the pod."""
    return [
        {"name": f"folder-{n}", "hostPath": {"path": path, "type": "Directory"}}
        for n, path in enumerate(folders.values())
    ]


def _folder_variables(folders: Mapping[str, str]) -> dict[str, str]:
    models = {"MAGPIE_MODELS": folders[job_folders.MODELS]} if job_folders.MODELS in folders else {}
    return {job_folders.VARIABLE: job_folders.folders_text(folders), **models} if folders else {}


def _affinity(pod: WorkPod) -> dict[str, Any]:
    affinity: dict[str, Any] = {}
    if (bound := node_affinity(pod.node, pod.zone)) is not None:
        affinity["nodeAffinity"] = bound
    for kind, others in (("podAffinity", pod.near), ("podAntiAffinity", pod.apart)):
        if others:
            terms = [{"labelSelector": {"matchLabels": dict(o.labels)}, "topologyKey": o.topology} for o in others]
            affinity[kind] = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return affinity


def _apart(group: str, per: str) -> PodAffinity:
    topology = HOSTNAME if per == BOX_LABEL else f"{names.DOMAIN}/{per}"
    return PodAffinity({names.GROUP_LABEL: names.label_value(group)}, topology)


def _kueue_place(queue: str, gang: tuple[TaskAt, ...]) -> KueuePlace:
    if len(gang) < 2:
        return KueuePlace(queue)
    return KueuePlace(queue, names.gang_name(gang), len(gang))

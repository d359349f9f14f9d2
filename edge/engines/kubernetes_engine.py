"""The engine `kubernetes`: each task is a pod on the node that its box is.

`pinned`: the fleet's matcher keeps the amounts of its names, and a pod is bound to its node by a required node
affinity. `dynamic`: these names are also extended resources of the nodes, and pods ask Kubernetes for them; that needs
a right on `nodes/status`. A gang's pods are made behind a gate, which goes when all of them are there.
"""

from __future__ import annotations

import logging
import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from edge.core import checks
from edge.core import engine as port
from edge.core.errors import Conflict, InvalidValue, MagpieError, Unavailable
from edge.core.fleet import SpatialRule, TaskAt
from edge.engines import kubernetes_life as lives
from edge.engines import kubernetes_names as names
from edge.engines.amounts import BoxAmounts
from edge.engines.kubernetes_amounts import NATIVE
from edge.engines.kubernetes_api import (
    KUEUE_VERSIONS,
    ApiAccount,
    ApiPatience,
    ApiRefusal,
    KubernetesApi,
    client_for,
)
from edge.engines.kubernetes_drain import drain_node
from edge.engines.kubernetes_feed import KubernetesFeed, NodeChanged, NodesListed, PodChanged, PodsListed, Sight
from edge.engines.kubernetes_nodes import NodeResources
from edge.engines.kubernetes_objects import NodeSeen, PodSeen, node_boxes, node_seen, physical_amounts, pod_seen
from edge.engines.kubernetes_patches import ungate
from edge.engines.kubernetes_pods import Opening, PodOwner, PodSettings, WorkPod, node_affinity, pod_body, pod_for
from edge.engines.programs import check_program

log = logging.getLogger(__name__)

_TIDY_AGAIN_S: Final = 5.0
#: Tasks that wait too long are looked for so often, in s.
_LOOK_S: Final = 1.0
_EXISTS: Final = 409


@dataclass(frozen=True)
class KubernetesSettings:
    """The fleet's nodes have the label `magpie.example/fleet: FLEET`; pods live in `namespace`. `pending_s`: a task
    whose pod has not begun after so long counts as lost, with the reason. `grace_s`: so long a running program has to
    stop. `watch_s`: one watch's length."""

    fleet: str
    pods: PodSettings
    namespace: str = "magpie"
    mode: port.EngineMode = "pinned"
    account: ApiAccount = field(default_factory=ApiAccount)
    patience: ApiPatience = field(default_factory=ApiPatience)
    pending_s: float = 300.0
    grace_s: int = 5
    watch_s: int = 300

    def __post_init__(self) -> None:
        names.check_label_value("fleet", self.fleet)
        names.check_label_value("namespace", self.namespace)
        checks.one_of("mode", self.mode, port.ENGINE_MODES)
        checks.in_range("pending_s", self.pending_s, 1.0, 86_400.0)
        checks.in_range("grace_s", self.grace_s, 1, 3600)
        checks.in_range("watch_s", self.watch_s, 1, 3600)

    @property
    def selector(self) -> str:
        """The label of the fleet's nodes."""
        return f"{names.FLEET_LABEL}={self.fleet}"


@dataclass(frozen=True)
class TaskWaiting:
    """A task whose pod has not begun since `since_s`, and why, for people."""

    task: TaskAt
    since_s: float
    why: str


def no_rule(job: str) -> SpatialRule | None:
    """Nothing is known of a job's rule: the fleet's own matcher keeps it alone."""
    return None


def open_kubernetes(
    settings: KubernetesSettings,
    *,
    clock: Callable[[], float] = time.monotonic,
    rule_of: Callable[[str], SpatialRule | None] = no_rule,
    api: KubernetesApi | None = None,
) -> KubernetesEngine:
    """Open the engine: ask for rights, end what an earlier opening left, begin to look. `rule_of` gives a job's rule
    about boxes, which the pods then carry for Kubernetes, too. Raises Unavailable."""
    if api is None:
        api = KubernetesApi(client_for(settings.account), settings.namespace, settings.patience)
    try:
        version = api.version()
        if not api.may("create", "pods"):
            raise Unavailable(
                f"this account may not create pods in namespace {settings.namespace}", "see docs/fleet.md"
            )
        if not api.list_nodes(settings.selector).get("items"):
            log.warning("no node has the label %s: the fleet has no boxes yet", settings.selector)
        mode, why = _mode(api, settings.mode)
        kueue = settings.pods.queue is not None and any(api.workloads(v) is not None for v in KUEUE_VERSIONS)
        opening = Opening(settings.fleet, secrets.token_hex(8), mode, _owner(), kueue)
        _end_earlier(api, opening)
    except ApiRefusal as refusal:
        raise Unavailable(f"the API server refused: {refusal}") from None
    if why:
        log.warning("the engine kubernetes is pinned, not dynamic: %s", why)
    if settings.pods.queue is not None and not kueue:
        log.warning("Kueue is not installed: queue %s is not used, the fleet's own shares hold", settings.pods.queue)
    log.info("engine kubernetes: API server %s, namespace %s, %s", version, settings.namespace, mode)
    engine = KubernetesEngine(api, settings, opening, clock, rule_of)
    engine.mode_reason = why
    return engine


class KubernetesEngine:
    """The open engine; it is asked by one thread. `mode_reason`: why it is not in the mode that was asked for."""

    kind: Final[port.EngineKind] = "kubernetes"

    def __init__(
        self,
        api: KubernetesApi,
        settings: KubernetesSettings,
        opening: Opening,
        clock: Callable[[], float],
        rule_of: Callable[[str], SpatialRule | None],
    ) -> None:
        self.mode_reason = ""
        self._api, self._settings, self._opening = api, settings, opening
        self._clock, self._rule_of = clock, rule_of
        self._amounts = BoxAmounts()
        self._nodes: dict[str, NodeSeen] = {}
        self._resources = NodeResources(api)
        self._lives: dict[TaskAt, lives.TaskLife] = {}
        self._unwanted: set[str] = set()
        self._tidy_after_s = 0.0
        self._events: list[port.EngineEvent] = []
        self._closed = False
        self._feed = KubernetesFeed(api, settings.selector, settings.watch_s, clock)
        self._feed.start()

    @property
    def mode(self) -> port.EngineMode:
        """The keeper of the amounts."""
        return self._opening.mode

    @property
    def kueue(self) -> bool:
        """Whether Kueue shares out the boxes."""
        return self._opening.kueue

    def set_resource(self, box: str, name: str, capacity: float) -> float:
        """See the port; cpu, mem_gb and gpu are the node's own and cannot be set."""
        return self.set_resources(box, {name: capacity})[name]

    def set_resources(self, box: str, capacities: Mapping[str, float]) -> dict[str, float]:
        """Set several resources of a box, in one request where the engine is dynamic: all or none."""
        wanted = {}
        for name, capacity in capacities.items():
            if name in NATIVE:
                raise InvalidValue("name", name, "a name of the fleet; cpu, mem_gb and gpu are the node's own")
            wanted[name] = self._amounts.in_force(box, name, capacity)
        if self.mode == "dynamic":
            self._resources.put(box, wanted)
        return {name: self._amounts.set(box, name, capacity) for name, capacity in wanted.items()}

    def status(self) -> tuple[port.EngineBox, ...]:
        """See the port. Pinned: amounts of the fleet's own tasks. Dynamic: as Kubernetes counts."""
        nodes = [node_seen(o) for o in self._list(self._api.list_nodes, self._settings.selector)]
        there = [n for n in nodes if n.ready and self._amounts.has(n.name)]
        if self.mode == "pinned":
            return tuple(self._amounts.box(n.name) for n in sorted(there, key=lambda n: n.name))
        pods = [pod_seen(o) for o in self._list(self._api.list_pods)]
        return node_boxes(there, pods, self._resources.whole_names)

    def launch(self, tasks: tuple[port.EngineTask, ...]) -> None:
        """See the port; several tasks are a gang."""
        for number, task in enumerate(tasks):
            check_program(f"tasks[{number}].work.program", task.work.program)
            names.check_node_name(f"tasks[{number}].at.box", task.at.box)
            if task.at in self._lives:
                raise Conflict(f"task {task.at.job}/{task.at.task} runs already")
        pods = [(task, self._pod(task, tasks)) for task in tasks]
        self._amounts.book(tasks)
        made: list[WorkPod] = []
        try:
            for _, pod in pods:
                made.append(pod)
                self._create(pod)
            for task, pod in pods:
                if pod.gates:
                    pin = node_affinity(task.at.box, pod.zone)
                    self._api.patch_pod(pod.name, ungate(pin, has_affinity=bool(pod.near or pod.apart)))
        except MagpieError as error:
            for task in tasks:
                self._amounts.free(task.at)
            self._unwanted |= {pod.name for pod in made}
            self._tidy()
            if isinstance(error, ApiRefusal):
                raise Unavailable(f"the API server refused a pod: {error}") from None
            raise
        now_s = self._clock()
        self._lives |= {task.at: lives.TaskLife(task, pod.name, now_s) for task, pod in pods}

    def cancel(self, task: TaskAt) -> None:
        """See the port. Its event comes when the pod is gone."""
        life = self._lives.get(task)
        if life is None or life.cancelling:
            return
        # A pod that no kubelet has goes at once; a running program has its time to stop.
        waits = bool(life.waits) and not life.bound
        try:
            self._api.delete_pod(life.pod, 0 if waits else self._settings.grace_s)
        except ApiRefusal as refusal:
            raise Unavailable(f"the API server refused to delete a pod: {refusal}") from None
        self._lives[task] = replace(life, cancelling=True)

    def events(self, timeout_s: float) -> tuple[port.EngineEvent, ...]:
        """See the port."""
        if not self._events:
            self._look(timeout_s)
        events, self._events = tuple(self._events), []
        return events

    def waiting(self) -> tuple[TaskWaiting, ...]:
        """Tasks whose pods have not begun, and why."""
        rows = (life for life in self._lives.values() if not life.started and not life.cancelling)
        return tuple(TaskWaiting(life.task.at, life.since_s, life.waits) for life in rows)

    def drain(self, box: str, *, away: bool = True) -> tuple[TaskAt, ...]:
        """Cordon a box and ask its pods to leave, or (`away` False) let pods come again. Answers with the tasks that a
        disruption budget keeps for now: ask again. Those that leave are lost tasks. Raises NotFound, Unavailable."""
        here = {life.pod: at for at, life in self._lives.items() if at.box == box and not life.cancelling}
        kept = drain_node(self._api, box, tuple(here), away=away)
        return tuple(here[pod] for pod in kept)

    def close(self) -> None:
        """End all tasks, and take back the resources that it made. May be called twice."""
        if self._closed:
            return
        self._closed = True
        self._feed.stop()
        self._unwanted |= {life.pod for life in self._lives.values()}
        self._lives.clear()
        self._tidy_after_s = 0.0
        self._tidy()
        for box in tuple(self._nodes):
            self._resources.clear(box)

    def _look(self, timeout_s: float) -> None:
        """Wait for sights, until they make an event or the time is over."""
        end_s = time.monotonic() + timeout_s
        while True:
            left_s = max(0.0, end_s - time.monotonic())
            next_s = min(left_s, _LOOK_S)
            for sight in self._feed.take(next_s):
                self._see(sight)
            self._give_up_pending()
            self._tidy()
            if self._events or left_s <= next_s:
                return

    def _see(self, sight: Sight) -> None:
        match sight:
            case NodesListed(nodes):
                for name in set(self._nodes) - {n.name for n in nodes}:
                    self._box_gone(name)
                for node in nodes:
                    self._node(node, gone=False)
            case NodeChanged(node, gone):
                self._node(node, gone=gone)
            case PodsListed(pods, asked_s):
                there = {pod.name for pod in pods}
                for life in tuple(self._lives.values()):
                    if life.pod not in there and life.since_s < asked_s:
                        self._step(life, lives.gone(life, self._clock()))
                for pod in pods:
                    self._pod_seen(pod, gone=False)
            case PodChanged(pod, gone):
                self._pod_seen(pod, gone=gone)

    def _node(self, node: NodeSeen, *, gone: bool) -> None:
        if gone or not node.ready:
            self._box_gone(node.name)
        elif node.name in self._nodes:
            self._nodes[node.name] = node
        else:
            self._nodes[node.name] = node
            if self.mode == "dynamic":
                self._resources.forget(node)
            box = self._amounts.add(node.name, physical_amounts(node))
            self._events.append(port.EngineBoxJoined(self._clock(), box))

    def _box_gone(self, box: str) -> None:
        if self._nodes.pop(box, None) is None:
            return
        now_s = self._clock()
        for at, life in tuple(self._lives.items()):
            if at.box == box:
                self._step(life, lives.gone(life, now_s, f"its box {box} is gone"))
        self._events.append(port.EngineBoxGone(now_s, box))
        self._amounts.remove(box)

    def _pod_seen(self, pod: PodSeen, *, gone: bool) -> None:
        life = None if pod.task is None or pod.life != self._opening.life else self._lives.get(pod.task)
        if life is None:
            return
        now_s = self._clock()
        step = lives.seen(life, pod, now_s)
        if gone and step.life is not None:
            last = lives.gone(step.life, now_s)
            step = lives.LifeStep(None, step.events + last.events)
        self._step(life, step)

    def _step(self, life: lives.TaskLife, step: lives.LifeStep) -> None:
        self._events.extend(step.events)
        if step.life is not None:
            self._lives[life.task.at] = step.life
            return
        del self._lives[life.task.at]
        self._amounts.free(life.task.at)
        self._unwanted.add(life.pod)

    def _give_up_pending(self) -> None:
        now_s = self._clock()
        for life in tuple(self._lives.values()):
            if lives.pending_too_long(life, now_s, self._settings.pending_s):
                why = f"its pod did not begin within {self._settings.pending_s:g} s: {life.waits or 'no reason given'}"
                log.warning("task %s/%d: %s", life.task.at.job, life.task.at.task, why)
                self._step(life, lives.gone(life, now_s, why))

    def _tidy(self) -> None:
        """Delete pods that are over; those that cannot be deleted now are tried again later."""
        if not self._unwanted or time.monotonic() < self._tidy_after_s:
            return
        try:
            for pod in tuple(self._unwanted):
                self._api.delete_pod(pod)
                self._unwanted.discard(pod)
        except MagpieError as error:
            log.warning("%d pods that are over are still there: %s", len(self._unwanted), error)
            self._tidy_after_s = time.monotonic() + _TIDY_AGAIN_S

    def _pod(self, task: port.EngineTask, together: tuple[port.EngineTask, ...]) -> WorkPod:
        """The pod of a task. The job's rule counts for Kubernetes too, as far as its node has the labels."""
        rule = self._rule_of(task.at.job)
        node = self._nodes.get(task.at.box)
        companions = frozenset(at.job for at in self._lives if at.box == task.at.box)
        pod = pod_for(
            task,
            self._opening,
            self._settings.pods,
            rule=rule,
            companions=companions,
            gang=tuple(t.at for t in together),
        )
        labels = {} if node is None else node.labels
        return replace(pod, zone={label: values for label, values in pod.zone.items() if label in labels})

    def _create(self, pod: WorkPod) -> None:
        """Make a pod. One of its name that this opening made is an earlier try whose answer was lost."""
        try:
            self._api.create_pod(pod_body(pod))
        except ApiRefusal as refusal:
            if refusal.status != _EXISTS:
                raise
            if pod_seen(self._api.read_pod(pod.name)).life != self._opening.life:
                raise Conflict(f"pod {pod.name} of an earlier engine is still there") from None

    def _list(self, method: Callable[..., Mapping[str, object]], *args: str) -> list[Mapping[str, object]]:
        try:
            found = method(*args).get("items")
        except ApiRefusal as refusal:
            raise Unavailable(f"the API server refused: {refusal}") from None
        return found if isinstance(found, list) else []


def _mode(api: KubernetesApi, wanted: port.EngineMode) -> tuple[port.EngineMode, str]:
    """The mode that the account's rights allow, and why it is not the one that was wanted."""
    if wanted == "dynamic" and not api.may("patch", "nodes", "status", namespaced=False):
        return "pinned", "this account may not patch nodes/status"
    return wanted, ""


def _owner() -> PodOwner | None:
    """The pod that this process runs in, as the chart names it."""
    name, uid = os.environ.get("MAGPIE_POD_NAME"), os.environ.get("MAGPIE_POD_UID")
    return PodOwner(name, uid) if name and uid else None


def _end_earlier(api: KubernetesApi, opening: Opening) -> None:
    """Delete pods of the fleet that another opening made: its tasks are lost, and placed again."""
    for obj in api.list_pods(fields=None).get("items") or ():
        labels = obj["metadata"].get("labels") or {}
        if labels.get(names.FLEET_LABEL) == opening.fleet and labels.get(names.LIFE_LABEL) != opening.life:
            api.delete_pod(obj["metadata"]["name"])

"""Changes of nodes and pods, as the API server reports them: a list, then a watch from its version, for ever.

One thread for each of the two puts what it sees into one queue. A watch that is too old (410), that breaks off or is
refused is followed by a list; a watch that ends by itself goes on from the last version that it reported.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from edge.core.errors import MagpieError
from edge.core.retry_pace import RetryPace
from edge.engines.kubernetes_api import ApiRefusal, ApiWatch, KubernetesApi
from edge.engines.kubernetes_objects import NodeSeen, PodSeen, node_seen, pod_seen

log = logging.getLogger(__name__)

_BACK_OFF: Final = RetryPace(0.2, 10.0, spread=0.5)
_EXPIRED: Final = 410
_SHORTEST_WATCH_S: Final = 0.1


@dataclass(frozen=True)
class NodesListed:
    """All nodes of the fleet."""

    nodes: tuple[NodeSeen, ...]


@dataclass(frozen=True)
class NodeChanged:
    """A node came, changed, or (`gone`) is deleted."""

    node: NodeSeen
    gone: bool


@dataclass(frozen=True)
class PodsListed:
    """All pods of the namespace; the list was asked for at `asked_s`, so pods made later may be missing."""

    pods: tuple[PodSeen, ...]
    asked_s: float


@dataclass(frozen=True)
class PodChanged:
    """A pod came, changed, or (`gone`) is deleted."""

    pod: PodSeen
    gone: bool


Sight = NodesListed | NodeChanged | PodsListed | PodChanged


class KubernetesFeed:
    """Sights in the order in which they came; they are taken by one thread."""

    def __init__(self, api: KubernetesApi, selector: str, watch_s: int, clock: Callable[[], float]) -> None:
        self._api, self._selector, self._watch_s, self._clock = api, selector, watch_s, clock
        self._sights: queue.SimpleQueue[Sight] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._watches: dict[str, ApiWatch] = {}
        self._threads = [
            threading.Thread(target=self._follow, args=(what,), name=f"kubernetes-{what}", daemon=True)
            for what in ("nodes", "pods")
        ]

    def start(self) -> None:
        """Begin to look."""
        for thread in self._threads:
            thread.start()

    def take(self, timeout_s: float) -> tuple[Sight, ...]:
        """All sights since the last call; waits at most so long for one."""
        found: list[Sight] = []
        try:
            found.append(self._sights.get(timeout=timeout_s) if timeout_s > 0.0 else self._sights.get_nowait())
            while True:
                found.append(self._sights.get_nowait())
        except queue.Empty:
            return tuple(found)

    def stop(self) -> None:
        """Look no more. May be called twice."""
        self._stopped.set()
        for watch in list(self._watches.values()):
            watch.stop()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(1.0)

    def _follow(self, what: str) -> None:
        version, failed = "", 0
        while not self._stopped.is_set():
            try:
                begun_s = time.monotonic()
                version = self._watch(what, version or self._list(what))
                failed = 0
                if time.monotonic() - begun_s < _SHORTEST_WATCH_S:  # a server that ends each watch at once
                    self._stopped.wait(_SHORTEST_WATCH_S)
            except ApiRefusal as refusal:
                version = ""
                failed = 0 if refusal.status == _EXPIRED else failed + 1
                log.debug("the watch of %s ends with %d: list again", what, refusal.status)
            except MagpieError as error:
                version, failed = "", failed + 1
                if failed == 1 and not self._stopped.is_set():
                    log.warning("no news of %s: %s", what, error)
            if failed:
                self._stopped.wait(_BACK_OFF.pause_s(failed, random.random()))

    def _list(self, what: str) -> str:
        """Tell what is there; the version of the list."""
        asked_s = self._clock()
        if what == "nodes":
            found = self._api.list_nodes(self._selector)
            self._sights.put(NodesListed(tuple(node_seen(o) for o in found.get("items") or ())))
        else:
            found = self._api.list_pods(fields=None)
            self._sights.put(PodsListed(tuple(pod_seen(o) for o in found.get("items") or ()), asked_s))
        return str((found.get("metadata") or {}).get("resourceVersion", ""))

    def _watch(self, what: str, version: str) -> str:
        """Hand changes from a version on over; the last version that was handed over."""
        watch = (
            self._api.watch_nodes(self._selector, version, self._watch_s)
            if what == "nodes"
            else self._api.watch_pods(version, self._watch_s)
        )
        self._watches[what] = watch
        if self._stopped.is_set():  # it may have been set before this watch could be stopped
            watch.stop()
        for event in watch:
            kind, obj = event.get("type"), event.get("object") or {}
            version = str((obj.get("metadata") or {}).get("resourceVersion") or version)
            if kind in ("ADDED", "MODIFIED", "DELETED"):
                self._sights.put(_changed(what, obj, gone=kind == "DELETED"))
        return version


def _changed(what: str, obj: dict[str, Any], *, gone: bool) -> Sight:
    return NodeChanged(node_seen(obj), gone) if what == "nodes" else PodChanged(pod_seen(obj), gone)

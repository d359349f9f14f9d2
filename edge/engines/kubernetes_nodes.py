"""Extended resources of nodes: set in one request for several names, compared with the values that were known, repeated
where another writer was faster.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from edge.core.errors import Conflict, MagpieError
from edge.engines import kubernetes_names as names
from edge.engines.kubernetes_amounts import count_of
from edge.engines.kubernetes_api import ApiRefusal, KubernetesApi, of_box
from edge.engines.kubernetes_objects import NodeSeen, node_seen
from edge.engines.kubernetes_patches import CapacityChange, change_capacity, merge_capacity

log = logging.getLogger(__name__)

#: A value that was compared is another one (422), or the node changed meanwhile (409).
_LOST_RACE: Final = frozenset({409, 422})
_TRIES: Final = 4


class NodeResources:
    """The fleet's extended resources by node, as they were last written or read."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self._counts: dict[str, dict[str, str]] = {}
        #: Whole names of hashed resources: resource of Kubernetes -> name of the fleet.
        self.whole_names: dict[str, str] = {}

    def put(self, node: str, amounts: Mapping[str, float]) -> None:
        """Set these resources of a node: all or none. Raises InvalidValue, NotFound, Conflict where others write all
        the time, Unavailable."""
        wanted = {names.resource_of(name): count_of("capacity", amount) for name, amount in amounts.items()}
        self.whole_names |= names.hashed_names(amounts)
        for _ in range(_TRIES):
            changes = changes_for(self._counts.get(node, {}), wanted)
            if not changes:
                return
            try:
                self._counts[node] = node_seen(self._api.patch_node_status(node, change_capacity(changes))).counts()
                return
            except ApiRefusal as refusal:
                if refusal.status not in _LOST_RACE:
                    raise of_box(refusal, node, f"resources of {node}") from None
                log.debug("another writer was faster at %s: %s", node, refusal)
                self._read(node)
        raise Conflict(f"resources of box {node} are written by another program too")

    def forget(self, node: NodeSeen) -> None:
        """A node came: it begins without resources of the fleet. Those that an earlier life left are removed."""
        self.learn(node.name, node.counts())
        self.clear(node.name)

    def learn(self, node: str, counts: Mapping[str, str]) -> None:
        """A node was read: it has these resources of the fleet."""
        self._counts[node] = dict(counts)

    def clear(self, node: str) -> None:
        """Remove all resources of the fleet from a node. Where that fails they stay known, and are written over."""
        counts = self._counts.get(node, {})
        if not counts:
            return
        try:
            self._api.patch_node_status(node, merge_capacity(dict.fromkeys(counts)))
            self._counts[node] = {}
        except MagpieError as error:
            log.warning("resources of the fleet stay on %s: %s", node, error)

    def _read(self, node: str) -> None:
        try:
            self._counts[node] = node_seen(self._api.read_node(node)).counts()
        except ApiRefusal as refusal:
            raise of_box(refusal, node, f"to show {node}") from None


def changes_for(known: Mapping[str, str], wanted: Mapping[str, int]) -> tuple[CapacityChange, ...]:
    """The changes from the counts that are known to those that are wanted (0: the resource goes)."""
    rows = ((r, known.get(r), str(count) if count else None) for r, count in wanted.items())
    return tuple(CapacityChange(r, before, after) for r, before, after in rows if before != after)

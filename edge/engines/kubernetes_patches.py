"""Patches of nodes and pods: a list is a JSON patch, which can compare first; a dictionary is a merge, which can be
sent again without harm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from edge.core.errors import InvalidValue
from edge.engines.kubernetes_names import GANG_GATE

Operation = dict[str, Any]
#: An API server takes no longer list.
MOST_OPERATIONS: Final = 10_000
#: Capacity alone would be copied to allocatable at the kubelet's next report only; the scheduler reads allocatable.
_PARTS: Final = ("capacity", "allocatable")


@dataclass(frozen=True)
class CapacityChange:
    """An extended resource of a node: from `before` (None: it is not there) to `after` (None: it goes)."""

    resource: str
    before: str | None
    after: str | None

    def __post_init__(self) -> None:
        if self.before is None and self.after is None:
            raise InvalidValue("after", None, "a count, for a resource that is not there")


def create(resource: str, count: str) -> list[Operation]:
    """Make a resource, or write over it: nothing is compared."""
    return [_operation("add", part, resource, count) for part in _PARTS]


def change_capacity(changes: tuple[CapacityChange, ...]) -> list[Operation]:
    """All these changes of one node in one request: all or none. Raises InvalidValue for too many."""
    operations = [operation for change in changes for operation in _change(change)]
    if len(operations) > MOST_OPERATIONS:
        raise InvalidValue("changes", len(changes), f"so many that they make at most {MOST_OPERATIONS} operations")
    return operations


def merge_capacity(counts: Mapping[str, str | None]) -> dict[str, Any]:
    """The same without comparing; None removes, also what is not there."""
    return {"status": {part: dict(counts) for part in _PARTS}}


def ungate(pin: Mapping[str, Any] | None = None, *, has_affinity: bool = False) -> list[Operation]:
    """A member of a gang may go: its gate is removed, and where a node affinity is given as `pin` the pod is bound to
    its box in the same request."""
    operations: list[Operation] = [{"op": "test", "path": "/spec/schedulingGates", "value": [{"name": GANG_GATE}]}]
    if pin is not None and has_affinity:
        operations.append({"op": "add", "path": "/spec/affinity/nodeAffinity", "value": dict(pin)})
    elif pin is not None:
        operations.append({"op": "add", "path": "/spec/affinity", "value": {"nodeAffinity": dict(pin)}})
    return [*operations, {"op": "remove", "path": "/spec/schedulingGates"}]


def cordon(*, away: bool) -> dict[str, Any]:
    """Whether new pods may come to a node."""
    return {"spec": {"unschedulable": away}}


def eviction(namespace: str, pod: str) -> dict[str, Any]:
    """Ask a pod to leave; disruption budgets hold."""
    metadata = {"name": pod, "namespace": namespace}
    return {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}


def _change(change: CapacityChange) -> list[Operation]:
    if change.before is None:
        assert change.after is not None
        return create(change.resource, change.after)
    if change.after is None:
        return [_operation("remove", part, change.resource) for part in _PARTS]
    compare = _operation("test", "capacity", change.resource, change.before)
    return [compare, *(_operation("replace", part, change.resource, change.after) for part in _PARTS)]


def _operation(kind: str, part: str, resource: str, count: str | None = None) -> Operation:
    pointer = resource.replace("~", "~0").replace("/", "~1")
    operation: Operation = {"op": kind, "path": f"/status/{part}/{pointer}"}
    return operation if count is None else {**operation, "value": count}

"""The engine `kubernetes` as a fleet of boxes opens it: boxes have names and amounts of their own, and a box is a node.

A node of which no box is known takes no task, whatever label it has: its amounts for jobs are not set. Below this
the engine knows nodes only.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from edge.core import engine as port
from edge.core.errors import Conflict, MagpieError, NotFound, Unavailable
from edge.core.fleet import TaskAt
from edge.engines.amounts import BoxAmounts
from edge.engines.kubernetes_amounts import NATIVE
from edge.engines.kubernetes_engine import KubernetesEngine

log = logging.getLogger(__name__)

#: A node whose resources could not be set is tried again after so long.
_AGAIN_S: Final = 5.0
_LAST: Final = (port.EngineTaskEnded, port.EngineTaskFailed, port.EngineTaskCancelled)
_OfTask = port.EngineTaskStarted | port.EngineTaskEnded | port.EngineTaskFailed | port.EngineTaskCancelled


@dataclass(frozen=True)
class BoxNode:
    """A box of the fleet, the node that it is, and what it has for jobs."""

    box: str
    node: str
    amounts: Mapping[str, float]


class KubernetesBoxes:
    """Keeps the port's contract; one thread asks it. `may_launch`: whether this process is the fleet's one head now."""

    kind: Final[port.EngineKind] = "kubernetes"

    def __init__(
        self, engine: KubernetesEngine, clock: Callable[[], float], may_launch: Callable[[], bool] = lambda: True
    ) -> None:
        self._engine, self._clock, self._may_launch = engine, clock, may_launch
        self._known: dict[str, BoxNode] = {}
        #: Nodes that are there, and of them those that joined as boxes.
        self._nodes: dict[str, port.EngineBox] = {}
        self._joined: dict[str, BoxNode] = {}
        self._amounts = BoxAmounts()
        #: Tasks without a last event.
        self._running: set[TaskAt] = set()
        self._events: list[port.EngineEvent] = []
        self._again_s = float("-inf")

    @property
    def mode(self) -> port.EngineMode:
        """The keeper of the amounts."""
        return self._engine.mode

    @property
    def running(self) -> int:
        """How many tasks have no end yet."""
        return len(self._running)

    def know(self, boxes: Sequence[BoxNode]) -> None:
        """The fleet's boxes now. One that is there keeps its amounts; one that is named no longer is gone, with its
        tasks. Of two boxes on one node the one that is there counts, else the first by name."""
        self._known = {}
        for row in sorted(boxes, key=lambda row: (self._joined_at(row.box) != row.node, row.box)):
            if any(row.node == other.node for other in self._known.values()):
                log.warning("box %s reports that it is node %s, which another box is", row.box, row.node)
            else:
                self._known[row.box] = row
        for box, joined in tuple(self._joined.items()):
            if box not in self._known or self._known[box].node != joined.node:
                self._leave(box)
        self._again_s = float("-inf")

    def set_resource(self, box: str, name: str, capacity: float) -> float:
        """See the port."""
        in_force = self._amounts.in_force(box, name, capacity)
        self._engine.set_resource(self._node(box), name, in_force)
        return self._amounts.set(box, name, in_force)

    def status(self) -> tuple[port.EngineBox, ...]:
        """See the port."""
        ready = {node.name for node in self._engine.status()}
        there = [box for box, row in self._joined.items() if row.node in ready]
        return tuple(self._amounts.box(box) for box in sorted(there))

    def launch(self, tasks: tuple[port.EngineTask, ...]) -> None:
        """See the port."""
        if not self._may_launch():
            raise Unavailable("this box does not hold the lease of the fleet's head now")
        for task in tasks:
            if task.at in self._running:
                raise Conflict(f"task {task.at.job}/{task.at.task} runs already")
        self._amounts.book(tasks)
        try:
            self._engine.launch(tuple(replace(task, at=self._on_node(task.at)) for task in tasks))
        except MagpieError:
            for task in tasks:
                self._amounts.free(task.at)
            raise
        self._running |= {task.at for task in tasks}

    def cancel(self, task: TaskAt) -> None:
        """See the port."""
        if task in self._running:
            self._engine.cancel(self._on_node(task))

    def events(self, timeout_s: float) -> tuple[port.EngineEvent, ...]:
        """See the port."""
        self._join()
        for event in self._engine.events(0.0 if self._events else timeout_s):
            self._hear(event)
        self._join()
        events, self._events = tuple(self._events), []
        return events

    def waiting(self, after_s: float) -> str:
        """The task whose pod has waited longest for its start, and why, for people; empty: none for so long."""
        rows = [row for row in self._engine.waiting() if row.why and self._clock() - row.since_s >= after_s]
        if not rows:
            return ""
        first = min(rows, key=lambda row: row.since_s)
        return f"{first.task.job}/{first.task.task} has not begun on {self._box(first.task.box)}: {first.why}"

    def close(self) -> None:
        """See the port."""
        self._engine.close()

    # --- nodes that come and go ----------------------------------------------------------------------------------
    def _join(self) -> None:
        """Boxes whose nodes are there join; a node that does not take its resources is tried again later."""
        if self._clock() < self._again_s:
            return
        for box, row in self._known.items():
            if box in self._joined or row.node not in self._nodes:
                continue
            try:
                total = self._prepared(row)
            except MagpieError as error:
                log.warning("box %s does not join yet: %s", box, error)
                self._again_s = self._clock() + _AGAIN_S
                continue
            self._joined[box] = row
            self._events.append(port.EngineBoxJoined(self._clock(), self._amounts.add(box, total)))

    def _prepared(self, row: BoxNode) -> dict[str, float]:
        """The amounts of a box on its node: of the node's own resources no more than it has; the others are made."""
        own = self._nodes[row.node].total
        native = {name: min(amount, own.get(name, 0.0)) for name, amount in row.amounts.items() if name in NATIVE}
        made = {name: amount for name, amount in row.amounts.items() if name not in NATIVE}
        for name in native:
            if native[name] < row.amounts[name]:
                log.warning("box %s: its node has %g %s, not %g", row.box, native[name], name, row.amounts[name])
        return native | self._engine.set_resources(row.node, made)

    def _leave(self, box: str) -> None:
        """A box is gone, with its tasks. Its pods, if there are any still, are stopped."""
        now_s = self._clock()
        for at in [at for at in self._running if at.box == box]:
            try:
                self._engine.cancel(self._on_node(at))
            except MagpieError as error:  # its end counts for nothing any more
                log.warning("task %s/%d was not stopped: %s", at.job, at.task, error)
            self._add_event(port.EngineTaskFailed(now_s, at, lost=True, why=f"its box {box} is gone"))
        self._amounts.remove(box)
        del self._joined[box]
        self._events.append(port.EngineBoxGone(now_s, box))

    # --- events of nodes -----------------------------------------------------------------------------------------
    def _hear(self, event: port.EngineEvent) -> None:
        if isinstance(event, port.EngineBoxJoined):
            self._nodes[event.box.name] = event.box
        elif isinstance(event, port.EngineBoxGone):
            self._nodes.pop(event.box, None)
            if box := self._box(event.box):
                self._leave(box)
        elif isinstance(event, _OfTask):
            at = replace(event.task, box=self._box(event.task.box))
            if at in self._running:
                self._add_event(replace(event, task=at))

    def _add_event(self, event: _OfTask) -> None:
        if isinstance(event, _LAST):
            self._running.discard(event.task)
            self._amounts.free(event.task)
        self._events.append(event)

    def _on_node(self, at: TaskAt) -> TaskAt:
        return replace(at, box=self._node(at.box))

    def _node(self, box: str) -> str:
        node = self._joined_at(box)
        if not node:
            raise NotFound(f"the engine has no box {box}")
        return node

    def _joined_at(self, box: str) -> str:
        row = self._joined.get(box)
        return "" if row is None else row.node

    def _box(self, node: str) -> str:
        return next((box for box, row in self._joined.items() if row.node == node), "")

"""Amounts of an engine's boxes, and what its tasks hold of them: no box is over-booked.

The matcher is the fleet's own; here it books on the box that a task was placed on, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from edge.core import checks
from edge.core.engine import EngineBox, EngineTask
from edge.core.errors import Conflict, InvalidValue, NotFound
from edge.core.fleet import UNBOUNDED, TaskAt, check_resource
from scheduler.fleet.matcher import Matcher


class BoxAmounts:
    """Boxes that are there, by name."""

    def __init__(self) -> None:
        self._matcher = Matcher()
        self._physical: dict[str, dict[str, float]] = {}

    def add(self, box: str, physical: Mapping[str, float]) -> EngineBox:
        """A box came, empty. Raises Conflict where it is there."""
        if box in self._physical:
            raise Conflict(f"box {box} is there already")
        self._physical[box] = dict(physical)
        if box in self._matcher.boxes:
            self._matcher.forget_names(box, physical)
        else:
            self._matcher.add_box(box, physical)
        return self.box(box)

    def remove(self, box: str) -> None:
        """A box is gone. Its tasks were freed before."""
        del self._physical[box]

    def has(self, box: str) -> bool:
        """Whether the box is there."""
        return box in self._physical

    def box(self, name: str) -> EngineBox:
        """One box. Raises NotFound."""
        self._check_box(name)
        rows = self._matcher.status(name)
        return EngineBox(name, {k: c for k, (c, _) in rows.items()}, {k: max(0.0, f) for k, (_, f) in rows.items()})

    def boxes(self) -> tuple[EngineBox, ...]:
        """All boxes that are there, by name."""
        return tuple(self.box(name) for name in sorted(self._physical))

    def in_force(self, box: str, name: str, capacity: float) -> float:
        """The capacity that a resource would have if it were set: at least what is held. Raises InvalidValue (a bad
        name or amount, or what the box has by itself), NotFound."""
        check_resource("name", name, physical=False)
        checks.in_range("capacity", capacity, 0.0, UNBOUNDED)
        self._check_box(box)
        if name in self._physical[box]:
            raise InvalidValue("name", name, f"a name of the fleet: {box} has this one by itself")
        total, free = self._matcher.status(box).get(name, (0.0, 0.0))
        return max(capacity, total - free)

    def set(self, box: str, name: str, capacity: float) -> float:
        """Set a resource; answers the capacity in force. Raises as `in_force`."""
        in_force = self.in_force(box, name, capacity)
        self._matcher.set_resource(name, in_force, box)
        self._matcher.resized.clear()
        self._forget_changes()
        return in_force

    def book(self, tasks: Sequence[EngineTask]) -> None:
        """Book all tasks, or none. Raises NotFound for a box, Conflict for amounts or a task that holds something."""
        booked: list[TaskAt] = []
        try:
            for task in tasks:
                self._check_box(task.at.box)
                if not self._matcher.book(task.at, [(task.at.box, task.demand)]):
                    raise Conflict(f"box {task.at.box} has too little free for {task.at.job}/{task.at.task}")
                booked.append(task.at)
        except (Conflict, NotFound):
            for at in booked:
                self.free(at)
            raise

    def free(self, task: TaskAt) -> None:
        """Give back what a task holds; one that holds nothing is no error."""
        self._matcher.free(task)
        self._forget_changes()

    def _check_box(self, box: str) -> None:
        if box not in self._physical:
            raise NotFound(f"the engine has no box {box}")

    def _forget_changes(self) -> None:
        """No caller here reads the changes."""
        self._matcher.changes.clear()
        self._matcher.freed.clear()

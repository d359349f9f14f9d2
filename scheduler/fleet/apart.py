"""Anti-affinity: each box has one unit of `apart:GROUP/PER`; a member takes it, and its rack's other boxes lose theirs.

Groups may be kept apart per box and, in another choice of a job, per rack. Each member closes its place in every scope
of its group, so that a later member finds it whatever scope it asks for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from edge.core.fleet import Avoidance, FleetBox
from scheduler.fleet.compose import Ask
from scheduler.fleet.matcher import Matcher


class Apart:
    """Members of each group by box. Invariant: a scope's name fits on a box only where no member shares its value."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._boxes: dict[str, FleetBox] = {}
        self._with_value: dict[str, dict[str | None, list[str]]] = {}
        self._scopes: dict[str, set[str]] = {}
        self._members: dict[str, dict[Hashable, str]] = {}
        self._taken: dict[tuple[str, str], Counter[str | None]] = {}

    @staticmethod
    def name(group: Avoidance) -> str:
        """The ephemeral resource of a group in one scope."""
        return f"apart:{group.group}/{group.per}"

    def ask(self, group: Avoidance) -> Ask:
        """One unit of the group's name. The scope's name is made when it is first asked for."""
        scopes = self._scopes.setdefault(group.group, set())
        if group.per not in scopes:
            scopes.add(group.per)
            self._boxes_by_value(group.per)
            self._matcher.set_everywhere(self.name(group), 1.0)
            for box in self._members.get(group.group, {}).values():
                self._count(group, box, 1)
        return Ask(here={self.name(group): 1.0}, groups=(group,))

    def box_began_anew(self, box: FleetBox) -> None:
        """A box joined, or forgot its names: close what its neighbours' members close."""
        known = box.name in self._boxes
        self._boxes[box.name] = box
        if not known:
            for per, values in self._with_value.items():
                values.setdefault(box.label(per), []).append(box.name)
        for (group, per), taken in self._taken.items():
            if taken[box.label(per)]:
                self._matcher.set_resource(self.name(Avoidance(group, per)), 0.0, box.name)

    def joins(self, group: str, holder: Hashable, box: str) -> None:
        """A holder on a box is a member of the group from now on."""
        self._members.setdefault(group, {})[holder] = box
        for per in self._scopes[group]:
            self._count(Avoidance(group, per), box, 1)

    def leaves(self, group: str, holder: Hashable) -> None:
        """The holder is no member any more."""
        box = self._members.get(group, {}).pop(holder, None)
        if box is not None:
            for per in self._scopes[group]:
                self._count(Avoidance(group, per), box, -1)

    def forget(self, group: str) -> list[str]:
        """No job names a group any more: answers with its names, which are gone. One that has members is kept."""
        if self._members.get(group):
            return []
        self._members.pop(group, None)
        scopes = [Avoidance(group, per) for per in sorted(self._scopes.pop(group, ()))]
        for scope in scopes:
            self._taken.pop((group, scope.per), None)
            self._matcher.set_everywhere(self.name(scope), 0.0)
        return [self.name(scope) for scope in scopes]

    def _count(self, group: Avoidance, box: str, step: int) -> None:
        taken = self._taken.setdefault((group.group, group.per), Counter())
        value = self._boxes[box].label(group.per)
        taken[value] += step
        name = self.name(group)
        if taken[value] == 1 and step > 0:
            for other in self._boxes_by_value(group.per)[value]:
                self._matcher.set_resource(name, 0.0, other)
        elif step < 0 and taken[value]:
            self._matcher.set_resource(name, 0.0, box)
        elif not taken[value]:
            del taken[value]
            for other in self._boxes_by_value(group.per)[value]:
                self._matcher.clear(name, other)

    def _boxes_by_value(self, per: str) -> dict[str | None, list[str]]:
        """Boxes by their value of a label; boxes without it count as one value."""
        found = self._with_value.get(per)
        if found is None:
            found = {}
            for box in self._boxes.values():
                found.setdefault(box.label(per), []).append(box.name)
            self._with_value[per] = found
        return found

"""Zones: an unbounded name on each box whose label has an allowed value (a site that reaches the cameras, a GPU)."""

from __future__ import annotations

from collections.abc import Mapping

from edge.core.fleet import UNBOUNDED, FleetBox
from scheduler.fleet.compose import Ask
from scheduler.fleet.matcher import Matcher


class Zones:
    """The zones that a job asked for. Invariant: each zone's name exists on exactly the boxes in it."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._boxes: dict[str, FleetBox] = {}
        self._zones: dict[str, tuple[str, frozenset[str]]] = {}

    def ask(self, zone: Mapping[str, tuple[str, ...]]) -> Ask:
        """One unit of the name of each label's allowed values."""
        return Ask(here={self._name(label, values): 1.0 for label, values in zone.items()})

    def box_began_anew(self, box: FleetBox) -> None:
        """A box joined, or forgot its names."""
        self._boxes[box.name] = box
        for name, (label, values) in self._zones.items():
            if box.label(label) in values:
                self._matcher.set_resource(name, UNBOUNDED, box.name)

    def _name(self, label: str, values: tuple[str, ...]) -> str:
        name = f"zone:{label}={'|'.join(sorted(set(values)))}"
        if name not in self._zones:
            allowed = frozenset(values)
            self._zones[name] = (label, allowed)
            for box in self._boxes.values():
                if box.label(label) in allowed:
                    self._matcher.set_resource(name, UNBOUNDED, box.name)
        return name

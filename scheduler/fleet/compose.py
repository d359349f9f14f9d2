"""The demand of one task, and how the answers of several schedulers are joined.

AND adds demand vectors (`all_of`). OR is a list of such sums that are tried in turn (`scheduler.fleet.soft`). Nesting
needs nothing of its own: a parent offers names while it holds real resources, and its children ask for those names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from edge.core.fleet import Avoidance


@dataclass(frozen=True)
class Ask:
    """Names on the box where the task runs (`here`), names of the fleet as a whole (`fleet`), groups that the task
    joins (`groups`)."""

    here: Mapping[str, float] = field(default_factory=dict)
    fleet: Mapping[str, float] = field(default_factory=dict)
    groups: tuple[Avoidance, ...] = ()


def all_of(*asks: Ask) -> Ask:
    """Everything that the asks ask for, at once."""
    here: dict[str, float] = {}
    fleet: dict[str, float] = {}
    for ask in asks:
        for name, amount in ask.here.items():
            here[name] = here.get(name, 0.0) + amount
        for name, amount in ask.fleet.items():
            fleet[name] = fleet.get(name, 0.0) + amount
    return Ask(here, fleet, tuple(dict.fromkeys(group for ask in asks for group in ask.groups)))

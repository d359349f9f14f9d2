"""How alarms and objects are handed to other systems."""

from __future__ import annotations

from typing import Protocol

from edge.outputs.messages import Told


class Deliver(Protocol):
    """Hands what happened to other systems; never waits."""

    def __call__(self, told: Told) -> None:
        """An alarm as it is now, or a change of an object."""

"""How alarms and objects are handed to other systems."""

from __future__ import annotations

from typing import Protocol

from edge.outputs.messages import OutputEvent


class Deliver(Protocol):
    """Hands what happened to other systems; never waits."""

    def __call__(self, event: OutputEvent) -> None:
        """An alarm as it is now, or a change of an object."""

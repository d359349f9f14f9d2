"""The service of forecasts. Values are edge.appliance.answers.capacity; errors are edge.core.errors."""

from __future__ import annotations

from typing import Protocol

from edge.appliance.answers.capacity import CapacityAnswer
from edge.core.capacity import BoxChange


class CapacityService(Protocol):
    """Part of `edge.appliance.service.ApplianceService`."""

    async def all(self) -> CapacityAnswer:
        """The kept forecasts with what came of them, and the one that is being made."""

    async def ask(self, change: BoxChange, windows: int, by: str) -> CapacityAnswer:
        """Begin a forecast from the newest `windows` windows; it is kept when it is there (`all`). Raises Conflict (one
        is being made, too few windows), InvalidValue (a camera that is not there)."""

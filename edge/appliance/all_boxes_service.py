"""The service of all boxes of the fleet as one. Values are edge.appliance.answers.fleet_wide; errors are
edge.core.errors. A box that is in no fleet answers for itself alone.
"""

from __future__ import annotations

from typing import Protocol

from edge.appliance.answers.fleet_wide import (
    BoxFoundAnswer,
    FleetAlarmsAnswer,
    FleetAuditAnswer,
    FleetBoxesAnswer,
    FleetEventsAnswer,
    FleetObjectsAnswer,
    FleetWallAnswer,
)
from edge.core.access import Principal
from edge.core.fleet_questions import BoxQuestion, RowFilter


class AllBoxesService(Protocol):
    """Part of `edge.appliance.service.ApplianceService`. Every answer names the boxes that did not answer; none waits
    longer than some seconds. `cursor` from the page before (empty: the first page); InvalidValue for another."""

    async def wall(self, who: Principal) -> FleetWallAnswer:
        """The cameras that the user may see."""

    async def boxes(self, who: Principal) -> FleetBoxesAnswer:
        """How the boxes are: version, shares, lending."""

    async def picture(self, who: Principal, box: str, camera: str, width: int) -> bytes:
        """The newest picture of a camera (JPEG). Raises NotFound, Unavailable."""

    async def alarms(self, who: Principal, rows: RowFilter, cursor: str) -> FleetAlarmsAnswer:
        """Alarms, newest first. Raises InvalidValue."""

    async def objects(self, who: Principal, rows: RowFilter, cursor: str) -> FleetObjectsAnswer:
        """Followed objects, newest first. Raises InvalidValue."""

    async def events(self, who: Principal, rows: RowFilter, cursor: str) -> FleetEventsAnswer:
        """Journals, newest first. Raises InvalidValue."""

    async def audit(self, who: Principal, rows: RowFilter, cursor: str) -> FleetAuditAnswer:
        """Changes, newest first. Raises InvalidValue, Forbidden."""

    async def answer(self, question: BoxQuestion) -> BoxFoundAnswer:
        """The rows of this box for a user of another one. Raises Forbidden, StoreError."""

"""Orders that were carried out, for the audit of this box's appliance: of the box where an order was given, and of the
head."""

from __future__ import annotations

import logging
from collections import deque
from typing import Final

from edge.core.errors import MagpieError, Unavailable
from edge.core.fleet_links import FleetOrder
from edge.fleet.appliance_client import ApplianceClient

log = logging.getLogger(__name__)

#: While the appliance is away so many are kept; an agent that ends loses them.
_KEPT: Final = 100


class OrderRecords:
    """Orders that the appliance of `me` has not recorded yet."""

    def __init__(self, me: str, appliance: ApplianceClient) -> None:
        self._me, self._appliance = me, appliance
        self._waiting: deque[tuple[FleetOrder, str]] = deque(maxlen=_KEPT)

    def add(self, order: FleetOrder, sender: str) -> None:
        """An order that came by the box `sender` was carried out."""
        if order.by and sender == self._me:
            return  # the appliance gave it itself, and has recorded it
        if len(self._waiting) == _KEPT:
            log.error("the audit misses an order: %s %s", self._waiting[0][0].kind, self._waiting[0][0].box)
        self._waiting.append((order, sender))

    async def hand_in(self) -> None:
        """Tell the appliance the orders that it does not know. One that it refuses is logged."""
        while self._waiting:
            order, sender = self._waiting[0]
            try:
                await self._appliance.record(order, sender)
            except Unavailable:  # the next beat tries again
                return
            except MagpieError as error:
                log.error("the audit misses an order: %s %s: %s", order.kind, order.box, error)
            self._waiting.popleft()

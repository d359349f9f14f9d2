"""An order to end that comes while a worker of one job is busy."""

from __future__ import annotations

from typing import Any

from edge.runtime import messages as m
from edge.runtime.process import Channel, Retire, Stop


class OrderToEnd:
    """`order` is the first that has come; None: none has. Other orders are dropped."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.order: Any = None

    def look(self) -> bool:
        """Whether one has come."""
        while self.order is None and (order := self._channel.receive()) is not None:
            if isinstance(order, Stop | Retire | m.FinishNow):
                self.order = order
        return self.order is not None

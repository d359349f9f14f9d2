"""The thread that plans the serving: it hands events to the reorganiser and has the instructions carried out.

Planning may take a while and runs in a thread, one event after the other, so that instructions are carried out in the
order in which they were decided. The event loop reads `PlanningThread.view`, never the reorganiser itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable

from edge.core.errors import MagpieError
from edge.runtime.serving_status import View, look
from scheduler.gpulets import reorganiser_events as r
from scheduler.gpulets.reorganiser import Reorganiser

log = logging.getLogger(__name__)

#: `next_decision` waits at most so long, in seconds.
_NEXT_S = 1.0


class PlanningThread:
    """`complain(code, message)` tells the operator of a plan that could not be made or carried out."""

    def __init__(self, reorganiser: Reorganiser, complain: Callable[[str, str], None]) -> None:
        self._reorganiser, self._complain = reorganiser, complain
        #: The reorganiser after the last event that it has decided on.
        self.view = View()
        self._events: asyncio.Queue[r.Event] = asyncio.Queue()
        self._decided = asyncio.Event()
        self._closed = self._at_work = False

    def send(self, event: r.Event) -> None:
        """Hand an event to the reorganiser; its instructions are carried out soon after."""
        if not self._closed:
            self._events.put_nowait(event)

    def close(self) -> None:
        """Serving ends: no further event is taken."""
        self._closed = True

    @property
    def idle(self) -> bool:
        """No event waits for its turn, and none is being decided on or carried out."""
        return self._events.empty() and not self._at_work

    async def run(self, carry_out: Callable[[r.Instruction], None]) -> None:
        """Decide on each event and carry out its instructions, until it is cancelled."""
        while True:
            event = await self._events.get()
            self._at_work = True
            try:
                await self._decide(event, carry_out)
            finally:
                self._at_work = False
            self._decided.set()

    async def _decide(self, event: r.Event, carry_out: Callable[[r.Instruction], None]) -> None:
        try:
            orders = await asyncio.to_thread(self._reorganiser.handle, event)
        except Exception as error:
            # A policy that fails must not end the serving of what is served; people get a notice.
            log.exception("reorganiser: %s", type(event).__name__)
            self._complain("serving_plan", f"no new serving plan: {error}")
            return
        self.view = look(self._reorganiser)
        for order in orders:
            try:
                carry_out(order)
            except MagpieError as error:
                self._complain(error.code, str(error))
            except Exception as error:  # one order that fails must not end the reorganising
                log.exception("reorganiser: %s", type(order).__name__)
                self._complain("internal", f"{type(order).__name__} failed: {error}")

    async def next_decision(self) -> None:
        """Wait until one more event is decided on, at most a second."""
        self._decided.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_NEXT_S):
                await self._decided.wait()

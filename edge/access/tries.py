"""Tries to log in: those that come too often wait, and those that are refused are logged and audited."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from edge.access.limits import LoginLimit
from edge.access.records import Records
from edge.core.access import Requester
from edge.core.clock import Clock
from edge.core.errors import MagpieError, TooManyTries

log = logging.getLogger(__name__)

_REFUSED_PER_MINUTE: Final = 20


class LoginTries:
    """A flood of refused logins leaves few records: the others are counted."""

    def __init__(self, records: Records, clock: Clock) -> None:
        self._records, self._clock = records, clock
        self.limit = LoginLimit()
        self._refused_since_s, self._refused_recorded, self._refused_more = clock.monotonic(), 0, 0

    async def begin(self, name: str, address: str, shown: str = "") -> None:
        """Count a try before it is known whether it succeeds; `shown` stands for the name in records. Raises
        TooManyTries."""
        now_s = self._clock.monotonic()
        wait_s = self.limit.wait_s(name, address, now_s)
        if wait_s > 0:
            await self.refuse(shown or name, address, "too many tries", {"retry_after_s": round(wait_s)})
            raise TooManyTries("too many logins were refused: wait before the next try", wait_s)
        self.limit.tried(name, address, now_s)

    async def refuse(self, name: str, address: str, why: str, more: Mapping[str, Any] | None = None) -> None:
        """Log and audit a refused login; a flood is counted, and its number recorded once a minute."""
        shown = "".join(c if c.isprintable() else "?" for c in name)[:64]
        now_s = self._clock.monotonic()
        if now_s - self._refused_since_s >= 60.0:
            await self.record_rest()
            self._refused_since_s, self._refused_recorded = now_s, 0
        if self._refused_recorded >= _REFUSED_PER_MINUTE:
            self._refused_more += 1
            return
        self._refused_recorded += 1
        log.warning("login refused: %s as %r from %s", why, shown, address)
        await self._keep_refused([(Requester(shown, address), {"reason": why, **(more or {})})])

    async def record_rest(self) -> None:
        """Record how many refused logins were too many to be recorded one by one."""
        more, self._refused_more = self._refused_more, 0
        if more:
            log.warning("%d more logins were refused", more)
            await self._keep_refused([(Requester("(several)"), {"reason": "more refused logins", "count": more})])

    async def _keep_refused(self, records: list[tuple[str, dict[str, Any] | None]]) -> None:
        try:
            await asyncio.to_thread(self._records.refused, records)
        except MagpieError as error:
            log.error("a refused login cannot be recorded: %s", error)

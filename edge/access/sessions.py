"""Sessions that browsers are logged in with: listed, and ended."""

from __future__ import annotations

import asyncio
from typing import Any

from edge.access.credentials import Credential
from edge.access.directory import Directory, governs
from edge.access.records import Records
from edge.core.access import Principal
from edge.core.clock import Clock
from edge.core.errors import Forbidden, NotFound


class Sessions:
    """Use from one event loop. Raises the store's errors beside what each method says."""

    def __init__(self, records: Records, clock: Clock, directory: Directory) -> None:
        self._records, self._clock, self._directory = records, clock, directory

    async def logout(self, caller: Principal, by: str) -> None:
        """End the caller's session. Raises Forbidden for a token."""
        if caller.kind != "session":
            raise Forbidden("only a session is logged out; a token is deleted")
        await self.end(caller, caller.id, by, "logged out")

    async def end(self, caller: Principal, session: str, by: str, what: str = "session ended") -> None:
        """By its shown id: one's own, or for an admin anybody's; none for a token of less. Raises NotFound."""
        found = next((s for s in (await self._directory.everybody()).sessions.values() if s.id == session), None)
        if found is None or not governs(caller, found.owner):
            raise NotFound("there is no such session")
        await asyncio.to_thread(self._records.end_session, found.id, by, what)
        await self._directory.changed()

    async def of(self, caller: Principal) -> list[dict[str, Any]]:
        """The caller's (an admin's: everybody's; none for a token of less), the latest used first; `current` marks the
        one that asks."""
        now, everybody = self._clock.utc(), await self._directory.everybody()
        shown = []
        for s in everybody.sessions.values():
            credential = Credential("session", s.hash)
            if self._directory.of_session(everybody, credential, now) is None:
                continue
            if governs(caller, s.owner):
                used = max(s.last_used_utc_s, self._directory.last_seen(credential) or 0.0)
                shown.append(s.to_json() | {"last_used_utc_s": used, "current": s.id == caller.id})
        return sorted(shown, key=lambda s: -s["last_used_utc_s"])

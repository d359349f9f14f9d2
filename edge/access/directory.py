"""Users, tokens and sessions as they are now: the copy in memory that decides every request.

It is read anew every two seconds, or at once after a change made here; so a command that changes users in the database
while the appliance runs is in force within two seconds, and a database that is away for a while locks no user out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from edge.access.credentials import Credential
from edge.access.records import Everybody, Records, Session, User
from edge.core.access import Principal, narrowed
from edge.core.clock import Clock
from edge.core.errors import MagpieError

log = logging.getLogger(__name__)

_FRESH_S: Final = 2.0
#: A token or session that is not known is looked for in the database at most so often.
LOOK_AGAIN_S: Final = 0.25
#: A request waits so long for the database, and then goes on with what was read before.
PATIENCE_S: Final = 1.0
_WRITE_USE_S: Final = 60.0


class Directory:
    """A session ends when it was not used for `idle_s`. `beside_use` is awaited once a minute, when the last uses are
    written. A request waits `patience_s` for the database. Use from one event loop."""

    def __init__(
        self,
        records: Records,
        clock: Clock,
        idle_s: float,
        beside_use: Callable[[], Awaitable[None]],
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._records, self._clock, self._idle_s, self._beside_use = records, clock, idle_s, beside_use
        self.patience_s = patience_s
        self._now: Everybody | None = None
        self._read_at_s = 0.0
        self._reading = asyncio.Lock()
        self._look: asyncio.Task[None] | None = None
        self._away = False
        self._listeners: list[Callable[[], None]] = []
        self._used: dict[Credential, float] = {}
        self._wrote_use_at_s = clock.monotonic()

    def when_changed(self, listener: Callable[[], None]) -> None:
        """`listener` is called after each change of users, tokens or sessions that is made here."""
        self._listeners.append(listener)

    async def who(self, credential: Credential | None) -> Principal | None:
        """The credential's owner, with the rights of now; None: unknown, over or revoked, or its user disabled."""
        if credential is None:
            return None
        everybody = await self.everybody(_FRESH_S)
        if not _known(everybody, credential):
            everybody = await self.everybody(LOOK_AGAIN_S)
        now = self._clock.utc()
        found = (
            self.of_session(everybody, credential, now)
            if credential.kind == "session"
            else _of_token(everybody, credential.hash, now)
        )
        if found is not None:
            self._used[credential] = now
        return found

    def last_seen(self, credential: Credential) -> float | None:
        """When the credential was last used, in UTC seconds; None: its row in the database says it."""
        return self._used.get(credential)

    def of_session(self, everybody: Everybody, credential: Credential, now: float) -> Principal | None:
        """The owner of a session at `now` (UTC seconds); None: there is none."""
        session = everybody.sessions.get(credential.hash)
        if session is None:
            return None
        user = everybody.users.get(session.owner)
        used = max(session.last_used_utc_s, self._used.get(credential, 0.0))
        if user is None or user.disabled or now >= session.expires_utc_s or now >= used + self._idle_s:
            return None
        return principal_of(user, session)

    async def everybody(self, fresh_s: float = _FRESH_S) -> Everybody:
        """All users, tokens and sessions, not older than `fresh_s` unless the database is away or takes long."""
        if self._stale(fresh_s):
            if self._look is None or self._look.done():
                self._look = asyncio.create_task(self._read_if(fresh_s), name="users")
            if self._now is None:
                await asyncio.shield(self._look)
            else:
                # A server that does not answer holds a reading for seconds: no request shall wait for that.
                await asyncio.wait((self._look,), timeout=0.0 if self._away else self.patience_s)
                if self._look.done():
                    self._look.result()
        assert self._now is not None
        return self._now

    def _stale(self, fresh_s: float) -> bool:
        return self._now is None or self._clock.monotonic() - self._read_at_s >= fresh_s

    async def _read_if(self, fresh_s: float) -> None:
        async with self._reading:
            if self._stale(fresh_s):
                await self._read()

    async def _read(self) -> None:
        await self._write_use()
        at_s = self._clock.monotonic()
        try:
            self._now = await asyncio.to_thread(self._records.everybody)
            self._away = False
        except MagpieError as error:
            if self._now is None:
                raise
            if not self._away:
                log.warning("users cannot be read, going on with what was read before: %s", error)
            self._away, at_s = True, self._clock.monotonic()
        self._read_at_s = at_s

    async def _write_use(self) -> None:
        """Once a minute: when sessions and tokens were last used, and the refused logins that were too many."""
        now_s = self._clock.monotonic()
        if now_s - self._wrote_use_at_s < _WRITE_USE_S:
            return
        self._wrote_use_at_s = now_s
        used = self._used
        parts: tuple[dict[str, float], dict[str, float]] = ({}, {})
        for credential, at in used.items():
            parts[credential.kind == "token"][credential.hash] = at
        try:
            await asyncio.to_thread(self._records.used, *parts, self._clock.utc() - self._idle_s)
            # Changes of the meantime stay; the written ones are in the rows from the next reading on.
            self._used = {c: at for c, at in self._used.items() if used.get(c) != at or self._unwritten(c, at)}
        except MagpieError as error:
            log.warning("the last use of sessions cannot be written: %s", error)
        await self._beside_use()

    def _unwritten(self, credential: Credential, at: float) -> bool:
        # A session's use decides its end, so it is kept here until a reading shows it.
        if self._now is None or credential.kind != "session":
            return False
        session = self._now.sessions.get(credential.hash)
        return session is not None and session.last_used_utc_s < at

    async def changed(self) -> None:
        """Read anew at once, and call the listeners."""
        async with self._reading:
            await self._read()
        for listener in self._listeners:
            listener()


def principal_of(user: User, session: Session) -> Principal:
    """The principal that uses the session."""
    return Principal(
        user.name, user.role, user.cameras, "session", session.id, session.expires_utc_s, user.must_change, user.tenants
    )  # fmt: skip


def governs(caller: Principal, owner: str) -> bool:
    """Whether the owner's sessions and tokens are the caller's to see and to end. A token that was given to a program
    may be for much less than its user may, so the user's others are not its."""
    own = owner == caller.name and caller.kind != "token"
    return own or (caller.may("admin") and caller.sees_all)


def _known(everybody: Everybody, credential: Credential) -> bool:
    return credential.hash in (everybody.sessions if credential.kind == "session" else everybody.tokens)


def _of_token(everybody: Everybody, hashed: str, now: float) -> Principal | None:
    token = everybody.tokens.get(hashed)
    if token is None or (token.expires_utc_s is not None and now >= token.expires_utc_s):
        return None
    user = everybody.users.get(token.owner)
    if user is None or user.disabled:
        return None
    role, cameras = narrowed(user.role, user.cameras, token.role, token.cameras)
    # A token is for the tenants of its user.
    return Principal(
        user.name, role, cameras, "token", token.id, expires_utc_s=token.expires_utc_s, tenants=user.tenants
    )

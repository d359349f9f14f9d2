"""Who may come in: logins, sessions, tokens and one-time links, over the records in the database.

What decides a request is kept in memory and read anew every two seconds, or at once after a change made here; so a
command that changes users in the database while the appliance runs is in force within two seconds, and a database that
is away for a while locks nobody out.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from edge.access.limits import LoginLimit
from edge.access.passwords import Passwords
from edge.access.records import Everybody, Records, Session, Token, User
from edge.core.access import (
    Asker,
    Principal,
    Role,
    camera_limit,
    cameras_json,
    checked_password,
    checked_role,
    label,
    narrowed,
    user_name,
)
from edge.core.checks import known_keys
from edge.core.clock import Clock
from edge.core.errors import Forbidden, InvalidValue, MagpieError, NotFound, NotLoggedIn, TooManyTries
from edge.store.database import Database

log = logging.getLogger(__name__)

TOKEN_MARK: Final = "mgp_"
_SHOWN: Final = len(TOKEN_MARK) + 6
_FRESH_S: Final = 2.0
#: A token or session that is not known is looked for in the database at most so often.
_LOOK_AGAIN_S: Final = 0.25
#: A request waits so long for the database, and then goes on with what was read before.
_PATIENCE_S: Final = 1.0
_WRITE_USE_S: Final = 60.0
_REFUSED_PER_MINUTE: Final = 20
LINK_S: Final = 24 * 3600.0
MAX_TOKEN_DAYS: Final = 3650.0


def digest(secret: str) -> str:
    """What is kept of a token, session or link: they are random, so one SHA-256 is enough."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


@dataclass(frozen=True)
class Credential:
    """What a request shows: a session's or a token's, by its hash."""

    kind: str
    hash: str

    @classmethod
    def session(cls, secret: str) -> Credential:
        """Of a session's secret."""
        return cls("session", digest(secret))

    @classmethod
    def token(cls, secret: str) -> Credential:
        """Of an API token."""
        return cls("token", digest(secret))


@dataclass(frozen=True)
class LoggedIn:
    """A new session: `secret` goes into the cookie and nowhere else."""

    principal: Principal
    secret: str
    csrf: str
    expires_utc_s: float


@dataclass(frozen=True)
class Rules:
    """How long logins last: a session ends `session_s` after the login, or when not used for `idle_s`."""

    session_s: float = 12 * 3600.0
    idle_s: float = 4 * 3600.0


class Access:
    """Use from one event loop. Raises the store's errors beside what each method says."""

    def __init__(
        self, database: Database, clock: Clock, rules: Rules | None = None, passwords: Passwords | None = None
    ) -> None:
        self.records = Records(database, clock)
        self.rules = rules or Rules()
        self._clock = clock
        self._passwords = passwords or Passwords()
        self._limit = LoginLimit()
        self._now: Everybody | None = None
        self._read_at_s = 0.0
        self._reading = asyncio.Lock()
        self._look: asyncio.Task[None] | None = None
        self._away = False
        self._listeners: list[Callable[[], None]] = []
        self._used: dict[Credential, float] = {}
        self._wrote_use_at_s = clock.monotonic()
        self._refused: list[tuple[str, dict[str, Any] | None]] = []
        self._refused_since_s, self._refused_recorded, self._refused_more = clock.monotonic(), 0, 0

    def when_changed(self, told: Callable[[], None]) -> None:
        """`told` is called after each change of users, tokens or sessions that is made here."""
        self._listeners.append(told)

    # -- who is it?

    async def who(self, credential: Credential | None) -> Principal | None:
        """Whose the credential is, with the rights of now; None: nobody's (unknown, over, revoked, user disabled)."""
        if credential is None:
            return None
        everybody = await self.everybody(_FRESH_S)
        if not _known(everybody, credential):
            everybody = await self.everybody(_LOOK_AGAIN_S)
        now = self._clock.utc()
        found = (
            self._of_session(everybody, credential, now)
            if credential.kind == "session"
            else _of_token(everybody, credential.hash, now)
        )
        if found is not None:
            self._used[credential] = now
        return found

    def _of_session(self, everybody: Everybody, credential: Credential, now: float) -> Principal | None:
        session = everybody.sessions.get(credential.hash)
        if session is None:
            return None
        user = everybody.users.get(session.owner)
        used = max(session.last_used_utc_s, self._used.get(credential, 0.0))
        if user is None or user.disabled or now >= session.expires_utc_s or now >= used + self.rules.idle_s:
            return None
        return Principal(user.name, user.role, user.cameras, "session", session.id, session.expires_utc_s)

    async def everybody(self, fresh_s: float = _FRESH_S) -> Everybody:
        """All users, tokens and sessions, not older than `fresh_s` unless the database is away or takes long."""
        if self._stale(fresh_s):
            if self._look is None or self._look.done():
                self._look = asyncio.create_task(self._read_if(fresh_s), name="users")
            if self._now is None:
                await asyncio.shield(self._look)
            else:
                # A server that does not answer holds a reading for seconds: that is nobody's request's to wait for.
                await asyncio.wait((self._look,), timeout=0.0 if self._away else _PATIENCE_S)
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
            self._now = await asyncio.to_thread(self.records.everybody)
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
            await asyncio.to_thread(self.records.used, *parts, self._clock.utc() - self.rules.idle_s)
            # What came meanwhile stays; what was written is in the rows from the next reading on.
            self._used = {c: at for c, at in self._used.items() if used.get(c) != at or self._unwritten(c, at)}
        except MagpieError as error:
            log.warning("the last use of sessions cannot be written: %s", error)
        await self._record_refused()

    def _unwritten(self, credential: Credential, at: float) -> bool:
        # A session's use decides its end, so it is kept here until a reading shows it.
        if self._now is None or credential.kind != "session":
            return False
        session = self._now.sessions.get(credential.hash)
        return session is not None and session.last_used_utc_s < at

    async def changed(self) -> None:
        """Read anew at once, and tell who listens."""
        async with self._reading:
            await self._read()
        for told in self._listeners:
            told()

    @staticmethod
    def csrf(secret: str) -> str:
        """The CSRF token of a session: of no use without its cookie, and not to be told from it."""
        return hmac.new(secret.encode("utf-8", "surrogateescape"), b"magpie csrf", hashlib.sha256).hexdigest()

    def csrf_fits(self, secret: str, given: str) -> bool:
        """Whether the token is that of the session, compared in constant time."""
        return hmac.compare_digest(self.csrf(secret).encode(), given.encode("utf-8", "surrogateescape"))

    # -- coming in

    async def login(self, name: object, password: object, address: str, agent: str) -> LoggedIn:
        """By name and password. Raises NotLoggedIn (the same for a wrong name, password and a disabled user, after
        the same work), TooManyTries, InvalidValue (no text)."""
        if not isinstance(name, str) or not isinstance(password, str):
            path = "name" if not isinstance(name, str) else "password"
            raise InvalidValue(path, "(not shown)", "a text")
        known = name.strip().lower()[:64]
        await self._try(known, address)
        user = (await self.everybody()).users.get(known)
        kept = None if user is None or user.disabled else user.password
        if not await self._passwords.check(kept, password[:1024]) or user is None or kept is None:
            await self._refuse(known, address, "wrong name or password")
            raise NotLoggedIn("name or password is wrong")
        self._limit.succeeded(known, address)
        if self._passwords.outdated(kept):
            await asyncio.to_thread(self.records.new_hash, user.name, await self._passwords.make(password))
        return await self._begin(user, address, agent, "logged in")

    async def login_link(self, link: object, address: str, agent: str) -> LoggedIn:
        """By a one-time link. Raises NotLoggedIn, TooManyTries, InvalidValue."""
        if not isinstance(link, str):
            raise InvalidValue("token", "(not shown)", "a text")
        await self._try("(link)", address)
        try:
            user = await asyncio.to_thread(self.records.use_login_link, digest(link))
        except NotFound:
            await self._refuse("(link)", address, "a link that is not valid")
            raise NotLoggedIn("the link is not valid: it was used, or its time is over") from None
        self._limit.succeeded("(link)", address)
        return await self._begin(user, address, agent, "logged in by a one-time link")

    async def setup(self, link: object, name: object, password: object, address: str, agent: str) -> LoggedIn:
        """Make the first admin by the set-up link, and log in. Raises NotLoggedIn (link), TooManyTries, InvalidValue,
        Conflict (set up already)."""
        if not isinstance(link, str):
            raise InvalidValue("token", "(not shown)", "a text")
        user = user_name("name", name)
        good = checked_password("password", password, user)
        await self._try("(set-up)", address)
        made = await self._passwords.make(good)
        try:
            first = await asyncio.to_thread(self.records.first_admin, digest(link), user, made, Asker(user, address))
        except NotFound:
            await self._refuse("(set-up)", address, "a set-up link that is not valid")
            raise NotLoggedIn("the set-up link is not valid: `magpie user setup-link` makes another") from None
        self._limit.succeeded("(set-up)", address)
        return await self._begin(first, address, agent, "logged in")

    async def setup_open(self) -> bool:
        """Whether there is no admin yet."""
        return (await self.everybody()).setup_open

    async def _begin(self, user: User, address: str, agent: str, how: str) -> LoggedIn:
        secret, now = secrets.token_urlsafe(32), self._clock.utc()
        shown = "".join(c if c.isprintable() else "?" for c in agent)[:200]
        session = Session(
            secrets.token_hex(8), digest(secret), user.name, address, shown, now, now, now + self.rules.session_s
        )
        await asyncio.to_thread(self.records.add_session, session, Asker(user.name, address), how)
        await self.changed()
        principal = Principal(user.name, user.role, user.cameras, "session", session.id, session.expires_utc_s)
        return LoggedIn(principal, secret, self.csrf(secret), session.expires_utc_s)

    async def _try(self, name: str, address: str) -> None:
        now_s = self._clock.monotonic()
        wait_s = self._limit.wait_s(name, address, now_s)
        if wait_s > 0:
            await self._refuse(name, address, "too many tries", {"retry_after_s": round(wait_s)})
            raise TooManyTries("too many logins were refused: wait before the next try", wait_s)
        self._limit.tried(name, address, now_s)

    async def _refuse(self, name: str, address: str, why: str, more: Mapping[str, Any] | None = None) -> None:
        """Log and audit a refused login; a flood is counted, and its number recorded once a minute."""
        shown = "".join(c if c.isprintable() else "?" for c in name)[:64]
        now_s = self._clock.monotonic()
        if now_s - self._refused_since_s >= 60.0:
            await self._record_refused()
            self._refused_since_s, self._refused_recorded = now_s, 0
        if self._refused_recorded >= _REFUSED_PER_MINUTE:
            self._refused_more += 1
            return
        self._refused_recorded += 1
        log.warning("login refused: %s as %r from %s", why, shown, address)
        await self._keep_refused([(Asker(shown, address), {"reason": why, **(more or {})})])

    async def _record_refused(self) -> None:
        more, self._refused_more = self._refused_more, 0
        if more:
            log.warning("%d more logins were refused", more)
            await self._keep_refused([(Asker("(several)"), {"reason": "more refused logins", "count": more})])

    async def _keep_refused(self, records: list[tuple[str, dict[str, Any] | None]]) -> None:
        try:
            await asyncio.to_thread(self.records.refused, records)
        except MagpieError as error:
            log.error("a refused login cannot be recorded: %s", error)

    # -- going out

    async def logout(self, caller: Principal, by: str) -> None:
        """End the caller's session. Raises Forbidden for a token."""
        if caller.kind != "session":
            raise Forbidden("only a session is logged out; a token is deleted")
        await self.end_session(caller, caller.id, by, "logged out")

    async def end_session(self, caller: Principal, session: str, by: str, what: str = "session ended") -> None:
        """By its shown id: one's own, or for an admin anybody's; none for a token of less. Raises NotFound."""
        found = next((s for s in (await self.everybody()).sessions.values() if s.id == session), None)
        if found is None or not _rules(caller, found.owner):
            raise NotFound("there is no such session")
        await asyncio.to_thread(self.records.end_session, found.id, by, what)
        await self.changed()

    async def sessions(self, caller: Principal) -> list[dict[str, Any]]:
        """The caller's (an admin's: everybody's; none for a token of less), the latest used first; `current` marks the
        one that asks."""
        now, everybody = self._clock.utc(), await self.everybody()
        shown = []
        for s in everybody.sessions.values():
            credential = Credential("session", s.hash)
            if self._of_session(everybody, credential, now) is None:
                continue
            if _rules(caller, s.owner):
                used = max(s.last_used_utc_s, self._used.get(credential, 0.0))
                shown.append(s.to_json() | {"last_used_utc_s": used, "current": s.id == caller.id})
        return sorted(shown, key=lambda s: -s["last_used_utc_s"])

    # -- users

    async def users(self) -> list[dict[str, Any]]:
        """Every user, by name."""
        found = (await self.everybody(_LOOK_AGAIN_S)).users
        return [found[name].to_json() for name in sorted(found)]

    async def user(self, name: str) -> dict[str, Any]:
        """One user. Raises NotFound."""
        return (await asyncio.to_thread(self.records.user, name)).to_json()

    async def add_user(self, given: Mapping[str, Any], by: str) -> dict[str, Any]:
        """{"name", "role", "cameras"?, "password"}. Raises InvalidValue, Conflict."""
        known_keys("", given, ("name", "role", "cameras", "password"))
        name = user_name("name", given.get("name"))
        role = checked_role("role", given.get("role"))
        cameras = camera_limit("cameras", given.get("cameras"))
        made = await self._passwords.make(checked_password("password", given.get("password"), name))
        user = await asyncio.to_thread(self.records.add_user, name, role, cameras, made, True, by)
        await self.changed()
        return user.to_json()

    async def change_user(self, name: str, given: Mapping[str, Any], by: str) -> dict[str, Any]:
        """Any of {"role", "cameras", "password", "disabled"}; a new password ends the user's sessions. Raises
        InvalidValue, NotFound, Conflict (the last admin)."""
        known_keys("", given, ("role", "cameras", "password", "disabled"))
        changes: dict[str, Any] = {}
        if "role" in given:
            changes["role"] = checked_role("role", given["role"])
        if "cameras" in given:
            changes["cameras"] = camera_limit("cameras", given["cameras"])
        if "disabled" in given:
            if not isinstance(given["disabled"], bool):
                raise InvalidValue("disabled", given["disabled"], "true or false")
            changes["disabled"] = given["disabled"]
        before = await asyncio.to_thread(self.records.user, name)
        if "password" in given:
            changes["password"] = await self._passwords.make(checked_password("password", given["password"], name))
            changes["must_change"] = name != by
        if not changes:
            return before.to_json()
        user = await asyncio.to_thread(self.records.change_user, name, changes, by, "password" in changes)
        await self.changed()
        return user.to_json()

    async def change_own_password(self, caller: Principal, current: object, new: object, address: str) -> None:
        """Ends the user's other sessions. Raises Forbidden (not a session), NotLoggedIn (the present password is
        wrong), TooManyTries, InvalidValue."""
        if caller.kind != "session":
            raise Forbidden("a password is changed by whoever is logged in with it")
        if not isinstance(current, str):
            raise InvalidValue("current", "(not shown)", "a text")
        good = checked_password("new", new, caller.name)
        await self._try(caller.name, address)
        user = await asyncio.to_thread(self.records.user, caller.name)
        # Whoever came in by a link has no password yet.
        if user.password is not None and not await self._passwords.check(user.password, current[:1024]):
            await self._refuse(caller.name, address, "wrong present password")
            raise InvalidValue("current", "(not shown)", "the present password")
        self._limit.succeeded(caller.name, address)
        changes = {"password": await self._passwords.make(good), "must_change": False}
        await asyncio.to_thread(self.records.change_user, caller.name, changes, Asker(caller.name, address))
        await asyncio.to_thread(self.records.end_other_sessions, caller.name, caller.id)
        await self.changed()

    async def remove_user(self, name: str, by: str) -> None:
        """With sessions and tokens. Raises NotFound, Conflict (the last admin)."""
        await asyncio.to_thread(self.records.remove_user, name, by)
        await self.changed()

    async def must_change(self, caller: Principal) -> bool:
        """Whether somebody else set the caller's password."""
        user = (await self.everybody()).users.get(caller.name)
        return user is not None and user.must_change and caller.kind == "session"

    # -- tokens

    async def tokens(self, caller: Principal) -> list[dict[str, Any]]:
        """The caller's (an admin's: everybody's; to a token of less: itself), the newest first."""
        found = (await self.everybody(_LOOK_AGAIN_S)).tokens.values()
        mine = [k for k in found if _rules(caller, k.owner) or _is(caller, k)]
        return [self._token_json(k) for k in sorted(mine, key=lambda k: (-k.created_utc_s, k.id))]

    def _token_json(self, token: Token) -> dict[str, Any]:
        used = self._used.get(Credential("token", token.hash), token.last_used_utc_s)
        return token.to_json() | {"last_used_utc_s": used}

    async def add_token(self, caller: Principal, given: Mapping[str, Any], by: str) -> dict[str, Any]:
        """{"name", "role"?, "cameras"?, "expires_days"?} for the caller, with no more rights than the caller has.
        The answer has the token itself, once. Raises InvalidValue, Forbidden, Conflict."""
        known_keys("", given, ("name", "role", "cameras", "expires_days"))
        name = label("name", given.get("name"))
        role = checked_role("role", given.get("role", caller.role))
        cameras = camera_limit("cameras", given.get("cameras", cameras_json(caller.cameras)))
        expires = self._expires("expires_days", given.get("expires_days"))
        if caller.kind == "open":
            raise Forbidden("nobody is logged in here: web.access is off")
        if caller.kind == "token" and not caller.may("admin"):
            raise Forbidden("a token makes no tokens, unless it is an admin's")
        if narrowed(caller.role, caller.cameras, role, cameras) != (role, cameras):
            raise Forbidden("a token may not do more than who makes it")
        token, made = new_token(caller.name, name, role, cameras, self._clock.utc(), expires)
        await asyncio.to_thread(self.records.add_token, made, by)
        await self.changed()
        return made.to_json() | {"token": token}

    def _expires(self, path: str, days: object) -> float | None:
        if days is None:
            return None
        if isinstance(days, bool) or not isinstance(days, int | float) or not 0 < days <= MAX_TOKEN_DAYS:
            raise InvalidValue(path, days, f"null (never) or a number above 0 to {MAX_TOKEN_DAYS:g}")
        return self._clock.utc() + days * 86400.0

    async def remove_token(self, caller: Principal, token: str, by: str) -> None:
        """By its shown id: one's own, or for an admin anybody's; a token of less deletes itself only. Raises
        NotFound."""
        found = next((k for k in (await self.everybody(_LOOK_AGAIN_S)).tokens.values() if k.id == token), None)
        if found is None or not (_rules(caller, found.owner) or _is(caller, found)):
            raise NotFound("there is no such token")
        await asyncio.to_thread(self.records.remove_token, token, by)
        await self.changed()

    # -- links and audit

    async def setup_link(self, by: str = "appliance", seconds: float = LINK_S) -> str:
        """A new one-time set-up link's secret; the one before is over. Raises Conflict if there is an admin."""
        return await asyncio.to_thread(make_link, self.records, "setup", None, by, seconds)

    async def login_link_for(self, name: str, by: str = "appliance", seconds: float = LINK_S) -> str:
        """A one-time link's secret that logs the user in. Raises NotFound."""
        return await asyncio.to_thread(make_link, self.records, "login", name, by, seconds)

    async def audit(self, subject: str, action: str, by: str, value: dict[str, Any] | None = None) -> None:
        """Record a change that is kept elsewhere. A failure is logged: the change was made."""
        try:
            await asyncio.to_thread(self.records.audit, subject, action, by, value)
        except MagpieError as error:
            log.error("%s %s by %s cannot be recorded: %s", subject[:100], action, by, error)


def make_link(records: Records, kind: str, owner: str | None, by: str, seconds: float = LINK_S) -> str:
    """A one-time link's secret, kept by its hash. Blocks. Raises Conflict, NotFound."""
    secret = secrets.token_urlsafe(24)
    records.add_link(digest(secret), kind, owner, seconds, by)
    return secret


def new_token(
    owner: str, name: str, role: Role, cameras: frozenset[str] | None, now: float, expires: float | None
) -> tuple[str, Token]:
    """A token, and what is kept of it."""
    secret = TOKEN_MARK + secrets.token_urlsafe(32)
    kept = Token(
        secrets.token_hex(8), owner, name, role, cameras, secret[:_SHOWN], digest(secret), now, expires, None
    )  # fmt: skip
    return secret, kept


def _rules(caller: Principal, owner: str) -> bool:
    """Whether the owner's sessions and tokens are the caller's to see and to end. A token that was given to a program
    may be for much less than its user may, so the user's others are not its."""
    own = owner == caller.name and caller.kind != "token"
    return own or (caller.may("admin") and caller.sees_all)


def _is(caller: Principal, token: Token) -> bool:
    return caller.kind == "token" and caller.id == token.id


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
    return replace(Principal(user.name, role, cameras, "token", token.id), expires_utc_s=token.expires_utc_s)

"""Coming in: by name and password, by a one-time link, or as the first admin by the set-up link."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass

from edge.access.credentials import csrf_token, digest
from edge.access.directory import Directory, principal_of
from edge.access.passwords import Passwords
from edge.access.records import Records, Session, User
from edge.access.tries import LoginTries
from edge.core.access import Principal, Requester, checked_password, user_name
from edge.core.clock import Clock
from edge.core.errors import InvalidValue, NotFound, NotLoggedIn


@dataclass(frozen=True)
class LoggedIn:
    """A new session: `secret` goes into the cookie and nowhere else."""

    principal: Principal
    secret: str
    csrf: str
    expires_utc_s: float


class Logins:
    """Each login is a session, which ends `session_s` after it. Use from one event loop."""

    def __init__(
        self,
        records: Records,
        clock: Clock,
        directory: Directory,
        passwords: Passwords,
        tries: LoginTries,
        session_s: float,
    ) -> None:
        self._records, self._clock, self._directory = records, clock, directory
        self._passwords, self._tries, self._session_s = passwords, tries, session_s

    async def by_password(self, name: object, password: object, address: str, agent: str) -> LoggedIn:
        """By name and password. Raises NotLoggedIn (the same for a wrong name, password and a disabled user, after
        the same work), TooManyTries, InvalidValue (no text)."""
        if not isinstance(name, str) or not isinstance(password, str):
            path = "name" if not isinstance(name, str) else "password"
            raise InvalidValue(path, "(not shown)", "a text")
        known = name.strip().lower()[:64]
        await self._tries.begin(known, address)
        user = (await self._directory.everybody()).users.get(known)
        kept = None if user is None or user.disabled else user.password
        if not await self._passwords.check(kept, password[:1024]) or user is None or kept is None:
            await self._tries.refuse(known, address, "wrong name or password")
            raise NotLoggedIn("name or password is wrong")
        self._tries.limit.succeeded(known, address)
        if self._passwords.outdated(kept):
            await asyncio.to_thread(self._records.new_hash, user.name, await self._passwords.make(password))
        return await self._begin(user, address, agent, "logged in")

    async def by_link(self, link: object, address: str, agent: str) -> LoggedIn:
        """By a one-time link. Raises NotLoggedIn, TooManyTries, InvalidValue."""
        if not isinstance(link, str):
            raise InvalidValue("token", "(not shown)", "a text")
        tried = _tried("(link)", link)
        await self._tries.begin(tried, address, "(link)")
        try:
            user = await asyncio.to_thread(self._records.use_login_link, digest(link))
        except NotFound:
            await self._tries.refuse("(link)", address, "a link that is not valid")
            raise NotLoggedIn("the link is not valid: it was used, or its time is over") from None
        self._tries.limit.succeeded(tried, address)
        return await self._begin(user, address, agent, "logged in by a one-time link")

    async def by_setup_link(self, link: object, name: object, password: object, address: str, agent: str) -> LoggedIn:
        """Make the first admin by the set-up link, and log in. Raises NotLoggedIn (link), TooManyTries, InvalidValue,
        Conflict (set up already)."""
        if not isinstance(link, str):
            raise InvalidValue("token", "(not shown)", "a text")
        user = user_name("name", name)
        good = checked_password("password", password, user)
        tried = _tried("(set-up)", link)
        await self._tries.begin(tried, address, "(set-up)")
        made = await self._passwords.make(good)
        try:
            first = await asyncio.to_thread(
                self._records.first_admin, digest(link), user, made, Requester(user, address)
            )
        except NotFound:
            await self._tries.refuse("(set-up)", address, "a set-up link that is not valid")
            raise NotLoggedIn("the set-up link is not valid: `magpie user setup-link` makes another") from None
        self._tries.limit.succeeded(tried, address)
        return await self._begin(first, address, agent, "logged in")

    async def setup_open(self) -> bool:
        """Whether there is no admin yet."""
        return (await self._directory.everybody()).setup_open

    async def _begin(self, user: User, address: str, agent: str, how: str) -> LoggedIn:
        secret, now = secrets.token_urlsafe(32), self._clock.utc()
        shown = "".join(c if c.isprintable() else "?" for c in agent)[:200]
        session = Session(
            secrets.token_hex(8), digest(secret), user.name, address, shown, now, now, now + self._session_s
        )
        await asyncio.to_thread(self._records.add_session, session, Requester(user.name, address), how)
        await self._directory.changed()
        return LoggedIn(principal_of(user, session), secret, csrf_token(secret), session.expires_utc_s)


def _tried(kind: str, link: str) -> str:
    """The name under which tries of a link are counted, beside the address they come from: each link for itself, so
    that bad ones from anywhere do not shut a good one out. Guessing is bounded by the address."""
    return f"{kind} {digest(link)}"

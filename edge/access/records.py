"""Users, tokens, sessions and links in the database. Every method is one short transaction, and blocks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from edge.core.access import Role, limit_json
from edge.core.clock import Clock
from edge.core.errors import Conflict, InvalidValue, NotFound
from edge.store import tables as t
from edge.store.database import Database, retried
from edge.store.parts import words
from edge.store.unreadable import made

MAX_USERS: Final = 1000
MAX_TOKENS: Final = 100  # of one user
MAX_SESSIONS: Final = 50  # of one user; the longest unused gives way
#: Records of refused logins that are kept; the oldest go.
MAX_REFUSED: Final = 5000


@dataclass(frozen=True)
class User:
    """A user; `cameras` or `tenants` None: may see all of them. `password` is a hash, None: comes in by a link only."""

    name: str
    role: Role
    cameras: frozenset[str] | None
    tenants: frozenset[str] | None
    password: str | None
    disabled: bool
    must_change: bool
    created_utc_s: float
    changed_utc_s: float
    last_login_utc_s: float | None

    def to_json(self) -> dict[str, Any]:
        """The fields that may be shown."""
        return {
            "name": self.name,
            "role": self.role,
            "cameras": limit_json(self.cameras),
            "tenants": limit_json(self.tenants),
            "disabled": self.disabled,
            "must_change": self.must_change,
            "created_utc_s": self.created_utc_s,
            "last_login_utc_s": self.last_login_utc_s,
        }


@dataclass(frozen=True)
class Token:
    """An API token; only the hash of its text is kept."""

    id: str
    owner: str
    name: str
    role: Role
    cameras: frozenset[str] | None
    prefix: str
    hash: str
    created_utc_s: float
    expires_utc_s: float | None
    last_used_utc_s: float | None

    def to_json(self) -> dict[str, Any]:
        """The fields that may be shown."""
        return {
            "id": self.id,
            "name": self.name,
            "user": self.owner,
            "role": self.role,
            "cameras": limit_json(self.cameras),
            "prefix": self.prefix,
            "created_utc_s": self.created_utc_s,
            "expires_utc_s": self.expires_utc_s,
            "last_used_utc_s": self.last_used_utc_s,
        }


@dataclass(frozen=True)
class Session:
    """A login in a browser."""

    id: str
    hash: str
    owner: str
    address: str
    agent: str
    created_utc_s: float
    last_used_utc_s: float
    expires_utc_s: float

    def to_json(self) -> dict[str, Any]:
        """The fields that may be shown."""
        return {
            "id": self.id,
            "user": self.owner,
            "address": self.address,
            "agent": self.agent,
            "created_utc_s": self.created_utc_s,
            "last_used_utc_s": self.last_used_utc_s,
            "expires_utc_s": self.expires_utc_s,
        }


@dataclass(frozen=True)
class Everybody:
    """All that decides who may come in, as it was at one instant. Tokens and sessions by hash."""

    users: Mapping[str, User]
    tokens: Mapping[str, Token]
    sessions: Mapping[str, Session]
    setup_open: bool


class Records:
    """The tables. Raises the errors of edge.store.database, and those that each method names."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.database = database
        self._clock = clock

    @retried
    def everybody(self) -> Everybody:
        """One consistent view."""
        with self.database.read() as c:
            users = [_user(row) for row in c.execute(sa.select(t.users)).mappings()]
            tokens = [_token(row) for row in c.execute(sa.select(t.tokens)).mappings()]
            sessions = [Session(**row) for row in c.execute(sa.select(t.sessions)).mappings()]
        return Everybody(
            {u.name: u for u in users},
            {k.hash: k for k in tokens},
            {s.hash: s for s in sessions},
            not any(u.role == "admin" and not u.disabled for u in users),
        )

    @retried
    def user(self, name: str) -> User:
        """Raises NotFound."""
        with self.database.read() as c:
            return _found(c, name)

    # -- users

    @retried
    def add_user(
        self,
        name: str,
        role: Role,
        cameras: frozenset[str] | None,
        password: str | None,
        must_change: bool,
        by: str,
        tenants: frozenset[str] | None = None,
    ) -> User:
        """`password`: its hash. Raises Conflict (name taken, too many)."""
        with self.database.write() as c:
            self._add(c, name, role, cameras, password, must_change, by, tenants)
            return _found(c, name)

    @retried
    def first_admin(self, link: str, name: str, password: str, by: str) -> User:
        """Use up the set-up link (its hash) and make the first admin. Raises NotFound (no such link, or over),
        Conflict (there is an admin, name taken)."""
        with self.database.write() as c:
            if _admins(c):
                raise Conflict("this appliance is set up already", "log in")
            _use_link(c, link, "setup", self._clock.utc())
            c.execute(sa.delete(t.links).where(t.links.c.kind == "setup"))
            self._add(c, name, "admin", None, password, False, by)
            return _found(c, name)

    def _add(
        self,
        c: Connection,
        name: str,
        role: Role,
        cameras: frozenset[str] | None,
        password: str | None,
        must_change: bool,
        by: str,
        tenants: frozenset[str] | None = None,
    ) -> None:
        now = self._clock.utc()
        if c.execute(sa.select(t.users.c.name).where(t.users.c.name == name)).first() is not None:
            raise Conflict(f"user {name} exists already")
        if (c.execute(sa.select(sa.func.count()).select_from(t.users)).scalar() or 0) >= MAX_USERS:
            raise Conflict(f"there are {MAX_USERS} users, which is the most there may be")
        rights = {"role": role, "cameras": limit_json(cameras), "tenants": limit_json(tenants)}
        row = rights | {"password": password, "must_change": must_change}
        c.execute(sa.insert(t.users).values(name=name, disabled=False, created_utc_s=now, changed_utc_s=now, **row))
        self._audit(c, f"user/{name}", "created", by, rights)

    @retried
    def change_user(self, name: str, changes: Mapping[str, Any], by: str, end_sessions: bool = False) -> User:
        """`changes`: columns. Raises NotFound; Conflict where no admin who can log in would be left."""
        with self.database.write() as c:
            before = _found(c, name)
            row = dict(changes)
            row |= {key: limit_json(row[key]) for key in ("cameras", "tenants") if key in row}
            if row.get("role", before.role) != "admin" or row.get("disabled", before.disabled):
                _keep_an_admin(c, name)
            c.execute(sa.update(t.users).where(t.users.c.name == name).values(changed_utc_s=self._clock.utc(), **row))
            if end_sessions or row.get("disabled"):
                c.execute(sa.delete(t.sessions).where(t.sessions.c.owner == name))
                c.execute(sa.delete(t.links).where(t.links.c.owner == name))
            shown = {k: v for k, v in row.items() if k not in ("password", "must_change")}
            what = "password changed" if "password" in row and not shown else "changed"
            self._audit(c, f"user/{name}", what, by, shown or None)
            return _found(c, name)

    @retried
    def new_hash(self, name: str, password: str) -> None:
        """The same password at another cost: nothing that anybody needs to know."""
        with self.database.write() as c:
            c.execute(sa.update(t.users).where(t.users.c.name == name).values(password=password))

    @retried
    def remove_user(self, name: str, by: str) -> None:
        """With sessions and tokens. Raises NotFound; Conflict for the last admin."""
        with self.database.write() as c:
            _found(c, name)
            _keep_an_admin(c, name)
            c.execute(sa.delete(t.users).where(t.users.c.name == name))
            self._audit(c, f"user/{name}", "deleted", by, None)

    # -- sessions

    @retried
    def add_session(self, session: Session, by: str, how: str) -> None:
        """Log in. Raises NotFound if the user is gone."""
        with self.database.write() as c:
            mine = t.sessions.c.owner == session.owner
            order = t.sessions.c.last_used_utc_s.desc()
            kept = sa.select(t.sessions.c.id).where(mine).order_by(order).limit(MAX_SESSIONS - 1)
            c.execute(sa.delete(t.sessions).where(mine, t.sessions.c.id.not_in(kept.scalar_subquery())))
            c.execute(sa.insert(t.sessions).values(**vars(session)))
            logged = {"last_login_utc_s": session.created_utc_s}
            c.execute(sa.update(t.users).where(t.users.c.name == session.owner).values(**logged))
            self._audit(c, f"user/{session.owner}", how, by, None)

    @retried
    def end_session(self, hash_or_id: str, by: str, what: str = "session ended") -> None:
        """Raises NotFound."""
        with self.database.write() as c:
            which = sa.or_(t.sessions.c.hash == hash_or_id, t.sessions.c.id == hash_or_id)
            owner = c.execute(sa.select(t.sessions.c.owner).where(which)).scalar()
            if owner is None:
                raise NotFound("there is no such session")
            c.execute(sa.delete(t.sessions).where(which))
            self._audit(c, f"user/{owner}", what, by, None)

    @retried
    def end_other_sessions(self, owner: str, but: str) -> None:
        """All of the user's but the one with this id, and the links that would log in once more."""
        with self.database.write() as c:
            c.execute(sa.delete(t.links).where(t.links.c.owner == owner))
            c.execute(sa.delete(t.sessions).where(t.sessions.c.owner == owner, t.sessions.c.id != but))

    @retried
    def used(self, sessions: Mapping[str, float], tokens: Mapping[str, float], idle_before_utc_s: float) -> None:
        """When sessions and tokens (by hash) were last used; forgets sessions and links whose time is over."""
        now = self._clock.utc()
        with self.database.write() as c:
            for table, seen in ((t.sessions, sessions), (t.tokens, tokens)):
                for key, at in seen.items():
                    c.execute(sa.update(table).where(table.c.hash == key).values(last_used_utc_s=at))
            over = sa.or_(t.sessions.c.expires_utc_s < now, t.sessions.c.last_used_utc_s < idle_before_utc_s)
            c.execute(sa.delete(t.sessions).where(over))
            c.execute(sa.delete(t.links).where(t.links.c.expires_utc_s < now))

    # -- tokens

    @retried
    def add_token(self, token: Token, by: str) -> None:
        """Raises NotFound (no such user), Conflict (too many)."""
        with self.database.write() as c:
            _found(c, token.owner)
            mine = sa.select(sa.func.count()).select_from(t.tokens).where(t.tokens.c.owner == token.owner)
            if (c.execute(mine).scalar() or 0) >= MAX_TOKENS:
                raise Conflict(f"{token.owner} has {MAX_TOKENS} tokens, which is the most there may be", "delete some")
            c.execute(sa.insert(t.tokens).values(**vars(token) | {"cameras": limit_json(token.cameras)}))
            about: dict[str, Any] = {"name": token.name, "role": token.role, "expires_utc_s": token.expires_utc_s}
            about["cameras"] = limit_json(token.cameras)
            self._audit(c, f"user/{token.owner}", "token created", by, about)

    @retried
    def remove_token(self, token: str, by: str) -> None:
        """By id. Raises NotFound."""
        with self.database.write() as c:
            found = c.execute(sa.select(t.tokens.c.owner, t.tokens.c.name).where(t.tokens.c.id == token)).first()
            if found is None:
                raise NotFound("there is no such token")
            c.execute(sa.delete(t.tokens).where(t.tokens.c.id == token))
            self._audit(c, f"user/{found.owner}", "token deleted", by, {"name": found.name})

    # -- links

    @retried
    def add_link(self, link: str, kind: str, owner: str | None, seconds: float, by: str) -> float:
        """Keep a one-time link (its hash); a set-up link replaces the one before it. Returns when it is over. Raises
        Conflict (a set-up link where there is an admin), NotFound (no such user)."""
        now = self._clock.utc()
        with self.database.write() as c:
            if kind == "setup":
                if _admins(c):
                    raise Conflict("this appliance has an admin already", "magpie user password NAME sets a password")
                c.execute(sa.delete(t.links).where(t.links.c.kind == "setup"))
            row = {"kind": kind, "owner": owner, "created_utc_s": now, "expires_utc_s": now + seconds}
            c.execute(sa.insert(t.links).values(hash=link, **row))
            self._audit(c, "setup" if owner is None else f"user/{owner}", "one-time link made", by, None)
        return now + seconds

    @retried
    def use_login_link(self, link: str) -> User:
        """Use it up. Raises NotFound (no such link, used, over, the user disabled)."""
        with self.database.write() as c:
            owner = _use_link(c, link, "login", self._clock.utc())
            user = _found(c, owner or "")
            if user.disabled:
                raise NotFound("the link is not valid")
            return user

    # -- audit

    @retried
    def audit(self, subject: str, action: str, by: str, value: dict[str, Any] | None = None) -> None:
        """A record of what is kept elsewhere."""
        with self.database.write() as c:
            self._audit(c, subject, action, by, value)

    @retried
    def refused(self, records: Iterable[tuple[str, dict[str, Any] | None]]) -> None:
        """Refused logins (name, details); only the newest MAX_REFUSED are kept."""
        with self.database.write() as c:
            for by, value in records:
                self._audit(c, "login", "refused", by, value)
            mine = t.audit.c.subject == "login"
            newest = sa.select(t.audit.c.id).where(mine).order_by(t.audit.c.id.desc()).offset(MAX_REFUSED).limit(1)
            last = c.execute(newest).scalar()
            if last is not None:
                c.execute(sa.delete(t.audit).where(mine, t.audit.c.id <= last))

    def _audit(self, c: Connection, subject: str, action: str, by: str, value: dict[str, Any] | None) -> None:
        address = getattr(by, "address", None)
        row = {"at_utc_s": self._clock.utc(), "subject": subject[:512], "action": action, "revision": 0}
        c.execute(sa.insert(t.audit).values(changed_by=words(by)[:200], address=address, value=value, **row))


def _limit(row: RowMapping, key: str) -> frozenset[str] | None:
    value = row[key]
    if value is not None and not isinstance(value, list):
        raise InvalidValue(key, value, "a list of ids, or null")
    return None if value is None else frozenset(value)


# A log-in is decided on all users and tokens, so none of them may be left out: one that cannot be read is an error that
# names it.


def _user(row: RowMapping) -> User:
    return made(
        "user", row["name"], lambda: User(**dict(row) | {key: _limit(row, key) for key in ("cameras", "tenants")})
    )


def _token(row: RowMapping) -> Token:
    return made("token", row["id"], lambda: Token(**dict(row) | {"cameras": _limit(row, "cameras")}))


def _found(c: Connection, name: str) -> User:
    row = c.execute(sa.select(t.users).where(t.users.c.name == name)).mappings().first()
    if row is None:
        raise NotFound(f"user {name} does not exist")
    return _user(row)


def _admins(c: Connection) -> set[str]:
    """Admins who are not disabled. Their rows are locked, so that two changes cannot each leave the other's."""
    query = sa.select(t.users.c.name, t.users.c.disabled).where(t.users.c.role == "admin")
    rows = c.execute(query.order_by(t.users.c.name).with_for_update()).all()
    return {r.name for r in rows if not r.disabled}


def _keep_an_admin(c: Connection, without: str) -> None:
    admins = _admins(c)
    if without in admins and admins == {without}:
        raise Conflict(f"{without} is the last admin", "make another one first")


def _use_link(c: Connection, link: str, kind: str, now: float) -> str | None:
    which = (t.links.c.hash == link, t.links.c.kind == kind)
    row = c.execute(sa.select(t.links).where(*which).with_for_update()).mappings().first()
    if row is None or row["expires_utc_s"] < now:
        raise NotFound("the link is not valid: it was used, or its time is over")
    c.execute(sa.delete(t.links).where(*which))
    return None if row["owner"] is None else str(row["owner"])

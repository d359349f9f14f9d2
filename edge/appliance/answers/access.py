"""Access: users, tokens, sessions, secrets, and the record of changes. `cameras` null: all of them; `tenants`, too."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from edge.appliance.answers.documents import AuditValue
from edge.appliance.answers.marks import answer
from edge.core.access import Role


@answer
class LoggedInAnswer:
    """A user who logged in. `csrf` goes into the header x-csrf-token of every change."""

    name: str
    role: Role
    cameras: tuple[str, ...] | None
    tenants: tuple[str, ...] | None
    csrf: str
    expires_utc_s: float


@answer
class Me:
    """The caller. `kind` "open": this appliance needs no log-in."""

    name: str
    role: Role
    cameras: tuple[str, ...] | None
    tenants: tuple[str, ...] | None
    kind: Literal["session", "token", "open"]
    csrf: str | None
    expires_utc_s: float | None
    must_change: bool


@answer
class SetupAnswer:
    """Whether there is no admin yet, and whether the caller is known."""

    open: bool
    logged_in: bool


@answer
class UserAnswer:
    """A user."""

    name: str
    role: Role
    cameras: tuple[str, ...] | None
    tenants: tuple[str, ...] | None
    disabled: bool
    must_change: bool
    created_utc_s: float
    last_login_utc_s: float | None


@answer
class TokenAnswer:
    """An API token; `prefix` is how it begins."""

    id: str
    name: str
    user: str
    role: Role
    cameras: tuple[str, ...] | None
    prefix: str
    created_utc_s: float
    expires_utc_s: float | None
    last_used_utc_s: float | None


@answer
class NewTokenAnswer(TokenAnswer):
    """A token that was made; the token itself is shown only here."""

    token: str


@answer
class SessionAnswer:
    """A login in a browser; `current`: the one that asks."""

    id: str
    user: str
    address: str
    agent: str
    created_utc_s: float
    last_used_utc_s: float
    expires_utc_s: float
    current: bool


@answer
class AuditAnswer:
    """A change: by whom and from where (null: a command on the machine, or the appliance itself); `value`: the
    value that was kept, or null."""

    id: int
    utc_s: float
    by: str
    from_: Annotated[str | None, Field(alias="from")]
    subject: str
    action: str
    value: AuditValue


@answer
class SecretAnswer:
    """A secret's name and what refers to it."""

    name: str
    used_by: tuple[str, ...]

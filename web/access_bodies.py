"""Bodies of the access routes. They may hold a password or a token, so errors do not show what was given."""

from __future__ import annotations

from typing import Any, ClassVar, Final, TypeVar

from pydantic import ConfigDict, Field

from edge.core.access import MAX_CAMERAS, Role
from edge.core.errors import InvalidValue, InvalidValues
from edge.settings import Identifier, Settings, parse


class _Private(Settings):
    # A space at the end of a password is part of it.
    model_config = ConfigDict(str_strip_whitespace=False)
    any_text: ClassVar[frozenset[str]] = frozenset({"password", "current", "new", "token", "value"})


class Login(_Private):
    """A log-in."""

    # Every wrong try is refused alike, and on record.
    any_text: ClassVar[frozenset[str]] = frozenset({"name", "password"})
    name: str = Field(max_length=200)
    password: str = Field(max_length=1024)


class LoginLink(_Private):
    """A one-time link."""

    token: str = Field(max_length=200, description="the text after link= in the link")


class Setup(_Private):
    """The first admin."""

    token: str = Field(max_length=200, description="the text after token= in the set-up link")
    name: str = Field(max_length=200)
    password: str = Field(max_length=1024)


class OwnPassword(_Private):
    """A new password for oneself."""

    current: str = Field("", max_length=1024, description="the present one; empty if there is none yet")
    new: str = Field(max_length=1024)


class NewUser(_Private):
    """A user to add."""

    name: str = Field(max_length=200)
    role: Role
    cameras: tuple[Identifier, ...] | None = Field(None, max_length=MAX_CAMERAS, description="null: all cameras")
    tenants: tuple[Identifier, ...] | None = Field(None, max_length=MAX_CAMERAS, description="null: all tenants")
    password: str = Field(max_length=1024)


class UserPatch(_Private):
    """Changes of a user; fields that are left out stay."""

    role: Role | None = None
    cameras: tuple[Identifier, ...] | None = Field(None, max_length=MAX_CAMERAS, description="null: all cameras")
    tenants: tuple[Identifier, ...] | None = Field(None, max_length=MAX_CAMERAS, description="null: all tenants")
    password: str | None = Field(None, max_length=1024, description="ends the user's sessions")
    disabled: bool | None = None


class NewToken(_Private):
    """An API token to make, with no more rights than its maker."""

    name: str = Field(min_length=1, max_length=100)
    role: Role | None = Field(None, description="empty: the maker's")
    cameras: tuple[Identifier, ...] | None = Field(None, max_length=MAX_CAMERAS, description="null: the maker's")
    expires_days: float | None = Field(None, gt=0, le=3650, description="null: never")


class SecretValue(_Private):
    """A secret to keep: written, never read."""

    value: str = Field(min_length=1, max_length=8192)


ALL: Final[tuple[type[Settings], ...]] = (
    Login,
    LoginLink,
    Setup,
    OwnPassword,
    NewUser,
    UserPatch,
    NewToken,
    SecretValue,
)
P = TypeVar("P", bound=_Private)


def parse_private(model: type[P], body: dict[str, Any]) -> P:
    """As `edge.settings.parse`, but the errors show nothing of what was given. Raises InvalidValues."""
    try:
        return parse(model, body)
    except InvalidValues as error:
        raise InvalidValues([InvalidValue(p.path, "(not shown)", p.allowed) for p in error.problems]) from None

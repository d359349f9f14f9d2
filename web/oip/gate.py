"""Who may ask served models: what the transports ask a gate before they do anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from edge.core.access import Role
from edge.core.errors import NotLoggedIn

#: Asked with a request's token (None: it has none) and the role that is needed; raises NotLoggedIn or Forbidden.
Gate = Callable[[str | None, Role], None]


def open_to_all(_token: str | None, _least: Role) -> None:
    """The gate of a server that asks nobody."""


def bearer(authorization: str | None) -> str | None:
    """The token in an `authorization` header or metadata, None without one. Raises NotLoggedIn for another kind."""
    if authorization is None:
        return None
    kind, _, token = authorization.partition(" ")
    if kind.lower() != "bearer" or not token.strip():
        raise NotLoggedIn(_WANTED)
    return token.strip()


_WANTED: Final = "the authorization is not of the form: Bearer TOKEN"

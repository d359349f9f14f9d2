"""The gate of served models: transports ask it before they do anything."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Final

from edge.core.access import Requester, Role
from edge.core.errors import NotLoggedIn

#: Asked with a request's token (None: it has none) and the role that is needed, answers whose it is; raises
#: NotLoggedIn or Forbidden.
Gate = Callable[[str | None, Role], str]
#: The requester of the request that is being answered, for the record of its changes.
REQUESTER: Final[ContextVar[Requester]] = ContextVar("REQUESTER")


def open_to_all(_token: str | None, _least: Role) -> str:
    """The gate of a server without log-in."""
    return "an inference client"


def authorise(gate: Gate, token: str | None, least: Role, address: str | None) -> None:
    """Ask the gate, and keep who it is for the rest of the request. Raises NotLoggedIn or Forbidden."""
    REQUESTER.set(Requester(gate(token, least), address))


def bearer(authorization: str | None) -> str | None:
    """The token in an `authorization` header or metadata, None without one. Raises NotLoggedIn for another kind."""
    if authorization is None:
        return None
    kind, _, token = authorization.partition(" ")
    if kind.lower() != "bearer" or not token.strip():
        raise NotLoggedIn(_WANTED)
    return token.strip()


_WANTED: Final = "the authorization is not of the form: Bearer TOKEN"

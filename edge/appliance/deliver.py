"""How alarms and objects are handed to other systems."""

from __future__ import annotations

from typing import Literal, Protocol

from edge.appliance.service import Json


class Deliver(Protocol):
    """Hands what happened to other systems; never waits."""

    def __call__(self, kind: Literal["alarm", "object"], camera: str | None, body: Json) -> None:
        """`kind` "alarm" or "object"; `body` as REST gives it, with `phase`."""

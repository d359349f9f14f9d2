"""The outputs' view of the appliance, and their hands on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from edge.appliance.service import Json
from edge.core.journal_kinds import JournalKind


@dataclass(frozen=True)
class Snapshot:
    """The appliance's state as outputs read it each second: the service's overview as JSON; by camera what its model
    promised and whether it is retrained."""

    overview: Json
    ready: bool
    reasons: tuple[str, ...]
    version: str
    expected: Mapping[str, float | None]
    retraining: Mapping[str, bool]


@dataclass(frozen=True)
class World:
    """The appliance as outputs see it. `snapshot` None: there is nothing to send now. `note(kind, camera, data)`
    journals; `set_retraining(camera, on, by)` raises MagpieError; `secret(reference, path)` blocks and raises
    InvalidValue; `may_name(reference, before, path)` raises InvalidValue for one that may not be named by REST."""

    site: str
    version: str
    snapshot: Callable[[], Snapshot | None]
    note: Callable[[JournalKind, str | None, Json], None]
    set_retraining: Callable[[str, bool, str], Awaitable[None]]
    secret: Callable[[str, str], str]
    may_name: Callable[[str, str, str], None]

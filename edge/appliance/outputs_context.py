"""The outputs' view of the appliance, and their hands on it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from edge.appliance.answers.state import BoxHealth, Overview
from edge.appliance.service import Json
from edge.core.counts import CountedMinute, Place
from edge.core.journal_kinds import JournalKind
from edge.outputs.topics import CameraSnapshot, Snapshot


def snapshot_of(
    overview: Overview,
    health: BoxHealth,
    promised: Mapping[str, float | None],
    retraining: Mapping[str, bool],
    places: Mapping[str, tuple[Place, ...]],
    minutes: Mapping[str, CountedMinute],
    box: str = "",
) -> Snapshot:
    """The appliance as outputs read it each second; `box`: its name in a fleet. By camera: the accuracy that its model
    promised, whether it is retrained (a camera that is missing: no), where it counts, and the last minute's counts."""
    return Snapshot(
        overview.site, health.version, health.ready, tuple(reason.code for reason in health.reasons), overview.policy,
        overview.window.number, overview.window.phase, len(overview.jobs),
        tuple(
            CameraSnapshot(
                c.id, c.name, c.state.state, c.state.model.version, c.state.accuracy.realised, promised.get(c.id),
                retraining.get(c.id, False), places.get(c.id, ()), minutes.get(c.id),
            )
            for c in overview.cameras
        ),
        box,
    )  # fmt: skip


@dataclass(frozen=True)
class OutputsContext:
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
    #: Its name in a fleet: several boxes of one site speak at one broker, and to one receiver.
    box: str = ""

    @property
    def sender(self) -> str:
        """The speaker: the site, or the box of it."""
        return f"{self.site}/{self.box}" if self.box else self.site

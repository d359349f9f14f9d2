"""Every kind of journal entry. A kind that is not in these lists can be neither written nor sent (docs/journal.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, Protocol, get_args

#: Events of a worker process or of the device.
WorkerEntryKind = Literal[
    "worker.device_recovered",
    "worker.device_restart",
    "worker.device_sick",
    "worker.messages_lost",
    "worker.respawn",
    "worker.respawn_failed",
    "worker.respawned",
    "worker.share_refused",
    "worker.worker_error",
    "worker.worker_lost",
]
#: Kinds that are written.
JournalKind = (
    WorkerEntryKind
    | Literal[
        "alarm.end",
        "alarm.new",
        "alarm.update",
        "appliance.started",
        "camera.added",
        "camera.changed",
        "camera.connecting",
        "camera.live",
        "camera.reconnecting",
        "camera.refused",
        "camera.removed",
        "camera.stalled",
        "camera.stopped",
        "camera.worker_up",
        "complaint",
        "exemplars.late",
        "golden.ready",
        "group.member_skipped",
        "inference.changed",
        "journal.lost",
        "learning.budget",
        "learning.ready",
        "model.from_sibling",
        "model.pinned",
        "model.promoted",
        "model.rejected",
        "model.rolled_back",
        "model.switched",
        "model.unpinned",
        "output.command_ignored",
        "output.dead",
        "output.down",
        "output.dropped",
        "output.lost",
        "output.retried",
        "output.up",
        "outputs.settings",
        "plan",
        "profiled",
        "region.changed",
        "retention",
        "retention.alarms",
        "retraining.failed",
        "retraining.settings",
        "retraining.started",
        "retraining.stopped",
        "rule.added",
        "rule.changed",
        "rule.removed",
        "sample.not_closed",
        "serving.drift",
        "serving.executor_failed",
        "serving.executor_lost",
        "serving.executor_started",
        "serving.front_lost",
        "serving.listening",
        "serving.loaded",
        "serving.measuring",
        "serving.model_capped",
        "serving.model_refused",
        "serving.plan",
        "serving.requests_failed",
        "serving.settings",
        "serving.unloaded",
        "serving.version",
        "sibling.none",
        "window.closed",
        "window.measured",
        "window.no_labels",
        "window.opened",
        "window.resumed",
    ]
)
#: Kinds that listeners get, and the journal does not keep.
ToldKind = Literal["alarm.acknowledged", "events.lost", "object.end", "object.new"]


def _values(*literals: Any) -> frozenset[str]:
    found: set[str] = set()
    for literal in literals:
        for value in get_args(literal):
            found |= {value} if isinstance(value, str) else _values(value)
    return frozenset(found)


#: Keys of an entry's data that name other cameras than its own, or their versions.
OTHER_CAMERAS: Final = frozenset({"began_with", "leader", "members", "sibling", "sibling_version", "taught_with"})

JOURNAL_KINDS: Final = _values(JournalKind)
TOLD_KINDS: Final = _values(ToldKind)


class JournalNote(Protocol):
    """Writes an entry to the journal, and tells listeners of it."""

    def __call__(
        self,
        kind: JournalKind,
        camera: str | None = None,
        window: int | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None: ...

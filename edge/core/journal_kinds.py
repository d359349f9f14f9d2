"""Every kind of journal entry. A kind that is not in these lists can be neither written nor sent (docs/journal.md).
`edge.core.journal_keys` has the keys of each kind's data."""

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
#: How an alarm began, goes on, and ended.
AlarmEntryKind = Literal[
    "alarm.end",
    "alarm.new",
    "alarm.update",
]
#: A clip is there, failed, or was deleted.
ClipEntryKind = Literal[
    "clip.failed",
    "clip.made",
    "clip.removed",
]
#: Changes of a version of a camera's student.
ModelEntryKind = Literal[
    "model.from_sibling",
    "model.pinned",
    "model.promoted",
    "model.rejected",
    "model.rolled_back",
    "model.switched",
    "model.unpinned",
]
#: A retraining of a camera, and the settings of the windows.
RetrainingEntryKind = Literal[
    "retraining.failed",
    "retraining.settings",
    "retraining.started",
    "retraining.stopped",
]
#: How a retraining window goes.
WindowEntryKind = Literal[
    "window.closed",
    "window.measured",
    "window.no_labels",
    "window.opened",
    "window.resumed",
]
#: The state of a camera's stream from then on.
CameraStateKind = Literal[
    "camera.connecting",
    "camera.live",
    "camera.reconnecting",
    "camera.refused",
    "camera.removed",
    "camera.stalled",
    "camera.stopped",
]
#: Kinds that are written.
JournalKind = (
    WorkerEntryKind
    | AlarmEntryKind
    | CameraStateKind
    | ClipEntryKind
    | ModelEntryKind
    | RetrainingEntryKind
    | WindowEntryKind
    | Literal[
        "appliance.started",
        "camera.added",
        "camera.changed",
        "camera.worker_up",
        "complaint",
        "exemplars.late",
        "fleet.job_over",
        "fleet.job_submitted",
        "fleet.job_withdrawn",
        "golden.ready",
        "group.member_skipped",
        "inference.changed",
        "journal.lost",
        "labels.borrowed",
        "learning.budget",
        "learning.ready",
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
        "retention.clips",
        "retention.counts",
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
        "serving.source",
        "serving.unloaded",
        "serving.version",
        "sibling.none",
        "tenant.added",
        "tenant.changed",
        "tenant.removed",
        "tenants.forgotten",
        "tenants.moved",
        "tenants.settings",
    ]
)
#: An object that was followed came or went.
ObjectKind = Literal["object.end", "object.new"]
#: Kinds that listeners get, and the journal does not keep.
LiveOnlyKind = ObjectKind | Literal["alarm.acknowledged", "events.lost"]


def _values(*literals: Any) -> frozenset[str]:
    found: set[str] = set()
    for literal in literals:
        for value in get_args(literal):
            found |= {value} if isinstance(value, str) else _values(value)
    return frozenset(found)


JOURNAL_KINDS: Final = _values(JournalKind)
LIVE_ONLY_KINDS: Final = _values(LiveOnlyKind)
CAMERA_STATE_KINDS: Final = _values(CameraStateKind)
#: Kinds of one subject, for readers that follow it.
KINDS_BY_SUBJECT: Final[Mapping[str, frozenset[str]]] = {
    "alarm": _values(AlarmEntryKind) | {"alarm.acknowledged"},
    "clip": _values(ClipEntryKind),
    "model": _values(ModelEntryKind),
    "object": _values(ObjectKind),
    "retraining": _values(RetrainingEntryKind),
    "window": _values(WindowEntryKind),
}


class JournalNote(Protocol):
    """Writes an entry to the journal, and sends it to listeners."""

    def __call__(
        self,
        kind: JournalKind,
        camera: str | None = None,
        window: int | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None: ...

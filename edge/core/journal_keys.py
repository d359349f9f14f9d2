"""The keys of each kind's data (docs/journal.md), and those that a user gets who may see some of the cameras only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from edge.core.journal_kinds import JournalKind, LiveOnlyKind


@dataclass(frozen=True)
class EntryKeys:
    """The keys of a kind's data. `shown`: users who may see the entry's camera get them; `hidden`: only users who may
    see all cameras do, as for all keys of an entry that is of no single camera."""

    shown: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()

    @property
    def known(self) -> frozenset[str]:
        """All of them."""
        return self.shown | self.hidden


def _keys(*shown: str, hidden: Iterable[str] = ()) -> EntryKeys:
    return EntryKeys(frozenset(shown), frozenset(hidden))


def _of_the_box(*keys: str) -> EntryKeys:
    """Of a kind whose entries are of no single camera."""
    return EntryKeys(hidden=frozenset(keys))


_NONE: Final = EntryKeys()
_ALARM: Final = _keys(
    "id", "rule", "rule_name", "kind", "severity", "camera", "phase", "began_utc_s", "ended_utc_s", "message", "value",
    "object", "acknowledged_by", "acknowledged_utc_s", "picture", "details",
)  # fmt: skip
_OBJECT: Final = _keys(
    "id", "camera", "class", "began_utc_s", "ended_utc_s", "score", "box", "zones", "zone_dwell_s", "dwell_s",
    "attributes", "picture", "phase",
)  # fmt: skip
_STREAM: Final = _keys("fault", "message")
_GATE: Final = _keys(
    "version", "config", "scores", "reason", "expected_accuracy", "device_seconds", "trained_on", "boxes",
    hidden=("began_with", "taught_with", "leader"),
)  # fmt: skip
_BY: Final = _keys("by")
_LETTER: Final = _keys("by", "destination")

#: By kind. A key that is not here is written and sent, but hidden from users of some cameras.
ENTRY_KEYS: Final[Mapping[JournalKind | LiveOnlyKind, EntryKeys]] = {
    "alarm.acknowledged": _ALARM,
    "alarm.end": _ALARM,
    "alarm.new": _ALARM,
    "alarm.update": _ALARM,
    "appliance.started": _of_the_box("version", "share_kind", "enforced"),
    "camera.added": _BY,
    "camera.changed": _keys("by", "fields"),
    "camera.connecting": _STREAM,
    "camera.live": _STREAM,
    "camera.reconnecting": _STREAM,
    "camera.refused": _STREAM,
    "camera.removed": _BY,
    "camera.stalled": _STREAM,
    "camera.stopped": _STREAM,
    "camera.worker_up": _NONE,
    "clip.failed": _keys("clip", "fault"),
    "clip.made": _keys("clip", "seconds", "bytes", "alarms"),
    "clip.removed": _keys("clip", "by"),
    "complaint": _keys("code", "message"),
    "events.lost": _keys("events"),
    "exemplars.late": _NONE,
    "fleet.job_over": _of_the_box("job", "outcome"),
    "fleet.job_submitted": _of_the_box("job", "program", "by"),
    "fleet.job_withdrawn": _of_the_box("job", "by"),
    "golden.ready": _NONE,
    "group.member_skipped": _keys("why", hidden=("leader",)),
    "inference.changed": _keys("lambda", "share"),
    "journal.lost": _of_the_box("events"),
    "labels.borrowed": _keys("labelled_on", "frames", "labelled", "seconds"),
    "learning.budget": _of_the_box(
        "golden_share",
        "labels",
        "trials",
        "profiling_s",
        "ready_s",
        "retraining_s",
        "retrainings",
        "value",
        "known",
        "late",
        "reason",
        "looks",
    ),
    "learning.ready": _of_the_box("ready_s", "part", "cameras_with_untried"),
    "model.from_sibling": _keys("version", "sibling_distance", hidden=("sibling", "sibling_version")),
    "model.pinned": _keys("version", "origin", "trained_on", "by"),
    "model.promoted": _GATE,
    "model.rejected": _GATE,
    "model.rolled_back": _keys("version", "origin", "trained_on", "by", "reason", "automatic"),
    "model.switched": _keys("version", "gap_s", "frames_lost"),
    "model.unpinned": _keys("version", "origin", "trained_on", "by"),
    "object.end": _OBJECT,
    "object.new": _OBJECT,
    "output.command_ignored": _of_the_box("destination", "topic", "payload", "reason", "messages"),
    "output.dead": _of_the_box("destination", "messages", "reason"),
    "output.down": _of_the_box("destination", "reason"),
    "output.dropped": _LETTER,
    "output.lost": _of_the_box("destination", "cause", "messages", "dead_letters"),
    "output.retried": _LETTER,
    "output.up": _of_the_box("destination"),
    "outputs.settings": _of_the_box("by", "output", "fields", "added", "removed"),
    "plan": _of_the_box("policy", "cause", "cause_camera", "objective", "decision_s", "reasons"),
    "profiled": _keys("configs", "trials", "handed_in", "pruned", "device_seconds", "note", "measured_on"),
    "region.changed": _keys("region"),
    "retention": _of_the_box(
        "events", "windows", "picture_sets", "versions", "blobs", "bytes_freed", "bytes_kept", "bytes_over", "failures"
    ),
    "retention.counts": _of_the_box("minutes", "hours_and_days", "checks"),
    "retention.clips": _of_the_box("clips", "bytes_freed", "bytes_kept", "failures"),
    "retention.alarms": _of_the_box("alarms", "objects", "object_pictures", "bytes_freed", "bytes_kept", "failures"),
    "retraining.failed": _keys("job", "reason"),
    "retraining.settings": _of_the_box("by", "fields"),
    "retraining.started": _keys(
        "job",
        "config",
        "retraining",
        "share",
        "expected_accuracy",
        "expected_device_seconds",
        "profiled",
        "lender",
        "boxes",
        hidden=("members",),
    ),
    "retraining.stopped": _keys("job", "reason"),
    "rule.added": _of_the_box("rule", "by"),
    "rule.changed": _of_the_box("rule", "by", "fields"),
    "rule.removed": _of_the_box("rule", "by"),
    "sample.not_closed": _keys("reason"),
    "serving.drift": _of_the_box("model", "share", "message"),
    "serving.executor_failed": _of_the_box("message", "executor", "reason"),
    "serving.executor_lost": _of_the_box("message", "executor", "reason"),
    "serving.executor_started": _of_the_box("executor", "models", "share"),
    "serving.front_lost": _of_the_box("requests", "unreported_s", "reason"),
    "serving.listening": _of_the_box("http_port", "grpc_port"),
    "serving.loaded": _of_the_box("model", "by"),
    "serving.measuring": _of_the_box("message"),
    "serving.model_capped": _of_the_box("message", "model", "part"),
    "serving.model_refused": _of_the_box("message", "model", "code"),
    "serving.plan": _of_the_box("cause", "reasons", "policy", "share", "problem", "plan", "two_queues", "split"),
    "serving.requests_failed": _of_the_box("executor", "requests"),
    "serving.settings": _of_the_box("by", "fields"),
    "serving.source": _keys("application", "reason"),
    "serving.unloaded": _of_the_box("model", "by"),
    "serving.version": _of_the_box("model", "version"),
    "tenant.added": _of_the_box("tenant", "by"),
    "tenant.changed": _of_the_box("tenant", "by", "fields"),
    "tenant.removed": _of_the_box("tenant", "by"),
    "tenants.forgotten": _of_the_box("tenant", "why"),
    "tenants.moved": _of_the_box("shares", "before", "reasons"),
    "tenants.settings": _of_the_box("by", "fields"),
    "sibling.none": _keys("cameras"),
    "window.closed": _NONE,
    "window.measured": _keys("realised", "frozen", "download", "download_whole"),
    "window.no_labels": _NONE,
    "window.opened": _of_the_box("length_s", "policy"),
    "window.resumed": _NONE,
    "worker.device_recovered": _of_the_box("was"),
    "worker.device_restart": _of_the_box("message", "workers"),
    "worker.device_sick": _of_the_box("message"),
    "worker.messages_lost": _keys("worker", "kind", "messages", "total"),
    "worker.respawn": _keys("worker", "kind", "share", "reason"),
    "worker.respawn_failed": _keys("worker", "kind", "share", "reason"),
    "worker.respawned": _keys("worker", "kind", "share"),
    "worker.share_refused": _keys("worker", "kind", "share", "message"),
    "worker.worker_error": _keys("worker", "kind", "code", "message"),
    "worker.worker_lost": _keys("worker", "kind", "reason", "cause", "exit_code"),
}


def entry_keys(kind: str) -> EntryKeys:
    """The keys of a kind; none of a kind that is not known, as an earlier version may have written it."""
    found: Mapping[str, EntryKeys] = ENTRY_KEYS  # type: ignore[assignment]
    return found.get(kind, _NONE)

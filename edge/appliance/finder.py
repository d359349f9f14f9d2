"""Finds objects, and puts the records of a camera's day together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from datetime import date, datetime, tzinfo
from typing import Final, Literal, TypeVar

from edge.appliance.answers.alarms import AlarmAnswer, ObjectAnswer
from edge.appliance.answers.clips import ClipAnswer
from edge.appliance.answers.finding import (
    BucketOfDay,
    FoundObject,
    FoundObjects,
    HourOfDay,
    Lane,
    LineCrossed,
    OutageAnswer,
    RetrainingOfDay,
    TimelineAnswer,
)
from edge.appliance.answers.read import by_name, read
from edge.appliance.answers.stored import Numbered, listed
from edge.core.camera import CAMERA_FAULTS
from edge.core.clock import Clock
from edge.core.errors import InvalidValue, NotFound
from edge.core.finding import DaySpan, FoundAfter, ObjectSearch, Outage, StateChange, check_bucket
from edge.runtime.camera import CameraRuntime
from edge.store.finding import OfDay
from edge.store.store import Store
from edge.store.values import EventRecord, JobRecord
from scheduler.counts.report_days import day_bounds
from scheduler.finding.buckets import by_bucket, hours
from scheduler.finding.outages import WatchedMinutes, known_from, outages

T = TypeVar("T")
N = TypeVar("N", bound=Numbered)

_EARLIEST: Final = date(1971, 1, 1)
_State = Literal[
    "connecting", "live", "stalled", "reconnecting", "refused", "stopped", "removed", "worker_lost"
]  # fmt: skip
#: The journal's entries that say how a camera's stream is from then on.
_STATES: Final[Mapping[str, _State]] = {
    "camera.connecting": "connecting",
    "camera.live": "live",
    "camera.stalled": "stalled",
    "camera.reconnecting": "reconnecting",
    "camera.refused": "refused",
    "camera.stopped": "stopped",
    "camera.removed": "removed",
    "worker.worker_lost": "worker_lost",
}
#: Entries of a camera in a day that are read.
MOST_CHANGES: Final = 10_000


class Finder:
    """Implements `FinderService`. `cameras()` are those there now; `zone` None: the box's own time zone. Of a day at
    most `most_changes` of the camera's states are read."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        cameras: Callable[[], Mapping[str, CameraRuntime]],
        zone: tzinfo | None = None,
        most_changes: int = MOST_CHANGES,
    ) -> None:
        self._store, self._clock, self._cameras, self._zone = store, clock, cameras, zone
        self._most_changes = most_changes

    def objects(
        self, wanted: ObjectSearch, limit: int, after: FoundAfter | None, cameras: Collection[str] | None
    ) -> FoundObjects:
        """See `FinderService`."""
        for camera in wanted.cameras:
            self._known(camera)
        page = self._store.finding.find_objects(wanted, limit, after, cameras, self._clock.utc())
        objects = listed(self._store.database.unreadable, "object", ObjectAnswer, page.objects, lambda o: o.id)
        passed = self._store.finding.places_passed([o.id for o in objects])
        found = tuple(
            FoundObject(
                camera=one.camera,
                object=one,
                lines=tuple(
                    read(LineCrossed, {"line": p.place.name, "way": p.place.way, "at_utc_s": p.utc_s})
                    for p in passed.get(one.id, ())
                ),
            )
            for one in objects
        )
        then = page.after
        return FoundObjects(
            found=found, next=None if then is None else then.cursor,
            looked_back_to_utc_s=None if then is None else then.began_utc_s,
        )  # fmt: skip

    def timeline(self, camera: str, day: date | None, bucket_s: int) -> TimelineAnswer:
        """See `FinderService`."""
        check_bucket(bucket_s)
        now = self._clock.utc()
        today = datetime.fromtimestamp(now, self._zone).date()
        asked = today if day is None else day
        if not _EARLIEST <= asked <= today:
            raise InvalidValue("day", asked.isoformat(), f"a day from {_EARLIEST} to today, {today}")
        there = self._known(camera)
        span = DaySpan(*day_bounds(asked, self._zone))
        rows, jobs, made = (
            self._store.finding.alarms_of(camera, span),
            self._store.finding.retrainings_of(camera, span),
            self._store.finding.clips_of(camera, span),
        )
        came = self._store.finding.came(camera, span, bucket_s)
        found, known, read_all = self._outages(camera, span, now)
        cut = {"alarms": rows.cut, "retrainings": jobs.cut, "outages": not read_all, "clips": made.cut}
        return TimelineAnswer(
            camera=camera,
            camera_state="removed" if there is None else "on" if there.settings.enabled else "off",
            day=asked.isoformat(),
            today=today.isoformat(),
            now_utc_s=now,
            from_utc_s=span.from_utc_s,
            to_utc_s=span.to_utc_s,
            hours=by_name(tuple[HourOfDay, ...], hours(span, self._zone)),
            bucket_s=bucket_s,
            buckets=by_name(tuple[BucketOfDay, ...], by_bucket(span, bucket_s, came)),
            alarms=self._listed("alarm", AlarmAnswer, rows),
            retrainings=self._retrainings(jobs),
            outages=by_name(tuple[OutageAnswer, ...], found),
            known_from_utc_s=None if known is None else max(known, span.from_utc_s),
            clips=self._listed("clip", ClipAnswer, made),
            cut=read(tuple[Lane, ...], tuple(name for name, more in cut.items() if more)),
        )

    def _known(self, camera: str) -> CameraRuntime | None:
        """A camera that is there; None: one that was removed, of which something is kept. Raises NotFound."""
        found = self._cameras().get(camera)
        if found is None and not self._store.finding.has_traces(camera):
            raise NotFound(f"camera {camera} does not exist")
        return found

    def _listed(self, kind: str, of: type[T], records: OfDay[N]) -> tuple[T, ...]:
        return tuple(listed(self._store.database.unreadable, kind, of, records.rows, lambda r: r.id))

    def _retrainings(self, jobs: OfDay[JobRecord]) -> tuple[RetrainingOfDay, ...]:
        made = self._store.database.unreadable.readable("retraining", jobs.rows, _retraining, lambda r: r.id)
        return tuple(made)

    def _outages(self, camera: str, span: DaySpan, now: float) -> tuple[tuple[Outage, ...], float | None, bool]:
        """The outages of a day, from when on they are known, and whether all of the day were read."""
        entries = self._store.finding.entries_of_day(camera, (*_STATES, "camera.changed"), span, self._most_changes)
        changes = [change for entry in entries.rows if (change := _change(entry)) is not None]
        # Of those before the day the last one tells.
        before = sum(change.at_utc_s < span.from_utc_s for change in changes)
        changes = changes[max(0, before - 1) :]
        starts = self._store.finding.box_starts(span)
        read_to = [entries.rows[-1].at_utc_s] if entries.cut else []
        read_to += [starts.rows[-1].at_utc_s] if starts.cut else []
        minutes = self._store.counts.watched(camera, "minute", span.from_utc_s, span.to_utc_s)
        moved = tuple(e.at_utc_s for e in entries.rows if e.kind == "camera.changed" and _places_changed(e))
        found = outages(span, changes, starts.rows, WatchedMinutes(minutes, moved), now, min(read_to, default=None))
        return found, known_from(changes, span, self._store.finding.journal_begins()), not read_to


def _change(entry: EventRecord) -> StateChange | None:
    """None: the entry changed nothing of the camera's stream."""
    state = _STATES.get(entry.kind)
    data = entry.data if isinstance(entry.data, Mapping) else {}
    # The worker that retrains the camera's model has entries of the same kind.
    if state is None or (state == "worker_lost" and data.get("kind") != "camera"):
        return None
    fault = next((f for f in CAMERA_FAULTS if f == data.get("fault")), None)
    return StateChange(entry.at_utc_s, state, fault)


def _places_changed(entry: EventRecord) -> bool:
    fields = entry.data.get("fields") if isinstance(entry.data, Mapping) else None
    return isinstance(fields, list) and not {"lines", "zones"}.isdisjoint(map(str, fields))


def _retraining(job: JobRecord) -> RetrainingOfDay:
    fields = ("window", "state", "started_utc_s", "ended_utc_s", "promoted", "accuracy_before", "accuracy_after",
            "model_version")  # fmt: skip
    kept = job.to_json()
    return read(RetrainingOfDay, {name: kept[name] for name in fields})

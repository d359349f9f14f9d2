"""Finds objects, and puts the records of a camera's day together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
from edge.core.finding import DaySpan, FoundAfter, ObjectSearch, StateChange
from edge.runtime.camera import CameraRuntime
from edge.store.finding import MOST_OF_DAY
from edge.store.store import Store
from edge.store.values import EventRecord, JobRecord
from scheduler.counts.report_days import day_bounds
from scheduler.finding.buckets import by_bucket, hours
from scheduler.finding.outages import known_from, outages

T = TypeVar("T")

_EARLIEST: Final = date(1971, 1, 1)
_State = Literal["connecting", "live", "stalled", "reconnecting", "refused", "stopped", "removed"]
#: The journal's entries that say how a camera's stream is from then on.
_STATES: Final[Mapping[str, _State]] = {
    "camera.connecting": "connecting",
    "camera.live": "live",
    "camera.stalled": "stalled",
    "camera.reconnecting": "reconnecting",
    "camera.refused": "refused",
    "camera.stopped": "stopped",
    "camera.removed": "removed",
}
_MOST_CHANGES: Final = 10_000


class Finder:
    """Implements `FinderService`. `cameras()` are those there now; `zone` None: the box's own time zone."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        cameras: Callable[[], Mapping[str, CameraRuntime]],
        zone: tzinfo | None = None,
    ) -> None:
        self._store, self._clock, self._cameras, self._zone = store, clock, cameras, zone

    def objects(
        self, wanted: ObjectSearch, limit: int, after: FoundAfter | None, cameras: Collection[str] | None
    ) -> FoundObjects:
        """See `FinderService`."""
        page = self._store.find_objects(wanted, limit, after, cameras, self._clock.utc())
        objects = listed(self._store.database.unreadable, "object", ObjectAnswer, page.objects, lambda o: o.id)
        passed = self._store.places_passed([o.id for o in objects])
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
        now = self._clock.utc()
        today = datetime.fromtimestamp(now, self._zone).date()
        asked = today if day is None else day
        if not _EARLIEST <= asked <= today:
            raise InvalidValue("day", asked.isoformat(), f"a day from {_EARLIEST} to today, {today}")
        settings = self._cameras().get(camera)
        if settings is None and not self._store.has_traces(camera):
            raise NotFound(f"camera {camera} does not exist")
        span = DaySpan(*day_bounds(asked, self._zone))
        alarms, retrainings, clips = (
            self._alarms(camera, span),
            self._retrainings(camera, span),
            self._clips(camera, span),
        )
        lanes: dict[str, Sequence[object]] = {"alarms": alarms, "retrainings": retrainings, "clips": clips}
        changes, starts = self._changes(camera, span), self._store.box_starts(span)
        minutes = self._store.watched(camera, "minute", span.from_utc_s, span.to_utc_s)
        told = outages(span, changes, starts, minutes, now)
        known = known_from(changes, starts, span)
        return TimelineAnswer(
            camera=camera,
            camera_state="removed" if settings is None else "on" if settings.settings.enabled else "off",
            day=asked.isoformat(),
            today=today.isoformat(),
            now_utc_s=now,
            from_utc_s=span.from_utc_s,
            to_utc_s=span.to_utc_s,
            hours=by_name(tuple[HourOfDay, ...], hours(span, self._zone)),
            bucket_s=bucket_s,
            buckets=by_name(tuple[BucketOfDay, ...], by_bucket(span, bucket_s, self._store.came(camera, span))),
            alarms=alarms,
            retrainings=retrainings,
            outages=by_name(tuple[OutageAnswer, ...], told),
            known_from_utc_s=None if known is None else max(known, span.from_utc_s),
            clips=clips,
            cut=read(tuple[Lane, ...], tuple(n for n, rows in lanes.items() if len(rows) >= MOST_OF_DAY)),
        )

    def _alarms(self, camera: str, span: DaySpan) -> tuple[AlarmAnswer, ...]:
        return self._listed("alarm", AlarmAnswer, self._store.alarms_of(camera, span))

    def _clips(self, camera: str, span: DaySpan) -> tuple[ClipAnswer, ...]:
        return self._listed("clip", ClipAnswer, self._store.clips_of(camera, span))

    def _listed(self, kind: str, of: type[T], records: Iterable[Numbered]) -> tuple[T, ...]:
        return tuple(listed(self._store.database.unreadable, kind, of, records, lambda r: r.id))

    def _retrainings(self, camera: str, span: DaySpan) -> tuple[RetrainingOfDay, ...]:
        rows = self._store.retrainings_of(camera, span)
        made = self._store.database.unreadable.readable("retraining", rows, _retraining, lambda r: r.id)
        return tuple(made)

    def _changes(self, camera: str, span: DaySpan) -> tuple[StateChange, ...]:
        """The changes of a camera's stream in a day, and the last one before it."""
        kinds: Sequence[str] = tuple(_STATES)
        before = self._store.events(kind=kinds, camera=camera, until_utc_s=span.from_utc_s, limit=1)
        inside = self._store.events(
            kind=kinds, camera=camera, since_utc_s=span.from_utc_s, until_utc_s=span.to_utc_s, limit=_MOST_CHANGES,
            newest_first=False,
        )  # fmt: skip
        return tuple(map(_change, (*before, *inside)))


def _change(entry: EventRecord) -> StateChange:
    fault = entry.data.get("fault") if isinstance(entry.data, Mapping) else None
    known = next((f for f in CAMERA_FAULTS if f == fault), None)
    return StateChange(entry.at_utc_s, _STATES[entry.kind], known)


def _retraining(job: JobRecord) -> RetrainingOfDay:
    told = ("window", "state", "started_utc_s", "ended_utc_s", "promoted", "accuracy_before", "accuracy_after",
            "model_version")  # fmt: skip
    kept = job.to_json()
    return read(RetrainingOfDay, {name: kept[name] for name in told})

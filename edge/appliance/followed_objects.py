"""Objects that are followed from answer to answer, on each camera."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import numpy as np

from edge.appliance.alarm_records import AlarmRecords
from edge.appliance.deliver import Deliver
from edge.appliance.picture_requests import PictureRequests
from edge.appliance.service import Json
from edge.core.application_sources import ObjectsDescribed
from edge.core.clock import Clock
from edge.core.journal_kinds import LiveOnlyKind
from edge.core.tracks import ObjectChange, ObjectNews, Seen, TrackedObject
from edge.core.zones import Box, Zone
from edge.runtime import messages as m
from edge.settings import CameraSettings
from edge.store.alarms import ObjectRecord
from edge.tracking import (
    Attributes,
    TrackerState,
    are_news,
    expire,
    finish,
    live,
    matched,
    step,
    with_description,
)

#: Places of objects that are remembered of each camera: some seconds of a busy one.
_REMEMBERED = 1000


class FollowedObjects:
    """Every change of an object is recorded and delivered; `send_live(kind, camera, body)` sends listeners its
    beginning and its end. `counts` has objects by camera since the start, `not_followed` those that were too many."""

    def __init__(
        self,
        clock: Clock,
        records: AlarmRecords,
        pictures: PictureRequests,
        send_live: Callable[[LiveOnlyKind, str | None, Json], None],
        deliver: Deliver,
    ) -> None:
        self._clock, self._records, self._pictures = clock, records, pictures
        self._send_live, self._deliver = send_live, deliver
        self._trackers: dict[str, TrackerState] = {}
        self._zones: dict[str, tuple[CameraSettings, tuple[Zone, ...]]] = {}
        #: Attributes of the objects that are there, as applications answered, by id.
        self._said: dict[int, Attributes] = {}
        #: Where the objects of a camera were at its last answers: (frame, id, box).
        self._seen: dict[str, deque[tuple[int, int, Box]]] = {}
        self.next_id = 1
        self.counts: Counter[str] = Counter()
        self.not_followed = 0

    @property
    def cameras(self) -> tuple[str, ...]:
        """Cameras on which objects are followed, or were."""
        return tuple(self._trackers)

    def on(self, camera: str) -> tuple[TrackedObject, ...]:
        """Objects on a camera now."""
        known = live(self._trackers[camera]) if camera in self._trackers else ()
        return tuple(self._with_attributes(tracked) for tracked in known)

    def answered(self, settings: CameraSettings, message: m.Answered) -> bool:
        """Follow the objects of an answer. Returns False for one of a worker that has other classes than the camera has
        now: it is left out."""
        camera, classes = settings.id, settings.classes
        labels = [int(c) for c in message.answer.classes]
        if any(c >= len(classes) for c in labels):
            return False
        names = tuple(classes[c] for c in labels)
        boxes, scores = np.asarray(message.answer.boxes), np.asarray(message.answer.scores)
        seen = Seen(message.at_s, message.utc_s, boxes, scores, names, looks=message.looks)
        state = self._trackers.get(camera) or TrackerState(camera)
        done = step(state, seen, self._zones_of(settings), next_id=self.next_id)
        self._trackers[camera], self.next_id = done.state, done.next_id
        self.not_followed += done.state.refused - state.refused
        self._changed(done.changes)
        seen_now = self._seen.setdefault(camera, deque(maxlen=_REMEMBERED))
        there = live(done.state)
        seen_now.extend((message.number, o.id, o.box) for o in there if o.seen_utc_s == message.utc_s)
        return True

    def described(self, news: ObjectsDescribed) -> None:
        """An application says something of the objects of an answer: those that are followed get it as attributes. An
        answer that was not followed is taken for the one before it."""
        seen = self._seen.get(news.camera, ())
        frame = max((number for number, _, _ in seen if number <= news.number), default=None)
        there = [(one, box) for number, one, box in seen if number == frame]
        known = {tracked.id: tracked for tracked in self.on(news.camera)}
        changes = []
        for place, said in matched([box for _, box in there], news.objects).items():
            number = there[place][0]
            if number in known:
                before = known[number]
                self._said[number] = with_description(self._said.get(number, {}), said)
                now = self._with_attributes(before)
                if are_news(before.attributes, now.attributes):
                    changes.append(ObjectChange("update", now))
        self._changed(tuple(changes))

    def expire(self) -> Iterator[str]:
        """End objects that were not seen for too long; the cameras on which some have ended, one after another."""
        now_s = self._clock.monotonic()
        for camera, state in list(self._trackers.items()):
            done = expire(state, now_s)
            self._trackers[camera] = done.state
            if done.changes:
                self._changed(done.changes)
                yield camera

    def finish(self, camera: str) -> bool:
        """End all objects of a camera where they were seen last. Returns whether any were followed there."""
        state = self._trackers.pop(camera, None)
        if state is None:
            return False
        self._changed(finish(state).changes)
        return True

    def outlived(self, records: Iterable[ObjectRecord], at_utc_s: float) -> None:
        """Deliver the end, now, of objects that a killed run has followed, for receivers that heard of their beginning.
        The records themselves end later."""
        for record in records:
            ended = replace(record, ended_utc_s=max(record.began_utc_s, at_utc_s))
            news = ObjectNews(ended.tracked(), "end", record.picture)
            self._send_live("object.end", record.camera, news.to_json())
            self._deliver(news)

    def camera_gone(self, camera: str) -> None:
        """Forget the zones of a camera, and where its objects were."""
        self._zones.pop(camera, None)
        self._seen.pop(camera, None)

    def _with_attributes(self, tracked: TrackedObject) -> TrackedObject:
        said = self._said.get(tracked.id)
        return tracked if not said else replace(tracked, attributes={n: votes.value for n, votes in said.items()})

    def _zones_of(self, settings: CameraSettings) -> tuple[Zone, ...]:
        known = self._zones.get(settings.id)
        if known is None or known[0] is not settings:
            known = self._zones[settings.id] = (settings, tuple(z.zone() for z in settings.zones))
        return known[1]

    def _changed(self, changes: tuple[ObjectChange, ...]) -> None:
        for change in changes:
            tracked = self._with_attributes(change.object)
            self._records.put_object(tracked)
            news = ObjectNews(tracked, change.phase, self._pictures.kept(tracked.id))
            if change.phase == "new":
                self.counts[tracked.camera] += 1
                self._pictures.follow(tracked.id)
            elif change.phase == "end":
                self._pictures.ended(tracked.id)
                self._said.pop(tracked.id, None)
            if change.phase != "update":
                self._send_live("object.new" if change.phase == "new" else "object.end", tracked.camera, news.to_json())
            self._deliver(news)

"""Objects that are followed from answer to answer, on each camera."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import numpy as np

from edge.appliance.alarm_records import AlarmRecords
from edge.appliance.deliver import Deliver
from edge.appliance.picture_requests import PictureRequests
from edge.appliance.service import Json
from edge.core.clock import Clock
from edge.core.journal_kinds import ToldKind
from edge.core.tracks import ObjectChange, ObjectNews, Seen, TrackedObject
from edge.core.zones import Zone
from edge.runtime import messages as m
from edge.settings import CameraSettings
from edge.tracking import TrackerState, expire, finish, live, step


class FollowedObjects:
    """Every change of an object is recorded and delivered; `tell(kind, camera, body)` tells listeners of its beginning
    and its end. `counts` has objects by camera since the start, `not_followed` those that were too many."""

    def __init__(
        self,
        clock: Clock,
        records: AlarmRecords,
        pictures: PictureRequests,
        tell: Callable[[ToldKind, str | None, Json], None],
        deliver: Deliver,
    ) -> None:
        self._clock, self._records, self._pictures = clock, records, pictures
        self._tell, self._deliver = tell, deliver
        self._trackers: dict[str, TrackerState] = {}
        self._zones: dict[str, tuple[CameraSettings, tuple[Zone, ...]]] = {}
        self.next_id = 1
        self.counts: Counter[str] = Counter()
        self.not_followed = 0

    @property
    def cameras(self) -> tuple[str, ...]:
        """Cameras on which objects are followed, or were."""
        return tuple(self._trackers)

    def on(self, camera: str) -> tuple[TrackedObject, ...]:
        """Objects on a camera now."""
        return live(self._trackers[camera]) if camera in self._trackers else ()

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
        return True

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

    def camera_gone(self, camera: str) -> None:
        """Forget the zones of a camera."""
        self._zones.pop(camera, None)

    def _zones_of(self, settings: CameraSettings) -> tuple[Zone, ...]:
        known = self._zones.get(settings.id)
        if known is None or known[0] is not settings:
            known = self._zones[settings.id] = (settings, tuple(z.zone() for z in settings.zones))
        return known[1]

    def _changed(self, changes: tuple[ObjectChange, ...]) -> None:
        for change in changes:
            tracked = change.object
            self._records.put_object(tracked)
            news = ObjectNews(tracked, change.phase, self._pictures.kept(tracked.id))
            if change.phase == "new":
                self.counts[tracked.camera] += 1
                self._pictures.follow(tracked.id)
            elif change.phase == "end":
                self._pictures.ended(tracked.id)
            if change.phase != "update":
                self._tell("object.new" if change.phase == "new" else "object.end", tracked.camera, news.to_json())
            self._deliver(news)

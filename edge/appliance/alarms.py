"""Objects and alarms: joins the cameras' answers, the tracker, the rules, the database and the receivers.

Everything here runs on the control process's event loop; the database and files are written behind, in a thread.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from edge.appliance.active_alarms import ActiveAlarms
from edge.appliance.alarm_records import AlarmRecords
from edge.appliance.alarm_rules import AlarmRules
from edge.appliance.answers.alarms import AlarmAnswer, ObjectAnswer
from edge.appliance.answers.seen_alarms import shown_to
from edge.appliance.answers.stored import one, paged
from edge.appliance.deliver import Deliver
from edge.appliance.finder import Finder
from edge.appliance.followed_objects import FollowedObjects
from edge.appliance.picture_files import PictureFiles
from edge.appliance.picture_requests import PictureRequests
from edge.appliance.service import Json
from edge.core import alarms as al
from edge.core.alarms import Alarm
from edge.core.application_sources import ObjectsDescribed
from edge.core.clock import Clock
from edge.core.errors import NotFound
from edge.core.journal_kinds import JournalNote, LiveOnlyKind
from edge.core.tracks import TrackedObject
from edge.runtime import messages as m
from edge.runtime.camera import CameraRuntime
from edge.settings import CameraSettings, RetentionSettings, RuleSettings, SiteSettings
from edge.store.alarms import OWNER_NOUNS, AlarmRetention, ObjectRecord, PictureOwner
from edge.store.store import Store

log = logging.getLogger(__name__)

#: The first numbers after a start: numbers that a killed run had given out and not yet written are not given again.
_ALARMS_UNWRITTEN, _OBJECTS_UNWRITTEN = 10, 1000
#: Rules that look at the objects that are there.
_OF_OBJECTS: Final = frozenset({"object", "crowd"})
_TICK_S, _SLOW_TICKS = 1.0, 10
#: After a start the times of so many of the newest alarms show when each rule raised one last.
_LAST_ALARMS = 1000


class Alarms:
    """Follows objects, applies rules, keeps what came of it; implements `AlarmsService`. `note` journals (and tells
    listeners), `send_live` sends to listeners only, `on_objects(settings, objects, utc_s)` gets what is
    there after each answer about a picture that does not stand still, `want_clip` new alarms of rules that keep
    clips."""

    def __init__(
        self,
        site: SiteSettings,
        store: Store,
        clock: Clock,
        cameras: Callable[[], Mapping[str, CameraRuntime]],
        take_pictures: Callable[[str, m.TakePictures], bool],
        served: Callable[[], al.ServedNow],
        note: JournalNote,
        send_live: Callable[[LiveOnlyKind, str | None, Json], None],
        deliver: Deliver,
        complain: Callable[[str, str], None],
        on_objects: Callable[[CameraSettings, tuple[TrackedObject, ...], float], None] = lambda *_: None,
        want_clip: Callable[[Alarm], None] = lambda _: None,
    ) -> None:
        self._on_objects = on_objects
        self._store, self._clock, self._cameras, self._served = store, clock, cameras, served
        self._send_live, self._complain = send_live, complain
        self._data = Path(site.data_dir)
        self._files = PictureFiles(self._data)
        self.records = AlarmRecords(store, self._files, complain)
        self._pictures = PictureRequests(clock, take_pictures)
        self._rules = AlarmRules(
            site.rules, store, cameras, note, lambda rules: self._active.look(al.RulesChanged(rules))
        )
        self._active = ActiveAlarms(clock, self._rules, self.records, self._pictures, note, deliver, want_clip)
        self._objects = FollowedObjects(clock, self.records, self._pictures, send_live, deliver)
        self.finder = Finder(store, clock, cameras)
        self._tasks: list[asyncio.Task[None]] = []
        self._open = False
        #: When objects of the last run ended, and the highest number of one.
        self._outlived = (0.0, 0)

    # -- life

    async def open(self) -> None:
        """Read what an earlier run left and go on. Raises MagpieError."""
        await self._rules.open()
        active, last, numbers, outlived = await asyncio.to_thread(self._read)
        self._active.restore(last, active, numbers[0] + _ALARMS_UNWRITTEN if numbers[0] else 1)
        self._objects.next_id = numbers[1] + _OBJECTS_UNWRITTEN if numbers[1] else 1
        # No object is followed over a restart; rules may have been changed in the site's file.
        self._outlived = (self._clock.utc(), numbers[1])
        self._objects.outlived(outlived, self._outlived[0])
        for camera in {a.camera for a in active if a.kind in _OF_OBJECTS and a.camera}:
            self._active.look(al.ObjectsNow(camera, ()))
        self._active.look(al.RulesChanged())
        watched = {c for c, known in self._cameras().items() if known.settings.enabled}
        for camera in {a.camera for a in active if a.camera and a.camera not in watched}:
            self._active.look(al.CameraGone(camera, "the camera was removed or switched off"))
        self._open = True
        self._tasks.append(asyncio.create_task(self._ticking(), name="alarms"))
        self._tasks.append(asyncio.create_task(self.records.run(), name="alarms-writer"))

    def _read(self) -> tuple[tuple[Alarm, ...], tuple[Alarm, ...], tuple[int, int], tuple[ObjectRecord, ...]]:
        """Alarms that are active, the last ones, the last numbers, and the objects that the last run followed."""
        active = self._store.alarms.newest(limit=10_000, active=True)
        return (
            active,
            self._store.alarms.newest(limit=_LAST_ALARMS),
            self._store.alarms.last_numbers(),
            self._store.alarms.open_objects(),
        )

    async def end_outlived(self) -> None:
        """End the records of objects that the last run followed. Call it once their ends, which `open` has delivered,
        are in the outbox: after a kill in between, the next start delivers them again, with the same ids. Raises
        DiskFull, Unavailable, StoreError."""
        await asyncio.to_thread(self._store.alarms.end_open_objects, *self._outlived)

    async def close(self) -> None:
        """Objects end where they were seen last; everything is written. Safe to call twice."""
        self._open = False
        tasks, self._tasks = self._tasks, []
        for task in tasks[:1]:
            task.cancel()
        self.records.end()
        await asyncio.gather(*tasks, return_exceptions=True)
        for camera in self._objects.cameras:
            self._finish(camera)
        await self.records.flush()
        if unwritten := len(self.records):
            log.error("%d alarms and objects could not be kept", unwritten)

    async def _ticking(self) -> None:
        ticks = 0
        while True:
            await asyncio.sleep(_TICK_S)
            try:
                self.tick(ticks % _SLOW_TICKS == 0)
            except Exception:  # one bad value must not end all alarms
                log.exception("alarms: a look at the cameras failed")
                self._complain("alarms", "rules could not be looked at; the log tells more")
            ticks += 1

    def tick(self, slow: bool) -> None:
        """Once a second: the state of objects and cameras; `slow`: of the disk, and of alarms held back."""
        for camera in self._objects.expire():
            self._objects_now(camera)
        for known in self._cameras().values():
            if known.settings.enabled:
                status = known.status()
                words = status.message or (status.fault or status.state).replace("_", " ")
                self._active.look(al.CameraNow(known.id, status.state == "live", words))
        served = self._served()
        if served.within or any(r.kind == "slo" for r in self._rules.in_force):
            self._active.look(served)
        if slow:
            usage = shutil.disk_usage(self._data)
            self._pictures.free_bytes = usage.free
            self._active.look(al.DiskNow(usage.free, usage.total))
            self._active.look(al.TimePassed())

    # -- facts in, alarms out

    def fact(self, fact: al.Fact) -> None:
        """From the code that knows: rules look at it, once they are open."""
        if self._open:
            self._active.look(fact)

    def camera_gone(self, camera: str, words: str = "the camera was removed") -> None:
        """A camera is not watched any more."""
        self._finish(camera)
        self._pictures.camera_gone(camera)
        self._objects.camera_gone(camera)
        self._active.look(al.CameraGone(camera, words))

    def _finish(self, camera: str) -> None:
        if self._objects.finish(camera):
            self._objects_now(camera)

    def answered(self, camera: str, message: m.Answered | m.Picture) -> None:
        """From a camera's worker: an answer, or a picture that was asked for."""
        if not self._open:
            return
        if isinstance(message, m.Picture):
            self._pictured(camera, message)
            return
        found = self._cameras().get(camera)
        if found is not None and self._objects.answered(found.settings, message):
            self._objects_now(camera, message.number)
            there = self._objects.on(camera)
            # A picture that stands still says nothing of now: who counts does not watch.
            if found.status().fault != "frozen":
                self._on_objects(found.settings, there, message.utc_s)
            self._pictures.ask_for_objects(camera, message.number, message.utc_s, there)

    def described(self, news: ObjectsDescribed) -> None:
        """From an application that a camera feeds: attributes of its objects."""
        if self._open and news.camera in self._cameras():
            self._objects.described(news)

    def _objects_now(self, camera: str, frame: int | None = None) -> None:
        if any(r.kind in _OF_OBJECTS for r in self._rules.in_force):
            seen = al.ObjectsNow(camera, self._objects.on(camera))
            self._active.look(seen, None if frame is None else (camera, frame))

    def _pictured(self, camera: str, picture: m.Picture) -> None:
        kind, number = picture.of.kind, picture.of.number
        if not picture.jpeg:
            self._pictures.missed(kind, number)
            return
        self._pictures.came(kind, number)
        if not self.records.put_picture(kind, number, camera, picture.jpeg):
            return
        if kind == "objects":
            self._pictures.keep(number)
        else:
            self._active.pictured(number)

    # -- service

    def counts(self) -> Json:
        """Since the start: alarms raised by kind, objects by camera, and losses; how many there are now."""
        active = Counter(a.kind for a in self._active.alarms())
        return {
            "raised": {kind: self._active.raised.get(kind, 0) for kind in al.RULE_KINDS},
            "active": {kind: active.get(kind, 0) for kind in al.RULE_KINDS},
            "held_back": self._active.held_back,
            "objects": dict(self._objects.counts),
            "objects_now": {camera: len(self._objects.on(camera)) for camera in self._objects.cameras},
            "lost": {
                "records": self.records.lost_records,
                "pictures_not_taken": self._pictures.not_taken,
                "pictures_not_kept": self.records.lost_pictures,
                "objects_not_followed": self._objects.not_followed,
                "alarms_refused": self._active.refused,
            },
        }

    def active(self) -> list[Json]:
        """Alarms that have not ended."""
        return [a.to_json() for a in self._active.alarms()]

    async def retain(self, settings: RetentionSettings) -> AlarmRetention:
        """Delete what the site's limits do not keep. Raises MagpieError."""
        limit = int(settings.max_object_pictures_mb * 1e6)
        return await asyncio.to_thread(
            self._store.alarms.retain_alarms, settings.days, settings.max_objects, limit, self._files.drop
        )

    def rules(self) -> list[RuleSettings]:
        """Every rule."""
        return self._rules.every()

    def rule(self, rule: str) -> RuleSettings:
        """One rule. Raises NotFound."""
        return self._rules.one(rule)

    async def add_rule(self, settings: Mapping[str, Any], by: str) -> RuleSettings:
        """Raises InvalidValues, Conflict."""
        return await self._rules.add(settings, by)

    async def change_rule(self, rule: str, patch: Mapping[str, Any], by: str) -> RuleSettings:
        """JSON merge patch; null sets a field back to its default. Raises NotFound, InvalidValues."""
        return await self._rules.change(rule, patch, by)

    async def remove_rule(self, rule: str, by: str) -> None:
        """Its alarms end. Raises NotFound."""
        await self._rules.remove(rule, by)

    def alarms(
        self,
        limit: int,
        before: int | None,
        camera: str | None,
        rule: str | None,
        active: bool | None,
        cameras: Collection[str] | None,
        tenants: Collection[str] | None = None,
    ) -> list[AlarmAnswer]:
        """Newest first (blocking)."""

        def fetch(wanted: int, below: int | None) -> Sequence[Alarm]:
            return self._store.alarms.newest(
                limit=wanted, before=below, camera=camera, rule=rule, active=active, cameras=cameras, tenants=tenants
            )

        # The database looks at tenants, and not at the cameras of a tenant or a served model.
        shown = None if cameras is None and tenants is None else shown_to(cameras, tenants)
        return paged(self._store.database.unreadable, "alarm", AlarmAnswer, limit, before, fetch, shown)

    def alarm(self, number: int) -> AlarmAnswer:
        """One alarm (blocking). Raises NotFound, UnreadableRecord."""
        return one(
            self._store.database.unreadable, "alarm", AlarmAnswer, number, lambda: self._store.alarms.alarm(number)
        )

    async def acknowledge(self, number: int, by: str) -> AlarmAnswer:
        """Raises NotFound."""
        await self.records.flush()
        alarm = await asyncio.to_thread(self._store.alarms.acknowledge_alarm, number, by)
        if alarm.acknowledged_by == by:
            self._active.look(al.Acknowledged(number, by))
        self._send_live("alarm.acknowledged", alarm.camera, alarm.to_json())
        return await asyncio.to_thread(self.alarm, number)

    def alarm_picture(self, number: int) -> bytes:
        """JPEG (blocking). Raises NotFound."""
        alarm = self._store.alarms.alarm(number)
        return self._picture("alarms", number, alarm.camera, alarm.picture)

    def objects(
        self,
        limit: int,
        before: int | None,
        camera: str | None,
        class_name: str | None,
        active: bool | None,
        cameras: Collection[str] | None,
    ) -> list[ObjectAnswer]:
        """Newest first (blocking)."""

        def fetch(wanted: int, below: int | None) -> Sequence[ObjectRecord]:
            return self._store.alarms.tracked_objects(
                limit=wanted, before=below, camera=camera, class_name=class_name, active=active, cameras=cameras
            )

        return paged(self._store.database.unreadable, "object", ObjectAnswer, limit, before, fetch)

    def object(self, number: int) -> ObjectAnswer:
        """One object (blocking). Raises NotFound, UnreadableRecord."""
        find, unreadable = self._store.alarms.tracked_object, self._store.database.unreadable
        return one(unreadable, "object", ObjectAnswer, number, lambda: find(number))

    def object_picture(self, number: int) -> bytes:
        """JPEG (blocking). Raises NotFound."""
        tracked = self._store.alarms.tracked_object(number)
        return self._picture("objects", number, tracked.camera, tracked.picture)

    def _picture(self, kind: PictureOwner, number: int, camera: str | None, there: bool) -> bytes:
        if not there:
            raise NotFound(f"no picture of {OWNER_NOUNS[kind]} {number} is kept")
        return self._files.read(kind, number, camera)

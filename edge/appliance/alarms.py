"""Objects and alarms: joins the cameras' answers, the tracker, the rules, the database and whoever is told.

Everything here runs on the control process's event loop; the database and files are written behind, in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import shutil
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import numpy as np

from edge.appliance.service import Json
from edge.core import alarms as al
from edge.core.alarms import Alarm, Fact, Rule
from edge.core.clock import Clock
from edge.core.errors import Conflict, InvalidValue, InvalidValues, MagpieError, NotFound
from edge.core.tracks import ObjectChange, Seen, TrackedObject
from edge.core.zones import Zone
from edge.runtime import messages as m
from edge.runtime.camera import CameraRuntime
from edge.settings import CameraSettings, RetentionSettings, RuleSettings, SiteSettings, merge, parse
from edge.store.alarms import AlarmRetention, Kept
from edge.store.store import Store
from edge.tracking import TrackerState, expire, finish, live, step
from scheduler.alarms import AlarmState, Now, handle, restore

log = logging.getLogger(__name__)

#: The first numbers after a start: what a run that was killed had given out and not yet written is not given again.
_ALARMS_UNWRITTEN, _OBJECTS_UNWRITTEN = 10, 1000
#: Records that wait for the database; then the oldest give way, and are counted.
_MOST_WAITING = 5000
#: Pictures asked of a camera: so many at once, so many a second; of one object at most so many, each so much better.
_PICTURES_AT_ONCE, _PICTURES_PER_S = 6.0, 1.0
_PICTURES_OF_ONE, _BETTER, _PICTURE_EVERY_S = 3, 1.5, 1.0
_PICTURES_WAITING = 200
#: With less free disk than this no picture is kept.
_LOW_DISK_BYTES = 200_000_000
_EDGE: Final = 0.01
_TICK_S, _SLOW_TICKS = 1.0, 10
_WRITE_EVERY_S = 1.0
_MAX_RULES = 200
#: So many of the newest alarms tell after a start when rules last raised one.
_LAST_ALARMS = 1000
#: What the runtime calls a roll-back that no person asked for.
_BY_ITSELF = "automatic roll-back"


class Deliver(Protocol):
    """Hands what happened to other systems; never waits."""

    def __call__(self, kind: Literal["alarm", "object"], camera: str | None, body: Json) -> None:
        """`kind` "alarm" or "object"; `body` as REST gives it, with `phase`."""


@dataclass
class _Pictures:
    """What pictures were asked of one object: how many, how good the best is, when the last was asked for, and whether
    one came."""

    asked: int = 0
    best: float = 0.0
    asked_s: float = 0.0
    came: bool = False


class Alarms:
    """Follows objects, applies rules, keeps what came of it. `note` journals (and tells listeners), `tell` tells
    listeners only."""

    def __init__(
        self,
        site: SiteSettings,
        store: Store,
        clock: Clock,
        cameras: Callable[[], Mapping[str, CameraRuntime]],
        take_pictures: Callable[[str, m.TakePictures], bool],
        served: Callable[[], Mapping[str, float]],
        note: Callable[..., None],
        tell: Callable[[str, str | None, Json], None],
        deliver: Deliver,
        complain: Callable[[str, str], None],
    ) -> None:
        self._store, self._clock, self._cameras = store, clock, cameras
        self._take_pictures, self._served = take_pictures, served
        self._note, self._tell, self._deliver, self._complain = note, tell, deliver, complain
        self._data = Path(site.data_dir)
        self._settings: dict[str, RuleSettings] = {r.id: r for r in site.rules}
        self._rules: tuple[Rule, ...] = ()
        self._state = AlarmState()
        self._trackers: dict[str, TrackerState] = {}
        self._zones: dict[str, tuple[CameraSettings, tuple[Zone, ...]]] = {}
        self._next_object = 1
        self._of_object: dict[int, _Pictures] = {}
        self._tokens: dict[str, tuple[float, float]] = {}
        self._with_picture: dict[Kept, set[int]] = {"alarms": set(), "objects": set()}
        self._alarms_waiting: dict[int, Alarm] = {}
        self._objects_waiting: dict[int, TrackedObject] = {}
        self._pictures_waiting: dict[tuple[Kept, int], tuple[str | None, bytes]] = {}
        self._raised: Counter[str] = Counter()
        self._objects: Counter[str] = Counter()
        self._lost: Counter[str] = Counter()
        self._free_bytes = 1 << 62
        self._writing = asyncio.Lock()
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._changing = asyncio.Lock()
        self._open = False

    # -- life

    async def open(self) -> None:
        """Read what an earlier run left and go on. Raises MagpieError."""
        kept, active, last, numbers = await asyncio.to_thread(self._read)
        if kept is not None:
            self._settings = {r.id: r for r in kept}
        self._rules = tuple(r.rule() for r in self._settings.values())
        self._state = restore((*last, *active), numbers[0] + _ALARMS_UNWRITTEN if numbers[0] else 1, self._now())
        self._next_object = numbers[1] + _OBJECTS_UNWRITTEN if numbers[1] else 1
        self._with_picture["alarms"] = {a.id for a in active if a.picture}
        # No object is followed over a restart; rules may have been changed in the site's file.
        for camera in {a.camera for a in active if a.kind == "object" and a.camera}:
            self._look(al.ObjectsNow(camera, ()))
        self._look(al.RulesChanged())
        watched = {c for c, known in self._cameras().items() if known.settings.enabled}
        for camera in {a.camera for a in active if a.camera and a.camera not in watched}:
            self._look(al.CameraGone(camera, "the camera was removed or switched off"))
        self._open = True
        self._tasks.append(asyncio.create_task(self._ticking(), name="alarms"))
        self._tasks.append(asyncio.create_task(self._write_behind(), name="alarms-writer"))

    def _read(self) -> tuple[list[RuleSettings] | None, tuple[Alarm, ...], tuple[Alarm, ...], tuple[int, int]]:
        """Rules that were changed, alarms that are active, the last ones, and the last numbers."""
        document = self._store.get_settings("rules")
        kept = None
        if document is not None:
            kept = [parse(RuleSettings, r, f"rules[{n}]") for n, r in enumerate(document.get("rules", ()))]
        active = self._store.alarms(limit=10_000, active=True)
        self._store.end_open_objects(self._clock.utc())
        return kept, active, self._store.alarms(limit=_LAST_ALARMS), self._store.last_numbers()

    async def close(self) -> None:
        """Objects end where they were seen last; everything is written. Safe to call twice."""
        self._open = False
        tasks, self._tasks = self._tasks, []
        for task in tasks[:1]:
            task.cancel()
        # The writer ends by itself: a thread that writes could not be stopped.
        self._wake.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        for camera in list(self._trackers):
            self._finish(camera)
        await self.flush()
        if unwritten := len(self._alarms_waiting) + len(self._objects_waiting):
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
        """Once a second: what has become of objects and cameras; `slow`: of the disk, and of what was held back."""
        now_s = self._clock.monotonic()
        for camera, state in list(self._trackers.items()):
            done = expire(state, now_s)
            self._trackers[camera] = done.state
            if done.changes:
                self._changed(done.changes)
                self._objects_now(camera)
        for known in self._cameras().values():
            if known.settings.enabled:
                status = known.status()
                words = status.message or (status.fault or status.state).replace("_", " ")
                self._look(al.CameraNow(known.id, status.state == "live", words))
        served = self._served()
        if served or any(r.kind == "slo" for r in self._rules):
            self._look(al.ServedNow(served))
        if slow:
            usage = shutil.disk_usage(self._data)
            self._free_bytes = usage.free
            self._look(al.DiskNow(usage.free, usage.total))
            self._look(al.TimePassed())

    # -- facts in, alarms out

    def _now(self) -> Now:
        return Now(self._clock.monotonic(), self._clock.utc(), self._clock.local_minute())

    def _look(self, fact: Fact, frame: tuple[str, int] | None = None) -> None:
        self._state, told = handle(self._rules, self._state, fact, self._now())
        for alarm in told:
            self._say(alarm)
        new = [a.id for a in told if a.phase == "new"]
        if frame is not None and new:
            now_s = self._clock.monotonic()
            wanted = tuple(m.PictureWanted(f"alarms/{n}") for n in new if self._may_ask(f"{frame[0]}/alarms", now_s))
            self._lost["pictures_not_taken"] += len(new) - len(wanted)
            if wanted and not self._ask_pictures(frame[0], frame[1], wanted):
                self._lost["pictures_not_taken"] += len(wanted)

    def _say(self, alarm: Alarm) -> None:
        alarm = replace(alarm, picture=alarm.id in self._with_picture["alarms"])
        self._alarms_waiting[alarm.id] = alarm
        self._raised[alarm.kind] += alarm.phase == "new"
        if alarm.phase == "end":
            self._with_picture["alarms"].discard(alarm.id)
        body = alarm.to_json()
        self._note(f"alarm.{alarm.phase}", camera=alarm.camera, data=body)
        self._deliver("alarm", alarm.camera, body)
        self._wake.set()

    def noted(self, kind: str, camera: str | None, window: int | None, data: Mapping[str, Any]) -> None:
        """An event was journaled: some are facts for rules."""
        if camera is None or not self._open:
            return
        if kind == "window.measured" and data.get("realised") is not None:
            self._look(al.AccuracyMeasured(camera, window or 0, float(data["realised"])))
        elif kind == "model.rolled_back" and data.get("by") == _BY_ITSELF:
            self._look(al.RolledBack(camera, str(data.get("version", "")), str(data.get("reason", ""))))
        elif kind == "model.promoted":
            self._look(al.Promoted(camera, str(data.get("version", ""))))

    def camera_gone(self, camera: str, words: str = "the camera was removed") -> None:
        """A camera is not watched any more."""
        self._finish(camera)
        for whose in (camera, f"{camera}/alarms"):
            self._tokens.pop(whose, None)
        self._zones.pop(camera, None)
        self._look(al.CameraGone(camera, words))

    def _finish(self, camera: str) -> None:
        state = self._trackers.pop(camera, None)
        if state is not None:
            self._changed(finish(state).changes)
            self._objects_now(camera)

    # -- objects

    def answered(self, camera: str, message: m.Answered | m.Picture) -> None:
        """From a camera's worker: an answer, or a picture that was asked for."""
        if not self._open:
            return
        if isinstance(message, m.Picture):
            self._pictured(camera, message)
            return
        found = self._cameras().get(camera)
        if found is None:
            return
        classes = found.settings.classes
        labels = [int(c) for c in message.answer.classes]
        if any(c >= len(classes) for c in labels):
            return  # of a worker that has other classes than the camera has now
        names = tuple(classes[c] for c in labels)
        boxes, scores = np.asarray(message.answer.boxes), np.asarray(message.answer.scores)
        seen = Seen(message.at_s, message.utc_s, boxes, scores, names, looks=message.looks)
        state = self._trackers.get(camera) or TrackerState(camera)
        done = step(state, seen, self._zones_of(found.settings), next_id=self._next_object)
        self._trackers[camera], self._next_object = done.state, done.next_id
        self._lost["objects_not_followed"] += done.state.refused - state.refused
        self._changed(done.changes)
        self._objects_now(camera, message.number)
        self._better_pictures(camera, message)

    def _zones_of(self, settings: CameraSettings) -> tuple[Zone, ...]:
        known = self._zones.get(settings.id)
        if known is None or known[0] is not settings:
            known = self._zones[settings.id] = (settings, tuple(z.zone() for z in settings.zones))
        return known[1]

    def _objects_now(self, camera: str, frame: int | None = None) -> None:
        if any(r.kind == "object" for r in self._rules):
            objects = live(self._trackers[camera]) if camera in self._trackers else ()
            self._look(al.ObjectsNow(camera, objects), None if frame is None else (camera, frame))

    def _changed(self, changes: tuple[ObjectChange, ...]) -> None:
        for change in changes:
            thing = change.object
            self._objects_waiting[thing.id] = thing
            body = thing.to_json() | {"picture": thing.id in self._with_picture["objects"], "phase": change.phase}
            if change.phase == "new":
                self._objects[thing.camera] += 1
                self._of_object[thing.id] = _Pictures()
            elif change.phase == "end":
                pictures = self._of_object.pop(thing.id, None)
                self._lost["pictures_not_taken"] += pictures is not None and not pictures.came
                self._with_picture["objects"].discard(thing.id)
            if change.phase != "update":
                self._tell(f"object.{change.phase}", thing.camera, body)
            self._deliver("object", thing.camera, body)

    # -- pictures

    def _better_pictures(self, camera: str, message: m.Answered) -> None:
        """Ask for a picture of each object that is new, or is seen much better than before."""
        now_s, wanted = self._clock.monotonic(), []
        for thing in live(self._trackers[camera]):
            known = self._of_object.get(thing.id)
            if known is None or thing.seen_utc_s != message.utc_s or known.asked >= _PICTURES_OF_ONE:
                continue
            quality = _quality(thing)
            if known.asked and (quality < _BETTER * known.best or now_s - known.asked_s < _PICTURE_EVERY_S):
                continue
            wanted.append((quality, thing, known))
        wanted.sort(key=lambda w: (w[2].asked, -w[0]))
        orders = []
        for quality, thing, known in wanted:
            if not self._may_ask(camera, now_s):
                break  # those that have none come first the next time, too
            known.asked, known.best, known.asked_s = known.asked + 1, quality, now_s
            orders.append(m.PictureWanted(f"objects/{thing.id}", thing.box))
        if orders:
            self._ask_pictures(camera, message.number, tuple(orders))

    def _may_ask(self, whose: str, now_s: float) -> bool:
        """Alarms and objects of each camera have a measure of their own."""
        tokens, at_s = self._tokens.get(whose, (_PICTURES_AT_ONCE, now_s))
        tokens = min(_PICTURES_AT_ONCE, tokens + (now_s - at_s) * _PICTURES_PER_S)
        good = tokens >= 1.0
        self._tokens[whose] = (tokens - good, now_s)
        return good

    def _ask_pictures(self, camera: str, frame: int, wanted: tuple[m.PictureWanted, ...]) -> bool:
        return self._free_bytes >= _LOW_DISK_BYTES and self._take_pictures(camera, m.TakePictures(frame, wanted))

    def _pictured(self, camera: str, picture: m.Picture) -> None:
        found = re.fullmatch(r"(alarms|objects)/(\d{1,18})", picture.key)
        if found is None:
            return
        kind: Kept = "alarms" if found[1] == "alarms" else "objects"
        number = int(found[2])
        known = self._of_object.get(number) if kind == "objects" else None
        if not picture.jpeg:
            # The frame was gone already. Of an object another is asked for; what has none at its end is counted.
            self._lost["pictures_not_taken"] += kind == "alarms"
            if known is not None and not known.came:
                known.best = 0.0
            return
        if known is not None:
            known.came = True
        if len(self._pictures_waiting) >= _PICTURES_WAITING and (kind, number) not in self._pictures_waiting:
            self._lost["pictures_not_kept"] += 1
            return
        self._pictures_waiting[kind, number] = (camera, picture.jpeg)
        if kind == "objects":
            if number in self._of_object:
                self._with_picture["objects"].add(number)
            return
        for key, active in self._state.active.items():
            if active.alarm.id == number:
                self._with_picture["alarms"].add(number)
                # Whoever was told of the alarm learns that it has a picture.
                self._say(replace(active.alarm, phase="update"))
                log.debug("alarm %s of rule %s has a picture", number, key[0])
                break

    def _path(self, kind: Kept, number: int, camera: str | None) -> Path:
        return self._data / kind / camera / f"{number}.jpg" if camera else self._data / kind / f"{number}.jpg"

    # -- writing behind

    async def _write_behind(self) -> None:
        while self._open:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WRITE_EVERY_S):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self.flush()
            except Exception:  # whatever one record is, the next ones are written
                log.exception("alarms: writing failed")
                self._complain("alarms_not_written", "alarms and objects could not be written; the log tells more")

    async def flush(self) -> None:
        """Write what waits; if the database cannot be written it waits on."""
        async with self._writing:
            alarms, self._alarms_waiting = self._alarms_waiting, {}
            objects, self._objects_waiting = self._objects_waiting, {}
            pictures, self._pictures_waiting = self._pictures_waiting, {}
            if not (alarms or objects or pictures):
                return
            try:
                refused, not_kept = await asyncio.to_thread(self._write, alarms, objects, pictures)
                self._lost["records"] += refused
                self._lost["pictures_not_kept"] += not_kept
            except MagpieError as error:
                self._complain("alarms_not_written", f"alarms and objects wait for the database: {error}")
                self._alarms_waiting = self._kept_back(alarms, self._alarms_waiting)
                self._objects_waiting = self._kept_back(objects, self._objects_waiting)
                self._lost["pictures_not_kept"] += len(pictures)

    def _kept_back(self, failed: dict[int, Any], newer: dict[int, Any]) -> dict[int, Any]:
        together = {**failed, **newer}
        surplus = len(together) - _MOST_WAITING
        for number in list(together)[: max(0, surplus)]:
            del together[number]
            self._lost["records"] += 1
        return together

    def _write(
        self,
        alarms: dict[int, Alarm],
        objects: dict[int, TrackedObject],
        pictures: dict[tuple[Kept, int], tuple[str | None, bytes]],
    ) -> tuple[int, int]:
        """Returns how many records the database can never take, and how many pictures could not be kept."""
        refused = _put(self._store.put_alarms, list(alarms.values()))
        refused += _put(self._store.put_objects, list(objects.values()))
        lost = 0
        for (kind, number), (camera, jpeg) in pictures.items():
            path = self._path(kind, number, camera)
            temporary = path.with_suffix(".tmp")
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                first = not path.exists()
                temporary.write_bytes(jpeg)
                temporary.replace(path)
            except OSError:
                with contextlib.suppress(OSError):
                    temporary.unlink(missing_ok=True)  # half a picture would stay on a full disk
                lost += 1
                continue
            there = False
            try:
                there = self._store.set_picture(kind, number, len(jpeg))
            finally:
                if first and not there:  # nothing would ever delete it
                    with contextlib.suppress(OSError):
                        path.unlink(missing_ok=True)
            lost += not there
        return refused, lost

    async def retain(self, settings: RetentionSettings) -> AlarmRetention:
        """Delete what the site's limits do not keep. Raises MagpieError."""
        limit = int(settings.max_object_pictures_mb * 1e6)
        return await asyncio.to_thread(
            self._store.retain_alarms, settings.days, settings.max_objects, limit, self._drop_picture
        )

    def _drop_picture(self, kind: Kept, number: int, camera: str | None) -> None:
        self._path(kind, number, camera).unlink(missing_ok=True)

    # -- service

    def counts(self) -> Json:
        """Since the start: alarms raised by kind, objects by camera, and what was lost; how many there are now."""
        active = Counter(a.alarm.kind for a in self._state.active.values())
        return {
            "raised": {kind: self._raised.get(kind, 0) for kind in al.RULE_KINDS},
            "active": {kind: active.get(kind, 0) for kind in al.RULE_KINDS},
            "held_back": sum(self._state.held_back.values()),
            "objects": dict(self._objects),
            "objects_now": {camera: len(live(state)) for camera, state in self._trackers.items()},
            "lost": {
                name: self._lost.get(name, 0)
                for name in ("records", "pictures_not_taken", "pictures_not_kept", "objects_not_followed")
            } | {"alarms_refused": self._state.refused},
        }  # fmt: skip

    def active(self) -> list[Json]:
        """Alarms that have not ended."""
        return [a.alarm.to_json() for a in self._state.active.values()]

    def rules(self) -> list[Json]:
        """Every rule."""
        return [r.model_dump(mode="json") for r in self._settings.values()]

    def rule(self, rule: str) -> Json:
        """One rule. Raises NotFound."""
        if rule not in self._settings:
            raise NotFound(f"rule {rule} does not exist")
        return self._settings[rule].model_dump(mode="json")

    async def add_rule(self, settings: Mapping[str, Any], by: str) -> Json:
        """Raises InvalidValues, Conflict."""
        async with self._changing:
            given = dict(settings)
            if "id" not in given:
                given["id"] = _identity(str(given.get("name") or given.get("kind") or "rule"), self._settings)
            rule = parse(RuleSettings, given)
            if rule.id in self._settings:
                raise Conflict(f"rule {rule.id} exists already")
            if len(self._settings) >= _MAX_RULES:
                raise Conflict(f"there are {_MAX_RULES} rules already", "remove one first")
            self._check(rule)
            await self._put({**self._settings, rule.id: rule}, by)
            self._note("rule.added", data={"rule": rule.id, "by": by})
        return self.rule(rule.id)

    async def change_rule(self, rule: str, patch: Mapping[str, Any], by: str) -> Json:
        """JSON merge patch; null sets a field back to its default. Raises NotFound, InvalidValues."""
        async with self._changing:
            before = self.rule(rule)
            if patch.get("id", rule) != rule:
                raise InvalidValue("id", patch["id"], f"{rule} (an id does not change)")
            merged = {k: v for k, v in merge(before, patch).items() if v is not None}
            changed = parse(RuleSettings, merged)
            if changed != self._settings[rule]:
                self._check(changed, self._settings[rule])
                await self._put({**self._settings, rule: changed}, by)
                self._note("rule.changed", data={"rule": rule, "by": by, "fields": sorted(patch)})
        return self.rule(rule)

    async def remove_rule(self, rule: str, by: str) -> None:
        """Its alarms end. Raises NotFound."""
        async with self._changing:
            self.rule(rule)
            await self._put({k: v for k, v in self._settings.items() if k != rule}, by)
            self._note("rule.removed", data={"rule": rule, "by": by})

    async def _put(self, settings: dict[str, RuleSettings], by: str) -> None:
        document = {"rules": [r.model_dump(mode="json") for r in settings.values()]}
        await asyncio.to_thread(self._store.put_settings, "rules", document, by)
        before, self._settings = self._settings, settings
        self._rules = tuple(r.rule() for r in settings.values())
        self._look(al.RulesChanged(tuple(k for k, r in settings.items() if before.get(k) != r)))

    def _check(self, rule: RuleSettings, before: RuleSettings | None = None) -> None:
        """What a rule names is there, or was named `before`: a rule about a camera or zone that is gone can still be
        changed and switched off. Raises InvalidValues."""
        cameras = {c: r.settings for c, r in self._cameras().items()}
        named = [cameras[c] for c in rule.cameras if c in cameras] if rule.cameras else list(cameras.values())
        known: dict[str, Collection[str]] = {
            "cameras": cameras,
            "classes": {name for c in named for name in c.classes},
            "zones": {zone.name for c in named for zone in c.zones},
        }
        problems = [
            InvalidValue(
                f"{field}[{n}]", value, "one of " + (", ".join(sorted(there)) or "none: there are no " + field)
            )
            for field, there in known.items()
            for n, value in enumerate(getattr(rule, field))
            if value not in there and (before is None or value not in getattr(before, field))
        ]
        if problems:
            raise InvalidValues(problems)

    def alarms(
        self,
        limit: int,
        before: int | None,
        camera: str | None,
        rule: str | None,
        active: bool | None,
        cameras: Collection[str] | None,
    ) -> list[Json]:
        """Newest first (blocking)."""
        found = self._store.alarms(limit=limit, before=before, camera=camera, rule=rule, active=active, cameras=cameras)
        return [a.to_json() for a in found]

    def alarm(self, number: int) -> Json:
        """One alarm (blocking). Raises NotFound."""
        return self._store.alarm(number).to_json()

    async def acknowledge(self, number: int, by: str) -> Json:
        """Raises NotFound."""
        await self.flush()
        alarm = await asyncio.to_thread(self._store.acknowledge_alarm, number, by)
        if alarm.acknowledged_by == by:
            self._look(al.Acknowledged(number, by))
        self._tell("alarm.acknowledged", alarm.camera, alarm.to_json())
        return (await asyncio.to_thread(self._store.alarm, number)).to_json()

    def alarm_picture(self, number: int) -> bytes:
        """JPEG (blocking). Raises NotFound."""
        alarm = self._store.alarm(number)
        return self._picture("alarms", number, alarm.camera, alarm.picture)

    def objects(
        self,
        limit: int,
        before: int | None,
        camera: str | None,
        class_name: str | None,
        active: bool | None,
        cameras: Collection[str] | None,
    ) -> list[Json]:
        """Newest first (blocking)."""
        found = self._store.tracked_objects(
            limit=limit, before=before, camera=camera, class_name=class_name, active=active, cameras=cameras
        )
        return [o.to_json() for o in found]

    def object(self, number: int) -> Json:
        """One object (blocking). Raises NotFound."""
        return self._store.tracked_object(number).to_json()

    def object_picture(self, number: int) -> bytes:
        """JPEG (blocking). Raises NotFound."""
        thing = self._store.tracked_object(number)
        return self._picture("objects", number, thing.camera, thing.picture)

    def _picture(self, kind: Kept, number: int, camera: str | None, there: bool) -> bytes:
        if there:
            try:
                return self._path(kind, number, camera).read_bytes()
            except OSError:
                log.info("picture of %s %s is gone", kind, number)
        raise NotFound(f"no picture of {kind.removesuffix('s')} {number} is kept")


def _put(put: Callable[[list[Any]], None], records: list[Any]) -> int:
    """Write records; returns how many the database can never take. Those hold up no others."""
    if not records:
        return 0
    try:
        put(records)
    except InvalidValue as error:
        if len(records) == 1:
            log.warning("a record of alarms and objects is lost: %s", error)
            return 1
        return sum(_put(put, [record]) for record in records)
    return 0


def _quality(thing: TrackedObject) -> float:
    """How well an object shows: large, sure, and whole."""
    x0, y0, x1, y1 = thing.box
    whole = min(x0, y0) > _EDGE and max(x1, y1) < 1 - _EDGE
    return (x1 - x0) * (y1 - y0) * thing.score * (1.0 if whole else 0.4)


def _identity(name: str, taken: Collection[str]) -> str:
    """An id that is like the name and that no other has."""
    base = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:50] or "rule"
    return next(i for i in (base, *(f"{base}-{n}" for n in range(2, _MAX_RULES + 3))) if i not in taken)

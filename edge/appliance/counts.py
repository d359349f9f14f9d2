"""Counts of objects at lines, in zones and from zone to zone: counted as answers come, written behind, told by bucket.

Counting runs on the control process's event loop; the database is written by a thread, once a minute. Records that
cannot be written wait, up to a number; those that then give way are counted as lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final

from edge.appliance.answers.counts import ComparisonAnswer, CountsAnswer
from edge.appliance.count_answers import comparison_answer, counts_answer
from edge.appliance.counted_minutes import CountedMinutes
from edge.appliance.counts_rules import CountFacts
from edge.appliance.daily_report import DailyReports
from edge.appliance.settled_counts import SettledCounts
from edge.core import checks
from edge.core.clock import Clock
from edge.core.counts import CLUSTER_S, STEP_S, Count, CountCheck, Counted, CountLine, Place, Step, WatchedTime
from edge.core.errors import InvalidValue, MagpieError, NotFound
from edge.core.facts import FrameLabelled, FrameSampled, RuntimeFact
from edge.core.labels import LabelledFrame, SampledFrame
from edge.core.tracks import TrackedObject
from edge.core.zones import Zone
from edge.settings import CameraSettings, RetentionSettings
from edge.store.counts import CountRetention
from edge.store.store import Store
from scheduler.counts.checks import CheckIndex
from scheduler.counts.comparison import compare
from scheduler.counts.minutes import ChecksAround, TotalChecks
from scheduler.counts.near import FrameChecks, NamedBox, as_checks, checked
from scheduler.counts.tally import MinuteTally, answered, taken

log = logging.getLogger(__name__)

_WRITE_EVERY_S: Final = 10.0
#: Sampled frames of a camera whose labels are awaited, and records that wait for the database.
_MOST_SAMPLED, _MOST_WAITING = 600, 50_000
#: An object that was seen longer ago is not taken to be in a frame.
_SEEN_S: Final = 2.0
#: Labels from so long before a time and after it say how true its counts are.
AROUND_S: Final = 6 * 3600.0
#: Buckets of one answer.
MOST_BUCKETS: Final = 2000


@dataclass
class _Counting:
    """A camera that counts: its places, its tally, and the objects of sampled frames by frame."""

    settings: CameraSettings
    lines: tuple[CountLine, ...]
    zones: tuple[Zone, ...]
    tally: MinuteTally
    there: tuple[TrackedObject, ...] = ()
    sampled: dict[str, tuple[TrackedObject, ...]] = field(default_factory=dict)
    checks: list[FrameChecks] = field(default_factory=list)


@dataclass
class _Waiting:
    """Records that wait for the database."""

    counts: deque[Count] = field(default_factory=deque)
    watched: deque[WatchedTime] = field(default_factory=deque)
    checks: deque[CountCheck] = field(default_factory=deque)

    def __bool__(self) -> bool:
        return bool(self.counts or self.watched or self.checks)


class ObjectCounts:
    """Implements `CountsService`. `complain(code, message)` tells an operator, `cameras()` are those there now;
    `minutes`, `reports`, `facts` and `settled` follow them; `counted` has the objects counted since the start by
    camera, place and class, `lost` the records that could not be kept."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        complain: Callable[[str, str], None],
        cameras: Callable[[], Collection[str]],
        minutes: CountedMinutes,
        reports: DailyReports,
        facts: CountFacts,
        settled: SettledCounts,
    ) -> None:
        self._store, self._clock, self._complain, self._known = store, clock, complain, cameras
        self._cameras: dict[str, _Counting] = {}
        self._waiting = _Waiting()
        self._writing = asyncio.Lock()
        self.minutes, self._reports, self._facts = minutes, reports, facts
        #: They take their turn after every round of writing that left nothing behind, and are given the time.
        self.followers: list[Callable[[float], Awaitable[None]]] = [
            minutes.tell,
            reports.look,
            facts.look,
            settled.look,
        ]
        self.counted: dict[tuple[str, Place, str], int] = {}
        self.lost = 0

    # -- from answers and labels

    def answered(self, settings: CameraSettings, objects: Sequence[TrackedObject], utc_s: float) -> None:
        """The objects that are there after an answer about a picture of `utc_s`."""
        if not (settings.lines or settings.zones):
            self.camera_gone(settings.id)
            return
        camera = self._of(settings)
        camera.there = tuple(objects)
        camera.tally, counted = answered(camera.tally, objects, camera.lines, utc_s)
        for one in counted:
            self._count(settings.id, one)

    def _count(self, camera: str, one: Counted) -> None:
        key = camera, one.place, one.class_name
        self.counted[key] = self.counted.get(key, 0) + 1
        self._facts.counted(camera, one)

    def fact(self, fact: RuntimeFact) -> None:
        """From the runtime: a frame was kept for the teacher, or has its labels."""
        if isinstance(fact, FrameSampled):
            self._sampled(fact.frame)
        elif isinstance(fact, FrameLabelled):
            self._labelled(fact.labelled)

    def _sampled(self, frame: SampledFrame) -> None:
        camera = self._cameras.get(frame.camera)
        if camera is None:
            return
        camera.sampled[frame.id] = tuple(o for o in camera.there if frame.utc_s - o.seen_utc_s <= _SEEN_S)
        while len(camera.sampled) > _MOST_SAMPLED:
            del camera.sampled[next(iter(camera.sampled))]

    def _labelled(self, labelled: LabelledFrame) -> None:
        camera = self._cameras.get(labelled.frame.camera)
        followed = None if camera is None else camera.sampled.pop(labelled.frame.id, None)
        if camera is None or followed is None:
            return
        names, found = camera.settings.classes, labelled.labels
        labels = [
            NamedBox((float(b[0]), float(b[1]), float(b[2]), float(b[3])), names[int(c)])
            for b, c in zip(found.boxes, found.classes, strict=True)
            if 0 <= int(c) < len(names)
        ]
        mine = [NamedBox(o.box, o.class_name) for o in followed]
        camera.checks.append(checked(mine, labels, camera.lines, camera.zones, labelled.frame.utc_s))

    def _of(self, settings: CameraSettings) -> _Counting:
        known = self._cameras.get(settings.id)
        if known is not None and known.settings is settings:
            return known
        lines, zones = tuple(x.line() for x in settings.lines), tuple(z.zone() for z in settings.zones)
        if known is None or (known.lines, known.zones, known.settings.classes) != (lines, zones, settings.classes):
            self.camera_gone(settings.id)
            known = self._cameras[settings.id] = _Counting(settings, lines, zones, MinuteTally(settings.id))
        known.settings = settings
        return known

    def camera_gone(self, camera: str) -> None:
        """A camera counts no more, or elsewhere: its counts are kept."""
        known = self._cameras.pop(camera, None)
        if known is not None:
            self._take(known, None)

    def _take(self, camera: _Counting, before_utc_s: float | None) -> None:
        camera.tally, counts, watched = taken(camera.tally, before_utc_s)
        waiting = self._waiting
        waiting.counts.extend(counts)
        waiting.watched.extend(watched)
        waiting.checks.extend(as_checks(camera.settings.id, camera.checks))
        camera.checks = []
        self._limit(waiting)

    def _limit(self, waiting: _Waiting) -> None:
        for queue in (waiting.counts, waiting.watched, waiting.checks):
            while len(queue) > _MOST_WAITING:
                queue.popleft()
                self.lost += 1

    # -- to the database

    async def run(self) -> None:
        """Write behind until cancelled; then `close` writes the rest."""
        while True:
            await asyncio.sleep(_WRITE_EVERY_S)
            try:
                await self.look(self._clock.utc())
            except Exception:  # one bad value must not end all counting
                log.exception("counts: writing failed")
                self._complain("counts_not_written", "counts could not be written; the log tells more")

    async def look(self, now_utc_s: float) -> None:
        """Write the minutes that are over; then those who follow the numbers take their turn."""
        await self.flush(now_utc_s)
        if self._waiting:
            return
        for follower in self.followers:
            try:
                await follower(now_utc_s)
            except MagpieError as error:  # the next round tries again
                self._complain("counts_not_told", f"counts could not be told: {error}")

    async def close(self) -> None:
        """Write everything, the minute that is not over, too. Safe to call twice."""
        await self.flush(None)
        if self._waiting:
            log.error("counts of %d places and minutes could not be kept", len(self._waiting.counts))

    async def flush(self, now_utc_s: float | None) -> None:
        """Write the minutes that are over; if the database cannot be written they wait on."""
        async with self._writing:
            for camera in list(self._cameras.values()):
                self._take(camera, now_utc_s)
            waiting, self._waiting = self._waiting, _Waiting()
            if not waiting:
                return
            try:
                await asyncio.to_thread(
                    self._store.add_counts, list(waiting.counts), list(waiting.watched), list(waiting.checks)
                )
            except InvalidValue as error:  # the database will never take it
                self.lost += len(waiting.counts)
                self._complain("counts_not_written", f"counts of a minute are lost: {error}")
            except MagpieError as error:
                self._complain("counts_not_written", f"counts wait for the database: {error}")
                self._waiting.counts.extendleft(reversed(waiting.counts))
                self._waiting.watched.extendleft(reversed(waiting.watched))
                self._waiting.checks.extendleft(reversed(waiting.checks))
                self._limit(self._waiting)

    async def retain(self, settings: RetentionSettings) -> CountRetention:
        """Delete what the site's limits do not keep. Raises MagpieError."""
        return await asyncio.to_thread(self._store.retain_counts, settings.days, settings.count_days)

    # -- service

    def of_camera(self, camera: str, step: Step, from_utc_s: float, to_utc_s: float) -> CountsAnswer:
        """See `CountsService`."""
        starts = _buckets(step, from_utc_s, to_utc_s)
        first, end = starts.start, starts.stop
        counts = self._store.counts(camera, step, first, end)
        watched = self._store.watched(camera, step, first, end)
        if not watched:
            self._check_known(camera)
        truth, whole = self._truth(camera, step, first, end, [c.start_s for c in counts if not c.settled])
        return counts_answer(camera, step, first, end, counts, watched, truth, whole)

    def _truth(
        self, camera: str, step: Step, first: int, end: int, unsettled: Sequence[int]
    ) -> tuple[ChecksAround, ChecksAround]:
        """The checks around the buckets that are not settled, and those around the whole time."""
        cluster_s = CLUSTER_S[step]
        if step == "minute":
            every = CheckIndex(self._store.count_checks(camera, first - AROUND_S, end + AROUND_S, cluster_s))
            return every, every
        whole = TotalChecks(lambda from_s, to_s: self._store.check_totals(camera, from_s, to_s, cluster_s))
        if not unsettled:
            return whole, whole
        around = min(unsettled) - AROUND_S, max(unsettled) + STEP_S[step] + AROUND_S
        return CheckIndex(self._store.count_checks(camera, *around, cluster_s)), whole

    def compared(
        self, camera: str, step: Step, from_utc_s: float, to_utc_s: float, before_utc_s: float
    ) -> ComparisonAnswer:
        """See `CountsService`."""
        starts = _buckets(step, from_utc_s, to_utc_s)
        before = int(before_utc_s // starts.step) * starts.step
        if before >= starts.start:
            raise InvalidValue("before", before_utc_s, f"a time before `from` ({from_utc_s:g})")
        self._check_known(camera)
        end = before + len(starts) * starts.step
        found = compare(
            starts,
            before,
            self._store.counts(camera, step, starts.start, starts.stop),
            self._store.counts(camera, step, before, end),
            self._store.watched(camera, step, starts.start, starts.stop),
            self._store.watched(camera, step, before, end),
        )
        return comparison_answer(camera, step, starts, before, found)

    def day_report(self, camera: str, day: date) -> str:
        """See `CountsService`."""
        return self._reports.make(camera, day, self._clock.utc()).html

    def _check_known(self, camera: str) -> None:
        if camera not in self._known() and not self._store.has_counted(camera):
            raise NotFound(f"camera {camera} does not exist, or never counted")

    def told(self) -> dict[str, Any]:
        """For metrics: {"counted": [{"camera", "kind", "name", "way", "class", "objects"}], "lost",
        "minutes": see `CountedMinutes.told`}."""
        rows = [
            {"camera": camera, "kind": place.kind, "name": place.name, "way": place.way, "class": name, "objects": n}
            for (camera, place, name), n in sorted(self.counted.items())
        ]
        return {"counted": rows, "lost": self.lost} | self.minutes.told()


def _buckets(step: Step, from_utc_s: float, to_utc_s: float) -> range:
    """The beginnings of the buckets from the one that `from_utc_s` is in to before `to_utc_s`. Raises InvalidValue."""
    checks.one_of("step", step, STEP_S)
    length = STEP_S[step]
    first, end = int(from_utc_s // length) * length, int(-(-to_utc_s // length)) * length
    if end <= first:
        raise InvalidValue("to", to_utc_s, f"a time after `from` ({from_utc_s:g})")
    if (end - first) // length > MOST_BUCKETS:
        allowed = f"at most {MOST_BUCKETS} buckets: a longer step, or a shorter time"
        raise InvalidValue("to", to_utc_s, allowed)
    return range(first, end, length)

"""Counts of objects at lines, in zones and from zone to zone: counted as answers come, written behind, read by bucket.

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
from edge.appliance.garbage import no_garbage_search
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
from edge.store.counts import CountRetention, CountsPart
from scheduler.counts.checks import REACH_S, CheckIndex
from scheduler.counts.comparison import compare
from scheduler.counts.minutes import ChecksAround, TotalChecks
from scheduler.counts.near import FrameChecks, NamedBox, as_checks, checked
from scheduler.counts.recount import (
    AROUND_S,
    LOOK_S,
    Instant,
    PathSample,
    at_instant,
    labelled_instant,
    own_time,
    samples_after,
)
from scheduler.counts.recounting import Recounting, no_more_frames, taken_frame
from scheduler.counts.tally import MinuteTally, answered, taken, unanswered

log = logging.getLogger(__name__)

_WRITE_EVERY_S: Final = 10.0
#: Sampled frames of a camera whose labels are awaited, and records that wait for the database.
_MOST_SAMPLED, _MOST_WAITING = 600, 50_000
#: An object that was seen longer ago is not taken to be in a frame.
_SEEN_S: Final = 2.0
#: So long after a frame was sampled it is known what was counted around it.
_SETTLED_S: Final = AROUND_S + LOOK_S
#: Labelled frames wait for others no longer once so many seconds have passed without any.
_NO_MORE_S: Final = 600.0
#: Buckets of one answer.
MOST_BUCKETS: Final = 2000


@dataclass
class _SampledInstant:
    """A frame that was sampled for the teacher: the objects that were there, when the sampled frames before and after
    it were taken (None: there was none yet), and what is known of its instant some seconds later."""

    utc_s: float
    there: tuple[TrackedObject, ...]
    before_utc_s: float | None = None
    after_utc_s: float | None = None
    instant: Instant | None = None

    def until(self, next_utc_s: float) -> float:
        """The instant from which the time to the next frame is halved between both: this frame's, or a later one where
        more has been counted again for this frame already."""
        if self.instant is None:
            return self.utc_s
        return max(self.utc_s, 2 * (self.utc_s + self.instant.own_s[1]) - next_utc_s)


@dataclass
class _Recent:
    """The objects after each answer of the last seconds, what was counted in that time, and how objects went."""

    seen: deque[tuple[float, tuple[TrackedObject, ...]]] = field(default_factory=deque)
    counted: deque[Counted] = field(default_factory=deque)
    samples: tuple[PathSample, ...] = ()

    def add(self, utc_s: float, objects: tuple[TrackedObject, ...], counted: Sequence[Counted]) -> None:
        """Take an answer, and forget what is older than a sampled frame may ask for."""
        if self.seen and utc_s < self.seen[-1][0]:  # the clock was set back
            self.seen.clear()
            self.counted.clear()
        self.seen.append((utc_s, objects))
        self.counted.extend(counted)
        while self.seen and self.seen[0][0] < utc_s - 2 * _SETTLED_S:
            self.seen.popleft()
        while self.counted and self.counted[0].utc_s < utc_s - 2 * _SETTLED_S:
            self.counted.popleft()

    def at(self, sample: _SampledInstant) -> Instant:
        """The objects and crossings around a frame of the last seconds."""
        own_s = own_time(sample.utc_s, sample.before_utc_s, sample.after_utc_s)
        return at_instant(tuple(self.seen), tuple(self.counted), sample.utc_s, own_s)


@dataclass
class _Counting:
    """A camera that counts: its places, its tally, and the objects of sampled frames by frame."""

    settings: CameraSettings
    lines: tuple[CountLine, ...]
    zones: tuple[Zone, ...]
    tally: MinuteTally
    there: tuple[TrackedObject, ...] = ()
    recent: _Recent = field(default_factory=_Recent)
    sampled: dict[str, _SampledInstant] = field(default_factory=dict)
    unsettled: deque[_SampledInstant] = field(default_factory=lambda: deque(maxlen=_MOST_SAMPLED))
    last_sampled: _SampledInstant | None = None
    recounting: Recounting = field(default_factory=Recounting)
    labelled_s: float = 0.0
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
    `minutes`, `reports`, `facts` and `settled` follow them, `passed` gets every object that is counted; `counted` has
    the objects counted since the start by camera, place and class, `lost` the records that could not be kept."""

    def __init__(
        self,
        counts: CountsPart,
        clock: Clock,
        complain: Callable[[str, str], None],
        cameras: Callable[[], Collection[str]],
        minutes: CountedMinutes,
        reports: DailyReports,
        facts: CountFacts,
        settled: SettledCounts,
        passed: Callable[[Counted], None] = lambda _: None,
    ) -> None:
        self._counts, self._clock, self._complain, self._known = counts, clock, complain, cameras
        self._passed = passed
        self._cameras: dict[str, _Counting] = {}
        self._waiting = _Waiting()
        self._writing = asyncio.Lock()
        self.minutes, self._reports, self._facts, self._settled = minutes, reports, facts, settled
        #: They take their turn after every round of writing that left nothing behind, and are given the time.
        self.followers: list[Callable[[float], Awaitable[None]]] = [
            minutes.send_due,
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
        # Before this answer is added: after a long gap the answers around the frame would be forgotten.
        while camera.unsettled and abs(utc_s - camera.unsettled[0].utc_s) >= _SETTLED_S:
            self._settle(camera, camera.unsettled.popleft())
        camera.recent.add(utc_s, camera.there, counted)
        for one in counted:
            self._count(settings.id, one)

    def _unanswered(self, camera: _Counting, utc_s: float) -> None:
        camera.tally, counted = unanswered(camera.tally, camera.lines, utc_s)
        for one in counted:
            self._count(camera.settings.id, one)

    def _settle(self, camera: _Counting, sample: _SampledInstant) -> Instant:
        if sample.instant is None:
            sample.instant = camera.recent.at(sample)
            camera.recent.samples = samples_after(camera.recent.samples, sample.instant)
        return sample.instant

    def _count(self, camera: str, one: Counted) -> None:
        key = camera, one.place, one.class_name
        self.counted[key] = self.counted.get(key, 0) + 1
        self._facts.counted(camera, one)
        self._passed(one)

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
        there = tuple(o for o in camera.there if frame.utc_s - o.seen_utc_s <= _SEEN_S)
        last = camera.last_sampled
        sample = _SampledInstant(frame.utc_s, there, None if last is None else last.until(frame.utc_s))
        if last is not None:
            last.after_utc_s = frame.utc_s
        camera.sampled[frame.id] = camera.last_sampled = sample
        camera.unsettled.append(sample)
        while len(camera.sampled) > _MOST_SAMPLED:
            del camera.sampled[next(iter(camera.sampled))]

    def _labelled(self, labelled: LabelledFrame) -> None:
        camera = self._cameras.get(labelled.frame.camera)
        sample = None if camera is None else camera.sampled.pop(labelled.frame.id, None)
        if camera is None or sample is None:
            return
        names, found = camera.settings.classes, labelled.labels
        labels = [
            NamedBox((float(b[0]), float(b[1]), float(b[2]), float(b[3])), names[int(c)])
            for b, c in zip(found.boxes, found.classes, strict=True)
            if 0 <= int(c) < len(names)
        ]
        mine = [NamedBox(o.box, o.class_name) for o in sample.there]
        instant = self._settle(camera, sample)
        camera.checks.append(checked(mine, labels, camera.zones, sample.utc_s))
        frame = labelled_instant(instant, labels)
        camera.labelled_s = self._clock.monotonic()
        camera.recounting, crossings = taken_frame(camera.recounting, frame, camera.lines, camera.recent.samples)
        camera.checks += crossings

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
        if before_utc_s is None or self._clock.monotonic() - camera.labelled_s >= _NO_MORE_S:
            camera.recounting, found = no_more_frames(camera.recounting, camera.lines, camera.recent.samples)
            camera.checks += found
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
                self._complain("counts_not_told", f"counts could not be sent: {error}")
            except Exception:  # it must not keep those after it from their turn
                log.exception("counts: a follower failed")
                self._complain("counts_not_told", "counts could not be sent; the log tells more")

    async def close(self) -> None:
        """Write everything, the minute that is not over, too. Safe to call twice."""
        await self.flush(None)
        if self._waiting:
            log.error("counts of %d places and minutes could not be kept", len(self._waiting.counts))

    async def flush(self, now_utc_s: float | None) -> None:
        """Write the minutes that are over; if the database cannot be written they wait on."""
        async with self._writing:
            for camera in list(self._cameras.values()):
                if now_utc_s is not None:
                    self._unanswered(camera, now_utc_s)
                self._take(camera, now_utc_s)
            waiting, self._waiting = self._waiting, _Waiting()
            if not waiting:
                return
            try:
                await asyncio.to_thread(
                    self._counts.add_counts, list(waiting.counts), list(waiting.watched), list(waiting.checks)
                )
            except InvalidValue as error:  # the database will never take it
                self.lost += len(waiting.counts) + len(waiting.watched) + len(waiting.checks)
                self._complain("counts_not_written", f"counts of a minute are lost: {error}")
            except MagpieError as error:
                self._complain("counts_not_written", f"counts wait for the database: {error}")
                self._wait_on(waiting)
            except Exception:
                self._wait_on(waiting)
                raise
            else:
                self._settled.counted(min((c.start_s for c in waiting.counts), default=int(self._clock.utc())))

    def _wait_on(self, waiting: _Waiting) -> None:
        """Records that were not written wait again, before those that came since."""
        self._waiting.counts.extendleft(reversed(waiting.counts))
        self._waiting.watched.extendleft(reversed(waiting.watched))
        self._waiting.checks.extendleft(reversed(waiting.checks))
        self._limit(self._waiting)

    async def retain(self, settings: RetentionSettings) -> CountRetention:
        """Delete what the site's limits do not keep. Raises MagpieError."""
        return await asyncio.to_thread(self._counts.retain_counts, settings.days, settings.count_days)

    # -- service

    def of_camera(self, camera: str, step: Step, from_utc_s: float, to_utc_s: float) -> CountsAnswer:
        """See `CountsService`."""
        starts = _buckets(step, from_utc_s, to_utc_s)
        with no_garbage_search():  # a year has tens of thousands of rows
            return self._in_buckets(camera, step, starts.start, starts.stop)

    def _in_buckets(self, camera: str, step: Step, first: int, end: int) -> CountsAnswer:
        counts = self._counts.counted(camera, step, first, end)
        watched = self._counts.watched(camera, step, first, end)
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
            around = first - REACH_S[-1], end + REACH_S[-1]
            every = CheckIndex(self._counts.count_checks(camera, *around, cluster_s))
            return every, every
        whole = TotalChecks(lambda from_s, to_s: self._counts.check_totals(camera, from_s, to_s, cluster_s))
        if not unsettled:
            return whole, whole
        around = min(unsettled) - REACH_S[-1], max(unsettled) + STEP_S[step] + REACH_S[-1]
        return CheckIndex(self._counts.count_checks(camera, *around, cluster_s)), whole

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
            self._counts.counted(camera, step, starts.start, starts.stop),
            self._counts.counted(camera, step, before, end),
            self._counts.watched(camera, step, starts.start, starts.stop),
            self._counts.watched(camera, step, before, end),
        )
        return comparison_answer(camera, step, starts, before, found)

    def day_report(self, camera: str, day: date) -> str:
        """See `CountsService`."""
        return self._reports.make(camera, day, self._clock.utc()).html

    def _check_known(self, camera: str) -> None:
        if camera not in self._known() and not self._counts.has_counted(camera):
            raise NotFound(f"camera {camera} does not exist, or never counted")

    def metrics(self) -> dict[str, Any]:
        """{"counted": [{"camera", "kind", "name", "way", "class", "objects"}], "lost",
        "minutes": see `CountedMinutes.metrics`}."""
        rows = [
            {"camera": camera, "kind": place.kind, "name": place.name, "way": place.way, "class": name, "objects": n}
            for (camera, place, name), n in sorted(self.counted.items())
        ]
        return {"counted": rows, "lost": self.lost} | self.minutes.metrics()


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

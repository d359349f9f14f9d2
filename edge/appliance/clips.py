"""Clips: asked of the cameras' workers by rules and by people, recorded, kept within limits."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from edge.appliance.answers.clips import ClipAnswer, ClipAroundAnswer, ClipBoxes, ClipCounts
from edge.appliance.answers.read import by_name, read
from edge.appliance.answers.stored import one, paged
from edge.appliance.clip_files import ClipFiles
from edge.appliance.clip_video import video_now
from edge.appliance.picture_requests import LOW_DISK_BYTES
from edge.core.alarms import Alarm
from edge.core.clips import CODECS, ClipAsked, ClipFailed, ClipMade, check_span
from edge.core.clock import Clock
from edge.core.errors import Conflict, DiskFull, MagpieError, NotFound, Unavailable
from edge.core.facts import RuntimeFact
from edge.core.journal_kinds import JournalNote
from edge.runtime.camera import CameraRuntime
from edge.settings import SiteSettings
from edge.store.clips import ClipRecord
from edge.store.store import Store
from scheduler.clips.around import clip_around
from scheduler.clips.asking import check_moment, joined
from scheduler.clips.keeping import StoredClip, to_drop

log = logging.getLogger(__name__)

_TICK_S: Final = 1.0
#: A clip that nothing was heard of for so long after its end has failed: its worker was ended, or is stuck.
_PATIENCE_S: Final = 180.0
#: A file that no record names is deleted when it is so old: the clip may be in the making.
_STRAY_S: Final = 3600.0
_MOST_WAITING: Final = 200


@dataclass(frozen=True)
class ClipRetention:
    """The deleted clips; `failures`: files that could not be deleted, in words."""

    clips: int
    bytes_freed: int
    bytes_kept: int
    failures: tuple[str, ...]

    @property
    def anything(self) -> bool:
        """Worth a record."""
        return bool(self.clips or self.failures)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"failures": list(self.failures)}


@dataclass(frozen=True)
class _Open:
    """A clip in the making: the wish, its record, and the monotonic time by which its worker must have answered."""

    asked: ClipAsked
    record: ClipRecord
    by_s: float


class Clips:
    """Implements `ClipsService`. `cameras()` are those there now, `order` hands a wish to a camera's worker (False: it
    is not there), `note` journals, `complain(code, message, camera)` tells an operator."""

    def __init__(
        self,
        site: SiteSettings,
        store: Store,
        clock: Clock,
        cameras: Callable[[], Mapping[str, CameraRuntime]],
        order: Callable[[ClipAsked], bool],
        note: JournalNote,
        complain: Callable[[str, str, str], None],
    ) -> None:
        self._settings, self._store, self._clock = site.clips, store, clock
        self._cameras, self._order, self._note, self._complain = cameras, order, note, complain
        self._files = ClipFiles(Path(site.data_dir))
        #: In the making, by number; of these, the numbers of those that show what masks hide now.
        self._open: dict[int, _Open] = {}
        self._unmasked: set[int] = set()
        self._news: asyncio.Queue[Alarm | ClipMade | ClipFailed] = asyncio.Queue(_MOST_WAITING)
        self._unwritten: dict[int, ClipRecord] = {}
        self._made = self._shared = self._not_taken = self._bytes = 0
        self._failed: Counter[str] = Counter()

    # -- life

    async def open(self) -> None:
        """Clips that an earlier run left in the making have failed; files without a record go. Raises MagpieError."""
        await asyncio.to_thread(self._recover)

    def _recover(self) -> None:
        kept = []
        for record in self._store.clips.every_clip():
            if record.state == "making":
                self._store.clips.put_clip(_failed(record, ClipFailed(record.id, record.camera, "interrupted")))
            elif record.state == "kept":
                kept.append(record)
        self._bytes = sum(r.bytes for r in kept)
        removed = self._files.sweep(self._store.clips.clip_names())
        if removed:
            log.warning("clips: %d files that no record names were removed", removed)

    async def run(self) -> None:
        """Handle the messages of rules and workers, until cancelled."""
        while True:
            news: Alarm | ClipMade | ClipFailed | None = None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_TICK_S):
                    news = await self._news.get()
            try:
                await self._take(news)
            except MagpieError as error:
                self._complain("clips", f"clips could not be recorded: {error}", "")
            except Exception:  # one bad value must not end all clips
                log.exception("clips: a step failed")
                self._complain("clips", "clips could not be made; the log tells more", "")

    async def _take(self, news: Alarm | ClipMade | ClipFailed | None) -> None:
        if isinstance(news, Alarm):
            await self._of_alarm(news)
        elif news is not None:
            await self._done(news)
        now_s = self._clock.monotonic()
        for late in [o for o in self._open.values() if now_s > o.by_s]:
            await self._done(ClipFailed(late.asked.number, late.asked.camera, "no_answer"))
        for number, record in list(self._unwritten.items()):
            await asyncio.to_thread(self._store.clips.put_clip, record)
            self._unwritten.pop(number, None)

    # -- messages of others

    def alarm_raised(self, alarm: Alarm) -> None:
        """A rule wants a clip of a new alarm."""
        if alarm.camera is not None:
            self._put(alarm)

    def fact(self, fact: RuntimeFact) -> None:
        """From the runtime: a worker has made a clip, or could not."""
        if isinstance(fact, ClipMade | ClipFailed):
            self._put(fact)

    def camera_gone(self, camera: str) -> None:
        """The camera was removed or switched off: clips that its worker did not finish have failed."""
        for number in self._open_of(camera):
            self._put(ClipFailed(number, camera, "camera_off"))

    def masks_changed(self, camera: str) -> None:
        """More of the camera is to be hidden from now on: clips of before that are not written yet are not kept. Call
        it before the camera's worker is asked to end."""
        for number in self._open_of(camera):
            self._unmasked.add(number)
            self._put(ClipFailed(number, camera, "masks_changed"))

    def _open_of(self, camera: str) -> list[int]:
        return [number for number, known in self._open.items() if known.asked.camera == camera]

    def _put(self, news: Alarm | ClipMade | ClipFailed) -> None:
        try:
            self._news.put_nowait(news)
        except asyncio.QueueFull:
            self._not_taken += 1

    async def _of_alarm(self, alarm: Alarm) -> None:
        camera = self._cameras().get(alarm.camera or "")
        if camera is None or not self._keeps(camera) or self._files.free_bytes() < LOW_DISK_BYTES:
            self._not_taken += 1
            return
        before, after = camera.settings.clips.span(self._settings)
        wishes = (known.asked for known in self._open.values())
        shared = joined(wishes, camera.id, alarm.began_utc_s, before, after)
        if shared is not None:
            known = self._open[shared.number]
            record = replace(known.record, alarms=(*known.record.alarms, alarm.id))
            self._open[shared.number] = replace(known, record=record)
            self._shared += 1
            await self._write(record)
            return
        try:
            begun = await self._begin(camera.id, alarm.began_utc_s, before, after, "", (alarm.id,))
        except MagpieError:  # no database
            self._not_taken += 1
            raise
        if begun is None:
            self._not_taken += 1

    def _keeps(self, camera: CameraRuntime) -> bool:
        """Whether the camera's video is kept in memory."""
        settings = camera.settings
        return self._settings.enabled and settings.enabled and settings.clips.enabled

    async def _begin(
        self, camera: str, at_utc_s: float, before_s: float, after_s: float, by: str, alarms: tuple[int, ...] = ()
    ) -> ClipRecord | None:
        """Record a wish and hand it to the camera's worker; None: it is not there. Raises MagpieError."""
        wish = ClipAsked(0, camera, at_utc_s, at_utc_s - before_s, at_utc_s + after_s)
        record = ClipRecord(0, camera, "making", by, wish.at_utc_s, wish.from_utc_s, wish.to_utc_s, alarms)
        number = await asyncio.to_thread(self._store.clips.add_clip, record)
        record, wish = replace(record, id=number), replace(wish, number=number)
        if not self._order(wish):
            await self._never_begun(record)
            return None
        self._open[number] = _Open(wish, record, self._clock.monotonic() + after_s + _PATIENCE_S)
        return record

    async def _never_begun(self, record: ClipRecord) -> None:
        try:
            await asyncio.to_thread(self._store.clips.delete_clips, {record.id})
        except MagpieError:  # it would be in the making for ever
            self._unwritten[record.id] = _failed(record, ClipFailed(record.id, record.camera, "camera_off"))

    async def _done(self, news: ClipMade | ClipFailed) -> None:
        if isinstance(news, ClipMade) and news.number in self._unmasked:
            news = ClipFailed(news.number, news.camera, "masks_changed")
        known = self._open.pop(news.number, None)
        self._unmasked.discard(news.number)
        if known is None:
            # Given up, or of a camera that is gone: nothing may be left that no record names. A failure that
            # comes after all may be of a clip that is kept.
            if isinstance(news, ClipMade):
                await asyncio.to_thread(self._files.drop_if_possible, news.camera, news.number)
            return
        record = known.record
        if isinstance(news, ClipMade):
            self._made += 1
            self._bytes += news.bytes
            await self._write(_kept(record, news))
            data = {"clip": news.number, "seconds": news.seconds, "bytes": news.bytes, "alarms": list(record.alarms)}
            self._note("clip.made", camera=news.camera, data=data)
            if self._bytes > self._most_bytes:
                await self.retain()
            return
        # Its worker may have left some of it, or all, and nothing counts the files of a clip that failed.
        await asyncio.to_thread(self._files.drop_if_possible, news.camera, news.number)
        self._failed[news.fault] += 1
        await self._write(_failed(record, news))
        self._note("clip.failed", camera=news.camera, data={"clip": news.number, "fault": news.fault})
        if news.fault in ("disk_full", "not_written"):
            self._complain("clips", f"clip {news.number} could not be written ({news.fault})", news.camera)

    async def _write(self, record: ClipRecord) -> None:
        self._unwritten[record.id] = record
        await asyncio.to_thread(self._store.clips.put_clip, record)
        self._unwritten.pop(record.id, None)

    # -- upkeep

    @property
    def _most_bytes(self) -> int:
        return int(self._settings.max_gb * 1e9)

    async def retain(self) -> ClipRetention:
        """Delete what the site's limits do not keep. Raises MagpieError."""
        return await asyncio.to_thread(self._retain)

    def _retain(self) -> ClipRetention:
        records = [r for r in self._store.clips.every_clip() if r.id not in self._open]
        oldest = self._clock.utc() - self._settings.days * 86_400.0
        self._files.sweep(self._store.clips.clip_names(), self._clock.utc() - _STRAY_S)
        gone = to_drop([StoredClip(r.id, r.camera, r.at_utc_s, r.bytes) for r in records], oldest, self._most_bytes)
        deleted, freed, failures = set(), 0, []
        for clip in gone:
            try:
                self._files.drop(clip.camera, clip.number)
            except OSError as error:
                failures.append(f"clip {clip.number}: {error.strerror}")
                continue
            deleted.add(clip.number)
            freed += clip.bytes
        self._store.clips.delete_clips(deleted)
        self._bytes = sum(r.bytes for r in records if r.id not in deleted)
        return ClipRetention(len(deleted), freed, self._bytes, tuple(failures))

    def counts(self) -> ClipCounts:
        """For metrics and losses."""
        return ClipCounts(
            made=self._made, shared=self._shared, failed=dict(self._failed), not_taken=self._not_taken,
            bytes=self._bytes,
        )  # fmt: skip

    # -- service

    def all(
        self, limit: int, before: int | None, camera: str | None, cameras: Collection[str] | None
    ) -> list[ClipAnswer]:
        """See `ClipsService`."""

        def fetch(wanted: int, below: int | None) -> tuple[ClipRecord, ...]:
            return self._store.clips.newest(limit=wanted, before=below, camera=camera, cameras=cameras)

        return paged(self._store.database.unreadable, "clip", ClipAnswer, limit, before, fetch)

    def one(self, clip: int) -> ClipAnswer:
        """See `ClipsService`."""
        return one(self._store.database.unreadable, "clip", ClipAnswer, clip, lambda: self._store.clips.clip(clip))

    def around(self, camera: str, at_utc_s: float) -> ClipAroundAnswer:
        """See `ClipsService`."""
        spans, now = self._store.finding.clip_spans(camera, at_utc_s), self._clock.utc()
        found = clip_around(spans, at_utc_s, now, video_now(self._settings, self._cameras().get(camera)))
        return by_name(ClipAroundAnswer, found, camera=camera, at_utc_s=at_utc_s)

    def video(self, clip: int) -> Path:
        """See `ClipsService`."""
        return self._files.video(self._kept(clip).camera, clip)

    def boxes(self, clip: int) -> ClipBoxes:
        """See `ClipsService`."""
        found = self._files.boxes(self._kept(clip).camera, clip)
        return self._store.database.unreadable.one("clip", clip, lambda: read(ClipBoxes, found))

    def _kept(self, clip: int) -> ClipRecord:
        record = self._store.clips.clip(clip)
        if record.state != "kept":
            raise NotFound(f"clip {clip} has no video: it is {record.state}")
        return record

    async def make(
        self, camera: str, before_s: float | None, after_s: float | None, at_utc_s: float | None, by: str
    ) -> ClipAnswer:
        """See `ClipsService`."""
        found = self._cameras().get(camera)
        if found is None:
            raise NotFound(f"camera {camera} does not exist")
        if not self._keeps(found):
            raise Conflict(f"camera {camera} keeps no video for clips", "clips.enabled, and enabled, of the camera")
        codec = found.status().codec
        if codec and codec not in CODECS:
            raise Conflict(f"camera {camera} sends {codec}: clips are made of H.264 and H.265")
        own = found.settings.clips.span(self._settings)
        before, after = own[0] if before_s is None else before_s, own[1] if after_s is None else after_s
        now = self._clock.utc()
        check_span(before, after, self._settings.ring_s)
        at = now if at_utc_s is None else at_utc_s
        check_moment(at, now, self._settings.ring_s)
        if self._files.free_bytes() < LOW_DISK_BYTES:
            raise DiskFull(f"less than {LOW_DISK_BYTES >> 20} MB are free: no clip is made", "free space")
        record = await self._begin(camera, at, before, after, by)
        if record is None:
            raise Unavailable(f"the worker of camera {camera} is not there now", "try again in some seconds")
        return read(ClipAnswer, record.to_json())

    async def remove(self, clip: int, by: str) -> None:
        """See `ClipsService`."""
        record = await asyncio.to_thread(self._store.clips.clip, clip)
        if clip in self._open:
            raise Conflict(f"clip {clip} is in the making", "it can be deleted in some seconds")
        try:
            await asyncio.to_thread(self._files.drop, record.camera, clip)
        except OSError as error:
            raise Unavailable(f"clip {clip} could not be deleted: {error.strerror}") from None
        await asyncio.to_thread(self._store.clips.delete_clips, {clip})
        self._bytes -= record.bytes
        self._note("clip.removed", camera=record.camera, data={"clip": clip, "by": by})


def _kept(record: ClipRecord, made: ClipMade) -> ClipRecord:
    fields = {k: v for k, v in asdict(made).items() if k not in ("number", "camera", "bytes")}
    return replace(record, state="kept", bytes=made.bytes, outcome=fields)


def _failed(record: ClipRecord, failed: ClipFailed) -> ClipRecord:
    fields = {k: v for k, v in asdict(failed).items() if k not in ("number", "camera")}
    return replace(record, state="failed", outcome=fields)

"""Live pages: pictures of watched cameras, and events as they happen. Nothing is kept for them.

Everything here runs on the control process's event loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable

from edge.appliance.answers.cameras import PictureHeader
from edge.appliance.answers.events import JournalEntry
from edge.appliance.answers.read import read
from edge.appliance.service import LivePicture
from edge.core.clock import Clock
from edge.core.errors import InvalidValue, Unavailable
from edge.runtime import messages as m
from edge.runtime.runtime import Runtime

_EVENT_QUEUE = 500
_MAX_FPS = 30


class LiveEvents:
    """Events for everybody who listens now."""

    def __init__(self) -> None:
        self._listeners: set[_Listener] = set()

    def put(self, entry: JournalEntry) -> None:
        """Send to all of them."""
        for listener in self._listeners:
            listener.put(entry)

    async def listen(self) -> AsyncIterator[JournalEntry]:
        """Entries from now on; a reader that is too slow gets an `events.lost` entry with the number it lost."""
        listener = _Listener()
        self._listeners.add(listener)
        try:
            async for entry in listener.entries():
                yield entry
        finally:
            self._listeners.discard(listener)


class _Listener:
    """One listener's bounded queue; entries that it is too slow for are lost to it alone, and counted."""

    def __init__(self) -> None:
        self._entries: deque[JournalEntry] = deque(maxlen=_EVENT_QUEUE)
        self._wake = asyncio.Event()
        self._lost = 0

    def put(self, entry: JournalEntry) -> None:
        self._lost += len(self._entries) == self._entries.maxlen
        self._entries.append(entry)
        self._wake.set()

    async def entries(self) -> AsyncIterator[JournalEntry]:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._entries:
                if self._lost:
                    lost, self._lost = self._lost, 0
                    yield JournalEntry(
                        id=None, utc_s=None, kind="events.lost", camera=None, window=None, data={"events": lost}
                    )
                yield self._entries.popleft()


class LivePictures:
    """Pictures of the cameras that are watched. `ask(camera, fps)` has the camera's worker encode so many a second
    (0: none), `cameras` are those that there are."""

    def __init__(self, clock: Clock, cameras: Callable[[], Iterable[str]], ask: Callable[[str, float], None]) -> None:
        self._clock, self._cameras, self._ask = clock, cameras, ask
        self._newest: dict[str, LivePicture] = {}
        self._came = asyncio.Event()
        self._watchers: dict[object, tuple[tuple[str, ...], float]] = {}
        self._encoded: dict[str, int] = {}
        self._number = 0
        #: Pictures that slow viewers lost.
        self.missed = 0

    def encoded(self, camera: str) -> int:
        """How many of its pictures came since the start."""
        return self._encoded.get(camera, 0)

    def put(self, picture: LivePicture) -> None:
        """A worker has encoded this."""
        self._newest[picture.camera] = picture
        self._encoded[picture.camera] = self.encoded(picture.camera) + 1
        self._number += 1
        came, self._came = self._came, asyncio.Event()
        came.set()

    def forget(self, camera: str) -> None:
        """The camera was removed."""
        self._newest.pop(camera, None)

    def ask_workers(self) -> None:
        """Ask each camera's worker for the highest rate that a watcher wants, or for none."""
        for camera in self._cameras():
            rates = [fps for cameras, fps in self._watchers.values() if not cameras or camera in cameras]
            self._ask(camera, max(rates, default=0.0))

    async def watch(self, cameras: tuple[str, ...], fps: float) -> AsyncIterator[LivePicture]:
        """Pictures from now on of these cameras (empty: all), at most `fps` a second of each. Raises InvalidValue."""
        if not 0 < fps <= _MAX_FPS:
            raise InvalidValue("fps", fps, f"a number above 0 to {_MAX_FPS}")
        token = object()
        self._watchers[token] = (cameras, fps)
        self.ask_workers()
        # A picture encoded for an earlier watcher is not of now.
        sent = dict(self._encoded)
        due: dict[str, float] = {}
        seen = self._number
        try:
            while True:
                if self._number == seen:
                    await self._came.wait()
                seen = self._number
                now = self._clock.monotonic()
                for camera, picture in list(self._newest.items()):
                    wanted = not cameras or camera in cameras
                    if not wanted or sent.get(camera) == self.encoded(camera) or now < due.get(camera, 0.0):
                        continue
                    sent[camera] = self.encoded(camera)
                    due[camera] = now + 0.8 / fps
                    came = dict(self._encoded)
                    yield picture
                    # All pictures of the meantime but the latest are lost to a slow reader; at most as many as it asked
                    # for.
                    most = int((self._clock.monotonic() - now) * fps)
                    for other in cameras or tuple(came):
                        replaced = self.encoded(other) - came.get(other, 0) - 1
                        self.missed += min(most, max(0, replaced))
        finally:
            del self._watchers[token]
            self.ask_workers()


class Live:
    """Implements `LiveService`: pictures of the runtime's cameras, with the answers of the student in force."""

    def __init__(self, clock: Clock, runtime: Runtime) -> None:
        self._clock, self._runtime = clock, runtime
        self.pictures = LivePictures(clock, lambda: runtime.cameras, runtime.camera_workers.watch)

    def preview(self, camera: str, p: m.Preview) -> None:
        """A camera's worker has encoded a picture."""
        state = self._runtime.cameras[camera]
        answer = p.answer.to_json()
        header = {
            "camera": camera,
            "number": p.number,
            "utc_s": p.utc_s,
            "width": p.width,
            "height": p.height,
            "model_version": p.model_version,
            "stale": p.stale,
            "classes": list(state.settings.classes),
            "boxes": answer["boxes"],
            "scores": answer["scores"],
            "labels": answer["classes"],
            "delay_s": round(self._clock.utc() - p.utc_s, 3),
            "state": state.status().state,
        }
        self.pictures.put(LivePicture(camera, read(PictureHeader, header), p.jpeg))

    def watch(self, cameras: tuple[str, ...], fps: float) -> AsyncIterator[LivePicture]:
        """Raises NotFound, InvalidValue."""
        for camera in cameras:
            self._runtime.camera(camera)
        return self.pictures.watch(cameras, fps)

    async def snapshot(self, camera: str, width: int | None) -> bytes:
        """One JPEG of now, `width` pixels wide if given. Raises NotFound, Unavailable."""
        self._runtime.camera(camera)
        pictures = self.watch((camera,), 5.0)
        try:
            async with asyncio.timeout(5.0):
                picture = await anext(pictures)
        except TimeoutError:
            raise Unavailable(
                f"camera {camera} has no picture now: {self._runtime.camera(camera).status().state}"
            ) from None
        finally:
            await pictures.aclose()  # type: ignore[attr-defined]
        if width is None:
            return picture.jpeg
        return await asyncio.to_thread(resized, picture.jpeg, width)


def resized(jpeg: bytes, width: int) -> bytes:
    """The picture `width` pixels wide, as JPEG. Raises Unavailable for anything but a JPEG."""
    import cv2

    from edge.detectors.pictures import jpeg_bytes, read_jpeg

    picture = read_jpeg(jpeg)
    if picture is None:
        raise Unavailable("the picture could not be decoded")
    height = max(1, round(picture.shape[0] * width / picture.shape[1]))
    encoded = jpeg_bytes(cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA))
    if encoded is None:
        raise Unavailable("the picture could not be encoded")
    return encoded

"""The search for cameras: devices that answer, with the stream of each that is proposed."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from edge.appliance.access_control import AccessControl
from edge.appliance.answers.discovery import FoundCamera, FoundCameras, FoundStream, NeedAnswer
from edge.appliance.answers.read import by_name
from edge.appliance.stream_needs import KnownNeed, StreamNeeds
from edge.core.discovery import FoundDevice, MediaProfile, SearchOrder, SearchResult, StreamNeed, Verdict
from edge.core.errors import Conflict, Unavailable
from edge.discovery.daemon_thread import in_daemon_thread
from edge.ingest.secrets import Secret, resolve_secret
from edge.settings import CameraSearch, SiteSettings, parse
from scheduler.substreams import judge

#: Seconds for all of it: the search itself takes 43 at most, beside the reading of the student's description.
_ALL_S: Final = 45.0
Stop = Callable[[], object]


class CameraDiscovery:
    """Implements `DiscoveryService`: one search at a time, in a thread of its own, which goes on when the one who asked
    is gone. `memory_limit` bytes may be used to read a student's description."""

    def __init__(self, site: SiteSettings, access_control: AccessControl, memory_limit: int) -> None:
        self._access_control = access_control
        self._needs = StreamNeeds(site.student, memory_limit)
        self._running: Future[FoundCameras] | None = None
        self._stop: Stop | None = None
        self._closed = False

    async def search(self, asked: Mapping[str, Any]) -> FoundCameras:
        """Raises InvalidValues, InvalidValue, Conflict, Unavailable."""
        wanted = parse(CameraSearch, dict(asked))
        self._access_control.may_name(wanted.password_from)
        if self._running is not None and not self._running.done():
            raise Conflict("a search for cameras is running", "wait for its end")
        self._running = in_daemon_thread("camera search", partial(self._search, wanted))
        return await asyncio.wrap_future(self._running)

    def close(self) -> None:
        """End a search that runs."""
        self._closed = True
        if self._stop is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                self._stop()

    def _search(self, wanted: CameraSearch) -> FoundCameras:
        ends_s = time.monotonic() + _ALL_S
        password = resolve_secret(wanted.password_from, kept=self._access_control.secrets_file)
        self._needs.begin(wanted)
        try:
            result = searched(wanted, password, self._started)
        except asyncio.CancelledError:
            raise Unavailable("the search was ended: the appliance stops") from None
        return found_cameras(result, self._needs.need_of(wanted, ends_s))

    def _started(self, stop: Stop) -> None:
        self._stop = stop
        if self._closed:
            stop()


def searched(wanted: CameraSearch, password: Secret, started: Callable[[Stop], None] | None = None) -> SearchResult:
    """Search. Blocks, on an event loop of its own: to read long answers takes time. `started` gets what ends it from
    another thread. Raises InvalidValue, and CancelledError if it was ended."""
    # Late: the library brings an HTTP client of its own, a second of loading.
    from edge.discovery.search import search

    async def run() -> SearchResult:
        task = asyncio.current_task()
        if started is not None and task is not None:
            started(partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel))
        order = SearchOrder(wanted.addresses, wanted.network, wanted.username, password.reveal())
        return await search(order)

    return asyncio.run(run())


def found_cameras(result: SearchResult, known: KnownNeed) -> FoundCameras:
    """The devices with their streams, judged."""
    losses, need = result.losses, known.need
    return FoundCameras(
        cameras=tuple(_camera(d, need) for d in result.devices),
        need=by_name(NeedAnswer, need, source=known.source, student=known.student, unread=known.unread),
        outside=losses.outside,
        unreadable=losses.unreadable,
        over=losses.over,
    )


def _camera(device: FoundDevice, need: StreamNeed) -> FoundCamera:
    verdicts = judge(device.profiles, need)
    return FoundCamera(
        address=device.address,
        name=device.name,
        hardware=device.hardware,
        fault=device.fault,
        elsewhere=device.elsewhere,
        streams=tuple(_stream(p, v) for p, v in zip(device.profiles, verdicts, strict=True)),
        streams_lost=device.profiles_lost,
    )


def _stream(profile: MediaProfile, verdict: Verdict) -> FoundStream:
    return FoundStream(
        token=profile.token,
        name=profile.name,
        codec=profile.codec,
        width=profile.width,
        height=profile.height,
        fps=profile.fps,
        bitrate_kbps=profile.bitrate_kbps,
        url=profile.url,
        verdict=verdict,
    )

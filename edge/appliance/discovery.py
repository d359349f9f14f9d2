"""The search for cameras: devices that answer, with the stream of each that is proposed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from edge.appliance.access_control import AccessControl
from edge.appliance.answers.discovery import FoundCamera, FoundCameras, FoundStream, NeedAnswer
from edge.core.discovery import FoundDevice, MediaProfile, SearchOrder, SearchResult, StreamNeed, Verdict
from edge.core.errors import Conflict
from edge.ingest.secrets import Secret, resolve_secret
from edge.runtime.students import input_of
from edge.settings import CameraSearch, SiteSettings, parse
from scheduler.substreams import judge


class CameraDiscovery:
    """Implements `DiscoveryService`: one search at a time. `memory_limit` bytes may be used to read the site's
    student."""

    def __init__(self, site: SiteSettings, access_control: AccessControl, memory_limit: int) -> None:
        self._site, self._access_control, self._memory_limit = site, access_control, memory_limit
        self._searching = False

    async def search(self, asked: Mapping[str, Any]) -> FoundCameras:
        """Raises InvalidValues, InvalidValue, Conflict."""
        wanted = parse(CameraSearch, dict(asked))
        self._access_control.may_name(wanted.password_from)
        if self._searching:
            raise Conflict("a search for cameras is running", "wait for its end")
        self._searching = True
        return await asyncio.to_thread(self._search, wanted)

    def _search(self, wanted: CameraSearch) -> FoundCameras:
        """In a thread of its own, which goes on when the one who asked is gone."""
        try:
            password = resolve_secret(wanted.password_from, kept=self._access_control.secrets_file)
            width, height = input_of(self._site.student, self._memory_limit)
            return found_cameras(wanted, password, StreamNeed(width, height, wanted.fps))
        finally:
            self._searching = False


def found_cameras(wanted: CameraSearch, password: Secret, need: StreamNeed) -> FoundCameras:
    """Search and judge. Blocks, on an event loop of its own: to read long answers takes time. Raises InvalidValue."""
    # Late: the library brings an HTTP client of its own, a second of loading.
    from edge.discovery.search import search

    order = SearchOrder(wanted.addresses, wanted.network, wanted.username, password.reveal())
    return _told(asyncio.run(search(order)), need)


def _told(result: SearchResult, need: StreamNeed) -> FoundCameras:
    losses = result.losses
    return FoundCameras(
        cameras=tuple(_camera(d, need) for d in result.devices),
        need=NeedAnswer(width=need.width, height=need.height, fps=need.fps),
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

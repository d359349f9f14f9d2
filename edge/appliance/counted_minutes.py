"""Minutes of counts as outputs and metrics get them: each minute of each camera once, when it is over and settled.

The numbers come from the database, so a minute in which the appliance was restarted is sent whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from edge.core.counts import CLUSTER_S, CountedMinute, Place, WatchedTime, places_of
from edge.core.errors import Unavailable
from edge.settings import CameraSettings
from edge.store.store import Store
from scheduler.counts.checks import REACH_S, CheckIndex
from scheduler.counts.minutes import MINUTE_S, counted_minute, due_minutes

#: The settings document with the end of the minutes that were sent. The key is a format on disk: with another one an
#: updated appliance would not know which minutes were sent.
_SENT: Final = "counts/told"


class CountedMinutes:
    """`cameras()` are the settings of those there now; `deliver` takes each minute, and `kept()` is False where what
    was delivered could not be written. `latest` has the last minute by camera. Used on the control process's loop."""

    def __init__(
        self,
        store: Store,
        cameras: Callable[[], Mapping[str, CameraSettings]],
        deliver: Callable[[CountedMinute], None],
        kept: Callable[[], Awaitable[bool]],
    ) -> None:
        self._store, self._cameras, self._deliver, self._kept = store, cameras, deliver, kept
        self._sent_until_s: int | None = None
        self._opened = False
        self.latest: dict[str, CountedMinute] = {}

    def places(self) -> dict[str, tuple[Place, ...]]:
        """By camera that is switched on: where it counts."""
        return {
            camera: places_of((x.name for x in s.lines), (z.name for z in s.zones))
            for camera, s in self._cameras().items()
            if s.enabled and (s.lines or s.zones)
        }

    async def send_due(self, now_utc_s: float) -> None:
        """Send the minutes that are due, after everything counted in them was written. Raises MagpieError: the rest is
        due the next time."""
        if not self._opened:
            self._sent_until_s = await asyncio.to_thread(self._read_sent)
            self._opened = True
        for start_s in due_minutes(self._sent_until_s, now_utc_s):
            places = self.places()
            self.latest = {camera: minute for camera, minute in self.latest.items() if camera in places}
            for minute in await asyncio.to_thread(self._minutes, places, start_s):
                self.latest[minute.camera] = minute
                self._deliver(minute)
            # Before anything else can fail: a minute that was sent is not sent again.
            self._sent_until_s = start_s + MINUTE_S
            if not await self._kept():
                raise Unavailable("a minute's counts could not be queued")
            sent = {"until_s": self._sent_until_s}
            await asyncio.to_thread(self._store.settings.put_settings, _SENT, sent, "counts", audited=False)

    def _read_sent(self) -> int | None:
        try:
            return int((self._store.settings.get_settings(_SENT) or {})["until_s"])
        except (KeyError, TypeError, ValueError):
            return None

    def _minutes(self, places: Mapping[str, tuple[Place, ...]], start_s: int) -> list[CountedMinute]:
        return [self._minute(camera, there, start_s) for camera, there in places.items()]

    def _minute(self, camera: str, places: tuple[Place, ...], start_s: int) -> CountedMinute:
        end_s, reach_s = start_s + MINUTE_S, REACH_S[-1]
        # By quarters of an hour: there are too many minutes to read them all in each.
        cluster_s = CLUSTER_S["hour"]
        counts = self._store.counts.counted(camera, "minute", start_s, end_s)
        watched = self._store.counts.watched(camera, "minute", start_s, end_s)
        truth = CheckIndex(self._store.counts.count_checks(camera, start_s - reach_s, end_s + reach_s, cluster_s))
        return counted_minute(watched[0] if watched else WatchedTime(camera, start_s), places, counts, truth)

    def metrics(self) -> dict[str, Any]:
        """The last minute of each camera."""
        return {
            "minutes": [
                {
                    "camera": m.camera, "start_utc_s": m.start_s, "watched": m.watched,
                    "places": [
                        {"kind": p.place.kind, "name": p.place.name, "way": p.place.way} | p.to_json() for p in m.places
                    ],
                }
                for _, m in sorted(self.latest.items())
            ]
        }  # fmt: skip

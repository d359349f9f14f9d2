"""The cameras that serving shares the device with: their needs, and the watch over them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from edge.core.shares import ShareCaps, ideal_caps
from edge.core.window import WindowProblem
from edge.runtime.serving_shares import ServingShares
from edge.settings import ServingPlanning
from scheduler.admission import cameras_need
from scheduler.bounded import BoundedPolicy
from scheduler.follow import followed_policy
from scheduler.policies import DEFAULT_POLICY

#: Seconds between two looks at the cameras' need.
_LOOK_S = 2.0


@dataclass(frozen=True)
class CamerasNow:
    """The part of the device that serving and cameras have together, and the cameras' planning problem (None:
    there are none) and policy, and how the device grants shares."""

    capacity: float
    window: WindowProblem | None = None
    policy: str = DEFAULT_POLICY
    caps: ShareCaps = field(default_factory=ideal_caps)

    def followed(self) -> BoundedPolicy:
        """The planner of the cameras' windows on this device. Raises InvalidValue for an unknown policy."""
        return followed_policy(self.policy, self.caps)

    @property
    def key(self) -> tuple[Any, ...]:
        """Changes when the cameras' needs may have changed; time and the work done by retrainings do not count."""
        if self.window is None:
            return (self.capacity,)
        streams = tuple((s.id, round(s.start_accuracy, 2), s.inference_profile) for s in self.window.streams)
        return (self.capacity, self.policy, self.window.a_min, self.window.window_s, streams)


class CameraWatch:
    """Tells `shares` how much serving may take. `cameras()` says what the cameras need now, `planning()` the operator's
    settings, `front_more()` what the front needs beyond its own share. `pool()` is the share that the tenants' budgets
    leave to serving; None: tenants share nothing, and cameras leave what they do not need."""

    def __init__(
        self,
        cameras: Callable[[], CamerasNow],
        shares: ServingShares,
        planning: Callable[[], ServingPlanning],
        front_more: Callable[[], float],
        pool: Callable[[], float | None] = lambda: None,
    ) -> None:
        self._cameras, self._shares = cameras, shares
        self._planning, self._front_more, self._pool = planning, front_more, pool
        self._seen: tuple[Any, ...] | None = None
        self._looking = asyncio.Lock()

    async def watch(self) -> None:
        """Look every two seconds, until it is cancelled."""
        while True:
            await asyncio.sleep(_LOOK_S)
            await self.look()

    async def look(self, anew: bool = False) -> None:
        """See how much serving may take with cameras at their floor, and at their best. Nothing is computed where
        nothing has changed, unless `anew`."""
        async with self._looking:
            now = self._cameras()
            extra = self._front_more()
            pool = self._pool()
            seen = (now.key, extra, pool)
            if not anew and seen == self._seen:
                return
            if pool is not None:
                self._seen = seen
                self._shares.hold_for_front(extra)
                self._shares.allow(pool, pool, self._planning(), exact=True)
                return
            need = await asyncio.to_thread(cameras_need, now.window, now.capacity, now.followed())
            self._seen = seen
            self._shares.hold_for_front(extra)
            rest = now.capacity - extra
            self._shares.allow(rest - need.floor, rest - need.best, self._planning())

"""The real use of the shares that tenants' workers are given: a proxy, where performance was not measured yet.

Accounts of workers are cumulative since the retraining window began; the means here are those of intervals. Serving
tenants have one each time that shares are decided, cameras one per window, as their retraining takes a part of it only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from edge.core.shares import Usage
from edge.core.workers import Activity
from edge.runtime.serving_status import KnownExecutor
from scheduler.tenants.sharing import MeasuredUse

#: Until a first interval has ended, what was seen so far counts from so many seconds on.
LEAST_S = 10.0


@dataclass(frozen=True)
class _Sum:
    """Share-seconds used and given in so many seconds."""

    used: float = 0.0
    given: float = 0.0
    seconds: float = 0.0

    def plus(self, other: _Sum) -> _Sum:
        return _Sum(self.used + other.used, self.given + other.given, self.seconds + other.seconds)

    def since(self, base: _Sum) -> _Sum:
        """The part after `base`; all of it, if accounts began anew after that."""
        more = _Sum(self.used - base.used, self.given - base.given, self.seconds - base.seconds)
        return self if min(more.used, more.given, more.seconds) < -1e-9 else more

    @property
    def mean(self) -> MeasuredUse:
        return MeasuredUse(self.used / self.seconds, self.given / self.seconds)


class TenantUse:
    """The sums of tenants that are looked at, until their interval ends."""

    def __init__(self) -> None:
        self._accounts: dict[str, _Sum] = {}
        self._owner: dict[str, str] = {}
        self._sums: dict[str, _Sum] = {}
        self._last: dict[str, MeasuredUse] = {}
        self._window: int | None = None
        #: A window ended, and its use was not decided on.
        self.due = False

    def look(self, rows: Iterable[tuple[Usage, str | None]], tenants: Collection[str]) -> None:
        """Take the accounts up to now in: each with the tenant that its worker works for (None: no tenant's, or not
        known any more, and then it is whose it was)."""
        accounts: dict[str, _Sum] = {}
        more: dict[str, _Sum] = {}
        elapsed = 0.0
        for usage, tenant in rows:
            now = _Sum(usage.used_share * usage.wall_s, usage.granted * usage.wall_s, usage.wall_s)
            step = now.since(self._accounts.get(usage.worker, _Sum()))
            accounts[usage.worker] = now
            elapsed = max(elapsed, step.seconds)
            owner = tenant or self._owner.get(usage.worker)
            if owner is not None:
                self._owner[usage.worker] = owner
                more[owner] = more.get(owner, _Sum()).plus(_Sum(step.used, step.given))
        self._accounts = accounts
        self._owner = {w: t for w, t in self._owner.items() if w in accounts}
        for name in tenants:
            step = more.get(name, _Sum())
            self._sums[name] = self._sums.get(name, _Sum()).plus(_Sum(step.used, step.given, elapsed))

    def ended(self, tenants: Iterable[str]) -> None:
        """The interval of these tenants is over."""
        for name in tenants:
            over = self._sums.pop(name, _Sum())
            if over.seconds > 0:
                self._last[name] = over.mean

    def in_window(self, window: int, cameras: Collection[str]) -> None:
        """This is the retraining window: where it is another one, the interval of the tenants with cameras is over."""
        if self._window is not None and window != self._window:
            self.ended(cameras)
            self.due = bool(cameras)
        self._window = window

    def of(self, tenant: str, least_s: float = LEAST_S) -> MeasuredUse | None:
        """The mean of the last interval that ended; before the first one that of `least_s` or more."""
        so_far = self._sums.get(tenant, _Sum())
        if tenant not in self._last and so_far.seconds >= least_s:
            self._last[tenant] = so_far.mean
        return self._last.get(tenant)


def owners_of_workers(
    rows: Iterable[tuple[Usage, Activity, str | None]],
    executors: Iterable[KnownExecutor],
    served: Mapping[str, str],
    cameras: Mapping[str, str],
) -> list[tuple[Usage, str | None]]:
    """Each account with its tenant: that of a camera for the workers of the camera, that of the models in its partition
    for an executor. `served` and `cameras` have the tenants of models and cameras."""
    of_executor = {e.id: next((served[m] for m in e.models if m in served), None) for e in executors}
    out: list[tuple[Usage, str | None]] = []
    for usage, activity, camera in rows:
        tenant = of_executor.get(usage.worker) if activity == "serving" else None
        out.append((usage, tenant if camera is None else cameras.get(camera)))
    return out

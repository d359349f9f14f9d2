"""The times of sharing: its intervals, the shares that were held in them, and how long nothing was measured of a
tenant. Monotonic seconds come in; no clock is read.

An interval ends by its own time, however often there is more or less to share meanwhile. Time in which nothing is
shared belongs to none."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from edge.core.tenants import SharingRules, Tenant
from scheduler.tenants.sharing import TenantShare

#: Reports of cameras may be nearly two windows apart, as an accuracy is known a window late: quiet is twice as long.
_QUIET_WINDOWS = 4.0
_QUIET_INTERVALS = 2.0


class TimeMean:
    """A mean over time; None: over no time."""

    def __init__(self) -> None:
        self._sum, self._seconds = 0.0, 0.0

    def add(self, value: float, seconds: float) -> None:
        self._sum += value * seconds
        self._seconds += seconds

    @property
    def value(self) -> float | None:
        return self._sum / self._seconds if self._seconds > 0 else None


@dataclass(frozen=True)
class HeldShare:
    """A tenant's share over `seconds`: budget and entitlement in the mean, and the greatest floor."""

    seconds: float
    held: float
    entitlement: float
    floor: float


@dataclass
class _HeldSum:
    seconds: float = 0.0
    floor: float = 0.0
    held: TimeMean = field(default_factory=TimeMean)
    entitlement: TimeMean = field(default_factory=TimeMean)

    def add(self, share: TenantShare, seconds: float) -> None:
        self.seconds += seconds
        self.floor = max(self.floor, share.floor)
        self.held.add(share.held, seconds)
        self.entitlement.add(share.entitlement, seconds)


def least_quiet_s(tenant: Tenant, rules: SharingRules, window_s: float) -> float:
    """The quiet that ends a tenant's alarm: as long as a miss takes to raise it, and some intervals or windows."""
    own_s = _QUIET_INTERVALS * rules.interval_s if tenant.serves else _QUIET_WINDOWS * window_s
    return max(60.0 * rules.missed_minutes, own_s)


class QuietTimes:
    """How long nothing was measured of each tenant."""

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}

    def only(self, tenants: Collection[str], at_s: float) -> bool:
        """These are there now: of others nothing is known any more, and the quiet of those that are new begins now.
        Returns whether one is gone."""
        gone = not self._since_s.keys() <= set(tenants)
        self._since_s = {tenant: self._since_s.get(tenant, at_s) for tenant in tenants}
        return gone

    def measured(self, tenant: str, at_s: float) -> None:
        """Something was measured of it."""
        self._since_s[tenant] = at_s

    def uncounted(self, tenant: str, seconds: float, at_s: float) -> None:
        """The last `seconds` do not count as quiet: requests may have failed, and nothing told."""
        self._since_s[tenant] = min(at_s, self._since_s.get(tenant, at_s) + seconds)

    def quiet_s(self, tenant: str, at_s: float, least_s: float) -> float:
        """Seconds since something was measured of it, or it came; 0 where less than `least_s`."""
        quiet_s = at_s - self._since_s.get(tenant, at_s)
        return quiet_s if quiet_s >= least_s else 0.0


class TenantTimes:
    """Since `at_s` there is an interval, and no shares."""

    def __init__(self, at_s: float) -> None:
        self._began_s = at_s
        self._since_s: float | None = None
        self._paused_s: float | None = None
        self._sums: dict[str, _HeldSum] = {}
        self.quiet = QuietTimes()
        self._ahead_s: float | None = None

    def set_by(self, at_s: float, utc_s: float) -> float:
        """Seconds by which the clock, which shows `utc_s`, was put forward since the last call (below 0: back)."""
        before, self._ahead_s = self._ahead_s, utc_s - at_s
        return 0.0 if before is None else self._ahead_s - before

    def passed(self, at_s: float) -> float:
        """Seconds of the present interval."""
        return at_s - self._began_s

    def quiet_s(self, tenant: Tenant, at_s: float, rules: SharingRules, window_s: float, silent: bool) -> float:
        """Seconds in which nothing was measured of a tenant, where they end its alarm; else 0. A window has `window_s`.
        `silent`: the front was silent, so the present interval does not count."""
        if silent:
            self.quiet.uncounted(tenant.id, self.passed(at_s), at_s)
        return self.quiet.quiet_s(tenant.id, at_s, least_quiet_s(tenant, rules, window_s))

    def left_s(self, at_s: float, interval_s: float) -> float:
        """Seconds until the present interval, of `interval_s`, is over."""
        return min(interval_s, max(0.0, interval_s - self.passed(at_s)))

    def begin(self, at_s: float) -> None:
        """The next interval begins."""
        self._began_s = at_s

    def pause(self, at_s: float, least_s: float = 0.0) -> float | None:
        """Nothing is shared now; an interval begins when it is shared again. Where that lasts for `least_s`, what was
        held before it is forgotten, and the seconds since then are returned, once; else None."""
        if self._since_s is not None:
            self._paused_s = at_s
        self._began_s, self._since_s = at_s, None
        if self._paused_s is None or at_s - self._paused_s < least_s:
            return None
        paused_s, self._paused_s = at_s - self._paused_s, None
        self._sums = {}
        return paused_s

    def held(self, shares: Mapping[str, TenantShare], at_s: float) -> None:
        """These shares were in force until now; others are from now on."""
        seconds = 0.0 if self._since_s is None else max(0.0, at_s - self._since_s)
        self._since_s, self._paused_s = at_s, None
        self._sums = {tenant: self._sums.get(tenant, _HeldSum()) for tenant in shares}
        for tenant, share in shares.items():
            self._sums[tenant].add(share, seconds)

    def take(self, tenant: str) -> HeldShare | None:
        """Its share since this was last asked; None: it had none, or for no time."""
        found = self._sums.pop(tenant, _HeldSum())
        held, entitlement = found.held.value, found.entitlement.value
        if held is None or entitlement is None:
            return None
        return HeldShare(found.seconds, held, entitlement, found.floor)

"""Shares given and their times: the accounting that every share kind has in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from edge.core.clock import Clock
from edge.core.errors import ShareError
from edge.core.shares import Grant, Role, ShareCaps, Usage


@dataclass(frozen=True)
class Reading:
    """Cumulative counters of one worker: device time used, left for want of work; wall time held back or waiting."""

    device_s: float = 0.0
    declined_s: float | None = None  # None: not known for this worker
    throttled_s: float = 0.0
    waited_s: float = 0.0
    visible_units: float | None = None

    def since(self, base: Reading) -> Reading:
        """The difference to an earlier reading."""
        declined = None
        if self.declined_s is not None:
            declined = max(0.0, self.declined_s - (base.declined_s or 0.0))
        return Reading(
            max(0.0, self.device_s - base.device_s),
            declined,
            max(0.0, self.throttled_s - base.throttled_s),
            max(0.0, self.waited_s - base.waited_s),
            self.visible_units,
        )

    def plus(self, other: Reading) -> Reading:
        """The sum of two periods; the latest value counts for `visible_units`."""
        declined = None
        if self.declined_s is not None or other.declined_s is not None:
            declined = (self.declined_s or 0.0) + (other.declined_s or 0.0)
        return Reading(
            self.device_s + other.device_s,
            declined,
            self.throttled_s + other.throttled_s,
            self.waited_s + other.waited_s,
            other.visible_units if other.visible_units is not None else self.visible_units,
        )


@dataclass
class _Account:
    role: Role
    asked: float
    share: float
    since_s: float
    base: Reading
    running: bool = True
    asked_integral: float = 0.0
    share_integral: float = 0.0
    wall_s: float = 0.0
    past: Reading = field(default_factory=Reading)


class Ledger:
    """Accounts by worker. `read(worker)` gives a worker's cumulative counters; `units` is the capacity of share 1.0."""

    def __init__(self, clock: Clock, read: Callable[[str], Reading], units: float) -> None:
        self._clock, self._read, self._units = clock, read, units
        self._accounts: dict[str, _Account] = {}

    def attach(self, worker: str, role: Role, asked: float, share: float) -> Grant:
        """Begin, or go on with, a worker's account."""
        now, old = self._clock.monotonic(), self._accounts.get(worker)
        if old is not None:
            if old.running:
                self.detach(worker)
            old.role, old.asked, old.share, old.running, old.since_s = role, asked, share, True, now
            old.base = self._read(worker)
        else:
            self._accounts[worker] = _Account(role, asked, share, now, self._read(worker))
        return Grant(worker, role, asked, share)

    def resize(self, worker: str, asked: float, share: float) -> None:
        """From now on another share."""
        account = self._accounts[worker]
        self._advance(account)
        account.asked, account.share = asked, share

    def detach(self, worker: str) -> None:
        """The worker has ended; its period so far is kept until `reset`."""
        account = self._accounts.get(worker)
        if account is None or not account.running:
            return
        self._advance(account)
        account.past = account.past.plus(self._read(worker).since(account.base))
        account.running = False

    def running(self) -> dict[str, float]:
        """Workers that are attached now, with their shares."""
        return {name: a.share for name, a in self._accounts.items() if a.running}

    def role(self, worker: str) -> Role | None:
        """The role of an attached worker, or None."""
        account = self._accounts.get(worker)
        return account.role if account is not None and account.running else None

    def reset(self) -> None:
        """Begin a new period: ended workers are forgotten."""
        now = self._clock.monotonic()
        for name in [n for n, a in self._accounts.items() if not a.running]:
            del self._accounts[name]
        for name, account in self._accounts.items():
            account.base, account.past, account.since_s = self._read(name), Reading(), now
            account.asked_integral = account.share_integral = account.wall_s = 0.0

    def usage(self) -> tuple[Usage, ...]:
        """One Usage per account, by name."""
        return tuple(self._usage(name, account) for name, account in sorted(self._accounts.items()))

    def _advance(self, account: _Account) -> None:
        now = self._clock.monotonic()
        elapsed = max(0.0, now - account.since_s)
        account.asked_integral += account.asked * elapsed
        account.share_integral += account.share * elapsed
        account.wall_s += elapsed
        account.since_s = now

    def _usage(self, name: str, account: _Account) -> Usage:
        total = account.past
        if account.running:
            self._advance(account)
            total = total.plus(self._read(name).since(account.base))
        wall = account.wall_s
        whole = max(wall * self._units, 1e-9)
        used = total.device_s / whole
        declined = None if total.declined_s is None else total.declined_s / whole
        return Usage(
            worker=name,
            asked=account.asked_integral / wall if wall else account.asked,
            granted=account.share_integral / wall if wall else account.share,
            used_share=used,
            device_seconds=total.device_s,
            wall_s=wall,
            throttled_fraction=total.throttled_s / max(wall, 1e-9),
            visible_units=total.visible_units,
            given_share=None if declined is None else used + declined,
            waited_fraction=total.waited_s / max(wall, 1e-9),
            demand_limited=declined is not None and declined > 0.01,
            running=account.running,
        )


def grantable(caps: ShareCaps, worker: str, share: float) -> float:
    """The share that `caps` can grant for `share`. Raises InvalidValue out of 0-1, ShareError under the minimum."""
    granted = caps.quantize(share)
    if granted <= 0.0:
        raise ShareError(
            f"worker {worker}: a share of {share:g} of {caps.device} cannot be granted,"
            f" the smallest is {caps.min_share:g} ({caps.kind})"
        )
    return granted

"""The knowledge of a tenant: its reports and the memory of its curve, JSON values only; and when it is forgotten."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from edge.core import checks
from edge.core.errors import InvalidValue
from edge.core.fields import mapping, number, sequence
from edge.core.tenants import ForgottenCode
from scheduler.tenants.learned import TenantMemory
from scheduler.tenants.remembered import memory_from, memory_json

#: Reports that are shown; learning needs none of them.
RECENT = 60
#: A share of the box is at most all of it, but for rounding.
_WHOLE = 1.0 + 1e-6
#: Times are within so many seconds of 1970: of a clock that was never set, too.
_MOST_UTC_S = 1e12
_FORGET: Mapping[str, ForgottenCode] = {
    "members": "members", "versions": "versions", "table": "table", "device": "device", "objective": "objective",
    "met": "objective",
}  # fmt: skip


@dataclass(frozen=True)
class SharingReport:
    """A tenant's interval: `performance` (0-1) of `requests` under `load` per second (cameras: 1), with the share
    `given`, in `seconds` that ended at `utc_s`."""

    utc_s: float
    seconds: float
    load: float
    performance: float
    given: float
    requests: int = 0

    @property
    def usable(self) -> bool:
        """All of it is finite, and fits its range."""
        numbers = (self.utc_s, self.seconds, self.load, self.performance, self.given)
        return (
            all(math.isfinite(n) for n in numbers)
            and self.seconds > 0
            and self.load > 0
            and 0 <= self.performance <= 1
            and 0 < self.given <= 1
        )


@dataclass(frozen=True)
class LearnedTenant:
    """All that is known of one tenant. `scale` is the share that the curve's places refer to; `fingerprint` names what
    it was learned of, by part; `held` is its budget (None: none yet). The time to the newest report from
    `missed_utc_s` is that in which it missed its goal without a break, from `right_missed_utc_s` that in which it did
    so with the share that is its by right: both marks move on by the time in which nothing was measured. Marks until
    `put_back_utc_s` were moved back by `ahead_s`, as the clock showed less than they did (0: by nothing)."""

    memory: TenantMemory = field(default_factory=TenantMemory)
    scale: float | None = None
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    held: float | None = None
    moved_utc_s: float | None = None
    dropped: int = 0
    forgotten: ForgottenCode | None = None
    forgotten_utc_s: float | None = None
    missed_utc_s: float | None = None
    right_missed_utc_s: float | None = None
    recent: tuple[SharingReport, ...] = ()
    ahead_s: float = 0.0
    put_back_utc_s: float | None = None

    @property
    def measured(self) -> bool:
        """A report of it was learned."""
        return self.memory.load.last is not None

    @property
    def last(self) -> SharingReport | None:
        """The last report."""
        return self.recent[-1] if self.recent else None

    def check(self, path: str) -> None:
        """Raises InvalidValue, with the field's path, for what no box keeps: damage may leave numbers that can be read,
        and no decision be made with them."""
        self.memory.check(f"{path}.memory")
        if self.scale is not None:
            checks.in_range(f"{path}.scale", self.scale, 0.0, _WHOLE, low_open=True)
        if self.held is not None:
            checks.in_range(f"{path}.held", self.held, 0.0, _WHOLE)
        checks.in_range(f"{path}.ahead_s", self.ahead_s, 0.0, 2 * _MOST_UTC_S)
        for name in ("moved_utc_s", "forgotten_utc_s", "missed_utc_s", "right_missed_utc_s", "put_back_utc_s"):
            checks.in_range(f"{path}.{name}", getattr(self, name) or 0.0, -_MOST_UTC_S, _MOST_UTC_S)
        for n, report in enumerate(self.recent):
            checks.in_range(f"{path}.recent[{n}][0]", report.utc_s, -_MOST_UTC_S, _MOST_UTC_S)
            if not report.usable:
                raise InvalidValue(f"{path}.recent[{n}]", report, "an interval as it was measured")

    def to_json(self) -> dict[str, Any]:
        """Write it."""
        return {
            "memory": memory_json(self.memory),
            "scale": self.scale,
            "fingerprint": dict(self.fingerprint),
            "held": self.held,
            "moved_utc_s": self.moved_utc_s,
            "dropped": self.dropped,
            "forgotten": self.forgotten,
            "forgotten_utc_s": self.forgotten_utc_s,
            "missed_utc_s": self.missed_utc_s,
            "right_missed_utc_s": self.right_missed_utc_s,
            "recent": [[r.utc_s, r.seconds, r.load, r.performance, r.given, r.requests] for r in self.recent],
            "ahead_s": self.ahead_s,
            "put_back_utc_s": self.put_back_utc_s,
        }

    @staticmethod
    def from_json(value: Any, path: str = "tenant") -> LearnedTenant:
        """Read it. Raises InvalidValue with the field's path."""
        value = mapping(value, path)

        def maybe(key: str) -> float | None:
            return None if value.get(key) is None else float(number(value, key, path))

        recent = []
        for n, row in enumerate(sequence(value.get("recent") or [], f"{path}.recent")):
            if not isinstance(row, list) or len(row) != 6 or not all(map(_finite, row)):
                raise InvalidValue(f"{path}.recent[{n}]", row, "six finite numbers")
            recent.append(SharingReport(row[0], row[1], row[2], row[3], row[4], int(row[5])))
        forgotten = value.get("forgotten")
        return LearnedTenant(
            memory_from(value.get("memory"), TenantMemory, f"{path}.memory"),
            maybe("scale"),
            {str(k): str(v) for k, v in mapping(value.get("fingerprint") or {}, f"{path}.fingerprint").items()},
            maybe("held"),
            maybe("moved_utc_s"),
            int(number(value, "dropped", path, 0)),
            forgotten if forgotten in (*_FORGET, "damaged") else None,
            maybe("forgotten_utc_s"),
            maybe("missed_utc_s"),
            maybe("right_missed_utc_s"),
            tuple(recent),
            maybe("ahead_s") or 0.0,
            maybe("put_back_utc_s"),
        )


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and checks.finite(value)


def on_clock(known: LearnedTenant, utc_s: float) -> LearnedTenant:
    """The knowledge by a clock that shows `utc_s` now. Where its newest mark lies after that, the clock was put back,
    or is not set yet: all marks go back by as much, so that the newest is now, until the clock is put forward."""
    marks = [r.utc_s for r in known.recent[-1:]]
    marks += [mark for mark in (known.moved_utc_s, known.missed_utc_s) if mark is not None]
    ahead = max(marks, default=utc_s) - utc_s
    if ahead <= 0:
        return known

    moved = _dated(known, lambda mark: mark - ahead)
    return replace(moved, ahead_s=known.ahead_s + ahead, put_back_utc_s=utc_s)


def put_forward(known: LearnedTenant, by_s: float) -> LearnedTenant:
    """The knowledge by a clock that was put forward by `by_s`: marks that went back before go forward to where they
    were, and those since then with the clock. Unchanged where none went back."""
    until = known.put_back_utc_s
    if until is None or known.ahead_s <= 0 or by_s <= 0:
        return known
    if by_s < known.ahead_s:
        moved = _dated(known, lambda mark: mark + by_s)
        return replace(moved, ahead_s=known.ahead_s - by_s, put_back_utc_s=until + by_s)
    moved = _dated(known, lambda mark: mark + (known.ahead_s if mark <= until else by_s))
    return replace(moved, ahead_s=0.0, put_back_utc_s=None)


def _dated(known: LearnedTenant, at: Callable[[float], float]) -> LearnedTenant:
    """With each mark where `at` says. Marks of missed time stay as far before the last report as they were."""
    last = known.last

    def missed(mark: float | None) -> float | None:
        return None if mark is None else at(mark) if last is None else mark + at(last.utc_s) - last.utc_s

    return replace(
        known,
        moved_utc_s=None if known.moved_utc_s is None else at(known.moved_utc_s),
        missed_utc_s=missed(known.missed_utc_s),
        right_missed_utc_s=missed(known.right_missed_utc_s),
        recent=tuple(replace(r, utc_s=at(r.utc_s)) for r in known.recent),
    )


def kept_of(
    known: LearnedTenant | None, fingerprint: Mapping[str, str], utc_s: float
) -> tuple[LearnedTenant, ForgottenCode | None]:
    """The knowledge that may be kept: nothing that was learned of something else. The budget stays. Parts that are not
    in `fingerprint` are not known now, and compared when they are."""
    if known is None:
        return LearnedTenant(fingerprint=dict(fingerprint)), None
    other = next((k for k, v in fingerprint.items() if known.fingerprint.get(k, v) != v), None)
    if other is None:
        return replace(known, fingerprint={**known.fingerprint, **fingerprint}), None
    code = _FORGET.get(other, "members")
    if known.memory == TenantMemory():
        return replace(known, fingerprint=dict(fingerprint), recent=()), None
    return (
        LearnedTenant(
            fingerprint=dict(fingerprint), held=known.held, moved_utc_s=known.moved_utc_s, dropped=known.dropped,
            forgotten=code, forgotten_utc_s=utc_s,
        ),
        code,
    )  # fmt: skip

"""Which boxes are there: silent after missed beats, lost when their lease is over. Values in, values out; times are of
the head's own clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from edge.core.fleet import BoxStatus, FleetRules


@dataclass(frozen=True)
class BoxWatch:
    """One box as the head sees it: when it was heard last, and in which run of its agent."""

    heard_s: float
    boot: str = ""
    status: BoxStatus = "open"


@dataclass(frozen=True)
class Membership:
    """All boxes that the head watches."""

    boxes: Mapping[str, BoxWatch] = field(default_factory=dict)

    def status(self, box: str) -> BoxStatus:
        """A box that is not watched is lost."""
        watch = self.boxes.get(box)
        return "lost" if watch is None else watch.status

    def with_status(self, status: BoxStatus) -> tuple[str, ...]:
        """Boxes by name."""
        return tuple(sorted(name for name, watch in self.boxes.items() if watch.status == status))


def begin(boxes: Iterable[str], now_s: float, silent_since: Mapping[str, float] | None = None) -> Membership:
    """A head begins to watch: each box counts as heard now, but one that is known to be silent since another time."""
    since = silent_since or {}
    return Membership({box: BoxWatch(since.get(box, now_s)) for box in boxes})


def hear(membership: Membership, box: str, boot: str, now_s: float) -> Membership:
    """A beat of a box arrived that is of `now_s`. Beats that were overtaken by later ones, or bring nothing newer, do
    no harm."""
    before = membership.boxes.get(box)
    if before is not None and before.heard_s >= now_s:
        watch = replace(before, boot=boot)
    else:
        watch = BoxWatch(now_s, boot)
    return Membership({**membership.boxes, box: watch})


def forget(membership: Membership, box: str) -> Membership:
    """A box left the fleet."""
    return Membership({name: watch for name, watch in membership.boxes.items() if name != box})


def pass_time(membership: Membership, now_s: float, rules: FleetRules) -> tuple[Membership, tuple[str, ...]]:
    """The membership at `now_s`, and the boxes that are lost since the last call."""
    boxes: dict[str, BoxWatch] = {}
    lost: list[str] = []
    for name, watch in membership.boxes.items():
        quiet_s = now_s - watch.heard_s
        status: BoxStatus = "lost" if quiet_s >= rules.lease_s else "silent" if quiet_s >= rules.silent_s else "open"
        if status == "lost" and watch.status != "lost":
            lost.append(name)
        boxes[name] = watch if status == watch.status else replace(watch, status=status)
    return Membership(boxes), tuple(sorted(lost))


def lease_over(heard_s: float, now_s: float, rules: FleetRules) -> bool:
    """Whether a box that heard its head last at `heard_s` has to have stopped the work that others asked of it: before
    the head gives that work to other boxes."""
    return now_s - heard_s >= rules.lease_s - rules.fence_margin_s

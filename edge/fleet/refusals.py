"""Connections and messages that were refused, counted by reason and logged once a minute for each."""

from __future__ import annotations

import logging
from collections import Counter

from edge.core.clock import Clock
from edge.core.fleet_links import RefusedBy

log = logging.getLogger(__name__)

_QUIET_S = 60.0
_LATELY_S = 60.0


class Refusals:
    """Counts since the agent's start."""

    def __init__(self, clock: Clock) -> None:
        self.counts: Counter[RefusedBy] = Counter()
        self._clock = clock
        self._logged_s: dict[RefusedBy, float] = {}
        self._of_boxes_s: dict[tuple[RefusedBy, str], float] = {}

    def add_of_box(self, why: RefusedBy, box: str) -> None:
        """One of a member was refused."""
        self._of_boxes_s[why, box] = self._clock.monotonic()
        self.add(why, f"of the box {box}")

    def boxes(self, why: RefusedBy) -> tuple[str, ...]:
        """The members of which something was refused in the last minute, by name."""
        since_s = self._clock.monotonic() - _LATELY_S
        return tuple(sorted(box for (kind, box), at_s in self._of_boxes_s.items() if kind == why and at_s >= since_s))

    def add(self, why: RefusedBy, about: str = "") -> None:
        """One was refused; `about` names the client as far as it is known."""
        self.counts[why] += 1
        now = self._clock.monotonic()
        if now - self._logged_s.get(why, float("-inf")) >= _QUIET_S:
            self._logged_s[why] = now
            log.warning("a box of the fleet refused a connection: %s %s (%d so far)", why, about, self.counts[why])

"""Trials and labels that other boxes were asked for: handed over, followed, given up where nothing comes of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace

from edge.core.clock import Clock
from edge.core.errors import MagpieError
from edge.core.lending import (
    LENT_FAULTS,
    BorrowedThere,
    LendingCounts,
    LendingOffer,
    LentFault,
    LentKind,
    LentState,
    LentWork,
)
from edge.runtime.lending_folder import LendingFolder, WorkInput
from edge.runtime.lent_followed import Followed

log = logging.getLogger(__name__)

Packed = tuple[LentWork, WorkInput]


@dataclass
class AskedWork:
    """A work for `camera` that another box was asked for, and will have done at `ends_s` as far as this one knows."""

    camera: str
    followed: Followed
    ends_s: float


@dataclass(frozen=True)
class FailedIn:
    """The `names` (of cameras, or boxes) for which a work failed in window `number`: not asked for again in it."""

    number: int = 0
    names: frozenset[str] = frozenset()

    def window(self, number: int) -> frozenset[str]:
        """Those of that window."""
        return self.names if number == self.number else frozenset()

    def more(self, number: int, name: str) -> FailedIn:
        """After one more in window `number`."""
        return FailedIn(number, self.window(number) | {name})


class AskedWorks:
    """The works of all kinds that are asked for; only the owner of a kind touches its own. `spawn(work, name)` runs
    beside the loop's main work."""

    def __init__(self, clock: Clock, folder: LendingFolder, spawn: Callable[..., None], counts: LendingCounts) -> None:
        self._clock, self._folder, self._spawn, self.counts = clock, folder.asked, spawn, counts
        self._asked: dict[str, AskedWork] = {}

    def there(self, name: str, kind: LentKind) -> BorrowedThere:
        """How far a work is, for people."""
        one = self._asked[name]
        return BorrowedThere(one.followed.box, one.camera, one.followed.phase, one.followed.fraction, kind)

    def behind(self, offer: LendingOffer) -> LendingOffer:
        """An offer behind what it may not know of yet. Trials and labels are not lent over the end of its window."""
        given = [a.ends_s for a in self._asked.values() if a.followed.box == offer.box]
        until_s = max(given, default=0.0) - self._clock.monotonic()
        return replace(offer, busy_s=max(offer.busy_s, until_s), room=max(0, offer.room - len(given)), again=0.0)

    def ask(
        self,
        name: str,
        work: AskedWork,
        pack: Callable[[int], Packed],
        failed: Callable[[str, LentFault, str], None],
    ) -> None:
        """Have another box do a work. `pack(place)` makes it, where `place` others come before it there; it may block.
        `failed(name, fault, why)` is called where it cannot be handed over."""
        place = sum(a.followed.box == work.followed.box for a in self._asked.values())
        self._asked[name] = work
        self._spawn(self._hand_over(name, lambda: pack(place), failed), f"lend {name}")

    async def _hand_over(
        self, name: str, pack: Callable[[], Packed], failed: Callable[[str, LentFault, str], None]
    ) -> None:
        try:
            work, given = await asyncio.to_thread(pack)
            await asyncio.to_thread(self._folder.begin, work, given)
            if name not in self._asked:  # dropped meanwhile
                self._folder.mark(name, "cancel")
        except (MagpieError, OSError) as error:
            failed(name, "failed", str(error))

    async def ended(self, name: str) -> LentState | None:
        """The state of a work that has ended; one of which nothing is heard has failed. None: it goes on, or was
        dropped meanwhile."""
        written_ns, state = await asyncio.to_thread(lambda: (self._folder.written_ns(name), self._folder.state(name)))
        one = self._asked.get(name)
        if one is None:
            return None
        heard = one.followed.heard(self._clock.monotonic(), written_ns, state)
        if heard == "silent":
            return LentState("failed", "unreachable")
        return state if heard == "ended" else None

    def drop(self, name: str, fault: LentFault | None = None, why: str = "") -> None:
        """It is waited for no longer; counted and logged where it failed."""
        one = self._asked.pop(name, None)
        if one is None:
            return
        if fault is not None:
            self.counts.failures[fault] = self.counts.failures.get(fault, 0) + 1
            log.warning("%s lent to %s: %s", name, one.followed.box, LENT_FAULTS[fault] + (f": {why}" if why else ""))
        try:
            self._folder.mark(name, "cancel")
        except OSError as error:  # a full disk: the other box ends it by its own time
            log.warning("%s could not be called back: %s", name, error)

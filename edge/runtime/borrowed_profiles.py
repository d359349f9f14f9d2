"""Trials of this box's cameras that other boxes run: given to them where their profiles are there sooner, followed, and
taken in as if they had been measured here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from edge.core.errors import MagpieError
from edge.core.lending import (
    LENT_FAULTS,
    BorrowedThere,
    Borrower,
    LendingCounts,
    LendingOffer,
    LentFault,
    LentProfiles,
    LentState,
)
from edge.runtime import messages as m
from edge.runtime.lending_folder import LendingFolder
from edge.runtime.lent_followed import Followed
from edge.runtime.lent_profiles import packed_profiling, unpacked_profiles
from microprofiler.trials import families
from scheduler.controller import LAST_PART
from scheduler.fleet.lending import BACK_S, LEAST_SHARE, profiles_out

if TYPE_CHECKING:
    from edge.runtime.runtime import Runtime

log = logging.getLogger(__name__)

#: Trials that had less than this until they are wanted are not lent, in seconds.
_LEAST_LEFT_S: Final = 2.0


@dataclass
class _AskedTrials:
    """Trials that another box was asked for, and will have done at `ends_s` as far as this one knows. `no_time`: here
    they are not run."""

    job: m.Profile
    followed: Followed
    ends_s: float
    no_time: bool = False


class BorrowedProfiles:
    """The runtime's hands for lent trials. `spawn(work, name)` runs beside the loop's main work."""

    def __init__(
        self, runtime: Runtime, folder: LendingFolder, spawn: Callable[..., None], counts: LendingCounts
    ) -> None:
        self._r, self._folder, self._spawn, self._counts = runtime, folder, spawn, counts
        self._asked: dict[str, _AskedTrials] = {}
        #: The window, and its cameras whose trials did not come back: they are not lent again.
        self._tried: tuple[int, frozenset[str]] = (0, frozenset())
        self._offers: Sequence[LendingOffer] = ()
        self._me: Borrower | None = None

    def there(self) -> tuple[BorrowedThere, ...]:
        """The trials that other boxes run for this one now."""
        return tuple(
            BorrowedThere(a.followed.box, a.job.data.camera, a.followed.phase, a.followed.fraction, profiling=True)
            for a in self._asked.values()
        )

    def give(self, job: m.Profile) -> bool:
        """Have another box run trials for which this one has no time; False: no box has them done in time."""
        left_s, me = self._left_s(), self._me
        if me is None or job.data.camera in self._not_again(job.data.window):
            return False
        for trials in (len(families(job.space)), 1):
            wanted = replace(job, budget_s=self._r.learning.trials_s(trials))
            # Here they would never be done.
            chosen = profiles_out([job.data.camera], 0.0, wanted.budget_s, 0.0, self._offered(), me)
            if chosen and (left_s is None or chosen[0].ends_s - BACK_S <= left_s):
                self._ask(wanted, chosen[0], left_s, no_time=True)
                return True
        return False

    def take_back(self) -> list[m.Profile]:
        """Nobody waits for the profiles of others any more: their jobs."""
        jobs = [asked.job for asked in self._asked.values()]
        for name in list(self._asked):
            self._drop(name)
        return jobs

    # -- once a second

    async def look(self, offers: Sequence[LendingOffer], me: Borrower | None) -> None:
        """Take in what other boxes did, and give them what they would have done sooner."""
        for name in list(self._asked):
            told_ns, state = await asyncio.to_thread(self._read, name)
            asked = self._asked.get(name)
            if asked is not None:
                await self._step(name, asked, told_ns, state)
        self._offers, self._me = offers, me
        if me is not None and offers:
            self._lend(me)

    def _offered(self) -> list[LendingOffer]:
        return [self._behind(o) for o in self._offers if o.share >= LEAST_SHARE]

    def _not_again(self, window: int) -> frozenset[str]:
        """Cameras whose trials did not come back in a window."""
        return self._tried[1] if self._tried[0] == window else frozenset()

    def _lend(self, me: Borrower) -> None:
        r = self._r
        number = r.controller.state.window - 1
        waiting = [job for job in r.profilers.waiting() if job.data.window == number]
        hand_in_s = self._left_s()
        if not waiting or (hand_in_s is not None and hand_in_s < _LEAST_LEFT_S):
            return
        sizes = {c: n for c, n in me.sizes.items() if c not in self._not_again(number)}
        budget_s = max(job.budget_s for job in waiting)
        # Of trials that run half is taken to be done.
        begun_s = budget_s * r.profilers.profiling() / 2
        chosen = profiles_out(
            [job.data.camera for job in waiting], begun_s, budget_s, r.profilers.speed(r.preparation.thread),
            self._offered(), replace(me, sizes=sizes),
        )  # fmt: skip
        for choice in chosen:
            job = next(j for j in waiting if j.data.camera == choice.camera)
            r.profilers.withdraw(lambda queued, job=job: queued is job)  # type: ignore[misc]
            self._ask(job, choice, hand_in_s)

    def _left_s(self) -> float | None:
        """Seconds until profiles are handed in, less their way back; None: they are waited for, since no camera knows
        anything yet."""
        r = self._r
        s = r.controller.state
        if s.phase != "preparing" or not r.preparation.knows():
            return None
        return s.window_start_s + LAST_PART * s.settings.window_s - BACK_S - r.clock.monotonic()

    def _behind(self, offer: LendingOffer) -> LendingOffer:
        """An offer behind what it may not know of yet."""
        given = [a.ends_s for a in self._asked.values() if a.followed.box == offer.box]
        until_s = max(given, default=0.0) - self._r.clock.monotonic()
        return LendingOffer(
            offer.box, offer.share, offer.device, offer.units, offer.rate, offer.left_s,
            max(offer.busy_s, until_s), max(0, offer.room - len(given)),
        )  # fmt: skip

    def _ask(self, job: m.Profile, choice: LentProfiles, hand_in_s: float | None, no_time: bool = False) -> None:
        name = f"profiles-{job.data.window}-{job.data.camera}"
        place = sum(a.followed.box == choice.box for a in self._asked.values())
        now_s = self._r.clock.monotonic()
        self._asked[name] = _AskedTrials(job, Followed(choice.box, now_s), now_s + choice.ends_s - BACK_S, no_time)
        self._spawn(self._hand_over(name, job, choice, place, hand_in_s), f"lend {name}")

    async def _hand_over(
        self, name: str, job: m.Profile, choice: LentProfiles, place: int, hand_in_s: float | None
    ) -> None:
        try:
            work, given = await asyncio.to_thread(packed_profiling, name, job, choice, place, hand_in_s)
            await asyncio.to_thread(self._folder.asked.begin, work, given)
            if name not in self._asked:  # dropped meanwhile
                self._folder.asked.mark(name, "cancel")
        except (MagpieError, OSError) as error:
            self._failed(name, "failed", str(error))

    # -- what comes of them

    def _read(self, name: str) -> tuple[int, LentState | None]:
        return self._folder.asked.told_ns(name), self._folder.asked.state(name)

    async def _step(self, name: str, asked: _AskedTrials, told_ns: int, state: LentState | None) -> None:
        if asked.job.data.window != self._r.controller.state.window - 1:
            self._drop(name)
            return
        heard = asked.followed.heard(self._r.clock.monotonic(), told_ns, state)
        if heard == "silent":
            self._failed(name, "unreachable", "")
        elif heard == "ended" and state is not None:
            if state.phase == "failed":
                self._failed(name, state.fault or "failed", state.why)
            else:
                await self._take_in(name, asked, state)

    async def _take_in(self, name: str, asked: _AskedTrials, state: LentState) -> None:
        box = asked.followed.box
        try:
            content = await asyncio.to_thread(self._folder.asked.candidate(name).read_bytes)
            done = unpacked_profiles(content, asked.job, box)
        except (MagpieError, OSError) as error:
            self._failed(name, "damaged", str(error))
            return
        if self._asked.get(name) is not asked:  # dropped meanwhile
            return
        self._drop(name)
        self._counts.borrowed_profiles += 1
        self._counts.borrowed_device_s += state.cpu_s / self._r.shares.cores
        self._r.preparation.profiled(done)
        if self._r.controller.state.handed_in:
            self._r.preparation.hand_in()

    def _failed(self, name: str, fault: LentFault, why: str) -> None:
        """The trials are run here after all, where there is time."""
        asked = self._asked.get(name)
        if asked is None:
            return
        self._drop(name)
        number = asked.job.data.window
        self._tried = (number, self._not_again(number) | {asked.job.data.camera})
        self._counts.failures[fault] = self._counts.failures.get(fault, 0) + 1
        log.warning("%s lent to %s: %s", name, asked.followed.box, LENT_FAULTS[fault] + (f": {why}" if why else ""))
        if asked.no_time or (self._r.controller.state.handed_in and self._r.preparation.knows()):
            self._r.preparation.from_history(asked.job.data)
        else:
            self._r.profilers.ask(asked.job)

    def _drop(self, name: str) -> None:
        if self._asked.pop(name, None) is not None:
            self._folder.asked.mark(name, "cancel")

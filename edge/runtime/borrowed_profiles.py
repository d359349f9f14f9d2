"""Trials of this box's cameras that other boxes run: given to them where their profiles are there sooner, followed, and
taken in as if they had been measured here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from edge.core.errors import MagpieError
from edge.core.lending import BorrowedThere, Borrower, LendingOffer, LentFault, LentProfiles, LentState
from edge.runtime import messages as m
from edge.runtime.asked_works import AskedWork, AskedWorks, FailedIn, Packed
from edge.runtime.leaf_parts import LeafParts
from edge.runtime.lending_folder import LendingFolder
from edge.runtime.lent_followed import Followed
from edge.runtime.lent_profiles import packed_profiling, unpacked_profiles
from edge.runtime.preparation import Preparation
from microprofiler.trials import families
from scheduler.controller import LAST_PART
from scheduler.fleet.lending import BACK_S, LEAST_SHARE, profiles_out

log = logging.getLogger(__name__)

#: Trials that had less than this until they are wanted are not lent, in seconds.
_LEAST_LEFT_S: Final = 2.0


@dataclass
class _AskedTrials(AskedWork):
    """Trials that another box was asked for. `no_time`: here they are not run."""

    job: m.Profile
    no_time: bool = False


class BorrowedProfiles:
    """The runtime's hands for lent trials; `works` are those that other boxes were asked for."""

    def __init__(self, parts: LeafParts, preparation: Preparation, folder: LendingFolder, works: AskedWorks) -> None:
        self._parts, self._preparation, self._folder, self._works = parts, preparation, folder, works
        self._asked: dict[str, _AskedTrials] = {}
        #: The window, and its cameras whose trials did not come back: they are not lent again.
        self._failed_in = FailedIn()
        self._offers: Sequence[LendingOffer] = ()
        self._me: Borrower | None = None

    def there(self) -> tuple[BorrowedThere, ...]:
        """The trials that other boxes run for this one now."""
        return tuple(self._works.there(name, "profiles") for name in self._asked)

    def give(self, job: m.Profile) -> bool:
        """Have another box run trials for which this one has no time; False: no box has them done in time."""
        left_s, me = self._left_s(), self._me
        if me is None or job.data.camera in self._failed_in.window(job.data.window):
            return False
        for trials in (len(families(job.space)), 1):
            wanted = replace(job, budget_s=self._parts.learning.trials_s(trials))
            # Here they would never be done.
            chosen = profiles_out([job.data.camera], 0.0, wanted.budget_s, 0.0, self._offered(), me)
            if chosen and (left_s is None or chosen[0].ends_s - BACK_S <= left_s):
                self._ask(wanted, chosen[0], left_s, no_time=True)
                return True
        return False

    def take_back(self) -> list[m.Profile]:
        """Wait for the profiles of others no longer: their jobs."""
        jobs = [asked.job for asked in self._asked.values()]
        for name in list(self._asked):
            self._drop(name)
        return jobs

    # -- once a second

    async def look(self, offers: Sequence[LendingOffer], me: Borrower | None) -> None:
        """Take in what other boxes did, and give them what they would have done sooner."""
        for name in list(self._asked):
            asked = self._asked.get(name)
            if asked is None:  # dropped meanwhile
                continue
            if asked.job.data.window != self._parts.controller.state.window - 1:
                self._drop(name)
                continue
            state = await self._works.ended(name)
            if state is not None:
                await self._ended(name, asked, state)
        self._offers, self._me = offers, me
        if me is not None and offers:
            self._lend(me)

    def _offered(self) -> list[LendingOffer]:
        return [self._works.behind(o) for o in self._offers if o.share >= LEAST_SHARE]

    def _lend(self, me: Borrower) -> None:
        parts = self._parts
        number = parts.controller.state.window - 1
        waiting = [job for job in parts.profilers.waiting() if job.data.window == number]
        hand_in_s = self._left_s()
        if not waiting or (hand_in_s is not None and hand_in_s < _LEAST_LEFT_S):
            return
        sizes = {c: n for c, n in me.sizes.items() if c not in self._failed_in.window(number)}
        budget_s = max(job.budget_s for job in waiting)
        # Of trials that run half is taken to be done.
        begun_s = budget_s * parts.profilers.profiling() / 2
        chosen = profiles_out(
            [job.data.camera for job in waiting], begun_s, budget_s, parts.profilers.speed(self._preparation.thread),
            self._offered(), replace(me, sizes=sizes),
        )  # fmt: skip
        for choice in chosen:
            job = next(j for j in waiting if j.data.camera == choice.camera)
            parts.profilers.withdraw(lambda queued, job=job: queued is job)  # type: ignore[misc]
            self._ask(job, choice, hand_in_s)

    def _left_s(self) -> float | None:
        """Seconds until profiles are handed in, less their way back; None: they are waited for, since no camera knows
        anything yet."""
        parts = self._parts
        s = parts.controller.state
        if s.phase != "preparing" or not self._preparation.knows():
            return None
        return s.window_start_s + LAST_PART * s.settings.window_s - BACK_S - parts.clock.monotonic()

    def _ask(self, job: m.Profile, choice: LentProfiles, hand_in_s: float | None, no_time: bool = False) -> None:
        name = f"profiles-{job.data.window}-{job.data.camera}"
        now_s = self._parts.clock.monotonic()

        def pack(place: int) -> Packed:
            return packed_profiling(name, job, choice, place, hand_in_s)

        followed, ends_s = Followed(choice.box, now_s), now_s + choice.ends_s - BACK_S
        self._asked[name] = _AskedTrials(job.data.camera, followed, ends_s, job, no_time)
        self._works.ask(name, self._asked[name], pack, self._failed)

    # -- what comes of them

    async def _ended(self, name: str, asked: _AskedTrials, state: LentState) -> None:
        if state.phase == "failed":
            self._failed(name, state.fault or "failed", state.why)
            return
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
        self._works.counts.borrowed_profiles += 1
        self._works.counts.borrowed_device_s += state.cpu_s / self._parts.shares.cores
        self._preparation.profiled(done)
        if self._parts.controller.state.handed_in:
            self._preparation.hand_in()

    def _failed(self, name: str, fault: LentFault, why: str) -> None:
        """The trials are run here after all, where there is time."""
        asked = self._asked.get(name)
        if asked is None:
            return
        self._drop(name, fault, why)
        self._failed_in = self._failed_in.more(asked.job.data.window, asked.job.data.camera)
        if asked.no_time or (self._parts.controller.state.handed_in and self._preparation.knows()):
            self._preparation.from_history(asked.job.data)
        else:
            self._parts.profilers.ask(asked.job)

    def _drop(self, name: str, fault: LentFault | None = None, why: str = "") -> None:
        if self._asked.pop(name, None) is not None:
            self._works.drop(name, fault, why)

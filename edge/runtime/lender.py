"""Retrainings that this box does for others, at a share that its own plan does not miss.

One at a time. The offer is the share that the box's own planner has no use for; while its own labels and profiles are
made a lent retraining has next to nothing, and one for which no share is left is given up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from edge.core import events as ev
from edge.core.errors import MagpieError
from edge.core.lending import LendingCounts, LendingOffer, LentFault, LentHere, LentState, LentWork
from edge.core.plan_basis import PlanRequest
from edge.core.workers import LENT
from edge.runtime import messages as m
from edge.runtime.lending_folder import LendingFolder
from edge.runtime.lent_work import digest_of, unpacked
from edge.runtime.mains import training_worker
from scheduler.fleet.lending import LEAST_SHARE, share_to_lend
from scheduler.window_lending import worth
from scheduler.window_planning import PlanFunction

if TYPE_CHECKING:
    from edge.runtime.runtime import Runtime

log = logging.getLogger(__name__)

#: A share that differs by less stays as it is.
SAME_SHARE: Final = 0.03


@dataclass
class _Lent:
    """A retraining that runs here, at `share` now, of at most `work.share`."""

    name: str
    box: str
    work: LentWork
    share: float
    state: LentState
    device_s: float = 0.0


class Lender:
    """`most_share` is the most that is lent. `plan` is the box's own planner. `spawn(work, name)` runs beside the
    loop's main work."""

    def __init__(
        self,
        runtime: Runtime,
        folder: LendingFolder,
        most_share: float,
        plan: PlanFunction,
        spawn: Callable[..., None],
        counts: LendingCounts,
    ) -> None:
        self._r, self._folder, self._most = runtime, folder, most_share
        self._plan, self._spawn, self.counts = plan, spawn, counts
        self._lent: _Lent | None = None
        self._spare = 0.0
        self._asked_for: tuple[int, int] = (-1, -1)

    def here(self) -> tuple[LentHere, ...]:
        """The retraining that this box does for another now."""
        one = self._lent
        return () if one is None else (LentHere(one.box, one.work.camera, one.share, one.state.fraction),)

    @property
    def offered(self) -> float:
        """The share that this box offers now."""
        return self._spare if self._lent is None else 0.0

    async def look(self, me: str) -> None:
        """Once a second: begin, resize and end; `me` is this box's name."""
        folders = self._folder.lent
        found = await asyncio.to_thread(self._found)
        for name, wanted in found.items():
            if wanted == "cancel":
                self._drop(name)
                await asyncio.to_thread(folders.remove, name)
        await self._find_spare()
        for name, wanted in found.items():
            if wanted == "begin" and self._lent is None:
                await self._begin(name)
        self._fit()
        caps = self._r.shares.partitioner.caps
        device: Literal["cpu", "gpu"] = "cpu" if caps.device == "cpu" else "gpu"
        offer = LendingOffer(me, self.offered, device, self._r.shares.cores, left_s=self._left_s())
        await asyncio.to_thread(self._folder.write_offer, offer)

    def _left_s(self) -> float | None:
        """Until the box's own window is over."""
        s = self._r.controller.state
        return s.window_start_s + s.settings.window_s - self._r.clock.monotonic() if s.cameras else None

    def _found(self) -> dict[str, Literal["cancel", "begin", ""]]:
        """The retrainings of others on disk, and what is to be done with each. Blocks."""
        folders = self._folder.lent
        found: dict[str, Literal["cancel", "begin", ""]] = {}
        for name in folders.ids():
            state = folders.state(name)
            new = folders.marked(name, "ready") and (state is None or state.phase == "fetching")
            found[name] = "cancel" if folders.marked(name, "cancel") else "begin" if new else ""
        return found

    # -- how much

    async def _find_spare(self) -> None:
        """The share that the plan in force has no use for, once for each plan."""
        s = self._r.controller.state
        if s.phase != "running" or s.plan is None or s.budgets or not s.cameras:
            # Tenants share what is there among themselves. A box that is preparing does not know yet.
            free = min(self._most, max(0.0, s.num_gpus + self._r.shares.lent - 0.05))
            self._spare, self._asked_for = (0.0 if s.cameras else free), (-1, -1)
            return
        key = (s.window, s.plan_number)
        if key == self._asked_for or s.planning.asked is not None:
            return
        self._asked_for = key
        state, now_s, lent = s.copy(), self._r.clock.monotonic(), self._r.shares.lent

        def spare() -> float:
            problem = state.problem(now_s)
            whole = problem.num_gpus + lent

            def without(share: float) -> float:
                asked = replace(problem, num_gpus=max(0.05, whole - share))
                return worth(asked, self._plan(PlanRequest(state.settings.policy, asked)))

            return share_to_lend(without, min(self._most, whole - 0.05))

        try:
            self._spare = await asyncio.to_thread(spare)
        except Exception:
            # A policy that fails must not end what runs.
            log.exception("nothing is lent: the plan for lending failed")
            self._spare = 0.0

    def _fit(self) -> None:
        """The lent retraining has what is spare now, at most what was agreed."""
        one, r = self._lent, self._r
        if one is None:
            return
        preparing = r.controller.state.phase == "preparing"
        if not preparing and self._spare < LEAST_SHARE and r.controller.state.planning.asked is None:
            self._give_up("withdrawn", "")
            return
        share = r.shares.partitioner.caps.min_share if preparing else min(one.work.share, self._spare)
        if abs(share - one.share) > SAME_SHARE or (preparing and share < one.share):
            one.share = share
            self._hold(0.0 if preparing else share)
            r.supervisor.resize(LENT.name, self._granted(share))

    def _granted(self, share: float) -> float:
        return max(self._r.shares.quantized(share), self._r.shares.partitioner.caps.min_share)

    def _hold(self, share: float) -> None:
        """Cameras and their retrainings plan without this share from now on."""
        r = self._r
        if abs(share - r.shares.lent) > 1e-6:
            r.shares.lent = share
            r.dispatch(ev.CapacityChanged(r.clock.monotonic(), r.shares.camera_capacity()))

    # -- begin and end

    async def _begin(self, name: str) -> None:
        r, folders = self._r, self._folder.lent
        work = await asyncio.to_thread(folders.work, name)
        given = await asyncio.to_thread(folders.given, name)
        if work is None or given is None or r.supervisor.has(LENT.name):
            return
        share = min(work.share, self._spare)
        try:
            job = unpacked(work, name, folders, r.shares.cores)
        except MagpieError as error:
            folders.tell(name, LentState("failed", "failed", str(error)))
            return
        if share < LEAST_SHARE:
            folders.tell(name, LentState("failed", "refused"))
            return
        self._lent = _Lent(name, given.box, work, share, LentState("running"))
        self._hold(share)
        r.supervisor.start(
            LENT, self._granted(share), training_worker, job, self._received,
            on_given_up=lambda why: self._give_up("failed", why), max_restarts=1, killable=True, finishes=True,
        )  # fmt: skip
        folders.tell(name, self._lent.state)
        log.info("a retraining of %s for %s begins at a share of %.2f", work.camera, given.box, share)

    def _received(self, message: Any) -> None:
        one = self._lent
        if one is None or message.job != one.name:
            return
        if isinstance(message, m.TrainingProgress):
            self._count(one, message.device_seconds)
            cpu_s = message.device_seconds * self._r.shares.cores
            one.state = LentState("running", fraction=message.fraction, cpu_s=cpu_s)
            self._folder.lent.tell(one.name, one.state)
        elif isinstance(message, m.TrainingDone):
            self._count(one, message.device_seconds)
            self._spawn(self._done(one, message), f"lent {one.name}")
        elif isinstance(message, m.TrainingDropped):
            self._give_up("failed", "it ended without a result")

    def _count(self, one: _Lent, device_s: float) -> None:
        self.counts.lent_device_s += max(0.0, device_s - one.device_s)
        one.device_s = max(one.device_s, device_s)

    async def _done(self, one: _Lent, done: m.TrainingDone) -> None:
        try:
            digest, size = await asyncio.to_thread(digest_of, done.path)
        except OSError as error:
            self._give_up("failed", str(error))
            return
        state = LentState(
            "done", fraction=done.fraction, cpu_s=done.device_seconds * self._r.shares.cores, digest=digest, size=size,
            train_frames=done.train_frames,
        )  # fmt: skip
        self._folder.lent.tell(one.name, state)
        if self._lent is one:
            self.counts.lent += 1
            self._free()

    def _drop(self, name: str) -> None:
        """Nobody waits for it any more."""
        if self._lent is not None and self._lent.name == name:
            self._stop()

    def _give_up(self, fault: LentFault, why: str) -> None:
        if self._lent is not None:
            log.info("the retraining of %s for %s ends: %s %s", self._lent.work.camera, self._lent.box, fault, why)
            self._folder.lent.tell(self._lent.name, LentState("failed", fault, why))
            self._stop()

    def _stop(self) -> None:
        self._free()
        self._spawn(self._r.supervisor.stop(LENT.name, 1.0, m.FinishNow(keep=False)), "stop a lent retraining")

    def _free(self) -> None:
        self._lent = None
        self._hold(0.0)

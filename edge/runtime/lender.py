"""Retrainings, trials and labels that this box does for others, at a share that its own plan does not miss.

One at a time; others wait for it. The offer is the share that the box's own planner has no use for; while its own
labels and profiles are made lent work has what these cannot use, and work for which no share is left is given up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from edge.core import events as ev
from edge.core.errors import MagpieError
from edge.core.lending import (
    MOST_OPEN,
    LendingCounts,
    LendingOffer,
    LentFault,
    LentHere,
    LentKind,
    LentState,
    LentWork,
)
from edge.core.plan_basis import PlanRequest
from edge.core.workers import LENT
from edge.runtime import messages as m
from edge.runtime.leaf_parts import LeafParts
from edge.runtime.lending_folder import LendingFolder
from edge.runtime.lent_labeller_worker import lent_labeller
from edge.runtime.lent_labels import packed_labels, unpacked_labelling
from edge.runtime.lent_profiles import packed_profiles, unpacked_profiling
from edge.runtime.lent_work import digest_of, unpacked
from edge.runtime.mains import lent_profiler, training_worker
from scheduler.controller import waiting_shares
from scheduler.controller_state import ControllerState
from scheduler.fleet.lending import LEAST_SHARE, START_S, retrained_until, share_to_lend
from scheduler.fleet.lent_windows import LentWindows
from scheduler.window_lending import worth
from scheduler.window_planning import PlanFunction

log = logging.getLogger(__name__)

#: A share that differs by less stays as it is.
SAME_SHARE: Final = 0.03
#: Where nothing was left to lend for so long, in seconds, lent work is given up.
PATIENCE_S: Final = 15.0
#: The work of a retraining whose borrower does not say so, in device seconds.
USUAL_WORK_S: Final = 10.0
#: The order of works: those of which the results are wanted soonest go first.
_TURNS: Final[Mapping[LentKind, int]] = {"profiles": 0, "labels": 1, "retraining": 2}
_WORDS: Final[Mapping[LentKind, str]] = {"profiles": "trials", "labels": "labels", "retraining": "a retraining"}


@dataclass
class _Lent:
    """Work that runs here, at `share` now, of at most `work.share`. `device_s` of it are done."""

    name: str
    box: str
    work: LentWork
    share: float
    state: LentState
    device_s: float = 0.0


@dataclass(frozen=True)
class _Found:
    """The lent works on disk: those that the borrower dropped, those that may begin, in their order, and all that
    are not done, with the work of each."""

    cancelled: tuple[str, ...] = ()
    ready: tuple[str, ...] = ()
    open: dict[str, LentWork] = field(default_factory=dict)


class Lender:
    """`most_share` is the most that is lent. `plan` is the box's own planner, `dispatch` hands an event to the
    controller. `spawn(work, name)` runs beside the loop's main work."""

    def __init__(
        self,
        parts: LeafParts,
        folder: LendingFolder,
        most_share: float,
        plan: PlanFunction,
        dispatch: Callable[[ev.Event], None],
        spawn: Callable[..., None],
        counts: LendingCounts,
    ) -> None:
        self._parts, self._folder, self._most = parts, folder, most_share
        self._plan, self._dispatch, self._spawn, self.counts = plan, dispatch, spawn, counts
        self._lent: _Lent | None = None
        self._spare = 0.0
        #: The window and the plan that `_spare` is of; None: it is not known yet.
        self._asked_for: tuple[int, int] | None = None
        self._windows = LentWindows()
        self._none_since_s: float | None = None
        #: The share that there will be, and when, once the retrainings of the plan in force are over.
        self._later: tuple[float, float] = (0.0, 0.0)

    def here(self) -> tuple[LentHere, ...]:
        """The work that this box does for another now."""
        one = self._lent
        if one is None:
            return ()
        return (LentHere(one.box, one.work.camera, one.share, one.state.fraction, one.work.kind),)

    @property
    def offered(self) -> float:
        """The share that this box offers now."""
        return self._spare

    async def look(self, me: str) -> None:
        """Once a second: begin, resize and end; `me` is this box's name."""
        found = await asyncio.to_thread(self._found)
        for name in found.cancelled:
            self._drop(name)
            await asyncio.to_thread(self._folder.lent.remove, name)
        await self._find_spare()
        starved = self._starved()
        self._fit(starved)
        for name in found.ready:
            if starved:
                await asyncio.to_thread(self._folder.lent.write_state, name, LentState("failed", "refused"))
            elif self._lent is None and self._spare >= LEAST_SHARE:
                await self._begin(name)
        await asyncio.to_thread(self._folder.write_offer, self._offer(me, found.open))

    def _offer(self, me: str, works: dict[str, LentWork]) -> LendingOffer:
        caps, s = self._parts.shares.partitioner.caps, self._parts.controller.state
        device: Literal["cpu", "gpu"] = "cpu" if caps.device == "cpu" else "gpu"
        left_s = s.window_start_s + s.settings.window_s - self._parts.clock.monotonic() if s.cameras else None
        share, busy_s = self._spare, self._busy_s(works)
        later, at_s = self._later
        if self._asked_for is not None and later > 2 * share:
            share, busy_s = later, max(busy_s, at_s - self._parts.clock.monotonic(), 0.0)
        return LendingOffer(
            me, share, device, self._parts.shares.cores, left_s=left_s, busy_s=busy_s,
            room=max(0, MOST_OPEN - len(works)), again=self._windows.share, pause_s=self._windows.pause_s,
            window_s=s.settings.window_s, teacher=self._parts.golden.teacher.content,
        )  # fmt: skip

    def _busy_s(self, works: dict[str, LentWork]) -> float:
        """Seconds until the lent works are done, as far as their borrowers say how much they are."""
        seconds = 0.0
        for name, work in works.items():
            total_s, start_s = (work.cpu_s / self._parts.shares.cores or USUAL_WORK_S), START_S
            share = min(work.share, self._spare) or work.share
            one = self._lent
            if one is not None and one.name == name:
                start_s = 0.0 if one.device_s > 0.0 else START_S
                if one.state.fraction > 0.05:
                    total_s = one.device_s / one.state.fraction
                total_s = max(0.0, total_s - one.device_s)
            seconds += start_s + total_s / max(share, LEAST_SHARE)
        return seconds

    def _found(self) -> _Found:
        """The works of others on disk. Blocks."""
        folders = self._folder.lent
        cancelled, ready, works = [], [], {}
        for name in folders.ids():
            state, work = folders.state(name), folders.work(name)
            if work is None or folders.marked(name, "cancel"):
                cancelled.append(name)
            elif state is None or state.phase in ("fetching", "running"):
                works[name] = work
                if folders.marked(name, "ready") and (state is None or state.phase == "fetching"):
                    ready.append((_TURNS[work.kind], work.place, folders.begun_ns(name), name))
        return _Found(tuple(cancelled), tuple(name for *_, name in sorted(ready)), works)

    # -- how much

    @property
    def _knows(self) -> bool:
        """Whether the plan in force said what is spare; without cameras nothing is planned."""
        return self._asked_for is not None or not self._parts.controller.state.cameras

    async def _find_spare(self) -> None:
        """The share that the plan in force has no use for, once for each plan; or the preparation of one."""
        s = self._parts.controller.state
        if s.phase != "running" or s.plan is None or s.budgets or not s.cameras:
            # Tenants share what is there among themselves.
            free = min(self._most, max(0.0, s.num_gpus + self._parts.shares.lent - 0.05))
            if s.cameras:
                free = self._while_preparing(s) if s.phase == "preparing" and not s.budgets else 0.0
            self._spare, self._later = free, (0.0, 0.0)
            self._asked_for = (s.window, s.plan_number) if s.budgets else None
            return
        key = (s.window, s.plan_number)
        if key == self._asked_for or s.planning.asked is not None:
            return
        plan, state, now_s, lent = s.plan, s.copy(), self._parts.clock.monotonic(), self._parts.shares.lent

        def spare() -> tuple[float, float]:
            problem = state.problem(now_s)
            whole = problem.num_gpus + lent

            def without(share: float) -> float:
                asked = replace(problem, num_gpus=max(0.05, whole - share))
                return worth(asked, self._plan(PlanRequest(state.settings.policy, asked)))

            now = share_to_lend(without, min(self._most, whole - 0.05))
            # Then it needs no more than its cameras can use when nothing is retrained any more.
            problem = replace(problem, streams=tuple(replace(s, options=(), running=None) for s in problem.streams))
            return now, share_to_lend(without, min(self._most, whole - 0.05))

        try:
            self._spare, later = await asyncio.to_thread(spare)
            until_s = retrained_until(plan)
            self._later = (0.0, 0.0) if until_s is None else (later, state.window_start_s + until_s)
        except Exception:
            # A policy that fails must not end what runs.
            log.exception("nothing is lent: the plan for lending failed")
            self._spare, self._later = 0.0, (0.0, 0.0)
        self._asked_for = key
        self._windows = self._windows.planned(state.window, now_s - state.window_start_s, self._spare)

    def _while_preparing(self, s: ControllerState) -> float:
        """The share that the preparation of a window cannot use: the golden model and the profilers have a thread
        each."""
        parts = self._parts
        whole, cameras = s.num_gpus + parts.shares.lent, {c: v.inference for c, v in s.cameras.items()}
        inference = waiting_shares(whole, cameras)
        least = sum(inference.values()) + (len(parts.profilers.names) + 1) / parts.shares.cores

        def without(share: float) -> float:
            fits = whole - share >= least and waiting_shares(whole - share, cameras) == inference
            return 0.0 if fits or share == 0.0 else -1.0

        return share_to_lend(without, min(self._most, whole - 0.05))

    def _starved(self) -> bool:
        """Whether nothing was left to lend for `PATIENCE_S`, and nothing will be by the plan in force."""
        now_s = self._parts.clock.monotonic()
        share, at_s = self._later
        comes = share >= LEAST_SHARE and now_s < at_s
        if not self._knows or self._spare >= LEAST_SHARE or comes:
            self._none_since_s = None
        elif self._none_since_s is None:
            self._none_since_s = now_s
        return self._none_since_s is not None and now_s - self._none_since_s >= PATIENCE_S

    def _fit(self, starved: bool) -> None:
        """The lent work has what is spare now, as far as it can use that."""
        one, parts = self._lent, self._parts
        if one is None:
            return
        if starved:
            self._give_up("withdrawn", "")
            return
        if parts.controller.state.phase != "preparing" and not self._knows:
            return  # a plan is being made
        waits = self._spare < LEAST_SHARE
        share = parts.shares.partitioner.caps.min_share if waits else min(self._most_useful(one.work), self._spare)
        if abs(share - one.share) > SAME_SHARE or (waits and share < one.share):
            one.share = share
            self._hold(0.0 if waits else share)
            parts.supervisor.resize(LENT.name, self._granted(share))

    def _most_useful(self, work: LentWork) -> float:
        """The share that was agreed, or that of a thread where that is more: a work has no more than one."""
        return max(work.share, min(1.0, 1.0 / self._parts.shares.cores))

    def _granted(self, share: float) -> float:
        return max(self._parts.shares.quantized(share), self._parts.shares.partitioner.caps.min_share)

    def _hold(self, share: float) -> None:
        """Cameras and their retrainings plan without this share from now on."""
        parts = self._parts
        if abs(share - parts.shares.lent) > 1e-6:
            parts.shares.lent = share
            self._dispatch(ev.CapacityChanged(parts.clock.monotonic(), parts.shares.camera_capacity()))

    # -- begin and end

    async def _begin(self, name: str) -> None:
        parts, folders = self._parts, self._folder.lent
        work = await asyncio.to_thread(folders.work, name)
        given = await asyncio.to_thread(folders.given, name)
        if work is None or given is None or parts.supervisor.has(LENT.name):
            return
        share = min(self._most_useful(work), self._spare)
        try:
            main, job = await self._job(work, name)
        except MagpieError as error:
            folders.write_state(name, LentState("failed", "failed", str(error)))
            return
        self._lent = _Lent(name, given.box, work, share, LentState("running"))
        self._hold(share)
        parts.supervisor.start(
            LENT, self._granted(share), main, job, self._received,
            on_given_up=lambda why: self._give_up("failed", why), max_restarts=1, killable=True, finishes=True,
        )  # fmt: skip
        folders.write_state(name, self._lent.state)
        log.info("%s of %s for %s: begun at a share of %.2f", _WORDS[work.kind], work.camera, given.box, share)

    async def _job(self, work: LentWork, name: str) -> tuple[Callable[..., None], Any]:
        """The worker's main and its job. Raises InvalidValue for a work that cannot be done."""
        folders = self._folder.lent
        if work.kind == "retraining":
            return training_worker, unpacked(work, name, folders, self._parts.shares.cores)
        age_s = await asyncio.to_thread(folders.age_s, name)
        if work.kind == "labels":
            return lent_labeller, unpacked_labelling(work, name, folders, age_s, self._parts.golden.teacher)
        return lent_profiler, unpacked_profiling(work, name, folders, age_s)

    def _received(self, message: Any) -> None:
        one = self._lent
        if one is None or message.job != one.name:
            return
        cores = self._parts.shares.cores
        if isinstance(message, m.TrainingProgress):
            self._progressed(one, message.device_seconds * cores, message.fraction)
        elif isinstance(message, m.LentLabelProgress):
            self._progressed(one, message.cpu_s, message.fraction)
        elif isinstance(message, m.TrainingDone):
            cpu_s = message.device_seconds * cores
            self._ended(
                one, LentState("done", fraction=message.fraction, cpu_s=cpu_s, train_frames=message.train_frames)
            )
        elif isinstance(message, m.LentProfileDone):
            done = LentState("done", fraction=1.0, cpu_s=message.done.device_seconds * message.cores)
            self._ended(one, done, packed_profiles(message.done))
        elif isinstance(message, m.LentLabelDone):
            done = LentState("done", fraction=1.0, cpu_s=message.cpu_s)
            self._ended(one, done, packed_labels(message), labels=len(message.labels))
        elif isinstance(message, m.LentWorkFailed):
            self._give_up("failed", message.reason)
        elif isinstance(message, m.TrainingDropped):
            self._give_up("failed", "it ended without a result")

    def _progressed(self, one: _Lent, cpu_s: float, fraction: float) -> None:
        self._count(one, cpu_s)
        one.state = LentState("running", fraction=fraction, cpu_s=cpu_s)
        self._folder.lent.write_state(one.name, one.state)

    def _ended(self, one: _Lent, done: LentState, result: bytes | None = None, labels: int = 0) -> None:
        """A work ended well: `result` is its file (None: its worker wrote that), with so many labelled pictures."""
        self._count(one, done.cpu_s)
        self._spawn(self._done(one, done, result, labels), f"lent {one.name}")

    def _count(self, one: _Lent, cpu_s: float) -> None:
        device_s = cpu_s / self._parts.shares.cores
        self.counts.lent_device_s += max(0.0, device_s - one.device_s)
        one.device_s = max(one.device_s, device_s)

    async def _done(self, one: _Lent, state: LentState, content: bytes | None, labels: int) -> None:
        result = self._folder.lent.candidate(one.name)
        try:
            if content is not None:
                await asyncio.to_thread(result.write_bytes, content)
            digest, size = await asyncio.to_thread(digest_of, result)
        except OSError as error:
            self._give_up("failed", str(error))
            return
        self._folder.lent.write_state(one.name, replace(state, digest=digest, size=size))
        if self._lent is one:
            kind = one.work.kind
            self.counts.lent += kind == "retraining"
            self.counts.lent_profiles += kind == "profiles"
            self.counts.lent_labels += labels
            self._free()

    def _drop(self, name: str) -> None:
        """Stop a work that the borrower waits for no longer."""
        if self._lent is not None and self._lent.name == name:
            self._stop()

    def _give_up(self, fault: LentFault, why: str) -> None:
        if self._lent is not None:
            log.info("the work on %s for %s ends: %s %s", self._lent.work.camera, self._lent.box, fault, why)
            self._folder.lent.write_state(self._lent.name, LentState("failed", fault, why))
            self._stop()

    def _stop(self) -> None:
        self._free()
        self._spawn(self._parts.supervisor.stop(LENT.name, 1.0, m.FinishNow(keep=False)), "stop a lent retraining")

    def _free(self) -> None:
        self._lent = None
        self._hold(0.0)

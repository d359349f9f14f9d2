"""Retrainings of this box's cameras that other boxes do: handed to the fleet's agent, followed, and judged here; and
the offers of other boxes, which also run trials (edge/runtime/borrowed_profiles.py) and label
(edge/runtime/borrowed_labels.py)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from edge.core import events as ev
from edge.core.errors import MagpieError
from edge.core.journal_kinds import JournalNote
from edge.core.lending import (
    GATE_S,
    LENT_FAULTS,
    BorrowedThere,
    Borrower,
    LendingCounts,
    LendingOffer,
    LentFault,
    LentState,
)
from edge.runtime import messages as m
from edge.runtime.asked_works import AskedWorks
from edge.runtime.borrowed_labels import BorrowedLabels
from edge.runtime.borrowed_profiles import BorrowedProfiles
from edge.runtime.leaf_parts import LeafParts
from edge.runtime.lending_folder import LendingFolder
from edge.runtime.lent_followed import Followed
from edge.runtime.lent_work import bytes_of, packed
from edge.runtime.preparation import Preparation

log = logging.getLogger(__name__)


#: From the end on a lender until it is seen here, in seconds: half of the looks of both agents and of both appliances.
_UNSEEN_S: Final = 2.0


@dataclass
class _Borrowed:
    """A retraining that another box was asked for; its candidate is here since `judged_since_s` (None: it is not)."""

    order: ev.StartRetraining
    job: m.RetrainingJob
    followed: Followed
    judged_since_s: float | None = None


class Borrowing:
    """The runtime's hands for lent retrainings. `received(camera, message)` takes what a camera's retraining says,
    `given_up(camera, job, reason)` the end of one without a result. `dispatch` hands an event to the controller, `note`
    journals, `spawn(work, name)` runs beside the loop's main work. Nothing happens before `look` is called, again and
    again: a box that borrows nothing has no offers and plans alone."""

    def __init__(
        self,
        parts: LeafParts,
        preparation: Preparation,
        folder: LendingFolder,
        received: Callable[[str, Any], None],
        given_up: Callable[[str, str, str], None],
        dispatch: Callable[[ev.Event], None],
        note: JournalNote,
        spawn: Callable[..., None],
    ) -> None:
        self._parts, self._folder, self._received, self._given_up = parts, folder, received, given_up
        self._dispatch, self._spawn = dispatch, spawn
        self._asked: dict[str, _Borrowed] = {}
        self._sizes: dict[str, tuple[int, int]] = {}
        self._reported: tuple[object, object] = ((), {})
        self.counts = LendingCounts()
        works = AskedWorks(parts.clock, folder, spawn, self.counts)
        self.profiles = BorrowedProfiles(parts, preparation, folder, works)
        self.labels = BorrowedLabels(parts, preparation, folder, works, note)
        self._offers: tuple[LendingOffer, ...] = ()
        self._borrower: Borrower | None = None
        #: Of the last candidates, the seconds until each was judged.
        self._gates_s: list[float] = []
        # Works go to a lender in the order in which they were given to it.
        self._in_turn = asyncio.Lock()

    def there(self) -> tuple[BorrowedThere, ...]:
        """The retrainings, trials and labels that other boxes do for this one now."""
        retrainings = (
            BorrowedThere(a.order.lender, a.order.camera, a.followed.phase, a.followed.fraction)
            for a in self._asked.values()
        )
        return (*self.profiles.there(), *self.labels.there(), *retrainings)

    # -- the runtime's orders

    def ask(self, order: ev.StartRetraining, job: m.RetrainingJob, work_s: float) -> None:
        """Have another box do a retraining of about `work_s` seconds of this box's device."""
        place = sum(a.order.lender == order.lender for a in self._asked.values())
        self._asked[order.job] = _Borrowed(order, job, Followed(order.lender, self._parts.clock.monotonic()))
        self._spawn(self._hand_over(order, job, work_s, place), f"lend {order.job}")

    def has(self, job: str) -> bool:
        """Whether a retraining is done elsewhere."""
        return job in self._asked

    def judges(self, job: str) -> bool:
        """Whether the candidate of a retraining is here, and is judged."""
        asked = self._asked.get(job)
        return asked is not None and asked.judged_since_s is not None

    def drop(self, job: str) -> None:
        """A retraining is waited for no longer."""
        if self._asked.pop(job, None) is not None:
            self._folder.asked.mark(job, "cancel")

    # -- once a second

    async def look(self, me: str) -> None:
        """Take in what the agent says; `me` is this box's name."""
        await self._report_offers(me)
        for name in list(self._asked):
            written_ns, state = await asyncio.to_thread(self._read, name)
            asked = self._asked.get(name)
            if asked is not None and asked.judged_since_s is None:
                self._step(name, asked, written_ns, state)
        await self.profiles.look(self._offers, self._borrower)
        await self.labels.look(self._offers, self._borrower)

    def _read(self, name: str) -> tuple[int, LentState | None]:
        return self._folder.asked.written_ns(name), self._folder.asked.state(name)

    def _step(self, name: str, asked: _Borrowed, written_ns: int, state: LentState | None) -> None:
        heard = asked.followed.heard(self._parts.clock.monotonic(), written_ns, state)
        if heard == "silent":
            self._failed(name, asked, "unreachable", "")
        elif state is None or not heard:
            return
        elif heard == "changed":
            self._progressed(name, asked, state)
        elif state.phase == "failed":
            self._failed(name, asked, state.fault or "failed", state.why)
        else:
            asked.judged_since_s = self._parts.clock.monotonic()
            asked.followed.phase, asked.followed.fraction = "done", state.fraction
            self._spawn(self._judge(name, asked, state), f"judge {name}")

    def _progressed(self, name: str, asked: _Borrowed, state: LentState) -> None:
        if state.phase == "running":
            self._received(
                asked.order.camera,
                m.TrainingProgress(name, self._device_s(state), state.fraction, 0, 0.0, None),
            )

    def _device_s(self, state: LentState) -> float:
        return state.cpu_s / self._parts.shares.cores

    # -- handing over

    async def _hand_over(self, order: ev.StartRetraining, job: m.RetrainingJob, work_s: float, place: int) -> None:
        try:
            async with self._in_turn:
                work, given = await asyncio.to_thread(packed, job, order.lender, order.share, work_s, place)
                await asyncio.to_thread(self._folder.asked.begin, work, given)
            if order.job not in self._asked:  # dropped meanwhile
                self._folder.asked.mark(order.job, "cancel")
        except (MagpieError, OSError) as error:
            asked = self._asked.get(order.job)
            if asked is not None:
                self._failed(order.job, asked, "failed", str(error))

    def _failed(self, name: str, asked: _Borrowed, fault: LentFault, why: str) -> None:
        self.drop(name)
        self.counts.failures[fault] = self.counts.failures.get(fault, 0) + 1
        words = LENT_FAULTS[fault] + (f": {why}" if why else "")
        log.warning("%s lent to %s: %s", name, asked.order.lender, words)
        self._given_up(asked.order.camera, name, words)

    # -- the candidate

    async def _judge(self, name: str, asked: _Borrowed, state: LentState) -> None:
        """A profiler judges it: it has a share of the device at any time."""
        target = asked.job.output.with_suffix(".lent")
        try:
            await asyncio.to_thread(_moved, self._folder.asked.candidate(name), target)
        except OSError as error:
            self._failed(name, asked, "damaged", str(error))
            return
        if name not in self._asked:  # dropped meanwhile
            target.unlink(missing_ok=True)
            return
        self._folder.asked.mark(name, "cancel")
        self._parts.profilers.ask(
            m.JudgeCandidate(
                asked.job.data, asked.job, target, asked.order.lender, self._device_s(state), state.fraction,
                state.train_frames,
            )
        )  # fmt: skip

    def judged(self, done: m.TrainingDone) -> None:
        """A profiler has judged a candidate: it goes through the gate."""
        done.path.with_suffix(".lent").unlink(missing_ok=True)
        asked = self._asked.pop(done.job, None)
        if asked is not None:
            since_s = asked.judged_since_s or 0.0
            self._gates_s = [*self._gates_s[-2:], _UNSEEN_S + self._parts.clock.monotonic() - since_s]
            self.counts.borrowed += 1
            self.counts.borrowed_device_s += done.device_seconds
        self._received("" if asked is None else asked.order.camera, done)

    def not_judged(self, job: m.JudgeCandidate) -> None:
        """A candidate could not be judged: it is none."""
        job.candidate.unlink(missing_ok=True)
        asked = self._asked.get(job.job.job)
        if asked is not None:
            self._failed(job.job.job, asked, "damaged", "")

    # -- offers

    async def _report_offers(self, me: str) -> None:
        """Report changes to the controller."""
        parts = self._parts
        offers = tuple(o for o in await asyncio.to_thread(self._folder.offers) if o.box != me and o.share > 0.0)
        sizes = await self._measured_sizes() if offers else {}
        device = "cpu" if parts.shares.partitioner.caps.device == "cpu" else "gpu"
        gate_s = sum(self._gates_s) / len(self._gates_s) if self._gates_s else GATE_S
        borrower = Borrower("cpu" if device == "cpu" else "gpu", parts.shares.cores, sizes, gate_s)
        now_s = parts.clock.monotonic()
        self._offers, self._borrower = offers, borrower
        key = tuple((o.box, o.share, *_coarse(o, now_s)) for o in offers)
        if (key, sizes) != self._reported:
            self._reported = (key, sizes)
            self._dispatch(ev.LendersOffered(now_s, offers, borrower))

    async def _measured_sizes(self) -> dict[str, int]:
        for camera in list(self._parts.cameras.values()):
            window = max(camera.closed, default=0)
            if window and self._sizes.get(camera.id, (0, 0))[0] != window:
                self._sizes[camera.id] = (window, await asyncio.to_thread(bytes_of, camera.closed[window]))
        return {c: size for c, (_, size) in self._sizes.items() if c in self._parts.cameras}


def _coarse(offer: LendingOffer, now_s: float) -> tuple[float, ...]:
    """The rest of an offer, so coarse that it rarely changes."""
    ends_s = 0.0 if offer.left_s is None else now_s + offer.left_s
    free_s = now_s + offer.busy_s if offer.busy_s else 0.0
    return (
        int(offer.rate).bit_length(), round(ends_s / 10.0), round(free_s / 10.0), offer.room, round(offer.again, 1),
        round(offer.pause_s / 5.0),
    )  # fmt: skip


def _moved(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    path.replace(target)

"""Frames of this box that other boxes label: given to them where the golden model here cannot label all in time,
followed, and taken in as if they had been labelled here."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from edge.core.errors import MagpieError
from edge.core.facts import FrameLabelled
from edge.core.journal_kinds import JournalNote
from edge.core.labels import LabelledFrame, SampledFrame, TeacherAnswer
from edge.core.lending import (
    BorrowedThere,
    Borrower,
    LabelBacklog,
    LendingOffer,
    LentFault,
    LentLabels,
    LentState,
    WaitingFrame,
)
from edge.runtime.asked_works import AskedWork, AskedWorks, FailedIn, Packed
from edge.runtime.boundary import LABEL_WAIT
from edge.runtime.labelling import keep_label
from edge.runtime.leaf_parts import LeafParts
from edge.runtime.learning import FEWEST_SAMPLES
from edge.runtime.lending_folder import LendingFolder
from edge.runtime.lent_followed import Followed
from edge.runtime.lent_labels import packed_labelling, read_labels
from edge.runtime.preparation import Preparation
from scheduler.fleet.lending import BACK_S
from scheduler.fleet.lent_labels import behind, labels_out
from scheduler.learning.budget import USED

log = logging.getLogger(__name__)

#: Device seconds that opening the golden model is taken to need, until another box has said so.
OPEN_S: Final = 3.0
#: Labels that are not here so many seconds after they were needed are not waited for.
PATIENCE_S: Final = 5.0
#: Works of which the time that the golden model took to open is remembered.
_REMEMBERED: Final = 3


@dataclass
class _AskedLabels(AskedWork):
    """Frames that another box was asked to label, at `asked_s`; they have to be here at `until_s`. `digests` are the
    SHA-256s of their pictures by the frame's id, once they are known."""

    frames: tuple[SampledFrame, ...]
    classes: int
    asked_s: float
    until_s: float
    digests: dict[str, str] = field(default_factory=dict)


class BorrowedLabels:
    """The runtime's hands for lent labels; `works` are those that other boxes were asked for. `note` journals."""

    def __init__(
        self, parts: LeafParts, preparation: Preparation, folder: LendingFolder, works: AskedWorks, note: JournalNote
    ) -> None:
        self._parts, self._preparation = parts, preparation
        self._folder, self._works, self._note = folder, works, note
        self._asked: dict[str, _AskedLabels] = {}
        self._numbered = 0
        self._opened_s: list[float] = []
        #: The window, and the boxes whose labels did not come: they are not asked again in it.
        self._failed_in = FailedIn()
        #: Frames that came back without a label: they are labelled here.
        self._at_home: set[str] = set()

    def there(self) -> tuple[BorrowedThere, ...]:
        """The labels that other boxes make for this one now."""
        return tuple(self._works.there(name, "labels") for name in self._asked)

    # -- once a second

    async def look(self, offers: Sequence[LendingOffer], me: Borrower | None) -> None:
        """Take in what other boxes labelled, and give them what would be late here."""
        for name in list(self._asked):
            asked = self._asked.get(name)
            if asked is None:  # it could not be handed over
                continue
            if not any(self._parts.golden.labels.lent(f) for f in asked.frames):
                self._drop(name)  # its camera is gone, or its pictures
                continue
            state = await self._works.ended(name)
            if state is not None:
                await self._ended(name, asked, state)
            elif self._parts.clock.monotonic() > asked.until_s + PATIENCE_S:
                self._failed(name, "late", "")
        teacher = self._parts.golden.teacher.content
        not_asked = self._failed_in.window(self._parts.controller.state.window)
        asked_for = [o for o in offers if o.teacher == teacher and o.box not in not_asked]
        if me is not None and teacher and asked_for:
            backlog = await self._backlog()
            if backlog is not None:
                for choice in labels_out(backlog, [self._works.behind(o) for o in asked_for], me):
                    self.ask(choice, backlog.left_s)

    async def _backlog(self) -> LabelBacklog | None:
        """The frames that are still to be labelled until the window's labels are wanted; None: the cost of a label is
        not known, or nothing would be late."""
        parts = self._parts
        s, cost = parts.controller.state, parts.learning.facts.label_s
        waiting, late = parts.golden.labels.unsent()
        if cost is None or cost.samples < FEWEST_SAMPLES or cost.value <= 0.0 or not (waiting or late):
            return None
        window_s, left_s = parts.window.settings.window_s, max(0.0, parts.window.end_utc_s - parts.clock.utc())
        coming = self._preparation.labels_of_all() * left_s / window_s
        # Those of the window before are wanted at once: no other box is as fast.
        own = [(f, False) for f in waiting if f.window == s.window] + [(f, True) for f in late]
        own = [(f, is_late) for f, is_late in own if f.id not in self._at_home]
        others = coming + parts.golden.labels.waiting() + len(late) - len(own)
        share = USED * min(parts.shares.golden, self._preparation.thread)

        def backlog(sizes: Sequence[int]) -> LabelBacklog:
            frames = tuple(
                WaitingFrame(f.id, f.camera, size, is_late) for (f, is_late), size in zip(own, sizes, strict=True)
            )
            return LabelBacklog(
                frames, others, cost.value, share, left_s + LABEL_WAIT * window_s, self._open_s(),
                parts.golden.teacher.content,
            )  # fmt: skip

        if not any(behind(backlog([0] * len(own)))):
            return None
        return backlog(await asyncio.to_thread(_sizes, [f for f, _ in own]))

    def _open_s(self) -> float:
        """Device seconds of this box that opening the golden model takes."""
        return sum(self._opened_s) / len(self._opened_s) if self._opened_s else OPEN_S

    # -- handing over

    def ask(self, choice: LentLabels, left_s: float) -> None:
        """Have another box label frames that the golden model does not have yet, in `left_s` seconds."""
        parts = self._parts
        classes = parts.golden.labels.classes(choice.camera)
        frames = () if classes is None else parts.golden.labels.lend(set(choice.frames))
        if classes is None or not frames:
            return
        self._numbered += 1
        # No other one had this name, nor one of before this appliance began anew.
        name = f"labels-{int(parts.clock.utc() * 1000)}-{self._numbered}-{choice.camera}"
        now_s, cost = parts.clock.monotonic(), parts.learning.facts.label_s
        work_s = 0.0 if cost is None else self._open_s() + len(frames) * cost.value
        asked = _AskedLabels(
            choice.camera, Followed(choice.box, now_s), now_s + choice.ends_s - BACK_S, frames, len(classes[0]), now_s,
            now_s + left_s,
        )  # fmt: skip

        def pack(place: int) -> Packed:
            work, given, asked.digests = packed_labelling(
                name, frames, choice, classes, parts.golden.teacher.content, max(0.0, left_s - BACK_S),
                work_s * parts.shares.cores, place,
            )  # fmt: skip
            return work, given

        self._asked[name] = asked
        self._works.ask(name, asked, pack, self._failed)

    # -- what comes of them

    async def _ended(self, name: str, asked: _AskedLabels, state: LentState) -> None:
        if state.phase == "failed":
            self._failed(name, state.fault or "failed", state.why)
            return
        path = self._folder.asked.candidate(name)
        try:
            found, opened_s = await asyncio.to_thread(
                read_labels, path, frozenset(asked.digests.values()), asked.classes
            )
        except (MagpieError, OSError) as error:
            self._failed(name, "damaged", str(error))
            return
        if not found:
            self._failed(name, "late", "no picture was labelled in time")
            return
        if self._asked.get(name) is not asked:  # dropped meanwhile
            return
        try:
            await self._take_in(asked, found)
        finally:
            self._back(asked.frames)
            self._drop(name)
        cores = self._parts.shares.cores
        # Opening took no longer than all of it: what another box says would keep labels at home for ever.
        opened_s = min(opened_s, state.cpu_s, self._parts.clock.monotonic() - asked.asked_s)
        self._opened_s = [*self._opened_s, opened_s / cores][-_REMEMBERED:]
        self._works.counts.borrowed_device_s += state.cpu_s / cores

    async def _take_in(self, asked: _AskedLabels, found: dict[str, TeacherAnswer]) -> None:
        parts = self._parts
        queue, box = parts.golden.labels, asked.followed.box
        labelled = [
            found[digest].of(frame, parts.golden.teacher.name)
            for frame in asked.frames
            if (digest := asked.digests.get(frame.id, "")) in found and queue.lent(frame)
        ]
        await asyncio.to_thread(_keep, labelled)
        labelled = [one for one in labelled if queue.lent(one.frame)]
        for one in labelled:
            queue.lent_labelled(one)
            parts.fact(FrameLabelled(one))
        self._works.counts.borrowed_labels += len(labelled)
        of_window = sum(one.frame.window == parts.controller.state.window for one in labelled)
        parts.learning.elsewhere = parts.learning.elsewhere.more(of_window)
        facts = {
            "labelled_on": box, "frames": len(asked.frames), "labelled": len(labelled),
            "seconds": round(parts.clock.monotonic() - asked.asked_s, 3),
        }  # fmt: skip
        self._note("labels.borrowed", camera=asked.camera, window=parts.controller.state.window, data=facts)

    def _failed(self, name: str, fault: LentFault, why: str) -> None:
        """The frames are labelled here after all."""
        asked = self._asked.get(name)
        if asked is None:
            return
        self._back(asked.frames)
        self._drop(name, fault, why)
        self._failed_in = self._failed_in.more(self._parts.controller.state.window, asked.followed.box)

    def _back(self, frames: Sequence[SampledFrame]) -> None:
        """Those that are out still come back."""
        queue = self._parts.golden.labels
        out = [f for f in frames if queue.lent(f)]
        waiting = {f.id for part in queue.unsent() for f in part}
        self._at_home = (self._at_home & waiting) | {f.id for f in out}
        queue.take_back(out)

    def _drop(self, name: str, fault: LentFault | None = None, why: str = "") -> None:
        if self._asked.pop(name, None) is not None:
            self._works.drop(name, fault, why)


def _keep(labelled: Sequence[LabelledFrame]) -> None:
    """Beside the pictures. Blocks."""
    for one in labelled:
        keep_label(one)


def _sizes(frames: Sequence[SampledFrame]) -> list[int]:
    """The bytes of each frame's picture; 0 of one that is gone. Blocks."""

    def size(frame: SampledFrame) -> int:
        try:
            return frame.path.stat().st_size
        except OSError:
            return 0

    return [size(frame) for frame in frames]

"""Frames that other boxes label, beside the files that the agent writes; no worker runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from leaf_kit import leaf_parts
from test_label_queue import Golden, answer, frame

from edge.core.clock import ManualClock
from edge.core.facts import FrameLabelled
from edge.core.labels import LabelledFrame, SampledFrame, TeacherAnswer
from edge.core.learning import Cost
from edge.core.lending import Borrower, LendingCounts, LendingOffer, LentLabels, LentState
from edge.core.vision import Detections
from edge.runtime import messages as m
from edge.runtime.asked_works import AskedWorks
from edge.runtime.borrowed_labels import PATIENCE_S, BorrowedLabels
from edge.runtime.golden_worker import GoldenWorkerSpec
from edge.runtime.labelling import LabelQueue, label_path
from edge.runtime.lending_folder import LendingFolder
from edge.runtime.lent_followed import SILENT_S
from edge.runtime.lent_labels import packed_labels
from edge.settings import RetrainingSettings

TEACHER = GoldenWorkerSpec(Path("teacher.yaml"), "demo", content="a" * 64)
ME = Borrower("cpu", 1.0, {})
IDLE = LendingOffer("idle", 0.8, "cpu", 1.0, room=4, teacher=TEACHER.content)
FOUND = TeacherAnswer(Detections.build([[0.1, 0.1, 0.5, 0.5]], [0.9], [0]), Detections.empty())


class Box:
    """A box in window 2 of 100 s, at its second 20, that labels a frame in 10 s and waits for `count` of camera a."""

    def __init__(self, folder: Path, count: int = 24, label_s: float = 1.0) -> None:
        self.clock, self.folder, self.golden, self.counts = (
            ManualClock(),
            LendingFolder(folder),
            Golden(),
            LendingCounts(),
        )
        self.queue = LabelQueue(self.golden.send)
        self.queue.set_classes("a", ("car",), {})
        self.frames = [frame(folder, n, window=2) for n in range(count)]
        folder.mkdir(exist_ok=True)
        for f in self.frames:
            f.path.write_bytes(f"picture {f.number}".encode())
            self.queue.add(f)
        self.facts: list[Any] = []
        self.notes: list[tuple[str, dict[str, Any]]] = []
        self.parts = leaf_parts(
            folder, RetrainingSettings(window_s=100.0), clock=self.clock, fact=self.facts.append,
            golden=SimpleNamespace(labels=self.queue, teacher=TEACHER),
            shares=SimpleNamespace(golden=0.1, cores=2.0),
        )  # fmt: skip
        self.state = self.parts.controller.state
        self.state.window, self.parts.window.end_utc_s = 2, self.clock.utc() + 80.0
        self.label_takes(Cost(label_s, 0.1, 5))
        preparation: Any = SimpleNamespace(thread=0.5, labels_of_all=lambda: 10)
        self._tasks: list[Any] = []
        works = AskedWorks(self.clock, self.folder, lambda work, name: self._tasks.append(work), self.counts)
        self.borrowed = BorrowedLabels(
            self.parts, preparation, self.folder, works,
            lambda kind, **more: self.notes.append((kind, more)),  # type: ignore[arg-type]
        )  # fmt: skip

    def label_takes(self, label_s: Cost) -> None:
        self.parts.learning.facts = replace(self.parts.learning.facts, label_s=label_s)

    async def look(self, *offers: LendingOffer, me: Borrower | None = ME) -> None:
        await self.borrowed.look(offers, me)
        while self._tasks:
            await self._tasks.pop(0)

    def report(self, state: LentState, labels: dict[str, TeacherAnswer] | None = None) -> None:
        """The agent's news of the only work that is asked for."""
        (name,) = (n for n in self.folder.asked.ids() if not self.folder.asked.marked(n, "cancel"))
        if labels is not None:
            done = m.LentLabelDone(name, labels, 8.0, 4.0)
            self.folder.asked.candidate(name).write_bytes(packed_labels(done))
        self.folder.asked.write_state(name, state)

    def pictures(self) -> tuple[str, ...]:
        (name,) = (n for n in self.folder.asked.ids() if not self.folder.asked.marked(n, "cancel"))
        work = self.folder.asked.work(name)
        assert work is not None
        assert work.labelling is not None
        return work.labelling.pictures

    def unsent(self) -> list[SampledFrame]:
        return list(self.queue.unsent()[0])


async def test_what_would_be_late_here_is_labelled_elsewhere_and_counts_as_labelled_here(tmp_path: Path) -> None:
    box = Box(tmp_path)
    await box.look(IDLE)
    # In 88 s 7 are labelled here; with 8 still to come, and 2 with the worker, all others would be late.
    (there,) = box.borrowed.there()
    assert (there.box, there.camera, there.kind, there.phase) == ("idle", "a", "labels", "asked")
    pictures = box.pictures()
    assert (len(pictures), box.unsent()) == (22, [])
    (name,) = box.folder.asked.ids()
    work = box.folder.asked.work(name)
    assert work is not None
    assert (work.share, work.cpu_s) == (0.8, (3.0 + 22 * 1.0) * 2.0)
    await box.look(IDLE)
    assert len(box.borrowed.there()) == 1, "nothing is left to lend"
    box.report(LentState("done", fraction=1.0, cpu_s=8.0), dict.fromkeys(pictures[:21], FOUND))
    await box.look(IDLE)
    assert box.borrowed.there() == ()
    assert (box.counts.borrowed_labels, box.counts.borrowed_device_s) == (21, 4.0)
    assert box.parts.learning.elsewhere.made == 21
    assert all(isinstance(fact, FrameLabelled) for fact in box.facts)
    assert len(box.facts) == 21
    kept: LabelledFrame = box.facts[0].labelled
    assert (kept.teacher, kept.frame.window) == ("demo", 2)
    assert label_path(kept.frame.path).exists(), "kept for a restart"
    ((kind, note),) = box.notes
    assert (kind, note["camera"], note["data"]) == (
        "labels.borrowed", "a", {"labelled_on": "idle", "frames": 22, "labelled": 21, "seconds": 0.0},
    )  # fmt: skip
    assert len(box.unsent()) == 1, "one is labelled here after all"
    for f in [*box.frames[:2], *box.unsent()]:
        box.queue.received(answer(f))
    assert len(await box.queue.complete("a", 2, 1.0)) == 24
    assert box.queue.counters.labelled == 24


async def test_without_an_offer_a_known_cost_or_a_delay_all_stays_here(tmp_path: Path) -> None:
    box = Box(tmp_path)
    await box.look()
    await box.look(replace(IDLE, teacher="b" * 64))
    await box.look(IDLE, me=None)
    box.label_takes(Cost(1.0, 0.1, 1))
    await box.look(IDLE)
    box.label_takes(Cost(0.1, 0.1, 5))
    await box.look(IDLE)
    assert (box.borrowed.there(), len(box.unsent())) == ((), 22)


@pytest.mark.parametrize("fault", ["refused", "withdrawn", "failed"])
async def test_what_a_lender_gives_up_is_labelled_here(tmp_path: Path, fault: Any) -> None:
    box = Box(tmp_path)
    await box.look(IDLE)
    box.report(LentState("failed", fault))
    await box.look(IDLE)
    assert (box.counts.failures, len(box.unsent()), box.borrowed.there()) == ({fault: 1}, 22, ())
    await box.look(IDLE, replace(IDLE, box="second"))
    assert box.borrowed.there() == (), "what came back stays here"


async def test_a_lender_that_labels_nothing_is_late(tmp_path: Path) -> None:
    box = Box(tmp_path)
    await box.look(IDLE)
    box.report(LentState("done", fraction=1.0), {})
    await box.look(IDLE)
    assert (box.counts.failures, len(box.unsent()), box.notes) == ({"late": 1}, 22, [])


async def test_a_lie_is_refused_and_its_teller_not_asked_again_in_the_window(tmp_path: Path) -> None:
    box = Box(tmp_path)
    await box.look(IDLE)
    lie = {box.pictures()[0]: FOUND, "f" * 64: FOUND}
    box.report(LentState("done", fraction=1.0), lie)
    await box.look(IDLE)
    assert (box.counts.failures, box.counts.borrowed_labels, box.facts) == ({"damaged": 1}, 0, [])
    more = [frame(tmp_path, n, window=2) for n in range(30, 40)]
    for f in more:
        f.path.write_bytes(f"picture {f.number}".encode())
        box.queue.add(f)
    await box.look(IDLE)
    assert box.borrowed.there() == ()
    await box.look(IDLE, replace(IDLE, box="second"))
    assert [t.box for t in box.borrowed.there()] == ["second"]
    assert len(box.pictures()) == 10


async def test_a_lender_that_is_silent_or_late_is_not_waited_for(tmp_path: Path) -> None:
    box = Box(tmp_path / "a")
    await box.look(IDLE)
    box.clock.advance(SILENT_S + 1.0)
    await box.look()
    late = Box(tmp_path / "b")
    await late.look(IDLE)
    # Until the window's end and for the labels' own time after it, and a little more.
    for second in range(80 + 8 + int(PATIENCE_S) + 1):
        late.clock.advance(1.0)
        late.report(LentState("running", fraction=second / 100))
        await late.look()
        if late.counts.failures:
            break
    assert (box.counts.failures, late.counts.failures) == ({"unreachable": 1}, {"late": 1})
    assert late.clock.monotonic() == 88.0 + PATIENCE_S + 1.0
    assert len(box.unsent()) == len(late.unsent()) == 22


async def test_the_pictures_of_a_camera_that_left_are_called_back(tmp_path: Path) -> None:
    """As where masks hide more from now on: the camera is taken in anew, with other pictures under the same numbers."""
    box = Box(tmp_path)
    await box.look(IDLE)
    (name,) = box.folder.asked.ids()
    box.queue.forget_camera("a")
    box.queue.set_classes("a", ("car",), {})
    for f in box.frames:
        box.queue.add(replace(f, utc_s=f.utc_s + 1.0))
    await box.look()
    assert box.folder.asked.marked(name, "cancel")
    assert (box.borrowed.there(), box.counts.failures) == ((), {})


async def test_late_frames_are_lent_and_teach_in_the_next_window(tmp_path: Path) -> None:
    box = Box(tmp_path)
    await box.queue.complete("a", 2, 0.01)
    box.state.window = 3
    assert len(box.queue.unsent()[1]) == 22
    await box.look(IDLE)
    pictures = box.pictures()
    box.report(LentState("done", fraction=1.0), dict.fromkeys(pictures, FOUND))
    await box.look()
    assert len(box.queue.take_late("a")) == len(pictures)


async def test_frames_of_the_window_before_are_not_lent(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.state.window = 3
    await box.look(IDLE)
    assert box.borrowed.there() == (), "their labels are wanted within seconds"


async def test_frames_that_cannot_be_packed_stay_here(tmp_path: Path) -> None:
    box = Box(tmp_path)
    for f in box.frames[2:]:
        f.path.unlink()
    box.borrowed.ask(LentLabels("a", "idle", 0.5, tuple(f.id for f in box.frames[2:]), 9.0), 60.0)
    await box.look()
    assert (box.counts.failures, len(box.unsent())) == ({"failed": 1}, 22)

"""Trials that other boxes run, beside the files that the agent writes; no worker runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from leaf_kit import leaf_parts
from lent_kit import SPACE, done_of, profile_of
from test_worker_mains import student, window

from edge.core.clock import ManualClock
from edge.core.configs import RetrainingConfig
from edge.core.labels import LabelledWindow
from edge.core.lending import Borrower, LendingCounts, LendingOffer, LentState
from edge.core.shares import ideal_caps
from edge.runtime import messages as m
from edge.runtime.asked_works import AskedWorks
from edge.runtime.borrowed_profiles import BorrowedProfiles
from edge.runtime.lending_folder import LendingFolder
from edge.runtime.lent_followed import SILENT_S
from edge.runtime.lent_profiles import packed_profiles
from edge.settings import RetrainingSettings

__all__ = ["student", "window"]
CAMERAS = ("a", "b", "c", "d")
ME = Borrower("cpu", 1.0, dict.fromkeys(CAMERAS, 1_000_000))
IDLE = LendingOffer("idle", 0.5, "cpu", 1.0, room=4)


class Queue:
    """Profiles that wait while another one is made, at a tenth of the device."""

    def __init__(self, jobs: list[m.Profile]) -> None:
        self.jobs = jobs

    def waiting(self) -> list[m.Profile]:
        return list(self.jobs)

    def profiling(self) -> int:
        return 1

    def speed(self, thread: float) -> float:
        return 0.1

    def withdraw(self, wanted: Callable[[m.Profile], bool]) -> list[m.Profile]:
        taken = [j for j in self.jobs if wanted(j)]
        self.jobs = [j for j in self.jobs if not wanted(j)]
        return taken

    def ask(self, job: m.Profile) -> None:
        self.jobs.append(job)


class Box:
    """A crowded box in window 2 of 100 s, 5 s after its boundary; `knows`: past windows taught something."""

    def __init__(self, folder: Path, data: LabelledWindow, student: m.StudentFile, knows: bool = True) -> None:
        self.clock, self.folder, self.counts = ManualClock(), LendingFolder(folder), LendingCounts()
        jobs = [profile_of(replace(data, camera=c), student) for c in CAMERAS]
        self.queue = Queue([replace(job, budget_s=1.0) for job in jobs])
        self.profiled: list[m.ProfileDone] = []
        self.from_history: list[LabelledWindow] = []
        self.clock.advance(105.0)
        preparation: Any = SimpleNamespace(
            thread=1.0, knows=lambda: knows, profiled=self.profiled.append, from_history=self.from_history.append,
            hand_in=lambda: None,
        )  # fmt: skip
        parts = leaf_parts(
            folder, RetrainingSettings(window_s=100.0), replace(ideal_caps(), units=4.0), clock=self.clock,
            profilers=self.queue, learning=SimpleNamespace(trials_s=lambda trials: 0.5 + 0.5 * trials),
        )  # fmt: skip
        self.state = parts.controller.state
        self.state.window, self.state.window_start_s, self.state.phase = 2, 100.0, "preparing"
        self._tasks: list[Any] = []
        works = AskedWorks(self.clock, self.folder, lambda work, name: self._tasks.append(work), self.counts)
        self.borrowed = BorrowedProfiles(parts, preparation, self.folder, works)

    async def look(self, *offers: LendingOffer) -> None:
        await self.borrowed.look(offers, ME)
        while self._tasks:
            await self._tasks.pop(0)

    def waiting(self) -> list[str]:
        return [job.data.camera for job in self.queue.jobs]


async def test_what_would_wait_long_here_is_tried_elsewhere_and_counts_as_measured_here(
    tmp_path: Path, window: LabelledWindow, student: m.StudentFile
) -> None:
    box = Box(tmp_path, window, student)
    await box.look(IDLE)
    # Here the last would be done in 45 s, there in 8 s, and each one before it 5 s later.
    assert box.waiting() == ["a"]
    assert box.folder.asked.ids() == ["profiles-1-b", "profiles-1-c", "profiles-1-d"]
    works = [box.folder.asked.work(name) for name in box.folder.asked.ids()]
    assert [(w.camera, w.place) for w in works if w is not None] == [("b", 2), ("c", 1), ("d", 0)]
    work = works[2]
    assert work is not None
    assert work.profiling is not None
    assert (work.profiling.hand_in_s, work.profiling.budget_s, work.cpu_s) == (7.0, 1.0, 4.0)
    assert next((b.box, b.camera, b.kind) for b in box.borrowed.there()) == ("idle", "d", "profiles")
    done = done_of(profile_of(replace(window, camera="d"), student), 2.0)
    box.folder.asked.candidate("profiles-1-d").write_bytes(packed_profiles(done))
    box.folder.asked.write_state("profiles-1-d", LentState("done", fraction=1.0, cpu_s=8.0))
    await box.look(IDLE)
    assert box.profiled == [replace(done, box="idle")]
    assert (box.counts.borrowed_profiles, box.counts.borrowed_device_s) == (1, 2.0)
    assert box.folder.asked.marked("profiles-1-d", "cancel"), "its agent may clear up"


async def test_without_offers_or_time_all_stays_here(
    tmp_path: Path, window: LabelledWindow, student: m.StudentFile
) -> None:
    box = Box(tmp_path, window, student)
    await box.look()
    await box.look(replace(IDLE, room=0))
    box.clock.advance(6.0)
    await box.look(IDLE)
    assert box.waiting() == list(CAMERAS), "profiles are wanted in a second"
    unknown = Box(tmp_path, window, student, knows=False)
    unknown.clock.advance(6.0)
    await unknown.look(IDLE)
    assert len(unknown.waiting()) < 4, "they are waited for, since no camera knows anything"


async def test_what_does_not_come_back_is_tried_here_and_not_lent_again(
    tmp_path: Path, window: LabelledWindow, student: m.StudentFile
) -> None:
    box = Box(tmp_path, window, student, knows=False)
    await box.look(IDLE)
    box.folder.asked.write_state("profiles-1-d", LentState("failed", "refused"))
    box.folder.asked.candidate("profiles-1-c").write_bytes(b"{}")
    box.folder.asked.write_state("profiles-1-c", LentState("done"))
    await box.look(IDLE)
    assert box.waiting() == ["a", "d", "c"]
    box.clock.advance(SILENT_S + 1.0)
    await box.look()
    assert box.waiting() == ["a", "d", "c", "b"]
    assert box.counts.failures == {"refused": 1, "damaged": 1, "unreachable": 1}
    box.state.window = 3
    box.queue.jobs = [replace(box.queue.jobs[0], data=replace(window, camera="d", window=2))]
    await box.look(IDLE)
    assert box.waiting() == [], "in the next window it may be lent again"


async def test_trials_for_which_there_is_no_time_here_run_elsewhere_or_not_at_all(
    tmp_path: Path, window: LabelledWindow, student: m.StudentFile
) -> None:
    box = Box(tmp_path, window, student)
    job = replace(box.queue.jobs.pop(), space=(SPACE[0], RetrainingConfig(2, 8, "last_stage")))
    box.queue.jobs = []
    assert not box.borrowed.give(job), "no box offers anything"
    await box.look(replace(IDLE, busy_s=4.0))
    assert not box.borrowed.give(job), "they would not be done in time"
    await box.look(replace(IDLE, share=0.2))
    assert not box.borrowed.give(job), "nor there"
    await box.look(replace(IDLE, share=0.3))
    assert box.borrowed.give(job)
    await box.look()
    work = box.folder.asked.work("profiles-1-d")
    assert work is not None
    assert work.profiling is not None
    assert work.profiling.budget_s == 1.0, "one trial: two would end too late"
    assert box.folder.asked.ids() == ["profiles-1-d"]
    box.folder.asked.write_state("profiles-1-d", LentState("failed", "refused"))
    await box.look(IDLE)
    assert (box.waiting(), [data.camera for data in box.from_history]) == ([], ["d"])
    assert not box.borrowed.give(job), "not again in this window"


async def test_profiles_that_are_wanted_now_are_not_waited_for(
    tmp_path: Path, window: LabelledWindow, student: m.StudentFile
) -> None:
    box = Box(tmp_path, window, student)
    await box.look(IDLE)
    assert {job.data.camera for job in box.borrowed.take_back()} == {"b", "c", "d"}
    assert box.borrowed.there() == ()
    assert all(box.folder.asked.marked(name, "cancel") for name in box.folder.asked.ids())
    late = Box(tmp_path / "late", window, student)
    await late.look(IDLE)
    late.state.handed_in = True
    late.folder.asked.write_state("profiles-1-d", LentState("failed", "withdrawn"))
    await late.look()
    assert [data.camera for data in late.from_history] == ["d"], "there is no time to try it here"


async def test_the_next_window_does_not_wait_for_the_last_ones(
    tmp_path: Path, window: LabelledWindow, student: m.StudentFile
) -> None:
    box = Box(tmp_path, window, student)
    await box.look(IDLE)
    box.state.window = 3
    await box.look()
    assert box.borrowed.there() == ()

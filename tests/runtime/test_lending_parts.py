"""The runtime's lender and borrower beside the files that the agent writes; workers are written down, none runs."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from leaf_kit import UNASKED, ignored, leaf_parts
from lent_kit import done_of, profile_of
from test_worker_mains import job_of, student, window

from edge.core import events as ev
from edge.core.clock import ManualClock
from edge.core.configs import RetrainingConfig
from edge.core.labels import Accuracy, LabelledWindow, TeacherAnswer
from edge.core.lending import LendingCounts, LendingOffer, LendingOffers, LentLabels, LentProfiles, LentState
from edge.core.profiles import Estimate, InferenceProfile, RetrainingProfile
from edge.core.shares import ideal_caps
from edge.core.vision import Detections
from edge.runtime import messages as m
from edge.runtime.borrowing import Borrowing
from edge.runtime.golden_worker import GoldenWorkerSpec
from edge.runtime.lender import PATIENCE_S, Lender
from edge.runtime.lending_folder import LendingFolder, WorkInput
from edge.runtime.lent_followed import SILENT_S
from edge.runtime.lent_labels import packed_labelling, read_labels
from edge.runtime.lent_profiles import packed_profiling, unpacked_profiles
from edge.runtime.lent_work import packed
from scheduler.controller import WindowController
from scheduler.fleet.lending import START_S
from scheduler.follow import planner

__all__ = ["student", "window"]
CAPS = replace(ideal_caps(), min_share=0.01, units=2.0)
LITTLE = InferenceProfile("subsampling", 0.2, (1.0, 2.0, 4.0), (1.0, 0.8, 0.5))
ALL = InferenceProfile("linear", 1.0)
TEACHER_CLASSES: tuple[tuple[str, ...], dict[str, tuple[str, ...]]] = (("car",), {"car": ("car", "van")})
TEACHER = GoldenWorkerSpec(Path("teacher.yaml"), "demo", content="a" * 64)


class Workers:
    """Stands where the supervisor is."""

    def __init__(self) -> None:
        self.started: list[tuple[float, m.RetrainingJob]] = []
        self.shares: list[float] = []
        self.stopped = self.ended = 0
        self.say: Any = None

    def has(self, name: str) -> bool:
        return len(self.started) > self.stopped + self.ended

    def start(self, worker: Any, share: float, main: Any, job: m.RetrainingJob, say: Any, **more: Any) -> None:
        self.started.append((share, job))
        self.say = say

    def resize(self, name: str, share: float) -> None:
        self.shares.append(share)

    async def stop(self, *_: Any) -> None:
        self.stopped += 1


class Box:
    """A box with a real controller and planner; tasks that are spawned are awaited by `settle`."""

    def __init__(self, folder: Path, profile: InferenceProfile = LITTLE) -> None:
        self.clock, self.folder, self.workers = ManualClock(), LendingFolder(folder), Workers()
        self.plan = planner(CAPS)
        settings = ev.WindowSettings(100.0, None, "thief", True, 0.05)
        self.controller = WindowController(settings, 1.0, self.plan)
        self.shares = SimpleNamespace(
            lent=0.0, cores=2.0, partitioner=SimpleNamespace(caps=CAPS), quantized=CAPS.quantize,
            camera_capacity=lambda: round(1.0 - self.shares.lent, 6),
        )  # fmt: skip
        self.received: list[tuple[str, Any]] = []
        self.given_up: list[tuple[str, str, str]] = []
        self.judging: list[m.JudgeCandidate] = []
        self.dispatched: list[ev.Event] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self.parts = leaf_parts(
            folder, clock=self.clock, controller=self.controller, shares=self.shares, supervisor=self.workers,
            profilers=SimpleNamespace(ask=self.judging.append, waiting=list, names=("profiler-0", "profiler-1")),
            golden=SimpleNamespace(teacher=TEACHER),
        )  # fmt: skip
        self.dispatch(ev.CameraJoined(0.0, "own", 0.7, profile))
        self.dispatch(ev.BoundaryReached(0.0))
        self.dispatched.clear()

    def dispatch(self, event: ev.Event) -> None:
        self.dispatched.append(event)
        self.controller.handle(event)

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> None:
        self._tasks.append(asyncio.ensure_future(work))

    async def settle(self) -> None:
        while self._tasks:
            await self._tasks.pop()

    def lender(self, most: float = 0.6) -> Lender:
        return Lender(self.parts, self.folder, most, self.plan, self.dispatch, self.spawn, LendingCounts())

    def borrowing(self) -> Borrowing:
        return Borrowing(
            self.parts, UNASKED, self.folder, lambda *said: self.received.append(said),
            lambda *said: self.given_up.append(said), self.dispatch, ignored, self.spawn,
        )  # fmt: skip


def share_offered(box: Box) -> float:
    offer = box.folder.offer()
    assert offer is not None
    return offer.share


def asked_for(box: Box, job: m.RetrainingJob, share: float = 0.5, name: str = "crowded.w2-a", place: int = 0) -> str:
    """A retraining of another box, whose files are all there."""
    work, _ = packed(replace(job, job=name), "idle", share, 10.0, place)
    box.folder.lent.begin(work, WorkInput("crowded", {}))
    box.folder.lent.mark(name, "ready")
    return name


class TestLender:
    async def test_an_idle_box_offers_and_trains_at_no_more_than_that(
        self, tmp_path: Path, window: LabelledWindow, student: m.StudentFile
    ) -> None:
        box = Box(tmp_path)
        lender = box.lender()
        await lender.look("idle")
        assert box.folder.offer() == LendingOffer(
            "idle", 0.6, "cpu", 2.0, left_s=100.0, room=4, window_s=100.0, teacher="a" * 64
        )
        name = asked_for(box, job_of(window, student, tmp_path))
        await lender.look("idle")
        ((share, job),) = box.workers.started
        assert (share, job.job, job.cores) == (0.5, name, 2.0)
        assert box.controller.state.num_gpus == pytest.approx(0.5), "its own plan does without"
        offer = box.folder.offer()
        assert offer is not None
        assert (offer.share, offer.room) == (0.6, 3)
        assert offer.busy_s == pytest.approx(START_S + 10.0 / 0.5), "others wait for it"
        (here,) = lender.here()
        assert (here.box, here.camera, here.share) == ("crowded", "a", 0.5)
        box.workers.say(m.TrainingProgress(name, 2.0, 0.5, 1, 0.1, None))
        assert box.folder.lent.state(name) == LentState("running", fraction=0.5, cpu_s=4.0)
        job.output.write_bytes(b"candidate")
        nothing = Accuracy(0.5, 1, 1)
        box.workers.say(m.TrainingDone(name, job.output, nothing, nothing, 3.0, 1.0, 6, job.spec))
        await box.settle()
        state = box.folder.lent.state(name)
        assert state is not None
        assert (state.phase, state.digest, state.cpu_s) == ("done", hashlib.sha256(b"candidate").hexdigest(), 6.0)
        assert (lender.counts.lent, lender.counts.lent_device_s) == (1, 3.0)
        assert box.controller.state.num_gpus == pytest.approx(1.0)
        await lender.look("idle")
        assert len(box.workers.started) == 1, "it waits to be fetched"

    async def test_while_its_own_window_is_prepared_a_lent_one_has_next_to_nothing(
        self, tmp_path: Path, window: LabelledWindow, student: m.StudentFile
    ) -> None:
        box = Box(tmp_path)
        lender = box.lender()
        await lender.look("idle")
        asked_for(box, job_of(window, student, tmp_path))
        await lender.look("idle")
        box.dispatch(ev.BoundaryReached(100.0))
        await lender.look("idle")
        assert box.workers.shares == [CAPS.min_share]
        assert box.controller.state.num_gpus == pytest.approx(1.0), "profiles are made with all that there is"
        assert share_offered(box) == 0.0
        box.dispatch(ev.SampleLabelled(101.0, "own", 1, 0, 0, 0.7))
        await lender.look("idle")
        assert box.workers.shares == [CAPS.min_share, 0.5], "and then again what was agreed"

    async def test_a_box_that_needs_its_share_gives_a_lent_retraining_up(
        self, tmp_path: Path, window: LabelledWindow, student: m.StudentFile
    ) -> None:
        box = Box(tmp_path)
        lender = box.lender()
        await lender.look("idle")
        name = asked_for(box, job_of(window, student, tmp_path))
        await lender.look("idle")
        box.dispatch(ev.CameraJoined(10.0, "new", 0.7, ALL))
        await lender.look("idle")
        assert box.workers.shares == [CAPS.min_share], "for a while it waits"
        assert box.controller.state.num_gpus == pytest.approx(1.0)
        box.clock.advance(PATIENCE_S)
        await lender.look("idle")
        await box.settle()
        state = box.folder.lent.state(name)
        assert state is not None
        assert (state.phase, state.fault) == ("failed", "withdrawn")
        assert box.workers.stopped == 1
        assert box.controller.state.num_gpus == pytest.approx(1.0)

    async def test_others_wait_in_the_order_in_which_they_were_given(
        self, tmp_path: Path, window: LabelledWindow, student: m.StudentFile
    ) -> None:
        box, job = Box(tmp_path), job_of(window, student, tmp_path)
        lender = box.lender()
        await lender.look("idle")
        second = asked_for(box, job, name="crowded.w2-a", place=1)
        first = asked_for(box, job, name="crowded.w2-b", place=0)
        await lender.look("idle")
        await lender.look("idle")
        assert [job.job for _, job in box.workers.started] == [first], "one at a time"
        offer = box.folder.offer()
        assert offer is not None
        assert (offer.room, offer.busy_s) == (2, pytest.approx(2 * (START_S + 10.0 / 0.5)))
        nothing, ((_, begun),) = Accuracy(0.5, 1, 1), box.workers.started
        begun.output.write_bytes(b"candidate")
        box.workers.ended += 1
        box.workers.say(m.TrainingDone(first, begun.output, nothing, nothing, 3.0, 1.0, 6, begun.spec))
        await box.settle()
        await lender.look("idle")
        assert [job.job for _, job in box.workers.started] == [first, second]

    async def test_a_box_of_many_cores_lends_what_its_preparation_cannot_use(
        self, tmp_path: Path, window: LabelledWindow, student: m.StudentFile
    ) -> None:
        box = Box(tmp_path)
        box.shares.cores = 16.0
        lender = box.lender()
        await lender.look("idle")
        box.clock.advance(100.0)
        box.dispatch(ev.BoundaryReached(100.0))
        await lender.look("idle")
        # Its camera has 0.24 of the device, three threads have 0.1875.
        assert share_offered(box) == pytest.approx(0.48), "in steps of 0.6"
        asked_for(box, job_of(window, student, tmp_path))
        await lender.look("idle")
        assert box.workers.started[0][0] == pytest.approx(0.48)
        assert sum(box.controller.state.shares.values()) == pytest.approx(0.24), "its camera has as much as before"

    async def test_a_box_that_retrains_its_own_camera_first_offers_what_there_is_then(
        self, tmp_path: Path, window: LabelledWindow, student: m.StudentFile
    ) -> None:
        box = Box(tmp_path)
        box.clock.advance(100.0)
        box.dispatch(ev.BoundaryReached(100.0))
        box.dispatch(ev.SampleLabelled(101.0, "own", 1, 30, 10, 0.5))
        better = RetrainingProfile(RetrainingConfig(5), 0.5, Estimate.exact(0.9), Estimate.exact(20.0))
        box.dispatch(ev.Profiled(102.0, "own", 1, (better,), 0.5))
        box.clock.advance(2.0)
        lender = box.lender()
        await lender.look("idle")
        offer = box.folder.offer()
        assert offer is not None
        assert offer.share == 0.6
        assert 20.0 < offer.busy_s < 60.0, "its own takes 20 device seconds"
        asked_for(box, job_of(window, student, tmp_path))
        box.clock.advance(PATIENCE_S + 1.0)
        await lender.look("idle")
        assert box.workers.started == [], "it waits"
        assert box.folder.lent.state("crowded.w2-a") is None
        job = box.controller.state.jobs["own"]
        box.dispatch(ev.RetrainingCompleted(125.0, "own", job.id, True, 0.9))
        await lender.look("idle")
        assert box.workers.started

    async def test_an_offer_says_how_its_last_boundaries_went(self, tmp_path: Path) -> None:
        box = Box(tmp_path)
        lender = box.lender()
        for number in (1, 2):
            await lender.look("idle")
            box.clock.advance(100.0 if number == 1 else 93.0)
            box.dispatch(ev.BoundaryReached(100.0 * number))
            await lender.look("idle")
            assert share_offered(box) == 0.0
            box.clock.advance(7.0)
            box.dispatch(ev.SampleLabelled(100.0 * number + 7.0, "own", number, 0, 0, 0.7))
            await lender.look("idle")
        offer = box.folder.offer()
        assert offer is not None
        assert (offer.again, offer.pause_s, offer.window_s) == (0.6, 7.0, 100.0)

    async def test_trials_run_before_retrainings_and_are_handed_back(
        self, tmp_path: Path, window: LabelledWindow, student: m.StudentFile
    ) -> None:
        box, job = Box(tmp_path), job_of(window, student, tmp_path)
        lender = box.lender()
        await lender.look("idle")
        asked_for(box, job)
        trials = profile_of(window, student)
        work, _ = packed_profiling("profiles-1-b", trials, LentProfiles("a", "idle", 0.5, 9.0), 0, 60.0)
        name = "crowded.profiles-1-b"
        box.folder.lent.begin(replace(work, id=name), WorkInput("crowded", {}))
        box.folder.lent.mark(name, "ready")
        await lender.look("idle")
        ((share, begun),) = box.workers.started
        assert isinstance(begun, m.LentProfile)
        assert (share, begun.job, begun.profile.cores) == (0.5, name, 4.0), "costs are of the borrower's device"
        assert begun.hand_in_s == pytest.approx(60.0, abs=30.0)
        assert lender.here()[0].kind == "profiles"
        done = done_of(trials, 3.0)
        box.workers.say(m.LentProfileDone(name, done, 4.0))
        await box.settle()
        state = box.folder.lent.state(name)
        assert state is not None
        assert (state.phase, state.cpu_s) == ("done", 12.0)
        assert unpacked_profiles(box.folder.lent.candidate(name).read_bytes(), trials, "idle") == replace(
            done, box="idle"
        )
        assert (lender.counts.lent_profiles, lender.counts.lent, lender.counts.lent_device_s) == (1, 0, 6.0)

    async def test_labels_are_made_after_trials_and_before_retrainings(
        self, tmp_path: Path, window: LabelledWindow, student: m.StudentFile
    ) -> None:
        box = Box(tmp_path)
        lender = box.lender()
        await lender.look("idle")
        asked_for(box, job_of(window, student, tmp_path))
        pictures = [f.frame for f in window.train[:3]]
        other = TEACHER_CLASSES, "b" * 64
        for name, (classes, teacher) in (("labels-1-a", (TEACHER_CLASSES, TEACHER.content)), ("labels-2-a", other)):
            choice = LentLabels("a", "idle", 0.5, (), 9.0)
            work, _, digests = packed_labelling(name, pictures, choice, classes, teacher, 60.0, 8.0, 0)
            box.folder.lent.begin(replace(work, id=f"crowded.{name}"), WorkInput("crowded", {}))
            box.folder.lent.mark(f"crowded.{name}", "ready")
        await lender.look("idle")
        ((share, begun),) = box.workers.started
        assert isinstance(begun, m.LentLabel)
        assert (share, begun.job, begun.teacher) == (0.5, "crowded.labels-1-a", TEACHER.teacher)
        assert begun.hand_in_s == pytest.approx(60.0, abs=30.0)
        assert [lent.kind for lent in lender.here()] == ["labels"]
        box.workers.say(m.LentLabelProgress(begun.job, 2.0, 0.5))
        assert box.folder.lent.state(begun.job) == LentState("running", fraction=0.5, cpu_s=2.0)
        nothing = TeacherAnswer(Detections.empty(), Detections.empty())
        box.workers.say(m.LentLabelDone(begun.job, dict.fromkeys(begun.pictures, nothing), 6.0, 4.0))
        await box.settle()
        state = box.folder.lent.state(begun.job)
        assert state is not None
        assert (state.phase, state.cpu_s) == ("done", 6.0)
        found, open_s = read_labels(box.folder.lent.candidate(begun.job), set(digests.values()), 1)
        assert (set(found), open_s) == (set(digests.values()), 4.0)
        assert (lender.counts.lent_labels, lender.counts.lent, lender.counts.lent_device_s) == (3, 0, 3.0)
        box.workers.ended += 1
        await lender.look("idle")
        refused = box.folder.lent.state("crowded.labels-2-a")
        assert refused is not None
        assert refused.fault == "failed"
        assert "teacher" in refused.why

    async def test_its_caller_is_gone(self, tmp_path: Path, window: LabelledWindow, student: m.StudentFile) -> None:
        box = Box(tmp_path)
        lender = box.lender()
        await lender.look("idle")
        name = asked_for(box, job_of(window, student, tmp_path))
        await lender.look("idle")
        box.folder.lent.mark(name, "cancel")
        await lender.look("idle")
        await box.settle()
        assert (box.workers.stopped, box.folder.lent.ids(), lender.here()) == (1, [], ())

    async def test_a_busy_box_offers_nothing(self, tmp_path: Path) -> None:
        box = Box(tmp_path, ALL)
        await box.lender().look("idle")
        assert share_offered(box) == 0.0


class TestBorrower:
    @staticmethod
    def order(job: m.RetrainingJob) -> ev.StartRetraining:
        return ev.StartRetraining(job.camera, job.job, job.config.id, 0.5, 1, (), 1, lender="idle")

    async def asked(
        self, tmp_path: Path, window: LabelledWindow, student: m.StudentFile
    ) -> tuple[Box, Borrowing, m.RetrainingJob]:
        box, job = Box(tmp_path), job_of(window, student, tmp_path / "jobs")
        borrowing = box.borrowing()
        borrowing.ask(self.order(job), job, 10.0)
        await box.settle()
        assert box.folder.asked.ids() == [job.job]
        given = box.folder.asked.given(job.job)
        assert given is not None
        assert given.box == "idle"
        return box, borrowing, job

    async def test_a_result_is_judged_here_and_goes_through_the_gate(
        self, tmp_path: Path, window: LabelledWindow, student: m.StudentFile
    ) -> None:
        box, borrowing, job = await self.asked(tmp_path, window, student)
        box.folder.asked.write_state(job.job, LentState("running", fraction=0.25, cpu_s=4.0))
        await borrowing.look("crowded")
        assert box.received == [("a", m.TrainingProgress(job.job, 2.0, 0.25, 0, 0.0, None))]
        assert borrowing.there()[0].fraction == 0.25
        box.folder.asked.candidate(job.job).write_bytes(b"candidate")
        box.folder.asked.write_state(job.job, LentState("done", fraction=1.0, cpu_s=10.0, train_frames=6))
        await borrowing.look("crowded")
        await box.settle()
        (judge,) = box.judging
        assert (judge.candidate.read_bytes(), judge.device_seconds, judge.box) == (b"candidate", 5.0, "idle")
        assert box.folder.asked.marked(job.job, "cancel"), "its agent may clear up"
        nothing = Accuracy(0.5, 1, 1)
        done = m.TrainingDone(job.job, job.output, nothing, nothing, 5.0, 1.0, 6, job.spec, trained_on="idle")
        assert borrowing.judges(job.job), "at the end of the window it is waited for"
        box.clock.advance(7.0)
        borrowing.judged(done)
        assert box.received[-1] == ("a", done)
        assert (borrowing.counts.borrowed, borrowing.counts.borrowed_device_s) == (1, 5.0)
        assert not borrowing.judges(job.job)
        box.folder.write_offers(LendingOffers((LendingOffer("idle", 0.5, "cpu", 2.0),)))
        await borrowing.look("crowded")
        (offered,) = (e for e in box.dispatched if isinstance(e, ev.LendersOffered))
        assert offered.me is not None
        assert offered.me.gate_s == pytest.approx(9.0), "the gate takes so long here"
        assert not judge.candidate.exists()
        assert borrowing.there() == ()

    async def test_what_is_no_student_is_counted_and_retrained_here(
        self, tmp_path: Path, window: LabelledWindow, student: m.StudentFile
    ) -> None:
        box, borrowing, job = await self.asked(tmp_path, window, student)
        box.folder.asked.candidate(job.job).write_bytes(b"no student")
        box.folder.asked.write_state(job.job, LentState("done", fraction=1.0))
        await borrowing.look("crowded")
        await box.settle()
        borrowing.not_judged(box.judging[0])
        assert [(camera, name) for camera, name, _ in box.given_up] == [("a", job.job)]
        assert borrowing.counts.failures == {"damaged": 1}

    async def test_a_lender_that_gives_up_or_is_silent_is_counted(
        self, tmp_path: Path, window: LabelledWindow, student: m.StudentFile
    ) -> None:
        box, borrowing, job = await self.asked(tmp_path, window, student)
        box.folder.asked.write_state(job.job, LentState("failed", "withdrawn"))
        await borrowing.look("crowded")
        assert box.given_up[0][2] == "the lender needs its share itself"
        borrowing.ask(self.order(job), job, 10.0)
        await box.settle()
        box.folder.asked.write_state(job.job, LentState("running"))
        await borrowing.look("crowded")
        box.clock.advance(SILENT_S + 1.0)
        await borrowing.look("crowded")
        assert borrowing.counts.failures == {"withdrawn": 1, "unreachable": 1}
        assert not borrowing.has(job.job)

    async def test_the_controller_hears_of_offers_that_changed(self, tmp_path: Path) -> None:
        box = Box(tmp_path)
        borrowing = box.borrowing()
        await borrowing.look("crowded")
        assert box.dispatched == []
        mine, other = LendingOffer("crowded", 0.5, "cpu", 2.0), LendingOffer("idle", 0.5, "cpu", 2.0)
        box.folder.write_offers(LendingOffers((mine, other)))
        await borrowing.look("crowded")
        await borrowing.look("crowded")
        (offered,) = box.dispatched
        assert isinstance(offered, ev.LendersOffered)
        assert offered.offers == (other,)

"""The profilers' queue: order, workers that die, jobs taken back; nothing that was asked is left without an answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.labels import LabelledWindow
from edge.core.workers import Worker
from edge.recording.remembering import MemoryFolders
from edge.runtime import messages as m
from edge.runtime.profilers import Job, Profilers


class Workers:
    """Stands where the supervisor is."""

    def __init__(self) -> None:
        self.there: set[str] = set()
        self.sent: list[tuple[str, Any]] = []
        self.started: dict[str, float] = {}
        self.shares: dict[str, float] = {}
        self.calls: dict[str, tuple[Any, Any]] = {}

    def start(self, worker: Worker, share: float, main: Any, spec: Any, on_message: Any, **more: Any) -> None:
        assert worker.kind == "profiler"
        self.started[worker.name] = share
        self.there.add(worker.name)
        self.calls[worker.name] = (on_message, more["on_lost"])

    def ready(self, name: str) -> bool:
        return name in self.there

    def send(self, name: str, message: Any) -> bool:
        assert name in self.there
        self.sent.append((name, message))
        return True

    def resize(self, name: str, share: float) -> None:
        self.shares[name] = share


class Box:
    def __init__(self, cores: float = 2.0) -> None:
        self.workers = Workers()
        self.answers: list[Any] = []
        self.failed: list[tuple[Job, m.JobFailed | None]] = []
        self.profilers = Profilers(
            self.workers,  # type: ignore[arg-type]
            cores,
            lambda share: round(share, 2),
            urgency,
            self.answers.append,
            lambda job, why: self.failed.append((job, why)),
            look_again_s=0.0,
        )
        self.profilers.start(0.1)

    def says(self, name: str, message: Any) -> None:
        self.workers.calls[name][0](message)

    def dies(self, name: str) -> None:
        self.workers.there.discard(name)
        self.workers.calls[name][1]("killed")

    def back(self, name: str) -> None:
        self.workers.there.add(name)

    def jobs(self) -> list[tuple[str, str]]:
        return [(type(j).__name__, j.data.camera) for _, j in self.workers.sent if not isinstance(j, m.HandInProfile)]


def urgency(job: Job) -> tuple[int, int]:
    return (0, 0) if isinstance(job, m.Remember) else (1, 0) if isinstance(job, m.Profile) else (2, 0)


def window(camera: str) -> LabelledWindow:
    return LabelledWindow(camera, 1, "detection", ("car",), (), ())


def remember(camera: str) -> m.Remember:
    return m.Remember(window(camera), m.StudentFile("v", Path("v")), MemoryFolders(Path("memory"), 8), 2.0)


def profile(camera: str) -> m.Profile:
    return m.Profile(window(camera), m.StudentFile("v", Path("v")), (), 1.0, None, 2.0, 1)


def evaluate(camera: str) -> m.Evaluate:
    student = m.StudentFile("v", Path("v"))
    return m.Evaluate(window(camera), student, student, None, 2.0, None, None)


def remembered(camera: str) -> m.Remembered:
    return m.Remembered(camera, 1, 8)


def failed(camera: str) -> m.JobFailed:
    return m.JobFailed(camera, 1, "profiling", "no picture")


def test_what_the_plan_waits_for_goes_first() -> None:
    box = Box(cores=1.0)
    for job in (evaluate("a"), evaluate("b"), profile("c"), remember("d"), profile("e")):
        box.profilers.ask(job)
    for _ in range(5):
        box.says("profiler-0", remembered("x"))
    assert box.jobs() == [("Evaluate", "a"), ("Remember", "d"), ("Profile", "c"), ("Profile", "e"), ("Evaluate", "b")]


@pytest.mark.parametrize(("cores", "count"), [(0.5, 1), (1.0, 1), (1.5, 2), (16.0, 2)])
def test_as_many_profilers_as_cores_but_two_at_most_share_evenly(cores: float, count: int) -> None:
    box = Box(cores)
    assert len(box.profilers.names) == count
    assert set(box.workers.started) == set(box.profilers.names)
    box.profilers.resize(0.4)
    assert set(box.workers.shares.values()) == {0.4 / count}
    box.profilers.resize(0.0)
    assert set(box.workers.shares.values()) == {0.02}, "enough to move"


def test_a_job_that_has_not_begun_can_be_taken_back() -> None:
    box = Box(cores=1.0)
    begun, waiting, other = profile("a"), profile("b"), evaluate("b")
    for job in (begun, waiting, other):
        box.profilers.ask(job)
    assert box.profilers.withdraw(lambda job: isinstance(job, m.Profile)) == [waiting]
    assert box.profilers.hand_in() == [begun]
    assert box.workers.sent[-1] == ("profiler-0", m.HandInProfile("a", 1))
    box.says("profiler-0", remembered("a"))
    assert box.jobs() == [("Profile", "a"), ("Evaluate", "b")]


async def test_a_job_whose_worker_died_is_reported_and_the_queue_goes_on_when_it_is_back() -> None:
    box = Box(cores=1.0)
    lost, next_one = profile("a"), profile("b")
    box.profilers.ask(lost)
    box.dies("profiler-0")
    assert box.failed == [(lost, None)]
    box.profilers.ask(next_one)
    assert box.jobs() == [("Profile", "a")]
    box.back("profiler-0")
    async with asyncio.timeout(30):
        while len(box.jobs()) < 2:
            await asyncio.sleep(0)
    assert box.jobs()[1] == ("Profile", "b")
    box.profilers.close()


def test_a_job_that_failed_is_reported_with_its_reason() -> None:
    box = Box()
    job = profile("a")
    box.profilers.ask(job)
    box.says("profiler-0", failed("a"))
    assert box.failed == [(job, failed("a"))]
    box.says("profiler-0", failed("late"))
    assert len(box.failed) == 1, "no camera waits for it"


@settings(max_examples=80, deadline=None)
@given(st.lists(st.sampled_from(["ask", "answer", "fail", "die", "back"]), max_size=60))
async def test_each_job_comes_to_exactly_one_end(steps: list[str]) -> None:
    box = Box(cores=1.0)
    box.profilers.close()  # nothing is looked at again by time here
    asked = 0
    for step in steps:
        busy = bool(box.profilers._with)
        if step == "ask":
            box.profilers.ask(profile(f"c{asked}"))
            asked += 1
        elif step == "answer" and busy:
            box.says("profiler-0", remembered("c"))
        elif step == "fail" and busy:
            box.says("profiler-0", failed("c"))
        elif step == "die" and "profiler-0" in box.workers.there:
            box.dies("profiler-0")
        elif step == "back":
            box.back("profiler-0")
        left = len(box.profilers._queue) + len(box.profilers._with)
        assert len(box.answers) + len(box.failed) + left == asked
        assert len(box.profilers._with) <= 1
        assert [f"c{n}" for n in range(len(box.jobs()))] == [camera for _, camera in box.jobs()], "each once, in order"

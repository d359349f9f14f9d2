"""Executors: let in by the front before they start, forgotten when they are gone, given up with the reason."""

from __future__ import annotations

from pathlib import Path

from serving_parts import Supervised, Written, version

from edge.core.clock import ManualClock
from edge.core.front_messages import ExpectExecutor, ForgetExecutor
from edge.core.workers import FRONT
from edge.runtime.executor_worker import ExecutorSpec, NotLoaded, VersionsLoaded
from edge.runtime.serving_executors import Executors
from scheduler.gpulets import reorganiser_events as r

ORDER = r.StartExecutor("executor-0", 0.2, (version("a"), version("b", "3")))


class Box:
    def __init__(self) -> None:
        self.written, self.supervisor = Written(), Supervised()
        self.executors = Executors(
            self.supervisor, Path("/run/front.sock"), ManualClock(5.0), self.written.events.append,  # type: ignore[arg-type]
            self.written.note, self.written.spawn,
        )  # fmt: skip
        self.executors.start(ORDER)
        self.started = self.supervisor.started["executor-0"]


async def test_the_front_expects_an_executor_before_it_is_started() -> None:
    box = Box()
    expect = box.executors.expected["executor-0"]
    assert box.supervisor.sent == [(FRONT.name, expect)]
    assert isinstance(expect, ExpectExecutor)
    assert box.started.argument == ExecutorSpec("executor-0", "/run/front.sock", expect.token, ORDER.versions)
    assert box.started.share == 0.2
    assert box.written.notes == [
        ("serving.executor_started", {"executor": "executor-0", "models": ["a/1", "b/3"], "share": 0.2})
    ]
    other = Box()
    assert other.executors.expected["executor-0"].token != expect.token


async def test_one_that_is_stopped_is_forgotten_and_reported() -> None:
    box = Box()
    box.executors.stop("executor-0")
    assert box.written.events == [], "not before its process is gone"
    await box.written.finish()
    assert box.supervisor.stopped == ["executor-0"]
    assert box.supervisor.sent[-1] == (FRONT.name, ForgetExecutor("executor-0"))
    assert box.written.events == [r.ExecutorStopped(5.0, "executor-0")]
    assert box.executors.expected == {}


async def test_one_that_is_lost_keeps_its_token_and_one_that_is_given_up_does_not() -> None:
    box = Box()
    box.started.more["on_lost"]("killed")
    assert box.written.events == [r.ExecutorLost(5.0, "executor-0", "killed")]
    assert "executor-0" in box.executors.expected
    box.started.more["on_given_up"]("it dies too often")
    assert box.written.events[-1] == r.ExecutorFailed(5.0, "executor-0", "it dies too often")
    assert box.executors.expected == {}
    box.started.more["on_given_up"]("it dies too often")
    assert [m for _, m in box.supervisor.sent].count(ForgetExecutor("executor-0")) == 1


async def test_one_that_loaded_only_a_part_ends_with_the_models_at_fault() -> None:
    box = Box()
    box.started.on_message(VersionsLoaded("executor-0", ("a/1", "b/3"), ()))
    assert box.written.spawned == []
    box.started.on_message(VersionsLoaded("executor-0", ("a/1",), (NotLoaded("b", "3", "no memory"),)))
    await box.written.finish()
    assert box.supervisor.stopped == ["executor-0"]
    assert box.written.events == [r.ExecutorFailed(5.0, "executor-0", "b/3: no memory", ("b",))]


async def test_at_the_end_all_are_stopped() -> None:
    box = Box()
    box.executors.start(r.StartExecutor("executor-1", 0.1, (version("c"),)))
    await box.executors.close()
    assert sorted(box.supervisor.stopped) == ["executor-0", "executor-1"]
    assert box.written.events == []

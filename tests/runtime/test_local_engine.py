"""The engine `local` keeps the contract of engines, and costs nothing while it is idle."""

from __future__ import annotations

import multiprocessing
import threading
from collections.abc import Iterator

import pytest
from engine_kit import AMOUNTS, EngineContract, OpenEngine, begin, started

from edge.core.errors import InvalidValue, Unavailable
from edge.core.fleet import TaskAt
from edge.runtime.local_engine import LocalEngine, LocalSettings


def kill(at: TaskAt) -> None:
    (process,) = [p for p in multiprocessing.active_children() if p.name == f"fleet-{at.job}-{at.task}"]
    process.kill()


@pytest.fixture
def opened() -> Iterator[OpenEngine]:
    engine = LocalEngine(LocalSettings("b0", AMOUNTS))
    yield begin(engine, 1, kill)
    engine.close()
    engine.close()


class TestLocalEngine(EngineContract):
    """The contract."""


def test_it_has_neither_threads_nor_processes_while_nothing_runs(opened: OpenEngine) -> None:
    before = set(threading.enumerate())
    children = set(multiprocessing.active_children())
    engine = LocalEngine(LocalSettings("b1", AMOUNTS))
    begin(engine, 1, kill)
    assert set(threading.enumerate()) == before
    assert set(multiprocessing.active_children()) == children
    engine.close()


def test_a_closed_engine_has_ended_its_tasks_and_takes_none(opened: OpenEngine) -> None:
    task = opened.task("long", seconds=None)
    opened.engine.launch((task,))
    opened.until(started)
    opened.engine.close()
    assert not [p for p in multiprocessing.active_children() if p.name.startswith("fleet-")]
    assert opened.engine.events(0.0) == ()
    for call in (lambda: opened.engine.launch((task,)), opened.engine.status, lambda: opened.engine.cancel(task.at)):
        with pytest.raises(Unavailable, match="closed"):
            call()


def test_bad_settings_are_refused() -> None:
    for box, amounts in (("", AMOUNTS), ("b0", {"zone:x": 1.0}), ("b0", {"cpu": -1.0})):
        with pytest.raises(InvalidValue):
            LocalSettings(box, amounts)

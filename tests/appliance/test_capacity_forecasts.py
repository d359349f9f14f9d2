"""Forecasts of a box: refused where little is recorded, made beside its work, kept, compared."""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from capacity_kit import INFERENCE, made

from edge.appliance.capacity import CapacityForecasts, came_of, forecast_answer
from edge.core.capacity import BoxChange, CameraOutcome, CapacityForecast, CapacityOutcome, StoredForecast
from edge.core.capacity_notes import CapacityNote
from edge.core.clock import ManualClock
from edge.core.errors import Conflict, InvalidValue
from edge.core.labels import Accuracy
from edge.core.plan_causes import PlanCause
from edge.core.shares import LaunchSpec
from edge.core.window import StreamProblem, WindowProblem
from edge.store.store import Store
from scheduler.capacity.intervals import HORIZON
from scheduler.policies import window_policy

HALF = BoxChange.of("window")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(None, tmp_path, clock=ManualClock()) as store:
        yield store


def record(store: Store, windows: int, length_s: float = 100.0, realised: float = 0.6) -> None:
    """Closed windows of one camera."""
    for _ in range(windows):
        window = store.windows.open_window(0.0, length_s, "no-retraining")
        problem = WindowProblem("p", 0.8, length_s, (StreamProblem("gate", 0.6, INFERENCE),))
        store.windows.add_plan(window, problem, window_policy("no-retraining").plan(problem), PlanCause("prepared"))
        store.windows.put_camera_window(
            window, "gate", model_version="v1", realised=Accuracy(realised, 30, 90), frozen=Accuracy(0.5, 30, 90),
            frames_labelled=30,
        )  # fmt: skip
        store.windows.close_window(window)


def service(store: Store) -> CapacityForecasts:
    return CapacityForecasts(store, ManualClock(), lambda: None, lambda: 0.1, 30.0)


class InAThread:
    """In place of a process, whose start takes seconds: what is sent to it and back is pickled as for one. Its work
    begins when it may."""

    may_begin = threading.Event()

    def __init__(
        self, name: str, main: Any, argument: Any, launch: LaunchSpec, said: Any, ended: Any, killable: bool,
        memory_limit_bytes: int | None, on_started: Any,
    ) -> None:  # fmt: skip
        assert launch.nice > 0
        assert killable
        self._said = said

        def work() -> None:
            on_started(None)
            self.may_begin.wait(100)
            main(self, pickle.loads(pickle.dumps(argument)))
            ended(0)

        threading.Thread(target=work, daemon=True).start()

    def send(self, message: object) -> None:
        """The worker's end."""
        self._said(pickle.loads(pickle.dumps(message)))


async def test_without_windows_nothing_is_begun_and_the_number_is_reported(store: Store) -> None:
    capacity = service(store)
    answer = await capacity.all()
    assert (answer.windows, answer.needed, answer.working, answer.forecasts) == (0, 3, None, ())
    record(store, 2)
    with pytest.raises(Conflict, match=r"needs 3 .* there are 2"):
        await capacity.ask(HALF, 48, "anna")
    record(store, 1)
    assert (await capacity.all()).windows == 3
    with pytest.raises(InvalidValue) as error:
        await capacity.ask(BoxChange.of("camera", camera="dock"), 48, "anna")
    assert error.value.path == "camera"
    with pytest.raises(InvalidValue) as error:
        await capacity.ask(HALF, 2, "anna")
    assert error.value.path == "windows"
    assert (await capacity.all()).working is None, "a question that was refused does not stand in the way"


async def test_a_forecast_is_made_kept_and_compared_when_the_change_was_made(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    InAThread.may_begin.clear()
    monkeypatch.setattr("edge.appliance.capacity.WorkerProcess", InAThread)
    record(store, 6)
    capacity = service(store)
    begun = await capacity.ask(HALF, 48, "anna")
    assert begun.working is not None
    assert begun.working.change.words == "a window half as long"
    with pytest.raises(Conflict, match="is being made"):
        await capacity.ask(HALF, 48, "anna")
    InAThread.may_begin.set()
    async with asyncio.timeout(100):
        while (answer := await capacity.all()).working is not None:
            await asyncio.sleep(0.05)
    assert answer.failed is None
    (found,) = answer.forecasts
    assert (found.asked_by, found.windows, found.last_window, found.outcome) == ("anna", 6, 5, None)
    assert found.cameras[0].now == pytest.approx(0.6)
    record(store, 2 * HORIZON + 1, length_s=50.0, realised=0.3)
    (found,) = (await capacity.all()).forecasts
    assert found.outcome is not None
    assert (found.outcome.window, found.outcome.windows) == (6, 2 * HORIZON)
    assert found.outcome.cameras[0].came == pytest.approx(0.3)
    assert not found.outcome.cameras[0].held


async def test_a_forecast_that_fails_says_why(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    record(store, 3)

    class Failing:
        """A process that ends without a word."""

        def __init__(self, *arguments: Any, **_: Any) -> None:
            arguments[5](9)

        def kill(self) -> None:
            """It has ended."""

    monkeypatch.setattr("edge.appliance.capacity.WorkerProcess", Failing)
    capacity = service(store)
    await capacity.ask(HALF, 48, "anna")
    await asyncio.sleep(0)
    answer = await capacity.all()
    assert answer.working is None
    assert answer.failed is not None
    assert answer.failed.message == "its process ended (9)"
    capacity.close()


async def test_retention_compares_before_it_deletes(store: Store) -> None:
    record(store, 6)
    kept = store.capacity.add_forecast("anna", made(HALF, last=5))
    record(store, 2 * HORIZON + 1, length_s=50.0)
    assert await service(store).retain() == 0
    assert store.capacity.forecasts()[0].id == kept.id
    assert store.capacity.forecasts()[0].outcome is not None


async def test_a_forecast_that_takes_too_long_is_ended_and_says_so(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(store, 3)

    class Endless:
        """A process that ends when it is killed."""

        def __init__(self, *arguments: Any, memory_limit_bytes: int, on_started: Any, **_: Any) -> None:
            assert memory_limit_bytes == 1 << 30
            self._ended = arguments[5]
            on_started(None)

        def kill(self) -> None:
            self._ended(-9)

    monkeypatch.setattr("edge.appliance.capacity.WorkerProcess", Endless)
    capacity = CapacityForecasts(store, ManualClock(), lambda: None, lambda: 0.1, 30.0, 1 << 30, limit_s=0.0)
    await capacity.ask(HALF, 48, "anna")
    async with asyncio.timeout(100):
        while (answer := await capacity.all()).working is not None:
            await asyncio.sleep(0)
    assert answer.failed is not None
    assert answer.failed.message == "it took longer than 0 minutes"


async def test_a_service_that_is_closed_while_windows_are_read_begins_nothing(store: Store) -> None:
    record(store, 3)
    capacity = service(store)
    asking = asyncio.create_task(capacity.ask(HALF, 48, "anna"))
    await asyncio.sleep(0)
    capacity.close()
    with pytest.raises(Conflict, match="is ending"):
        await asking
    assert (await capacity.all()).working is None


def test_a_forecast_of_an_earlier_version_is_shown() -> None:
    numbers = {"answers": 2, "error": 1.2, "held": 83.0, "wider": 0.5}
    value = replace(made(HALF), notes=(CapacityNote("past", numbers=numbers),)).to_json()
    for camera in value["cameras"]:
        del camera["unchanged"]
    del value["unwidened"], value["last"]
    answer = forecast_answer(StoredForecast(3, 0.0, "anna", CapacityForecast.from_json(value)))
    assert [c.unchanged for c in answer.cameras] == [None, None]
    assert answer.notes[0].of_all is not None
    assert answer.notes[0].of_all.startswith("2 changes were compared")


def test_a_camera_that_came_later_is_as_young_as_it_is_however_few_windows_are_looked_at(store: Store) -> None:
    record(store, 3)
    for _ in range(3):
        window = store.windows.open_window(0.0, 100.0, "no-retraining")
        for camera in ("gate", "yard"):
            store.windows.put_camera_window(window, camera, model_version="v1")
        store.windows.close_window(window)
    assert store.windows.first_windows() == {"yard": 3}, "of the oldest kept window it is not known what was before"


def test_changes_of_all_kinds_and_sides_are_past_ones_with_their_factor(store: Store) -> None:
    came = CapacityOutcome(9, 6, 0.0, (CameraOutcome("gate", 0.6, 0.6, True),))
    for change in (BoxChange.of("device", 0.5), BoxChange.of("device", 2.0), HALF):
        store.capacity.put_forecast_outcome(store.capacity.add_forecast("", made(change)).id, came)
    store.capacity.add_forecast("", made(BoxChange.of("device", 4.0)))
    assert [(p.change.kind, p.change.factor) for p in came_of(store)] == [
        ("window", 0.5),
        ("device", 2.0),
        ("device", 0.5),
    ]

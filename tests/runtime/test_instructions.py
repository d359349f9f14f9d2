"""The controller's orders, carried out: requests to other parts, entries of database and journal, timers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from leaf_kit import UNASKED, NoWorkers, ignored, leaf_parts

from edge.core import events as ev
from edge.core.configs import StudentSpec
from edge.core.labels import LabelledWindow
from edge.core.models import ModelVersion
from edge.core.plan_basis import PlanBasis, PlanRequest
from edge.core.plan_causes import PlanCause
from edge.core.plan_reasons import PlanReason
from edge.core.profiles import InferenceProfile
from edge.core.shares import ideal_caps
from edge.core.window import Segment, StreamAllocation, StreamProblem, WindowPlan, WindowProblem
from edge.runtime.camera import CameraRuntime, assumed_profile
from edge.runtime.instructions import Instructions
from edge.settings import CameraSettings
from scheduler.window_planning import PlanQuestion


def test_a_plan_is_kept_and_journaled_with_its_cause_in_words() -> None:
    kept: list[tuple[Any, ...]] = []
    noted: list[tuple[str, int, dict[str, Any]]] = []
    planned: list[ev.RecordPlan] = []
    parts = leaf_parts(
        records=SimpleNamespace(write=lambda call, *facts, basis: kept.append((call, *facts, basis))),
        store=SimpleNamespace(windows=SimpleNamespace(add_plan="add_plan")),
    )
    preparation: Any = SimpleNamespace(planned=planned.append)
    problem = WindowProblem("w", 1.0, 100.0, (StreamProblem("gate", 0.5, InferenceProfile("linear", 0.4)),))
    plan = WindowPlan(
        "relay",
        "w",
        0.5,
        (Segment(0.0, {"gate": StreamAllocation(1.0)}),),
        0.25,
        {"gate": (PlanReason.recorded("why", "gate"),)},
    )
    request = PlanRequest("relay", replace(problem, num_gpus=0.5), plan, 7.5)
    order = ev.RecordPlan(3, problem, plan, PlanCause("retraining_completed", "gate", promoted=True), request)
    unasked: list[PlanQuestion] = []
    Instructions(
        parts, preparation, UNASKED, UNASKED, UNASKED, UNASKED, ignored, ignored,
        lambda kind, window, data: noted.append((kind, window, data)), unasked.append,  # type: ignore[arg-type]
    ).do(order)  # fmt: skip
    basis = PlanBasis("relay", ideal_caps(), plan, 7.5, request.problem)
    assert kept == [("add_plan", 3, problem, plan, order.cause, basis)]
    assert basis.request(problem) == request
    assert planned == [order]
    facts = {
        "policy": "relay",
        "cause": "retraining completed, promoted",
        "cause_camera": "gate",
        "objective": 0.5,
        "decision_s": 0.25,
        "reasons": {"gate": "why"},
    }
    assert noted == [("plan", 3, facts)]


class Workers(NoWorkers):
    """Stands where the supervisor is: the shares that workers have, and those that they were given, in order."""

    def __init__(self) -> None:
        self.now: dict[str, float] = {}
        self.given: list[tuple[str, float]] = []

    def workers(self) -> list[dict[str, Any]]:
        return [{"name": name, "share": share} for name, share in self.now.items()]

    def resize(self, name: str, share: float) -> None:
        self.given.append((name, share))


def camera(name: str) -> CameraRuntime:
    given = CameraSettings(id=name, name=name, url="rtsp://127.0.0.1/x", classes=["car"])
    version = ModelVersion("m1", name, "", StudentSpec("classification", "resnet18", ("car",), (64, 64)), 1.0)
    made = CameraRuntime(given, version, version, assumed_profile(given.inference, 1.0))
    made.closed = {1: LabelledWindow(name, 1, "classification", ("car",), (), ())}
    return made


class Box:
    """Two cameras; what other parts are asked is written down. `tries`: there is time for trials here; `lends`: another
    box runs them."""

    def __init__(self, tries: bool = True, lends: bool = False) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.events: list[ev.Event] = []
        self.supervisor = Workers()
        self.parts = leaf_parts(
            supervisor=self.supervisor, cameras={name: camera(name) for name in "ab"},
            records=SimpleNamespace(write=lambda call, *_, **__: self.asked.append(("write", call))),
            store=SimpleNamespace(windows=SimpleNamespace(open_window="window"), blobs=SimpleNamespace(path=Path)),
        )  # fmt: skip
        preparation: Any = SimpleNamespace(
            knows=lambda: True, tries=lambda camera: tries, share=ignored,
            open_window=lambda number: self.asked.append(("open", number)),
            from_history=lambda data: self.asked.append(("from history", data.camera)),
        )  # fmt: skip
        workers: Any = SimpleNamespace(
            choose_inference=lambda camera: self.asked.append(("inference", camera.id)),
            next_window=lambda camera, *windows: self.asked.append(("sample", camera.id, *windows)),
            go_on=lambda camera, window: self.asked.append(("go on", camera.id, window)),
        )
        retrainings: Any = SimpleNamespace(shares=lambda shares: self.asked.append(("retrainings", shares)))
        borrowed: Any = SimpleNamespace(give=lambda job: lends)
        self.instructions = Instructions(
            self.parts, preparation, workers, UNASKED, retrainings, borrowed,
            lambda: self.asked.append(("boundary",)), self.events.append, ignored, ignored,
        )  # fmt: skip


async def test_a_window_that_opens_is_recorded_and_its_samples_begin() -> None:
    box = Box()
    box.instructions.do(ev.ScheduleBoundary(0.0, 1))
    assert box.asked == [("open", 1), ("write", "window"), ("sample", "a", 0, 1), ("sample", "b", 0, 1)]
    await asyncio.sleep(0.01)
    assert box.asked[-1] == ("boundary",), "it is over when it is time"


async def test_a_window_that_goes_on_after_a_restart_is_not_recorded_again() -> None:
    box = Box()
    box.instructions.do(ev.ScheduleBoundary(100.0, 3, resumed=True))
    assert box.asked == [("go on", "a", 3), ("go on", "b", 3)]
    box.instructions.stop()


async def test_events_come_when_they_are_due_unless_the_appliance_ends() -> None:
    box = Box()
    box.instructions.do(ev.ScheduleDeadline(0.0, 2))
    await asyncio.sleep(0.01)
    assert box.events == [ev.DeadlinePassed(0.0, 2)]
    box.instructions.do(ev.ScheduleHandIn(0.0, 2))
    box.instructions.stop()
    await asyncio.sleep(0.01)
    assert len(box.events) == 1


def test_workers_that_give_are_resized_before_those_that_get() -> None:
    box = Box()
    a, b = box.parts.camera("a"), box.parts.camera("b")
    box.supervisor.now = {a.worker: 0.4, b.worker: 0.2}
    box.parts.controller.state.phase = "preparing"
    box.instructions.do(ev.SetShares({"b": 0.5, "a": 0.1, "gone": 0.3}, {"a": 0.2}))
    assert box.supervisor.given == [(a.worker, 0.1), (a.trainer, 0.2), (b.worker, 0.5)]
    assert (a.share, b.share) == (0.1, 0.5)
    assert box.asked == [("inference", "b"), ("inference", "a"), ("retrainings", {"a": 0.2})]


@pytest.mark.parametrize(
    ("tries", "lends", "hurry", "asked", "waiting"),
    [
        (True, False, False, [], ["a"]),
        (True, False, True, [("from history", "a")], []),
        (False, True, False, [], []),
        (False, False, False, [("from history", "a")], []),
    ],
    ids=["there is time", "in a hurry", "another box has time", "no box has time"],
)
async def test_a_camera_is_profiled_where_there_is_time(
    tries: bool, lends: bool, hurry: bool, asked: list[Any], waiting: list[str]
) -> None:
    box = Box(tries, lends)
    box.instructions.do(ev.StartProfiling("a", 1, 0.3, hurry))
    assert box.asked == [], "not inside the controller's own orders"
    await asyncio.sleep(0)
    assert (box.asked, [job.data.camera for job in box.parts.profilers.waiting()]) == (asked, waiting)
    box.parts.profilers.close()


def test_a_camera_without_data_has_no_profiles() -> None:
    box = Box()
    box.instructions.do(ev.StartProfiling("gone", 1, 0.3))
    assert box.events == [ev.Profiled(0.0, "gone", 1, ())]

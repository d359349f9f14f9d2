"""Window plans are made in a thread: the event loop goes on, the last question is answered, a failure is said."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest

from edge.core import events as ev
from edge.core.clock import ManualClock
from edge.core.plan_basis import PlanRequest
from edge.core.profiles import InferenceProfile
from edge.core.window import WindowPlan
from edge.runtime.window_plans import WindowPlans
from scheduler.controller import WindowController
from scheduler.policies import window_policy
from scheduler.window_planning import MakePlan, PlanMade, PlanNotMade, PlanQuestion

pytestmark = pytest.mark.asyncio


def questions(count: int) -> list[PlanQuestion]:
    """Of one controller, which a camera joins again and again."""
    c = WindowController(ev.WindowSettings(100.0, None, "relay", True, 0.05), 1.0)
    c.handle(ev.CameraJoined(0.0, "gate", 0.5, InferenceProfile("linear", 0.4)))
    c.handle(ev.BoundaryReached(0.0))
    asked = [c.handle(ev.CapacityChanged(float(n), 1.0)) for n in range(count)]
    return [order.question for orders in asked for order in orders if isinstance(order, MakePlan)]


class Planner:
    """A policy that takes as long as it is let, and what came of its plans."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.asked = 0
        self.broken = False
        self.events: list[ev.Event] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.plans = WindowPlans(self.plan, ManualClock(), self.events.append, self._spawn)

    def plan(self, request: PlanRequest) -> WindowPlan:
        self.asked += 1
        self.begun.set()
        assert self.go_on.wait(30)
        if self.broken:
            raise ValueError("no such thing")
        return window_policy(request.policy).plan(request.problem)

    async def done(self) -> None:
        await asyncio.gather(*self._tasks)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._tasks.append(asyncio.create_task(work, name=name))


async def test_the_loop_goes_on_while_a_plan_is_made_and_the_last_question_counts() -> None:
    planner, asked = Planner(), questions(4)
    planner.plans.ask(asked[0])
    assert planner.events == [], "nothing is dispatched before `ask` returns"
    await asyncio.to_thread(planner.begun.wait, 30)
    for question in asked[1:]:  # this runs: the loop is not held up by the planner, which waits
        planner.plans.ask(question)
    planner.go_on.set()
    await planner.done()
    assert [e.made.number for e in planner.events if isinstance(e, PlanMade)] == [asked[0].number, asked[3].number]
    assert planner.asked == 2, "those between were never made"


async def test_a_planner_that_fails_is_said_and_the_next_question_is_answered() -> None:
    planner, asked = Planner(), questions(2)
    planner.go_on.set()
    planner.broken = True
    planner.plans.ask(asked[0])
    await planner.done()
    assert planner.events == [PlanNotMade(planner.events[0].at_s, asked[0].number, "ValueError: no such thing")]
    planner.broken = False
    planner.plans.ask(asked[1])
    await planner.done()
    assert isinstance(planner.events[1], PlanMade)

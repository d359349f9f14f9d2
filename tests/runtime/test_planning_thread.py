"""The thread that plans: one event after the other, failures are reported, and what may be read meanwhile."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from serving_parts import Written, table, version

from edge.core.errors import WorkerFailed
from edge.core.serving import DeviceTable, Gpulet, ModelBatch, ServingPlan, ServingProblem
from edge.runtime.serving_planning import PlanningThread
from scheduler.gpulets import reorganiser_events as r
from scheduler.gpulets.demand import Demand
from scheduler.gpulets.fitting import Capacity
from scheduler.gpulets.rates import RateSettings, planned_rate
from scheduler.gpulets.reorganiser import Reorganiser
from scheduler.gpulets.reorganiser_settings import ReorganiserSettings


def plan(problem: ServingProblem, table: DeviceTable) -> ServingPlan:
    """A fifth of the device for each model; half of it where more than 20 requests a second come."""
    shares = [(m.name, 0.5 if m.rate > 20 else 0.2) for m in problem.models]
    return ServingPlan(True, tuple(Gpulet(0, share, 50.0, (ModelBatch(name, 1),)) for name, share in shares), "toy")


class Thread:
    """A planning thread over a real reorganiser; the planner waits at `gate` and fails where `broken`."""

    def __init__(self) -> None:
        self.gate, self.entered = threading.Event(), threading.Event()
        self.gate.set()
        self.broken = False
        self.written = Written()
        self.orders: list[r.Instruction] = []
        self.planner = PlanningThread(
            Reorganiser(self._plan, ReorganiserSettings(), Capacity(0.9, 0.9)), self.written.complain
        )

    def _plan(self, problem: ServingProblem, table: DeviceTable) -> ServingPlan:
        self.entered.set()
        self.gate.wait(30.0)
        if self.broken:
            raise RuntimeError("no idea")
        return plan(problem, table)

    def carry_out(self, order: r.Instruction) -> None:
        self.orders.append(order)

    async def decide(self, event: r.Event) -> None:
        """Decide on `event` and carry out its orders."""
        running, before = asyncio.create_task(self.planner.run(self.carry_out)), self.planner.view
        self.planner.send(event)
        # Changes nothing; once it is taken, all that `event` led to is done, also where the planner failed.
        self.planner.send(r.ExecutorStopped(99.0, "nobody"))
        while not self.planner.idle or self.planner.view is before:
            await self.planner.next_decision()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def models(rate: float, at_s: float = 0.0, latencies: DeviceTable | None = None) -> r.ModelsChanged:
    return r.ModelsChanged(at_s, (Demand(version("a"), rate),), (), latencies or table("a"))


async def test_what_is_decided_is_carried_out_in_order() -> None:
    thread = Thread()
    await thread.decide(models(5.0))
    kinds = [type(order).__name__ for order in thread.orders]
    assert kinds.index("ReserveShare") < kinds.index("StartExecutor")
    assert "RecordServingPlan" in kinds
    assert thread.planner.view.plan is not None
    assert thread.planner.view.plan.total_share == 0.2


async def test_the_view_stays_as_it_was_while_an_event_is_decided_on() -> None:
    thread = Thread()
    planner = thread.planner
    seen: list[Any] = []
    running = asyncio.create_task(planner.run(lambda order: seen.append(planner.view)))
    try:
        planner.send(models(5.0))
        while not planner.view.held:
            await planner.next_decision()
        before = planner.view
        assert before.held == {"a": planned_rate(5.0, RateSettings())}, "not rounded for people"
        assert before.table == table("a")
        thread.gate.clear()
        thread.entered.clear()
        planner.send(models(50.0, 30.0, table("a", ms=0.5)))
        await asyncio.to_thread(thread.entered.wait, 30.0)
        assert planner.view is before, "the reorganiser has the new table already, what is read is the old one"
        seen.clear()
        thread.gate.set()
        while planner.view is before:
            await planner.next_decision()
        assert planner.view.table == table("a", ms=0.5)
        assert seen
        assert all(view is planner.view for view in seen), "orders are carried out with the state that they came from"
    finally:
        thread.gate.set()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_planner_that_fails_is_reported_and_the_next_event_is_decided_on() -> None:
    thread = Thread()
    thread.broken = True
    await thread.decide(models(5.0))
    assert thread.written.complaints == [("serving_plan", "no new serving plan: no idea")]
    assert thread.orders == []
    thread.broken = False
    await thread.decide(models(6.0, 30.0))
    assert thread.planner.view.plan is not None


async def test_an_order_that_fails_does_not_keep_the_others_from_being_carried_out() -> None:
    thread = Thread()
    done: list[str] = []

    def carry_out(order: r.Instruction) -> None:
        done.append(type(order).__name__)
        if isinstance(order, r.ReserveShare):
            raise WorkerFailed("no share")
        if isinstance(order, r.StartExecutor):
            raise OSError("no process")

    thread.carry_out = carry_out  # type: ignore[method-assign]
    await thread.decide(models(5.0))
    assert "RecordServingPlan" in done
    assert (WorkerFailed.code, "no share") in thread.written.complaints
    assert ("internal", "StartExecutor failed: no process") in thread.written.complaints


async def test_a_closed_one_takes_no_event() -> None:
    thread = Thread()
    assert thread.planner.idle
    thread.planner.close()
    thread.planner.send(models(5.0))
    assert thread.planner.idle


async def test_it_is_not_idle_while_an_event_is_decided_on() -> None:
    box = Thread()
    box.gate.clear()
    running = asyncio.create_task(box.planner.run(box.carry_out))
    box.planner.send(models(5.0))
    await asyncio.to_thread(box.entered.wait, 30.0)
    assert not box.planner.idle, "the queue is empty, but nothing is decided yet"
    box.gate.set()
    while not box.planner.idle:
        await box.planner.next_decision()
    assert box.planner.view.plan is not None
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

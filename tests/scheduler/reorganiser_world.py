"""A world for the reorganiser: a table, a simple planner, and executors that start, drain and die as ordered."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from edge.core.front_messages import Layout, ModelTraffic, ServedVersion, TrafficReport
from edge.core.oip import TensorSpec
from edge.core.serving import DeviceTable, Gpulet, ModelBatch, ServingPlan, ServingProblem
from scheduler.gpulets import reorganiser_events as r
from scheduler.gpulets.demand import Demand
from scheduler.gpulets.fitting import Capacity
from scheduler.gpulets.reorganiser import Reorganiser
from scheduler.gpulets.reorganiser_settings import ReorganiserSettings, ShareKindLimits

SHARES = tuple(range(5, 101, 5))
#: Work of one request, in device milliseconds.
WORK = {"a": 2.0, "b": 4.0, "c": 8.0, "d": 1.0}


def table(scale: float = 1.0) -> DeviceTable:
    """Speed is proportional to the share; batches of up to 4."""
    rows = {
        m: {p: tuple(scale * w * n * 100.0 / p for n in range(1, 5)) for p in SHARES} for m, w in WORK.items()
    }  # fmt: skip
    return DeviceTable("toy", rows, {})


def _fills_ms(batch: int, rate: float) -> float:
    return batch * 1000 / rate if rate else math.inf


def one_each(problem: ServingProblem, table: DeviceTable) -> ServingPlan:
    """A partition for each model: the smallest share and batch that hold rate and SLO."""
    gpulets = []
    for model in problem.models:
        found = next(
            (
                Gpulet(0, p / 100, duty, (ModelBatch(model.name, n),))
                for p in SHARES
                for n in range(1, 5)
                if (e := table.solo_ms(model.name, p, n)) <= (duty := min(model.slo_ms - e, _fills_ms(n, model.rate)))
            ),
            None,
        )
        if found is None:
            return ServingPlan(False, (), "one-each", (f"{model.name} does not fit",), (model.name,))
        gpulets.append(found)
    if sum(g.share for g in gpulets) > problem.capacity + 1e-9:
        return ServingPlan(False, (), "one-each", ("the shares do not fit",))
    return ServingPlan(True, tuple(gpulets), "one-each")


def together(problem: ServingProblem, table: DeviceTable) -> ServingPlan:
    """All models in one partition."""
    if not problem.models:
        return ServingPlan(True, (), "together")
    slo = min(m.slo_ms for m in problem.models)
    for p in SHARES:
        if p > 100 * problem.capacity + 1e-9:
            break
        for n in range(1, 5):
            busy = sum(table.solo_ms(m.name, p, n) for m in problem.models)
            duty = min(slo - busy, *(n * 1000 / m.rate for m in problem.models))
            if busy <= duty:
                parts = tuple(ModelBatch(m.name, n) for m in problem.models)
                return ServingPlan(True, (Gpulet(0, p / 100, duty, parts),), "together")
    return ServingPlan(False, (), "together", ("they do not fit together",))


def by_load(problem: ServingProblem, table: DeviceTable) -> ServingPlan:
    """Together while the load is small, apart when it is not: partitions change their models."""
    load = sum(m.rate * WORK[m.name] / 1000 for m in problem.models)
    first, second = (together, one_each) if load < 0.25 else (one_each, together)
    plan = first(problem, table)
    return plan if plan.schedulable else second(problem, table)


def version(model: str, number: int = 1, slo_ms: float = 200.0, priority: int = 0) -> ServedVersion:
    spec = TensorSpec("x", "FP32", (-1, 4))
    return ServedVersion(
        model, str(number), f"{model}/{number}", "identity", (spec,), (spec,), slo_ms, f"digest-{number}", priority
    )


def demand(model: str, rate: float = 10.0, number: int = 1, slo_ms: float = 200.0, priority: int = 0) -> Demand:
    return Demand(version(model, number, slo_ms, priority), rate, min(1.0, rate))


@dataclass
class Process:
    versions: dict[str, ServedVersion]
    share: float
    state: str = "starting"  # starting | connected | lost | stopping


@dataclass
class SimulatedServing:
    """Carries the instructions out and checks, at every instant, what must never happen."""

    reorganiser: Reorganiser
    at_s: float = 0.0
    processes: dict[str, Process] = field(default_factory=dict)
    layout: Layout | None = None
    layouts: list[Layout] = field(default_factory=list)
    reserved: float = 0.0
    said: list[r.Instruction] = field(default_factory=list)
    peak: float = 0.0
    live: bool = True

    @property
    def total(self) -> float:
        return sum(p.share for p in self.processes.values())

    @property
    def routed(self) -> set[str]:
        return set() if self.layout is None else {route.executor for route in self.layout.routes}

    def served(self) -> set[str]:
        """Models with a route to a partition that answers."""
        return {
            batch.model
            for route in (self.layout.routes if self.layout else ())
            if self.processes[route.executor].state == "connected"
            for batch in route.gpulet.models
        }

    def tell(self, make: Callable[..., r.Event], *args: object) -> list[r.Instruction]:
        """Hand an event in and carry out what it orders."""
        before, most = self.total, self.reorganiser.state.capacity.most
        wanted = set(self.reorganiser.demands.models)
        served = self.served()
        out = self.reorganiser.handle(make(self.at_s, *args))
        most = max(most, self.reorganiser.state.capacity.most)
        for instruction in out:
            self.carry_out(instruction)
            if self.live:
                assert self.total <= max(most, before) + 1e-6, f"{self.total} of {most} after {instruction}"
            assert self.total <= self.reserved + 1e-6, f"{instruction} takes what cameras have"
        self.peak = max(self.peak, self.total)
        refused = set(self.reorganiser.state.refused)
        going_on = wanted & set(self.reorganiser.demands.models) & served - refused
        assert going_on <= self.served(), f"{going_on - self.served()} lost the only route"
        self.said += out
        return out

    def carry_out(self, order: r.Instruction) -> None:
        if isinstance(order, r.ReserveShare):
            self.reserved = order.share
        elif isinstance(order, r.StartExecutor):
            assert order.executor not in self.processes
            assert order.share > 0
            self.processes[order.executor] = Process({v.model: v for v in order.versions}, order.share)
        elif isinstance(order, r.ResizeExecutor):
            assert self.live
            self.processes[order.executor].share = order.share
        elif isinstance(order, r.SetLayout):
            assert self.layout is None or order.layout.number == self.layout.number + 1
            serving = {m.model: m for m in order.layout.models}
            for route in order.layout.routes:
                process = self.processes[route.executor]
                assert process.state in ("connected", "lost"), "a route to what was never warm"
                for batch in route.gpulet.models:
                    assert process.versions[batch.model].digest == serving[batch.model].digest
                    assert route.versions[batch.model] == serving[batch.model].version
            self.layout = order.layout
            self.layouts.append(order.layout)
        elif isinstance(order, r.TrimExecutor):
            named = {b.model for route in self.layout.routes for b in route.gpulet.models
                     if route.executor == order.executor} if self.layout else set()  # fmt: skip
            assert named <= {v.model for v in order.versions}, "a model with a route is let go of"
            self.processes[order.executor].versions = {v.model: v for v in order.versions}
        elif isinstance(order, r.StopExecutor):
            process = self.processes[order.executor]
            assert order.executor not in self.routed, "stopped with routes"
            process.state = "stopping"

    # -- what processes do

    def step(self, name: str) -> None:
        """One process comes a step further."""
        process = self.processes.get(name)
        if process is None:
            return
        if process.state == "stopping":
            del self.processes[name]
            self.tell(r.ExecutorStopped, name)
        elif process.state in ("starting", "lost"):
            process.state = "connected"
            self.tell(r.ExecutorReady, name)
        elif name not in self.routed:
            self.tell(r.ExecutorEmptied, name)

    def settle(self) -> None:
        """Until nothing changes any more."""
        for _ in range(60):
            before = (self.layout, {n: p.state for n, p in self.processes.items()})
            for name in list(self.processes):
                self.step(name)
            if before == (self.layout, {n: p.state for n, p in self.processes.items()}):
                return
        raise AssertionError(f"no rest: {self.processes}")

    def traffic(self, rates: dict[str, float], seconds: float = 1.0, violated: dict[str, int] | None = None) -> None:
        """So many requests per second and model for a while, a report each second."""
        ends = self.at_s + seconds
        while self.at_s < ends - 1e-9:
            self.at_s += 1.0
            models = []
            for model, rate in rates.items():
                n, late = round(rate), (violated or {}).get(model, 0)
                models.append(ModelTraffic(model, n, n, late))
            number = 0 if self.layout is None else self.layout.number
            self.tell(r.TrafficMeasured, TrafficReport(self.at_s, 1.0, number, tuple(models), ()))


def world(
    plan: Callable[[ServingProblem, DeviceTable], ServingPlan] = one_each,
    capacity: float = 0.9,
    live: bool = True,
    known: bool = True,
    **settings: float,
) -> SimulatedServing:
    limits = ShareKindLimits(live=live, min_share=0.01)
    made = Reorganiser(
        plan,
        ReorganiserSettings(**settings),  # type: ignore[arg-type]
        Capacity(capacity, capacity),
        table() if known else None,
        limits,
    )
    return SimulatedServing(made, live=live)

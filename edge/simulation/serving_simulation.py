"""Served models under the appliance's own front, reorganiser and planner, in virtual time.

Everything that decides is the product's: the front with its queues, batches and deadlines (`edge.serving.front`), the
reorganiser that turns its reports into gpu-lets, the planner and the shares that it may take. Executors are simulated:
a batch takes as long as the device's table says for its size and share, beside its planned neighbours. With a
`true_table` it takes as long as that says, while plans reckon with the trace's: nothing watches live latencies here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from edge.core.errors import InvalidValue, MagpieError
from edge.core.front_messages import ExecutorConnected, ExecutorDrained, Layout, ServedVersion, TrafficReport
from edge.core.oip import InferRequest, Tensor, TensorSpec
from edge.core.serving import DeviceTable
from edge.core.shares import ShareCaps, ideal_caps
from edge.runtime.serving_demand import Offer
from edge.runtime.serving_models import OfferedModels
from edge.runtime.serving_planning import PlanningThread
from edge.runtime.serving_shares import ServingShares
from edge.runtime.serving_tables import DeviceTables
from edge.serving.front import Front
from edge.settings import ServingPlanning
from edge.simulation.serving_trace import ServedRecord, ServingTrace, arrivals
from edge.simulation.simulated_executor import SimulatedExecutor
from edge.simulation.virtual_time import run_virtual
from scheduler.gpulets import reorganiser_events as r
from scheduler.gpulets.batching import DeadlineBatching
from scheduler.gpulets.fitting import Capacity
from scheduler.gpulets.follow import plan_function, reorganiser_settings
from scheduler.gpulets.reorganiser import Reorganiser
from scheduler.gpulets.reorganiser_settings import ShareKindLimits
from scheduler.gpulets.verdict import times
from scheduler.joint.split_policies import split_policy

#: The front reports so often, in seconds.
REPORT_S = 1.0
#: An executor is loaded and warm so many seconds after it was started, and gone so many after it was stopped. Those of
#: the first plan are there from the beginning: the box has been serving before.
START_S, STOP_S = 2.0, 0.2
#: Requests may end so long after the last one came, in objectives of the laxest model.
DRAIN = 3.0
_SPEC = TensorSpec("x", "FP32", (-1, 1))
_UTC_S = 1_700_000_000.0


class LoopClock:
    """The virtual time as the appliance's parts read it."""

    def __init__(self) -> None:
        self._time = asyncio.get_running_loop().time

    def monotonic(self) -> float:
        return self._time()

    def utc(self) -> float:
        return _UTC_S + self._time()

    def local_minute(self) -> int:
        return int(self.utc() // 60) % 1440


@dataclass
class IntervalCounts:
    """Requests of one model that arrived in one interval, by what became of them, and the milliseconds that the
    answered took."""

    arrived: int = 0
    within: int = 0
    late: int = 0
    lost: int = 0
    took_ms: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class ServedResult:
    """One model in one run. By interval: requests that arrived, those answered within the objective, those answered
    late, and those not answered (dropped, rejected, failed); p50 and p99 of the answered in ms (0: none was)."""

    model: str
    arrived: tuple[int, ...]
    within: tuple[int, ...]
    late: tuple[int, ...]
    lost: tuple[int, ...]
    p50_ms: tuple[float, ...]
    p99_ms: tuple[float, ...]

    @property
    def within_slo(self) -> float:
        """The part of all requests that were answered within the objective (1: there were none)."""
        return sum(self.within) / sum(self.arrived) if sum(self.arrived) else 1.0


@dataclass(frozen=True)
class ServingResult:
    """All models of one run. `share`: the mean share of the device that belonged to serving; `plans` that were made."""

    models: tuple[ServedResult, ...]
    share: float
    plans: int
    complaints: tuple[str, ...] = ()

    @property
    def within_slo(self) -> float:
        """The part of all requests of all models that were answered within their objective."""
        arrived = sum(sum(m.arrived) for m in self.models)
        return sum(sum(m.within) for m in self.models) / arrived if arrived else 1.0

    def to_json(self) -> dict[str, Any]:
        models = [vars(m) | {"within_slo": m.within_slo} for m in self.models]
        out = {"models": models, "share": self.share, "plans": self.plans, "within_slo": self.within_slo}
        return out | {"complaints": list(self.complaints)}


class ServingSimulation:
    """The served models of a box; made inside of a virtual loop. `reserve(share)` hears what belongs to serving. Has
    the parts of `edge.runtime.serving.ServingRuntime` that tenants' shares are decided by."""

    def __init__(
        self,
        trace: ServingTrace,
        planning: ServingPlanning,
        seed: int,
        caps: ShareCaps | None = None,
        reserve: Callable[[float], None] = lambda share: None,
        true_table: DeviceTable | None = None,
    ) -> None:
        self.trace, self.planning, self._seed = trace, planning, seed
        self._caps, self._reserve = caps or ideal_caps(), reserve
        planned_with = needed_table(trace)
        self._table = true_table or planned_with
        self._loop, clock = asyncio.get_running_loop(), LoopClock()
        self._complaints: list[str] = []
        self.planner = PlanningThread(self._reorganiser(), lambda code, words: self._complaints.append(words))
        send = self.planner.send
        self.tables = DeviceTables(Path(), self._caps, lambda code, words: self._complaints.append(words))
        self.tables.watched = False
        self.tables.use(planned_with)
        self.models = OfferedModels(self.tables, lambda: self.planning, clock, send)
        for record in trace.models:
            self.models.offers[record.name] = Offer(
                record.name, "offered", version=_version(record, record.arrived[0] / trace.interval_s)
            )
        self.shares = ServingShares(clock, send, self._reserved, lambda: self.planning)
        self.front: Any = SimpleNamespace(up=True)
        self._front = Front(
            DeadlineBatching(), self._of_front, lambda command: None, clock=clock.monotonic, wall=clock.utc
        )
        self._executors: dict[str, SimulatedExecutor] = {}
        self._counts = {m.name: [IntervalCounts() for _ in range(trace.intervals)] for m in trace.models}
        self._plans = 0
        self._share_s, self._share, self._since_s = 0.0, 0.0, 0.0

    def _reorganiser(self) -> Reorganiser:
        caps, planning = self._caps, self.planning
        return Reorganiser(
            plan_function(planning.policy), reorganiser_settings(planning), Capacity(0.0, 0.0), None,
            ShareKindLimits(caps.resize == "live", caps.min_share, caps.oversubscribe), split_policy(planning.split),
        )  # fmt: skip

    @property
    def warm_share(self) -> float:
        """As of `ServingRuntime`."""
        return max(reorganiser_settings(self.planning).warm_share, self._caps.min_share)

    # -- life

    async def run(self) -> ServingResult:
        """Play all intervals; `self.shares` must know the share that serving may take."""
        self.models.changed()
        background = [self._loop.create_task(w) for w in (self.planner.run(self._do), self._report_for_ever())]
        await asyncio.gather(*(self._client(m) for m in self.trace.models))
        await asyncio.sleep(DRAIN * max(m.slo_ms for m in self.trace.models) / 1000)
        for task in background:
            task.cancel()
        self._front.close()
        await asyncio.sleep(0)
        self._account()
        seconds = max(self._loop.time(), 1e-9)
        return ServingResult(
            tuple(_result(name, counts) for name, counts in self._counts.items()),
            self._share_s / seconds, self._plans, tuple(dict.fromkeys(self._complaints)),
        )  # fmt: skip

    async def _report_for_ever(self) -> None:
        reported = self.shares.budgets.after(self._traffic)
        while True:
            await asyncio.sleep(REPORT_S)
            reported(self._loop.time(), self._front.report())

    def _traffic(self, now: float, report: TrafficReport) -> None:
        self.planner.send(r.TrafficMeasured(now, report))

    # -- clients

    async def _client(self, model: ServedRecord) -> None:
        request = InferRequest(model.name, (Tensor("x", "FP32", np.zeros((1, 1), np.float32)),))
        asked: set[asyncio.Task[None]] = set()
        for interval, counts in enumerate(self._counts[model.name]):
            for at_s in arrivals(self.trace, model, interval, self._seed):
                await asyncio.sleep(at_s - self._loop.time())
                task = self._loop.create_task(self._ask(request, model.slo_ms, counts))
                asked.add(task)
                task.add_done_callback(asked.discard)
        end_s = self.trace.seconds
        await asyncio.sleep(max(0.0, end_s - self._loop.time()))

    async def _ask(self, request: InferRequest, slo_ms: float, counts: IntervalCounts) -> None:
        began_s = self._loop.time()
        counts.arrived += 1
        try:
            await self._front.infer(request)
        except MagpieError:
            counts.lost += 1
            return
        took_ms = 1000 * (self._loop.time() - began_s)
        counts.took_ms.append(took_ms)
        if took_ms <= slo_ms * (1 + 1e-6):
            counts.within += 1
        else:
            counts.late += 1

    # -- the reorganiser's instructions

    def _do(self, order: r.Instruction) -> None:
        match order:
            case r.ReserveShare():
                self.shares.hold(order.share)
            case r.StartExecutor():
                self._loop.call_later(START_S if self._loop.time() > 0 else 0.0, self._started, order)
            case r.SetLayout():
                self._route(order.layout)
            case r.StopExecutor():
                self._loop.call_later(STOP_S, self._stopped, order.executor)
            case r.RecordServingPlan():
                self._plans += 1
            case r.RefusedNote():
                self._complaints.append(order.refusal.words())
            case r.CappedNote():
                self._complaints.append(f"{order.model} is served at {100 * order.part:.0f} % of its rate")
            case _:
                pass  # shares of executors come with the layout; versions never change

    def _started(self, order: r.StartExecutor) -> None:
        keys = frozenset(v.key for v in order.versions)
        executor = SimulatedExecutor(order.executor, keys, {}, kept=False)
        self._executors[order.executor] = executor
        self._front.joined(executor)  # type: ignore[arg-type]

    def _stopped(self, name: str) -> None:
        executor = self._executors.pop(name, None)
        if executor is not None:
            executor.die()
        self.planner.send(r.ExecutorStopped(self._loop.time(), name))

    def _route(self, layout: Layout) -> None:
        gpulets = [route.gpulet for route in layout.routes]
        for route, timing in zip(layout.routes, times(self._table, gpulets), strict=True):
            executor = self._executors.get(route.executor)
            if executor is None:
                continue
            executor.took_ms = {
                part.model: [
                    factor * self._table.solo_ms(part.model, route.gpulet.percent, n) for n in range(1, part.batch + 1)
                ]
                for part, factor in zip(route.gpulet.models, timing.factors, strict=True)
            }
        self._front.apply(layout)

    def _of_front(self, event: object) -> None:
        now = self._loop.time()
        if isinstance(event, ExecutorConnected):
            self.planner.send(r.ExecutorReady(now, event.executor))
        elif isinstance(event, ExecutorDrained):
            self.planner.send(r.ExecutorEmptied(now, event.executor))

    # -- shares

    def _reserved(self, share: float) -> None:
        self._account()
        self._share = share
        self._reserve(share)

    def _account(self) -> None:
        now = self._loop.time()
        self._share_s += self._share * (now - self._since_s)
        self._since_s = now


def needed_table(trace: ServingTrace) -> DeviceTable:
    """The trace's table. Raises InvalidValue where it has none, or not of all models."""
    if trace.table is None:
        raise InvalidValue("serving.table", None, "a device table (gpulet-device/1): batches take as long as it says")
    for model in trace.models:
        if model.name not in trace.table.latency_ms:
            raise InvalidValue("serving.table.latency_ms", sorted(trace.table.latency_ms), f"rows of {model.name}")
    return trace.table


def simulate_serving(
    trace: ServingTrace, planning: ServingPlanning | None = None, *, seed: int = 0, capacity: float = 1.0
) -> ServingResult:
    """The served models alone on `capacity` of the device (0-1). Raises InvalidValue for a trace without a table."""

    async def work() -> ServingResult:
        simulation = ServingSimulation(trace, planning or ServingPlanning(), seed)
        simulation.shares.allow(capacity, capacity, simulation.planning)
        return await simulation.run()

    found = run_virtual(work())
    assert isinstance(found, ServingResult)
    return found


def _version(record: ServedRecord, first_rate: float) -> ServedVersion:
    specs = (_SPEC,)
    return ServedVersion(
        record.name, "1", "", "identity", specs, (TensorSpec("y", "FP32", (-1, 1)),), record.slo_ms,
        digest=record.name, priority=record.priority, rate=first_rate,
    )  # fmt: skip


def _result(name: str, counts: list[IntervalCounts]) -> ServedResult:
    def part(c: IntervalCounts, at: float) -> float:
        return round(float(np.quantile(c.took_ms, at)), 3) if c.took_ms else 0.0

    return ServedResult(
        name,
        tuple(c.arrived for c in counts),
        tuple(c.within for c in counts),
        tuple(c.late for c in counts),
        tuple(c.lost for c in counts),
        tuple(part(c, 0.5) for c in counts),
        tuple(part(c, 0.99) for c in counts),
    )

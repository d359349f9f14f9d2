"""Replays serving plans for pipelines in virtual time, by the front's own dispatcher: how late are requests from end to
end?

A stage's rows are asked of the front as soon as the stages before it have answered, all of a batch at once, with the
part of the time left that a stage may take at most (`Application.most_of_rest`). Executors are simulated: each batch
takes what the table says for its size, beside the planned neighbours. Two ways of feeding:

- "in turn": alike gpu-lets are a group, as `scheduler.gpulets.routes` tells the front.
- "pull": no groups, so each gpu-let takes what waits as soon as it is free.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from edge.core.applications import LENT, Application, ApplicationOutput, Feed, Stage, ValueSource
from edge.core.batching import Batching
from edge.core.errors import MagpieError
from edge.core.front_messages import Layout, Route, ServedVersion
from edge.core.oip import InferRequest, Tensor, TensorSpec
from edge.core.serving import DeviceTable, Gpulet, QueueId, ServingPlan
from edge.serving.front import Front
from edge.simulation.simulated_executor import Begun, SimulatedExecutor
from edge.simulation.virtual_time import run_virtual
from scheduler.gpulets.batching import DeadlineBatching
from scheduler.gpulets.queue_names import ONE_QUEUE_EACH, QueueNames
from scheduler.gpulets.routes import in_turn
from scheduler.gpulets.verdict import times
from scheduler.joint.demand import JointProblem, PipelineLoad
from scheduler.joint.law import joint_verdict
from scheduler.joint.shapes import model_budgets

REQUESTS = 1500
_EPS = 1e-9
_X, _Y = TensorSpec("x", "FP32", (-1, 1)), TensorSpec("y", "FP32", (-1, 1))


class SimulatedBox:
    """A front and simulated executors that hold a plan's gpu-lets; inside of an event loop. `slo_ms`: of each model;
    `planned_ms`: the latency within which each queue is planned to be answered, so alike gpu-lets begin in turn where
    that needs it. Stages of `applications` ask the queues that these name; `batching` are the front's rules."""

    def __init__(
        self,
        table: DeviceTable,
        gpulets: Sequence[Gpulet],
        slo_ms: Mapping[str, float],
        planned_ms: Mapping[QueueId, float],
        applications: tuple[Application, ...] = (),
        batching: Batching | None = None,
    ) -> None:
        self._asking = [None, *((a.name, s.name) for a in applications for s in a.stages)]
        clock = asyncio.get_running_loop().time
        self.front = Front(batching or DeadlineBatching(), lambda _: None, lambda _: None, clock=clock, wall=clock)
        versions = {m: ServedVersion(m, "1", "", "identity", (_X,), (_Y,), ms, depth=10**6) for m, ms in slo_ms.items()}
        self.executors = []
        routes = []
        for n, timing in enumerate(times(table, gpulets)):
            gpulet, name = timing.gpulet, f"executor-{n}"
            parts = list(zip(gpulet.models, timing.factors, timing.execution_ms, strict=True))
            routes.append(
                Route(name, gpulet, {p.model: "1" for p in gpulet.models}, {p.model: ms for p, _, ms in parts})
            )
            took = {
                p.model: [table.solo_ms(p.model, gpulet.percent, b) * factor for b in range(1, p.batch + 1)]
                for p, factor, _ in parts
            }
            self.executors.append(SimulatedExecutor(name, frozenset(versions[m].key for m in took), took))
        for executor in self.executors:
            self.front.joined(executor)  # type: ignore[arg-type]
        served = tuple(versions.values())
        self.front.apply(Layout(1, tuple(in_turn(routes, planned_ms)), served, applications=applications))

    async def ask(
        self, model: str, within_s: float = 0.0, rows: int = 1, asked_by: tuple[str, str] | None = None
    ) -> None:
        """One request of a client or a stage; 0: within the model's own objective. Raises DeadlineMissed,
        Unavailable."""
        array = np.zeros((rows, 1), np.float32)
        timeout_us = max(1, round(within_s * 1e6)) if within_s else 0
        inputs = (Tensor("x", "FP32", array),)
        await self.front.infer(InferRequest(model, inputs, timeout_us=timeout_us, asked_by=asked_by))

    async def taught(self) -> float:
        """Let the front see how long batches of each size take everywhere, one after the other, and forget what began
        so; the time when it is done. It guesses times that it has not seen."""
        most = {model: len(took_ms) for e in self.executors for model, took_ms in e.took_ms.items()}
        for model, batch in most.items():
            for rows in range(1, batch + 1):
                for asked_by in self._asking * len(self.executors):  # the one that began longest ago is asked first
                    await self.ask(model, rows=rows, asked_by=asked_by)
        for executor in self.executors:
            executor.begun.clear()
        return asyncio.get_running_loop().time()

    @property
    def begun(self) -> list[Begun]:
        """All batches in the order of their beginnings."""
        return sorted((b for e in self.executors for b in e.begun), key=lambda b: b.at_s)


def replayed(
    problem: JointProblem,
    table: DeviceTable,
    plan: ServingPlan,
    feeding: str,
    seed: int | None = None,
    names: QueueNames = ONE_QUEUE_EACH,
    lent: float = LENT,
    requests: int = REQUESTS,
) -> dict[str, float]:
    """Of all pipelines' requests: `late` the part that took longer than the objective (dropped ones, too), `worst` the
    longest time of those that were answered, in parts of the objective. Requests come evenly, or with `seed` by chance
    (Poisson). `names`: of the queues in `problem` and `plan`; the front gets them as queues of their models. `lent`:
    the part of the time kept for later stages that an earlier one may use. `requests`: of each pipeline."""
    late, worst, count = 0, 0.0, 0
    for pipeline, took_ms in run_virtual(
        _Replay(problem, table, plan, feeding == "in turn", names, lent).run(seed, requests)
    ):
        count += 1
        late += took_ms > pipeline.slo_ms * (1 + 1e-6)
        worst = max(worst, took_ms / pipeline.slo_ms if took_ms < math.inf else 0.0)
    return {"late": round(late / count, 5), "worst": round(worst, 4)}


class _Replay:
    def __init__(
        self,
        problem: JointProblem,
        table: DeviceTable,
        plan: ServingPlan,
        groups: bool,
        names: QueueNames,
        lent: float,
    ) -> None:
        self._lent = lent
        self._problem, self._table, self._names, self._plan = problem, table, names, names.plan(plan)
        budgets = model_budgets(problem, joint_verdict(problem, names.table(table), plan).worst_ms)
        waits = {names.queue(m): ms - problem.burst_ms[m] for m, ms in budgets.items()}
        self._planned_ms = waits if groups else {}
        self._parts = {p.name: _parts_of_rest(p, budgets) for p in problem.busy}

    async def run(self, seed: int | None, requests: int) -> list[tuple[PipelineLoad, float]]:
        """Each request's pipeline and the time that it took in ms; infinity: it was dropped."""
        slo_ms: dict[str, float] = {}
        for pipeline in self._problem.busy:
            for stage in pipeline.stages:
                model = self._names.queue(stage.model).model
                slo_ms[model] = max(slo_ms.get(model, 0.0), pipeline.slo_ms)
        applications = tuple(_application(p, self._names) for p in self._problem.busy)
        self._box = SimulatedBox(self._table, self._plan.gpulets, slo_ms, self._planned_ms, applications)
        clients = [self._client(p, seed, requests) for p in self._problem.busy]
        found = list(await asyncio.gather(*clients))
        self._box.front.close()
        return [one for some in found for one in some]

    async def _client(
        self, pipeline: PipelineLoad, seed: int | None, requests: int
    ) -> list[tuple[PipelineLoad, float]]:
        loop = asyncio.get_running_loop()
        asked = []
        for n, at_s in enumerate(_arrivals(pipeline, seed, requests)):
            await asyncio.sleep(max(0.0, at_s - loop.time()))
            asked.append(loop.create_task(self._request(pipeline, n)))
        return [(pipeline, took_ms) for took_ms in await asyncio.gather(*asked)]

    async def _request(self, pipeline: PipelineLoad, n: int) -> float:
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        deadline_s = began_s + pipeline.slo_ms / 1000
        done: dict[str, asyncio.Task[None]] = {}
        parts = self._parts[pipeline.name]
        stages = {s.name: s for s in pipeline.stages}

        async def run(name: str) -> None:
            stage = stages[name]
            for before in stage.after:
                await done[before]
            rows = int((n + 1) * stage.per_request + _EPS) - int(n * stage.per_request + _EPS)
            within_s = (deadline_s - loop.time()) * (parts[name] + self._lent * (1.0 - parts[name]))
            # Of what leaves nothing to the next stages' rounding nothing is made late.
            model, asked_by = self._names.queue(stage.model).model, (pipeline.name, name)
            asked = [self._box.ask(model, within_s + _EPS, asked_by=asked_by) for _ in range(rows)]
            await asyncio.gather(*asked)

        try:
            async with asyncio.TaskGroup() as group:
                for name in pipeline.order:
                    done[name] = group.create_task(run(name))
        except BaseExceptionGroup as errors:
            if errors.split(MagpieError)[1] is not None:
                raise
            return math.inf
        return (loop.time() - began_s) * 1000


def _application(pipeline: PipelineLoad, names: QueueNames) -> Application:
    """As the front knows it: the queue that each stage asks."""
    queues = {s.name: names.queue(s.model) for s in pipeline.stages}
    stages = tuple(Stage(name, queue.model, {"x": Feed(ValueSource(None, "x"))}) for name, queue in queues.items())
    output = ApplicationOutput(_Y, ValueSource(stages[0].name, "y"))
    numbers = {name: queue.number for name, queue in queues.items() if queue.number}
    return Application(pipeline.name, pipeline.slo_ms, (_X,), (output,), stages, queues=numbers)


def _arrivals(pipeline: PipelineLoad, seed: int | None, requests: int) -> Iterator[float]:
    """Seconds."""
    chance, at_s = random.Random(f"{pipeline.name} {seed}"), 0.0
    for n in range(requests):
        yield n / pipeline.rate if seed is None else at_s
        at_s += chance.expovariate(pipeline.rate)


def _parts_of_rest(pipeline: PipelineLoad, budgets: Mapping[str, float]) -> dict[str, float]:
    """Stage -> the part of the time left that it gets: its budget over the longest sum of budgets from it to an end."""
    rest: dict[str, float] = {}
    for stage in reversed([next(s for s in pipeline.stages if s.name == name) for name in pipeline.order]):
        behind = (rest[s.name] for s in pipeline.stages if stage.name in s.after)
        rest[stage.name] = budgets[stage.model] + max(behind, default=0.0)
    return {s.name: budgets[s.model] / rest[s.name] for s in pipeline.stages}

"""A front with executors that a test holds in its hands: the real link and arena, models of a few lines."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.waiting import PATIENCE_S
from edge.core.applications import Application, ApplicationOutput, Feed, Stage, ValueSource
from edge.core.errors import MagpieError
from edge.core.front_messages import ExecutorConnected, Layout, RepositoryCommand, Route, ServedVersion
from edge.core.oip import InferRequest, Tensor, TensorSpec
from edge.core.serving import Gpulet, ModelBatch
from edge.serving.arena import ArenaFull
from edge.serving.executor_link import ExecutorLink, needed_room
from edge.serving.front import Front
from edge.serving.front_server import FrontServer
from edge.serving.lanes import Served
from edge.serving.link_messages import Batch, Done, Failed, LinkLost, Times
from edge.serving.queues import DEFAULT_LEVEL, Pending
from edge.serving.requests import check
from edge.serving.statistics import ModelCounts, VersionStatistics
from scheduler.gpulets.batching import DeadlineBatching

Answer = Callable[[Batch, dict[str, NDArray[Any]]], Sequence[Tensor]]


def version(
    model: str = "m",
    number: str = "1",
    slo_ms: float = 10_000.0,
    inputs: Sequence[TensorSpec] = (TensorSpec("x", "FP32", (-1, 4)),),
    outputs: Sequence[TensorSpec] = (TensorSpec("y", "FP32", (-1, 4)),),
    **more: Any,
) -> ServedVersion:
    return ServedVersion(model, number, "", "identity", tuple(inputs), tuple(outputs), slo_ms, **more)


def route(
    executor: str, *models: tuple[ServedVersion, int], batch_ms: float = 1.0, share: float = 0.5, queue: int = 0
) -> Route:
    """`queue`: of the first model."""
    parts = tuple(ModelBatch(v.model, batch, 0 if n else queue) for n, (v, batch) in enumerate(models))
    gpulet = Gpulet(0, share, 10.0, parts)
    return Route(executor, gpulet, {v.model: v.version for v, _ in models}, {v.model: batch_ms for v, _ in models})


def asking(queue: int, name: str = "app", model: str = "m") -> Application:
    """An application of one stage, "ask", which asks this queue of the model."""
    x, y = TensorSpec("x", "FP32", (-1, 4)), TensorSpec("y", "FP32", (-1, 4))
    stage = Stage("ask", model, {"x": Feed(ValueSource(None, "x"))})
    output = ApplicationOutput(y, ValueSource("ask", "y"))
    return Application(name, 10_000.0, (x,), (output,), (stage,), queues={"ask": queue} if queue else {})


def request(value: float = 0.0, rows: int = 1, model: str = "m", width: int = 4, **more: Any) -> InferRequest:
    array = np.full((rows, width), value, np.float32) + np.arange(rows, dtype=np.float32)[:, None]
    return InferRequest(model, (Tensor("x", "FP32", array),), **more)


def pending(
    served: Served,
    value: float = 0.0,
    rows: int = 1,
    within_s: float = 10.0,
    level: int = DEFAULT_LEVEL,
    number: int = 0,
    **more: Any,
) -> Pending:
    """A request that came at 0 s, as the front hands it to the dispatcher; inside of an event loop."""
    asked = check(served.version, request(value, rows, **more))
    served.counts.arrived += 1
    future = asyncio.get_running_loop().create_future()
    return Pending(asked, 16 * rows, 0.0, within_s, level, number, future, served.queue)


def served(of: ServedVersion | None = None) -> Served:
    """A version with counts of its own and no lanes."""
    v = version() if of is None else of
    return Served(v, ModelCounts(v.model), VersionStatistics(v.model, v.version))


def doubled(batch: Batch, inputs: dict[str, NDArray[Any]]) -> Sequence[Tensor]:
    """y = 2 x."""
    return (Tensor("y", "FP32", inputs["x"] * 2),)


class HeldExecutor(threading.Thread):
    """Runs batches by `answer`, each only when `allow` has been called for it (`held`), or at once."""

    def __init__(self, path: Path, name: str, models: Sequence[ServedVersion], answer: Answer, held: bool) -> None:
        super().__init__(name=name, daemon=True)
        self.executor, self.held = name, held
        self._link = ExecutorLink.connect(path, name, f"token of {name}", [v.key for v in models])
        self._answer = answer
        self._allowed = threading.Semaphore(0)
        self._ending = False
        self.batches: list[Batch] = []
        self.start()

    def allow(self, batches: int = 1) -> None:
        """Let so many batches run."""
        self._allowed.release(batches)

    def release(self) -> None:
        """Hold nothing any more."""
        self.held = False
        self._allowed.release(1000)

    def die(self) -> None:
        """Close the connection, as a killed process does."""
        self._ending = True
        with contextlib.suppress(OSError):
            self._link._socket.shutdown(2)
        self._allowed.release(1000)

    def run(self) -> None:
        try:
            while not self._ending:
                batch = self._link.receive(0.5)
                if batch is None:
                    continue
                self.batches.append(batch)
                if self.held:
                    self._allowed.acquire()
                if self._ending:
                    return
                self._link.send(self._run(batch))
        except LinkLost:
            return
        finally:
            self._link.close()

    def _run(self, batch: Batch) -> Done | Failed:
        outputs: Sequence[Tensor] = ()
        try:
            outputs = self._answer(batch, self._link.inputs(batch))
            return Done(batch.number, self._link.place(batch, outputs), Times(0.0, 0.0, 0.001, 0.0))
        except ArenaFull as error:
            return Failed(batch.number, "output_too_large", str(error), needed_room(outputs))
        except (MagpieError, ValueError) as error:
            return Failed(batch.number, "model_failed", str(error))


class Site:
    """A front on a socket, its executors, and what it said."""

    def __init__(self, path: Path, arena_bytes: int, max_queued_bytes: int, clock: Callable[[], float]) -> None:
        self.path = path
        self.events: list[Any] = []
        self.commands: list[RepositoryCommand] = []
        self.front = Front(DeadlineBatching(), self.events.append, self.commands.append, max_queued_bytes, clock)
        self.server = FrontServer(path, self.front.joined, arena_bytes)
        self.executors: list[HeldExecutor] = []
        self._layouts = 0

    async def executor(
        self, name: str, *models: ServedVersion, answer: Answer = doubled, held: bool = False
    ) -> HeldExecutor:
        """Start one and wait until the front knows it."""
        before = self.said(ExecutorConnected, name)
        self.server.expect(name, f"token of {name}")
        made = await asyncio.to_thread(HeldExecutor, self.path, name, models, answer, held)
        self.executors.append(made)
        await until(lambda: self.said(ExecutorConnected, name) > before)
        return made

    def layout(self, *routes: Route, models: Sequence[ServedVersion], **more: Any) -> Layout:
        """Put these routes in force."""
        self._layouts += 1
        made = Layout(self._layouts, routes, tuple(models), **more)
        self.front.apply(made)
        return made

    def said(self, kind: type, executor: str) -> int:
        """How often the front said so of an executor."""
        return sum(isinstance(e, kind) and e.executor == executor for e in self.events)


@asynccontextmanager
async def site(
    folder: Path,
    arena_bytes: int = 2**20,
    max_queued_bytes: int = 2**26,
    clock: Callable[[], float] = time.monotonic,
) -> AsyncIterator[Site]:
    made = Site(folder / "front.sock", arena_bytes, max_queued_bytes, clock)
    await made.server.start()
    try:
        yield made
    finally:
        made.front.close()
        await made.server.stop()
        for executor in made.executors:
            executor.die()
            await asyncio.to_thread(executor.join, 5.0)


async def until(happened: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
    """Wait for something that is about to happen."""
    async with asyncio.timeout(seconds):
        while not happened():
            await asyncio.sleep(0.002)

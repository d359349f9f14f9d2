"""Values for tests of the serving runtime's parts: versions, tables, layouts, and a supervisor that only writes
down."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from edge.core.applications import Application, ApplicationOutput, Feed, Stage, ValueSource
from edge.core.front_messages import Layout, Route, ServedVersion
from edge.core.oip import TensorSpec
from edge.core.serving import DeviceTable, Gpulet, ModelBatch
from edge.core.shares import ShareCaps
from edge.core.workers import Worker

CAPS = ShareCaps("coop", "cpu", "cap", "live", 0.01, 0.01, 2.0, True, False, "worker")
SHARES = (10, 20, 50)


def version(model: str, number: str = "1", **more: Any) -> ServedVersion:
    specs = (TensorSpec("x", "FP32", (-1, 4)),)
    return ServedVersion(model, number, f"/models/{model}/{number}", "identity", specs, specs, 100.0, **more)


def table(*models: str, ms: float = 1.0) -> DeviceTable:
    """A request costs `ms` on the whole device; batches of up to 2."""
    rows = {share: (ms * 100 / share, 2 * ms * 100 / share) for share in SHARES}
    return DeviceTable("toy", dict.fromkeys(models, rows), {})


def layout(*versions: ServedVersion, number: int = 1, share: float = 0.2, batch_ms: float = 5.0) -> Layout:
    """Each model alone on executor-0, executor-1, ..."""
    routes = tuple(
        Route(
            f"executor-{n}",
            Gpulet(0, share, 50.0, (ModelBatch(v.model, 1),)),
            {v.model: v.version},
            {v.model: batch_ms},
        )
        for n, v in enumerate(versions)
    )
    return Layout(number, routes, versions)


@dataclass
class Written:
    """A part's messages: events to the reorganiser, entries of the journal, complaints, work in the background."""

    events: list[Any] = field(default_factory=list)
    notes: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    complaints: list[tuple[str, str]] = field(default_factory=list)
    spawned: list[tuple[str, Any]] = field(default_factory=list)

    def note(self, kind: str, data: dict[str, Any]) -> None:
        self.notes.append((kind, data))

    def complain(self, code: str, message: str) -> None:
        self.complaints.append((code, message))

    def spawn(self, work: Any, name: str) -> None:
        self.spawned.append((name, work))

    async def finish(self) -> None:
        """Do all that was spawned."""
        while self.spawned:
            await self.spawned.pop(0)[1]


@dataclass
class Started:
    """How a worker was started."""

    share: float
    argument: Any
    on_message: Callable[[Any], None]
    more: dict[str, Any]


class Supervised:
    """A supervisor of workers that are never there: what is asked of them is written down."""

    def __init__(self) -> None:
        self.started: dict[str, Started] = {}
        self.sent: list[tuple[str, Any]] = []
        self.stopped: list[str] = []
        self.resized: list[tuple[str, float]] = []

    def start(self, worker: Worker, share: float, main: Any, argument: Any, on_message: Any, **more: Any) -> None:
        self.started[worker.name] = Started(share, argument, on_message, more)

    def send(self, name: str, message: Any) -> bool:
        self.sent.append((name, message))
        return name in self.started

    async def stop(self, name: str, drain_s: float = 0.0) -> None:
        self.stopped.append(name)

    def resize(self, name: str, share: float) -> None:
        self.resized.append((name, share))

    def ready(self, name: str) -> bool:
        return name in self.started and name not in self.stopped


def chained(*models: str, slo_ms: float = 100.0) -> Application:
    """An application in which each model reads the one before."""
    x = TensorSpec("x", "FP32", (-1, 4))
    stages = tuple(
        Stage(f"s{n}", m, {"x": Feed(ValueSource(f"s{n - 1}" if n else None, "x"))}) for n, m in enumerate(models)
    )
    return Application("app", slo_ms, (x,), (ApplicationOutput(x, ValueSource(f"s{len(models) - 1}", "x")),), stages)

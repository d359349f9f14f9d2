"""A serving runtime with its real front and executors, on models that echo what they get."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import tritonclient.http.aio as http
import yaml
from tritonclient.utils import InferenceServerException

from benchmarks.waiting import PATIENCE_S
from edge.commands.front_process import front_process
from edge.core.clock import SystemClock
from edge.core.serving import DeviceTable
from edge.runtime.serving import ServingRuntime
from edge.runtime.serving_cameras import CamerasNow
from edge.runtime.serving_status import ExecutorStatus
from edge.runtime.serving_tables import keep_table
from edge.runtime.supervisor import Patience, Supervisor
from edge.settings import ServingSettings
from edge.shares.cpu import CpuPartitioner

SHARES = (5, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100)


def echo(folder: Path, name: str, versions: tuple[str, ...] = ("1",), **more: Any) -> None:
    """A model that answers with its input: four numbers in a row."""
    tensor = {"datatype": "FP32", "shape": [-1, 4]}
    settings = {
        "platform": "identity",
        "inputs": [{"name": "x", **tensor}],
        "outputs": [{"name": "x", **tensor}],
        "slo_ms": 500.0,
        "rate": 5.0,
        "max_batch": 4,
    } | more
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "model.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    for version in versions:
        (folder / name / version).mkdir(exist_ok=True)


def lenet(folder: Path, name: str, version: str = "1", seed: int = 0, **more: Any) -> None:
    """A real network with random weights."""
    import torch
    from safetensors.torch import save_file

    from edge.serving.architectures import build_architecture

    settings = {
        "platform": "builtin", "architecture": "lenet", "num_classes": 10, "slo_ms": 500.0, "max_batch": 4, "rate": 5.0,
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 1, 28, 28]}],
        "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 10]}],
    } | more  # fmt: skip
    (folder / name / version).mkdir(parents=True, exist_ok=True)
    (folder / name / "model.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    torch.manual_seed(seed)
    state = {k: v.contiguous() for k, v in build_architecture("lenet", 10).state_dict().items()}
    save_file(state, folder / name / version / "model.safetensors")


def table(folder: Path, *models: str, work_ms: float = 2.0) -> Path:
    """Latencies as if each request cost `work_ms` on the whole device."""
    rows = {m: {p: tuple(work_ms * n * 100 / p for n in range(1, 5)) for p in SHARES} for m in models}
    path = folder / f"{'-'.join(models)}.json"
    keep_table(path, DeviceTable("toy", rows, {}))
    return path


@dataclass
class Served:
    """A running serving runtime, and all its messages."""

    runtime: ServingRuntime
    supervisor: Supervisor
    cameras: list[CamerasNow]
    notes: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    complaints: list[tuple[str, str]] = field(default_factory=list)
    reserved: list[float] = field(default_factory=list)

    @property
    def url(self) -> str:
        assert self.runtime.front.listening is not None
        return f"127.0.0.1:{self.runtime.front.listening.http_port}"

    def state(self, model: str) -> str:
        found = [m.state for m in self.runtime.status().models if m.name == model]
        return found[0] if found else "unknown"

    def executors(self) -> tuple[ExecutorStatus, ...]:
        return self.runtime.status().executors

    async def until(self, condition: Callable[[], object], what: str, timeout_s: float = PATIENCE_S) -> float:
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > timeout_s:
                raise AssertionError(f"not within {timeout_s:g} s: {what}; {self.notes[-8:]}; {self.complaints[-4:]}")
            await asyncio.sleep(0.02)
        return time.monotonic() - began

    async def serving(self, *models: str) -> None:
        await self.until(
            lambda: all(self.state(m) == "serving" for m in models) and not self.runtime.planner.view.in_flight,
            f"{', '.join(models)} serve",
        )
        # The front was sent the routes; a client is answered once it has put them in force.
        async with self.client() as client, asyncio.timeout(PATIENCE_S):
            while not all([await client.is_model_ready(model) for model in models]):
                await asyncio.sleep(0.02)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[Any]:
        client = http.InferenceServerClient(self.url)
        try:
            yield client
        finally:
            await client.close()

    async def ask(self, client: Any, model: str, value: float = 1.0, shape: tuple[int, ...] = (1, 4)) -> Any:
        """One request to an echoing model; the answer, and the version that answered."""
        tensor = http.InferInput("x", list(shape), "FP32")
        tensor.set_data_from_numpy(np.full(shape, value, np.float32))
        result = await client.infer(model, [tensor])
        return float(result.as_numpy("x")[0, 0]), result.get_response()["model_version"]

    async def refused(self, client: Any, model: str, words: str, shape: tuple[int, ...] = (1, 4)) -> None:
        """Clients get an error with these words, as soon as the front knows."""
        ends = time.monotonic() + PATIENCE_S
        while time.monotonic() < ends:
            try:
                tensor = http.InferInput("x", list(shape), "FP32")
                tensor.set_data_from_numpy(np.zeros(shape, np.float32))
                await client.infer(model, [tensor])
            except InferenceServerException as error:
                if words not in str(error):
                    raise AssertionError(f"refused with {error}, not with {words!r}") from error
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"{model} goes on answering")


@asynccontextmanager
async def served(
    data: Path,
    models: Path,
    partitioner: CpuPartitioner,
    tables: tuple[Path, ...] = (),
    memory_limit_bytes: int | None = None,
    **more: Any,
) -> AsyncIterator[Served]:
    """Everything but cameras is real."""
    events: list[tuple[str, dict[str, Any]]] = []
    complaints: list[tuple[str, str]] = []
    supervisor = Supervisor(
        partitioner,
        SystemClock(),
        lambda kind, about: events.append((kind, about)),
        Patience(20.0, 60.0, 0.05, (0.0, 0.02, 0.04)),
        memory_limit_bytes=memory_limit_bytes,
    )
    supervisor.open()
    settings = ServingSettings.model_validate(
        {
            "folder": str(models),
            "http": {"port": 0},
            "grpc": {"port": 0},
            "tables": [str(t) for t in tables],
            "measure": False,
        }
        | more
    )
    cameras = [CamerasNow(0.9)]
    reserved: list[float] = []
    runtime = ServingRuntime(
        settings, data, supervisor, partitioner.caps, SystemClock(), front_process, lambda: cameras[-1],
        reserved.append, lambda kind, data: events.append((kind, json.loads(json.dumps(data)))),
        lambda code, message: complaints.append((code, message)),
    )  # fmt: skip
    made = Served(runtime, supervisor, cameras, events, complaints, reserved)
    try:
        await runtime.open()
        yield made
    finally:
        await runtime.close()
        await supervisor.close(1.0)

"""The front with real executor processes and real networks: answers, bad requests, kill -9, a switch under load."""

from __future__ import annotations

import asyncio
import os
import signal
import warnings
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from front_kit import Site, request, route, site, until

from edge.core.errors import Unavailable
from edge.core.front_messages import ExecutorConnected, ExecutorDrained, ExecutorGone, ServedVersion
from edge.core.oip import TensorSpec
from edge.core.shares import LaunchSpec
from edge.runtime.executor_worker import ExecutorSpec, executor_worker
from edge.runtime.process import WorkerProcess

X, Y = (TensorSpec("x", "FP32", (-1, 4)),), (TensorSpec("y", "FP32", (-1, 4)),)


class Times(torch.nn.Module):
    """So many times its input; which must not be negative."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if float(x.min()) < 0.0:
            raise ValueError("no negative numbers")
        return x * self.factor


def network(folder: Path, model: str, factor: float) -> ServedVersion:
    folder = folder / model
    folder.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(Times(factor)).save(str(folder / "model.pt"))
    return ServedVersion(model, "1", str(folder), "torchscript", X, Y, 20_000.0, max_batch=8, file="model.pt")


class Processes:
    """A front and executor processes."""

    def __init__(self, of: Site) -> None:
        self.site = of
        self.running: dict[str, WorkerProcess] = {}

    async def start(self, name: str, *versions: ServedVersion) -> WorkerProcess:
        before = self.site.said(ExecutorConnected, name)
        self.site.server.expect(name, f"token of {name}")
        spec = ExecutorSpec(name, str(self.site.path), f"token of {name}", versions)
        made = await asyncio.to_thread(
            WorkerProcess, name, executor_worker, spec, LaunchSpec(), lambda m: None, lambda c: None
        )
        self.running[name] = made
        await until(lambda: self.site.said(ExecutorConnected, name) > before)
        return made


@pytest.fixture
async def processes(tmp_path: Path) -> AsyncIterator[Processes]:
    async with site(tmp_path) as s:
        made = Processes(s)
        try:
            yield made
        finally:
            for process in made.running.values():
                process.kill()
            for process in made.running.values():
                await asyncio.to_thread(process.join, 10.0)


async def test_an_executor_that_is_killed_fails_its_own_requests_only(processes: Processes, tmp_path: Path) -> None:
    s = processes.site
    two, three = network(tmp_path, "two", 2.0), network(tmp_path, "three", 3.0)
    doomed = await processes.start("doomed", two)
    await processes.start("fine", three)
    s.layout(route("doomed", (two, 8)), route("fine", (three, 8)), models=[two, three])
    assert (await s.front.infer(request(5.0, model="two"))).outputs[0].array[0, 0] == 10.0
    outcomes = {"answered": 0, "failed": 0}
    stopped = False

    async def client(model: str, factor: float) -> None:
        while not stopped:
            try:
                answer = await s.front.infer(request(5.0, model=model))
                assert answer.outputs[0].array[0, 0] == 5.0 * factor
                outcomes["answered"] += model == "three"
            except Unavailable:
                assert model == "two"
                outcomes["failed"] += 1
                await asyncio.sleep(0.01)

    clients = [asyncio.create_task(client(m, f)) for m, f in (("two", 2.0), ("three", 3.0)) for _ in range(8)]
    await until(lambda: outcomes["answered"] > 20)
    os.kill(doomed.pid, signal.SIGKILL)
    await until(lambda: s.said(ExecutorGone, "doomed") == 1 and outcomes["failed"] > 0)
    seen = outcomes["answered"]
    await until(lambda: outcomes["answered"] > seen + 20)
    await processes.start("doomed", two)
    assert (await s.front.infer(request(5.0, model="two"))).outputs[0].array[0, 0] == 10.0
    stopped = True
    await asyncio.gather(*clients)
    reports = {m.model: m for m in s.front.report().models}
    assert reports["three"].violations == 0
    assert reports["two"].failed == outcomes["failed"]


@pytest.mark.parametrize("group", ["", "in turn"])
async def test_killed_beside_another_nothing_fails_and_a_bad_request_fails_alone(
    processes: Processes, tmp_path: Path, group: str
) -> None:
    s = processes.site
    two = network(tmp_path, "two", 2.0)
    one = await processes.start("one", two)
    await processes.start("other", two)
    s.layout(*(replace(route(name, (two, 4)), group=group) for name in ("one", "other")), models=[two])
    stopped, answered, refused, reasons = False, 0, 0, set()

    async def client(value: float) -> None:
        nonlocal answered, refused
        while not stopped:
            try:
                answer = await s.front.infer(request(value, model="two"))
                assert answer.outputs[0].array[0, 0] == 2 * value
                answered += 1
            except Unavailable as error:
                reasons.add((value, "no negative numbers" in str(error) or str(error)))
                refused += 1

    clients = [asyncio.create_task(client(v)) for v in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, -1.0)]
    await until(lambda: answered > 50 and refused > 5)
    os.kill(one.pid, signal.SIGKILL)
    await until(lambda: s.said(ExecutorGone, "one") == 1)
    seen = answered
    await until(lambda: answered > seen + 50)
    # A third process takes over from the second under load, and no client notices.
    await processes.start("third", two)
    s.layout(route("third", (two, 4)), models=[two])
    await until(lambda: s.said(ExecutorDrained, "other") == 1)
    seen = answered
    await until(lambda: answered > seen + 50)
    stopped = True
    await asyncio.gather(*clients)
    report = s.front.report().models[0]
    assert reasons == {(-1.0, True)}
    assert (report.answered, report.failed) == (answered, refused)
    assert report.dropped == report.rejected == report.late == 0

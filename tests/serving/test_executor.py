"""Executors: real processes, real models, a real link; the front's end is in the test."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
import warnings
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from edge.core.errors import WorkerFailed
from edge.core.front_messages import ServedVersion
from edge.core.oip import Tensor, TensorSpec
from edge.core.shares import LaunchSpec
from edge.runtime.executor_worker import ExecutorSpec, SetVersions, VersionsLoaded, executor_worker
from edge.runtime.process import FAILED, Ready, Retire, Retired, Stop, TakeOver, WorkerError, WorkerProcess
from edge.serving.backends import Model
from edge.serving.execution import Execution, LoadedModels, load_versions
from edge.serving.front_link import BatchDone, BatchInput, FrontLink
from edge.serving.front_server import FrontServer
from edge.serving.link_messages import Batch, Failed, Placed
from edge.shares.coop import BucketFolder
from edge.shares.cpu import CpuPartitioner

ROW = (TensorSpec("x", "FP32", (-1, 4)),), (TensorSpec("y", "FP32", (-1, 4)),)


class Moody(torch.nn.Module):
    """Ten times its input; unless that is large or very small."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if float(x.max()) > 100.0:
            raise ValueError("too much")
        if float(x.max()) < -100.0:
            return torch.zeros([1 << 50])
        return x * 10.0


@pytest.fixture(scope="module")
def moody(tmp_path_factory: pytest.TempPathFactory) -> ServedVersion:
    folder = tmp_path_factory.mktemp("moody")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(Moody()).save(str(folder / "model.pt"))
    return ServedVersion("moody", "1", str(folder), "torchscript", *ROW, 50.0, max_batch=4, file="model.pt")


@pytest.fixture
def same(tmp_path: Path) -> ServedVersion:
    return ServedVersion("same", "1", str(tmp_path), "identity", *ROW, 50.0, max_batch=4)


class Rig:
    """A front's socket and the executors of a test."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.server: FrontServer | None = None
        self.links: list[FrontLink] = []
        self.answers: dict[int, Any] = {}
        self.changed: list[frozenset[str]] = []
        self.lost: list[tuple[int, ...]] = []
        self.said: list[Any] = []
        self.codes: list[int | None] = []
        self.processes: list[WorkerProcess] = []

    async def listen(self) -> None:
        self.server = FrontServer(self.path, self._came, arena_bytes=1 << 20)
        self.server.expect("e", "secret")
        await self.server.start()

    def start(
        self, *versions: ServedVersion, launch: LaunchSpec | None = None, standby: bool = False, **more: Any
    ) -> WorkerProcess:
        spec = ExecutorSpec("e", str(self.path), "secret", versions, **more)
        made = WorkerProcess(
            "e", executor_worker, spec, launch or LaunchSpec(), self.said.append, self.codes.append, standby=standby
        )
        self.processes.append(made)
        return made

    def _came(self, link: FrontLink) -> None:
        link.handler = self
        self.links.append(link)

    def batch_done(self, link: FrontLink, done: BatchDone) -> None:
        self.answers[done.number] = (done.outputs[0].array.copy(), done.times)
        link.release(done.number)

    def batch_failed(self, link: FrontLink, failed: Failed) -> None:
        self.answers[failed.number] = failed

    def models_changed(self, link: FrontLink) -> None:
        self.changed.append(link.models)

    def link_lost(self, link: FrontLink, outstanding: tuple[int, ...], reason: str) -> None:
        self.lost.append(outstanding)

    async def until(self, condition: Callable[[], Any], what: str = "") -> None:
        try:
            async with asyncio.timeout(60):
                while not condition():
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(f"{what}; said {self.said}, codes {self.codes}") from None

    async def connected(self, count: int = 1) -> FrontLink:
        await self.until(lambda: len(self.links) == count, "an executor connects")
        return self.links[-1]

    def send(self, value: float, version: ServedVersion, rows: int = 2, room: int = 256) -> int:
        array = np.full((rows, 4), value, np.float32)
        return self.links[-1].send(version.model, version.version, [BatchInput("x", "FP32", [array])], room)

    async def ask(self, value: float, version: ServedVersion, rows: int = 2, room: int = 256) -> Any:
        number = self.send(value, version, rows, room)
        await self.until(lambda: number in self.answers, "an answer")
        return self.answers[number]

    def of(self, kind: type) -> list[Any]:
        return [s for s in self.said if isinstance(s, kind)]


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[Rig]:
    made = Rig(tmp_path / "front.sock")
    await made.listen()
    yield made
    for process in made.processes:
        process.kill()
    for process in made.processes:
        await asyncio.to_thread(process.join, 10.0)
    assert made.server is not None
    await made.server.stop()


async def test_batches_are_run_in_order_and_charged(
    rig: Rig, moody: ServedVersion, same: ServedVersion, tmp_path: Path
) -> None:
    (tmp_path / "buckets").mkdir()
    buckets = BucketFolder(tmp_path / "buckets")
    partitioner = CpuPartitioner(2.0, None, buckets)
    process = rig.start(moody, same, launch=partitioner.launch_spec("e", "inference", 0.5))
    await rig.until(lambda: process.pid, "it is there")
    partitioner.attach("e", "inference", process.pid, 0.5)
    link = await rig.connected()
    await rig.until(lambda: rig.of(Ready), "it says so")
    assert rig.of(VersionsLoaded)[0].loaded == ("moody/1", "same/1")
    assert link.models == {"moody/1", "same/1"}
    numbers = [rig.send(n, moody if n % 2 else same, rows=1 + n % 4) for n in range(12)]
    await rig.until(lambda: len(rig.answers) == 12, "twelve answers")
    assert list(rig.answers) == numbers
    for n, number in enumerate(numbers):
        array, times = rig.answers[number]
        assert array.tolist() == [[n * 10.0 if n % 2 else n] * 4] * (1 + n % 4)
        assert times.infer_s > 0
    assert link.arena.blocks == 0
    assert buckets.open("e").counters().batches == 12
    process.send(Stop())
    await rig.until(lambda: rig.codes, "it ends")
    await rig.until(lambda: rig.codes == [0], "the first one ends")
    partitioner.close()


async def test_what_a_model_does_wrong_fails_its_batch_and_no_other(
    rig: Rig, moody: ServedVersion, same: ServedVersion
) -> None:
    rig.start(moody, same)
    await rig.connected()
    numbers = [rig.send(v, moody) for v in (1.0, 200.0, -200.0, 2.0)]
    await rig.until(lambda: len(rig.answers) == 4, "four answers")
    first, raised, exhausted, last = (rig.answers[n] for n in numbers)
    assert (first[0][0, 0], last[0][0, 0]) == (10.0, 20.0)
    assert (raised.code, exhausted.code) == ("model_failed", "out_of_memory")
    assert "too much" in raised.reason
    assert "ran out of memory" in exhausted.reason
    absent = await rig.ask(1.0, replace(same, version="7"))
    assert (absent.code, absent.reason) == ("not_found", "same/7 is not loaded in this executor")
    small = await rig.ask(1.0, same, rows=4, room=32)
    assert (small.code, small.needed_bytes) == ("output_too_large", 64)
    assert (await rig.ask(3.0, same, rows=4, room=small.needed_bytes))[0].tolist() == [[3.0] * 4] * 4
    number = rig.links[0].send("moody", "1", [BatchInput("other", "FP32", [np.ones((1, 4), np.float32)])], 64)
    await rig.until(lambda: number in rig.answers, "an answer")
    assert rig.answers[number].code == "invalid_value"


async def test_versions_change_while_it_serves(rig: Rig, moody: ServedVersion, same: ServedVersion) -> None:
    process = rig.start(same)
    await rig.connected()
    newer = replace(same, version="2")
    damaged = replace(moody, version="3", digest="of something else")
    process.send(SetVersions((same, newer, damaged)))
    while not rig.changed:
        assert (await rig.ask(1.0, same))[0][0, 0] == 1.0
    assert rig.changed == [{"same/1", "same/2"}]
    # Clients' link and the supervisor's channel are two: either may be first.
    await rig.until(lambda: len(rig.of(VersionsLoaded)) == 2, "what could not be loaded is said")
    (said,) = rig.of(VersionsLoaded)[1:]
    assert said.loaded == ("same/1", "same/2")
    (failed,) = said.failed
    assert (failed.model, failed.version) == ("moody", "3")
    assert "have changed" in failed.reason
    refused = await rig.ask(1.0, damaged)
    assert refused.code == "model_failed"
    assert "have changed" in refused.reason
    process.send(SetVersions((newer, moody)))
    await rig.until(lambda: len(rig.changed) == 2, "the next change")
    assert rig.changed[1] == {"same/2", "moody/1"}
    assert (await rig.ask(1.0, same)).code == "not_found"
    assert (await rig.ask(5.0, newer))[0][0, 0] == 5.0
    assert (await rig.ask(5.0, moody))[0][0, 0] == 50.0


async def test_a_front_that_was_away_is_found_again(rig: Rig, same: ServedVersion) -> None:
    process = rig.start(same)
    await rig.connected()
    assert rig.server is not None
    await rig.server.stop()
    await rig.until(lambda: rig.lost, "the link is lost")
    await rig.listen()
    link = await rig.connected(2)
    assert link.pid == process.pid
    assert (await rig.ask(4.0, same))[0][0, 0] == 4.0


async def test_without_a_front_it_ends_and_says_so(tmp_path: Path, same: ServedVersion) -> None:
    rig = Rig(tmp_path / "nobody.sock")
    process = rig.start(same, reconnect_s=0.1)
    await rig.until(lambda: rig.codes, "it ends")
    assert rig.codes == [FAILED]
    (error,) = rig.of(WorkerError)
    assert error.code == "unavailable"
    assert "executor e finds no serving front" in error.message
    await asyncio.to_thread(process.join, 10.0)


async def test_nothing_to_serve_is_an_error(rig: Rig, moody: ServedVersion) -> None:
    rig.start(replace(moody, file="gone.pt"))
    await rig.until(lambda: rig.codes, "it ends")
    (error,) = rig.of(WorkerError)
    assert error.code == "weights"
    assert "gone.pt cannot be read" in error.message
    assert not rig.links


async def test_kill_9_loses_its_own_batches_and_the_next_one_serves(rig: Rig, same: ServedVersion) -> None:
    process = rig.start(same)
    await rig.connected()
    os.kill(process.pid, signal.SIGSTOP)
    numbers = tuple(rig.send(1.0, same) for _ in range(3))
    os.kill(process.pid, signal.SIGKILL)
    await rig.until(lambda: rig.lost, "the link is lost")
    assert rig.lost == [numbers]
    assert not rig.answers
    rig.start(same)
    await rig.connected(2)
    assert (await rig.ask(2.0, same))[0][0, 0] == 2.0


async def test_one_that_stands_by_takes_over_without_a_lost_batch(rig: Rig, same: ServedVersion) -> None:
    first = rig.start(same)
    await rig.connected()
    second = rig.start(same, standby=True)
    await rig.until(lambda: len(rig.of(Ready)) == 2, "both are warm")
    assert len(rig.links) == 1
    number = rig.send(1.0, same)
    first.send(Retire())
    await rig.until(lambda: rig.of(Retired), "it retires")
    assert rig.changed == [frozenset()]  # send nothing more
    assert number in rig.answers
    rig.answers.clear()  # numbers are those of a link
    second.send(TakeOver(ExecutorSpec("e", str(rig.path), "secret", (same,))))
    link = await rig.connected(2)
    assert link.pid == second.pid
    assert rig.lost == [()]
    assert (await rig.ask(2.0, same))[0][0, 0] == 2.0
    await rig.until(lambda: rig.codes == [0], "the first one ends")


# -- the parts that need no process


class Free:
    """A share without a limit."""

    def __init__(self) -> None:
        self.batches = 0

    def batch(self, stop: Any = None) -> Any:
        self.batches += 1
        return contextlib.nullcontext(True)


class Wire:
    """The executor's end of a link that keeps what is said."""

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self.arrays = arrays
        self.said: list[Any] = []

    def inputs(self, batch: Batch) -> Mapping[str, Any]:
        return self.arrays

    def place(self, batch: Batch, outputs: list[Tensor]) -> tuple[Placed, ...]:
        return tuple(Placed(o.name, o.datatype, o.array.shape, 0, o.array.nbytes) for o in outputs)

    def send(self, message: Any) -> None:
        self.said.append(message)


def test_what_is_loaded_is_kept_and_only_what_changed_is_loaded(moody: ServedVersion, same: ServedVersion) -> None:
    share = Free()
    execution = Execution(share, "cpu")
    assert execution.missing((moody, same)) == (moody, same)
    loaded = load_versions((moody, same, replace(moody, version="2", platform="pickle")), "cpu")
    assert set(loaded.models) == {"moody/1", "same/1"}
    assert "platform: got 'pickle'" in loaded.failed["moody/2"]
    execution.replace((moody, same, replace(moody, version="2")), loaded)
    assert execution.keys == ("moody/1", "same/1")
    assert set(execution.failed) == {"moody/2"}
    assert execution.missing((moody, replace(same, digest="new"))) == (replace(same, digest="new"),)
    wire = Wire({"x": np.ones((1, 4), np.float32)})
    execution.run(wire, Batch(1, "moody", "1", 1, (), 0, 64))  # type: ignore[arg-type]
    execution.replace((same,), load_versions((), "cpu"))
    execution.run(wire, Batch(2, "moody", "1", 1, (), 0, 64))  # type: ignore[arg-type]
    assert [type(m).__name__ for m in wire.said] == ["Done", "Failed"]
    assert (execution.batches, execution.rows, execution.failures, share.batches) == (2, 2, 1, 2)
    assert time.perf_counter() > wire.said[0].times.infer_s > 0


class Broken:
    """Weights on a device that refuses this process."""

    weights_bytes = 0

    def __call__(self, inputs: Any) -> Any:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")


def test_a_device_that_refuses_the_process_ends_it_after_the_answer(same: ServedVersion) -> None:
    execution, wire = Execution(Free(), "cuda"), Wire({"x": np.ones((1, 4), np.float32)})
    execution.replace((same,), LoadedModels({same.key: Model(same, "cuda", Broken())}))
    with pytest.raises(WorkerFailed, match="the GPU refuses this process since same/1"):
        execution.run(wire, Batch(1, "same", "1", 1, (), 0, 64))  # type: ignore[arg-type]
    (failed,) = wire.said
    assert (failed.number, failed.code) == (1, "model_failed")


def test_a_model_that_only_says_so_ends_nothing(same: ServedVersion) -> None:
    execution, wire = Execution(Free(), "cpu"), Wire({"x": np.ones((1, 4), np.float32)})
    execution.replace((same,), LoadedModels({same.key: Model(same, "cpu", Broken())}))
    execution.run(wire, Batch(1, "same", "1", 1, (), 0, 64))  # type: ignore[arg-type]
    assert [type(m).__name__ for m in wire.said] == ["Failed"]

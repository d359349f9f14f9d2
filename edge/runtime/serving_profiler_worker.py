"""Worker main of the serving profiler: holds one model (or one stressor) under a share and runs its batches on order.

It runs them as an executor does: one thread, each batch inside `WorkerShare.batch`, through an executor's link and
shared memory (to itself), for those take their part of the share, too.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import psutil

from edge.core.errors import MagpieError
from edge.core.front_messages import ServedVersion
from edge.runtime.device import open_bucket
from edge.runtime.process import Channel, Retire, Stop, TakeOver
from edge.serving.profiling import Effort, Runs, repeat
from edge.serving.stressors import make_stressor

#: A frame that was sent to a socket of the same process is there at once.
_LINK_S = 5.0


@dataclass(frozen=True)
class Subject:
    """The worker's subject: a model version, or else the stressor of that name, for a last cache of `cache_bytes`
    (None: of the size that the machine tells)."""

    version: ServedVersion | None = None
    stressor: str = ""
    cache_bytes: int | None = None


@dataclass(frozen=True)
class RunBatches:
    """To the worker: run batches of this size for so long. A stressor has no batch."""

    number: int
    batch: int
    effort: Effort


@dataclass(frozen=True)
class SubjectLoaded:
    """The worker holds its subject, warm; `seconds` from its start."""

    seconds: float


@dataclass(frozen=True)
class BatchesRun:
    """The answer to a RunBatches: its runs and the memory in use (MB) beyond what the process had before the subject;
    or why there are none."""

    number: int
    runs: Runs | None
    memory_mb: float = 0.0
    error: str = ""


def serving_profiler_worker(channel: Channel, subject: Subject) -> None:
    """Loads the subject, says SubjectLoaded, answers each RunBatches with BatchesRun. Raises the MagpieError of a
    model that cannot be loaded."""
    began = time.monotonic()
    share = open_bucket()
    before = _memory_mb(share.device)
    with share.batch(channel.beating):
        runner = _runner(subject, share.device)
    for _ in range(2):
        with share.batch(channel.beating):
            runner(1)()
    channel.ready()
    channel.send(SubjectLoaded(time.monotonic() - began))
    while True:
        channel.beat()
        command = channel.receive(0.25)
        if isinstance(command, Stop):
            return
        if isinstance(command, Retire):
            channel.retired()
            return
        if command is None or isinstance(command, TakeOver):
            continue
        if isinstance(command, RunBatches):
            share.idle()
            try:
                with share.batch(channel.beating):
                    run = runner(command.batch)
                runs = repeat(run, share, command.effort, channel.beating)
                memory = max(0.0, _memory_mb(share.device) - before)
                channel.send(BatchesRun(command.number, runs, memory))
            except MagpieError as error:
                channel.send(BatchesRun(command.number, None, error=str(error)))


Run = Callable[[], float | None]


def _runner(subject: Subject, device: str) -> Callable[[int], Run]:
    """For a batch: the function that runs it once."""
    if subject.version is None:
        stressor = make_stressor(subject.stressor, device, subject.cache_bytes)

        def press() -> None:
            stressor.run()

        return lambda batch: press
    return _AsExecutor(subject.version, device).runner


class _Unpaced:
    """The share of an execution whose caller paces it."""

    def batch(self, stop: Callable[[], bool] | None = None) -> AbstractContextManager[bool]:
        return contextlib.nullcontext(True)


class _AsExecutor:
    """A model behind an executor's link whose other end is held here, too. Raises the error of one that cannot be
    loaded, or cannot run a batch of one."""

    def __init__(self, version: ServedVersion, device: str) -> None:
        from edge.serving.backends import load
        from edge.serving.execution import Execution, LoadedModels

        self._version = version
        self._model = load(version, device)
        self._execution = Execution(_Unpaced(), device)
        self._execution.replace((version,), LoadedModels({version.key: self._model}))
        self._link: Any = None
        self._front: Any = None

    def runner(self, batch: int) -> Run:
        """Puts example inputs into shared memory; the function sends the batch, runs it, and returns its seconds."""
        from edge.core.oip import DATATYPES, Tensor
        from edge.serving.arena import Arena, aligned, encoded_bytes
        from edge.serving.backends import ModelFailed, example_inputs
        from edge.serving.executor_link import ExecutorLink, needed_room
        from edge.serving.link_messages import Batch, Done, Placed, decode, encode

        self.close()
        version = self._version
        inputs = example_inputs(version, batch)
        found = self._model.run(inputs)
        room = needed_room([Tensor(s.name, s.datatype, found[s.name]) for s in version.outputs])
        sizes = [
            encoded_bytes(inputs[s.name])
            if s.datatype == "BYTES"
            else inputs[s.name].size * DATATYPES[s.datatype].itemsize
            for s in version.inputs
        ]
        arena = Arena(sum(aligned(size) for size in sizes) + aligned(room) + aligned(1))
        at, placed = 0, []
        for spec, size in zip(version.inputs, sizes, strict=True):
            arena.write(spec.datatype, inputs[spec.name], at, size)
            placed.append(Placed(spec.name, spec.datatype, inputs[spec.name].shape, at, size))
            at += aligned(size)
        frame = encode(Batch(1, version.model, version.version, batch, tuple(placed), at, aligned(room)))
        front, ours = socket.socketpair()
        link = self._link = ExecutorLink(ours, arena)
        self._front = front

        def run() -> float:
            front.sendall(frame)
            received = link.receive(_LINK_S)
            assert received is not None, "it was sent just now"
            self._execution.run(link, received)
            answer = decode(front.recv(65536)[4:])
            if not isinstance(answer, Done):
                raise ModelFailed(getattr(answer, "reason", "no answer"))
            return answer.times.busy_s

        return run

    def close(self) -> None:
        """Let go of the link and its memory. Safe to repeat."""
        if self._link is not None:
            self._front.close()
            self._link.close()
            self._link = self._front = None


def _memory_mb(device: str) -> float:
    """Memory in use by this process: its own on a CPU; the most that torch held, on a GPU."""
    if device != "cpu":
        import torch

        return float(torch.cuda.max_memory_allocated()) / 2**20 if torch.cuda.is_available() else 0.0
    info = psutil.Process(os.getpid()).memory_full_info()
    return float(getattr(info, "uss", info.rss)) / 2**20

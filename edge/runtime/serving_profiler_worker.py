"""Worker main of the serving profiler: holds one model (or one stressor) under a share and runs its batches on order.

It runs on the share exactly as an executor does: one thread, each batch inside `WorkerShare.batch`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psutil

from edge.core.errors import MagpieError
from edge.core.layout import ServedVersion
from edge.runtime.device import open_bucket
from edge.runtime.process import Channel, Retire, Stop, TakeOver
from edge.serving.profiling import Effort, Runs, repeat
from edge.serving.stressors import make_stressor


@dataclass(frozen=True)
class Subject:
    """What the worker runs: a model version, or else the stressor of that name."""

    version: ServedVersion | None = None
    stressor: str = ""


@dataclass(frozen=True)
class Sample:
    """To the worker: run batches of this size for so long. A stressor has no batch."""

    number: int
    batch: int
    effort: Effort


@dataclass(frozen=True)
class Loaded:
    """The worker holds its subject, warm; `seconds` from its start."""

    seconds: float


@dataclass(frozen=True)
class Sampled:
    """The answer to a Sample: its runs and the memory in use (MB) beyond what the process had before the subject;
    or why there are none."""

    number: int
    runs: Runs | None
    memory_mb: float = 0.0
    error: str = ""


def serving_profiler_worker(channel: Channel, subject: Subject) -> None:
    """Loads the subject, says Loaded, answers each Sample with Sampled. Raises the MagpieError of a model that cannot
    be loaded."""
    began = time.monotonic()
    share = open_bucket()
    before = _memory_mb(share.device)
    with share.batch(channel.beating):
        runner = _runner(subject, share.device)
    for _ in range(2):
        with share.batch(channel.beating):
            runner(1)()
    channel.ready()
    channel.send(Loaded(time.monotonic() - began))
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
        if isinstance(command, Sample):
            share.idle()
            try:
                runs = repeat(runner(command.batch), share, command.effort, channel.beating)
                memory = max(0.0, _memory_mb(share.device) - before)
                channel.send(Sampled(command.number, runs, memory))
            except MagpieError as error:
                channel.send(Sampled(command.number, None, error=str(error)))


def _runner(subject: Subject, device: str) -> Callable[[int], Callable[[], Any]]:
    """For a batch: the function that runs it once. Inputs are made once per batch, outside what is timed."""
    if subject.version is None:
        stressor = make_stressor(subject.stressor, device)
        return lambda batch: stressor.run
    from edge.serving.backends import example_inputs, load

    version = subject.version
    model = load(version, device)
    made: dict[int, dict[str, Any]] = {}

    def runner(batch: int) -> Callable[[], Any]:
        if batch not in made:
            made.clear()
            made[batch] = example_inputs(version, batch)
        inputs = made[batch]
        return lambda: model.run(inputs)

    return runner


def _memory_mb(device: str) -> float:
    """Memory in use by this process: its own on a CPU; the most that torch held, on a GPU."""
    if device != "cpu":
        import torch

        return float(torch.cuda.max_memory_allocated()) / 2**20 if torch.cuda.is_available() else 0.0
    info = psutil.Process(os.getpid()).memory_full_info()
    return float(getattr(info, "uss", info.rss)) / 2**20

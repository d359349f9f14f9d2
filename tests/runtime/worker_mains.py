"""Worker mains of tests: real processes that do next to nothing. Each loads the module that its main is in, so this one
loads little."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import signal
import sys
import time
from dataclasses import dataclass
from multiprocessing.forkserver import ensure_running
from pathlib import Path
from typing import Any

import numpy as np

from edge.core.errors import WeightsError
from edge.core.shares import LaunchSpec
from edge.runtime.messages import RetrainingJob
from edge.runtime.process import Beat, Channel, Retire, Stop, TakeOver, WorkerProcess


@dataclass(frozen=True)
class Said:
    """A worker's message to its test."""

    what: str
    value: Any = None


def obedient(channel: Channel, argument: Any) -> None:
    """Says who it is, beats, echoes every command, and does in particular what some words mean."""
    channel.send(Said("start", (os.getpid(), argument)))
    while True:
        channel.beat()
        order = channel.receive(0.02)
        if isinstance(order, Stop):
            channel.send(Said("stopped"))
            return
        if isinstance(order, Retire):
            channel.retired()
            return
        if order == "exit 3":
            os._exit(3)
        if order == "finish":
            return
        if order == "weights":
            raise WeightsError("no weights here")
        if order == "memory":
            raise MemoryError
        if order == "eat":
            eaten = []
            for _ in range(16):  # 64 MiB at a time, touched
                eaten.append(b"x" * 2**26)
                channel.beat()
            channel.send(Said("ate", sum(map(len, eaten))))
            while not isinstance(channel.receive(0.05), Stop):
                channel.beat()
            return
        if order == "gulp":
            channel.send(Said("ate", len(bytearray(4 * 2**30))))
        if order == "bug":
            raise ZeroDivisionError("one over nothing")
        if order == "environment":
            channel.send(Said("environment", dict(os.environ)))
        elif order == "deaf":
            while True:
                channel.beat()
                time.sleep(0.05)
        elif order == "silent":
            time.sleep(600)
        elif order == "busy":
            while True:
                pass
        elif order == "orphan pipe":
            # A child of the worker holds the pipe open when the worker is gone.
            if os.fork() == 0:
                time.sleep(60)
                os._exit(0)
            channel.send(Said("forked"))
            os._exit(0)
        elif order is not None:
            channel.send(Said("echo", order))


def loads_every_main(channel: Channel, argument: Any) -> None:
    """Loads the module of every real worker's main; says what of it the server of workers had not loaded."""
    loaded = set(sys.modules)
    from edge.runtime import mains

    for name in re.findall(r"from edge.runtime import (\w+) as worker", inspect.getsource(mains)):
        channel.send(Said("main", name))
        importlib.import_module(f"edge.runtime.{name}")
    channel.send(Said("loaded anew", sorted(set(sys.modules) - loaded - {"edge.runtime.mains"})))


def trains(channel: Channel, job: RetrainingJob) -> None:
    """A retraining; says at its end whether it loaded torch's compiler."""
    from edge.runtime.training_worker import training_worker

    training_worker(channel, job)
    channel.send(Said("compiler", "torch._dynamo" in sys.modules))


def crashes_at_once(channel: Channel, argument: Any) -> None:
    """Dies before its first word."""
    os._exit(9)


def mute(channel: Channel, argument: Any) -> None:
    """Never says a word."""
    time.sleep(600)


@dataclass(frozen=True)
class Frames:
    """A camera of numbers: one every `every_s` since `epoch_s` (monotonic; the same for all processes)."""

    log: Path
    epoch_s: float
    every_s: float
    version: int = 0
    twin_dies: bool = False
    twin_hungry: bool = False
    slow_to_retire_s: float = 0.0


def camera(channel: Channel, argument: Frames) -> None:
    """Answers each number once, as a camera's worker does frames; keeps every tenth (the sample) in a file.

    A twin is warm after 0.2 s, answers for itself, and writes nothing before it takes over.
    """
    spec = argument
    recording = not channel.standby
    if channel.standby:
        if spec.twin_dies:
            os._exit(5)
        if spec.twin_hungry:
            raise MemoryError
        time.sleep(0.2)
        channel.ready()
    last = int((time.monotonic() - spec.epoch_s) / spec.every_s) if recording else -1
    retire_at = 0.0
    while True:
        channel.beat()
        order = channel.receive(0.002)
        if isinstance(order, Stop):
            return
        if isinstance(order, Retire):
            retire_at, order = time.monotonic() + spec.slow_to_retire_s, None
        if retire_at and time.monotonic() >= retire_at:
            channel.retired()
            return
        if isinstance(order, TakeOver):
            recording, spec = True, order.argument
            kept = [int(line.split()[0]) for line in spec.log.read_text().splitlines()]
            last = max(kept, default=-1)
            channel.send(Said("took over", spec.version))
        elif order is not None:
            channel.send(Said("echo", (os.getpid(), order)))
        now = int((time.monotonic() - spec.epoch_s) / spec.every_s)
        if recording and now > last:
            with spec.log.open("a") as file:
                for number in range(last + 1, now + 1):
                    file.write(f"{number} {os.getpid()} {time.monotonic()}\n")
            last = now
            channel.send(Said("answer", now))


def takes_and_waits(channel: Channel, mib: int) -> None:
    """Touches what it takes; says nothing before its owner is gone."""
    kept = np.ones(mib * 2**20, np.uint8)
    while kept[0]:
        channel.beat()
        channel.receive(0.2)


def asks_at_once(channel: Channel, mib: int) -> None:
    """Takes so much memory at once."""
    channel.send(len(bytearray(mib * 2**20)))


def raises(channel: Channel, error: Exception) -> None:
    """Ends with this error."""
    raise error


def ends(channel: Channel, argument: Any) -> None:
    """Ends without a word."""


def crashes(channel: Channel, argument: Any) -> None:
    """Ends as native code does that uses memory it was not given."""
    os.kill(os.getpid(), signal.SIGSEGV)


def beats_first(channel: Channel, argument: Any) -> None:
    """Beats before it says anything."""
    channel.send(Beat())
    channel.send("done")


def owner(folder: str) -> None:
    """A control process of its own with one worker; writes the worker's pid, then waits to be killed. Its forkserver is
    started here, before a worker asks for one that has everything loaded: who outlives whom does not depend on that."""
    ensure_running()
    process = WorkerProcess(
        "lonely", obedient, None, LaunchSpec(), lambda message: _note(folder, message), lambda code: None
    )
    process.join(600)


def _note(folder: str, message: Any) -> None:
    if not isinstance(message, Beat):
        (Path(folder) / "worker").write_text(str(message.value[0]))


if __name__ == "__main__":
    owner(sys.argv[1])

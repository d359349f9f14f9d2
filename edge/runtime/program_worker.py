"""The worker of one task of the engine `local`: it runs a program of the fleet and says how far it is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edge.core.engine import EngineWork
from edge.engines.programs import run_program
from edge.runtime.process import Channel


@dataclass(frozen=True)
class ProgramStarted:
    """The program began."""


@dataclass(frozen=True)
class ProgramCheckpoint:
    """The program could go on from `state`."""

    state: Mapping[str, Any]


@dataclass(frozen=True)
class ProgramAnswered:
    """The program returned `answer` after `ran_s` seconds."""

    answer: Any
    ran_s: float


def program_worker(channel: Channel, work: EngineWork) -> None:
    """Run the program to its end. Raises what it raises."""
    channel.send(ProgramStarted())
    begin_s = time.monotonic()
    program = run_program(work.program, work.arguments)
    while True:
        try:
            state = next(program)
        except StopIteration as end:
            channel.send(ProgramAnswered(end.value, time.monotonic() - begin_s))
            return
        channel.send(ProgramCheckpoint(state))

"""The fleet's agent as a process beside the appliance: started by `magpie run` where the site file has `fleet`, started
again when it ended or hangs, and ended with the appliance. It shows that it lives on its standard output.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edge.core.retry_pace import RetryPace

log = logging.getLogger(__name__)

_PACE: Final = RetryPace(first_s=1.0, most_s=30.0)
#: An agent that ran for so long had started well: the next pause is the first one again.
_WELL_S: Final = 60.0
_END_S: Final = 10.0


@dataclass(frozen=True)
class AgentPatience:
    """In seconds: for the first sign of life of an agent that starts, for the next one, between two looks. `pace`: the
    pauses before an agent that ended is started again."""

    start_s: float = 120.0
    hang_s: float = 30.0
    look_s: float = 1.0
    pace: RetryPace = _PACE


PATIENCE: Final = AgentPatience()


@asynccontextmanager
async def fleet_agent(config: Path) -> AsyncIterator[None]:
    """Keep the agent of this site file running until the end of the block."""
    command = [sys.executable, "-m", "edge.cli", "fleet", "agent", str(config.absolute()), "--with-input"]
    task = asyncio.create_task(keep_running(command), name="fleet agent")
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def keep_running(command: Sequence[str], patience: AgentPatience = PATIENCE) -> None:
    """Run an agent's command, again when it ended or shows no life, until cancelled."""
    loop, failures = asyncio.get_running_loop(), 0
    while True:
        began = loop.time()
        # Its input ends with this process, however that ends: an agent never outlives its appliance. A group of its
        # own: an interrupt of the terminal reaches this process only.
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, process_group=0)
        except OSError as error:  # no memory, processes or files just now: it must be tried again
            ended = f"could not be started: {error}"
        else:
            try:
                await _while_alive(process, patience)
                ended = f"ended ({await process.wait()})"
            except asyncio.CancelledError:
                await _end(process)
                raise
        failures = 1 if loop.time() - began > _WELL_S else failures + 1
        pause_s = patience.pace.pause_s(failures, random.random())
        log.warning("the fleet's agent %s; it is started again in %.0f s", ended, pause_s)
        await asyncio.sleep(pause_s)


async def _while_alive(process: asyncio.subprocess.Process, patience: AgentPatience) -> None:
    """Until the output ends, or there was none for too long: then the process is killed."""
    assert process.stdout is not None
    silent_s, limit_s = 0.0, patience.start_s
    read = asyncio.ensure_future(process.stdout.read(4096))
    try:
        while silent_s < limit_s:
            await asyncio.wait({read}, timeout=patience.look_s)
            if not read.done():
                silent_s += patience.look_s  # by looks and not by the clock: this process may have stood still itself
            elif read.result():
                silent_s, limit_s = 0.0, patience.hang_s
                read = asyncio.ensure_future(process.stdout.read(4096))
            else:
                return
    finally:
        read.cancel()
    log.warning("the fleet's agent shows no life for %.0f s: killed", silent_s)
    with contextlib.suppress(ProcessLookupError):
        process.kill()


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(_END_S):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def run_until_stopped(config: Path, with_input: bool) -> None:
    """Be the agent of a site file until SIGTERM, or with `with_input` until standard input ends; then it shows on
    standard output that it lives, too."""
    from edge.fleet.process import run_agent
    from edge.settings import read_site

    alive = _alive_on(sys.stdout.fileno()) if with_input else lambda: None
    agent = asyncio.create_task(run_agent(read_site(config), alive), name="agent")
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.cancel)
    if with_input:
        loop.add_reader(sys.stdin.fileno(), _input_came, loop, agent)
    with contextlib.suppress(asyncio.CancelledError):
        await agent


def _alive_on(output: int) -> Callable[[], None]:
    os.set_blocking(output, False)

    def alive() -> None:
        with contextlib.suppress(OSError):  # the reader is gone
            os.write(output, b".")

    return alive


def _input_came(loop: asyncio.AbstractEventLoop, agent: asyncio.Task[None]) -> None:
    if not os.read(sys.stdin.fileno(), 1024):
        loop.remove_reader(sys.stdin.fileno())
        agent.cancel()

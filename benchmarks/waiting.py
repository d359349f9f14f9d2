"""Free ports, and waiting for conditions: for tests and benchmarks of several processes."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import time
from collections.abc import Callable
from typing import Any, Final

#: Ports under those that systems give to connections by default (Linux: from 32768 on): between our look and the
#: server's start no connection takes one.
_PORTS: Final = range(15_000, 32_000)
_given: set[int] = set()

#: Longest wait for an event that must come. A long one costs nothing where the event comes, and a busy machine is slow.
PATIENCE_S: Final = 90.0


def free_port(host: str = "127.0.0.1") -> int:
    """A port that is free on this address now, each once in a process."""
    for port in random.SystemRandom().sample(_PORTS, len(_PORTS)):
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind((host, port))
            if port not in _given:
                _given.add(port)
                return port
    raise OSError(f"no port from {_PORTS.start} to {_PORTS.stop} is free on {host}")


def until(condition: Callable[[], Any], what: str, timeout_s: float = PATIENCE_S, pause_s: float = 0.1) -> Any:
    """Wait for a condition; its value. Raises TimeoutError with `what`."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(pause_s)
    raise TimeoutError(f"not within {timeout_s:.0f} s: {what}")


async def until_async(
    condition: Callable[[], Any], what: str, timeout_s: float = PATIENCE_S, pause_s: float = 0.02
) -> Any:
    """As `until`; other tasks of the loop go on."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout_s
    while loop.time() < end:
        if found := condition():
            return found
        await asyncio.sleep(pause_s)
    raise TimeoutError(f"not within {timeout_s:.0f} s: {what}")

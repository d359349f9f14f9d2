"""Free ports, and waiting for conditions: for tests and benchmarks of several processes."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from typing import Any


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody uses on this address now."""
    with socket.socket() as found:
        found.bind((host, 0))
        return int(found.getsockname()[1])


def until(condition: Callable[[], Any], what: str, timeout_s: float, pause_s: float = 0.1) -> Any:
    """Wait for a condition; its value. Raises TimeoutError with `what`."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if found := condition():
            return found
        time.sleep(pause_s)
    raise TimeoutError(f"not within {timeout_s:.0f} s: {what}")


async def until_async(condition: Callable[[], Any], what: str, timeout_s: float = 20.0, pause_s: float = 0.02) -> Any:
    """As `until`; other tasks of the loop go on."""
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout_s
    while loop.time() < end:
        if found := condition():
            return found
        await asyncio.sleep(pause_s)
    raise TimeoutError(f"not within {timeout_s:.0f} s: {what}")

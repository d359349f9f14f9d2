"""A model version is tried before it is served: loaded and run once in a process of its own, at low priority.

What goes wrong there (a file that is none, an operator that is missing, a crash, no memory) harms nothing else.
"""

from __future__ import annotations

import queue
from dataclasses import dataclass
from typing import Any

from edge.core.errors import InvalidValue, Unavailable, WeightsError, WorkerFailed
from edge.core.layout import ServedVersion
from edge.core.shares import LaunchSpec
from edge.runtime.process import Channel, WorkerError, WorkerProcess, describe_exit

_PATIENCE_S = 180.0
_NICE = 10


@dataclass(frozen=True)
class Tried:
    """It loads, and answers a request of one row."""


def try_version(channel: Channel, version: ServedVersion) -> None:
    """Worker main."""
    from edge.serving.backends import load

    load(version, "cpu").warm((1,))
    channel.send(Tried())


def check_version(version: ServedVersion) -> None:
    """Blocks until the version was loaded and run. Raises WeightsError (its files), WorkerFailed (it crashed, no
    memory), Unavailable (it takes too long), each with the reason."""
    said: queue.Queue[Any] = queue.Queue()
    launch = LaunchSpec(nice=_NICE)
    process = WorkerProcess(
        f"try-{version.model}",
        try_version,
        version,
        launch,
        said.put,
        lambda code: said.put(WorkerFailed(f"{version.key}: its process {describe_exit(code)}")),
        killable=True,
    )
    try:
        message = said.get(timeout=_PATIENCE_S)
    except queue.Empty:
        raise Unavailable(f"{version.key} could not be loaded and run once within {_PATIENCE_S:.0f} s") from None
    finally:
        process.kill()
    if isinstance(message, WorkerError):
        if message.code == InvalidValue.code:
            raise WeightsError(f"{version.key}: {message.message}")
        kind = WeightsError if message.code == WeightsError.code else WorkerFailed
        words = message.message if version.model in message.message else f"{version.key}: {message.message}"
        raise kind(words)
    if isinstance(message, WorkerFailed):
        raise message

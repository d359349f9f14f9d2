"""A model version is tried before it is served: loaded and run once in a process of its own, at low priority.

An error there (a broken file, an operator that is missing, a crash, no memory) harms nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edge.core.errors import InvalidValue, WeightsError, WorkerFailed
from edge.core.front_messages import ServedVersion
from edge.core.shares import LaunchSpec
from edge.runtime.one_off import first_message
from edge.runtime.process import Channel, WorkerError

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


def check_version(version: ServedVersion, limit_bytes: int | None = None) -> None:
    """Blocks until the version was loaded and run in at most `limit_bytes` of memory (None: as for workers without a
    setting). Raises WeightsError (its files), MemoryLimitExceeded, WorkerFailed (it crashed), Unavailable (it takes too
    long), each with the reason."""
    file = f"{version.key} ({Path(version.folder) / version.file})" if version.file else version.key
    launch = LaunchSpec(nice=_NICE)
    message = first_message(
        f"try-{version.model}", try_version, version, file, limit_bytes, _PATIENCE_S, launch, killable=True
    )
    if isinstance(message, WorkerError):
        if message.code == InvalidValue.code:
            raise WeightsError(f"{version.key}: {message.message}")
        kind = WeightsError if message.code == WeightsError.code else WorkerFailed
        raise kind(f"{version.key}: {message.message}")

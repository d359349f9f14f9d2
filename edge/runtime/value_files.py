"""Files of one value each, by which the appliance and the fleet's agent beside it exchange their states. A file is
written whole under another name and renamed. Everything here blocks."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from edge.core.errors import InvalidValue
from edge.files import store_whole

V = TypeVar("V")

#: The writer renews its value again and again; an older one is of an appliance, or an agent, that does not run.
FRESH_S: Final = 10.0


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def read_fresh(path: Path, kind: type[V], fresh_s: float = FRESH_S) -> V | None:
    """A value that was written lately; None: there is none, or it cannot be read."""
    try:
        age_s = time.time() - path.stat().st_mtime
    except OSError:
        return None
    return read_value(path, kind) if abs(age_s) <= fresh_s else None


def read_value(path: Path, kind: type[V]) -> V | None:
    """A dataclass; None: there is none, or it cannot be read."""
    known: Any = kind
    try:
        found: V = _adapter(known).validate_json(path.read_bytes())
    except (OSError, ValidationError, InvalidValue):
        return None
    return found


def write_value(path: Path, value: Any) -> None:
    """Write a dataclass. Raises DiskFull, StoreError."""
    kind: Any = type(value)
    store_whole(path, _adapter(kind).dump_json(value), durable=False, folder_mode=0o700)

"""Device tables as files of the appliance: recorded ones put together, cut to what is served, measured ones kept."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from edge.core.errors import InvalidValue, NotFound, StoreError
from edge.core.layout import ServedVersion
from edge.core.serving import DeviceTable

#: Parts of a table's details that are kept by model.
_BY_MODEL = ("run_ms", "typical_ms")


def read_table(path: Path) -> DeviceTable:
    """Read "gpulet-device/1" from a file. Raises NotFound, InvalidValue with the file's name."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise NotFound(f"device table {path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise InvalidValue(str(path), "no JSON", "a device table (gpulet-device/1)") from None
    try:
        return DeviceTable.from_json(value)
    except InvalidValue as error:
        raise InvalidValue(f"{path}: {error.path}", error.given, error.allowed) from None


def keep_table(path: Path, table: DeviceTable) -> None:
    """Write a table, whole or not at all. Raises StoreError."""
    temporary = path.with_suffix(".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(table.to_json(), separators=(",", ":")), encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StoreError(f"{path.name} could not be written: {error.strerror}") from None


def merged(tables: Iterable[DeviceTable]) -> DeviceTable | None:
    """One table of all models; where several have a model, the last one counts. None for none.

    Interference between models and the memory of the device are those of the last table that tells them.
    """
    out: DeviceTable | None = None
    for table in tables:
        if out is None:
            out = table
            continue
        details: dict[str, Any] = {**out.details, **table.details}
        for key in _BY_MODEL:
            known = [t.details.get(key) for t in (out, table)]
            rows = {m: row for part in known if isinstance(part, Mapping) for m, row in part.items()}
            # A model that was measured anew without these has none any more.
            stale = set(table.latency_ms) - set(known[1] if isinstance(known[1], Mapping) else ())
            details[key] = {m: row for m, row in rows.items() if m not in stale}
        tells = any(table.interference[:4]) or table.interference[4] != 1.0
        out = DeviceTable(
            table.name or out.name,
            {**out.latency_ms, **table.latency_ms},
            {**{m: u for m, u in out.utilisation.items() if m not in table.latency_ms}, **table.utilisation},
            table.interference if tells else out.interference,
            {**out.memory_mb, **table.memory_mb},
            table.device_memory_mb if table.device_memory_mb is not None else out.device_memory_mb,
            details,
        )
    return out


def cut(table: DeviceTable | None, versions: Sequence[ServedVersion]) -> DeviceTable | None:
    """Only what is served, in batches that the versions take. None where nothing of it is measured."""
    if table is None:
        return None
    most = {v.model: v.max_batch for v in versions if v.model in table.latency_ms}
    if not most:
        return None
    latency = {
        model: {share: row[: most[model]] for share, row in rows.items()}
        for model, rows in table.latency_ms.items()
        if model in most
    }
    details = dict(table.details)
    for key in _BY_MODEL:
        known = details.get(key)
        if isinstance(known, Mapping):
            details[key] = {
                model: {share: row[: most[model]] for share, row in rows.items()}
                for model, rows in known.items()
                if model in most
            }
    return replace(
        table,
        latency_ms=latency,
        utilisation={m: u for m, u in table.utilisation.items() if m in most},
        memory_mb={m: v for m, v in table.memory_mb.items() if m in most},
        details=details,
    )

"""Device tables as files of the appliance: recorded ones put together, cut to what is served, measured ones kept."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from edge.core.errors import InvalidValue, MagpieError, NotFound, StoreError
from edge.core.front_messages import ServedVersion
from edge.core.serving import DeviceTable
from edge.core.shares import ShareCaps
from scheduler.gpulets.drift import ScaleTable, scaled, unscaled

#: Parts of a table's details that are kept by model.
_BY_MODEL = ("run_ms", "typical_ms")


class DeviceTables:
    """The latencies that plans reckon with: recorded tables, those measured on this device, and, where they are
    `watched`, factors of drift.

    Files lie in `folder`, the measured one by the device of `caps`. `complain(code, message)` receives a file that
    cannot be used, and of one that cannot be written where the caller goes on without it."""

    def __init__(self, folder: Path, caps: ShareCaps, complain: Callable[[str, str], None]) -> None:
        device = "".join(c if c.isalnum() or c in "-_" else "-" for c in caps.device)
        self.watched = True
        #: As measured, and with factors of drift.
        self._plain: DeviceTable | None = None
        self._scaled: DeviceTable | None = None
        #: Names of the latencies of each model as they were measured; factors of drift change nothing.
        self.digests: Mapping[str, str] = {}
        self._version: tuple[DeviceTable | None, str] = (None, "")
        self._measured, self._planned = folder / f"table-{device}-{caps.units:g}.json", folder / "tables"
        self._complain = complain

    async def open(self, recorded: Iterable[str]) -> None:
        """Read the files `recorded`, then what was measured here before. Raises NotFound and InvalidValue for a
        recorded file."""
        tables = [await asyncio.to_thread(read_table, Path(name)) for name in recorded]
        if self._measured.is_file():
            try:
                tables.append(await asyncio.to_thread(read_table, self._measured))
            except MagpieError as error:
                self._complain("serving_table", f"the measured latencies are not used: {error}")
        self.use(merged(tables))
        self.digests = _digests(tables)

    def use(self, table: DeviceTable | None) -> None:
        """Reckon with this table, and with nothing that was seen before."""
        self._plain = self._scaled = table

    @property
    def table(self) -> DeviceTable | None:
        """The latencies in force; None: no model has any."""
        return self._scaled if self.watched else self._plain

    @property
    def version(self) -> str:
        """Names the latencies that plans reckon with now, factors of drift included: equal names, equal tables."""
        if self._version[0] is not self.table:
            text = "" if self.table is None else json.dumps(self.table.to_json(), sort_keys=True, separators=(",", ":"))
            self._version = (self.table, hashlib.sha256(text.encode()).hexdigest()[:16])
        return self._version[1]

    def knows(self, model: str) -> bool:
        """Latencies of this model are known."""
        return self.table is not None and model in self.table.latency_ms

    async def add(self, measured: DeviceTable) -> None:
        """Use what was measured, and keep it. Raises StoreError if it cannot be written; it is used all the same."""
        self._plain, self._scaled = (
            merged(t for t in (known, measured) if t is not None) for known in (self._plain, self._scaled)
        )
        self.digests = {**self.digests, **_digests([measured])}
        await asyncio.to_thread(keep_table, self._measured, measured)

    def scale(self, orders: Iterable[ScaleTable]) -> None:
        """Reckon with what was seen from now on."""
        if self._scaled is not None:
            self._scaled = scaled(self._scaled, orders)

    def unscale(self, models: Collection[str]) -> None:
        """Reckon with these models as their tables say again."""
        if self._scaled is not None and self._plain is not None:
            self._scaled = unscaled(self._scaled, self._plain, models)

    def record(self, table: DeviceTable | None) -> str | None:
        """The path of the file that holds the table of a plan, so that the plan can be made again from it. None for no
        table."""
        if table is None:
            return None
        text = json.dumps(table.to_json(), sort_keys=True, separators=(",", ":"))
        path = self._planned / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
        if not path.exists():
            try:
                keep_table(path, table)
            except MagpieError as error:
                self._complain(error.code, str(error))
        return str(path.absolute())


def _digests(tables: Sequence[DeviceTable]) -> dict[str, str]:
    return {
        model: hashlib.sha256(json.dumps([[s, *row] for s, row in sorted(rows.items())]).encode()).hexdigest()[:16]
        for table in tables
        for model, rows in table.latency_ms.items()
    }


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
        with contextlib.suppress(OSError):
            temporary.unlink()
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
        measured = any(table.interference[:4]) or table.interference[4] != 1.0
        out = DeviceTable(
            table.name or out.name,
            {**out.latency_ms, **table.latency_ms},
            {**{m: u for m, u in out.utilisation.items() if m not in table.latency_ms}, **table.utilisation},
            table.interference if measured else out.interference,
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

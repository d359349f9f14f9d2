"""The device's table made of what the serving profiler has measured."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version as package_version
from typing import Any

import psutil

from edge.core.serving import DeviceTable
from edge.core.shares import ShareCaps
from edge.runtime.serving_pairs import Interference
from edge.serving.profiling import Runs

#: If other programs keep more than this part of the machine busy while measuring, the table says so.
_QUIET = 0.15


@dataclass(frozen=True)
class MeasuredModel:
    """The measurements of one model, and the rows made of them."""

    table_ms: Mapping[int, tuple[float, ...]]
    run_ms: Mapping[int, tuple[float, ...]]
    typical_ms: Mapping[int, tuple[float, ...]]
    origin: Mapping[int, str]
    runs: Mapping[tuple[int, int], Runs]
    memory_mb: float
    smoothed: float
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Measurement:
    """One run of the profiler: models by name, and how it was done. It ended at `ended_utc_s` after `seconds`; other
    processes kept `others_cores` cores busy meanwhile; a latency is this `quantile` of repeated runs."""

    models: Mapping[str, MeasuredModel]
    interference: Interference
    ended_utc_s: float
    seconds: float
    quantile: float
    others_cores: float
    notes: tuple[str, ...] = ()


def measured_table(caps: ShareCaps, measurement: Measurement, base: DeviceTable | None) -> DeviceTable:
    """The table of the device of `caps`. Models that only `base` knows are kept from it as they are."""
    found, interference = measurement.models, measurement.interference
    details: dict[str, Any] = dict(base.details) if base is not None else {}
    details |= interference.details
    if isinstance(scaled := details.get("scaled"), Mapping):  # a new measurement is taken as it is
        details["scaled"] = {model: factor for model, factor in scaled.items() if model not in found}
    details["machine"] = machine(caps)
    details["measured"] = _about(measurement)
    for key, rows in (
        ("run_ms", {m: f.run_ms for m, f in found.items()}),
        ("typical_ms", {m: f.typical_ms for m, f in found.items()}),
        ("origin", {m: f.origin for m, f in found.items()}),
    ):
        old = details.get(key)
        kept = dict(old) if isinstance(old, Mapping) else {}
        details[key] = kept | {m: {str(p): _plain(v) for p, v in r.items()} for m, r in rows.items()}
    old_table = base or DeviceTable("", {m: f.table_ms for m, f in found.items()}, {})
    return DeviceTable(
        f"{details['machine']['name']}, {details['machine']['share_kind']}",
        {**old_table.latency_ms, **{m: f.table_ms for m, f in found.items()}},
        interference.utilisation,
        interference.coefficients,
        {**old_table.memory_mb, **{m: f.memory_mb for m, f in found.items()}},
        device_memory_mb(caps),
        details,
    )


def _about(measurement: Measurement) -> dict[str, Any]:
    """How it was measured, for the table's file."""
    found = measurement.models
    notes = [*measurement.notes, *(note for m in found.values() for note in m.notes)]
    busy = measurement.others_cores / max(1e-9, os.cpu_count() or 1)
    if busy > _QUIET:
        notes.append(
            f"other work kept {100 * busy:.0f} % of this machine's cores busy meanwhile: measure again when quiet"
        )
    return {
        "at_utc": datetime.fromtimestamp(measurement.ended_utc_s, UTC).isoformat(timespec="seconds"),
        "seconds": round(measurement.seconds, 1),
        "quantile": measurement.quantile,
        "models": sorted(found),
        "runs": sum(len(r.run_ms) for m in found.values() for r in m.runs.values()),
        "others_busy_cores": round(measurement.others_cores, 3),
        "smoothed": max(m.smoothed for m in found.values()),
        "notes": [*notes, *measurement.interference.notes],
    }


def machine(caps: ShareCaps) -> dict[str, Any]:
    """The machine that a table was measured on."""
    from edge.shares.discover import devices

    device = next((d for d in devices() if d.id == caps.device), None)
    return {
        "name": device.name if device is not None else caps.device,
        "device": caps.device,
        "units": caps.units,
        "share_kind": caps.kind,
        "evidence": caps.evidence,
        "cores": os.cpu_count(),
        "memory_mb": round(psutil.virtual_memory().total / 2**20),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "torch": package_version("torch"),
    }


def device_memory_mb(caps: ShareCaps) -> float | None:
    """Memory of the device, MB, where known."""
    from edge.shares.discover import devices

    found = next((d.memory_bytes for d in devices() if d.id == caps.device), 0)
    return round(found / 2**20, 1) if found else None


def _plain(value: Any) -> Any:
    return value if isinstance(value, str) else list(value)

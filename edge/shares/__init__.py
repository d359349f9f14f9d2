"""Shares of a device made real: CPU groups and token buckets, CUDA MPS, green contexts (docs/shares.md).

Nothing else is imported here before it is called, so that a worker that only needs its bucket stays small.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast, get_args

from edge.core import checks
from edge.core.clock import Clock
from edge.core.errors import NotFound
from edge.core.shares import Partitioner, ShareChoice, ShareKind


def open_partitioner(
    device: str = "auto",
    share_kind: str = "auto",
    cores: float | None = None,
    appliance: str = "default",
    *,
    clock: Clock | None = None,
    skip_probe: bool = False,
    cache_dir: Path | None = None,
) -> Partitioner:
    """The partitioner of a site: `device` is "auto", "cpu" or a GPU's UUID, `share_kind` "auto" or a kind's name.

    "auto" takes the first GPU, or the CPU where there is none, and the best kind that holds there.
    Every part that measures or runs on a site's device opens it here, so that all of them take the same. Raises
    NotFound for a device that is not there, InvalidValue for an unknown kind, ShareError for one that cannot be had.
    """
    from edge.shares import discover

    checks.one_of("share_kind", share_kind, get_args(ShareChoice))
    prefer = None if share_kind == "auto" else share_kind
    found = discover.devices()
    chosen = next((d for d in found if device in ("auto", d.id)), None)
    if chosen is None:
        raise NotFound(f"device {device} is not there", "found: " + ", ".join(d.id for d in found))
    return discover.open_partitioner(
        chosen,
        cast("ShareKind | None", prefer),
        cores=cores,
        appliance=appliance,
        clock=clock,
        skip_probe=skip_probe,
        cache_dir=cache_dir,
    ).partitioner


def report_devices(cores: float | None = None, cache_dir: Path | None = None) -> dict[str, Any]:
    """Every device, the best share kind that it enforces, and for each kind tried why it can or cannot be had."""
    from edge.core.errors import ShareError
    from edge.shares import discover

    found = discover.discover()
    devices = []
    for device in found.devices:
        entry: dict[str, Any] = {
            "device": device.id,
            "kind": device.kind,
            "name": device.name,
            "units": device.units,
            "memory_bytes": device.memory_bytes,
        }
        try:
            choice = discover.open_partitioner(device, cores=cores, appliance="doctor", cache_dir=cache_dir)
        except ShareError as error:
            entry |= {"shares": None, "error": str(error), "tried": []}
        else:
            caps = choice.partitioner.caps
            choice.partitioner.close()
            tried = [{"kind": a.kind, "ok": a.ok, "reason": a.reason} for a in choice.attempts]
            entry |= {"shares": caps.to_json(), "error": None, "tried": tried}
        devices.append(entry)
    return {"devices": devices, "notes": list(found.notes)}

"""The NVIDIA GPU that a GPU benchmark measures, and the file that its result goes to."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from edge.core.shares import ShareKind
from edge.shares import discover
from edge.shares.discover import Choice, DeviceInfo


def open_gpu(kind: ShareKind | None) -> tuple[DeviceInfo, Choice] | None:
    """The first GPU under the share kind `kind` (None: the best that it enforces), or None, reported on the console."""
    found = discover.discover()
    device = next((d for d in found.devices if d.gpu is not None), None)
    if device is None:
        print("no NVIDIA GPU here: " + ("; ".join(found.notes) or "nvidia-smi lists none"))
        return None
    return device, discover.open_partitioner(device, kind)


def tried(choice: Choice) -> list[dict[str, object]]:
    """Every share kind that was tried, and why it was not taken, as JSON."""
    return [{"kind": a.kind, "ok": a.ok, "reason": a.reason} for a in choice.attempts]


def result_path(folder: Path, benchmark: str, device: DeviceInfo) -> Path:
    """BENCHMARK_DEVICE_DATE.json in `folder`, which is made."""
    folder.mkdir(exist_ok=True)
    name = re.sub(r"[^a-z0-9]+", "-", device.name.lower()).strip("-")
    return folder / f"{benchmark}_{name}_{datetime.now(UTC):%Y-%m-%d}.json"

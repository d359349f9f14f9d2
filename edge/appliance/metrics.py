"""What `/metrics` is made from: counts since the appliance started, and one snapshot of everything at scrape time."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from edge.appliance.service import Json
from edge.core.models import ModelVersion
from edge.settings import local_host
from edge.store.retention import RetentionReport

#: A scrape waits no longer for the serving front's own statistics.
_FRONT_TIMEOUT_S = 2.0
#: Kinds of events come from the code, so there are few; should that ever be wrong, the rest is counted together.
_MAX_KINDS = 300
_OTHER = "other"
#: Events of a camera that are counted, and what the count is called.
_OF_CAMERA: Mapping[str, str] = {
    "retraining.started": "started",
    "retraining.stopped": "stopped",
    "retraining.failed": "failed",
    "model.promoted": "promoted",
    "model.rejected": "rejected",
    "model.rolled_back": "rolled_back",
}


class Tally:
    """Counts of what was journaled and deleted since the start. Touched on the control process's event loop only.

    Bounded: cameras that are removed are forgotten, and kinds of events and workers are few.
    """

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        self.cameras: dict[str, Counter[str]] = {}
        self.retraining_device_s: dict[str, float] = {}
        self.workers_lost: Counter[str] = Counter()
        self.deleted: Counter[str] = Counter()
        self.retention: RetentionReport | None = None

    def note(self, kind: str, camera: str | None, data: Mapping[str, Any]) -> None:
        """An event was journaled."""
        known = kind in self.events or len(self.events) < _MAX_KINDS
        self.events[kind if known else _OTHER] += 1
        if kind == "camera.removed" and camera is not None:
            self.cameras.pop(camera, None)
            self.retraining_device_s.pop(camera, None)
            return
        if kind == "worker.worker_lost":
            # Workers come and go, their kinds stay.
            self.workers_lost[str(data.get("kind", _OTHER))] += 1
        name = _OF_CAMERA.get(kind)
        if name is not None and camera is not None:
            self.cameras.setdefault(camera, Counter())[name] += 1
            seconds = data.get("gpu_s")
            if isinstance(seconds, int | float):
                self.retraining_device_s[camera] = self.retraining_device_s.get(camera, 0.0) + max(0.0, seconds)

    def retained(self, report: RetentionReport) -> bool:
        """Retention ran. True if something was deleted or could not be: worth a record."""
        self.retention = report
        self.deleted.update(
            events=report.events, windows=report.windows, picture_sets=report.picture_sets, versions=report.versions,
            blobs=report.blobs, bytes=report.bytes_freed, failures=len(report.failures),
        )  # fmt: skip
        noteworthy = (report.events, report.windows, report.picture_sets, report.versions, report.blobs)
        return any(noteworthy) or bool(report.failures)

    def to_json(self) -> Json:
        """{"events": {kind: n}, "cameras": {id: {outcome: n}}, "workers_lost": {kind: n}, "retention": {...}, ...}."""
        report = self.retention
        return {
            "events": dict(self.events),
            "cameras": {camera: dict(counts) for camera, counts in self.cameras.items()},
            "retraining_device_s": dict(self.retraining_device_s),
            "workers_lost": dict(self.workers_lost),
            "retention": {
                "deleted": dict(self.deleted),
                "bytes_kept": None if report is None else report.bytes_kept,
                "bytes_over": None if report is None else report.bytes_over,
            },
        }


def expected_accuracy(version: ModelVersion) -> float | None:
    """What a model in force promised when it was promoted: its accuracy on held-out frames; None of a first model."""
    value = version.scores.get("held_out")
    return None if value is None else float(value)


def disk(folder: Path) -> Json:
    """{"free_bytes", "total_bytes"} of the disk that `folder` is on."""
    usage = shutil.disk_usage(folder)
    return {"free_bytes": usage.free, "total_bytes": usage.total}


async def front_statistics(front: Mapping[str, Any], token: str = "", tls: bool = False) -> list[Json] | None:
    """The protocol's statistics of every served version, asked of the front as a client would; None if it does not
    answer. `front` is that of `ServedModelsService.status`, `token` what it may ask for,
    `tls`: by https. Its certificate is not looked at: it is this machine's own port, by an address."""
    address = front["http"]
    if not front["up"] or not address["port"]:
        return None
    url = f"{'https' if tls else 'http'}://{local_host(address['host'])}:{address['port']}"
    timeout = aiohttp.ClientTimeout(total=_FRONT_TIMEOUT_S)
    headers = {"authorization": f"Bearer {token}"} if token else {}
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{url}/v2/models/stats", headers=headers, ssl=False) as response,
        ):
            if response.status != 200:
                return None
            stats = (await response.json())["model_stats"]
    except (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError, KeyError, TypeError):  # noqa: UP041
        return None
    return stats if isinstance(stats, list) else None

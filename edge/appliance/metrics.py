"""Metrics for `/metrics`: counts since the appliance started, and one snapshot of everything at scrape time."""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from pathlib import Path

import aiohttp

from edge.appliance.answers.serving import FrontAnswer
from edge.appliance.service import Json
from edge.core.alarms import AccuracyMeasured, Promoted, RolledBack
from edge.core.facts import (
    FrameLabelled,
    FrameSampled,
    RetrainingStepped,
    RuntimeFact,
    StudentRejected,
    WorkerLost,
)
from edge.core.journal_kinds import JournalKind
from edge.core.models import ModelVersion
from edge.settings import local_host
from edge.store.retention import RetentionReport

#: A scrape waits no longer for the serving front's own statistics.
_FRONT_TIMEOUT_S = 2.0


class Tally:
    """Counts of what was done, journaled and deleted since the start. Touched on the control process's event loop only.

    Bounded: cameras that are removed are forgotten, and kinds of entries and workers are few.
    """

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        self.cameras: dict[str, Counter[str]] = {}
        self.retraining_device_s: dict[str, float] = {}
        self.workers_lost: Counter[str] = Counter()
        self.losses_by_cause: Counter[str] = Counter()
        self.deleted: Counter[str] = Counter()
        self.retention: RetentionReport | None = None

    def written(self, kind: JournalKind) -> None:
        """An entry was journaled."""
        self.events[kind] += 1

    def fact(self, fact: RuntimeFact) -> None:
        """The runtime did something."""
        match fact:
            case WorkerLost(kind=kind, cause=cause):
                self.workers_lost[kind] += 1
                self.losses_by_cause[cause] += 1
            case RetrainingStepped():
                self._of_camera(fact.camera, fact.step)
            case Promoted():
                self._of_camera(fact.camera, "promoted", fact.device_seconds)
            case StudentRejected():
                self._of_camera(fact.camera, "rejected", fact.device_seconds)
            case RolledBack():
                self._of_camera(fact.camera, "rolled_back")
            case AccuracyMeasured() | FrameSampled() | FrameLabelled():
                pass  # the overview has the newest accuracy, reports the numbers of frames

    def forget(self, camera: str) -> None:
        """The camera was removed."""
        self.cameras.pop(camera, None)
        self.retraining_device_s.pop(camera, None)

    def _of_camera(self, camera: str, outcome: str, device_seconds: float | None = None) -> None:
        self.cameras.setdefault(camera, Counter())[outcome] += 1
        if device_seconds is not None:
            known = self.retraining_device_s.get(camera, 0.0)
            self.retraining_device_s[camera] = known + max(0.0, device_seconds)

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
        """{"events": {kind: n}, "cameras": {id: {outcome: n}}, "workers_lost": {kind: n},
        "losses_by_cause": {cause: n}, "retention": {...}, ...}."""
        report = self.retention
        return {
            "events": dict(self.events),
            "cameras": {camera: dict(counts) for camera, counts in self.cameras.items()},
            "retraining_device_s": dict(self.retraining_device_s),
            "workers_lost": dict(self.workers_lost),
            "losses_by_cause": dict(self.losses_by_cause),
            "retention": {
                "deleted": dict(self.deleted),
                "bytes_kept": None if report is None else report.bytes_kept,
                "bytes_over": None if report is None else report.bytes_over,
            },
        }


def expected_accuracy(version: ModelVersion) -> float | None:
    """The promise of the model in force at its promotion: its accuracy on held-out frames; None of a first model."""
    value = version.scores.get("held_out")
    return None if value is None else float(value)


def disk(folder: Path) -> Json:
    """{"free_bytes", "total_bytes"} of the disk that `folder` is on."""
    usage = shutil.disk_usage(folder)
    return {"free_bytes": usage.free, "total_bytes": usage.total}


async def front_statistics(front: FrontAnswer, token: str = "", tls: bool = False) -> list[Json] | None:
    """The protocol's statistics of every served version, asked of the front as a client would; None if it does not
    answer. `front` is that of `ServedModelsService.status`, `token` what it may ask for,
    `tls`: by https. Its certificate is not looked at: it is this machine's own port, by an address."""
    address = front.http
    if not front.up or not address.port:
        return None
    url = f"{'https' if tls else 'http'}://{local_host(address.host)}:{address.port}"
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

"""Helpers of the tests that run the whole appliance on drawn street cameras."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.waiting import PATIENCE_S
from edge.appliance.answers.events import JournalEntry
from edge.appliance.appliance import Appliance
from edge.demo.cameras import PASSWORD_VARIABLE, USER
from edge.demo.site import demo_site, scene_cameras
from edge.settings import SiteSettings

#: Settings of a small student that has learnt nothing yet: each retraining gains.
UNTAUGHT: dict[str, Any] = {"input_height": 64, "input_width": 112, "width": 0.25, "weights": ""}


def cameras(count: int = 2) -> list[dict[str, Any]]:
    """Small pictures, few a second: drawing, decoding and answering them costs little."""
    return [c | {"width": 256, "height": 144, "fps": 5} for c in scene_cameras(count, 1, 600.0)]


def site_of(port: int, data: Path, count: int = 2, window_s: float = 20.0, **retraining: Any) -> SiteSettings:
    """A site on the cameras served at `port`, with students that have learnt nothing yet: each retraining gains."""
    site = demo_site(
        cameras(count),
        f"rtsp://127.0.0.1:{port}",
        USER,
        f"env:{PASSWORD_VARIABLE}",
        data,
        window_s=window_s,
        policy="relay",
        task="detection",
        teacher=None,
        classes=(),
        class_map={},
        port=0,
        overrides={"label_budget": 8, "golden_share": 0.2} | retraining,
    )
    plain = [c.model_copy(update={"student": c.student.model_copy(update=UNTAUGHT)}) for c in site.cameras]
    return site.model_copy(update={"cameras": tuple(plain)})


@dataclass
class Watched:
    """A running appliance, and all its messages."""

    appliance: Appliance
    events: list[JournalEntry] = field(default_factory=list)

    async def follow(self) -> None:
        async for event in self.appliance.services.events.subscribe():
            self.events.append(event)

    def of(self, kind: str, since: int = 0) -> list[JournalEntry]:
        """Events of a kind, from number `since` on."""
        return [e for e in self.events[since:] if e.kind == kind]

    def answers(self, camera: str) -> int:
        report = self.appliance.runtime.cameras[camera].report
        return 0 if report is None else report.answers

    def answered_since(self, camera: str, utc_s: float) -> bool:
        """True if a frame that came after `utc_s` was answered."""
        report = self.appliance.runtime.cameras[camera].report
        return report is not None and report.last_answer_utc_s > utc_s

    def state(self, camera: str) -> str:
        return self.appliance.runtime.cameras[camera].status().state

    def pid(self, worker: str) -> int:
        found = self.appliance.runtime.supervisor.pid(worker)
        assert found is not None, f"{worker} does not run"
        return found

    async def until(self, condition: Callable[[], object], what: str, timeout_s: float = PATIENCE_S) -> float:
        """Seconds until the condition holds; fails with what happened meanwhile."""
        began = time.monotonic()
        while not condition():
            if time.monotonic() - began > timeout_s:
                last = [(e.kind, e.camera, e.data) for e in self.events[-12:]]
                raise AssertionError(f"not within {timeout_s:g} s: {what}; last events: {last}")
            await asyncio.sleep(0.02)
        return time.monotonic() - began

    async def answering(self) -> None:
        """All cameras answer."""
        for camera in self.appliance.runtime.cameras:
            await self.until(
                lambda c=camera: self.state(c) == "live" and self.answers(c) > 2,  # type: ignore[misc]
                f"{camera} answers",
            )


def gone(pids: list[int]) -> list[int]:
    """Those of `pids` that still run (zombies do not)."""
    out = []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] != "Z":
                    out.append(pid)
        except OSError:
            continue
    return out


def groups_of(pid: int) -> list[str]:
    """Control groups and bucket folders that an appliance with this process id has left."""
    found = [str(p) for p in Path("/dev/shm").glob(f"magpie-buckets-{pid}-*")]
    for folder, names, _ in os.walk("/sys/fs/cgroup"):
        found += [f"{folder}/{n}" for n in names if n.startswith("magpie-") and f"-{pid}-" in n]
    return found

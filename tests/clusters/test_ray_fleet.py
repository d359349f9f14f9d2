"""A fleet whose boxes are parts of a real Ray cluster: the head opens it, and its jobs end where they ask to be."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from fleet_agents_kit import FleetOfAgents

from benchmarks.ray_cluster import ADDRESS, certificates
from benchmarks.waiting import free_port
from edge.core.errors import Unavailable
from edge.core.fleet_jobs import JobOrdered, JobsAsk, JobsReport, JobSubmission
from edge.fleet.own_agent import ask_own_agent

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed (magpie-edge[ray])"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates"),
    pytest.mark.timeout(300),
]

WAIT_S = 150.0


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a short path, and the cluster's token in the environment."""
    folder = Path(tempfile.mkdtemp(prefix="mf", dir="/tmp"))
    monkeypatch.setenv("FLEET_RAY_TOKEN", "0123456789abcdef" * 2)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


async def report_when(fleet: FleetOfAgents, enough: Any) -> JobsReport:
    """The head's report of the jobs, once it is as wanted."""
    report: Any = None
    try:
        async with asyncio.timeout(WAIT_S):
            while True:
                # A fleet that has just begun has no head for a moment.
                with contextlib.suppress(Unavailable):
                    report = await ask_own_agent(
                        fleet.folder("b1"), fleet.settings["b1"], "/jobs", JobsAsk(), JobsReport
                    )
                    if enough(report):
                        return report
                await asyncio.sleep(0.3)
    except TimeoutError:
        raise AssertionError(f"it did not happen; last: {report}") from None


async def test_the_head_opens_ray_and_a_job_ends_on_each_box(tmp_path: Path, short: Path) -> None:
    files = certificates(short)

    def engine(box: str) -> dict[str, Any]:
        ray = {
            "address": ADDRESS, "port": port, "token": "env:FLEET_RAY_TOKEN", "certificate": str(files.certificate),
            "key": str(files.key), "authority": str(files.authority), "folder": str(short / box),
        }  # fmt: skip
        return {"kind": "ray", "amounts": {"cpu": 2}, "ray": ray}

    port = free_port()
    async with FleetOfAgents(tmp_path) as fleet:
        await fleet.found("b1", engine=engine("b1"))
        await fleet.join("b2", "b1", engine=engine("b2"))
        await report_when(fleet, lambda report: set(report.engine.boxes) == {"b1", "b2"})
        for box in ("b1", "b2"):
            job = {"id": f"on-{box}", "demand": {"cpu": 2}, "duration_s": 0.1, "zone": {"box": [box]}}
            asked = JobSubmission(job, "ada")
            await ask_own_agent(fleet.folder(box), fleet.settings[box], "/jobs/submit", asked, JobOrdered)
        report = await report_when(fleet, lambda report: all(job.phase == "ended" for job in report.jobs))
        assert [job.done_on[0].box for job in report.jobs] == ["b1", "b2"]
        pids = [fleet.jobs[box].engine_pid for box in ("b1", "b2")]
    assert not any(pid is None or psutil.pid_exists(pid) for pid in pids)
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(short) in " ".join(p.info["cmdline"] or ())]

"""Jobs of a fleet end to end: agents over real TLS, and the engine's own process with the engine `local`."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from fleet_agents_kit import FleetOfAgents

from edge.core.errors import Conflict, InvalidValue, NotFound, Unavailable
from edge.core.fleet_jobs import FleetJobReport, JobOrdered, JobsAsk, JobsReport, JobSubmission, JobWithdrawal
from edge.detectors.pictures import jpeg_bytes
from edge.fleet.own_agent import ask_own_agent

WAIT_S = 120.0


async def ask(fleet: FleetOfAgents, box: str, path: str, message: Any, kind: Any) -> Any:
    return await ask_own_agent(fleet.folder(box), fleet.settings[box], path, message, kind)


async def submit(fleet: FleetOfAgents, box: str, name: str, **fields: Any) -> FleetJobReport:
    job = {"id": name, "demand": {"cpu": 1}, "duration_s": 0.1} | fields
    answer: JobOrdered = await ask(fleet, box, "/jobs/submit", JobSubmission(job, "ada"), JobOrdered)
    return answer.job


async def report(fleet: FleetOfAgents, box: str) -> JobsReport:
    found: JobsReport = await ask(fleet, box, "/jobs", JobsAsk(), JobsReport)
    return found


async def knows_head(fleet: FleetOfAgents, box: str) -> None:
    """Wait until the part of a box knows who decides."""
    async with asyncio.timeout(WAIT_S):
        while True:
            with contextlib.suppress(Unavailable, Conflict):
                await report(fleet, box)
                return
            await asyncio.sleep(0.05)


async def phase(fleet: FleetOfAgents, box: str, name: str, wanted: str) -> FleetJobReport:
    """Wait until a job is so."""
    async with asyncio.timeout(WAIT_S):
        while True:
            row = next(job for job in (await report(fleet, box)).jobs if job.id == name)
            if row.phase == wanted:
                return row
            await asyncio.sleep(0.1)


@pytest.mark.timeout(300)
async def test_a_job_given_on_any_box_runs_on_the_heads_and_is_answered_and_cancelled(tmp_path: Path) -> None:
    picture = jpeg_bytes(np.zeros((24, 40, 3), np.uint8))
    assert picture is not None
    (tmp_path / "night").mkdir()
    (tmp_path / "night" / "a.jpg").write_bytes(picture)
    async with FleetOfAgents(tmp_path) as fleet:
        await fleet.found("b1", engine={"amounts": {"cpu": 2}, "folders": {"night": str(tmp_path / "night")}})
        await fleet.join("b2", "b1")
        await knows_head(fleet, "b2")
        assert (await report(fleet, "b2")).engine.phase == "off"
        with pytest.raises(InvalidValue) as caught:
            await submit(fleet, "b2", "odd", after=["none"])
        assert caught.value.path == "after[0]"
        with pytest.raises(NotFound, match="no job none"):
            await ask(fleet, "b2", "/jobs/withdraw", JobWithdrawal("none", "ada"), JobOrdered)

        assert (await submit(fleet, "b2", "quick")).phase == "waiting"
        work = {"program": "wait", "arguments": {"seconds": None, "checkpoint_s": 0.1}}
        await submit(fleet, "b1", "long", duration_s=None, work=work)
        with pytest.raises(Conflict, match="already"):
            await submit(fleet, "b2", "long")
        await submit(fleet, "b1", "huge", demand={"cpu": 9})
        arguments = {"folder": "night", "out": "labels.json", "teacher": "demo"}
        await submit(fleet, "b2", "label", work={"program": "label", "arguments": arguments})
        quick = await phase(fleet, "b2", "quick", "ended")
        assert quick.done_on[0].box == "b1"
        assert quick.done_on[0].answer["held_s"] >= 0.1
        labelled = await phase(fleet, "b1", "label", "ended")
        assert labelled.done_on[0].answer["pictures"] == 1
        assert json.loads((tmp_path / "night" / "labels.json").read_text())["images"][0]["file_name"] == "a.jpg"
        refused = await phase(fleet, "b2", "huge", "refused")
        assert refused.why is not None
        assert refused.why.code == "too_large"

        running = await phase(fleet, "b1", "long", "running")
        assert running.running == {0: "b1"}
        await ask(fleet, "b2", "/jobs/withdraw", JobWithdrawal("long", "bea"), JobOrdered)
        stopped = await phase(fleet, "b1", "long", "withdrawn")
        assert stopped.withdrawn_by == "bea"
        pid = fleet.jobs["b1"].engine_pid
        assert pid is not None
        await fleet.kill("b1")
        assert not psutil.pid_exists(pid)
        await fleet.start("b1")
        await knows_head(fleet, "b1")
        assert [job.phase for job in (await report(fleet, "b1")).jobs] == ["ended", "withdrawn", "refused", "ended"]

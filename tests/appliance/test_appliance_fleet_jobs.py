"""The jobs of the fleet as the appliance asks its agent, answers and journals them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edge.appliance.fleet_jobs import FleetJobs, jobs_answer
from edge.core.errors import NotFound, Unavailable
from edge.core.fleet_jobs import DoneTask, EngineReport, FleetJobReport, JobsReport, RaisedTask, TenantReport
from edge.core.fleet_reasons import FleetReason
from edge.fleet.folder import FleetFolder
from edge.fleet.joining import found_fleet
from edge.fleet.own_agent import OwnAgent
from edge.settings import SiteSettings, parse

FLEET = {"name": "b1", "token": "env:X", "host": "127.0.0.1", "port": 1}
ONE = FleetJobReport("one", "wait", 3, "running", "ada", 100.0, "night")
REPORT = JobsReport(
    "b1", (replace(ONE, done_on={2: DoneTask("b2", {"n": 1})}, running={0: "b1"}, raised={1: RaisedTask(2, "no file")},
                   why=FleetReason("full", (), 1, 0)),),
    (TenantReport("night", "cpu", 3.0, 1.0, 1.0),), EngineReport("local", "up", "", ("b1",)), {"b2": 4},
)  # fmt: skip


class Notes(list[tuple[str, dict[str, Any]]]):
    """Journal entries."""

    def __call__(
        self, kind: str, camera: str | None = None, window: int | None = None, data: Mapping[str, Any] | None = None
    ) -> None:
        self.append((kind, dict(data or {})))


def test_a_job_is_answered_with_its_tasks() -> None:
    answer = jobs_answer(REPORT)
    (job,) = answer.jobs
    assert [(t.task, t.box, t.done, t.failures, t.answer) for t in job.task_states] == [
        (0, "b1", False, 0, None), (1, None, False, 2, None), (2, "b2", True, 0, {"n": 1}),
    ]  # fmt: skip
    assert (job.running, job.done, job.tasks) == (1, 1, 3)
    assert job.why is not None
    assert job.why.words == "0 of 1 tasks fit now"
    assert [(e.box, e.open) for e in answer.elsewhere] == [("b2", 4)]
    assert answer.tenants[0].share == 1.0


def test_jobs_that_are_over_are_journalled_once(tmp_path: Path) -> None:
    notes = Notes()
    jobs = FleetJobs(parse(SiteSettings, {"data_dir": str(tmp_path), "fleet": FLEET}), notes, None)
    over = replace(ONE, phase="ended")
    jobs.look(replace(REPORT, jobs=(replace(over, id="before"), ONE)))
    assert notes == []
    for _ in range(2):
        jobs.look(replace(REPORT, jobs=(over, replace(over, id="quick", phase="refused"))))
    assert notes == [
        ("fleet.job_over", {"job": "one", "outcome": "ended"}),
        ("fleet.job_over", {"job": "quick", "outcome": "refused"}),
    ]  # fmt: skip
    assert jobs.last() is not None
    jobs.look(None)
    assert jobs.last() is None, "another box is the head"


async def test_without_a_fleet_or_an_agent_it_refuses(tmp_path: Path) -> None:
    alone = FleetJobs(parse(SiteSettings, {"data_dir": str(tmp_path)}), Notes(), None)
    with pytest.raises(NotFound, match="no fleet"):
        await alone.jobs()
    site = parse(SiteSettings, {"data_dir": str(tmp_path), "fleet": FLEET})
    assert site.fleet is not None
    folder, notes = FleetFolder(tmp_path), Notes()
    agent = OwnAgent(folder, site.fleet)
    jobs = FleetJobs(site, notes, agent)
    with pytest.raises(NotFound, match="no fleet"):
        await jobs.submit({"id": "x", "demand": {}, "duration_s": 1}, "ada")
    found_fleet(folder, "yard", site.fleet, "127.0.0.1")
    for asked in (
        jobs.jobs(),
        jobs.withdraw("x", "ada"),
        jobs.submit({"id": "x", "demand": {}, "duration_s": 1}, "ada"),
    ):
        with pytest.raises(Unavailable, match="no box answers"):
            await asked
    await agent.close()
    assert notes == []

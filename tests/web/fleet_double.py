"""The fleet of the web tests' appliance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edge.appliance.answers.fleet import FleetAnswer
from edge.appliance.answers.fleet_jobs import FleetJobAnswer, FleetJobsAnswer
from edge.appliance.answers.read import read
from edge.core.errors import Conflict, NotFound
from edge.core.fleet_job_file import submitted_job
from web.examples.fleet import FLEET, JOB, JOBS


class DictFleet:
    """Implements `FleetService`: the fleet of the example."""

    def fleet(self) -> FleetAnswer:
        return read(FleetAnswer, FLEET)


class DictFleetJobs:
    """Implements `FleetJobsService`: the jobs of the example, and those that are submitted."""

    def __init__(self) -> None:
        self._jobs = {job["id"]: dict(job) for job in JOBS["jobs"]}
        #: Who ordered what.
        self.orders: list[tuple[str, str, str]] = []

    async def jobs(self) -> FleetJobsAnswer:
        return read(FleetJobsAnswer, JOBS | {"jobs": list(self._jobs.values())})

    async def submit(self, job: Mapping[str, Any], by: str) -> FleetJobAnswer:
        asked = submitted_job(job)
        if asked.job.id in self._jobs:
            raise Conflict(f"there is a job {asked.job.id} already")
        more = {"id": asked.job.id, "tasks": asked.job.tasks, "program": asked.work.program, "by": by}
        self._jobs[asked.job.id] = JOB | more | {"phase": "waiting", "running": 0, "told": []}
        self.orders.append(("submit", asked.job.id, by))
        return read(FleetJobAnswer, self._jobs[asked.job.id])

    async def withdraw(self, job: str, by: str) -> None:
        if job not in self._jobs:
            raise NotFound(f"there is no job {job}")
        if self._jobs[job]["phase"] == "ended":
            raise Conflict(f"job {job} is over (ended)")
        self._jobs[job] |= {"phase": "stopping", "withdrawn_by": by}
        self.orders.append(("withdraw", job, by))

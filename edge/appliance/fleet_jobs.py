"""The jobs of the fleet: asked for by this box's agent, journalled where they are ordered and, on the head's box, where
they are over."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from edge.appliance.answers.fleet_jobs import (
    FleetEngineAnswer,
    FleetJobAnswer,
    FleetJobsAnswer,
    FleetReasonAnswer,
    FleetResourceAnswer,
    FleetTenantAnswer,
    JobsElsewhereAnswer,
    JobTaskAnswer,
)
from edge.core.errors import NotFound, StoreError
from edge.core.fleet_job_file import submitted_job
from edge.core.fleet_jobs import FleetJobReport, JobOrdered, JobsAsk, JobsReport, JobSubmission, JobWithdrawal
from edge.core.fleet_reasons import FleetReason
from edge.core.journal_kinds import JournalNote
from edge.fleet.folder import FleetFolder
from edge.fleet.own_agent import OwnAgent
from edge.settings import SiteSettings

_LOOK_S: Final = 5.0
_MOST_TASKS: Final = 100
_OVER: Final = frozenset({"ended", "withdrawn", "refused"})


class FleetJobsService(Protocol):
    """Part of `edge.appliance.service.ApplianceService`. Every call raises NotFound where this box is in no fleet,
    Unavailable where its agent does not run or no box decides, NotUnderstood where the head is of an older version."""

    async def jobs(self) -> FleetJobsAnswer:
        """All jobs that the head keeps."""

    async def submit(self, job: Mapping[str, Any], by: str) -> FleetJobAnswer:
        """A job as docs/fleet.md has it; it is kept when this returns. Raises InvalidValue, Conflict."""

    async def withdraw(self, job: str, by: str) -> None:
        """Cancel a job: its tasks are stopped. Raises NotFound, Conflict."""


class FleetJobs:
    """Implements `FleetJobsService`. `agent` None: the site file has no section `fleet`."""

    def __init__(self, site: SiteSettings, note: JournalNote, agent: OwnAgent | None) -> None:
        self._note, self._agent = note, agent
        self._folder = FleetFolder(Path(site.data_dir))
        self._seen: dict[str, str] | None = None
        self._last: FleetJobsAnswer | None = None

    async def jobs(self) -> FleetJobsAnswer:
        """See `FleetJobsService`."""
        return jobs_answer(await self._own_agent().ask("/jobs", JobsAsk(), JobsReport))

    async def submit(self, job: Mapping[str, Any], by: str) -> FleetJobAnswer:
        """See `FleetJobsService`."""
        agent = self._own_agent()
        asked = submitted_job(job)
        ordered = await agent.ask("/jobs/submit", JobSubmission(dict(job), by), JobOrdered)
        self._note("fleet.job_submitted", data={"job": asked.job.id, "program": asked.work.program, "by": by})
        return job_answer(ordered.job)

    async def withdraw(self, job: str, by: str) -> None:
        """See `FleetJobsService`."""
        await self._own_agent().ask("/jobs/withdraw", JobWithdrawal(job, by), JobOrdered)
        self._note("fleet.job_withdrawn", data={"job": job, "by": by})

    def last(self) -> FleetJobsAnswer | None:
        """The jobs as the agent reported them last; None: this box is not the head."""
        return self._last

    async def run(self) -> None:
        """On the head's box look from time to time for jobs that are over, until cancelled."""
        while self._agent is not None:
            with contextlib.suppress(StoreError):  # its agent logs that
                self.look(await asyncio.to_thread(self._folder.read, "jobs_report.json", JobsReport))
            await asyncio.sleep(_LOOK_S)

    def look(self, report: JobsReport | None) -> None:
        """Journal jobs that are over and were not the last time. Of those that are there at first nothing is known."""
        self._last = None if report is None else jobs_answer(report)
        if report is None:
            self._seen = None
            return
        phases = {job.id: job.phase for job in report.jobs}
        for job, phase in phases.items():
            if self._seen is not None and phase in _OVER and self._seen.get(job) not in _OVER:
                self._note("fleet.job_over", data={"job": job, "outcome": phase})
        self._seen = dict(phases)

    def _own_agent(self) -> OwnAgent:
        if self._agent is None:
            raise NotFound("this box is in no fleet", "the site file has no section fleet")
        return self._agent


def jobs_answer(report: JobsReport) -> FleetJobsAnswer:
    """All jobs as they are answered."""
    engine = report.engine
    return FleetJobsAnswer(
        head=report.head,
        engine=FleetEngineAnswer(kind=engine.kind, phase=engine.phase, why=engine.why, boxes=engine.boxes),
        jobs=tuple(job_answer(job) for job in report.jobs),
        tenants=tuple(
            FleetTenantAnswer(tenant=t.tenant, resource=t.resource, wanted=t.wanted, share=t.share, used=t.used)
            for t in report.tenants
        ),
        elsewhere=tuple(JobsElsewhereAnswer(box=box, open=count) for box, count in sorted(report.elsewhere.items())),
        damaged=report.damaged,
        resources=tuple(
            FleetResourceAnswer(box=r.box, name=r.name, capacity=r.capacity, used=r.used) for r in report.resources
        ),
    )


def job_answer(job: FleetJobReport) -> FleetJobAnswer:
    """One job as it is answered."""
    tasks = sorted({*job.running, *job.raised, *job.done_on})
    return FleetJobAnswer(
        id=job.id, program=job.program, phase=job.phase, tenant=job.tenant, queue=job.queue, priority=job.priority,
        tasks=job.tasks, running=len(job.running), done=len(job.done_on),
        task_states=tuple(_task_answer(job, task) for task in tasks[:_MOST_TASKS]),
        why=_reason_answer(job.why), by=job.by, withdrawn_by=job.withdrawn_by, came_utc_s=job.came_utc_s,
        over_utc_s=job.over_utc_s,
    )  # fmt: skip


def _task_answer(job: FleetJobReport, task: int) -> JobTaskAnswer:
    raised, done = job.raised.get(task), job.done_on.get(task)
    return JobTaskAnswer(
        task=task,
        box=done.box if done is not None else job.running.get(task),
        done=done is not None,
        failures=0 if raised is None else raised.failures,
        why="" if raised is None else raised.why,
        answer=None if done is None else done.answer,
    )


def _reason_answer(why: FleetReason | None) -> FleetReasonAnswer | None:
    return None if why is None else FleetReasonAnswer(code=why.code, words=why.words())

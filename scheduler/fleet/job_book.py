"""The table of a fleet's jobs: they come in, end, are withdrawn or refused, and are forgotten. Functions of frozen
values; the head keeps the table over restarts of the engine and of itself."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from edge.core.errors import Conflict, InvalidValue, NotFound
from edge.core.fleet_job_file import SubmittedJob, submitted_job
from edge.core.fleet_jobs import (
    LARGEST_ANSWER,
    DoneTask,
    FleetJobPhase,
    FleetJobRecord,
    FleetJobReport,
    FleetJobTable,
    JobOutcome,
    RaisedTask,
)
from edge.core.fleet_reasons import FleetReason

MOST_OPEN: Final = 500
_LONGEST_WHY: Final = 500


def is_open(job: FleetJobRecord) -> bool:
    """Whether something of it may still run."""
    return job.outcome is None


def open_jobs(table: FleetJobTable) -> list[str]:
    """Jobs that are not over, in the order of arrival."""
    return [name for name, job in in_order(table) if is_open(job)]


def in_order(table: FleetJobTable) -> list[tuple[str, FleetJobRecord]]:
    """All jobs in the order of arrival."""
    return sorted(table.jobs.items(), key=lambda row: row[1].number)


def added(table: FleetJobTable, asked: SubmittedJob, given: Mapping[str, Any], by: str, utc_s: float) -> FleetJobTable:
    """A job came in. Raises Conflict for an id that is in the table or too many open jobs, InvalidValue for a job that
    it names and that is not in the table."""
    job = asked.job
    if job.id in table.jobs:
        raise Conflict(f"there is a job {job.id} already", "choose another id")
    if len(open_jobs(table)) >= MOST_OPEN:
        raise Conflict(f"{MOST_OPEN} jobs are open", "wait for some to end, or cancel some")
    named = [("after", job.after), ("near", job.rule.near)]
    named += [(f"prefer[{n}].near", choice.near) for n, choice in enumerate(job.choices)]
    for key, names in named:
        for n, other in enumerate(names):
            if other not in table.jobs:
                raise InvalidValue(f"{key}[{n}]", other, "the id of a job that the fleet knows")
    kept = FleetJobRecord(dict(given), table.came_in, by, utc_s)
    return FleetJobTable({**table.jobs, job.id: kept}, table.came_in + 1)


def withdrawn(table: FleetJobTable, job: str, by: str) -> FleetJobTable:
    """A person does not want a job any more; it is over when its tasks are known to have stopped. Raises NotFound,
    Conflict for one that is over."""
    known = table.jobs.get(job)
    if known is None:
        raise NotFound(f"there is no job {job}")
    if not is_open(known):
        raise Conflict(f"job {job} is over ({known.outcome})")
    return table if known.withdrawn_by else _with(table, job, replace(known, withdrawn_by=by or "an unnamed user"))


def task_done(table: FleetJobTable, job: str, task: int, box: str, answer: Any) -> FleetJobTable:
    """A task's program answered."""
    known = table.jobs.get(job)
    if known is None or task in known.done:
        return table
    kept = answer if len(json.dumps(answer)) <= LARGEST_ANSWER else None
    done = {**known.done, task: DoneTask(box, kept)}
    states = {n: state for n, state in known.kept.items() if n != task}
    raised = {n: failure for n, failure in known.raised.items() if n != task}
    return _with(table, job, replace(known, done=done, kept=states, raised=raised))


def task_kept(table: FleetJobTable, job: str, task: int, state: Mapping[str, Any]) -> FleetJobTable:
    """A task could go on from `state`."""
    known = table.jobs.get(job)
    if known is None or not is_open(known) or task in known.done:
        return table
    return _with(table, job, replace(known, kept={**known.kept, task: dict(state)}))


def task_raised(table: FleetJobTable, job: str, task: int, failures: int, why: str) -> FleetJobTable:
    """A task's program raised."""
    known = table.jobs.get(job)
    if known is None:
        return table
    failure = RaisedTask(failures, why[:_LONGEST_WHY])
    return _with(table, job, replace(known, raised={**known.raised, task: failure}))


def refused(table: FleetJobTable, job: str, why: FleetReason, utc_s: float) -> FleetJobTable:
    """A job can never be placed."""
    return _over(table, job, "refused", utc_s, why)


def over(table: FleetJobTable, job: str, tasks: int, utc_s: float) -> FleetJobTable:
    """Nothing of a job runs any more."""
    known = table.jobs.get(job)
    if known is None:
        return table
    return _over(table, job, "ended" if len(known.done) >= tasks else "withdrawn", utc_s)


def stopped(table: FleetJobTable, utc_s: float) -> FleetJobTable:
    """Nothing of any job runs: those that were withdrawn are over."""
    for name, job in table.jobs.items():
        if job.withdrawn_by and is_open(job):
            table = _over(table, name, "withdrawn", utc_s)
    return table


def to_forget(table: FleetJobTable, keep: int) -> list[str]:
    """Jobs that are over and that no open job names, but the newest `keep` of them; the oldest first."""
    ended = [(job.over_utc_s or 0.0, job.number, name) for name, job in table.jobs.items() if not is_open(job)]
    if len(ended) <= keep:
        return []
    needed = {other for job in table.jobs.values() if is_open(job) for other in _needs(job.given)}
    oldest = [name for _, _, name in sorted(ended)][: len(ended) - keep]
    return [name for name in oldest if name not in needed]


def without(table: FleetJobTable, jobs: Sequence[str]) -> FleetJobTable:
    """The table without these jobs."""
    gone = set(jobs)
    return FleetJobTable({name: job for name, job in table.jobs.items() if name not in gone}, table.came_in)


def usable(table: FleetJobTable) -> FleetJobTable:
    """The jobs of a table that this version can read: a job of another version may not be one."""
    good = {}
    for name, job in table.jobs.items():
        with contextlib.suppress(InvalidValue):
            submitted_job(job.given)
            good[name] = job
    return FleetJobTable(good, table.came_in)


def report(job: FleetJobRecord, running: Mapping[int, str], why: FleetReason | None) -> FleetJobReport:
    """A job for people, with what its engine reports of it now."""
    asked = submitted_job(job.given)
    spec = asked.job
    now = {task: box for task, box in running.items() if is_open(job) and task not in job.done}
    phase: FleetJobPhase = "running" if now else "waiting"
    if job.outcome is not None:
        phase = job.outcome
    elif job.withdrawn_by:
        phase = "stopping"
    return FleetJobReport(
        spec.id, asked.work.program, spec.tasks, phase, job.by, job.came_utc_s, spec.tenant, spec.queue, spec.priority,
        dict(job.done), now, job.refused or (why if is_open(job) else None),
        dict(job.raised), job.over_utc_s, job.withdrawn_by,
    )  # fmt: skip


def _over(
    table: FleetJobTable, job: str, outcome: JobOutcome, utc_s: float, why: FleetReason | None = None
) -> FleetJobTable:
    known = table.jobs.get(job)
    if known is None or not is_open(known):
        return table
    return _with(table, job, replace(known, outcome=outcome, over_utc_s=utc_s, refused=why, kept={}))


def _needs(given: Mapping[str, Any]) -> set[str]:
    """The jobs that a job names."""
    job = submitted_job(given).job
    return {*job.after, *job.rule.near, *(name for choice in job.choices for name in choice.near)}


def _with(table: FleetJobTable, name: str, job: FleetJobRecord) -> FleetJobTable:
    return FleetJobTable({**table.jobs, name: job}, table.came_in)

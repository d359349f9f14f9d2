"""The book of a fleet's jobs: they come in, end, are withdrawn or refused, and are forgotten. Functions of frozen
values; the head keeps the book over restarts of the engine and of itself."""

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
    FleetJobReport,
    JobBook,
    JobOutcome,
    KeptJob,
    RaisedTask,
)
from edge.core.fleet_reasons import FleetReason

MOST_OPEN: Final = 500
_LONGEST_WHY: Final = 500


def is_open(job: KeptJob) -> bool:
    """Whether something of it may still run."""
    return job.outcome is None


def open_jobs(book: JobBook) -> list[str]:
    """Jobs that are not over, in the order of arrival."""
    return [name for name, job in in_order(book) if is_open(job)]


def in_order(book: JobBook) -> list[tuple[str, KeptJob]]:
    """All jobs in the order of arrival."""
    return sorted(book.jobs.items(), key=lambda row: row[1].number)


def added(book: JobBook, asked: SubmittedJob, given: Mapping[str, Any], by: str, utc_s: float) -> JobBook:
    """A job came in. Raises Conflict for an id that is in the book or too many open jobs, InvalidValue for a job that
    it names and that is not in the book."""
    job = asked.job
    if job.id in book.jobs:
        raise Conflict(f"there is a job {job.id} already", "choose another id")
    if len(open_jobs(book)) >= MOST_OPEN:
        raise Conflict(f"{MOST_OPEN} jobs are open", "wait for some to end, or cancel some")
    named = [("after", job.after), ("near", job.rule.near)]
    named += [(f"prefer[{n}].near", choice.near) for n, choice in enumerate(job.choices)]
    for key, names in named:
        for n, other in enumerate(names):
            if other not in book.jobs:
                raise InvalidValue(f"{key}[{n}]", other, "the id of a job that the fleet knows")
    kept = KeptJob(dict(given), book.came_in, by, utc_s)
    return JobBook({**book.jobs, job.id: kept}, book.came_in + 1)


def withdrawn(book: JobBook, job: str, by: str) -> JobBook:
    """A person does not want a job any more; it is over when its tasks are known to have stopped. Raises NotFound,
    Conflict for one that is over."""
    known = book.jobs.get(job)
    if known is None:
        raise NotFound(f"there is no job {job}")
    if not is_open(known):
        raise Conflict(f"job {job} is over ({known.outcome})")
    return book if known.withdrawn_by else _with(book, job, replace(known, withdrawn_by=by or "somebody"))


def task_done(book: JobBook, job: str, task: int, box: str, answer: Any) -> JobBook:
    """A task's program answered."""
    known = book.jobs.get(job)
    if known is None or task in known.done:
        return book
    kept = answer if len(json.dumps(answer)) <= LARGEST_ANSWER else None
    done = {**known.done, task: DoneTask(box, kept)}
    states = {n: state for n, state in known.kept.items() if n != task}
    raised = {n: failure for n, failure in known.raised.items() if n != task}
    return _with(book, job, replace(known, done=done, kept=states, raised=raised))


def task_kept(book: JobBook, job: str, task: int, state: Mapping[str, Any]) -> JobBook:
    """A task could go on from `state`."""
    known = book.jobs.get(job)
    if known is None or not is_open(known) or task in known.done:
        return book
    return _with(book, job, replace(known, kept={**known.kept, task: dict(state)}))


def task_raised(book: JobBook, job: str, task: int, failures: int, why: str) -> JobBook:
    """A task's program raised."""
    known = book.jobs.get(job)
    if known is None:
        return book
    failure = RaisedTask(failures, why[:_LONGEST_WHY])
    return _with(book, job, replace(known, raised={**known.raised, task: failure}))


def refused(book: JobBook, job: str, why: FleetReason, utc_s: float) -> JobBook:
    """Nobody can ever place a job."""
    return _over(book, job, "refused", utc_s, why)


def over(book: JobBook, job: str, tasks: int, utc_s: float) -> JobBook:
    """Nothing of a job runs any more."""
    known = book.jobs.get(job)
    if known is None:
        return book
    return _over(book, job, "ended" if len(known.done) >= tasks else "withdrawn", utc_s)


def stopped(book: JobBook, utc_s: float) -> JobBook:
    """Nothing of any job runs: those that were withdrawn are over."""
    for name, job in book.jobs.items():
        if job.withdrawn_by and is_open(job):
            book = _over(book, name, "withdrawn", utc_s)
    return book


def to_forget(book: JobBook, keep: int) -> list[str]:
    """Jobs that are over and that no open job names, but the newest `keep` of them; the oldest first."""
    ended = [(job.over_utc_s or 0.0, job.number, name) for name, job in book.jobs.items() if not is_open(job)]
    if len(ended) <= keep:
        return []
    needed = {other for job in book.jobs.values() if is_open(job) for other in _needs(job.given)}
    oldest = [name for _, _, name in sorted(ended)][: len(ended) - keep]
    return [name for name in oldest if name not in needed]


def without(book: JobBook, jobs: Sequence[str]) -> JobBook:
    """The book without these jobs."""
    gone = set(jobs)
    return JobBook({name: job for name, job in book.jobs.items() if name not in gone}, book.came_in)


def usable(book: JobBook) -> JobBook:
    """The jobs of a book that this version can read: a job of another version may not be one."""
    good = {}
    for name, job in book.jobs.items():
        with contextlib.suppress(InvalidValue):
            submitted_job(job.given)
            good[name] = job
    return JobBook(good, book.came_in)


def report(job: KeptJob, running: Mapping[int, str], why: FleetReason | None) -> FleetJobReport:
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


def _over(book: JobBook, job: str, outcome: JobOutcome, utc_s: float, why: FleetReason | None = None) -> JobBook:
    known = book.jobs.get(job)
    if known is None or not is_open(known):
        return book
    return _with(book, job, replace(known, outcome=outcome, over_utc_s=utc_s, refused=why, kept={}))


def _needs(given: Mapping[str, Any]) -> set[str]:
    """The jobs that a job names."""
    job = submitted_job(given).job
    return {*job.after, *job.rule.near, *(name for choice in job.choices for name in choice.near)}


def _with(book: JobBook, name: str, job: KeptJob) -> JobBook:
    return JobBook({**book.jobs, name: job}, book.came_in)

"""Jobs that will never be done: they fit on no box, or are withdrawn; those that need them, too."""

from __future__ import annotations

from edge.core.fleet_reasons import FleetReason
from scheduler.fleet.events import RefuseJob
from scheduler.fleet.losing import break_gang, stop
from scheduler.fleet.state import FleetState, JobState


def refuse(state: FleetState, job: JobState, reason: FleetReason) -> None:
    """A job that has no task on a box is refused, and so are those that need it."""
    job.refused = reason
    _leave(state, job)
    state.out.append(RefuseJob(job.id, reason))
    _refuse_needing(state, job, FleetReason("target_refused", (job.id,)))


def withdraw(state: FleetState, job: JobState) -> None:
    """Stop a job's tasks, and begin none any more. One that ends before its box got the order has ended."""
    if job.withdrawn or job.over:
        return
    job.withdrawn = True
    _leave(state, job)
    state.fair.wants(job.job.tenant, job.job.demand, -len(job.waiting()))
    for number, task in enumerate(job.tasks):
        if task.status == "waiting":
            task.status = "withdrawn"
        elif task.status == "placed":
            stop(state, job, number, "withdrawn")
    if job.broken:
        break_gang(state, job)
    _refuse_needing(state, job, FleetReason("target_withdrawn", (job.id,)))


def _refuse_needing(state: FleetState, job: JobState, reason: FleetReason) -> None:
    """Refuse jobs that begin after a job, or run beside it and have no place yet. Companions of one that had a place
    may have begun: they go on."""
    beside = [] if state.near.where(job.id) else [n for n, o in state.jobs.items() if job.id in o.job.rule.near]
    for name in [*state.lines.wake(job.id), *beside]:
        other = state.jobs[name]
        if not other.withdrawn and other.refused is None:
            state.fair.wants(other.job.tenant, other.job.demand, -len(other.waiting()))
            refuse(state, other, reason)


def _leave(state: FleetState, job: JobState) -> None:
    state.lines.leave(job.id)
    state.lines.unpark(job.id)

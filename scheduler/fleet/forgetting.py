"""Forgets jobs that are over, with every name that was made for them: a controller that runs for months stays small."""

from __future__ import annotations

from scheduler.fleet.near import Locality
from scheduler.fleet.order import Signals
from scheduler.fleet.state import FleetState, JobState


def may_forget(state: FleetState, job: JobState) -> bool:
    """Whether a job is over, and no other job that is not over names it."""
    return job.over and not any(job.id in other.needs() for other in state.jobs.values() if not other.over)


def forget(state: FleetState, job: JobState) -> None:
    """A job that may be forgotten is not remembered."""
    del state.jobs[job.id]
    state.lines.leave(job.id)
    state.lines.unpark(job.id)
    state.signals.forget(job.id)
    state.near.forget(job.id)
    gone = {Locality.name(job.id), Signals.name(job.id)}
    kept = {avoid.group for other in state.jobs.values() for avoid in other.groups()}
    for group in {avoid.group for avoid in job.groups()} - kept:
        gone.update(state.bookings.apart.forget(group))
    if job.id in state.bookings.kept.values():
        state.bookings.kept.clear()
        state.lines.look_everywhere()
    state.bookings.prune()
    # Boxes that got these names hear that they are gone.
    state.matcher.resized += [place for place in state.announced if place[1] in gone]

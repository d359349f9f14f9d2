"""Soft constraints: choices tried in turn. A later one opens each time that the job has waited so long again."""

from __future__ import annotations

from edge.core.fleet import FleetJob


def open_choices(job: FleetJob, since_s: float, at_s: float) -> range:
    """Indices of the choices that may be used now, the preferred one first. `since_s`: since when the job waits."""
    last = len(job.rules) - 1
    if last == 0 or job.relax_after_s <= 0.0:
        return range(last + 1)
    index = 0
    # Compared as the sum that the timer uses, so that rounding never opens a choice early or misses its time.
    while index < last and at_s >= opens_at_s(job, since_s, index + 1):
        index += 1
    return range(index + 1)


def opens_at_s(job: FleetJob, since_s: float, choice: int) -> float:
    """When a choice opens for a job that waits since `since_s`."""
    return since_s + choice * job.relax_after_s


def next_opening_s(job: FleetJob, since_s: float, at_s: float) -> float | None:
    """When the next choice opens; None: all are open."""
    following = len(open_choices(job, since_s, at_s))
    return opens_at_s(job, since_s, following) if following < len(job.rules) else None

"""Why a job waits: worked out when it is asked for."""

from __future__ import annotations

from edge.core.fleet import is_ephemeral
from edge.core.fleet_reasons import FleetReason
from scheduler.fleet.matcher import FLEET
from scheduler.fleet.soft import open_choices
from scheduler.fleet.state import FleetState, JobState


def why_waiting(state: FleetState, job: JobState) -> FleetReason | None:
    """The first need that keeps a job waiting; None: it does not wait."""
    if job.refused is not None or not job.waiting():
        return None
    missing = state.signals.missing(job.job.after)
    if missing:
        return FleetReason("signal", tuple(missing))
    if job.broken:
        left = sorted({task.box for task in job.tasks if task.status == "placed" and task.box is not None})
        return FleetReason("fencing", tuple(left))
    nowhere = tuple(target for target in job.job.rule.near if not state.near.where(target))
    if nowhere:
        return FleetReason("near", nowhere)
    for name in job.job.demand:
        if is_ephemeral(name) and not state.matcher.exists(name):
            return FleetReason("no_offer", (name,))
    return _in_queue(state, job) or _no_room(state, job)


def _in_queue(state: FleetState, job: JobState) -> FleetReason | None:
    """The job before it in its queue, or that all slots are taken."""
    queue = state.slots.queues.get(job.job.queue or "")
    line = state.lines.line_of(job.id)
    if queue is None or line is None:
        return None
    if not state.matcher.fits(FLEET, state.slots.ask(queue.name).fleet):
        return FleetReason("slots", (queue.name,), possible=queue.slots)
    before = [name for _, _, name in line.tickets if not state.jobs[name].began]
    if before and before[0] != job.id and not job.began:
        return FleetReason("turn", (before[0],))
    return None


def _no_room(state: FleetState, job: JobState) -> FleetReason:
    """How many tasks fit now, and which boxes could be used if they were there."""
    wanted = len(job.waiting()) if job.job.gang else 1
    possible, closed = 0, []
    for choice in open_choices(job.job, job.since_s, state.now_s):
        here = state.ask(job.job, choice).here
        fitting = 0
        for box in state.matcher.candidates(here):
            if state.matcher.is_open(box):
                fitting += state.matcher.count(box, here, wanted)
            elif state.matcher.count(box, here, 1, empty=True):
                closed.append(box)
        possible = max(possible, fitting)
    kept = [other for other in state.bookings.kept.values() if other != job.id]
    if possible >= wanted and kept:
        return FleetReason("kept_free", (kept[0],))
    if closed:
        return FleetReason("away", tuple(dict.fromkeys(closed)), wanted, possible)
    return FleetReason("full", (), wanted, possible)

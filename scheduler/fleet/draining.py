"""Empties boxes: services and work with checkpoints move once there is room for them, other work ends where it is."""

from __future__ import annotations

from scheduler.fleet.events import EvictTask
from scheduler.fleet.gang import book_all
from scheduler.fleet.losing import evict, lose
from scheduler.fleet.placing import commit
from scheduler.fleet.state import BoxState, FleetState, JobState


def drain(state: FleetState, box: BoxState) -> None:
    """From now on the box takes nothing, and what can move is to move."""
    box.drained = True
    state.matcher.close(box.box.name)
    movable = [
        (state.jobs[job].number, job, task)
        for job, task in box.tasks
        if state.jobs[job].job.duration_s is None or state.jobs[job].job.checkpoints
    ]
    for _, job, task in sorted(movable):
        state.to_move[(job, task)] = None


def move_drained(state: FleetState) -> bool:
    """Move one task from a drained box. False: none can move now."""
    return any(_move(state, state.jobs[job], task) for job, task in list(state.to_move))


def _move(state: FleetState, job: JobState, task: int) -> bool:
    """Move a task: the orders to stop it and to start it elsewhere come together, so that a service is away for no
    longer than a start takes."""
    holder, box = (job.id, task), job.tasks[task].box
    if box is None or state.boxes[box].status != "open" or job.broken:
        return False
    before = job.at(task)
    own, freed = None if job.job.duration_s is None else job.id, len(state.matcher.freed)
    booking = state.bookings.give_back(holder)
    if booking is None:
        return False
    later = False
    for choice in range(len(job.job.rules)):
        ask = state.ask(job.job, choice)
        boxes = state.bookings.fitting(ask, own)
        opens_now = choice == 0 or job.job.relax_after_s <= 0.0
        if boxes and (job.job.offers or not opens_now):
            later = True
            break
        got = book_all(state.bookings, [holder], ask, state.shape(job.job), boxes, state.ranking(job.job))
        if got is not None:
            state.out.append(EvictTask(before, "drain"))
            del state.to_move[holder]
            state.boxes[box].tasks.discard(holder)
            state.fair.uses(job.job.tenant, job.job.demand, -1)
            job.since_s = state.now_s
            commit(state, job, [task], got, choice, ask)
            return True
    state.matcher.reopen(box)
    state.bookings.take(holder, booking)
    state.matcher.close(box)
    del state.matcher.freed[freed:]
    if later:
        evict(state, job, task, "drain")
        lose(state, job, ())
    return later

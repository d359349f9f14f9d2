"""Empties boxes: services and work with checkpoints move once there is room for them, other work ends where it is."""

from __future__ import annotations

from scheduler.fleet.losing import stop
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


def undrain(state: FleetState, box: BoxState) -> None:
    """The box takes work again. A task that was asked to stop still does; the others stay."""
    box.drained = False
    for job, task in [at for at in state.to_move if at in box.tasks]:
        if state.jobs[job].tasks[task].stopping is None:
            del state.to_move[(job, task)]
    if box.status == "open":
        state.matcher.reopen(box.box.name)


def move_drained(state: FleetState) -> None:
    """Stop tasks on drained boxes for which there is room elsewhere, on each box one at a time: as it has stopped it is
    placed, and the next one sees what room is left."""
    busy = {state.jobs[job].tasks[task].box for job, task in state.to_move if state.jobs[job].tasks[task].stopping}
    for name, task in state.to_move:
        job = state.jobs[name]
        box = job.tasks[task].box
        if box is not None and box not in busy and _has_room_elsewhere(state, job, task, box):
            stop(state, job, task, "drain")
            busy.add(box)


def _has_room_elsewhere(state: FleetState, job: JobState, task: int, box: str) -> bool:
    """Whether another box could take the task, under any of its choices."""
    if state.boxes[box].status != "open" or job.broken:
        return False
    holder, freed = (job.id, task), len(state.matcher.freed)
    booking = state.bookings.give_back(holder)
    if booking is None:
        return False
    own = None if job.job.duration_s is None else job.id
    asks = [state.ask(job.job, choice) for choice in range(len(job.job.rules))]
    found = any(state.bookings.fitting(ask, own) for ask in asks)
    # Back as it was: no other job need look.
    state.matcher.reopen(box)
    state.bookings.take(holder, booking)
    state.matcher.close(box)
    del state.matcher.freed[freed:]
    return found

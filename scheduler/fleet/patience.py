"""Keeps boxes free for the job that waits longest for much room, so that small jobs do not overtake it for ever."""

from __future__ import annotations

from scheduler.fleet.compose import Ask
from scheduler.fleet.gang import boxes_to_keep
from scheduler.fleet.soft import open_choices
from scheduler.fleet.state import FleetState, JobState


def keep_boxes(state: FleetState) -> bool:
    """Choose, keep or give up the boxes that are kept free. True: the choice changed."""
    kept = state.bookings.kept
    if kept:
        job = state.jobs[next(iter(kept.values()))]
        if job.waiting() and state.lines.line_of(job.id) is not None:
            return False
        kept.clear()
        state.lines.look_everywhere()
        return True
    waiting = []
    for lines in state.lines.by_tenant.values():
        for line in lines.values():
            job = state.jobs[line.tickets[0][2]]
            waited_s = state.now_s - job.since_s
            overtaken = waited_s >= state.rules.patience_s - 1e-9 and job.number < state.latest_begun
            if overtaken and _large(state, job) and state.fair.is_owed(job.job.tenant):
                waiting.append((job.number, job))
    for _, job in sorted(waiting, key=lambda pair: pair[0]):
        tasks = len(job.waiting()) if job.job.gang else 1
        choice = open_choices(job.job, job.since_s, state.now_s)[-1]
        ask = state.ask(job.job, choice)
        boxes = [(box, _room_in_time(state, box, ask, tasks)) for box in state.matcher.candidates(ask.here)]
        chosen = boxes_to_keep(boxes, tasks, state.matcher.load)
        if chosen:
            kept.update(dict.fromkeys(chosen, job.id))
            return True
    return False


def _large(state: FleetState, job: JobState) -> bool:
    """A gang, or a task that needs more than half of the largest box."""
    if job.job.gang and job.job.tasks > 1:
        return True
    for name, amount in job.job.demand.items():
        largest = max((box.box.resources.get(name, 0.0) for box in state.boxes.values()), default=0.0)
        if amount > 0.5 * largest:
            return True
    return False


def _room_in_time(state: FleetState, box: str, ask: Ask, tasks: int) -> int:
    """How many tasks the box holds once all work that ends has ended: services stay."""
    if not state.matcher.is_open(box):
        return 0
    lasting: dict[str, float] = {}
    for name, _ in state.boxes[box].tasks:
        job = state.jobs[name].job
        if job.duration_s is None:
            for resource, amount in job.demand.items():
                lasting[resource] = lasting.get(resource, 0.0) + amount
    fitting = tasks
    for resource, amount in ask.here.items():
        if amount > 0.0:
            free = state.matcher.capacity(resource, box) - lasting.get(resource, 0.0)
            fitting = min(fitting, max(0, int((free + 1e-9) / amount)))
    return fitting

"""Gives waiting tasks their boxes, one decision at a time."""

from __future__ import annotations

from collections.abc import Sequence

from edge.core.fleet import is_ephemeral
from scheduler.fleet.compose import Ask
from scheduler.fleet.events import MakeResource, PlaceTasks, WakeAt
from scheduler.fleet.gang import Places, book_all
from scheduler.fleet.lines import Line
from scheduler.fleet.matcher import FLEET
from scheduler.fleet.soft import open_choices, opens_at_s
from scheduler.fleet.state import FleetState, JobState


def enqueue(state: FleetState, job: JobState) -> None:
    """The job waits: for signals, or in its line."""
    missing = state.signals.missing(job.job.after)
    if missing:
        state.lines.park(job.id, missing)
        return
    spec = job.job
    ticket = (state.slots.rank(spec), job.number, job.id)
    if spec.queue is not None:
        state.lines.join(("queue", spec.queue), None, ticket, strict=True)
    elif spec.choices or spec.rule.avoid or spec.rule.near or len(job.waiting()) != spec.tasks:
        state.lines.join(("job", job.id), spec.tenant, ticket)
    else:
        tasks = spec.tasks if spec.gang else 0
        state.lines.join(("shape", state.shape(spec), tasks), spec.tenant, ticket)
    for choice in range(1, len(spec.rules)):
        state.out.append(WakeAt(opens_at_s(spec, job.since_s, choice)))
    if spec.gang:
        state.out.append(WakeAt(state.now_s + state.rules.patience_s))


def try_line(state: FleetState, line: Line) -> bool:
    """Place one task (a gang: all) of the first job of a line that fits. False: none can be placed now. In a strict
    line no job is tried behind one that never began."""
    if not line.strict:
        return try_job(state, state.jobs[line.tickets[0][2]], line)
    for _, _, name in list(line.tickets):
        job = state.jobs[name]
        if job.job.queue in state.unconfirmed:
            return False
        line.forget()
        if try_job(state, job, line):
            return True
        if not job.began:
            return False
    return False


def try_job(state: FleetState, job: JobState, line: Line) -> bool:
    """Place one waiting task of a job, or all of a gang."""
    spec, freed = job.job, state.matcher.freed
    opened = open_choices(spec, job.since_s, state.now_s)
    if len(opened) != line.choices:
        line.choices = len(opened)
        line.forget()
    changed: set[str] | None = None
    if line.seen >= 0:
        if line.seen == len(freed):
            return False
        changed = set(freed[line.seen :])
        if FLEET in changed:
            changed = None
    waiting = job.waiting()
    own = None if spec.duration_s is None else job.id
    tasks = waiting if spec.gang else waiting[:1]
    for choice in opened:
        ask = state.ask(spec, choice)
        if ask.fleet and not state.matcher.fits(FLEET, ask.fleet):
            continue
        if len(tasks) == 1:
            boxes = state.bookings.fitting(ask, own, changed)
        elif _enough(state, line, job, ask, len(tasks)):
            boxes = state.bookings.fitting(ask, own)
        else:
            continue
        if boxes and _book(state, job, tasks, ask, choice, boxes):
            line.seen = -1
            return True
    line.seen = len(freed)
    return False


def _enough(state: FleetState, line: Line, job: JobState, ask: Ask, tasks: int) -> bool:
    """Whether a gang might fit: cheap, from what is kept of earlier counts."""
    if ask.groups or job.job.choices:
        return True
    if line.places is None:
        line.places = Places(state.matcher, ask.here, tasks)
    return line.places.total() >= tasks


def _book(state: FleetState, job: JobState, tasks: Sequence[int], ask: Ask, choice: int, boxes: Sequence[str]) -> bool:
    holders = [(job.id, task) for task in tasks]
    shape = state.shape(job.job)
    got = book_all(state.bookings, holders, ask, shape, boxes, state.ranking(job.job))
    if got is None:
        return False
    commit(state, job, tasks, got, choice, ask)
    return True


def commit(state: FleetState, job: JobState, tasks: Sequence[int], boxes: Sequence[str], choice: int, ask: Ask) -> None:
    """Tasks that are booked are placed."""
    for task, box in zip(tasks, boxes, strict=True):
        placed = job.tasks[task]
        placed.status, placed.box, placed.choice = "placed", box, choice
        placed.epoch += 1
        settle_on(state, job, task, box)
        announce(state, box, ask)
    queue = job.job.queue
    confirm = queue is not None and not job.began
    if queue is not None and confirm:
        state.unconfirmed[queue] = job.id
    else:
        job.began = True
    state.latest_begun = max(state.latest_begun, job.number)
    state.out.append(PlaceTasks(tuple(job.at(task) for task in tasks), dict(ask.here), choice, confirm))
    if not job.waiting():
        state.lines.leave(job.id)


def answered(state: FleetState, job: JobState, *, taken: bool) -> None:
    """The boxes of a job's first placement answered, or did not."""
    job.began = job.began or taken
    if job.job.queue is not None and state.unconfirmed.get(job.job.queue) == job.id:
        del state.unconfirmed[job.job.queue]


def settle_on(state: FleetState, job: JobState, task: int, box: str) -> None:
    """Note a booked task on its box: its tenant's use, its companions' name, what it offers."""
    state.boxes[box].tasks.add((job.id, task))
    state.fair.uses(job.job.tenant, job.job.demand, 1)
    state.near.placed(job.id, task, box)
    for name, amount in job.job.offers.items():
        state.matcher.set_resource(name, state.matcher.capacity(name, box) + amount, box)


def announce(state: FleetState, box: str, ask: Ask) -> None:
    """Make the ephemeral resources on a box that a task there asks for, where the box did not get it yet."""
    for name in ask.here:
        if is_ephemeral(name):
            capacity = state.matcher.capacity(name, box)
            if state.announced.get((box, name)) != capacity:
                state.announced[(box, name)] = capacity
                state.out.append(MakeResource(box, name, capacity))


def announce_resized(state: FleetState) -> None:
    """Send boxes the names that they got before and that have another capacity now."""
    for place in state.matcher.resized:
        announced = state.announced.get(place)
        if announced is not None:
            box, name = place
            capacity = state.matcher.capacity(name, box)
            if capacity != announced:
                state.announced[place] = capacity
                state.out.append(MakeResource(box, name, capacity))
                if capacity == 0.0:
                    del state.announced[place]
    state.matcher.resized.clear()

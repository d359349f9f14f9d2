"""Takes tasks from boxes: ended, lost with a box, evicted; gangs whose part is lost; boxes that report again."""

from __future__ import annotations

from collections.abc import Iterable

from edge.core.fleet import TaskAt
from edge.core.fleet_reasons import EvictionCode
from scheduler.fleet.bookings import Booking
from scheduler.fleet.events import BoxReported, EvictTask
from scheduler.fleet.placing import answered, enqueue, settle_on
from scheduler.fleet.state import BoxState, FleetState, JobState


def release(state: FleetState, job: JobState, task: int) -> None:
    """A placed task holds nothing any more; children that lived in what it offered are evicted."""
    box = job.tasks[task].box
    state.bookings.give_back((job.id, task))
    state.to_move.pop((job.id, task), None)
    answered(state, job, taken=False)
    if box is None:
        return
    state.boxes[box].tasks.discard((job.id, task))
    state.fair.uses(job.job.tenant, job.job.demand, -1)
    for name, amount in job.job.offers.items():
        state.matcher.set_resource(name, max(0.0, state.matcher.capacity(name, box) - amount), box)
        _orphans(state, name, box)


def _orphans(state: FleetState, name: str, box: str) -> None:
    """Stop holders of a name until no more of it is held than there is."""
    over = state.matcher.held_beyond(name, box)
    for holder in sorted(state.boxes[box].tasks):
        booking = state.bookings.of(holder)
        amount = 0.0 if booking is None else booking.ask.here.get(name, 0.0)
        if over > 0.0 and amount > 0.0:
            over -= amount
            stop(state, state.jobs[holder[0]], holder[1], "parent_gone")


def stop(state: FleetState, job: JobState, task: int, reason: EvictionCode) -> None:
    """Order that a placed task stops before its work is done. It holds what it holds until its box answers."""
    if job.tasks[task].stopping is None:
        job.tasks[task].stopping = reason
        state.out.append(EvictTask(job.at(task), reason))


def stopped(state: FleetState, job: JobState, task: int) -> None:
    """A task stopped as ordered; it waits again, and its choices open from now on."""
    release(state, job, task)
    _wait(state, job, task)
    job.since_s = state.now_s
    if job.broken:
        break_gang(state, job)
    elif job.waiting():
        enqueue(state, job)


def lose(state: FleetState, job: JobState, tasks: Iterable[int], since_s: float = 0.0) -> None:
    """Tasks are gone without an order; they wait again, with the rest of their gang. Their box may have stopped them at
    `since_s` at the latest: choices open from then on."""
    for task in tasks:
        release(state, job, task)
        _wait(state, job, task)
    job.since_s = max(job.since_s, since_s)
    if job.job.gang:
        break_gang(state, job)
    elif job.waiting():
        enqueue(state, job)


def break_gang(state: FleetState, job: JobState) -> None:
    """Give back what is left of a gang that lost a part; it begins again when all of it is back. Tasks on silent boxes
    may still run until those boxes' leases are over, or they are heard."""
    for task, placed in enumerate(job.tasks):
        if placed.status == "placed" and placed.box is not None and state.boxes[placed.box].status != "silent":
            stop(state, job, task, "gang_broken")
    job.broken = any(task.status == "placed" for task in job.tasks)
    if not job.broken and job.waiting():
        enqueue(state, job)


def end(state: FleetState, job: JobState, task: int, ran_s: float) -> None:
    """A task's work is done."""
    before = job.tasks[task].status
    if before == "placed":
        release(state, job, task)
    job.tasks[task].status = "done"
    if before != "withdrawn":  # else it counts no more already
        state.fair.wants(job.job.tenant, job.job.demand, -1)
    if ran_s > 0.0:
        state.fair.task_took(ran_s)
    if job.broken:
        break_gang(state, job)
    if not job.waiting():
        state.lines.leave(job.id)
    if job.done:
        signal_end(state, job)


def signal_end(state: FleetState, job: JobState) -> None:
    """All tasks of a job have ended: jobs that waited for that join their lines."""
    state.signals.ended(job.id)
    for other in state.lines.wake(job.id):
        waiting = state.jobs[other]
        waiting.since_s = state.now_s
        if not state.signals.missing(waiting.job.after):
            enqueue(state, waiting)


def box_lost(state: FleetState, box: BoxState) -> None:
    """The lease of a silent box is over: nothing that others asked of it runs there."""
    box.status = "lost"
    state.boxes_changed()
    state.matcher.close(box.box.name)
    stopped_s = state.now_s - state.rules.fence_margin_s
    for name, tasks in _by_job(box):
        lose(state, state.jobs[name], tasks, 0.0 if state.jobs[name].job.overlap else stopped_s)


def box_heard(state: FleetState, box: BoxState, event: BoxReported) -> None:
    """A known box reports: take up what it runs, requeue what it lost, stop what others run by now."""
    name = box.box.name
    running = {(r.job, r.task): r for r in event.running}
    gone: dict[str, list[int]] = {}
    for job_name, tasks in _by_job(box):
        for task in tasks:
            there = running.get((job_name, task))
            if there is None or there.epoch != state.jobs[job_name].tasks[task].epoch:
                gone.setdefault(job_name, []).append(task)
    for place in [place for place in state.announced if place[0] == name]:
        del state.announced[place]
    box.status, box.heard_s = "open", state.now_s
    state.boxes_changed()
    if event.fresh:
        box.drained = False
        _begin_anew(state, box, event, gone)
    if not box.drained:
        state.matcher.reopen(name)
    for job_name, tasks in gone.items():
        lose(state, state.jobs[job_name], tasks, state.now_s)
    for there in event.running:
        _take_up(state, there)
    for job_name, tasks in _by_job(box):
        job = state.jobs[job_name]
        for task in tasks:
            reason, job.tasks[task].stopping = job.tasks[task].stopping, None
            if reason is not None:
                stop(state, job, task, reason)
        if job.broken:
            break_gang(state, job)


def _begin_anew(state: FleetState, box: BoxState, event: BoxReported, gone: dict[str, list[int]]) -> None:
    """Forget the box's ephemeral resources, and make those again that the schedulers need."""
    name = box.box.name
    kept: list[tuple[tuple[str, int], Booking]] = []
    for holder in sorted(box.tasks):
        booking = state.bookings.give_back(holder)
        if booking is not None and holder[1] not in gone.get(holder[0], ()):
            kept.append((holder, booking))
    box.box = event.box
    state.matcher.forget_names(name, event.box.resources)
    state.zones.box_began_anew(event.box)
    state.bookings.box_began_anew(event.box)
    state.near.box_began_anew(name)
    for holder, _ in kept:
        for offered, amount in state.jobs[holder[0]].job.offers.items():
            state.matcher.set_resource(offered, state.matcher.capacity(offered, name) + amount, name)
    for holder, booking in kept:
        if not state.bookings.take(holder, booking):
            gone.setdefault(holder[0], []).append(holder[1])


def _take_up(state: FleetState, there: TaskAt) -> None:
    """A box runs a task: it is in force, or it goes on since no other box took it, or it is stopped."""
    job = state.jobs.get(there.job)
    task = None if job is None else job.tasks[there.task]
    if job is not None and task is not None:
        if task.status == "placed" and task.box == there.box and task.epoch == there.epoch:
            return
        if task.status == "waiting" and task.epoch == there.epoch and not job.job.gang:
            ask = state.ask(job.job, task.choice)
            if state.bookings.take((job.id, there.task), Booking(there.box, ask, state.shape(job.job))):
                task.status, task.box = "placed", there.box
                settle_on(state, job, there.task, there.box)
                if not job.waiting():
                    state.lines.leave(job.id)
                return
    state.out.append(EvictTask(there, "superseded"))


def _by_job(box: BoxState) -> list[tuple[str, list[int]]]:
    """The box's tasks by job, in a fixed order."""
    found: dict[str, list[int]] = {}
    for job, task in sorted(box.tasks):
        found.setdefault(job, []).append(task)
    return list(found.items())


def _wait(state: FleetState, job: JobState, task: int) -> None:
    """A task without a box waits for another one, or not any more."""
    job.tasks[task].status = "withdrawn" if job.withdrawn else "waiting"
    job.tasks[task].box = None
    job.tasks[task].stopping = None
    if job.withdrawn:
        state.fair.wants(job.job.tenant, job.job.demand, -1)

"""The controller of a fleet: events in, instructions out. It reads no clock and makes no call.

A real fleet and the simulator drive the same controller; they differ in who carries instructions out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatchmethod

from edge.core.errors import Conflict
from edge.core.fleet import UNBOUNDED, FleetQueue, FleetRules, FleetTenant, TaskAt
from edge.core.fleet_jobs import FleetResource
from edge.core.fleet_reasons import FleetReason, FleetReasonCode
from scheduler.fleet import events as ev
from scheduler.fleet.draining import drain, move_drained, undrain
from scheduler.fleet.fair import JobTenantNow
from scheduler.fleet.feasible import Feasibility
from scheduler.fleet.forgetting import forget, may_forget
from scheduler.fleet.giving_up import refuse, withdraw
from scheduler.fleet.losing import box_heard, box_lost, end, lose, signal_end, stopped
from scheduler.fleet.matcher import FLEET
from scheduler.fleet.patience import keep_boxes
from scheduler.fleet.placing import announce_resized, answered, enqueue, try_line
from scheduler.fleet.state import BoxState, FleetState, JobState, Placement, TaskState
from scheduler.fleet.why import why_waiting

#: The matcher's list of changes is emptied when it is this long.
_MOST_CHANGES = 200_000


class FleetController:
    """Decides where each task runs. `placement` says whether work is spread over the boxes or packed on few.

    Raises InvalidValue for a tree of tenants that is none."""

    def __init__(
        self,
        rules: FleetRules = FleetRules(),  # noqa: B008 (frozen)
        tenants: Sequence[FleetTenant] = (),
        queues: Sequence[FleetQueue] = (),
        placement: Placement = "spread",
    ) -> None:
        self._state = FleetState(rules, tenants, queues, placement)
        state = self._state
        self._feasible = Feasibility(
            lambda: [box.box for box in state.boxes.values()],
            state.slots.queues,
            state.fair.knows,
            lambda name: state.jobs[name].job if name in state.jobs else None,
            self._lost,
        )

    def handle(self, *events: ev.FleetEvent) -> list[ev.FleetInstruction]:
        """Instructions that follow from these events, which happened at one time (or one after another, while no head
        decided). Raises Conflict for a job whose id was used before."""
        state = self._state
        for event in events:
            state.now_s = max(state.now_s, event.at_s)
            state.fair.pass_time(state.now_s)
            self._on(event)
        state.fair.settle(state.capacity())
        self._place()
        announce_resized(state)
        if len(state.matcher.changes) > _MOST_CHANGES:
            state.lines.look_everywhere()
            state.matcher.changes.clear()
            state.matcher.freed.clear()
        out, state.out = state.out, []
        return out

    def why(self, job: str) -> FleetReason | None:
        """Why a job was refused or waits; None: it does neither, or is not known."""
        known = self._state.jobs.get(job)
        return None if known is None else known.refused or why_waiting(self._state, known)

    def waiting(self) -> dict[str, FleetReason]:
        """All jobs with a task that waits, and why."""
        found = {name: why_waiting(self._state, job) for name, job in self._state.jobs.items()}
        return {name: reason for name, reason in found.items() if reason is not None}

    def over(self, job: str) -> bool:
        """Whether nothing of a job runs or will: it ended, is withdrawn or refused, or is not known."""
        known = self._state.jobs.get(job)
        return known is None or known.over

    def remembers(self) -> list[str]:
        """The ids of all jobs that it knows."""
        return list(self._state.jobs)

    def shares(self) -> list[JobTenantNow]:
        """The tenants that jobs may belong to, with what each has and should have."""
        return self._state.fair.now()

    def resources(self) -> list[FleetResource]:
        """The named amounts of each box and of the fleet as a whole, in the order of names; unbounded ones are left
        out."""
        matcher = self._state.matcher
        return [
            FleetResource(box, name, capacity, max(0.0, capacity - free))
            for box in (FLEET, *sorted(matcher.boxes))
            for name, (capacity, free) in sorted(matcher.status(box).items())
            if capacity < UNBOUNDED
        ]

    def running_on(self, box: str) -> list[TaskAt]:
        """Tasks that hold resources on a box."""
        known = self._state.boxes.get(box)
        return [] if known is None else [self._state.jobs[job].at(task) for job, task in sorted(known.tasks)]

    def owner(self, job: str, task: int) -> TaskAt | None:
        """Where a task is, by the last decision."""
        known = self._state.jobs.get(job)
        return known.at(task) if known is not None and known.tasks[task].status == "placed" else None

    def _place(self) -> None:
        """Place what can be placed, one task after another, the tenant that is owed most first."""
        state = self._state
        progress = True
        while progress:
            tenants = state.fair.order(state.lines.by_tenant)
            progress = any(self._place_one(tenant) for tenant in tenants) or keep_boxes(state)
        if state.to_move:
            move_drained(state)

    def _place_one(self, tenant: str | None) -> bool:
        """Place one task (a gang: all) of a tenant, the first that fits; without a tenant, all that fit."""
        state, placed = self._state, False
        lines = sorted(state.lines.by_tenant.get(tenant, {}).values(), key=lambda line: line.tickets[0][1])
        for line in lines:
            while line.tickets and try_line(state, line):
                placed = True
                if tenant is not None:
                    return True
        return placed

    @singledispatchmethod
    def _on(self, event: ev.FleetEvent) -> None:
        """An event that changes nothing but the time."""

    @_on.register
    def _(self, event: ev.JobSubmitted) -> None:
        state, spec = self._state, event.job
        if spec.id in state.jobs:
            raise Conflict(f"there was a job {spec.id} before")
        tasks = [TaskState("done" if task in event.done else "waiting") for task in range(spec.tasks)]
        job = state.jobs[spec.id] = JobState(spec, state.came_in, state.now_s, tasks)
        state.came_in += 1
        reason = None if job.done else self._feasible.refusal(spec)
        if reason is not None:
            refuse(state, job, reason)
            return
        for task, box in event.done.items():
            if box in state.boxes:
                state.near.placed(spec.id, task, box)
        if job.done:
            signal_end(state, job)
            return
        state.fair.wants(spec.tenant, spec.demand, len(job.waiting()))
        enqueue(state, job)

    @_on.register
    def _(self, event: ev.JobWithdrawn) -> None:
        job = self._state.jobs.get(event.job)
        if job is not None:
            withdraw(self._state, job)

    @_on.register
    def _(self, event: ev.JobForgotten) -> None:
        job = self._state.jobs.get(event.job)
        if job is not None and may_forget(self._state, job):
            forget(self._state, job)
            self._feasible.forget(job.id)

    @_on.register
    def _(self, event: ev.TasksTaken) -> None:
        for name in {task.job for task in event.tasks}:
            if name in self._state.jobs:
                answered(self._state, self._state.jobs[name], taken=True)

    @_on.register
    def _(self, event: ev.TaskEnded) -> None:
        job = self._state.jobs.get(event.task.job)
        if job is not None:
            answered(self._state, job, taken=True)
            task = job.tasks[event.task.task]
            if task.status != "done" and task.epoch == event.task.epoch:
                end(self._state, job, event.task.task, event.ran_s)

    @_on.register
    def _(self, event: ev.TaskLost) -> None:
        if self._in_force(event.task):
            lose(self._state, self._state.jobs[event.task.job], (event.task.task,), event.at_s)

    @_on.register
    def _(self, event: ev.TaskStopped) -> None:
        if self._in_force(event.task):
            stopped(self._state, self._state.jobs[event.task.job], event.task.task)

    @_on.register
    def _(self, event: ev.PlacementFailed) -> None:
        for box in event.silent:
            self._silent(box, event.at_s)
        by_job: dict[str, list[int]] = {}
        for task in event.tasks:
            if self._in_force(task):
                by_job.setdefault(task.job, []).append(task.task)
        for name, tasks in by_job.items():
            answered(self._state, self._state.jobs[name], taken=False)
            lose(self._state, self._state.jobs[name], tasks)

    @_on.register
    def _(self, event: ev.BoxReported) -> None:
        state, name = self._state, event.box.name
        known = state.boxes.get(name)
        if known is not None:
            box_heard(state, known, event)
            return
        state.boxes[name] = BoxState(event.box)
        state.boxes_changed()
        state.matcher.add_box(name, event.box.resources)
        state.bookings.box_began_anew(event.box)
        state.zones.box_began_anew(event.box)
        self._feasible.box_joined()

    @_on.register
    def _(self, event: ev.BoxSilent) -> None:
        self._silent(event.box, event.at_s)

    @_on.register
    def _(self, event: ev.LeaseEnded) -> None:
        box = self._state.boxes.get(event.box)
        if box is not None and box.status != "lost":
            box_lost(self._state, box)

    @_on.register
    def _(self, event: ev.BoxDraining) -> None:
        box = self._state.boxes.get(event.box)
        if box is not None:
            drain(self._state, box)

    @_on.register
    def _(self, event: ev.BoxUndrained) -> None:
        box = self._state.boxes.get(event.box)
        if box is not None and box.drained:
            undrain(self._state, box)

    def _silent(self, name: str, at_s: float) -> None:
        box = self._state.boxes.get(name)
        if box is not None and box.status == "open" and at_s >= box.heard_s:
            box.status = "silent"
            self._state.matcher.close(name)

    def _in_force(self, task: TaskAt) -> bool:
        """Whether the task is placed, with this epoch."""
        job = self._state.jobs.get(task.job)
        found = None if job is None else job.tasks[task.task]
        return found is not None and found.status == "placed" and found.epoch == task.epoch

    def _lost(self, name: str) -> FleetReasonCode | None:
        """Why a job will never be done; None: it may be."""
        job = self._state.jobs.get(name)
        if job is None:
            return None
        if job.refused is not None:
            return "target_refused"
        return "target_withdrawn" if job.withdrawn else None

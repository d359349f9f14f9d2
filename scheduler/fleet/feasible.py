"""Whether a job could ever be placed: asked once, when it comes in, on the fleet as if nothing ran.

Boxes that are silent, lost or drained count, since they may come back. Ephemeral resources in a demand count as
endless, since they may still be offered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from edge.core.fleet import FleetBox, FleetJob, FleetQueue, SpatialRule, is_ephemeral
from edge.core.fleet_reasons import FleetReason, FleetReasonCode
from scheduler.fleet.order import circle

_ROUNDING = 1e-9
_MOST_FINDINGS = 10_000


class Feasibility:
    """Answers for the boxes of now. Findings for equal jobs are kept until a box joins. `lost` gives the reason why a
    job will never run."""

    def __init__(
        self,
        boxes: Callable[[], Iterable[FleetBox]],
        queues: Mapping[str, FleetQueue],
        knows_tenant: Callable[[str], bool],
        job: Callable[[str], FleetJob | None],
        lost: Callable[[str], FleetReasonCode | None],
    ) -> None:
        self._boxes, self._queues, self._knows_tenant = boxes, queues, knows_tenant
        self._job, self._lost = job, lost
        self._holding: dict[object, dict[str, int]] = {}
        self._needs: dict[str, tuple[str, ...]] = {}

    def box_joined(self) -> None:
        """There is another box."""
        self._holding.clear()

    def forget(self, job: str) -> None:
        """A job is no part of any chain any more."""
        self._needs.pop(job, None)
        if len(self._holding) > _MOST_FINDINGS:
            self._holding.clear()

    def refusal(self, job: FleetJob) -> FleetReason | None:
        """Why the job can never be placed; None: it can."""
        unknown = self._unknown(job)
        if unknown is not None:
            return unknown
        needs = (*job.after, *job.rule.near)
        for other in needs:
            lost = self._lost(other)
            if lost is not None:
                return FleetReason(lost, (other,))
        if needs:
            self._needs[job.id] = needs
            chain = circle(self._needs, job.id)
            if chain:
                return FleetReason("circle", chain)
        queue = self._queues.get(job.queue or "")
        if queue is not None and queue.slots is not None and job.together and job.tasks > queue.slots:
            return FleetReason("queue_too_small", (queue.name,), job.tasks, queue.slots)
        reasons = []
        for rule in job.rules:
            reason = self._under(job, rule)
            if reason is None:
                return None
            reasons.append(reason)
        return reasons[-1]

    def _unknown(self, job: FleetJob) -> FleetReason | None:
        if job.queue is not None and job.queue not in self._queues:
            return FleetReason("unknown_queue", (job.queue,))
        if job.tenant is not None and not self._knows_tenant(job.tenant):
            return FleetReason("unknown_tenant", (job.tenant,))
        for name, amount in job.demand.items():
            if amount > 0.0 and not is_ephemeral(name) and not any(name in box.resources for box in self._boxes()):
                return FleetReason("no_such_resource", (name,))
        return None

    def _under(self, job: FleetJob, rule: SpatialRule) -> FleetReason | None:
        """Why the job fits nowhere under one choice."""
        holding = self.boxes_for(job, rule)
        if not holding:
            return self._nowhere(job, rule)
        if not job.together:
            return None
        wanted, possible = job.tasks, self._at_once(job, rule, holding)
        return FleetReason("too_many_at_once", (), wanted, possible) if possible < wanted else None

    def boxes_for(self, job: FleetJob, rule: SpatialRule, deep: int = 3) -> Mapping[str, int]:
        """Boxes that could hold a task of the job, with how many each holds. A companion goes where its target could
        be; chains of companions are followed `deep` jobs far."""
        zones = [zone for zone in (job.rule.zone, rule.zone) if zone]
        key = (
            tuple(sorted(job.demand.items())),
            tuple(tuple(sorted(zone.items())) for zone in zones),
            job.tasks,
        )
        found = self._holding.get(key)
        if found is None:
            found = {}
            for box in self._boxes():
                if all(box.label(label) in values for zone in zones for label, values in zone.items()):
                    fitting = _fitting(box, job.demand, job.tasks)
                    if fitting:
                        found[box.name] = fitting
            self._holding[key] = found
        for target in (*job.rule.near, *rule.near):
            other = self._job(target)
            if other is not None and other is not job and deep > 0:
                allowed: set[str] = set()
                for choice in other.rules:
                    allowed.update(self.boxes_for(other, choice, deep - 1))
                found = {box: n for box, n in found.items() if box in allowed}
        return found

    def _at_once(self, job: FleetJob, rule: SpatialRule, holding: Mapping[str, int]) -> int:
        """How many tasks fit side by side."""
        scopes = [avoid.per for avoid in (job.rule.avoid, rule.avoid) if avoid is not None]
        labels = {box.name: box for box in self._boxes()} if scopes else {}
        if scopes:
            # Each value of a label takes one task; with two scopes the fewer places limit.
            return min(len({labels[box].label(per) for box in holding}) for per in scopes)
        counts = sorted(holding.values(), reverse=True)
        for target in (*job.rule.near, *rule.near):
            other = self._job(target)
            if other is not None:
                counts = counts[: other.tasks]
        return sum(counts)

    def _nowhere(self, job: FleetJob, rule: SpatialRule) -> FleetReason:
        """The reason why no single task fits on any box."""
        zones = [zone for zone in (job.rule.zone, rule.zone) if zone]
        boxes = list(self._boxes())
        for zone in zones:
            for label, values in zone.items():
                boxes = [box for box in boxes if box.label(label) in values]
                if not boxes:
                    return FleetReason("no_box_in_zone", tuple(f"{label}={value}" for value in values))
        for name, amount in job.demand.items():
            if not is_ephemeral(name):
                largest = max((box.resources.get(name, 0.0) for box in boxes), default=0.0)
                if amount > largest + _ROUNDING:
                    return FleetReason("too_large", (name,), amount, largest)
        return FleetReason("too_many_at_once", (), job.tasks, 0)


def _fitting(box: FleetBox, demand: Mapping[str, float], most: int) -> int:
    """How many tasks fit on an empty box, at most `most`."""
    for name, amount in demand.items():
        if amount > 0.0 and not is_ephemeral(name):
            most = min(most, int((box.resources.get(name, 0.0) + _ROUNDING) / amount))
    return most

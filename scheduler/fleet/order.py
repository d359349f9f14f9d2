"""Order in time: a job that has ended makes the name `done:JOB` (signals, barriers, graphs), a queue has slots.

A unit of a queue's name comes back when its task ends: the name limits how many run at once. Jobs begin in the order of
their waiting line (`scheduler.fleet.lines`), where no job overtakes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from edge.core.fleet import UNBOUNDED, FleetJob, FleetQueue
from scheduler.fleet.compose import Ask
from scheduler.fleet.matcher import FLEET, Matcher


class Signals:
    """Names of ended jobs. A job that begins after several others asks for one unit of each: a barrier."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher

    @staticmethod
    def name(job: str) -> str:
        """The ephemeral resource that stands for the end of a job."""
        return f"done:{job}"

    def ask(self, after: Sequence[str]) -> Ask:
        """One unit of each name."""
        return Ask(fleet={self.name(job): 1.0 for job in after})

    def ended(self, job: str) -> None:
        """All tasks of a job have ended."""
        self._matcher.set_resource(self.name(job), UNBOUNDED, FLEET)

    def forget(self, job: str) -> None:
        """The end of a job is not asked for any more."""
        self._matcher.set_resource(self.name(job), 0.0, FLEET)

    def missing(self, after: Sequence[str]) -> list[str]:
        """The jobs of `after` that have not ended."""
        return [job for job in after if not self._matcher.exists(self.name(job))]


class Slots:
    """Queues: how many tasks run at once."""

    def __init__(self, matcher: Matcher, queues: Iterable[FleetQueue]) -> None:
        self.queues: Mapping[str, FleetQueue] = {queue.name: queue for queue in queues}
        for queue in self.queues.values():
            matcher.set_resource(self.name(queue.name), float(queue.slots or UNBOUNDED), FLEET)

    @staticmethod
    def name(queue: str) -> str:
        """The ephemeral resource of a queue's slots."""
        return f"queue:{queue}"

    def ask(self, queue: str | None) -> Ask:
        """One slot."""
        return Ask() if queue is None else Ask(fleet={self.name(queue): 1.0})

    def rank(self, job: FleetJob) -> float:
        """The first part of a job's place in its line; the order of arrival is the second."""
        if job.queue is not None and self.queues[job.queue].discipline == "priority":
            return -job.priority
        return 0.0


def circle(needs: Mapping[str, Iterable[str]], start: str) -> tuple[str, ...]:
    """A chain of jobs from `start` back to it, along the jobs that each needs; empty where there is none."""
    came_from: dict[str, str] = {}
    ahead = [start]
    while ahead:
        job = ahead.pop()
        for other in needs.get(job, ()):
            if other == start:
                chain = [job]
                while chain[-1] != start:
                    chain.append(came_from[chain[-1]])
                return (*reversed(chain), start)
            if other not in came_from:
                came_from[other] = job
                ahead.append(other)
    return ()

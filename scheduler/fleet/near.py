"""Affinity and data locality: a job's box offers the unbounded name `at:JOB`, and its companions ask for one unit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from edge.core.fleet import UNBOUNDED
from scheduler.fleet.compose import Ask
from scheduler.fleet.matcher import Matcher


class Locality:
    """Where each job's tasks are, or ended last. The name stays where the data are when a task has ended."""

    def __init__(self, matcher: Matcher) -> None:
        self._matcher = matcher
        self._where: dict[str, dict[int, str]] = {}
        self._on: dict[str, Counter[str]] = {}

    @staticmethod
    def name(job: str) -> str:
        """The ephemeral resource of a job's boxes."""
        return f"at:{job}"

    def ask(self, targets: Sequence[str]) -> Ask:
        """One unit of each target's name."""
        return Ask(here={self.name(job): 1.0 for job in targets})

    def where(self, job: str) -> Mapping[int, str]:
        """Box of each task that was placed, the last one."""
        return self._where.get(job, {})

    def placed(self, job: str, task: int, box: str) -> None:
        """A task is on a box now, and no longer where it was."""
        tasks = self._where.setdefault(job, {})
        before = tasks.get(task)
        if before == box:
            return
        tasks[task] = box
        here = self._on.setdefault(box, Counter())
        here[job] += 1
        if here[job] == 1:
            self._matcher.set_resource(self.name(job), UNBOUNDED, box)
        if before is not None:
            there = self._on[before]
            there[job] -= 1
            if not there[job]:
                del there[job]
                self._matcher.set_resource(self.name(job), 0.0, before)

    def forget(self, job: str) -> None:
        """The boxes of a job are not asked for any more."""
        for box in set(self._where.pop(job, {}).values()):
            here = self._on[box]
            del here[job]
            self._matcher.set_resource(self.name(job), 0.0, box)

    def box_began_anew(self, box: str) -> None:
        """Make the names again that the box forgot."""
        for job in self._on.get(box, ()):
            self._matcher.set_resource(self.name(job), UNBOUNDED, box)

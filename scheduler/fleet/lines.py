"""Waiting lines: the order in which jobs are tried. Each queue has one line, in which no job overtakes; jobs of no
queue that are alike share one."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from scheduler.fleet.gang import Places

#: (rank in a queue, number of arrival, job).
Ticket = tuple[float, int, str]


@dataclass(slots=True)
class Line:
    """Jobs that wait, in order. `strict`: the first one that never began holds up all behind it."""

    key: Hashable
    tenant: str | None
    strict: bool = False
    tickets: list[Ticket] = field(default_factory=list)
    #: Up to here in the matcher's list of freed boxes the first job is known not to fit; below 0: unknown.
    seen: int = -1
    #: How many choices were open then.
    choices: int = 0
    places: Places | None = None

    def forget(self) -> None:
        """The first job is another one, or what it asks for is: look at every box again."""
        self.seen, self.places = -1, None


class Lines:
    """All waiting jobs, and those that are parked until a signal."""

    def __init__(self) -> None:
        self.by_tenant: dict[str | None, dict[Hashable, Line]] = defaultdict(dict)
        self._line_of: dict[str, Line] = {}
        self._parked: dict[str, dict[str, None]] = {}

    def join(self, key: Hashable, tenant: str | None, ticket: Ticket, *, strict: bool = False) -> None:
        """A job waits from now on. A job that waits already is no error."""
        if ticket[2] in self._line_of:
            return
        line = self.by_tenant[tenant].get(key)
        if line is None:
            line = self.by_tenant[tenant][key] = Line(key, tenant, strict)
        bisect.insort(line.tickets, ticket)
        if line.tickets[0] is ticket or strict:
            line.forget()
        self._line_of[ticket[2]] = line

    def leave(self, job: str) -> None:
        """A job waits no more."""
        line = self._line_of.pop(job, None)
        if line is None:
            return
        first = line.tickets[0][2] == job
        line.tickets = [ticket for ticket in line.tickets if ticket[2] != job]
        if first or line.strict:
            line.forget()
        if not line.tickets:
            del self.by_tenant[line.tenant][line.key]
            if not self.by_tenant[line.tenant]:
                del self.by_tenant[line.tenant]

    def line_of(self, job: str) -> Line | None:
        """The line in which a job waits."""
        return self._line_of.get(job)

    def waiting(self) -> Iterable[str]:
        """Jobs in lines."""
        return list(self._line_of)

    def park(self, job: str, signals: Iterable[str]) -> None:
        """A job waits for the end of other jobs; it joins its line when the last of them has ended."""
        for signal in signals:
            self._parked.setdefault(signal, {})[job] = None

    def wake(self, signal: str) -> list[str]:
        """Jobs that waited for the end of a job, among others."""
        return list(self._parked.pop(signal, ()))

    def unpark(self, job: str) -> None:
        """A job waits for no other job any more."""
        for signal in [signal for signal, jobs in self._parked.items() if job in jobs]:
            del self._parked[signal][job]
            if not self._parked[signal]:
                del self._parked[signal]

    def look_everywhere(self) -> None:
        """Something changed that no box reports: every line looks at every box again."""
        for lines in self.by_tenant.values():
            for line in lines.values():
                line.forget()

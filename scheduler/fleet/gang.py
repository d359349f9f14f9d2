"""Gangs: all tasks at once or none. One owner decides, so two gangs never hold parts and wait for each other.

A gang that smaller jobs would overtake for ever has boxes kept free for it (`boxes_to_keep`).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Sequence

from scheduler.fleet.bookings import Booking, Bookings
from scheduler.fleet.compose import Ask
from scheduler.fleet.matcher import FLEET, Demand, Matcher
from scheduler.fleet.spread import Ranking


def book_all(
    bookings: Bookings,
    holders: Sequence[Hashable],
    ask: Ask,
    shape: Hashable,
    boxes: Iterable[str],
    ranking: Ranking,
) -> list[str] | None:
    """Book one task for each holder on the best of `boxes`; answers with their boxes. None: not all fit, and nothing is
    booked. The tasks are equal and a booking only makes its own surroundings worse, so taking the best box each time
    finds places for all wherever there are any."""
    alike = bookings.alike(shape)
    heap = [(bookings.rank(box, ranking, alike), box) for box in boxes]
    heapq.heapify(heap)
    placed: list[str] = []
    freed = bookings.matcher.freed
    before = len(freed)
    for holder in holders:
        while heap:
            _, box = heapq.heappop(heap)
            if bookings.take(holder, Booking(box, ask, shape)):
                placed.append(box)
                heapq.heappush(heap, (bookings.rank(box, ranking, alike), box))
                break
        else:
            for done in holders[: len(placed)]:
                bookings.give_back(done)
            # All is as it was: no other job need look.
            del freed[before:]
            return None
    return placed


class Places:
    """How many tasks of one demand fit on each box, kept up to date from the matcher's changes: a gang that waits is
    asked again with each change, and must not look at every box each time."""

    def __init__(self, matcher: Matcher, demand: Demand, tasks: int) -> None:
        self._matcher, self._demand, self._tasks = matcher, demand, tasks
        self._on: dict[str, int] = {}
        self._seen = len(matcher.changes)
        self._total = 0
        for box in matcher.candidates(demand):
            self._count(box)

    def total(self) -> int:
        """How many tasks fit on all boxes now."""
        changes = self._matcher.changes
        for box in set(changes[self._seen :]):
            if box != FLEET:
                self._count(box)
        self._seen = len(changes)
        return self._total

    def _count(self, box: str) -> None:
        now = self._matcher.count(box, self._demand, self._tasks)
        self._total += now - self._on.get(box, 0)
        self._on[box] = now


def boxes_to_keep(boxes: Iterable[tuple[str, int]], tasks: int, busy: Callable[[str], float]) -> list[str]:
    """The boxes to keep free for a job of so many tasks; `boxes`: how many of its tasks each could hold if all work
    that ends had ended. The least busy ones are taken, so that they are free soon."""
    chosen, places = [], 0
    for box, fitting in sorted(boxes, key=lambda pair: (busy(pair[0]), -pair[1], pair[0])):
        if fitting > 0 and places < tasks:
            chosen.append(box)
            places += fitting
    return chosen if places >= tasks else []

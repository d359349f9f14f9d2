"""Each destination's queue beside its messages: limits, counters, and whether there may be news."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from edge.core.errors import NotFound
from edge.core.journal_kinds import JournalKind
from edge.outputs.messages import DestinationCounts, Json, QueueLimits


class Queues:
    """One queue per destination. Losses are counted at once; `note_losses` journals them, together by cause, with
    `note(kind, data)`: "output.lost" with destination, cause and messages."""

    def __init__(self, note: Callable[[JournalKind, Json], None]) -> None:
        self._note = note
        self._limits: dict[str, QueueLimits] = {}
        self._counts: dict[str, DestinationCounts] = {}
        self._wakes: dict[str, asyncio.Event] = {}
        self._unsaid: dict[tuple[str, str], int] = {}

    def add(self, name: str, limits: QueueLimits) -> None:
        """A destination from now on (or new limits for it)."""
        self._limits[name] = limits
        self._counts.setdefault(name, DestinationCounts())
        self._wakes.setdefault(name, asyncio.Event())

    def remove(self, name: str) -> None:
        """Forget a destination, if it is known."""
        self._limits.pop(name, None)
        self._counts.pop(name, None)
        self._wakes.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        """The destinations as they are now: they may be changed meanwhile."""
        return iter(list(self._limits))

    def __contains__(self, name: object) -> bool:
        return name in self._limits

    def limits(self, name: str) -> QueueLimits:
        """The limits of a known destination."""
        return self._limits[name]

    def counts(self, name: str) -> DestinationCounts:
        """The counters of a destination. Raises NotFound."""
        try:
            return self._counts[name]
        except KeyError:
            raise NotFound(f"output {name} does not exist") from None

    def wake_of(self, name: str) -> asyncio.Event:
        """Set whenever something new may be in the queue."""
        return self._wakes[name]

    def gone(self, name: str, sizes: Sequence[int]) -> None:
        """Messages of these sizes, in bytes, wait no longer. A destination that is not known is left out."""
        counts = self._counts.get(name)
        if counts is not None:
            counts.waiting -= len(sizes)
            counts.bytes -= sum(sizes)

    def lose(self, name: str, cause: str, messages: int) -> None:
        """Count messages that will never be delivered. A destination that is not known is left out."""
        counts = self._counts.get(name)
        if counts is not None and messages:
            counts.lose(cause, messages)
            key = (name, cause)
            self._unsaid[key] = self._unsaid.get(key, 0) + messages

    def note_losses(self) -> None:
        """Journal what was lost since the last time."""
        unsaid, self._unsaid = self._unsaid, {}
        for (destination, cause), messages in unsaid.items():
            self._note("output.lost", {"destination": destination, "cause": cause, "messages": messages})

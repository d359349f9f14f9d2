"""Requests that wait: one or two queues per served version, in order of priority, then deadline."""

from __future__ import annotations

import asyncio
import bisect
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from numpy.typing import NDArray

from edge.core.front_messages import ServedVersion
from edge.core.oip import InferResponse, Tensor
from edge.serving.outputs import JoinedOutputs
from edge.serving.requests import CheckedRequest
from edge.serving.statistics import ModelCounts, Outcome

#: Priority level of requests that name none (the protocol's 0); 1 is the highest level, levels above this one wait
#: behind it.
DEFAULT_LEVEL = 100

_KEY = attrgetter("order")


@dataclass(slots=True)
class Stages:
    """Where a request's time goes: when its first batch was formed (0: not yet), and seconds that all its batches took
    to read inputs, to compute, and to write outputs."""

    begun_s: float = 0.0
    input_s: float = 0.0
    infer_s: float = 0.0
    output_s: float = 0.0


class Pending:
    """One request between its arrival and its answer. Changed by the front's event loop only.

    `queue` is the one that it waits in, or waited in last. `rows` are in no batch yet, `running` are in batches that
    run; `future` gets the answer. Its inputs are kept until then: an executor may be lost.
    """

    __slots__ = (
        "alone",
        "arrived_s",
        "deadline_s",
        "future",
        "id",
        "inputs",
        "kind",
        "nbytes",
        "order",
        "origin",
        "outputs",
        "parts",
        "queue",
        "queued",
        "retries",
        "rows",
        "running",
        "stages",
        "total_rows",
        "wanted",
    )

    def __init__(
        self,
        asked: CheckedRequest,
        nbytes: int,
        arrived_s: float,
        deadline_s: float,
        level: int,
        number: int,
        future: asyncio.Future[InferResponse],
        queue: ModelQueue,
    ) -> None:
        self.inputs: tuple[NDArray[Any], ...] | None = asked.inputs
        self.rows = self.total_rows = asked.rows
        self.kind: Hashable = asked.kind
        self.id, self.wanted, self.origin = asked.id, asked.wanted, asked.origin
        self.nbytes = nbytes
        self.arrived_s, self.deadline_s = arrived_s, deadline_s
        self.order = (level, deadline_s, number)
        self.future = future
        self.queue = queue
        self.queued = False  # rows of it wait in the queue
        self.running = 0
        self.stages = Stages()
        self.alone = False
        self.retries = 0
        self.parts: list[tuple[int, int]] = []  # rows to be computed again: (first, count)
        self.outputs: JoinedOutputs | None = None  # of a request that was cut

    @property
    def level(self) -> int:
        """Its priority: 1 is the highest."""
        return self.order[0]

    def take(self, rows: int) -> list[tuple[int, int]]:
        """The next `rows` rows to be computed, as (first, count) pieces."""
        self.rows -= rows
        self.running += rows
        if not self.parts:  # the common case: never lost, cut in order
            first = self.total_rows - self.rows - rows
            return [(first, rows)]
        pieces = []
        while rows:
            first, count = self.parts[0]
            part = min(count, rows)
            pieces.append((first, part))
            rows -= part
            if part == count:
                self.parts.pop(0)
            else:
                self.parts[0] = (first + part, count - part)
        return pieces

    def give_back(self, pieces: Sequence[tuple[int, int]]) -> None:
        """These rows were not computed; they are to be taken again."""
        if not self.parts and self.rows:
            self.parts.append((self.total_rows - self.rows, self.rows))
        for first, count in pieces:
            self.parts.append((first, count))
            self.rows += count
            self.running -= count

    @property
    def settled(self) -> bool:
        """Answered, with a result or an error, or its client is gone."""
        return self.future.done()

    def pieces_of(self, n: int, pieces: Sequence[tuple[int, int]]) -> list[NDArray[Any]]:
        """These (first, count) rows of its input `n`, as views."""
        assert self.inputs is not None
        array = self.inputs[n]
        if len(pieces) == 1 and pieces[0][1] == self.total_rows:
            return [array]
        return [array[first : first + count] for first, count in pieces]

    def collect(
        self, version: ServedVersion, pieces: Sequence[tuple[int, int]], outputs: Mapping[str, Tensor], at: int
    ) -> tuple[Tensor, ...] | None:
        """Copy its rows out of a batch, from row `at` on; its answer's tensors if it is complete now. Raises
        Unavailable if they do not fit the rows of other batches."""
        names = self.wanted or tuple(spec.name for spec in version.outputs)
        rows = sum(count for _, count in pieces)
        if rows == self.total_rows and len(pieces) == 1:
            return tuple(
                Tensor(name, outputs[name].datatype, outputs[name].array[at : at + rows].copy()) for name in names
            )
        if self.outputs is None:
            self.outputs = JoinedOutputs(names, self.total_rows, outputs)
        self.outputs.put(version.model, pieces, outputs, at)
        return None if self.rows or self.running else self.outputs.tensors()


#: A request and the (first, count) rows of it that a batch takes.
TakenRows = tuple[Pending, list[tuple[int, int]]]


class ModelQueue:
    """A queue of one version's requests: those that have rows waiting, in order, and how many are `open` (wait or run).
    Bounded by the caller. `counts` are those of its model.

    `leaving`: no layout names the version, or this queue of it, any more. Requests that wait for a version are still
    answered, by the executors that had it.
    """

    def __init__(self, counts: ModelCounts) -> None:
        self.waiting: list[Pending] = []
        self.rows = 0
        self.open = 0
        self.leaving = False
        self._counts = counts
        self._levels: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.waiting)

    def admit(self, request: Pending) -> None:
        """A request has come for this version."""
        self.open += 1
        self._add(request)

    def end(self, request: Pending, outcome: Outcome) -> None:
        """A request that was admitted has ended: it lets go of its tensors."""
        self._discard(request)
        request.nbytes = 0
        request.inputs = request.outputs = None
        self.open -= 1
        self._counts.end(outcome)

    def hand_over(self, indices: Sequence[int], other: ModelQueue) -> list[Pending]:
        """Requests that wait here (indices ascending) wait in another queue of the same model from now on."""
        moved = self.pop(indices)
        for request in moved:
            self.open -= 1
            other.admit(request)
        return moved

    def rows_before(self, request_order: tuple[int, float, int]) -> int:
        """Rows that wait in front of a request of that order."""
        waiting = self.waiting
        if not waiting or waiting[-1].order <= request_order:
            return self.rows
        end = bisect.bisect_right(waiting, request_order, key=_KEY)
        return sum(r.rows for r in waiting[:end])

    def take(self, chosen: Sequence[tuple[int, int]]) -> list[TakenRows]:
        """Take rows for a batch: (index, rows) pairs, ascending; a request with none left leaves the queue."""
        waiting = self.waiting
        taken = []
        emptied = []
        for index, rows in chosen:
            request = waiting[index]
            taken.append((request, request.take(rows)))
            self.rows -= rows
            if not request.rows:
                emptied.append(index)
        if emptied:
            if emptied[-1] == len(emptied) - 1:
                for request in waiting[: len(emptied)]:
                    self._left(request)
                del waiting[: len(emptied)]
            else:
                for index in reversed(emptied):
                    self._left(waiting.pop(index))
        return taken

    def give_back(self, request: Pending, pieces: Sequence[tuple[int, int]]) -> None:
        """Rows of a batch that was not computed wait again."""
        before = request.rows
        request.give_back(pieces)
        if request.queued:
            self.rows += request.rows - before
        else:
            self._add(request)

    def pop(self, indices: Sequence[int]) -> list[Pending]:
        """Take requests out whole (indices ascending)."""
        gone = [self.waiting.pop(index) for index in reversed(indices)]
        for request in gone:
            self.rows -= request.rows
            self._left(request)
        return gone[::-1]

    def earliest_s(self) -> float | None:
        """The earliest deadline of all that wait."""
        waiting = self.waiting
        if not waiting:
            return None
        if len(self._levels) == 1:
            return waiting[0].deadline_s
        heads = (bisect.bisect_left(waiting, (level,), key=_KEY) for level in self._levels)
        return min(waiting[at].deadline_s for at in heads)

    def _add(self, request: Pending) -> None:
        """Put a request with waiting rows in its place."""
        waiting = self.waiting
        if not waiting or waiting[-1].order <= request.order:
            waiting.append(request)
        else:
            bisect.insort(waiting, request, key=_KEY)
        request.queue, request.queued = self, True
        self.rows += request.rows
        self._levels[request.level] = self._levels.get(request.level, 0) + 1

    def _discard(self, request: Pending) -> None:
        """Take one request out, if it is there."""
        if not request.queued:
            return
        at = bisect.bisect_left(self.waiting, request.order, key=_KEY)
        if at < len(self.waiting) and self.waiting[at] is request:
            self.pop((at,))

    def _left(self, request: Pending) -> None:
        request.queued = False
        count = self._levels[request.level] - 1
        if count:
            self._levels[request.level] = count
        else:
            del self._levels[request.level]

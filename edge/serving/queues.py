"""Requests that wait: one queue per served version, in order of priority, then deadline."""

from __future__ import annotations

import asyncio
import bisect
from collections.abc import Hashable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from edge.core.oip import InferResponse, Tensor

if TYPE_CHECKING:
    from edge.serving.dispatch import Served

#: Priority level of requests that name none (the protocol's 0); 1 is the highest level, levels above this one wait
#: behind it.
DEFAULT_LEVEL = 100

_KEY = attrgetter("order")


class Pending:
    """One request between its arrival and its answer. Changed by the front's event loop only.

    `served` is the version that shall answer it. `rows` are in no batch yet, `running` are in batches that run;
    `future` gets the answer. Its inputs are kept until then: an executor may be lost.
    """

    __slots__ = (
        "alone",
        "arrived_s",
        "begun_s",
        "deadline_s",
        "future",
        "id",
        "infer_s",
        "input_s",
        "inputs",
        "kind",
        "level",
        "nbytes",
        "order",
        "output_s",
        "outputs",
        "parts",
        "pinned",
        "queue",
        "retries",
        "rows",
        "running",
        "served",
        "total_rows",
        "wanted",
    )

    def __init__(
        self,
        inputs: tuple[NDArray[Any], ...],
        rows: int,
        kind: Hashable,
        arrived_s: float,
        deadline_s: float,
        level: int,
        number: int,
        nbytes: int,
        future: asyncio.Future[InferResponse],
        request_id: str,
        wanted: Sequence[str],
        pinned: bool,
        served: Served,
    ) -> None:
        self.inputs: tuple[NDArray[Any], ...] | None = inputs
        self.rows = self.total_rows = rows
        self.running = 0
        self.kind = kind
        self.arrived_s, self.deadline_s, self.begun_s = arrived_s, deadline_s, 0.0
        self.input_s = self.infer_s = self.output_s = 0.0
        self.level, self.order = level, (level, deadline_s, number)
        self.nbytes = nbytes
        self.future = future
        self.id, self.wanted, self.pinned = request_id, wanted, pinned
        self.served = served
        self.alone = False
        self.retries = 0
        self.parts: list[tuple[int, int]] = []  # rows to be computed again: (first, count)
        self.outputs: dict[str, NDArray[Any]] | None = None  # of a request that was cut
        self.queue: ModelQueue | None = None  # while rows of it wait

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


class ModelQueue:
    """The requests of one version that have rows waiting, in order. Bounded by the caller."""

    def __init__(self) -> None:
        self.waiting: list[Pending] = []
        self.rows = 0
        self._levels: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, request: Pending) -> None:
        """Put a request with waiting rows in its place."""
        waiting = self.waiting
        if not waiting or waiting[-1].order <= request.order:
            waiting.append(request)
        else:
            bisect.insort(waiting, request, key=_KEY)
        request.queue = self
        self.rows += request.rows
        self._levels[request.level] = self._levels.get(request.level, 0) + 1

    def rows_before(self, request_order: tuple[int, float, int]) -> int:
        """Rows that wait in front of a request of that order."""
        waiting = self.waiting
        if not waiting or waiting[-1].order <= request_order:
            return self.rows
        end = bisect.bisect_right(waiting, request_order, key=_KEY)
        return sum(r.rows for r in waiting[:end])

    def take(self, chosen: Sequence[tuple[int, int]]) -> list[tuple[Pending, list[tuple[int, int]]]]:
        """Take rows for a batch: (index, rows) pairs, ascending; what has none left leaves the queue."""
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
        if request.queue is self:
            self.rows += request.rows - before
        else:
            self.add(request)

    def pop(self, indices: Sequence[int]) -> list[Pending]:
        """Take requests out whole (indices ascending)."""
        gone = [self.waiting.pop(index) for index in reversed(indices)]
        for request in gone:
            self.rows -= request.rows
            self._left(request)
        return gone[::-1]

    def discard(self, request: Pending) -> None:
        """Take one request out, if it is there."""
        if request.queue is not self:
            return
        at = bisect.bisect_left(self.waiting, request.order, key=_KEY)
        if at < len(self.waiting) and self.waiting[at] is request:
            self.pop((at,))

    def earliest_s(self) -> float | None:
        """The earliest deadline of all that wait."""
        waiting = self.waiting
        if not waiting:
            return None
        if len(self._levels) == 1:
            return waiting[0].deadline_s
        heads = (bisect.bisect_left(waiting, (level,), key=_KEY) for level in self._levels)
        return min(waiting[at].deadline_s for at in heads)

    def _left(self, request: Pending) -> None:
        request.queue = None
        count = self._levels[request.level] - 1
        if count:
            self._levels[request.level] = count
        else:
            del self._levels[request.level]


def nbytes_of(inputs: Sequence[Tensor]) -> int:
    """Bytes that a request's inputs hold; BYTES elements count with what an object takes besides."""
    total = 0
    for tensor in inputs:
        if tensor.datatype == "BYTES":
            total += sum(len(item) + 64 for item in tensor.array.flat)
        else:
            total += tensor.array.nbytes
    return total

"""Questions of the serving front to the batching rules: a model's queue, the executors that serve it, the next step.

Times are in seconds on one monotonic clock, sizes in rows (a row is one request's worth of data).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple, Protocol


class WaitingRequest(Protocol):
    """A request in its model's queue, read only. `rows` are those that no batch has taken yet (at least one); only
    requests of one `kind` can share a batch; one that is `alone` shares none."""

    @property
    def deadline_s(self) -> float: ...

    @property
    def rows(self) -> int: ...

    @property
    def kind(self) -> Hashable: ...

    @property
    def alone(self) -> bool: ...


class Lane(NamedTuple):
    """One executor as one of its models sees it at an instant.

    A batch holds at most `batch` rows; `times_s[n - 1]` is the expected time of a batch of n rows (n = 1..batch,
    never falling). `free_s` is when it could begin a batch of this model (behind what it runs, and behind the models
    whose turn comes first), `cycle_s` the time from there to its next batch of this model if what waits now runs.
    `group`: of the alike ones that begin in turn; empty: it begins whenever it is free.
    """

    executor: str
    batch: int
    times_s: Sequence[float]
    free_s: float
    cycle_s: float
    group: str = ""

    def time_s(self, rows: int) -> float:
        """Expected time of a batch of `rows` (more than `batch`: of a full one)."""
        return self.times_s[min(rows, self.batch) - 1]


class Turn(NamedTuple):
    """A group of alike gpu-lets that begin their cycles in turn, as one of them sees it: `beat_s` is the part of a duty
    cycle that is left to each, `begun_s` when the last cycle began (-inf: none yet), `others_free_s` when each of the
    others is expected to have ended its cycle."""

    beat_s: float
    begun_s: float
    others_free_s: Sequence[float]


class TurnQueue(NamedTuple):
    """The queue of one model of such a group: rows that wait, rows of a full batch, rows that cycles under way are
    still to take (`promised`), and when a batch must begin at the latest to meet the earliest deadline."""

    rows: int
    batch: int
    promised: int
    latest_s: float


class Formed(NamedTuple):
    """The next batch of one executor: `take` pairs (index in the queue, rows), ascending; `drop` indices of requests
    that can no longer meet their deadline. Nothing to take and `again_s` set: ask again then, if nothing came before.
    """

    take: tuple[tuple[int, int], ...] = ()
    drop: tuple[int, ...] = ()
    again_s: float | None = None


class Batching(Protocol):
    """The rules; see scheduler.gpulets.batching."""

    def form(self, waiting: Sequence[WaitingRequest], lane: Lane, others: Sequence[Lane], now_s: float) -> Formed:
        """The next batch of `lane`, which could begin at `lane.free_s`; `others` are the model's further lanes."""

    def begin_s(self, turn: Turn, queues: Sequence[TurnQueue], start_s: float) -> float:
        """When a gpu-let of a group that is free from `start_s` on begins its next cycle; inf where nothing waits."""

    def hopeless(self, ahead_rows: int, rows: int, deadline_s: float, lanes: Sequence[Lane], now_s: float) -> bool:
        """True if a request behind `ahead_rows` rows cannot be answered by its deadline."""

    def overdue(self, waiting: Sequence[WaitingRequest], lanes: Sequence[Lane], now_s: float) -> tuple[int, ...]:
        """Indices of the requests that no lane can answer in time any more, wherever they stand in the queue."""

"""The requests that wait or run: each is admitted once, and ends once, with an answer or an error."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from edge.core.errors import DeadlineMissed, MagpieError, Unavailable
from edge.core.oip import InferResponse
from edge.serving.lanes import Served
from edge.serving.queues import Pending, TakenRows
from edge.serving.statistics import Outcome

log = logging.getLogger(__name__)


class OpenRequests:
    """Admits and ends requests of all versions. `held_bytes` are the inputs of all that are open."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.held_bytes = 0
        self._clock = clock

    def admit(self, served: Served, request: Pending) -> None:
        """The request waits in its queue from here on."""
        self.held_bytes += request.nbytes
        served.queue.admit(request)

    def refuse(self, served: Served, outcome: Outcome, error: MagpieError) -> MagpieError:
        """Count a request that is not admitted; returns the error to raise."""
        served.counts.end(outcome)
        served.statistics.fail.add(1, 0.0)
        return error

    def answer(self, request: Pending, response: InferResponse) -> None:
        """The request has its answer."""
        request.future.set_result(response)
        self._end(request, "answered")

    def cancel(self, request: Pending) -> None:
        """The client is gone."""
        self._end(request, "cancelled")

    def fail(self, served: Served, request: Pending, error: MagpieError, outcome: Outcome = "failed") -> None:
        """The request ends with an error, if it has not ended before."""
        if request.settled:
            return
        request.future.set_exception(error)
        served.statistics.fail.add(1, self._clock() - request.arrived_s)
        self._end(request, outcome)

    def drop(self, served: Served, request: Pending, now_s: float) -> None:
        """It cannot be answered in time."""
        if request.running:
            # Part of it runs; the answer would be incomplete in time, so there is none.
            log.debug("%s: a request is dropped though %d rows of it run", served.version.model, request.running)
        self.fail(served, request, too_late(served, request, now_s), "dropped")

    def abandon(self, served: Served, reason: str) -> None:
        """No executor serves this version: waiting requests fail at once."""
        for request in served.queue.pop(range(len(served.queue))):
            self.fail(served, request, Unavailable(f"{served.version.model}: {reason}"))

    def try_again(
        self,
        served: Served,
        parts: Sequence[TakenRows],
        error: Unavailable,
        alone: bool,
        worth: bool,
        counts: bool = True,
    ) -> None:
        """Requests of a batch that was not computed: once more (where that `counts`), if it is worth it; else they
        fail. `alone`: from then on each in a batch of its own."""
        for request, pieces in parts:
            if request.settled:
                continue
            if worth and (not counts or request.retries == 0):
                request.retries += counts
                request.alone = request.alone or alone
                request.queue.give_back(request, pieces)
            else:
                self.fail(served, request, error)

    def _end(self, request: Pending, outcome: Outcome) -> None:
        """Every open request ends here, once."""
        self.held_bytes -= request.nbytes
        request.queue.end(request, outcome)


def too_late(served: Served, request: Pending, now_s: float) -> DeadlineMissed:
    """The error of a request that cannot be answered by its deadline."""
    given_ms = 1000.0 * (request.deadline_s - request.arrived_s)
    waited_ms = 1000.0 * (now_s - request.arrived_s)
    return DeadlineMissed(
        f"{served.version.model}: dropped after {waited_ms:.1f} ms: it could not be answered within {given_ms:.1f} ms",
        f"{served.queue.rows} rows are waiting",
    )

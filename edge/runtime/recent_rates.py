"""The rates of models in the last two intervals of sharing. Rates that are planned for follow a load that falls slowly,
so that a lull costs no other plan; of two intervals, the greater says that the load has gone."""

from __future__ import annotations

from edge.core.front_messages import TrafficReport


class RecentRates:
    """Rows per second by model, from the front's reports."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._seconds = 0.0
        #: By model, of the last two intervals, the newest last.
        self._ended: list[dict[str, float]] = []

    def add(self, report: TrafficReport) -> None:
        """Count a report of the interval that is under way."""
        self._seconds += report.period_s
        for traffic in report.models:
            self._rows[traffic.model] = self._rows.get(traffic.model, 0) + max(traffic.arrived, traffic.rows)

    def end(self, silent: bool) -> None:
        """The interval is over; one with a silence of the front says nothing, and nor do those before it."""
        if self._seconds > 0:
            self._ended = [*self._ended, {m: n / self._seconds for m, n in self._rows.items()}][-2:]
        if silent:
            self._ended = []
        self._rows, self._seconds = {}, 0.0

    def most(self, model: str) -> float | None:
        """The greater rate of the last two intervals; None: they are not known."""
        if len(self._ended) < 2 or not all(model in rates for rates in self._ended):
            return None
        return max(rates[model] for rates in self._ended)

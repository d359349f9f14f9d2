"""Models whose load has gone, by the last intervals of sharing. Rates that are planned for follow a load that falls
slowly, so that a lull costs no other plan; after two intervals it is no lull."""

from __future__ import annotations

from collections import deque

from edge.core.front_messages import TrafficReport

#: So many intervals are looked back: by then the rates planned for have followed.
INTERVALS = 12
#: A rate that is lower by a smaller part is chance.
LOWER = 0.2


class RecentRates:
    """Rows per second by model, from the front's reports."""

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._seconds = 0.0
        #: By model, of the last intervals, the newest last.
        self._ended: deque[dict[str, float]] = deque(maxlen=INTERVALS)

    def add(self, report: TrafficReport) -> None:
        """Count a report of the interval that is under way."""
        self._seconds += report.period_s
        for traffic in report.models:
            self._rows[traffic.model] = self._rows.get(traffic.model, 0) + max(traffic.arrived, traffic.rows)

    def end(self, silent: bool) -> None:
        """The interval is over; one with a silence of the front says nothing, and nor do those before it."""
        if silent:
            self._ended.clear()
        elif self._seconds > 0:
            self._ended.append({m: n / self._seconds for m, n in self._rows.items()})
        self._rows, self._seconds = {}, 0.0

    def fallen(self, model: str) -> float | None:
        """The greater rate of the last two intervals, where it is clearly lower than before; None: it is not, or two
        intervals are not known. A steady model may be planned for more than its rate, as it missed its objective."""
        rates = [ended[model] for ended in self._ended if model in ended]
        if len(rates) < 2:
            return None
        now = max(rates[-2:])
        return now if now < (1 - LOWER) * max(rates) else None

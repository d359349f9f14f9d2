"""Forecast of a tenant's load: a first-order autoregression of the logarithm, with forgetting and an upper bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from edge.core import checks

#: Old loads count half after about 70 reports; the width begins as if a few changes of 5 % had been seen.
FORGET = 0.99
FIRST_CHANGE = 0.05
#: Logarithms of loads are within this of 0: loads are read from 1e-9 to 1e12.
MOST_LOG = 60.0


@dataclass(frozen=True)
class LoadForecast:
    """Discounted moments of ln(load): `count`, `mean`, its variance and the covariance of neighbours, the mean square
    of one step's change, and the `last` value (None before the first report)."""

    last: float | None = None
    count: float = 0.0
    mean: float = 0.0
    variance: float = 0.0
    covariance: float = 0.0
    change: float = FIRST_CHANGE**2

    def check(self, path: str) -> None:
        """Raises InvalidValue, with the field's path, for what no loads can lead to."""
        checks.in_range(f"{path}.last", 0.0 if self.last is None else self.last, -MOST_LOG, MOST_LOG)
        checks.in_range(f"{path}.mean", self.mean, -MOST_LOG, MOST_LOG)
        checks.in_range(f"{path}.count", self.count, 0.0 if self.last is None else 1.0, 1e12)
        checks.in_range(f"{path}.variance", self.variance, 0.0, 4 * MOST_LOG**2)
        checks.in_range(f"{path}.covariance", self.covariance, -4 * MOST_LOG**2, 4 * MOST_LOG**2)
        checks.in_range(f"{path}.change", self.change, 0.0, 4 * MOST_LOG**2, low_open=True)

    def seen(self, load: float) -> LoadForecast:
        """With one more load (above 0)."""
        now = math.log(load)
        if self.last is None:
            return replace(self, last=now, count=1.0, mean=now)
        count = FORGET * self.count + 1.0
        rate = 1.0 / count
        away, before = now - self.mean, self.last - self.mean
        return LoadForecast(
            now,
            count,
            self.mean + rate * away,
            (1 - rate) * (self.variance + rate * away * away),
            (1 - rate) * (self.covariance + rate * away * before),
            self.change + max(rate, 0.03) * ((now - self.last) ** 2 - self.change),
        )

    def ahead(self, steps: int) -> tuple[float, float]:
        """(mean, standard deviation) of ln(load) over the next `steps` reports. Raises ValueError before any load."""
        if self.last is None:
            raise ValueError("no load was seen")
        # With few loads, neighbours are taken as equal: the last load is then the forecast.
        prior = 10.0
        phi = (self.covariance * self.count + prior * self.change) / (self.variance * self.count + prior * self.change)
        phi = min(max(phi, 0.0), 1.0)
        middle = (steps + 1) / 2
        expected = self.mean + (phi**middle) * (self.last - self.mean)
        # A walk (phi = 1) has no stationary variance: its width is that of its changes.
        walk = self.change * middle
        return expected, math.sqrt(
            min(walk, self.variance * (1 - phi ** (2 * middle)) + walk * prior / (self.count + prior))
        )


def nodes(forecast: tuple[float, float], spread: Sequence[float]) -> list[float]:
    """Loads at so many standard deviations from the forecast."""
    mean, width = forecast
    return [math.exp(mean + k * width) for k in spread]

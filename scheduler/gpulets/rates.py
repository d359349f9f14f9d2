"""Rates of requests as the planner shall count on them: moving averages in elapsed time, with head-room for chance.

Two exponentially weighted moving averages are kept of each model (gpu-lets, section 4.5 uses one): a quick one, so that
more load is met soon, and a slow one, so that a lull does not cost a reorganisation. The larger counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from edge.core import checks
from edge.core.serving import MOST_RATE


@dataclass(frozen=True)
class RateSettings:
    """How rates are smoothed, and the head-room planned above them.

    `rise_half_life_s` and `half_life_s` are the half-lives of the quick and the slow average in seconds; `headroom`
    multiplies the rate; on top of it comes what chance adds: with Poisson arrivals more than planned come within
    `horizon_s` seconds with a probability of `risk`.
    """

    half_life_s: float = 20.0
    rise_half_life_s: float = 4.0
    headroom: float = 1.2
    horizon_s: float = 5.0
    risk: float = 0.05

    def __post_init__(self) -> None:
        checks.positive("rates.half_life_s", self.half_life_s)
        checks.positive("rates.rise_half_life_s", self.rise_half_life_s)
        checks.in_range("rates.headroom", self.headroom, 1.0, 10.0)
        checks.positive("rates.horizon_s", self.horizon_s)
        checks.in_range("rates.risk", self.risk, 1e-9, 0.5)


@dataclass(frozen=True)
class RateEstimate:
    """Requests per second of one model: the two averages."""

    slow: float
    quick: float

    def __post_init__(self) -> None:
        checks.in_range("rate.slow", self.slow, 0.0, MOST_RATE)
        checks.in_range("rate.quick", self.quick, 0.0, MOST_RATE)

    @staticmethod
    def starting(rate: float) -> RateEstimate:
        """The expected rate before any measurement, requests per second."""
        return RateEstimate(rate, rate)

    @property
    def rate(self) -> float:
        """Requests per second to count on, without head-room."""
        return max(self.slow, self.quick)

    def seen(self, arrived: int, period_s: float, settings: RateSettings) -> RateEstimate:
        """The estimate after `arrived` requests came within `period_s` seconds (nothing changes for a period of 0)."""
        if period_s <= 0:
            return self
        now = min(MOST_RATE, arrived / period_s)
        return RateEstimate(
            _towards(self.slow, now, period_s, settings.half_life_s),
            _towards(self.quick, now, period_s, settings.rise_half_life_s),
        )


def planned_rate(rate: float, settings: RateSettings) -> float:
    """Requests per second to plan for where `rate` come on average: head-room, and the upper quantile of what Poisson
    arrivals bring within the horizon. 0 stays 0; `MOST_RATE` at most."""
    if rate <= 0:
        return 0.0
    mean = rate * settings.headroom * settings.horizon_s
    # The number of arrivals, taken as continuous, that is exceeded with probability `risk`.
    from scipy.special import pdtrik  # loaded when first needed: it takes half a second

    most = float(pdtrik(1.0 - settings.risk, mean))
    return min(MOST_RATE, max(mean, most) / settings.horizon_s)


def _towards(average: float, now: float, period_s: float, half_life_s: float) -> float:
    kept = float(0.5 ** (period_s / half_life_s))
    return average * kept + now * (1.0 - kept)

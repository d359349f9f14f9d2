"""When requests arrive: pure functions of a pattern, a rate and a seed.

All times are in seconds from the beginning, rates in requests per second. A pattern is a course of the rate with a
long-run mean of 1, times which the wanted rate is taken; a wave multiplies it further. Arrivals are drawn from it as
an inhomogeneous Poisson process, by the inverse of the accumulated rate; recorded instants are taken as they are.
"""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from edge.core import checks
from edge.core.errors import InvalidValue

Floats = NDArray[np.float64]

#: Limits of a run; more is a wrong number rather than a wish.
MOST_ARRIVALS = 20_000_000


class Wave(Protocol):
    """A factor of the rate that changes with time."""

    def accumulated(self, times_s: Floats) -> Floats:
        """The factor's integral from 0 to each time, in seconds; never falls."""

    def grid(self, duration_s: float) -> Floats:
        """Times from 0 to `duration_s` between which the integral is as good as straight."""


@dataclass(frozen=True)
class Flat:
    """No wave: the factor is 1."""

    def accumulated(self, times_s: Floats) -> Floats:
        return times_s

    def grid(self, duration_s: float) -> Floats:
        return np.array([0.0, duration_s])


@dataclass(frozen=True)
class Sine:
    """The factor 1 + depth * sin(2 pi (t / period + phase))."""

    period_s: float
    depth: float
    phase: float = 0.0

    def __post_init__(self) -> None:
        checks.positive("wave.period_s", self.period_s)
        checks.in_range("wave.depth", self.depth, 0.0, 1.0)
        checks.in_range("wave.phase", self.phase, -1.0, 1.0)

    def accumulated(self, times_s: Floats) -> Floats:
        turn = 2 * math.pi
        gained = np.cos(turn * self.phase) - np.cos(turn * (times_s / self.period_s + self.phase))
        total: Floats = times_s + self.depth * self.period_s / turn * gained
        return total

    def grid(self, duration_s: float) -> Floats:
        return np.linspace(0.0, duration_s, 2 + math.ceil(min(duration_s / self.period_s, 10_000.0) * 400))


@dataclass(frozen=True)
class Steps:
    """From each (second, factor) on, that factor; before the first, 1. With `repeat_s` it begins again after them."""

    steps: tuple[tuple[float, float], ...]
    repeat_s: float | None = None

    def __post_init__(self) -> None:
        checks.not_empty("wave.steps", self.steps)
        for n, (at_s, factor) in enumerate(self.steps):
            checks.in_range(f"wave.steps[{n}].second", at_s, self.steps[n - 1][0] if n else 0.0, 1e9, low_open=n > 0)
            checks.in_range(f"wave.steps[{n}].factor", factor, 0.0, 1e6)
        if self.repeat_s is not None:
            checks.in_range("wave.repeat_s", self.repeat_s, self.steps[-1][0], 1e9, low_open=True)

    def accumulated(self, times_s: Floats) -> Floats:
        edges = [0.0, *(at for at, _ in self.steps if at > 0)]
        factors = [f for _, f in self.steps] if self.steps[0][0] == 0 else [1.0, *(f for _, f in self.steps)]
        end = self.repeat_s if self.repeat_s is not None else max(edges[-1], float(times_s.max(initial=0.0))) + 1.0
        sums = np.concatenate([[0.0], np.cumsum(np.diff([*edges, end]) * factors)])
        rounds, rest = (times_s // end, times_s % end) if self.repeat_s is not None else (0.0, times_s)
        total: Floats = rounds * sums[-1] + np.interp(rest, [*edges, end], sums)
        return total

    def grid(self, duration_s: float) -> Floats:
        period = self.repeat_s if self.repeat_s is not None else duration_s
        rounds = min(math.ceil(duration_s / period), 100_000)
        starts = np.arange(rounds)[:, None] * period + np.array([0.0, *(at for at, _ in self.steps)])
        times = np.unique(np.concatenate([starts.ravel(), [0.0, duration_s]]))
        return times[times <= duration_s]


@dataclass(frozen=True)
class Poisson:
    """Requests that know nothing of each other (gpu-lets, section 6.1)."""


@dataclass(frozen=True)
class Bursty:
    """Bursts and calm by turns, each of exponential length (a Markov-modulated Poisson process of two states).

    In a burst the rate is `burstiness` times the mean, in the calm `calm` times; bursts last `burst_s` on average and
    the calm as long as keeps the mean.
    """

    burstiness: float = 4.0
    burst_s: float = 1.0
    calm: float = 0.0

    def __post_init__(self) -> None:
        checks.in_range("arrivals.burstiness", self.burstiness, 1.0, 1000.0)
        checks.in_range("arrivals.burst_s", self.burst_s, 0.001, 86400.0)
        checks.in_range("arrivals.calm", self.calm, 0.0, 1.0)

    @property
    def burst_part(self) -> float:
        """The part of the time that is burst."""
        return 1.0 if self.burstiness == 1 else (1 - self.calm) / (self.burstiness - self.calm)


@dataclass(frozen=True, eq=False)
class RecordedTimes:
    """Requests at recorded instants `times_s` (ascending from 0), again from the beginning after `period_s`."""

    times_s: Floats
    period_s: float

    def __post_init__(self) -> None:
        checks.not_empty("recorded times", self.times_s)  # type: ignore[arg-type]
        if np.any(~np.isfinite(self.times_s)) or np.any(np.diff(self.times_s) < 0) or self.times_s[0] < 0:
            raise InvalidValue("recorded times", "times that fall", "finite times in ascending order, from 0 on")
        checks.in_range("recorded period_s", self.period_s, float(self.times_s[-1]), 1e12, low_open=True)

    @property
    def mean_rate(self) -> float:
        """Requests per second of the record."""
        return len(self.times_s) / self.period_s


@dataclass(frozen=True, eq=False)
class RecordedRates:
    """Rates of intervals of `interval_s` seconds each, again from the beginning after the last; Poisson within."""

    rates: Floats
    interval_s: float

    def __post_init__(self) -> None:
        checks.positive("recorded interval_s", self.interval_s)
        checks.not_empty("recorded rates", self.rates)  # type: ignore[arg-type]
        if np.any(~np.isfinite(self.rates)) or np.any(self.rates < 0) or not np.any(self.rates > 0):
            raise InvalidValue("recorded rates", "rates", "finite rates of 0 or more, one at least above 0")

    @property
    def mean_rate(self) -> float:
        """Requests per second of the record."""
        return float(self.rates.mean())


Pattern = Poisson | Bursty | RecordedTimes | RecordedRates


@dataclass(frozen=True)
class OfferedLoad:
    """`rate` None: as recorded."""

    pattern: Pattern = field(default_factory=Poisson)
    rate: float | None = None
    wave: Wave = field(default_factory=Flat)

    @property
    def mean_rate(self) -> float:
        """Requests per second before the wave. Raises InvalidValue where no rate is given and none is recorded."""
        if self.rate is not None:
            return self.rate
        if isinstance(self.pattern, (RecordedTimes, RecordedRates)):
            return self.pattern.mean_rate
        raise InvalidValue("rate", None, "requests per second (only recorded arrivals have a rate of their own)")


def arrivals(demand: OfferedLoad, duration_s: float, seed: int, name: str = "") -> Floats:
    """Times of the requests in [0, `duration_s`), ascending. The same arguments give the same times; models of
    different `name` get different ones. Raises InvalidValue."""
    checks.in_range("duration_s", duration_s, 0.0, 1e7, low_open=True)
    rate, wave, pattern = demand.mean_rate, demand.wave, demand.pattern
    checks.in_range("rate", rate, 0.0, 1e6)
    grid = wave.grid(duration_s)
    reached = wave.accumulated(grid)
    if rate * reached[-1] > MOST_ARRIVALS:
        raise InvalidValue("rate", rate, f"at most {MOST_ARRIVALS:,} requests in all ({duration_s:g} s were asked for)")
    random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(name.encode()),)))
    if rate == 0:
        return np.empty(0)
    if isinstance(pattern, RecordedTimes):
        # Another rate than the recorded one is another speed of the clock; so is the wave.
        speed = rate / pattern.mean_rate
        rounds = math.ceil(reached[-1] * speed / pattern.period_s)
        repeated = (np.arange(rounds)[:, None] * pattern.period_s + pattern.times_s).ravel() / speed
        times = np.interp(repeated[repeated < reached[-1]], reached, grid)
    else:
        edges, levels = _course(pattern, duration_s, random)
        at_edges = wave.accumulated(edges)
        sums = np.concatenate([[0.0], np.cumsum(np.diff(at_edges) * levels)])
        count = random.poisson(rate * sums[-1])
        drawn = np.sort(random.random(count)) * sums[-1]
        piece = np.clip(np.searchsorted(sums, drawn, side="right") - 1, 0, len(levels) - 1)
        factor = at_edges[piece] + (drawn - sums[piece]) / levels[piece]
        times = np.interp(factor, reached, grid)
    kept: Floats = times[times < duration_s]
    return kept


def _course(
    pattern: Poisson | Bursty | RecordedRates, duration_s: float, random: np.random.Generator
) -> tuple[Floats, Floats]:
    """Edges from 0 to `duration_s`, and the factor of the rate between each two of them."""
    if isinstance(pattern, RecordedRates):
        count = max(1, math.ceil(duration_s / pattern.interval_s))
        edges = np.minimum(np.arange(count + 1) * pattern.interval_s, duration_s)
        return edges, np.resize(pattern.rates, count) / pattern.mean_rate
    if isinstance(pattern, Poisson) or pattern.burst_part >= 1:
        return np.array([0.0, duration_s]), np.ones(1)
    calm_s = pattern.burst_s * (1 - pattern.burst_part) / pattern.burst_part
    bursting = bool(random.random() < pattern.burst_part)
    times, levels = [0.0], []
    while times[-1] < duration_s:
        times.append(times[-1] + random.exponential(pattern.burst_s if bursting else calm_s))
        levels.append(pattern.burstiness if bursting else pattern.calm)
        bursting = not bursting
    return np.minimum(np.array(times), duration_s), np.array(levels, dtype=np.float64)

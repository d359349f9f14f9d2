"""One application's latency as a sum over services that queue: an ensemble of plausible parameters, by Monte Carlo.

Service j with x units per load (relative to its equal share under the first load) is used to the part r = need_j / x.
It adds wait_j * r^2 / (1 - r), and beyond 98 % use backlog * (1 - 0.98 / r); all services together add `base`. Latency
is in parts of the goal. The unknown parameters are drawn by Metropolis' method: `MEMBERS` chains, each with its own
logarithms of need_j, wait_j, backlog and base, go on from where they were before the last reports. Their disagreement
is the doubt: the mean over members of a service's latency is high wherever some member takes the service for
overloaded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from scheduler.tenants.shapes import Floats

#: Chains, and how often each parameter of each chain is drawn anew in a round.
MEMBERS, SWEEPS = 12, 10
#: Use above this counts as overload: the queue grows for as long as the interval lasts.
FULL = 0.98
#: Mean and standard deviation of the logarithms before any report: equal shares are enough for most services, waits
#: are small beside the goal, a backlog is large beside it, and the base is a good part of it.
NEED, WAIT = (math.log(0.55), 0.8), (math.log(0.02), 1.2)
BACKLOG, BASE = (math.log(8.0), 0.8), (math.log(0.4), 1.0)
#: The resource is taken to be enough: needs whose mean is above this part of an equal share are unlikely.
MOST_NEED, NEED_SLOPE = 0.85, 200.0
#: Errors of the logarithm of latency: a t-distribution of this width and freedom, as the model may be wrong at times.
WIDTH, FREEDOM = 0.1, 4.0
#: Reports count half after 138 rounds, as services change.
FORGET = 0.995
#: Widths of the proposals for a service, and for the two common parameters.
STEPS, COMMON_STEPS = (0.03, 0.1, 0.4, 1.2), (0.03, 0.1, 0.4)
#: A member whose log posterior is so far below the best's (and one for each service) starts again from a better one.
LOST = 15.0

#: One member: ln need and ln wait of each service, ln backlog, ln base.
Member = tuple[float, ...]


def first_members(services: int, rng: np.random.Generator) -> tuple[Member, ...]:
    """Drawn from what is believed before any report."""
    means = [NEED] * services + [WAIT] * services + [BACKLOG, BASE]
    drawn = rng.normal([m for m, _ in means], [s for _, s in means], (MEMBERS, len(means)))
    return tuple(tuple(row) for row in drawn.tolist())


def refitted(
    members: Sequence[Member], places: Floats, latencies: Floats, rng: np.random.Generator
) -> tuple[Member, ...]:
    """The members after SWEEPS draws under all reports: `places` (reports, services) are units per load, `latencies`
    (reports,) are parts of the goal."""
    chains = _Chains(np.array(members), places, latencies)
    for _ in range(SWEEPS):
        for j in rng.permutation(places.shape[1]).tolist():
            chains.draw_service(j, rng)
        for which in (0, 1, 0, 1):
            chains.draw_common(which, rng)
    return tuple(tuple(row) for row in chains.members(rng).tolist())


def service_latency(members: Floats, service: int, places: Floats) -> Floats:
    """(len(places),): latency that a service adds at units per load `places`, in the mean over `members`."""
    services = (members.shape[1] - 2) // 2
    use = np.exp(members[:, service, None]) / np.maximum(places, 1e-6)
    waits, backlog = np.exp(members[:, services + service, None]), np.exp(members[:, -2, None])
    return np.asarray((waits * _queued(use) + backlog * _overload(use)).mean(0), dtype=np.float64)


def _queued(use: Floats) -> Floats:
    part = np.minimum(use, FULL)
    return part * part / (1.0 - part)


def _overload(use: Floats) -> Floats:
    return np.maximum(0.0, 1.0 - FULL / np.maximum(use, 1e-9))


class _Chains:
    """The chains with all that one draw needs: the parts of the sum under each report, and the log posteriors."""

    def __init__(self, members: Floats, places: Floats, latencies: Floats) -> None:
        self.count, services = len(members), places.shape[1]
        self.needs, self.waits = members[:, :services].copy(), members[:, services:-2].copy()
        self.common = members[:, -2:].copy()
        self.places, self.seen = places, np.log(latencies)
        # A latency that was seen twice and never exceeded is where the measurement ends.
        greatest = self.seen.max()
        self.ends = float(greatest) if (self.seen >= greatest - 1e-12).sum() >= 2 else math.inf
        self.age = FORGET ** np.arange(len(latencies) - 1, -1, -1.0)
        use = np.exp(self.needs)[:, :, None] / places.T[None]
        self.queued, self.over = _queued(use), _overload(use)
        self.wait_sum = np.einsum("cj,cjt->ct", np.exp(self.waits), self.queued)
        self.over_sum = self.over.sum(1)
        self.mean_need = np.exp(self.needs).mean(1)
        self.fit = self._fit(self.wait_sum, self.over_sum, self.common)

    def draw_service(self, j: int, rng: np.random.Generator) -> None:
        """A proposal for the need of service j, in half of the chains together with its wait."""
        size = rng.choice(STEPS, self.count)
        needs = self.needs[:, j] + size * rng.normal(size=self.count)
        both = rng.random(self.count) < 0.5
        waits = self.waits[:, j] + np.where(both, size * rng.normal(size=self.count), 0.0)
        use = np.exp(needs)[:, None] / self.places[:, j]
        queued, over = _queued(use), _overload(use)
        old = np.exp(self.waits[:, j])[:, None] * self.queued[:, j]
        wait_sum = self.wait_sum + np.exp(waits)[:, None] * queued - old
        over_sum = self.over_sum + over - self.over[:, j]
        mean_need = self.mean_need + (np.exp(needs) - np.exp(self.needs[:, j])) / self.needs.shape[1]
        fit = self._fit(wait_sum, over_sum, self.common)
        gain = fit - self.fit + _scarce(mean_need) - _scarce(self.mean_need)
        gain += _prior(needs, NEED) - _prior(self.needs[:, j], NEED)
        gain += _prior(waits, WAIT) - _prior(self.waits[:, j], WAIT)
        taken = np.log(rng.random(self.count)) < gain
        self.needs[taken, j], self.waits[taken, j] = needs[taken], waits[taken]
        self.queued[taken, j], self.over[taken, j] = queued[taken], over[taken]
        self.wait_sum[taken], self.over_sum[taken] = wait_sum[taken], over_sum[taken]
        self.mean_need[taken], self.fit[taken] = mean_need[taken], fit[taken]

    def draw_common(self, which: int, rng: np.random.Generator) -> None:
        """A proposal for the backlog (0) or the base (1)."""
        common = self.common.copy()
        common[:, which] += rng.choice(COMMON_STEPS, self.count) * rng.normal(size=self.count)
        fit = self._fit(self.wait_sum, self.over_sum, common)
        believed = (BACKLOG, BASE)[which]
        gain = fit - self.fit + _prior(common[:, which], believed) - _prior(self.common[:, which], believed)
        taken = np.log(rng.random(self.count)) < gain
        self.common[taken], self.fit[taken] = common[taken], fit[taken]

    def members(self, rng: np.random.Generator) -> Floats:
        """(chains, parameters), those that are lost from others."""
        out = np.hstack([self.needs, self.waits, self.common])
        worth = self.fit + _scarce(self.mean_need) + _prior(self.needs, NEED).sum(1)
        lost = worth < worth.max() - LOST - self.needs.shape[1]
        out[lost] = out[rng.choice(np.flatnonzero(~lost), int(lost.sum()))]
        return np.asarray(out, dtype=np.float64)

    def _fit(self, wait_sum: Floats, over_sum: Floats, common: Floats) -> Floats:
        """(chains,): log likelihood of the reports, the older the less."""
        backlog, base = np.exp(common[:, :1]), np.exp(common[:, 1:])
        expected = np.minimum(np.log(np.maximum(base + wait_sum + backlog * over_sum, 1e-6)), self.ends)
        away = (self.seen - expected) / WIDTH
        return np.asarray(-(FREEDOM + 1) / 2 * (np.log1p(away * away / FREEDOM) @ self.age), dtype=np.float64)


def _prior(values: Floats, believed: tuple[float, float]) -> Floats:
    away = (values - believed[0]) / believed[1]
    return np.asarray(-0.5 * away * away, dtype=np.float64)


def _scarce(mean_need: Floats) -> Floats:
    return np.asarray(-NEED_SLOPE * np.maximum(0.0, mean_need - MOST_NEED) ** 2, dtype=np.float64)

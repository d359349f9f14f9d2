"""Worlds of the shape of Cilantro's experiments: 20 jobs that share 1000 units for six hours, and an application of 19
services on 160 units. The curves, loads and service times are ours (the paper's were measured on a cluster); goals,
kinds of jobs, numbers and how scarce the resource is are the paper's. And the loop in which a policy plays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from time import process_time

import numpy as np

from scheduler.tenants.grid import to_steps
from scheduler.tenants.oracles import best_by_moves, oracle_steps, true_tables
from scheduler.tenants.policies import SharingPolicy
from scheduler.tenants.shapes import Floats
from scheduler.tenants.values import (
    IntervalReport,
    ProblemTenant,
    SharingFeedback,
    SharingProblem,
    SharingStep,
    TenantGoal,
)

#: Six hours. The paper decides every 2 minutes; here every 4, which takes half of the time.
UNITS, ROUNDS, INTERVAL_S, REPORTS = 1000, 90, 240.0, 1
#: Sum of all demands under the median load, in units: the paper's.
DEMANDED = 1637.0
MEASURES = ("sw", "ew", "njc", "useful")
#: Kind of job: ids, goals (within_slo: part of requests in time; throughput: per second), steepness, relative size.
JOBS: tuple[tuple[str, tuple[float, ...], float, float], ...] = (
    ("db0", (0.9, 0.9, 0.95), 1.5, 1.0),
    ("db1", (0.9, 0.9, 0.95, 0.95, 0.99, 0.99, 0.99), 1.4, 2.2),
    ("mlt", (400.0, 400.0, 450.0, 450.0, 500.0, 500.0, 500.0), 1.0, 0.7),
    ("prs", (0.9, 0.9, 0.95), 1.8, 0.7),
)
FASTEST = 540.0
UTILITIES = ("linear", "sqrt", "quadratic")


@dataclass(frozen=True)
class SharedJob:
    """A job of the world: performance is `top` x (1 - exp(-(x / knee)^steep)) of x, its units over its load (1 in the
    mean); `noise` is a report's standard deviation. `load_matters` False: the load is 1."""

    id: str
    goal: TenantGoal
    top: float
    knee: float
    steep: float
    noise: float
    load_matters: bool = True

    def performance(self, units: Floats, load: float) -> Floats:
        """True performance at these units."""
        return np.asarray(-self.top * np.expm1(-((np.maximum(units, 0.0) / load / self.knee) ** self.steep)))

    def demand(self, load: float) -> float:
        """Units with which the goal is met."""
        return float(load * self.knee * (-math.log1p(-self.goal.slo / self.top)) ** (1 / self.steep))


@dataclass(frozen=True)
class JobsWorld:
    """Jobs, and their loads (jobs, rounds x REPORTS)."""

    jobs: tuple[SharedJob, ...]
    loads: Floats
    units: int = UNITS
    seed: int = 0
    interval_s: float = INTERVAL_S

    @property
    def rounds(self) -> int:
        return int(self.loads.shape[1]) // REPORTS

    def problem(self, declared: Mapping[str, float] | None = None) -> SharingProblem:
        """What a policy knows. Jobs in `declared` report nothing, and declare that demand."""
        declared = declared or {}
        tenants = tuple(
            ProblemTenant(
                j.id, j.goal, load_matters=j.load_matters, feedback=j.id not in declared,
                declared_demand=declared.get(j.id),
            )
            for j in self.jobs
        )  # fmt: skip
        return SharingProblem("jobs", float(self.units), 1.0, tenants, "tenants", self.interval_s, REPORTS)

    def tables(self, round_: int) -> Floats:
        """(jobs, units + 1): true utility of every allocation in an interval."""
        loads = self.loads[:, round_ * REPORTS : (round_ + 1) * REPORTS].tolist()
        units = np.arange(self.units + 1, dtype=float)
        return true_tables([j.goal for j in self.jobs], [j.performance for j in self.jobs], loads, units)

    def utilities(self, units: Sequence[float], round_: int) -> Floats:
        """True utilities in an interval."""
        held = np.asarray(units, dtype=float)
        return np.array([self._utility(n, held[n : n + 1], round_)[0] for n in range(len(self.jobs))])

    def _utility(self, n: int, units: Floats, round_: int) -> Floats:
        job, loads = self.jobs[n], self.loads[n, round_ * REPORTS : (round_ + 1) * REPORTS]
        return np.asarray(np.mean([job.goal.utility_of(job.performance(units, x)) for x in loads], axis=0))

    @cached_property
    def fair(self) -> tuple[Floats, ...]:
        """Utilities of equal shares by interval."""
        equal = [self.units / len(self.jobs)] * len(self.jobs)
        return tuple(self.utilities(equal, r) for r in range(self.rounds))

    @cached_property
    def demands(self) -> tuple[Floats, ...]:
        """Units with which each goal is met, by interval."""
        return tuple(
            np.array([j.demand(float(self.loads[n, r * REPORTS : (r + 1) * REPORTS].max()))
                      for n, j in enumerate(self.jobs)])
            for r in range(self.rounds)
        )  # fmt: skip

    def scores(self, held: Sequence[float], round_: int) -> tuple[float, float, float, float]:
        """MEASURES of an allocation in an interval."""
        mine, equal = self.utilities(held, round_), self.fair[round_]
        njc = min(1.0, float((np.maximum(mine, 1e-9) / np.maximum(equal, 1e-9)).min()))
        useful = float(np.minimum(held, self.demands[round_]).sum()) / self.units
        return float(mine.mean()), float(mine.min()), njc, useful

    def oracle(self, objective: str, round_: int) -> tuple[int, ...]:
        """The best allocation for those who know curves and loads. Raises InvalidValue for an unknown objective."""
        return oracle_steps(objective, self.tables(round_))


@dataclass
class JobsPlay:
    """What came of a play by interval: MEASURES, utilities and units of each job; and CPU seconds per decision."""

    scores: list[tuple[float, float, float, float]] = field(default_factory=list)
    utilities: list[Floats] = field(default_factory=list)
    held: list[list[float]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def mean(self, measure: str, first: int = 0, last: int | None = None) -> float:
        """Mean of a measure over intervals."""
        return float(np.mean([s[MEASURES.index(measure)] for s in self.scores[first:last]]))

    @property
    def by_job(self) -> Floats:
        """Mean utility of each job."""
        return np.asarray(np.mean(self.utilities, axis=0))


def wave(rng: np.random.Generator, steps: int) -> Floats:
    """A load around 1 over six hours of a day: a slow rise and fall, short noise, and sometimes a burst."""
    at = np.arange(steps) / max(1, steps - 1)
    slow = 0.22 * np.sin(2 * math.pi * (0.25 * at + rng.random()))
    noise = np.zeros(steps)
    for k in range(1, steps):
        noise[k] = 0.85 * noise[k - 1] + rng.normal(0.0, 0.02)
    burst = np.zeros(steps)
    begin = int(rng.integers(0, steps))
    burst[begin : begin + steps // 40] = 0.25
    load = np.exp(slow + noise + burst)
    return np.asarray(load / np.median(load))


def jobs_world(seed: int, rounds: int = ROUNDS) -> JobsWorld:
    """The 20 jobs of the paper's experiment, as far as its text gives them: all services see one trace of load. Six
    hours, in so many rounds."""
    rng = np.random.default_rng([seed, 20])
    shared = wave(rng, rounds * REPORTS)
    jobs, loads, wants = [], [], []
    for kind, goals, steep, size in JOBS:
        serves = kind != "mlt"
        for n, slo in enumerate(goals, 1):
            goal = TenantGoal("within_slo" if serves else "throughput", slo, UTILITIES[(len(jobs) + n) % 3])  # type: ignore[arg-type]
            top = 1.0 if serves else FASTEST
            knee = size * float(np.exp(rng.normal(0.0, 0.25)))
            jobs.append(SharedJob(f"{kind}{n}", goal, top, knee, steep, 0.02 if serves else 11.0, serves))
            loads.append(shared if serves else np.ones_like(shared))
            wants.append(jobs[-1].demand(1.0))
    stretch = DEMANDED / sum(wants)
    scaled = tuple(SharedJob(j.id, j.goal, j.top, j.knee * stretch, j.steep, j.noise, j.load_matters) for j in jobs)
    return JobsWorld(scaled, np.array(loads), seed=seed, interval_s=ROUNDS * INTERVAL_S / rounds)


def play(
    world: JobsWorld,
    policy: SharingPolicy,
    *,
    declared: Mapping[str, float] | None = None,
    lies: Mapping[str, float] | None = None,
    rounds: int | None = None,
) -> JobsPlay:
    """A policy in the loop. `lies`: jobs whose reports are multiplied; `rounds`: only so many."""
    problem, rng, out = world.problem(declared), np.random.default_rng([world.seed, 3]), JobsPlay()
    lies = lies or {}
    answer = policy.begin(problem, world.seed)
    for round_ in range(world.rounds if rounds is None else rounds):
        held = [answer.allocation[j.id] for j in world.jobs]
        out.held.append(held)
        out.scores.append(world.scores(held, round_))
        out.utilities.append(world.utilities(held, round_))
        reports = {
            job.id: tuple(
                _report(job, held[n], float(world.loads[n, k]), lies.get(job.id, 1.0), world.interval_s, rng)
                for k in range(round_ * REPORTS, (round_ + 1) * REPORTS)
            )
            for n, job in enumerate(world.jobs)
            if job.id not in (declared or {})
        }
        began = process_time()
        feedback = SharingFeedback(round_, (round_ + 1) * world.interval_s, reports)
        answer = policy.step(problem, answer.state, feedback)
        out.seconds.append(process_time() - began)
    return out


def _report(
    job: SharedJob, units: float, load: float, lie: float, interval_s: float, rng: np.random.Generator
) -> IntervalReport:
    true = float(job.performance(np.array([units]), load)[0])
    seen = lie * (true + job.noise * rng.normal())
    most = 1.0 if job.goal.capped else math.inf
    return IntervalReport(load, min(most, max(0.0, seen)), units, interval_s / REPORTS)


def oracle_play(world: JobsWorld, objective: str) -> JobsPlay:
    """The oracle, which moves at once."""
    out = JobsPlay()
    for round_ in range(world.rounds):
        held = world.oracle(objective, round_)
        out.scores.append(world.scores(held, round_))
        out.utilities.append(world.utilities(held, round_))
    return out


# -- services of one application


@dataclass(frozen=True)
class ServicesWorld:
    """Services in which requests queue (M/M/c): `visits` per request and `rate` of one unit by service; requests go
    through all services of one of the `paths`; `loads` in requests per second by interval."""

    visits: Floats
    rate: Floats
    paths: tuple[tuple[int, ...], ...]
    loads: Floats
    units: int
    seed: int

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(f"service{n:02}" for n in range(len(self.rate)))

    def problem(self) -> SharingProblem:
        goal = TenantGoal("throughput", 1.0)
        tenants = tuple(ProblemTenant(i, goal) for i in self.ids)
        return SharingProblem("services", float(self.units), 1.0, tenants, "pipeline", INTERVAL_S, 1, 500.0)

    def p99_ms(self, units: Sequence[float], load: float) -> float:
        """The 99th percentile of latency, by mean and variance of the slowest path; at most 10 s. A service with more
        than 98 % of work adds what piles up in an interval."""
        mean, variance = np.zeros(len(self.rate)), np.zeros(len(self.rate))
        for n, rate in enumerate(self.rate):
            servers, wanted = int(units[n] + 1e-6), load * float(self.visits[n])
            if servers < 1:
                return 10_000.0
            arrivals = min(wanted, 0.98 * servers * rate)
            waits = _waiting(servers, arrivals / rate)
            spare = servers * rate - arrivals
            mean[n] = self.visits[n] * (1 / rate + waits / spare) + 2.0 * max(0.0, 1 - arrivals / wanted)
            variance[n] = self.visits[n] * (1 / rate**2 + waits * (2 - waits) / spare**2)
        slowest = max(sum(mean[i] for i in p) + 2.33 * math.sqrt(sum(variance[i] for i in p)) for p in self.paths)
        return min(10_000.0, 1000 * slowest)


def _waiting(servers: int, offered: float) -> float:
    """The part of requests that wait at `servers` servers (Erlang C)."""
    blocked = 1.0
    for k in range(1, servers + 1):
        blocked = offered * blocked / (k + offered * blocked)
    return blocked / (1 - offered / servers * (1 - blocked))


def services_world(seed: int, rounds: int = ROUNDS) -> ServicesWorld:
    """19 services on 160 units, some of which every request visits, others on one of two paths."""
    rng = np.random.default_rng([seed, 19])
    count, units, load = 19, 160, 400.0
    visits = rng.choice([0.2, 0.5, 1.0, 1.5], count, p=[0.2, 0.2, 0.45, 0.15])
    needs = np.maximum(rng.lognormal(1.2, 0.7, count), 0.5)
    needs *= 0.5 * units / needs.sum()
    shared, cut = tuple(range(6)), 6 + (count - 6) // 2
    paths = (shared + tuple(range(6, cut)), shared + tuple(range(cut, count)))
    return ServicesWorld(visits, load * visits / needs, paths, load * wave(rng, rounds), units, seed)


def play_services(world: ServicesWorld, policy: SharingPolicy) -> list[float]:
    """P99 in ms by interval."""
    problem, rng, out = world.problem(), np.random.default_rng([world.seed, 4]), []
    answer: SharingStep = policy.begin(problem, world.seed)
    for round_, load in enumerate(world.loads.tolist()):
        held = {i: answer.allocation[i] for i in world.ids}
        out.append(world.p99_ms(list(held.values()), load))
        seen = min(10_000.0, out[-1] * math.exp(rng.normal(0.0, 0.08)))
        feedback = SharingFeedback(
            round_, (round_ + 1) * INTERVAL_S, {"": (IntervalReport(load, seen, 0.0, INTERVAL_S),)}, (held,)
        )
        answer = policy.step(problem, answer.state, feedback)
    return out


def best_services(world: ServicesWorld) -> list[float]:
    """P99 in ms by interval of an allocation found by moving units while that helps, from the last interval's."""
    held = [float(u) for u in to_steps(world.visits / world.rate / (world.visits / world.rate).sum() * world.units, 1.0,
                                       world.units)]  # fmt: skip
    held = [max(1.0, h) for h in held]
    while sum(held) > world.units:
        held[int(np.argmax(held))] -= 1
    out = []
    for n, load in enumerate(world.loads.tolist()):
        latency = partial(world.p99_ms, load=load)
        # The load moves slowly: moves in each sixth interval are enough.
        low, held = best_by_moves(latency, held) if n % 6 == 0 else (latency(held), held)
        out.append(low)
    return out

"""One application of many services with one latency: a model that adds up, and an exact division.

Latency adds over services, and that of each falls with its share under load, steeply where it is overloaded and
less and less beyond: a convex, falling function of units per load.
Each is a sum of hinges with coefficients of at least 0,
fitted to all reports by least squares on the relative error. The model is separable, so the best division is found by
the dynamic programme of `scheduler.tenants.welfare`. Reports are weighted anew at random in each round (a Bayesian
bootstrap from the state's seed), less as more were seen: services of which little is known are thereby tried.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from scheduler.tenants.grid import to_steps
from scheduler.tenants.learned import allocated
from scheduler.tenants.load import LoadForecast, nodes
from scheduler.tenants.remembered import memory_from, memory_json
from scheduler.tenants.shapes import Floats
from scheduler.tenants.values import ShareReason, SharingFeedback, SharingProblem, SharingState, SharingStep
from scheduler.tenants.welfare import best_sum

#: Where the hinges are: units per load, relative to the equal share under the first load.
HINGES: Floats = np.exp(np.arange(-2.4, 1.01, 0.2))
#: Every hinge costs this part of the goal before anything is seen, so that spare units go where there are few.
PRIOR = 0.002
RIDGE, SWEEPS = 1e-3, 60
#: Reports kept; the oldest count least by age, as the services change.
MOST_REPORTS, FORGET = 300, 0.995
#: The bootstrap's weights have a spread of 1 at first, and of about 1 / sqrt(1 + reports / CALM) later.
CALM = 3.0
#: A service keeps at least this part of its share from one round to the next.
KEEP = 0.6
#: The load that is planned for: so many standard deviations above the forecast, as overload costs most.
LOAD_BOUND = 1.2
#: Latency below this part of the goal does not count for more, and above this multiple not for less, in the fit.
LEAST_WEIGHT, MOST_WEIGHT = 0.3, 30.0


@dataclass(frozen=True)
class EndToEndMemory:
    """Reports as rows of units per load (relative) and latency over its goal; the fitted coefficients."""

    rows: tuple[tuple[float, ...], ...] = ()
    latencies: tuple[float, ...] = ()
    coefficients: tuple[float, ...] = ()
    load: LoadForecast = field(default_factory=LoadForecast)
    origin: float | None = None


class EndToEndPolicy:
    """The least latency of the whole application by the model of this module."""

    name = "e2e"

    def begin(self, problem: SharingProblem, seed: int = 0) -> SharingStep:
        """Equal shares."""
        held = to_steps(problem.entitlements, problem.granularity, problem.steps)
        return _answer(problem, SharingState(self.name, 0, 0.0, held, seed, memory_json(EndToEndMemory())))

    def step(self, problem: SharingProblem, state: SharingState, feedback: SharingFeedback) -> SharingStep:
        """Fit the model to what was seen and divide anew."""
        memory = _with_reports(problem, memory_from(state.memory, EndToEndMemory), feedback)
        held = state.held
        if memory.latencies:
            rng = np.random.default_rng([state.seed, feedback.round])
            fitted = _fitted(memory, rng, len(problem.tenants))
            memory = EndToEndMemory(
                memory.rows, memory.latencies, tuple(float(c) for c in fitted), memory.load, memory.origin
            )
            held = _divided(problem, memory, held)
        return _answer(
            problem,
            SharingState(self.name, feedback.round + 1, feedback.elapsed_s, held, state.seed, memory_json(memory)),
        )


def _with_reports(problem: SharingProblem, memory: EndToEndMemory, feedback: SharingFeedback) -> EndToEndMemory:
    rows, latencies, load, origin = list(memory.rows), list(memory.latencies), memory.load, memory.origin
    goal = problem.p99_goal_ms or 1.0
    for report, services in zip(feedback.reports.get("", ()), feedback.services, strict=False):
        if report.load <= 0 or set(services) != set(problem.ids):
            continue
        load = load.seen(report.load)
        origin = report.load if origin is None else origin
        units = np.array([services[i] for i in problem.ids])
        rows.append(tuple((units / problem.entitlements * origin / report.load).tolist()))
        latencies.append(report.performance / goal)
    return EndToEndMemory(
        tuple(rows[-MOST_REPORTS:]), tuple(latencies[-MOST_REPORTS:]), memory.coefficients, load, origin
    )


def _hinges(places: Floats) -> Floats:
    """(..., hinges): latency that each hinge adds at units per load `places`."""
    return np.maximum(0.0, 1.0 - places[..., None] / HINGES)


def _fitted(memory: EndToEndMemory, rng: np.random.Generator, services: int) -> Floats:
    """Coefficients, none below PRIOR (the constant first), by coordinate descent on the weighted squares."""
    seen = np.array(memory.latencies)
    count = len(seen)
    features = np.hstack([np.ones((count, 1)), _hinges(np.array(memory.rows)).reshape(count, -1)])
    age = FORGET ** np.arange(count - 1, -1, -1.0)
    shape = 1.0 + count / CALM
    weights = age * rng.gamma(shape, 1.0 / shape, count) / np.clip(seen, LEAST_WEIGHT, MOST_WEIGHT) ** 2
    gram = (features * weights[:, None]).T @ features
    right = (features * weights[:, None]).T @ seen
    scale = np.diag(gram) + RIDGE * (1.0 + weights.sum() / count)
    size = 1 + services * len(HINGES)
    at = np.array(memory.coefficients) if len(memory.coefficients) == size else np.full(size, PRIOR)
    slope = gram @ at - right
    for _ in range(SWEEPS):
        for k in range(size):
            new = max(PRIOR, at[k] - (slope[k] + RIDGE * at[k]) / scale[k])
            if new != at[k]:
                slope += gram[k] * (new - at[k])
                at[k] = new
    return at


def _divided(problem: SharingProblem, memory: EndToEndMemory, held: tuple[int, ...]) -> tuple[int, ...]:
    """The steps with the least modelled latency."""
    (load,) = nodes(memory.load.ahead(problem.reports_per_interval), (LOAD_BOUND,))
    parts = np.array(memory.coefficients[1:]).reshape(len(problem.tenants), -1)
    units = problem.granularity * np.arange(problem.steps + 1)
    tables = np.empty((len(parts), len(units)))
    least = []
    for j, entitled in enumerate(problem.entitlements.tolist()):
        places = units / entitled * (memory.origin or 1.0) / load
        tables[j] = -(_hinges(places) @ parts[j])
        least.append(max(min(1, problem.steps // len(parts)), math.floor(KEEP * held[j])))
    rest = np.arange(problem.steps + 1 - sum(least))
    rows = np.take_along_axis(tables, np.minimum(np.array(least)[:, None] + rest, problem.steps), axis=1)
    steps = [low + more for low, more in zip(least, best_sum(rows - rows[:, :1]), strict=True)]
    return tuple(steps)


def _answer(problem: SharingProblem, state: SharingState) -> SharingStep:
    seen = len(state.memory["latencies"])
    reason = ShareReason("learned" if seen else "entitlement", reports=seen)
    return SharingStep(state, allocated(problem, state.held), dict.fromkeys(problem.ids, reason))

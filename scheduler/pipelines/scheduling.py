"""One module within a latency budget: which configurations serve its rate (Harpagon, section III-C, algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.pipelines.dispatch import CLOSE, NEXT_WORST_CASE, SLACK, Allotted, Configuration, Tuples, cost
from scheduler.pipelines.dispatch import whole_machines as full_machines


@dataclass(frozen=True)
class ModuleRules:
    """How one module is scheduled: its dispatch, at most `most` configurations (None: any number), with dummies."""

    dispatch: str = "TC"
    most: int | None = None
    dummies: bool = True


def schedule(configs: Sequence[Configuration], rate: float, budget: float, rules: ModuleRules) -> Tuples | None:
    """Tuples that serve `rate` requests/s within `budget` seconds, or None. `configs` begin with the least price per
    request/s; the result keeps that order."""
    if rules.most is not None:
        return _few(configs, rate, budget, rules, 0, rules.most)
    tuples = _greedy(configs, rate, budget, rules)
    return with_dummies(tuples) if tuples is not None and rules.dummies else tuples


def _greedy(configs: Sequence[Configuration], rate: float, budget: float, rules: ModuleRules) -> Tuples | None:
    """Algorithm 1: as many full machines of the best configuration that keeps the budget, then the same for the rest,
    down to a part machine."""
    worst = NEXT_WORST_CASE[rules.dispatch]
    tuples: list[Allotted] = []
    left, limit, least = rate, budget + CLOSE, SLACK * rate
    for c in configs:
        while left > least and worst(c, left) <= limit:
            full = full_machines(left, c.throughput)
            if full == 0:
                tuples.append(Allotted(c, left / c.throughput, left))
                return tuple(tuples)
            tuples.append(Allotted(c, full, full * c.throughput))
            left -= full * c.throughput
        if left <= least:
            return tuple(tuples)
    return None


def _few(
    configs: Sequence[Configuration], left: float, budget: float, rules: ModuleRules, first: int, most: int
) -> Tuples | None:
    """The same with at most `most` configurations: the last one takes its own part machine."""
    worst = NEXT_WORST_CASE[rules.dispatch]
    limit = budget + CLOSE
    for n in range(first, len(configs)):
        c = configs[n]
        if worst(c, left) > limit:
            continue
        full = full_machines(left, c.throughput)
        if full == 0:
            return (Allotted(c, left / c.throughput, left),)
        served = Allotted(c, full, full * c.throughput)
        rest = left - served.rate
        if rest <= SLACK * left:
            return (served,)
        if worst(c, rest) <= limit:
            return served, Allotted(c, rest / c.throughput, rest)
        if most > 1:
            others = _few(configs, rest, budget, rules, n + 1, most - 1)
            if others is not None:
                return served, *others
    return None


def with_dummies(tuples: Tuples) -> Tuples:
    """Full machines of a configuration take over all tuples below them with one machine more, which dummies fill,
    where that costs less; the largest saving first, until none is left. Rates only grow by it, so no worst case does.
    """
    while True:
        best: tuple[float, int, float] | None = None
        for n, (c, machines, _, _) in enumerate(tuples[:-1]):
            if machines < 1 - SLACK:
                break
            below = tuples[n + 1 :]
            real = sum(t.rate - t.dummy for t in below)
            saved = cost(below) - c.price
            if saved > CLOSE and real <= c.throughput * (1 + SLACK) and (best is None or saved > best[0]):
                best = saved, n, real
        if best is None:
            return tuples
        _, n, real = best
        c, machines, rate, dummy = tuples[n]
        tuples = (*tuples[:n], Allotted(c, machines + 1, rate + c.throughput, dummy + c.throughput - real))

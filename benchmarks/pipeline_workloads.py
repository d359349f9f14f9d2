"""Pipelines to plan that need no file: five shapes, two kinds of hardware, drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from edge.core.pipelines import PipelineModule, PipelineProblem, ProfileRow

#: Shape -> edges between modules a, b, c, ...
SHAPES: Mapping[str, Sequence[tuple[str, str]]] = {
    "one": (),
    "two": (("a", "b"),),
    "chain": (("a", "b"), ("b", "c")),
    "fork": (("a", "b"), ("a", "c")),
    "diamond": (("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"), ("d", "e")),
}
BATCHES = (1, 2, 4, 8, 16, 32)


def workloads(count: int, seed: int) -> list[PipelineProblem]:
    """`count` problems, the shapes in turn. The load of each module is that of 2 to 12 slow machines, the objective
    1.05 to 3 times the least that any plan has with round-robin dispatch."""
    rng = random.Random(seed)
    problems = []
    for n in range(count):
        shape = list(SHAPES)[n % len(SHAPES)]
        edges = tuple(SHAPES[shape])
        names = sorted({name for edge in edges for name in edge} or {"a"})
        modules = [_module(name, rng) for name in names]
        tightest = {m.name: min(2 * row.duration_s for row in m.profile) for m in modules}
        objective = rng.uniform(1.05, 3.0) * _longest(names, edges, tightest)
        problems.append(PipelineProblem(f"{shape}-{n:03d}", round(objective, 4), tuple(modules), edges))
    return problems


def _module(name: str, rng: random.Random) -> PipelineModule:
    fixed, each, speed = rng.uniform(0.004, 0.03), rng.uniform(0.001, 0.008), rng.uniform(1.2, 2.2)
    rows = [
        ProfileRow(b, round((fixed + each * b**0.95) / s, 6), kind, price)
        for kind, price, s in (("small", 1.0, 1.0), ("large", 1.7, speed))
        for b in BATCHES
    ]
    best = max(row.batch / row.duration_s for row in rows if row.hardware == "small")
    return PipelineModule(name, round(rng.uniform(1.0, 6.0) * best, 2), tuple(rows))


def _longest(names: Sequence[str], edges: Sequence[tuple[str, str]], latency: Mapping[str, float]) -> float:
    ends: dict[str, float] = {}
    for name in names:  # the shapes name their modules in the order of the graph
        ends[name] = latency[name] + max((ends[a] for a, b in edges if b == name), default=0.0)
    return max(ends.values())

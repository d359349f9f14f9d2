"""Fronts, pool and whole against each other and every plan of a small problem; searches that run out of steps."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from examples_kit import tried
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pipeline_problems import GRAPHS, M3, pipelines, profile, single

from edge.core.pipelines import PipelineModule, PipelineProblem, ProfileRow
from scheduler.pipelines.answer import all_configurations
from scheduler.pipelines.bounds import Allowance, caps
from scheduler.pipelines.dispatch import Allotted, configurations, cost, worst_case
from scheduler.pipelines.fronts import exact
from scheduler.pipelines.graph import Branch, PipelineGraph
from scheduler.pipelines.pareto import cheapest_within, chosen, joined, pareto
from scheduler.pipelines.policies import pipeline_policy
from scheduler.pipelines.search import FoundPoints, ModuleSearch
from scheduler.pipelines.splitting import Modules
from scheduler.pipelines.steps import CountedSteps
from scheduler.pipelines.verdict import faults
from scheduler.pipelines.whole import as_fed, replayable
from scheduler.pipelines.whole_machines import cheapest_of, one_tuple_fronts
from scheduler.pipelines.whole_punctual import in_time

_step = st.integers(1, 40).map(lambda n: n / 100)


def rounded(plan: object) -> float:
    """Cost with each tuple's machines rounded up, of a plan whose hardware costs 1 or as its name says."""
    total = 0.0
    for module in plan.modules.values():  # type: ignore[attr-defined]
        total += sum(float(t.hardware.partition(":")[2] or 1) * math.ceil(t.machines - 1e-6) for t in module.tuples)
    return total


def priced(problem: PipelineProblem) -> PipelineProblem:
    """The same problem with the price in the hardware's name, so that plans can be priced without it."""
    return PipelineProblem(
        problem.name,
        problem.slo_s,
        tuple(
            PipelineModule(
                m.name,
                m.rate,
                tuple(ProfileRow(r.batch, r.duration_s, f"{r.hardware}:{r.price!r}", r.price) for r in m.profile),
            )
            for m in problem.modules
        ),
        problem.edges,
    )


@given(drawn=pipelines(200.0))
@hypothesis_settings(max_examples=tried(24, 60))
def test_fronts_beat_harpagon_and_whole_all_that_are_in_time_once_rounded_up(drawn: PipelineProblem) -> None:
    problem = priced(drawn)
    names = ("harpagon", "fronts", "pool", "whole", "nexus", "scrooge", "inferline", "clipper")
    plans = {name: pipeline_policy(name).plan(problem) for name in names}
    if not plans["harpagon"].feasible:
        return
    harpagon, fronts = plans["harpagon"].cost, plans["fronts"].cost
    assert harpagon is not None
    assert fronts is not None
    assert fronts <= harpagon * (1 + 1e-6)
    rates = [m.rate for m in problem.modules]
    modules = Modules(PipelineGraph.of(problem), rates, all_configurations(problem), "POOL", problem.slo_s)

    def is_in_time(name: str) -> bool:
        return in_time(modules, as_fed(problem, plans[name], modules), CountedSteps(10**9))

    if cheapest_of(modules, one_tuple_fronts(modules), problem.slo_s) is not None:
        assert is_in_time("whole")
    if modules.graph.exact:
        assert rounded(plans["whole"]) == pytest.approx(plans["whole"].cost)
        for name, plan in plans.items():
            if plan.feasible and replayable(plan) and rounded(plan) < rounded(plans["whole"]) * (1 - 1e-6):
                assert not is_in_time(name), name


def every_plan(problem: PipelineProblem) -> list[tuple[float, float]]:
    """(worst case, cost) of every set of full machines with a part machine, or dummies that fill one machine more."""
    (module,) = problem.modules
    configs = configurations(module)
    found = []
    counts = [range(math.ceil(module.rate / c.throughput) + 1) for c in configs]
    for numbers in itertools.product(*counts):
        full = [Allotted(c, n, n * c.throughput) for c, n in zip(configs, numbers, strict=True) if n]
        left = module.rate - sum(t.rate for t in full)
        if left > 1e-9:
            for c in configs:
                if left <= c.throughput and (not full or c.unit_cost >= full[-1].configuration.unit_cost):
                    tuples = [*full, Allotted(c, left / c.throughput, left)]
                    found.append((worst_case(tuples, "TC"), cost(tuples)))
        elif full and -left < full[-1].configuration.throughput:
            found.append((worst_case(full, "TC"), cost(full)))
    return found


@given(rate=st.floats(5.0, 90.0), slo=st.floats(0.1, 1.6), extra=st.booleans())
@hypothesis_settings(max_examples=tried(24, 60))
def test_fronts_find_the_best_of_all_plans_of_one_module(rate: float, slo: float, extra: bool) -> None:
    problem = single(rate, slo, (*M3, (4, 0.18)) if extra else M3)
    best = min((c for latency, c in every_plan(problem) if latency <= slo + 1e-9), default=None)
    plan = pipeline_policy("fronts").plan(problem)
    assert plan.feasible == (best is not None)
    if best is not None:
        assert plan.cost == pytest.approx(best)


@given(
    graph=st.sampled_from(sorted(set(GRAPHS) - {"no series and parallel"})),
    points=st.lists(st.lists(st.tuples(_step, _step), min_size=1, max_size=4), min_size=5, max_size=5),
    limit=_step.map(lambda x: 3 * x),
)
def test_joined_fronts_are_the_best_of_all_choices(
    graph: str, points: list[list[tuple[float, float]]], limit: float
) -> None:
    names, edges = GRAPHS[graph]
    problem = PipelineProblem("g", 1.0, tuple(PipelineModule(n, 1.0, profile(0.01, 0.01)) for n in names), edges)
    shape = PipelineGraph.of(problem)
    assert shape.exact
    fronts = [pareto((latency, price, None) for latency, price in points[m]) for m in range(len(names))]
    prices = [
        sum(p[1] for p in choice)
        for choice in itertools.product(*fronts)
        if shape.longest([p[0] for p in choice]) <= limit + 1e-9
    ]
    best = cheapest_within(joined(shape.tree, fronts, limit + 1e-9), limit + 1e-9)
    assert (best is None) == (not prices)
    if best is not None:
        assert best[1] == pytest.approx(min(prices))
        of: dict[int, tuple[float, float, object]] = {}
        chosen(shape.tree, best, of)
        assert sum(p[1] for p in of.values()) == pytest.approx(best[1])
        for m in range(len(names)):
            others = caps(shape.tree, m, fronts, limit + 1e-9, math.inf)
            allowed = Allowance(others, best[1], 1e-9)
            assert of[m][1] <= allowed.at(of[m][0])


def test_a_graph_that_is_not_series_and_parallel_is_planned_as_layers_and_not_above_harpagon() -> None:
    names, edges = GRAPHS["no series and parallel"]
    problem = PipelineProblem("n", 0.3, tuple(PipelineModule(n, 80.0, profile(0.01, 0.003)) for n in names), edges)
    graph = PipelineGraph.of(problem)
    assert not graph.exact
    assert graph.tree == Branch("series", (Branch("parallel", (0, 1)), Branch("parallel", (2, 3))))
    fronts, harpagon = (pipeline_policy(name).plan(problem) for name in ("fronts", "harpagon"))
    assert faults(problem, fronts) == ()
    assert fronts.cost is not None
    assert harpagon.cost is not None
    assert fronts.cost <= harpagon.cost + 1e-9


def test_a_search_without_steps_keeps_what_it_has_and_says_so() -> None:
    problem = single(198, 1.0, M3)
    modules = Modules(PipelineGraph.of(problem), [198.0], all_configurations(problem), "TC", 1.0)
    none_left = CountedSteps(0)
    found = exact(modules, none_left)
    assert none_left.spent
    assert found is not None
    assert cost(found[0]) == pytest.approx(5.0)  # what algorithm 1 had found
    points = FoundPoints()
    allowed = Allowance([(1.0, 0.0)], 100.0, 1e-9)
    ModuleSearch(modules.configs[0], 198.0, points, allowed, CountedSteps(0)).run()
    assert points.points() == []


@pytest.mark.parametrize("name", ["harpagon", "fronts", "pool", "whole"])
def test_hard_problems_end(name: str) -> None:
    """Many rows of nearly one price per request and a rate of many machines: the search is bounded by its steps."""
    rows = tuple(ProfileRow(b, 0.02 + 0.01 * b, f"g{k}", 1 + k / 1000) for k in range(16) for b in range(1, 33))
    problem = PipelineProblem("hard", 0.7, tuple(PipelineModule(n, 30_000.0, rows) for n in "abc"), GRAPHS["fork"][1])
    plan = pipeline_policy(name).plan(problem)
    assert plan.feasible
    assert faults(problem, plan) == ()
    assert plan.complete == (name in ("harpagon", "pool"))


def test_large_graphs_of_any_shape_are_planned_and_fronts_not_above_harpagon() -> None:
    rng = random.Random(2)
    names = [f"m{n}" for n in range(40)]
    drawn = [(names[rng.randrange(k)], names[k]) for k in range(1, 40) for _ in range(2)]
    edges = tuple(dict.fromkeys(drawn))
    modules = tuple(
        PipelineModule(name, rng.uniform(1, 300), profile(rng.uniform(0.005, 0.02), rng.uniform(0.001, 0.005)))
        for name in names
    )
    problem = PipelineProblem("large", 4.0, modules, edges)
    assert not PipelineGraph.of(problem).exact
    plans = {name: pipeline_policy(name).plan(problem) for name in ("harpagon", "fronts", "pool", "whole")}
    for plan in plans.values():
        assert plan.feasible
        assert faults(problem, plan) == ()
    assert plans["harpagon"].cost is not None
    assert plans["fronts"].cost is not None
    assert plans["fronts"].cost <= plans["harpagon"].cost * (1 + 1e-9)


def test_twenty_diamonds_in_a_row_have_a_million_paths_and_a_plan() -> None:
    edges = [e for n in range(20) for s in "bc" for e in ((f"a{n}", f"{s}{n}"), (f"{s}{n}", f"a{n + 1}"))]
    names = sorted({name for edge in edges for name in edge})
    modules = tuple(PipelineModule(name, 50.0, profile(0.01, 0.002)) for name in names)
    problem = PipelineProblem("diamonds", 5.0, modules, tuple(edges))
    assert PipelineGraph.of(problem).exact
    for name in ("harpagon", "fronts", "pool", "whole"):
        plan = pipeline_policy(name).plan(problem)
        assert plan.feasible
        assert plan.complete
        assert faults(problem, plan) == ()


def test_steps_of_a_long_objective_are_cut_and_the_plan_says_so() -> None:
    plan = pipeline_policy("nexus").plan(single(100, 1e6, ((1, 0.05), (8, 0.2))))
    assert plan.feasible
    assert not plan.complete


@pytest.mark.parametrize("name", ["fronts", "pool", "whole"])
def test_a_long_chain_of_many_batches_ends_and_says_that_it_is_not_complete(name: str) -> None:
    modules = tuple(
        PipelineModule(
            f"m{n}",
            1000.0 + 73.0 * n,
            tuple(ProfileRow(b, 0.01 + 0.0041 * b**0.83 * (1 + 0.01 * n), "gpu", 1 + 0.0137 * n) for b in range(1, 25)),
        )
        for n in range(24)
    )
    edges = tuple((a.name, b.name) for a, b in itertools.pairwise(modules))
    problem = PipelineProblem("long", 1.8, modules, edges)
    plan = pipeline_policy(name).plan(problem)
    assert plan.feasible
    assert not plan.complete
    assert faults(problem, plan) == ()

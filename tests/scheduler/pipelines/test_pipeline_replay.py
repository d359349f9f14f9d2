"""Even arrivals replayed through pipeline plans: against the independent checker, the bound of one tuple, and plans of
`whole` that are in time."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.pipeline_workloads import workloads
from benchmarks.scripts import load_script
from edge.core.pipelines import (
    ModulePlan,
    PipelineModule,
    PipelinePlan,
    PipelineProblem,
    PipelineTuple,
    ProfileRow,
    problems_of,
)
from scheduler.pipelines.answer import all_configurations, rounded_up
from scheduler.pipelines.dispatch import Allotted, Configuration, configurations, whole_cost
from scheduler.pipelines.graph import PipelineGraph
from scheduler.pipelines.policies import PIPELINE_POLICIES, pipeline_policy
from scheduler.pipelines.replay import FedModule, PipelineReplay, dealt, served
from scheduler.pipelines.splitting import Modules
from scheduler.pipelines.steps import CountedSteps
from scheduler.pipelines.whole import as_fed, replayable
from scheduler.pipelines.whole_machines import cheapest_of, fed, one_tuple_fronts, whole_fronts
from scheduler.pipelines.whole_narrowed import cheapest_narrowed
from scheduler.pipelines.whole_punctual import in_time


def how(problem: PipelineProblem, plan: PipelinePlan) -> list[FedModule]:
    """The plan's modules in the order of the problem."""
    found = []
    for module in problem.modules:
        known = {(c.batch, c.hardware): c for c in configurations(module)}
        given = plan.modules[module.name]
        tuples = (Allotted(known[t.batch, t.hardware], t.machines, t.rate, t.dummy_rate) for t in given.tuples)
        found.append(FedModule(given.dispatch, tuple(tuples)))
    return found


def modules_of(problem: PipelineProblem) -> Modules:
    rates = [m.rate for m in problem.modules]
    return Modules(PipelineGraph.of(problem), rates, all_configurations(problem), "POOL", problem.slo_s)


@pytest.mark.parametrize("name", ["harpagon", "harpagon-dt", "whole"])
def test_the_replay_is_that_of_the_independent_checker(name: str, shared_dir: Path) -> None:
    folder = shared_dir / "data" / "pipeline-problems"
    if not folder.is_dir():
        pytest.skip("the developers' shared data have no pipeline problems")
    checker = load_script(shared_dir / "data" / "check_pipeline_plan.py")
    for problem in problems_of(json.loads((folder / "workloads.json").read_text()))[::97]:
        plan = pipeline_policy(name).plan(problem)
        judged = checker.check(problem.to_json(), plan.to_json())[0]
        even = [n / problem.modules[0].rate for n in range(1000)]
        theirs = max(checker.through(problem.to_json(), judged["modules"], even, False)[0])
        graph, steps = PipelineGraph.of(problem), CountedSteps(10**9)
        replay = PipelineReplay(graph, [m.rate for m in problem.modules], 1000, steps)
        modules = how(problem, plan)
        assert replay.worst([modules[m] for m in graph.order]) == pytest.approx(theirs, rel=1e-9)
        assert steps.taken == 1000 * len(modules)


@given(batch=st.integers(1, 32), machines=st.integers(1, 6), load=st.floats(0.2, 1.0), duration=st.floats(0.01, 0.3))
def test_one_tuple_keeps_its_worst_case(batch: int, machines: int, load: float, duration: float) -> None:
    rate = load * machines * batch / duration
    config = Configuration(batch, duration, "g", 1.0, batch / duration, duration / batch, batch if batch > 1 else 0)
    times = np.arange(500) / rate
    done = served(FedModule("POOL", (Allotted(config, machines, rate),)), times)
    answered = np.isfinite(done)
    assert answered.sum() == 500 // batch * batch
    assert (done - times)[answered].max() <= duration + config.collected / rate + 1e-9


def test_requests_to_two_tuples_are_dealt_one_by_one_and_full_batches_leave() -> None:
    large, small = (Configuration(b, d, "g", 1.0, b / d, d / b, b if b > 1 else 0) for b, d in ((2, 1.0), (1, 0.5)))
    tuples = (Allotted(large, 1, 2.0), Allotted(small, 1, 2.0))
    assert served(FedModule("DT", tuples), np.arange(4) / 4).tolist() == [1.5, 0.75, 1.5, 1.25]
    # In a pool the first takes two in a row, and the next two go to the second.
    assert served(FedModule("POOL", tuples), np.arange(4) / 4).tolist() == [1.25, 1.25, 1.0, 1.5]
    assert served(FedModule("POOL", tuples[:1]), np.arange(3) / 2).tolist() == [1.5, 1.5, math.inf]


@given(part=st.floats(0.01, 0.99))
def test_two_tuples_are_dealt_as_many_are(part: float) -> None:
    gains = (part, 1.0 - part)
    # A third that gets nothing does not change who has most to get.
    assert dealt(gains, 1).tolist() == dealt((*gains, 0.0), 1).tolist()


@pytest.mark.parametrize("problem", workloads(24, 77), ids=lambda problem: problem.name)
def test_whole_is_in_time_and_no_plan_in_time_is_cheaper(problem: PipelineProblem) -> None:
    modules, steps = modules_of(problem), CountedSteps(10**9)
    plan = pipeline_policy("whole").plan(problem)
    assert plan.cost is not None
    assert in_time(modules, how(problem, plan), steps)
    found = cheapest_of(modules, whole_fronts(modules, steps), problem.slo_s)
    assert found is not None
    first = fed(modules, found, problem.slo_s)[0]
    if in_time(modules, first, steps):
        assert how(problem, plan) == first
        return
    for name in PIPELINE_POLICIES:
        other = pipeline_policy(name).plan(problem)
        if other.feasible and replayable(other) and rounded_up(problem, other) < plan.cost * (1 - 1e-6):
            assert not in_time(modules, as_fed(problem, other, modules), steps)


def test_narrowed_plans_are_in_time_and_no_dearer_than_one_tuple_each() -> None:
    for problem in workloads(12, 5):
        modules, steps = modules_of(problem), CountedSteps(10**9)
        alone = cheapest_of(modules, one_tuple_fronts(modules), problem.slo_s)
        found = cheapest_narrowed(modules, whole_fronts(modules, steps), CountedSteps(20_000))
        assert alone is not None
        assert found is not None
        assert in_time(modules, found, steps)
        most = sum(m.number * m.configuration.price for _, choice in alone for m in choice.machines)
        assert sum(whole_cost(one.tuples) for one in found) <= most + 1e-9


def test_a_cheap_machine_takes_what_a_dear_one_leaves() -> None:
    rows = ((4, 0.09068, "fast", 1.7), (8, 0.1343, "fast", 1.7), (2, 0.110171, "slow", 1.0), (4, 0.164509, "slow", 1.0))
    module = PipelineModule("pose", 68.833, tuple(ProfileRow(*row) for row in rows))
    plan = pipeline_policy("whole").plan(PipelineProblem("pose", 0.2465, (module,)))
    assert plan.cost == pytest.approx(2.7), "three slow machines, of one tuple, cost 3"
    assert [t.hardware for t in plan.modules["pose"].tuples] == ["fast", "slow"]


def test_dummies_alone_keep_the_objective_where_requests_are_few() -> None:
    module = PipelineModule("m", 1.0, (ProfileRow(4, 0.05, "gpu", 1.0), ProfileRow(8, 0.08, "gpu", 1.0)))
    problem = PipelineProblem("few", 0.3, (module,))
    plan = pipeline_policy("whole").plan(problem)
    assert plan.modules["m"].tuples[0].dummy_rate > 0
    assert in_time(modules_of(problem), how(problem, plan), CountedSteps(10**9))


def test_requests_dealt_to_machines_are_dealt_to_tuples_of_one_machine_each() -> None:
    module = PipelineModule("m", 30.0, (ProfileRow(1, 0.05, "gpu", 1.0), ProfileRow(4, 0.1, "gpu", 1.0)))
    problem = PipelineProblem("one", 0.5, (module,))
    part = PipelineTuple(4, "gpu", 1.5, 30.0)
    dealt_to = PipelinePlan("one", "nexus", True, 1.5, {"m": ModulePlan("RR", 0.5, 0.3667, (part,))})
    (one,) = as_fed(problem, dealt_to, modules_of(problem))
    assert one.dispatch == "DT"
    assert [(t.machines, t.rate) for t in one.tuples] == [(1, 15.0), (1, 15.0)]
    assert replayable(dealt_to)
    many = {"m": ModulePlan("RR", 0.5, 0.3667, (PipelineTuple(4, "gpu", 1e7, 30.0),))}
    assert not replayable(PipelinePlan("one", "nexus", True, 1e7, many))

"""The worked examples of the Harpagon paper: M1 (section II), M3 (table II), M4 (figure 4), LC (section III-D)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pipeline_problems import M1, M3, M4, single

from edge.core.pipelines import ModulePlan, PipelineModule, PipelinePlan, PipelineProblem, PipelineTuple, problems_of
from scheduler.pipelines.answer import all_configurations
from scheduler.pipelines.dispatch import NEXT_WORST_CASE, Allotted, configurations, worst_case
from scheduler.pipelines.graph import PipelineGraph
from scheduler.pipelines.policies import pipeline_policy
from scheduler.pipelines.scheduling import ModuleRules, schedule, with_dummies
from scheduler.pipelines.splitting import Modules, by_efficiency, splits
from scheduler.pipelines.steps import CountedSteps
from scheduler.pipelines.verdict import faults


def by_batch(problem: PipelineProblem) -> dict[int, float]:
    return {c.batch: NEXT_WORST_CASE["TC"](c, problem.modules[0].rate) for c in configurations(problem.modules[0])}


def test_m1_batch_aware_dispatch_needs_4_machines_where_round_robin_needs_5() -> None:
    problem = single(100, 0.4, M1)
    assert by_batch(problem) == {2: pytest.approx(0.18), 4: pytest.approx(0.24), 8: pytest.approx(0.4)}
    robin = {c.batch: NEXT_WORST_CASE["RR"](c, 100.0) for c in configurations(problem.modules[0])}
    assert robin == {2: pytest.approx(0.32), 4: pytest.approx(0.4), 8: pytest.approx(0.64)}
    plan = pipeline_policy("harpagon").plan(problem)
    assert [(t.batch, t.machines) for t in plan.modules["m"].tuples] == [(8, 4)]
    assert plan.modules["m"].worst_case_s == pytest.approx(0.4)
    robin_plan = pipeline_policy("harpagon-2d").plan(problem)
    assert [(t.batch, t.machines) for t in robin_plan.modules["m"].tuples] == [(4, 5)]


@pytest.mark.parametrize(
    ("rules", "tuples", "cost"),
    [
        (ModuleRules("RR", 2, False), [(8, 6, 192), (2, 0.3, 6)], 6.3),
        (ModuleRules("TC", 2, False), [(32, 4, 160), (2, 1, 20), (2, 0.9, 18)], 5.9),
        (ModuleRules("TC", None, False), [(32, 4, 160), (8, 1, 32), (2, 0.3, 6)], 5.3),
        (ModuleRules("TC", None, True), [(32, 5, 200)], 5.0),
    ],
    ids=["S1", "S2", "S3", "S4"],
)
def test_m3_the_four_schedules_of_table_2(rules: ModuleRules, tuples: list[tuple[float, ...]], cost: float) -> None:
    found = schedule(configurations(single(198, 1.0, M3).modules[0]), 198, 1.0, rules)
    assert found is not None
    assert [(t.configuration.batch, t.machines, t.rate) for t in found] == [pytest.approx(t) for t in tuples]
    assert sum(t.machines for t in found) == pytest.approx(cost)
    assert worst_case(found, rules.dispatch) <= 1.0


def test_m3_a_part_machine_of_batch_32_is_no_plan_under_tc_but_one_under_pool() -> None:
    problem = single(198, 1.0, M3)
    best = configurations(problem.modules[0])[0]
    split = (Allotted(best, 4, 160.0), Allotted(best, 0.95, 38.0))
    assert worst_case(split, "TC") == pytest.approx(0.8 + 32 / 38)
    plan = pipeline_policy("pool").plan(problem)
    assert plan.cost == pytest.approx(4.95)
    assert plan.modules["m"].worst_case_s == pytest.approx(0.8 + 32 / 198)


def test_m3_ten_dummies_too_many_are_not_added() -> None:
    best, *_ = configurations(single(198, 1.0, M3).modules[0])
    cheap = (Allotted(best, 4, 160.0), Allotted(best, 0.2, 8.0))
    assert with_dummies(cheap) == cheap


def test_m4_three_machines_and_2_75_seconds() -> None:
    plan = pipeline_policy("harpagon").plan(single(8, 2.75, M4))
    assert [(t.batch, t.machines, t.rate) for t in plan.modules["m"].tuples] == [(6, 2, 6.0), (2, 1, 2.0)]
    assert plan.modules["m"].worst_case_s == pytest.approx(2.75)
    assert plan.cost == pytest.approx(3.0)
    assert pipeline_policy("pool").plan(single(8, 2.75, M4)).cost == pytest.approx(8 / 3)


def test_lc_the_switch_of_the_larger_efficiency_is_made_first() -> None:
    problem = single(100, 0.4, M1)
    worst, cost = by_batch(problem), {c.batch: 100 * c.unit_cost for c in configurations(problem.modules[0])}
    efficiency = {b: (cost[2] - cost[b]) / (worst[b] - worst[2]) for b in (4, 8)}
    assert efficiency == {4: pytest.approx(50.0), 8: pytest.approx(18.181818181818183)}
    # With room for the first switch only, the budget is that of batch 4.
    tight = single(100, 0.3, M1)
    modules = Modules(PipelineGraph.of(tight), [100.0], all_configurations(tight), "TC", 0.3)
    assert splits(modules, by_efficiency, False, False, CountedSteps(1000)) == [(pytest.approx(0.24),)]


def test_node_merger_values_parallel_modules_together() -> None:
    """The paper's example: a switch of x beats those of y and z alone, but not both together."""
    slow, fast = (1, 0.1), (2, 0.12)
    rates = {"x": 20.0, "y": 10.0, "z": 15.0}
    modules = tuple(
        PipelineModule(name, rate, single(rate, 1.0, (slow, (fast[0], fast[1]))).modules[0].profile)
        for name, rate in rates.items()
    )
    # x saves 0.8 machines for 0.12 s more, y 0.4 for 0.22 s, z 0.6 for 0.153 s: x alone is worth most.
    problem = PipelineProblem("merge", 0.44, modules, (("x", "y"), ("x", "z")))
    alone = pipeline_policy("harpagon-nnm").plan(problem)
    merged = pipeline_policy("harpagon").plan(problem)
    assert (alone.cost, merged.cost) == (pytest.approx(23 / 6), pytest.approx(3.5))


def read(stored: dict[str, Any]) -> PipelinePlan:
    """A stored plan as the planners give theirs."""
    modules = {
        name: ModulePlan(
            m["dispatch"], m["budget_s"], m["worst_case_s"], tuple(PipelineTuple(**given) for given in m["tuples"])
        )
        for name, m in stored["modules"].items()
    }
    return PipelinePlan(stored["problem"], stored["policy"], stored["feasible"], stored["cost"], modules)


@pytest.mark.parametrize("name", ["M1", "M3", "M4", "LC"])
def test_the_stored_examples_are_ours(shared_dir: Path, name: str) -> None:
    file = shared_dir / "data" / "pipeline-problems" / "worked" / f"{name}.json"
    if not file.is_file():
        pytest.skip("the developers' shared data have no pipeline problems")
    value = json.loads(file.read_text())
    (problem,) = problems_of(value)
    expected = value["expected"]
    for stored in expected.get("plans", []):
        plan = read(stored)
        assert faults(problem, plan) == (), stored["policy"]
        if plan.policy in ("harpagon", "pool", "S4"):
            ours = pipeline_policy({"S4": "harpagon"}.get(plan.policy, plan.policy)).plan(problem)
            assert ours.cost == pytest.approx(plan.cost)
    for refused in expected.get("refused", []):
        assert faults(problem, read(refused)), refused
    worst = expected.get("latency_cost_efficiency", {})
    if worst:
        rows = {c.batch: c for c in configurations(problem.modules[0])}
        rate, first = problem.modules[0].rate, rows[expected["from_batch"]]
        took = {b: NEXT_WORST_CASE["TC"](c, rate) for b, c in rows.items()}
        found = {
            str(b): rate * (first.unit_cost - c.unit_cost) / (took[b] - took[first.batch])
            for b, c in rows.items()
            if c is not first
        }
        assert found == pytest.approx(worst)

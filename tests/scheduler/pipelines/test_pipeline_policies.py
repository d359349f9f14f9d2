"""The contract of every pipeline policy, on drawn pipelines and on the developers' shared workloads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from examples_kit import tried
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from pipeline_problems import GRAPHS, M1, M3, pipelines, profile, single

from benchmarks.scripts import load_script
from edge.core.errors import InvalidValue
from edge.core.pipelines import PipelineModule, PipelineProblem, ProfileRow, problems_of
from scheduler.pipelines.dispatch import configurations
from scheduler.pipelines.policies import ABLATIONS, PIPELINE_POLICIES, pipeline_policy
from scheduler.pipelines.scheduling import ModuleRules, schedule
from scheduler.pipelines.verdict import faults

#: Names in the stored references, where they are not ours.
STORED = {"nexus-cheapest": "nexus-p100", "clipper-cheapest": "clipper-p100", "fronts": "optimum"}


@pytest.fixture(scope="module")
def workloads(shared_dir: Path) -> tuple[list[PipelineProblem], dict[str, dict[str, float | None]], Any]:
    """Every 17th of the shared workloads, the stored costs, and the independent checker."""
    folder = shared_dir / "data" / "pipeline-problems"
    if not folder.is_dir():
        pytest.skip("the developers' shared data have no pipeline problems")
    problems = problems_of(json.loads((folder / "workloads.json").read_text()))
    stored = json.loads((folder / "expected.json").read_text())["costs"]
    return list(problems[::17]), stored, load_script(shared_dir / "data" / "check_pipeline_plan.py")


@pytest.mark.parametrize("name", PIPELINE_POLICIES)
@given(data=st.data())
@hypothesis_settings(max_examples=tried(10, 25))
def test_every_plan_keeps_the_rules(name: str, data: st.DataObject) -> None:
    policy = pipeline_policy(name)
    problem = data.draw(pipelines(200.0) if name == "whole" else pipelines())
    plan = policy.plan(problem)
    assert plan == policy.plan(problem)
    assert plan.policy == policy.name == name
    assert faults(problem, plan) == ()
    assert plan.complete or name == "whole", "the limit of plans in time may cut the search for them short"
    assert plan.steps > 0
    if plan.feasible:
        assert plan.cost is not None
        assert plan.reasons == ()
    else:
        assert plan.cost is None
        assert plan.reasons


@pytest.mark.parametrize("name", PIPELINE_POLICIES)
def test_plans_of_shared_workloads_pass_the_independent_checker(name: str, workloads: Any) -> None:
    problems, stored, checker = workloads
    ours, theirs = [], []
    for problem in problems:
        plan = pipeline_policy(name).plan(problem)
        reference = stored[problem.name].get(STORED.get(name, name.replace("harpagon-", "harp-")))
        harpagon = stored[problem.name]["harpagon"]
        if not plan.feasible:
            continue
        result, found = checker.check(problem.to_json(), plan.to_json())
        assert found == []
        assert result["cost"] == pytest.approx(plan.cost)
        if reference is not None:
            ours.append(plan.cost / harpagon)
            theirs.append(reference / harpagon)
            if name == "harpagon":
                assert plan.cost == pytest.approx(reference, rel=1e-6)
    if theirs:
        assert sum(ours) / len(ours) == pytest.approx(sum(theirs) / len(theirs), abs=0.03)


@pytest.mark.parametrize("name", PIPELINE_POLICIES)
def test_an_objective_shorter_than_the_fastest_path_is_no_plan_and_says_so(name: str) -> None:
    names, edges = GRAPHS["chain"]
    problem = PipelineProblem("short", 0.02, tuple(PipelineModule(n, 50.0, profile(0.02, 0.002)) for n in names), edges)
    plan = pipeline_policy(name).plan(problem)
    assert not plan.feasible
    assert plan.modules == {}
    assert plan.reasons[0].startswith("slo_s: got 0.02")


@pytest.mark.parametrize("name", PIPELINE_POLICIES)
def test_odd_profiles_get_a_plan_or_a_reason(name: str) -> None:
    odd = {
        "no batch 1": single(100, 0.4, M1),
        "larger batch is faster": single(60, 0.5, ((1, 0.05), (2, 0.03), (4, 0.09), (8, 0.07))),
        "alike": PipelineProblem(
            "alike", 0.5, (PipelineModule("m", 90.0, tuple(ProfileRow(4, 0.1, f"gpu{n}", 1.0) for n in range(4))),)
        ),
        "many machines": single(1_000_000, 0.5, ((1, 0.05), (2, 0.06), (4, 0.09))),
        "hardly any requests": single(0.001, 0.5, ((1, 0.05), (8, 0.2))),
    }
    for problem in odd.values():
        plan = pipeline_policy(name).plan(problem)
        assert faults(problem, plan) == ()
        assert plan.feasible or plan.reasons


@pytest.mark.parametrize("name", PIPELINE_POLICIES)
def test_a_fan_out_of_10_000_is_planned(name: str) -> None:
    one, many = PipelineModule("a", 20.0, profile(0.02, 0.002)), PipelineModule("b", 200_000.0, profile(0.02, 0.002))
    plan = pipeline_policy(name).plan(PipelineProblem("fan", 0.6, (one, many), (("a", "b"),)))
    assert plan.feasible
    assert plan.complete


def test_policies_are_found_by_name_only() -> None:
    assert {f"harpagon-{name}" for name in ABLATIONS} < set(PIPELINE_POLICIES)
    with pytest.raises(InvalidValue, match="policy: got 'best'"):
        pipeline_policy("best")


def test_worked_example_m3_of_the_paper() -> None:
    problem = single(198, 1.0, M3)
    costs = {name: pipeline_policy(name).plan(problem).cost for name in ("harpagon", "harpagon-nd")}
    assert costs == {"harpagon": pytest.approx(5.0), "harpagon-nd": pytest.approx(5.3)}
    two = schedule(configurations(problem.modules[0]), 198, 1.0, ModuleRules(most=2, dummies=False))
    assert two is not None
    assert [(t.configuration.batch, t.machines) for t in two] == [(32, 4), (2, 1), (2, pytest.approx(0.9))]
    nexus = pipeline_policy("nexus").plan(problem)
    assert nexus.cost == pytest.approx(6.3)
    assert [(t.batch, t.machines, t.rate) for t in nexus.modules["m"].tuples] == [
        (8, 6, pytest.approx(192)),
        (2, pytest.approx(0.3), pytest.approx(6)),
    ]

"""A window planned tenant by tenant: cameras of each within its budget, one plan for all."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_problems import problems

from edge.core import events as ev
from edge.core.plan_basis import CameraBudget, PlanBasis, PlanRequest
from edge.core.shares import ideal_caps
from edge.core.window import WindowProblem
from scheduler.controller import WindowController
from scheduler.follow import made_again, planner
from scheduler.tenant_windows import camera_groups

PLAN = planner(ideal_caps(None))


def budgets(problem: WindowProblem, part: float) -> tuple[CameraBudget, ...]:
    ids = [s.id for s in problem.streams]
    half = max(1, len(ids) // 2)
    return (CameraBudget("a", part, tuple(ids[:half])), CameraBudget("b", 1.0 - part, tuple(ids[half:])))


@settings(max_examples=25, deadline=None)
@given(problems(floor=False), st.floats(0.2, 0.8))
def test_each_tenant_stays_within_its_budget_and_every_camera_is_planned(problem: WindowProblem, part: float) -> None:
    mine = budgets(problem, part)
    found = PLAN(PlanRequest("relay", problem, budgets=mine))
    groups = camera_groups(mine, problem)
    assert sum(n for _, n in groups) == pytest.approx(problem.num_gpus)
    for segment in found.segments:
        assert set(segment.streams) == {s.id for s in problem.streams}
    if len(groups) > 1:
        for cameras, num_gpus in groups:
            for segment in found.segments:
                used = sum(a.inference_share + a.retraining_share for c, a in segment.streams.items() if c in cameras)
                least = sum(0.02 for _ in cameras)
                assert used <= max(num_gpus, least) + 0.02 * len(cameras) + 1e-6


@settings(max_examples=10, deadline=None)
@given(problems())
def test_without_budgets_or_with_one_nothing_is_other(problem: WindowProblem) -> None:
    plain = replace(PLAN(PlanRequest("relay", problem)), decision_seconds=0.0)
    one = (CameraBudget("a", 0.3, tuple(s.id for s in problem.streams)),)
    for asked in ((), one):
        assert replace(PLAN(PlanRequest("relay", problem, budgets=asked)), decision_seconds=0.0) == plain


@settings(max_examples=10, deadline=None)
@given(problems())
def test_a_recorded_plan_is_made_again_with_its_budgets(problem: WindowProblem) -> None:
    request = PlanRequest("relay", problem, budgets=budgets(problem, 0.4))
    basis = PlanBasis.from_json(PlanBasis.of(request, problem, ideal_caps(None)).to_json())
    assert basis.budgets == request.budgets
    again = made_again(problem, basis)
    assert replace(again, decision_seconds=0.0) == replace(PLAN(request), decision_seconds=0.0)
    plain = PlanBasis.of(PlanRequest("relay", problem), problem, ideal_caps(None))
    assert "budgets" not in plain.to_json(), "recorded as ever"


def test_a_camera_that_no_budget_names_is_planned_by_its_number() -> None:
    from planning_problems import table21_w1

    problem = table21_w1()
    first = problem.streams[0].id
    groups = camera_groups((CameraBudget("a", 0.5, (first,)),), problem)
    assert [n for _, n in groups] == [problem.num_gpus / 2] * 2


def test_the_controller_asks_with_the_budgets() -> None:
    settings_ = ev.WindowSettings(200.0, None, "relay")
    controller = WindowController(settings_, 1.0)
    moved = (CameraBudget("a", 0.5, ("north",)), CameraBudget("b", 0.5, ("south",)))
    controller.handle(ev.CameraBudgetsMoved(0.0, moved))
    assert controller.state.budgets == moved
    assert controller.handle(ev.CameraBudgetsMoved(1.0, moved)) == []

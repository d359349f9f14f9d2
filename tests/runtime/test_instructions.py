"""The controller's orders, carried out: a plan is kept and journaled with its cause in words."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from leaf_kit import UNASKED, ignored, leaf_parts

from edge.core import events as ev
from edge.core.plan_basis import PlanBasis, PlanRequest
from edge.core.plan_causes import PlanCause
from edge.core.plan_reasons import PlanReason
from edge.core.profiles import InferenceProfile
from edge.core.shares import ideal_caps
from edge.core.window import Segment, StreamAllocation, StreamProblem, WindowPlan, WindowProblem
from edge.runtime.instructions import Instructions
from scheduler.window_planning import PlanQuestion


def test_a_plan_is_kept_and_journaled_with_its_cause_in_words() -> None:
    kept: list[tuple[Any, ...]] = []
    noted: list[tuple[str, int, dict[str, Any]]] = []
    planned: list[ev.RecordPlan] = []
    parts = leaf_parts(
        records=SimpleNamespace(write=lambda call, *facts, basis: kept.append((call, *facts, basis))),
        store=SimpleNamespace(windows=SimpleNamespace(add_plan="add_plan")),
    )
    preparation: Any = SimpleNamespace(planned=planned.append)
    problem = WindowProblem("w", 1.0, 100.0, (StreamProblem("gate", 0.5, InferenceProfile("linear", 0.4)),))
    plan = WindowPlan(
        "relay",
        "w",
        0.5,
        (Segment(0.0, {"gate": StreamAllocation(1.0)}),),
        0.25,
        {"gate": (PlanReason.recorded("why", "gate"),)},
    )
    request = PlanRequest("relay", replace(problem, num_gpus=0.5), plan, 7.5)
    order = ev.RecordPlan(3, problem, plan, PlanCause("retraining_completed", "gate", promoted=True), request)
    unasked: list[PlanQuestion] = []
    Instructions(
        parts, preparation, UNASKED, UNASKED, UNASKED, UNASKED, ignored, ignored,
        lambda kind, window, data: noted.append((kind, window, data)), unasked.append,  # type: ignore[arg-type]
    ).do(order)  # fmt: skip
    basis = PlanBasis("relay", ideal_caps(), plan, 7.5, request.problem)
    assert kept == [("add_plan", 3, problem, plan, order.cause, basis)]
    assert basis.request(problem) == request
    assert planned == [order]
    facts = {
        "policy": "relay",
        "cause": "retraining completed, promoted",
        "cause_camera": "gate",
        "objective": 0.5,
        "decision_s": 0.25,
        "reasons": {"gate": "why"},
    }
    assert noted == [("plan", 3, facts)]

"""A plan for what is left of a window: the question that the controller asks, and the answer, a pure function of it.

Planning takes a while, and cameras answer meanwhile; so the driver of the controller may have it done elsewhere, and
hand in the answer as an event. The question holds a copy of what the controller knew when it asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from edge.core import events as ev
from edge.core.plan_basis import PlanRequest
from edge.core.plan_causes import PlanCause
from edge.core.window import RetrainingOption, WindowPlan, WindowProblem
from scheduler.controller_state import ControllerState
from scheduler.tenant_windows import camera_groups
from scheduler.window_group import WindowGroup
from scheduler.window_lending import WindowLending

#: A planner's problem -> the plan to follow. Pure.
PlanFunction = Callable[[PlanRequest], WindowPlan]


@dataclass(frozen=True)
class PlanQuestion:
    """Plan number `number` that was asked for, at `at_s` and for this cause; `state` is a private copy."""

    number: int
    at_s: float
    cause: PlanCause
    state: ControllerState


@dataclass(frozen=True)
class MadePlan:
    """The answer to question `number`: the problem, the planner's version of it, its plan; the group of cameras that
    retrain as one from here on, and the options that changed by that; the retrainings that other boxes do."""

    number: int
    at_s: float
    cause: PlanCause
    problem: WindowProblem
    request: PlanRequest
    plan: WindowPlan
    group: WindowGroup
    options: Mapping[str, tuple[RetrainingOption, ...]]
    lending: WindowLending


@dataclass(frozen=True)
class MakePlan(ev.Instruction):
    """Have `made_plan` answer the question, and hand in `PlanMade`, or `PlanNotMade`."""

    question: PlanQuestion


@dataclass(frozen=True)
class PlanMade(ev.Event):
    """A plan is there. One that is not the last that was asked for comes too late, and is dropped."""

    made: MadePlan


@dataclass(frozen=True)
class PlanNotMade(ev.Event):
    """The planner failed; the plan in force goes on."""

    number: int
    why: str


def made_plan(question: PlanQuestion, plan: PlanFunction) -> MadePlan:
    """The answer to a question. Changes nothing of it; raises what `plan` raises."""
    s = question.state.copy()
    before = dict(s.options)

    def trial(problem: WindowProblem) -> WindowPlan:
        return plan(PlanRequest(s.settings.policy, problem, budgets=s.budgets))

    if s.planning.choosing and s.cameras:
        whole = s.problem(question.at_s, groups=True)
        owned = [cameras for cameras, _ in camera_groups(s.budgets, whole)]
        s.group.choose(whole, s.options, trial, owned)
    problem, request, found = _planned(s, question.at_s, plan)
    if s.group.unpaid(found):
        s.group.dissolve(s.options)  # it does not pay any more: its cameras' own may
        problem, request, found = _planned(s, question.at_s, plan)
    lends = s.group.group is None and s.lending.due
    if lends and s.lending.choose(problem, s.jobs, trial, question.at_s):
        problem, request, found = _planned(s, question.at_s, plan)
    changed = {c: o for c, o in s.options.items() if o is not before[c]}
    return MadePlan(
        question.number, question.at_s, question.cause, problem, request, found, s.group, changed,
        s.lending,
    )  # fmt: skip


def _planned(s: ControllerState, at_s: float, plan: PlanFunction) -> tuple[WindowProblem, PlanRequest, WindowPlan]:
    """The problem, the planner's version of it, and its plan."""
    problem = s.problem(at_s)
    request = PlanRequest(s.settings.policy, s.group.asked(problem), s.plan, at_s - s.planning.last_s, s.budgets)
    return problem, request, plan(request)

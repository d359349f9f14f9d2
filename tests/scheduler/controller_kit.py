"""A window controller with cameras that have joined, and profiles of what a retraining brings."""

from __future__ import annotations

from dataclasses import replace

from edge.core import events as ev
from edge.core.configs import RetrainingConfig
from edge.core.plan_basis import PlanRequest
from edge.core.profiles import Estimate, InferenceProfile, RetrainingProfile
from edge.core.window import WindowPlan
from scheduler.controller import WindowController
from scheduler.policies import window_policy
from scheduler.window_planning import MakePlan, PlanMade, made_plan

INFERENCE = InferenceProfile("subsampling", 0.2, (1.0, 2.0, 4.0), (1.0, 0.8, 0.5))
SETTINGS = ev.WindowSettings(100.0, None, "relay", True, 0.05)


def controller(num_gpus: float = 1.0, **changes: object) -> WindowController:
    return WindowController(replace(SETTINGS, **changes), num_gpus, by_policy)


class Answered:
    """Hands events to a controller that asks for its plans, and answers each question at once."""

    def __init__(self, asking: WindowController) -> None:
        self.controller, self.state, self.check = asking, asking.state, asking.check

    def handle(self, event: ev.Event) -> list[ev.Instruction]:
        out: list[ev.Instruction] = []
        for order in self.controller.handle(event):
            if isinstance(order, MakePlan):
                asked = order.question
                out += self.handle(PlanMade(asked.at_s, made_plan(asked, by_policy)))
            else:
                out.append(order)
        return out


def profile(end: float = 0.8, cost: float = 20.0, start: float = 0.5, epochs: int = 5) -> RetrainingProfile:
    return RetrainingProfile(RetrainingConfig(epochs), start, Estimate.exact(end), Estimate.exact(cost))


def of(kind: type, instructions: list[ev.Instruction]) -> list[ev.Instruction]:
    return [i for i in instructions if isinstance(i, kind)]


def joined(c: WindowController | Answered, *cameras: str, at: float = 0.0) -> None:
    for camera in cameras:
        c.handle(ev.CameraJoined(at, camera, 0.5, INFERENCE))


def prepared(c: WindowController | Answered, cameras: tuple[str, ...], at: float) -> list[ev.Instruction]:
    """Boundary, labels and profiles of every camera; returns what the last profile led to."""
    window = c.state.window
    c.handle(ev.BoundaryReached(at))
    out: list[ev.Instruction] = []
    for camera in cameras:
        c.handle(ev.SampleLabelled(at + 1, camera, window, 30, 10, 0.5))
    for camera in cameras:
        out = c.handle(ev.Profiled(at + 2, camera, window, (profile(), profile(0.7, 8.0, epochs=2)), 0.5))
        c.check()
    return out


def by_policy(request: PlanRequest) -> WindowPlan:
    return window_policy(request.policy).plan(request.problem)

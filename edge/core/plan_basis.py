"""The basis of a recorded plan beside its problem, so that it can be made again exactly."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from edge.core.shares import ShareCaps
from edge.core.window import WindowPlan, WindowProblem


@dataclass(frozen=True)
class CameraBudget:
    """The share of the device that the cameras of one tenant may take together."""

    tenant: str
    share: float
    cameras: tuple[str, ...]


@dataclass(frozen=True)
class PlanRequest:
    """A question to a planner: `policy` is to plan `problem`, where `current` has been in force for `age_s` seconds
    (None: no plan is). `budgets` of the tenants that have cameras; none: the cameras share all."""

    policy: str
    problem: WindowProblem
    current: WindowPlan | None = None
    age_s: float = 0.0
    budgets: tuple[CameraBudget, ...] = ()


@dataclass(frozen=True)
class PlanBasis:
    """`policy` planned with `caps` where `current` had been in force for `age_s` seconds (None, 0: no plan was).

    `asked` is what the policy was asked where that differs from the recorded problem: a retraining for a group of
    cameras counts what all of them gain. `budgets` are the tenants'.
    """

    policy: str
    caps: ShareCaps
    current: WindowPlan | None = None
    age_s: float = 0.0
    asked: WindowProblem | None = None
    budgets: tuple[CameraBudget, ...] = ()

    @staticmethod
    def of(request: PlanRequest, recorded: WindowProblem, caps: ShareCaps) -> PlanBasis:
        """The basis of a plan that `request` led to, to be kept beside the problem `recorded`."""
        asked = None if request.problem == recorded else request.problem
        return PlanBasis(request.policy, caps, request.current, request.age_s, asked, request.budgets)

    def request(self, recorded: WindowProblem) -> PlanRequest:
        """The question that the planner had; `recorded` is the problem beside the plan."""
        return PlanRequest(self.policy, self.asked or recorded, self.current, self.age_s, self.budgets)

    def to_json(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "caps": asdict(self.caps),
            "current": None if self.current is None else self.current.to_json(),
            "age_s": self.age_s,
            "asked": None if self.asked is None else self.asked.to_json(),
        } | ({"budgets": [asdict(b) for b in self.budgets]} if self.budgets else {})

    @staticmethod
    def from_json(value: dict[str, Any]) -> PlanBasis:
        """Inverse of `to_json`. Raises InvalidValue, KeyError or TypeError for what `to_json` never gave."""
        current, asked = value["current"], value["asked"]
        return PlanBasis(
            value["policy"],
            ShareCaps(**value["caps"]),
            None if current is None else WindowPlan.from_json(current),
            value["age_s"],
            None if asked is None else WindowProblem.from_json(asked),
            tuple(CameraBudget(b["tenant"], b["share"], tuple(b["cameras"])) for b in value.get("budgets", ())),
        )

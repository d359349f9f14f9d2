"""Why a candidate would fit or not, and what its admission costs the others, as values. No code parses their
sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from edge.core.plan_faults import PlanFault
from edge.core.serving_reasons import Refusal, ServingReason

#: Why a candidate is refused. "refused": no plan serves `model` (`about` is the refusal); "part_of_rate": only a part
#: fits; "not_after": `model`, of no lower priority, would be served at less; "under_floor": `camera` would fall under
#: its floor; "floors": cameras have less than their floors need; "most_rate": the rate that would fit;
#: "max_share": the operator's bound of all models; "entitlement": the most that `tenant` may have; "unreachable": no
#: share answers an application in time (`about` is the reason).
RefusedCode = Literal[
    "refused",
    "part_of_rate",
    "not_after",
    "under_floor",
    "floors",
    "most_rate",
    "max_share",
    "entitlement",
    "unreachable",
]
#: Consequences of an admission. "fits": the shares of the plans; "cameras_lose": accuracy, the most for `camera`;
#: "fault": the window plan breaks a rule that it kept before (`about` is the fault); "less_accurate": `model` answers a
#: stage instead of a better one (`about` is the reason); "yields": `model`, of lower priority, would be served at less;
#: "tenant_loses": `tenant` would have less of the device.
AcceptedCode = Literal["fits", "cameras_lose", "fault", "less_accurate", "yields", "tenant_loses"]
AdmissionReasonCode: TypeAlias = Literal[RefusedCode, AcceptedCode]


@dataclass(frozen=True)
class AdmissionReason:
    """One reason. `model` is a model, or the candidate whose rate or fit is meant. `numbers` by code, shares in
    devices: "part_of_rate": `part` of the rate, `allowed` for models, `floors` that cameras need; "not_after" and
    "yields": `priority`, `part`; "under_floor": `lowest` and `floor` accuracy; "floors": `need`, `left`; "most_rate":
    `rate` per second (0: none); "max_share": `share`, `allowed`; "entitlement": `most`, `entitlement`; "fits":
    `models`, `models_before`, `capacity`, `cameras`; "cameras_lose": `mean`, `most` accuracy;
    "tenant_loses": `loses`, `held`. `about`: the planner's
    own reason."""

    code: AdmissionReasonCode
    model: str = ""
    camera: str | None = None
    tenant: str | None = None
    numbers: Mapping[str, float] = field(default_factory=dict)
    about: Refusal | PlanFault | ServingReason | None = None

    @classmethod
    def refused(cls, refusal: Refusal) -> AdmissionReason:
        """No plan serves one of the candidate's models."""
        return cls("refused", refusal.model, about=refusal)

    @classmethod
    def fault(cls, fault: PlanFault) -> AdmissionReason:
        """The window plan breaks a rule that it kept before."""
        return cls("fault", camera=fault.camera, about=fault)

    @classmethod
    def unreachable(cls, reason: ServingReason) -> AdmissionReason:
        """No share here answers an application, which `model` names, in time."""
        return cls("unreachable", reason.application, about=reason)

    @classmethod
    def less_accurate(cls, reason: ServingReason) -> AdmissionReason:
        """A less accurate model answers one of the candidate's stages."""
        return cls("less_accurate", reason.model, about=reason)

    def to_json(self) -> dict[str, Any]:
        """As REST and the command give it."""
        return {
            "code": self.code,
            "model": self.model or None,
            "camera": self.camera,
            "tenant": self.tenant,
            "numbers": dict(self.numbers),
            "message": self.words(),
        }

    def words(self) -> str:
        """The reason as a sentence without a full stop."""
        if isinstance(self.about, PlanFault):
            return self.about.words
        return _WORDS[self.code](self) if self.about is None else self.about.words()


def _part(reason: AdmissionReason) -> str:
    return f"{100 * reason.numbers['part']:.0f} % of its rate"


def _served(reason: AdmissionReason) -> str:
    kept = f"would be served at {_part(reason)}" if reason.numbers["part"] > 0 else "would not be served any more"
    return f"{reason.model} (priority {reason.numbers['priority']:.0f}) {kept}"


def _part_of_rate(reason: AdmissionReason) -> str:
    n = reason.numbers
    return (
        f"{reason.model}: only {_part(reason)} fits into the {n['allowed']:.2f} devices that models may take "
        f"(cameras need {n['floors']:.2f} for their floors)"
    )


def _most_rate(reason: AdmissionReason) -> str:
    rate = reason.numbers["rate"]
    fits = f"at most {rate:.4g} requests/s of it fit" if rate > 0 else "no rate of it fits"
    return f"{reason.model}: {fits} beside what is there"


def _fits(reason: AdmissionReason) -> str:
    n = reason.numbers
    return (
        f"{reason.model} fits: models take {n['models']:.2f} of {n['capacity']:.2f} devices "
        f"({n['models_before']:.2f} without it), cameras plan within {n['cameras']:.2f}"
    )


def _cameras_lose(reason: AdmissionReason) -> str:
    mean, most = (100 * reason.numbers[key] for key in ("mean", "most"))
    return f"cameras lose {mean:.1f} points of accuracy on average, at most {most:.1f} ({reason.camera})"


_WORDS: Mapping[AdmissionReasonCode, Callable[[AdmissionReason], str]] = {
    "part_of_rate": _part_of_rate,
    "not_after": lambda r: f"{_served(r)}, and it does not come after the candidate",
    "under_floor": lambda r: f"{r.camera}: falls to {r.numbers['lowest']:.3f}, its floor is {r.numbers['floor']:g}",
    "floors": lambda r: (
        f"cameras need {r.numbers['need']:.2f} devices for their floors, {r.numbers['left']:.2f} are left"
    ),
    "most_rate": _most_rate,
    "max_share": lambda r: (
        f"models would take {r.numbers['share']:.2f} of the device, serving.planning.max_share allows "
        f"{r.numbers['allowed']:g}"
    ),
    "entitlement": lambda r: (
        f"{r.tenant} may have {r.numbers['most']:.2f} of the device at most: {r.numbers['entitlement']:.2f} by right"
    ),
    "fits": _fits,
    "cameras_lose": _cameras_lose,
    "yields": _served,
    "tenant_loses": lambda r: (
        f"{r.tenant} would lose {r.numbers['loses']:.2f} of the {r.numbers['held']:.2f} devices that it holds"
    ),
}

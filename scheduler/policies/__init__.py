"""Window policies behind one protocol, by name. A new one is a module of this package and a line of WINDOW_POLICIES."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol

from edge.core.errors import InvalidValue
from edge.core.window import WindowPlan, WindowProblem
from scheduler.baselines import FixedConfigPolicy, FixedResourcesPolicy, NoRetrainingPolicy, UniformPolicy
from scheduler.policies.exact import ExactPolicy
from scheduler.relay import RelayPolicy
from scheduler.thief import ThiefPolicy


class WindowPolicy(Protocol):
    """Plans a retraining window: a pure function of the problem, the same answer every time."""

    @property
    def name(self) -> str:
        """The name that the plan carries."""

    def plan(self, problem: WindowProblem) -> WindowPlan:
        """The plan of what is left of the window after the label delay. It never raises for a floor that cannot be
        kept: it then comes as close as it can and says so in `faults`. `decision_seconds` is left at 0."""


DEFAULT_POLICY = "relay"
#: Policies that can be given one configuration.
TAKE_FIXED = ("uniform", "uniform-heavy", "fixed-config")

WINDOW_POLICIES: Mapping[str, Callable[[], WindowPolicy]] = MappingProxyType(
    {
        "relay": RelayPolicy,
        "exact": ExactPolicy,
        "thief": ThiefPolicy,
        "uniform": UniformPolicy,
        "uniform-heavy": lambda: UniformPolicy("heavy"),
        "no-retraining": NoRetrainingPolicy,
        "fixed-resources": FixedResourcesPolicy,
        "fixed-config": FixedConfigPolicy,
    }
)


def window_policy(name: str, fixed: str | None = None) -> WindowPolicy:
    """The policy called `name`. `fixed` names the fixed configuration of uniform, uniform-heavy and fixed-config.

    Raises InvalidValue for an unknown name, or `fixed` with a policy that picks its own configurations.
    """
    if name not in WINDOW_POLICIES:
        raise InvalidValue("policy", name, "one of " + ", ".join(WINDOW_POLICIES))
    if fixed is None:
        return WINDOW_POLICIES[name]()
    if name == "uniform":
        return UniformPolicy("light", fixed)
    if name == "uniform-heavy":
        return UniformPolicy("heavy", fixed)
    if name == "fixed-config":
        return FixedConfigPolicy(fixed)
    raise InvalidValue("fixed", fixed, f"nothing: policy {name} picks its own configurations")

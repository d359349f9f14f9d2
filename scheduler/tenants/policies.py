"""Policies that share a resource between tenants, behind one protocol, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

from edge.core.errors import InvalidValue
from scheduler.tenants.end_to_end import EndToEndPolicy
from scheduler.tenants.evolution import EvolutionPolicy
from scheduler.tenants.learned import EgalitarianWelfarePolicy, NoComplaintsPolicy, SocialWelfarePolicy
from scheduler.tenants.measured import FairPolicy, GreedyPolicy, MiadPolicy, MinervaPolicy, PartiesPolicy
from scheduler.tenants.regression import ErnestPolicy, QuasarPolicy
from scheduler.tenants.values import SharingFeedback, SharingProblem, SharingState, SharingStep


class SharingPolicy(Protocol):
    """Shares a resource, interval by interval: pure functions, the same answer every time."""

    @property
    def name(self) -> str:
        """The name that the state carries."""

    def begin(self, problem: SharingProblem, seed: int = 0) -> SharingStep:
        """The first allocation, before anything was measured."""

    def step(self, problem: SharingProblem, state: SharingState, feedback: SharingFeedback) -> SharingStep:
        """The next allocation, after the reports of an interval."""


class ResumablePolicy(SharingPolicy, Protocol):
    """A policy whose state may have been kept in a file, and damaged there."""

    def check(self, problem: SharingProblem, memory: Mapping[str, Any]) -> None:
        """Raises InvalidValue, with the field's path, for a memory that no conversation about `problem` leads to."""


DEFAULT_SHARING_POLICY = "ew"

SHARING_POLICIES: Mapping[str, Callable[[], ResumablePolicy]] = MappingProxyType(
    {
        "sw": SocialWelfarePolicy,
        "ew": EgalitarianWelfarePolicy,
        "njc": NoComplaintsPolicy,
        "e2e": EndToEndPolicy,
        "fair": FairPolicy,
        "greedy-ew": GreedyPolicy,
        "minerva": MinervaPolicy,
        "parties": PartiesPolicy,
        "miad": MiadPolicy,
        "evo-sw": lambda: EvolutionPolicy("sw"),
        "evo-ew": lambda: EvolutionPolicy("ew"),
        "evo-e2e": lambda: EvolutionPolicy("e2e"),
        "ernest": ErnestPolicy,
        "quasar": QuasarPolicy,
    }
)

#: Policies that can share between the services of a pipeline, and the one that can do nothing else.
FOR_PIPELINES = ("e2e", "evo-e2e", "fair")
FOR_PIPELINES_ONLY = ("e2e",)


def check_kind(name: str, problem: SharingProblem) -> None:
    """Raises InvalidValue if the policy called `name` cannot share what `problem` has (tenants, or a pipeline)."""
    fit = [n for n in SHARING_POLICIES if n not in FOR_PIPELINES_ONLY]
    allowed = FOR_PIPELINES if problem.kind == "pipeline" else fit
    if name not in allowed:
        raise InvalidValue("policy", name, f"for a problem of kind {problem.kind}: {', '.join(allowed)}")


def sharing_policy(name: str) -> ResumablePolicy:
    """The policy called `name`. Raises InvalidValue for an unknown name."""
    if name not in SHARING_POLICIES:
        raise InvalidValue("policy", name, "one of " + ", ".join(SHARING_POLICIES))
    return SHARING_POLICIES[name]()

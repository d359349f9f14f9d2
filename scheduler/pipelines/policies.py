"""Pipeline policies behind one protocol, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Protocol

from edge.core.errors import InvalidValue
from edge.core.pipelines import PipelinePlan, PipelineProblem
from scheduler.pipelines.clipper import ClipperPolicy
from scheduler.pipelines.fronts import FrontsPolicy
from scheduler.pipelines.harpagon import HarpagonOptions, HarpagonPolicy
from scheduler.pipelines.inferline import InferLinePolicy
from scheduler.pipelines.nexus import NexusPolicy
from scheduler.pipelines.pool import PoolPolicy
from scheduler.pipelines.scrooge import ScroogePolicy
from scheduler.pipelines.whole import WholePolicy


class PipelinePolicy(Protocol):
    """Plans a pipeline: a pure function of the problem, the same answer every time."""

    @property
    def name(self) -> str:
        """The name that the plan carries."""

    def plan(self, problem: PipelineProblem) -> PipelinePlan:
        """The plan, feasible only if `scheduler.pipelines.verdict` finds no fault; else the reasons why there is none.
        It takes at most a fixed number of counted steps; the plan has their number. `decision_seconds` is left None."""


DEFAULT_PIPELINE_POLICY = "fronts"

#: The parts that each ablation of the Harpagon paper (its figure 6) switches off.
ABLATIONS: Mapping[str, HarpagonOptions] = MappingProxyType(
    {
        "2d": HarpagonOptions(dispatch="RR"),
        "dt": HarpagonOptions(dispatch="DT"),
        "1c": HarpagonOptions(most=1, dummies=False),
        "2c": HarpagonOptions(most=2, dummies=False),
        "nb": HarpagonOptions(batching=False),
        "nhc": HarpagonOptions(hardware="cheapest"),
        "nhe": HarpagonOptions(hardware="dearest"),
        "nd": HarpagonOptions(dummies=False),
        "0re": HarpagonOptions(reassign=0),
        "1re": HarpagonOptions(reassign=1),
        "tb": HarpagonOptions(by_throughput=True),
        "q0.01": HarpagonOptions(step_s=0.01),
        "q0.1": HarpagonOptions(step_s=0.1),
        "nnm": HarpagonOptions(merge=False),
        "ncd": HarpagonOptions(direct=False),
    }
)


def _ablation(name: str) -> Callable[[], PipelinePolicy]:
    return lambda: HarpagonPolicy(f"harpagon-{name}", ABLATIONS[name])


#: Whose plans `whole` is compared with: of Harpagon's parts only the one that deals, which is often in time.
_RIVALS = (
    "fronts",
    "pool",
    "harpagon",
    "harpagon-dt",
    "nexus",
    "nexus-cheapest",
    "scrooge",
    "inferline",
    "clipper",
    "clipper-cheapest",
)


def _rivals(problem: PipelineProblem) -> Iterator[PipelinePlan]:
    return (PIPELINE_POLICIES[name]().plan(problem) for name in _RIVALS)


PIPELINE_POLICIES: Mapping[str, Callable[[], PipelinePolicy]] = MappingProxyType(
    {
        "fronts": FrontsPolicy,
        "pool": PoolPolicy,
        "whole": lambda: WholePolicy(_rivals),
        "harpagon": HarpagonPolicy,
        **{f"harpagon-{name}": _ablation(name) for name in ABLATIONS},
        "nexus": NexusPolicy,
        "nexus-cheapest": lambda: NexusPolicy("cheapest"),
        "scrooge": ScroogePolicy,
        "inferline": InferLinePolicy,
        "clipper": ClipperPolicy,
        "clipper-cheapest": lambda: ClipperPolicy("cheapest"),
    }
)


def pipeline_policy(name: str) -> PipelinePolicy:
    """The policy called `name`. Raises InvalidValue for an unknown name."""
    if name not in PIPELINE_POLICIES:
        raise InvalidValue("policy", name, "one of " + ", ".join(PIPELINE_POLICIES))
    return PIPELINE_POLICIES[name]()

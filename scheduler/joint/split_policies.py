"""The ways to divide applications' objectives over their stages, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from edge.core import checks
from scheduler.gpulets.pipelines import FitFunction, fit_evenly
from scheduler.joint.alternatives import FitAlternatives
from scheduler.joint.fitting import fit_pipelines

SPLIT_POLICIES: Final[Mapping[str, FitFunction]] = {
    "joint": FitAlternatives(fit_pipelines),
    "even": FitAlternatives(fit_evenly),
}
DEFAULT_SPLIT_POLICY: Final = "joint"


def split_policy(name: str) -> FitFunction:
    """The function of this name. Raises InvalidValue for an unknown one."""
    checks.one_of("split", name, SPLIT_POLICIES)
    return SPLIT_POLICIES[name]

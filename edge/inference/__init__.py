"""Live inference: a student on a camera's frames, at the inference configuration in force.

Imports edge.core and edge.students only.
"""

from edge.inference.agreement import agreement
from edge.inference.live import LiveStudent, prepare
from edge.inference.pacing import Pacer
from edge.inference.profile import (
    ProfileMeter,
    inference_profile,
    measure_cost,
)
from edge.inference.proposals import ProposalFinder
from edge.inference.staleness import staleness_factors

__all__ = [
    "LiveStudent",
    "Pacer",
    "ProfileMeter",
    "ProposalFinder",
    "agreement",
    "inference_profile",
    "measure_cost",
    "prepare",
    "staleness_factors",
]

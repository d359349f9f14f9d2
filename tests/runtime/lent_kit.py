"""Trials of a drawn camera, and what came of them."""

from __future__ import annotations

from edge.core.configs import RetrainingConfig
from edge.core.labels import LabelledWindow
from edge.core.profiles import Estimate, RetrainingProfile
from edge.runtime import messages as m
from microprofiler.history import ProfilerHistory

SPACE = (RetrainingConfig(2, 8, "head"), RetrainingConfig(4, 8, "head"))


def profile_of(window: LabelledWindow, student: m.StudentFile) -> m.Profile:
    """Trials of a borrower that has 4 cores."""
    return m.Profile(window, student, SPACE, 30.0, None, 4.0, 1)


def done_of(job: m.Profile, device_seconds: float) -> m.ProfileDone:
    """Profiles of both configurations after one trial."""
    profiles = tuple(
        RetrainingProfile(c, 0.4, Estimate(0.6, 0.5, 0.7), Estimate.exact(5.0), ((0.0, 0.4), (5.0, 0.6))) for c in SPACE
    )
    history = ProfilerHistory().profiled(profiles, len(job.data.train)).to_json()
    return m.ProfileDone(
        job.data.camera, job.data.window, profiles, 0.4, device_seconds, history, {"x": "not tried"}, "", 1, 0.5
    )  # fmt: skip

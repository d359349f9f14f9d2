"""Examples of retraining settings and learning."""

from __future__ import annotations

from typing import Final

from web.examples.example import AT_UTC_S, Example

RETRAINING_SETTINGS: Final[Example] = {
    "enabled": True,
    "window_s": 200.0,
    "policy": "relay",
    "a_min": None,
    "label_budget": None,
    "golden_share": None,
    "profiling_budget": None,
    "quiet_hours": [],
}
_BUDGET: Final[Example] = {
    "golden_share": 0.05,
    "labels": 48,
    "trials": 1,
    "profiling_s": 0.7,
    "ready_s": 9.4,
    "retraining_s": 13.2,
    "retrainings": 4.0,
    "value": 0.078,
    "known": True,
    "late": False,
    "looks": True,
    "reason": "48 labels per camera at 0.018 device seconds each, 1 of 2 trials",
}
LEARNING: Final[Example] = {
    "window_s": 90.0,
    "cameras": 4,
    "budget": _BUDGET,
    "golden_share": 0.05,
    "fixed": {"golden_share": False, "label_budget": False, "profiling_budget": False},
    "facts": {"label_s": {"value": 0.018, "spread": 0.001, "samples": 812}, "trial_s": None},
    "choice": {"window_s": 180.0, "budget": _BUDGET, "reason": "retraining is expected to bring 7.8 points over 180 s"},
    "bias": 0.004,
    "mean_error": 0.031,
    "camera_windows": 16,
    "late_labels_used": 3,
    "unprofiled_retrainings": 1,
    "handed_in": 2,
}
RETRAINING: Final[Example] = {
    "current": RETRAINING_SETTINGS,
    "next": RETRAINING_SETTINGS | {"window_s": 120.0, "a_min": 0.3},
    "next_boundary_utc_s": AT_UTC_S + 90,
}

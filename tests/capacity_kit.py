"""Recorded windows of a box whose cameras drift and are retrained, as documents of the store, for tests."""

from __future__ import annotations

from typing import Any

from edge.core.capacity import BoxChange, BoxWindow, CameraForecast, CapacityForecast
from edge.core.configs import InferenceConfig, RetrainingConfig
from edge.core.profiles import Estimate, InferencePoint, InferenceProfile, RetrainingProfile
from edge.core.window import StreamProblem, WindowProblem

CONFIG = RetrainingConfig(5)
POLICY = "thief"
#: At most eight answers per second.
INFERENCE = InferenceProfile(
    "subsampling", 0.2, (1.0, 2.0, 4.0), (0.9, 0.8, 0.6), "measured",
    tuple(InferencePoint(InferenceConfig(8.0 / x, 1.0), 0.2 / x, f) for x, f in ((1.0, 0.9), (2.0, 0.8), (4.0, 0.6))),
)  # fmt: skip


def details(
    windows: int, cameras: tuple[str, ...] = ("gate", "yard"), length_s: float = 100.0, share: float = 0.8,
    first: int = 1, realised: float | None = None, work_s: float = 12.0, policy: str = POLICY,
) -> list[dict[str, Any]]:  # fmt: skip
    """Closed windows, the oldest first. `realised` None: as drift and retraining have it."""
    return [_detail(n, cameras, length_s, share, realised, work_s, policy) for n in range(first, first + windows)]


def _detail(
    number: int, cameras: tuple[str, ...], length_s: float, share: float, realised: float | None, work_s: float,
    policy: str,
) -> dict[str, Any]:  # fmt: skip
    problem = WindowProblem("p", share, length_s, tuple(StreamProblem(c, 0.6, INFERENCE) for c in cameras), 0.1)
    rows, profiles, jobs = [], [], []
    for k, camera in enumerate(cameras):
        frozen = 0.55 - 0.02 * k - 0.03 * (number % 3)
        level = 0.62 - 0.02 * k - 0.01 * (number % 3) if realised is None else realised
        rows.append(
            {
                "camera": camera, "frozen": {"value": frozen}, "realised": {"value": level}, "frames_labelled": 30,
                "model_version": f"{camera}-{number}", "labelling_delay_s": 2.0,
                "details": {"current_fresh": {"value": 0.7, "frames": 30}},
            }
        )  # fmt: skip
        profile = RetrainingProfile(
            CONFIG, 0.6, Estimate(0.75, 0.7, 0.8), Estimate.exact(work_s), ((0.0, 0.6), (work_s, 0.75))
        )
        profiles.append({"camera": camera, "profile": profile.to_json()})
        jobs.append(
            {
                "camera": camera, "state": "completed", "accuracy_after": 0.74, "config": CONFIG.id,
                "device_seconds": work_s, "model_version": f"{camera}-{number}",
            }
        )  # fmt: skip
    window = {
        "id": number, "open": False, "outcome": "completed", "length_s": length_s, "policy": policy,
        "start_utc_s": number * length_s,
        "settings": {"golden_share": 0.1}, "cameras": rows,
    }  # fmt: skip
    plan = {"problem": problem.to_json(), "basis": None, "at_utc_s": number * length_s, "plan": {"segments": []}}
    return {"window": window, "plans": [plan], "profiles": profiles, "jobs": jobs, "costs": []}


def box_window(
    number: int, realised: dict[str, float | None], length_s: float = 100.0, share: float = 0.8, rate: float = 8.0
) -> BoxWindow:
    """A window of a box."""
    return BoxWindow(number, length_s, share, realised, dict.fromkeys(realised, rate))


def made(change: BoxChange, last: int = 6, share_then: float = 0.8, new: bool = False) -> CapacityForecast:
    """A forecast of 0.6 (0.55 to 0.65) for the cameras gate and yard; `new`: of a new one, too."""
    then = Estimate(0.6, 0.55, 0.65)
    cameras = [
        CameraForecast(c, 0.62, then, 2 if change.kind == "box" and c == "yard" else 1) for c in ("gate", "yard")
    ]
    if new:
        cameras.append(CameraForecast("new-camera", None, then))
    return CapacityForecast(change, 6, last, 0.8, share_then, tuple(cameras))

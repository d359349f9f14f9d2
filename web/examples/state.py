"""Examples of the state of the whole appliance."""

from __future__ import annotations

from typing import Final

from web.examples.cameras import CAMERA_STATE
from web.examples.example import AT_UTC_S, Example

HEALTH: Final[Example] = {"live": True, "ready": True, "reasons": [], "uptime_s": 812.4, "version": "0.1.0"}
NOT_READY: Final[Example] = HEALTH | {
    "ready": False,
    "reasons": [{"code": "golden_not_ready", "message": "the golden model is being loaded or started again"}],
}
OVERVIEW: Final[Example] = {
    "site": "junction",
    "utc_s": AT_UTC_S + 40,
    "window": {
        "number": 3,
        "start_utc_s": AT_UTC_S,
        "end_utc_s": AT_UTC_S + 200,
        "length_s": 200.0,
        "phase": "running",
    },
    "policy": "relay",
    "device": {"kind": "cgroup", "device": "cpu", "enforced": "cap", "units": 4.0},
    "shares": {"junction-north": {"inference": 0.15, "retraining": 0.62, "config": "all-e10-b8-d1-lr0.002"}},
    "golden_share": 0.15,
    "profiling_share": 0.02,
    "control_share": 0.08,
    "serving": None,
    "cameras": [{"id": "junction-north", "name": "Junction, north side"} | CAMERA_STATE],
    "jobs": [
        {"job": "w3-junction-north-2", "camera": "junction-north", "config": "all-e10-b8-d1-lr0.002", "fraction": 0.4}
    ],
    "complaints": [],
    "workers": [{"name": "camera-junction-north", "role": "inference", "state": "running"}],
    "losses": {"journal": 0},
}
DOCTOR: Final[Example] = {"checks": [{"name": "memory", "outcome": "good", "said": "12.1 GB free", "hint": ""}]}

"""Examples of the state of the whole appliance."""

from __future__ import annotations

from typing import Final

from web.examples.cameras import CAMERA_STATE
from web.examples.example import AT_UTC_S, Example
from web.examples.models import RETRAINING

HEALTH: Final[Example] = {"live": True, "ready": True, "reasons": [], "uptime_s": 812.4, "version": "0.1.0"}
NOT_READY: Final[Example] = HEALTH | {
    "ready": False,
    "reasons": [
        {"code": "golden_not_ready", "message": "the golden model is being loaded or started again", "camera": None}
    ],
}
WORKER: Final[Example] = {
    "name": "camera-junction-north",
    "role": "inference",
    "kind": "camera",
    "camera": "junction-north",
    "state": "running",
    "pid": 4711,
    "share": 0.2,
    "restarts": 0,
    "respawns": 1,
    "last_error": "",
    "messages_lost": 0,
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
    "plan": {"objective": 0.68, "reasons": {"junction-north": "+18.0 points for 24.0 GPU-s"}},
    "device": {
        "kind": "cgroup",
        "device": "cpu",
        "enforced": "cap",
        "resize": "live",
        "min_share": 0.01,
        "step": None,
        "units": 4.0,
        "oversubscribe": False,
        "memory_limit": True,
        "fault_domain": "worker",
        "evidence": "a busy child under 0.3 cores got 0.3",
    },
    "shares": {
        "junction-north": {
            "inference": 0.15,
            "retraining": 0.62,
            "config": "all-e10-b8-d1-lr0.002",
            "lambda": "5fps-x1-r0.000-0.200-1.000-1.000",
        }
    },
    "golden_share": 0.15,
    "profiling_share": 0.02,
    "lent_share": 0.0,
    "control_share": 0.08,
    "serving": None,
    "usage": [
        {
            "worker": "camera-junction-north",
            "activity": "inference",
            "camera": "junction-north",
            "asked": 0.15,
            "granted": 0.15,
            "used_share": 0.13,
            "device_seconds": 5.2,
            "wall_s": 40.0,
            "throttled_fraction": 0.01,
            "visible_units": None,
            "given_share": None,
            "waited_fraction": 0.0,
            "demand_limited": False,
            "running": True,
        }
    ],
    "cameras": [{"id": "junction-north", "name": "Junction, north side", "state": CAMERA_STATE}],
    "jobs": [
        {
            "job": "w3-junction-north-2",
            "camera": "junction-north",
            "config": "all-e10-b8-d1-lr0.002",
            "retraining": RETRAINING,
            "window": 3,
            "share": 0.62,
            "started_utc_s": AT_UTC_S + 12,
            "predicted_accuracy": 0.73,
            "total_device_s": 24.0,
            "fraction": 0.4,
            "held_out": 0.69,
            "device_seconds": 9.7,
            "box": "",
        }
    ],
    "complaints": [],
    "workers": [WORKER],
    "losses": {
        "labels": {"unreadable": 0, "given_up": 0, "missed": 0},
        "journal": 0,
        "labels_waiting": 2,
        "live_pictures": 0,
        "alarms": {"records": 0, "pictures_not_taken": 0},
        "clips": 0,
    },
}
DOCTOR: Final[Example] = {
    "can_run": True,
    "checks": [{"name": "memory", "outcome": "good", "said": "12.1 GB free", "hint": ""}],
    "devices": [
        {
            "device": "cpu",
            "kind": "cpu",
            "name": "AMD EPYC",
            "units": 4.0,
            "memory_bytes": 16_000_000_000,
            "shares": None,
            "error": "no share kind can be enforced",
            "tried": [{"kind": "cgroup v2", "ok": False, "reason": "the cgroup cannot be written"}],
        }
    ],
    "notes": ["GPU: nvidia-smi is not on PATH, so no NVIDIA GPU is looked for"],
}

"""Examples of the system page and the log."""

from __future__ import annotations

from typing import Final

from web.examples.example import AT_UTC_S, Example
from web.examples.state import HEALTH, OVERVIEW, WORKER

SYSTEM: Final[Example] = {
    "site": "junction",
    "utc_s": AT_UTC_S + 40,
    "started_utc_s": AT_UTC_S - 772,
    "health": HEALTH,
    "devices": [
        {
            "kind": "cpu",
            "id": "cpu",
            "name": "AMD EPYC",
            "units": 4.0,
            "memory_bytes": 16_000_000_000,
            "gpu": None,
            "in_use": True,
        }
    ],
    "notes": ["GPU: nvidia-smi is not on PATH, so no NVIDIA GPU is looked for"],
    "shares": OVERVIEW["device"]
    | {
        "promise": "A worker cannot use more than its share.",
        "limits": ["the smallest share is 1 %, any size"],
        "kept": {"control": 0.08, "golden": 0.15, "evaluation": 0.05, "front": 0.0},
    },
    "workers": [WORKER | {"asked": 0.2, "granted": 0.2, "used": 0.17, "memory_bytes": 410_000_000}],
    "disk": {
        "free_bytes": 41_000_000_000,
        "total_bytes": 64_000_000_000,
        "folder": "/var/lib/magpie",
        "low": False,
        "low_bytes": 200_000_000,
        "sizes": {"pictures": 812_000_000, "models": 95_000_000, "database": 21_000_000},
        "retention": {
            "days": 30.0,
            "max_gb": 10.0,
            "max_events": 1_000_000,
            "max_events_mb": 500.0,
            "max_objects": 200_000,
            "max_object_pictures_mb": 1000.0,
        },
        "recording": {"max_frames": 400, "max_mb": 200.0, "keep_windows": 6},
        "retained": {"deleted": {}, "bytes_kept": 907_000_000, "bytes_over": 0},
    },
    "losses": [
        {
            "code": "stalls",
            "camera": "junction-north",
            "subject": "",
            "count": 1,
            "words": "times the camera sent nothing for its stall time",
            "since": "worker",
        }
    ],
    "versions": {"magpie": "0.1.0", "python": "3.11.9", "database": "sqlite:////var/lib/magpie/magpie.db"},
}
LOG: Final[Example] = {
    "records": [
        {
            "id": 118,
            "utc_s": AT_UTC_S + 12.5,
            "level": "INFO",
            "logger": "edge.appliance.appliance",
            "message": "camera.live",
            "event": "camera.live",
            "camera": "junction-north",
            "window": None,
            "cause": None,
            "worker": None,
            "error": None,
        }
    ],
    "capacity": 2000,
    "forgotten": 0,
    "level": "INFO",
}

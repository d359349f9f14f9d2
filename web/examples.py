"""Examples for OpenAPI: what the answers look like."""

from __future__ import annotations

from typing import Any, Final

Example = dict[str, Any]
_T: Final = 1790000000.0

ERROR_SCHEMA: Final[Example] = {
    "title": "Error",
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["code", "message"],
            "properties": {
                "code": {"type": "string", "description": "stable, for programs"},
                "message": {"type": "string", "description": "for people"},
                "id": {"type": "string", "description": "where the appliance's log tells more"},
                "problems": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["path", "given", "allowed"],
                        "properties": {
                            "path": {"type": "string", "description": "of the field"},
                            "given": {"description": "what came"},
                            "allowed": {"type": "string", "description": "what may come"},
                        },
                    },
                },
            },
        }
    },
}
INVALID: Final[Example] = {
    "error": {
        "code": "invalid_value",
        "message": "window_s: got 3, allowed: greater than or equal to 10",
        "problems": [{"path": "window_s", "given": 3, "allowed": "greater than or equal to 10"}],
    }
}
UNAVAILABLE: Final[Example] = {
    "error": {"code": "unavailable", "message": "camera junction-north has no picture now: reconnecting"}
}
HEALTH: Final[Example] = {"live": True, "ready": True, "reasons": [], "uptime_s": 812.4, "version": "0.1.0"}
NOT_READY: Final[Example] = HEALTH | {
    "ready": False,
    "reasons": [{"code": "golden_not_ready", "message": "the golden model is being loaded or started again"}],
}
CAMERA_SETTINGS: Final[Example] = {
    "id": "junction-north",
    "name": "Junction, north side",
    "url": "rtsp://192.0.2.10:554/stream1",
    "username": "viewer",
    "password_from": "secret:junction",
    "task": "detection",
    "classes": ["car", "bus", "person"],
    "inference": {"frame_rates": [5, 2.5, 1], "resolutions": [1]},
    "retraining": {"enabled": True, "every_kth_window": 1},
}
_STATE: Final[Example] = {
    "camera": "junction-north",
    "state": "live",
    "fault": None,
    "message": "",
    "since_utc_s": _T,
    "frames_decoded": 8124,
    "frames_damaged": 0,
    "fps": 10.0,
    "delay_s": 0.21,
    "width": 1280,
    "height": 720,
    "codec": "h264",
    "retry_in_s": 0.0,
    "model_version": "junction-north-w3-2-1790000000",
    "frozen_version": "junction-north-first-1789999000",
    "share": 0.15,
    "lambda": {"frame_rate": 5.0, "resolution": 1.0, "region": [0.0, 0.2, 1.0, 1.0], "shape": "camera"},
    "accuracy": 0.71,
    "frozen_accuracy": 0.52,
    "download_accuracy": 0.62,
    "student": "yolox_nano",
    "answers": 4060,
    "stale_answers": 3,
    "answers_per_s": 5.0,
    "inference_ms": 21.5,
    "recorder": "",
    "losses": {"frames_damaged": 0, "stalls": 0, "reconnects": 0, "samples_lost": 0},
}
CAMERA: Final[Example] = {"id": "junction-north", "settings": CAMERA_SETTINGS, "state": _STATE}
CAMERA_TEST: Final[Example] = {
    "ok": True,
    "width": 1280,
    "height": 720,
    "fps": 10.0,
    "codec": "h264",
    "message": "a picture came",
    "picture": "/9j/4AAQSkZJRgABAQAAAQABAAD...",
}
CATALOGUE: Final[Example] = {
    "folder": "/home/magpie/.local/share/magpie/models",
    "models": [
        {
            "name": "yolox_nano",
            "file": "yolox_nano.onnx",
            "what": "YOLOX-nano 416x416, COCO-80, 0.90 M weights: few false alarms",
            "licence": "Apache-2.0",
            "attribution": "YOLOX by Megvii (Apache-2.0)",
            "bytes": 3660092,
            "state": "here",
            "refused": False,
            "added": False,
            "teachers": ["coco_ensemble", "traffic_ensemble", "yolox_nano"],
            "students": ["yolox_nano"],
        }
    ],
    "descriptions": [
        {
            "kind": "student",
            "name": "yolox_nano",
            "path": "/opt/magpie/lib/python3.11/site-packages/configs/students/yolox_nano.yaml",
            "models": ["yolox_nano"],
            "licences": ["Apache-2.0"],
            "bytes": 3660092,
            "here": True,
            "answer_ms": 210.0,
        }
    ],
}
DISAGREEMENT: Final[Example] = {
    "window": 3,
    "frame": 1834,
    "utc_s": _T + 12,
    "model_version": "junction-north-w3-2-1790000000",
    "answer_age_s": 0.1,
    "width": 1280,
    "height": 720,
    "student": [{"box": [0.1, 0.4, 0.3, 0.6], "class": "car", "score": 0.71, "verdict": "class"}],
    "teacher": [
        {"box": [0.1, 0.4, 0.31, 0.61], "class": "bus", "score": 0.93, "verdict": "class"},
        {"box": [0.6, 0.5, 0.65, 0.7], "class": "person", "score": 0.88, "verdict": "missed"},
    ],
    "kinds": ["missed", "class"],
}
CLASSES: Final[Example] = {
    "window": 3,
    "start_utc_s": _T,
    "frames": 44,
    "teacher": {"car": 120, "bus": 9, "person": 61},
    "student": {"car": 117, "bus": 4, "person": 48},
}
_RETRAINING: Final[Example] = {
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
    "current": _RETRAINING,
    "next": _RETRAINING | {"window_s": 120.0, "a_min": 0.3},
    "next_boundary_utc_s": _T + 90,
}
WINDOW: Final[Example] = {
    "id": 3,
    "start_utc_s": _T,
    "length_s": 200.0,
    "policy": "relay",
    "settings": _RETRAINING,
    "open": False,
    "closed_utc_s": _T + 200,
    "outcome": "completed",
    "details": {},
    "cameras": [
        {
            "window": 3,
            "camera": "junction-north",
            "model_version": "junction-north-w3-2-1790000000",
            "realised": {"value": 0.71, "frames": 44},
            "frozen": {"value": 0.52, "frames": 44},
            "frames_labelled": 44,
            "losses": {},
            "details": {"download": {"value": 0.62, "frames": 44}},
        }
    ],
}
WINDOW_DETAIL: Final[Example] = {
    "window": WINDOW,
    "plans": [
        {
            "id": 7,
            "window": 3,
            "at_utc_s": _T + 11,
            "cause": "profiles are there",
            "policy": "relay",
            "objective": 0.68,
            "problem": {"format": "retrain-infer-window/1"},
            "plan": {"format": "retrain-infer-plan/1"},
        }
    ],
    "profiles": [],
    "jobs": [
        {
            "id": "w3-junction-north-2",
            "window": 3,
            "camera": "junction-north",
            "config": "all-e10-b8-d1-lr0.002",
            "share": 0.62,
            "state": "completed",
            "fraction": 1.0,
            "gpu_seconds": 24.2,
            "accuracy_before": 0.55,
            "accuracy_after": 0.73,
            "promoted": True,
            "reason": "held-out 0.73 against 0.55",
        }
    ],
    "usage": [
        {
            "worker": "camera-junction-north",
            "role": "inference",
            "asked": 0.15,
            "granted": 0.15,
            "used": 0.13,
            "device_seconds": 26.1,
        }
    ],
    "costs": [{"window": 3, "camera": "junction-north", "kind": "retraining", "gpu_seconds": 24.2, "wall_s": 41.0}],
}
_SHARES: Final = [
    {"kind": "inference", "camera": "junction-north", "config": None, "share": 0.15},
    {"kind": "retraining", "camera": "junction-north", "config": "all-e10-b8-d1-lr0.002", "share": 0.57},
    {"kind": "profiling", "camera": None, "config": None, "share": 0.05},
    {"kind": "golden", "camera": None, "config": None, "share": 0.15},
    {"kind": "control", "camera": None, "config": None, "share": 0.08},
]
_TIMELINE: Final = [{"start_s": 11.0, "end_s": 200.0, "plan": 7, "phase": "running", "shares": _SHARES}]
_WORDS: Final = {"all-e10-b8-d1-lr0.002": "all layers, 10 epochs, 100 % of the data"}
_WHY: Final = [
    "Retrain “all layers, 10 epochs, 100 % of the data”: +18.0 points for 24.0 device seconds, the only one (0.75 "
    "points per device second)",
    "15 % of the device for inference keeps 100 % of its accuracy",
]
EXPLAINED: Final[Example] = {
    "window": WINDOW,
    "timeline": _TIMELINE,
    "decisions": [
        {
            "plan": 7,
            "at_s": 11.0,
            "until_s": 200.0,
            "cause": "labels and profiles are in",
            "policy": "relay",
            "objective": 0.68,
            "decision_s": 0.012,
            "whole": ["1 retraining", "Inference has the rest"],
            "cameras": {"junction-north": _WHY},
            "faults": [],
        }
    ],
    "cameras": [
        {
            "camera": "junction-north",
            "realised": 0.71,
            "frozen": 0.52,
            "frames_labelled": 44,
            "promised": 0.68,
            "predicted": 0.68,
            "steps": [[0.0, 50.0, 0.55], [50.0, 200.0, 0.73]],
            "options": [
                {
                    "config": "all-e10-b8-d1-lr0.002",
                    "words": "all layers, 10 epochs, 100 % of the data",
                    "start_accuracy": 0.55,
                    "end_accuracy": {"value": 0.73, "low": 0.66, "high": 0.79},
                    "gpu_seconds": {"value": 24.0, "low": 20.0, "high": 29.0},
                    "gain_per_gpu_second": 0.0075,
                    "chosen": True,
                    "verdict": "chosen and trained",
                }
            ],
            "jobs": [],
            "losses": {},
            "labelling_delay_s": 0.1,
            "profiling_delay_s": 8.5,
        }
    ],
    "configs": _WORDS,
    "usage": [],
    "costs": [{"window": 3, "camera": "junction-north", "kind": "retraining", "gpu_seconds": 24.2, "wall_s": 41.0}],
    "policies": ["relay", "exact", "thief"],
}
_SIDE: Final[Example] = {
    "policy": "relay",
    "objective": 0.68,
    "timeline": _TIMELINE,
    "cameras": {"junction-north": 0.68},
    "lowest": {"junction-north": 0.55},
    "reasons": {"": ["1 retraining"], "junction-north": _WHY},
    "faults": [],
}
WHAT_IF: Final[Example] = {
    "policy": "uniform",
    "plan": {"format": "retrain-infer-plan/1"},
    "objective": 0.61,
    "original_policy": "relay",
    "original_objective": 0.68,
    "comparison": {
        "window": 3,
        "length_s": 200.0,
        "made": _SIDE,
        "asked": _SIDE | {"policy": "uniform", "objective": 0.61, "cameras": {"junction-north": 0.61}},
        "configs": _WORDS,
    },
}
MODEL: Final[Example] = {
    "id": "junction-north-w3-2-1790000000",
    "camera": "junction-north",
    "parent": "junction-north-first-1789999000",
    "window": 3,
    "config": "all-e10-b8-d1-lr0.002",
    "scores": {"held_out": 0.73, "parent_held_out": 0.55, "frames": 13},
    "state": "promoted",
    "decided_by": "gate",
    "reason": "held-out 0.73 against 0.55",
    "pinned": False,
    "created_utc_s": _T,
    "frames": 31,
    "gpu_seconds": 24.2,
    "blob_kept": True,
}
FIRST_MODEL: Final[Example] = MODEL | {
    "id": "junction-north-first-1789999000",
    "parent": None,
    "window": None,
    "config": None,
    "scores": {},
    "state": "retired",
    "decided_by": "first model",
    "reason": "the student's own weights",
}
EVENT: Final[Example] = {
    "id": 812,
    "utc_s": _T,
    "kind": "model.promoted",
    "camera": "junction-north",
    "window": 3,
    "data": {"version": "junction-north-w3-2-1790000000", "scores": {"held_out": 0.73, "parent_held_out": 0.55}},
}
OVERVIEW: Final[Example] = {
    "site": "junction",
    "utc_s": _T + 40,
    "window": {"number": 3, "start_utc_s": _T, "end_utc_s": _T + 200, "length_s": 200.0, "phase": "running"},
    "policy": "relay",
    "device": {"kind": "cgroup", "device": "cpu", "enforced": "cap", "units": 4.0},
    "shares": {"junction-north": {"inference": 0.15, "retraining": 0.62, "config": "all-e10-b8-d1-lr0.002"}},
    "golden_share": 0.15,
    "profiling_share": 0.02,
    "control_share": 0.08,
    "serving": None,
    "cameras": [{"id": "junction-north", "name": "Junction, north side"} | _STATE],
    "jobs": [
        {"job": "w3-junction-north-2", "camera": "junction-north", "config": "all-e10-b8-d1-lr0.002", "fraction": 0.4}
    ],
    "complaints": [],
    "workers": [{"name": "camera-junction-north", "role": "inference", "state": "running"}],
    "losses": {"journal": 0},
}
SERVING: Final[Example] = {
    "front": {
        "up": True,
        "http": {"host": "127.0.0.1", "port": 8000},
        "grpc": {"host": "127.0.0.1", "port": 8001},
    },
    "settings": {
        "policy": "mosaic",
        "max_share": 0.6,
        "cameras_priority": 0,
        "half_life_s": 20.0,
        "rise_half_life_s": 4.0,
        "headroom": 1.1,
        "grow_dwell_s": 2.0,
        "shrink_dwell_s": 20.0,
        "models": {"plates": {"rate": None, "min_rate": None, "slo_ms": 80.0, "priority": 1}},
    },
    "share": {
        "reserved": 0.25,
        "planned": 0.2,
        "most": 0.6,
        "beside_cameras": 0.35,
        "measuring": 0.0,
        "front_more": 0.0,
    },
    "reorganising": False,
    "models": [
        {
            "name": "plates",
            "kind": "model",
            "state": "serving",
            "reason": "",
            "version": "3",
            "slo_ms": 80.0,
            "priority": 1,
            "rate": 18.4,
            "planned_rate": 24.2,
            "held_rate": 24.0,
            "served_part": 1.0,
            "latency_ms": [21.0, 38.5, 61.2],
            "violations_recent": 0.002,
            "total": {
                "arrived": 8120,
                "answered": 8118,
                "late": 9,
                "dropped": 2,
                "rejected": 0,
                "failed": 0,
                "cancelled": 0,
            },
            "queued": 0,
            "running": 1,
        }
    ],
    "executors": [
        {
            "id": "executor-1",
            "state": "connected",
            "share": 0.2,
            "models": {"plates": "3"},
            "gpulet": {
                "device": 0,
                "share": 0.2,
                "duty_cycle_ms": 41.0,
                "models": [{"name": "plates", "batch": 1, "batch_ms": 32.5}],
            },
            "connected": True,
            "batches": 19,
            "busy_s": 0.41,
            "pid": 4711,
        }
    ],
    "interference": {
        "measured": True,
        "pairs": [
            {"gpulet": "executor-1", "model": "plates", "batch": 1, "beside": "executor-2", "factor": 1.08},
            {"gpulet": "executor-1", "model": "plates", "batch": 1, "beside": None, "factor": 1.08},
        ],
    },
    "plan": {
        "format": "gpulet-plan/1",
        "policy": "mosaic",
        "schedulable": True,
        "gpulets": [{"device": 0, "share": 0.2, "duty_cycle_ms": 41.0, "models": [{"name": "plates", "batch": 1}]}],
        "reasons": ["plates: 20 % of device 0; up to 73.5 of 80 ms, room for 24.39 of 24.2 requests/s"],
        "unplaced": [],
    },
    "problem": {
        "format": "gpulet-problem/1",
        "devices": 1,
        "capacity": 0.6,
        "models": [{"name": "plates", "rate": 24.2, "slo_ms": 80.0, "priority": 1}],
    },
}
ADMISSION: Final[Example] = {
    "candidate": "plates",
    "kind": "model",
    "admitted": True,
    "reasons": ["plates fits: models take 0.35 of 0.72 devices (0.20 without it), cameras plan within 0.37"],
    "yields": [],
    "models": [
        {
            "model": "plates",
            "slo_ms": 80.0,
            "rate": 49.3,
            "priority": 0,
            "before_ms": 73.5,
            "after_ms": 68.1,
            "before_part": 1.0,
            "after_part": 1.0,
        }
    ],
    "cameras": [{"camera": "junction-north", "before": 0.68, "after": 0.66, "loss": 0.02}],
    "serving_share_before": 0.2,
    "serving_share_after": 0.35,
    "cameras_share_before": 0.52,
    "cameras_share_after": 0.37,
    "most_rate": None,
    "rate": 40.0,
    "planned_rate": 49.3,
}
DOCTOR: Final[Example] = {"checks": [{"name": "memory", "outcome": "good", "said": "12.1 GB free", "hint": ""}]}
SYSTEM: Final[Example] = {
    "site": "junction",
    "utc_s": _T + 40,
    "started_utc_s": _T - 772,
    "health": HEALTH,
    "devices": [
        {"kind": "cpu", "id": "cpu", "name": "AMD EPYC", "units": 4.0, "memory_bytes": 16_000_000_000, "in_use": True}
    ],
    "notes": ["GPU: nvidia-smi is not on PATH, so no NVIDIA GPU is looked for"],
    "shares": {
        "kind": "cgroup+coop",
        "device": "cpu",
        "enforced": "cap",
        "promise": "A worker cannot use more than its share.",
        "limits": ["the smallest share is 1 %, any size"],
        "evidence": "a busy child under 0.3 cores got 0.3",
        "kept": {"control": 0.08, "golden": 0.15, "evaluation": 0.05, "front": 0.0},
    },
    "workers": [
        {
            "name": "camera-junction-north",
            "role": "inference",
            "state": "running",
            "pid": 4711,
            "camera": "junction-north",
            "share": 0.2,
            "asked": 0.2,
            "granted": 0.2,
            "used": 0.17,
            "memory_bytes": 410_000_000,
            "restarts": 0,
            "respawns": 1,
            "last_error": "",
            "messages_lost": 0,
        }
    ],
    "disk": {
        "free_bytes": 41_000_000_000,
        "total_bytes": 64_000_000_000,
        "folder": "/var/lib/magpie",
        "low": False,
        "low_bytes": 200_000_000,
        "sizes": {"pictures": 812_000_000, "models": 95_000_000, "database": 21_000_000},
        "retention": {"days": 30.0, "max_gb": 10.0, "max_events": 1_000_000, "max_events_mb": 500.0},
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
            "utc_s": _T + 12.5,
            "level": "INFO",
            "logger": "edge.appliance.appliance",
            "message": "camera.live",
            "event": "camera.live",
            "camera": "junction-north",
        }
    ],
    "capacity": 2000,
    "forgotten": 0,
    "level": "INFO",
}
CHECK: Final[Example] = {
    "problems": [{"path": "window_s", "given": 3, "allowed": "greater than or equal to 10"}],
}
CHECK_BODY: Final[Example] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"type": "object"}, "example": {"window_s": 3}}},
    }
}
LOGGED_IN: Final[Example] = {
    "name": "ann",
    "role": "operator",
    "cameras": None,
    "csrf": "4f0c…",
    "expires_utc_s": _T + 43200,
}
ME: Final[Example] = LOGGED_IN | {"kind": "session", "must_change": False}
USER: Final[Example] = {
    "name": "ann",
    "role": "operator",
    "cameras": ["junction-north"],
    "disabled": False,
    "must_change": False,
    "created_utc_s": _T,
    "last_login_utc_s": None,
}
TOKEN: Final[Example] = {
    "id": "6d1c0f6d3ad1c7b2",
    "name": "home automation",
    "user": "ann",
    "role": "viewer",
    "cameras": None,
    "prefix": "mgp_Qx81_a",
    "created_utc_s": _T,
    "expires_utc_s": None,
    "last_used_utc_s": None,
}
SESSION: Final[Example] = {
    "id": "0b9e7d5c3a1f2e4d",
    "user": "ann",
    "address": "192.0.2.7",
    "agent": "Mozilla/5.0",
    "created_utc_s": _T,
    "last_used_utc_s": _T + 60,
    "expires_utc_s": _T + 43200,
    "current": True,
}
AUDIT: Final[Example] = {
    "id": 12,
    "utc_s": _T,
    "by": "ann",
    "from": "192.0.2.7",
    "subject": "camera/junction-north",
    "action": "changed",
    "value": {"enabled": False},
}
SECRET: Final[Example] = {"name": "junction", "used_by": ["camera junction-north"]}
_OUTPUT_STATE: Final[Example] = {
    "connected": True,
    "message": "",
    "down_s": None,
    "waiting": 0,
    "waiting_bytes": 0,
    "sent": 412,
    "lost": 0,
    "lost_by": {},
    "dead": 1,
}
_QUEUE: Final[Example] = {"max_messages": 100000, "max_mb": 100.0, "max_age_h": 48.0}
WEBHOOK_SETTINGS: Final[Example] = {
    "id": "pager",
    "url": "https://pager.example/hooks/magpie",
    "kinds": ["alarm"],
    "severities": ["critical"],
    "secret_from": "secret:pager",
}
WEBHOOK: Final[Example] = WEBHOOK_SETTINGS | {
    "enabled": True,
    "phases": [],
    "cameras": [],
    "ca_file": "",
    "timeout_s": 10.0,
    "max_tries": 20,
    "queue": _QUEUE,
    "state": _OUTPUT_STATE,
}
OUTPUTS: Final[Example] = {
    "mqtt": {
        "enabled": True,
        "host": "broker.example",
        "port": 8883,
        "tls": True,
        "ca_file": "",
        "username": "magpie",
        "password_from": "secret:mqtt",
        "client_id": "",
        "prefix": "magpie",
        "keepalive_s": 30,
        "objects": True,
        "discovery": True,
        "discovery_prefix": "homeassistant",
        "queue": _QUEUE,
        "state": _OUTPUT_STATE | {"dead": 0},
    },
    "webhooks": [WEBHOOK],
    "unwritten": 0,
    "message": "",
}
OUTPUT_TEST: Final[Example] = {"ok": False, "message": "the receiver answered 401", "took_s": 0.021}
DEAD_LETTER: Final[Example] = {
    "id": 3,
    "destination": "webhook/pager",
    "camera": "junction-north",
    "kind": "alarm",
    "message": "4f9c0b1de4a24d0c8a5c1f2f6d3b7e90",
    "utc_s": _T,
    "died_utc_s": _T + 2,
    "tries": 1,
    "reason": "the receiver answered 410",
    "body": {"id": 17, "kind": "camera_lost", "phase": "new", "camera": "junction-north"},
}
RULE: Final[Example] = {
    "id": "parked-in-drive",
    "name": "Parked in the drive",
    "kind": "object",
    "enabled": True,
    "cameras": ["junction-north"],
    "classes": ["car"],
    "zones": ["drive"],
    "dwell_s": 20.0,
    "below": None,
    "after_s": None,
    "severity": "warning",
    "quiet_hours": ["07:00-19:00"],
    "min_interval_s": 60.0,
}
ALARM: Final[Example] = {
    "id": 17,
    "rule": "parked-in-drive",
    "rule_name": "Parked in the drive",
    "kind": "object",
    "severity": "warning",
    "camera": "junction-north",
    "phase": "new",
    "began_utc_s": _T,
    "ended_utc_s": None,
    "message": "car in drive for 20 s",
    "value": 20.1,
    "object": 5311,
    "acknowledged_by": None,
    "acknowledged_utc_s": None,
    "picture": True,
    "details": {"class": "car", "zones": ["drive"], "score": 0.81},
}
OBJECT: Final[Example] = {
    "id": 5311,
    "camera": "junction-north",
    "class": "car",
    "began_utc_s": _T - 22,
    "ended_utc_s": None,
    "score": 0.81,
    "box": [0.412, 0.507, 0.561, 0.713],
    "zones": ["drive"],
    "zone_dwell_s": {"drive": 20.1},
    "dwell_s": 20.1,
    "picture": True,
}

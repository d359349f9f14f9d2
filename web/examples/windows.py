"""Examples of windows and their plans."""

from __future__ import annotations

from typing import Final

from web.examples.example import AT_UTC_S, Example
from web.examples.retraining import RETRAINING_SETTINGS


def _measured(value: float) -> Example:
    return {"value": value, "frames": 44, "objects": 203, "f1_iou30": value, "f1_iou50": value, "map50": value}


_SPACE: Final[Example] = {
    "epochs": [4, 10, 20],
    "batch_sizes": [8],
    "layers": ["head", "last_stage", "all"],
    "data_fractions": [0.25, 0.5, 1.0],
    "learning_rates": [0.002],
    "last_layer_widths": [0],
}
_SETTINGS: Final[Example] = RETRAINING_SETTINGS | {
    "delta": 0.05,
    "space": _SPACE,
    "published_space": None,
    "held_out": 0.3,
    "golden_share": 0.15,
    "evaluation_share": 0.05,
    "exemplars": 64,
    "groups": True,
    "gate_tolerance": 0.0,
    "rollback_margin": 0.05,
}
_CONFIG: Final[Example] = {
    "epochs": 10,
    "batch_size": 8,
    "layers": "all",
    "data_fraction": 1.0,
    "learning_rate": 0.002,
    "last_layer_width": 0,
}
_PROBLEM: Final[Example] = {
    "format": "retrain-infer-window/1",
    "name": "window-3",
    "seed": None,
    "num_gpus": 0.72,
    "window_s": 200.0,
    "delta": 0.05,
    "a_min": None,
    "label_delay_s": 11.0,
    "streams": [
        {
            "id": "junction-north",
            "start_accuracy": 0.55,
            "model": "junction-north-w2-1-1789999800",
            "inference_profile": {"kind": "linear", "name": "", "max_gpu": 0.15},
            "retrain_configs": [
                _CONFIG | {"id": "all-e10-b8-d1-lr0.002", "end_accuracy": 0.73, "gpu_seconds": 24.0, "curve": []}
            ],
        }
    ],
}
_PLAN: Final[Example] = {
    "format": "retrain-infer-plan/1",
    "policy": "relay",
    "problem": "window-3",
    "objective": 0.68,
    "decision_seconds": 0.011,
    "segments": [
        {
            "start_s": 11.0,
            "streams": {
                "junction-north": {
                    "inference_share": 0.15,
                    "retraining_share": 0.57,
                    "retrain_config": "all-e10-b8-d1-lr0.002",
                }
            },
        }
    ],
    "reasons": {"junction-north": "retrain all layers: +18.0 points for 24.0 device seconds"},
    "reason_values": {},
    "faults": [],
    "fault_values": [],
}
WINDOW: Final[Example] = {
    "id": 3,
    "start_utc_s": AT_UTC_S,
    "length_s": 200.0,
    "policy": "relay",
    "settings": _SETTINGS,
    "open": False,
    "closed_utc_s": AT_UTC_S + 200,
    "outcome": "completed",
    "details": {},
    "cameras": [
        {
            "window": 3,
            "camera": "junction-north",
            "model_version": "junction-north-w3-2-1790000000",
            "realised": _measured(0.71),
            "frozen": _measured(0.52),
            "frames_sampled": 48,
            "frames_labelled": 44,
            "objects_labelled": 203,
            "labelling_delay_s": 0.1,
            "profiling_delay_s": 8.5,
            "losses": {},
            "manifest": "windows/junction-north/3.json",
            "picture_bytes": 4_100_000,
            "pictures_dropped": False,
            "details": {
                "quality": {"frames": 44.0, "labels": 203.0, "confidence": 0.81},
                "class_counts": {"car": 160, "person": 43},
                "download": _measured(0.62),
                "download_whole": _measured(0.6),
                "promise": {"predicted": 0.69, "realised": 0.71},
                "current_fresh": None,
            },
        }
    ],
}
_JOB: Final[Example] = {
    "id": "w3-junction-north-2",
    "window": 3,
    "camera": "junction-north",
    "config": "all-e10-b8-d1-lr0.002",
    "share": 0.62,
    "state": "completed",
    "attempt": 1,
    "started_utc_s": AT_UTC_S + 12,
    "ended_utc_s": AT_UTC_S + 53,
    "fraction": 1.0,
    "device_seconds": 24.2,
    "accuracy_before": 0.55,
    "accuracy_after": 0.73,
    "promoted": True,
    "reason": "held-out 0.73 against 0.55",
    "model_version": "junction-north-w3-2-1790000000",
}
WINDOW_DETAIL: Final[Example] = {
    "window": WINDOW,
    "plans": [
        {
            "id": 7,
            "window": 3,
            "at_utc_s": AT_UTC_S + 11,
            "cause": "labels and profiles are in",
            "cause_code": "prepared",
            "cause_camera": None,
            "policy": "relay",
            "objective": 0.68,
            "problem": _PROBLEM,
            "plan": _PLAN,
            "basis": None,
        }
    ],
    "profiles": [
        {
            "id": 4,
            "window": 3,
            "camera": "junction-north",
            "config": "all-e10-b8-d1-lr0.002",
            "at_utc_s": AT_UTC_S + 10,
            "profile": {
                "config": _CONFIG,
                "start_accuracy": 0.55,
                "end_accuracy": {"value": 0.73, "low": 0.68, "high": 0.78},
                "device_seconds": {"value": 24.0, "low": 21.5, "high": 26.5},
                "curve": [[0.0, 0.55], [24.0, 0.73]],
                "throughput": [[1.0, 1.0]],
                "profiled": True,
            },
        }
    ],
    "jobs": [_JOB],
    "usage": [
        {
            "id": 21,
            "window": 3,
            "at_utc_s": AT_UTC_S + 200,
            "worker": "camera-junction-north",
            "role": "inference",
            "camera": "junction-north",
            "asked": 0.15,
            "granted": 0.15,
            "used": 0.13,
            "device_seconds": 26.1,
            "wall_s": 200.0,
            "throttled_fraction": 0.01,
        }
    ],
    "costs": [{"window": 3, "camera": "junction-north", "kind": "retraining", "device_seconds": 24.2, "wall_s": 41.0}],
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
            "cause_code": "prepared",
            "cause_camera": None,
            "policy": "relay",
            "objective": 0.68,
            "decision_s": 0.012,
            "whole": ["1 retraining", "Inference has the rest"],
            "recorded": [],
            "cameras": {"junction-north": _WHY},
            "faults": [],
        }
    ],
    "cameras": [
        {
            "camera": "junction-north",
            "realised": 0.71,
            "frozen": 0.52,
            "download": 0.62,
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
                    "device_seconds": {"value": 24.0, "low": 20.0, "high": 29.0},
                    "gain_per_device_second": 0.0075,
                    "chosen": True,
                    "verdict": "chosen and trained",
                }
            ],
            "jobs": [
                {
                    "job": _JOB,
                    "words": "all layers, 10 epochs, 100 % of the data",
                    "outcome": "promoted",
                    "started_s": 12.0,
                    "ended_s": 53.0,
                    "expected": {
                        "accuracy": {"value": 0.73, "low": 0.66, "high": 0.79},
                        "device_seconds": {"value": 24.0, "low": 20.0, "high": 29.0},
                    },
                }
            ],
            "losses": {},
            "labelling_delay_s": 0.1,
            "profiling_delay_s": 8.5,
        }
    ],
    "configs": _WORDS,
    "usage": [],
    "costs": [{"window": 3, "camera": "junction-north", "kind": "retraining", "device_seconds": 24.2, "wall_s": 41.0}],
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
    "plan": _PLAN | {"policy": "uniform", "objective": 0.61},
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

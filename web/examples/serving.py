"""Examples of served models."""

from __future__ import annotations

from typing import Final

from web.examples.example import Example

SERVING: Final[Example] = {
    "front": {
        "up": True,
        "http": {"host": "127.0.0.1", "port": 8000},
        "grpc": {"host": "127.0.0.1", "port": 8001},
        "turned_away": 0,
    },
    "settings": {
        "policy": "mosaic",
        "split": "joint",
        "latencies": "watched",
        "max_share": 0.6,
        "cameras_priority": 0,
        "half_life_s": 20.0,
        "rise_half_life_s": 4.0,
        "headroom": 1.2,
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
            "camera": None,
            "state": "serving",
            "reason": None,
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
            "two_queues": {
                "model": "plates",
                "reason": "less_share",
                "share": 0.2,
                "one_share": 0.25,
                "queues": [
                    {
                        "number": 0,
                        "budget_ms": 44.1,
                        "rate": 12.6,
                        "share": 0.1,
                        "stages": [{"application": "gate", "stage": "read"}],
                    },
                    {
                        "number": 1,
                        "budget_ms": 600.0,
                        "rate": 5.8,
                        "share": 0.05,
                        "stages": [{"application": "archive", "stage": "read"}],
                    },
                ],
            },
        }
    ],
    "applications": [
        {
            "name": "gate",
            "camera": "junction-north",
            "source": {
                "fault": None,
                "rate": 5.0,
                "max_rate": None,
                "classes": ["car"],
                "min_score": 0.4,
                "most": 8,
                "lost": 3,
            },
            "slo_ms": 120.0,
            "accuracy": 0.89,
            "rate": 6.1,
            "planned_rate": 9.4,
            "longest_ms": 118.2,
            "stages": [
                {
                    "name": "find",
                    "model": "vehicles",
                    "queue": 0,
                    "accuracy": None,
                    "options": [],
                    "after": [],
                    "budget_ms": 74.1,
                    "even_ms": 60.0,
                    "planned_ms": 72.6,
                    "rate": 6.1,
                    "planned_rate": 9.4,
                    "share": 0.2,
                    "latency_ms": [41.2, 70.3],
                    "requests": 4102,
                    "answered": 4101,
                    "over": 7,
                    "rows": 4102,
                    "fan_out": 1.0,
                    "fan_out_p99": 1.0,
                    "expected_fan_out": 1.0,
                },
                {
                    "name": "read",
                    "model": "plates",
                    "queue": 0,
                    "accuracy": 0.89,
                    "options": [{"model": "plates-large", "accuracy": 0.94}, {"model": "plates", "accuracy": 0.89}],
                    "after": ["find"],
                    "budget_ms": 44.1,
                    "even_ms": 60.0,
                    "planned_ms": 43.0,
                    "rate": 9.15,
                    "planned_rate": 14.1,
                    "share": 0.2,
                    "latency_ms": [21.0, 40.8],
                    "requests": 4101,
                    "answered": 3018,
                    "over": 2,
                    "rows": 6020,
                    "fan_out": 1.5,
                    "fan_out_p99": 5.0,
                    "expected_fan_out": 2.0,
                },
            ],
            "reasons": [
                "gate, read: plates answers (accuracy 0.89) instead of plates-large (0.94): with that not every "
                "objective holds",
                "20 % of the device; the even split takes 25 %",
                "the search for the split took 2,500 of 8,000 steps",
            ],
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
                "models": [{"name": "plates", "batch": 1, "batch_ms": 32.5, "queue": 0}],
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
        "gpulets": [
            {"device": 0, "share": 0.2, "duty_cycle_ms": 41.0, "models": [{"name": "plates", "batch": 1, "queue": 0}]}
        ],
        "reasons": ["plates: 20 % of device 0; up to 73.5 of 80 ms, room for 24.39 of 24.2 requests/s"],
        "unplaced": [],
        "decision_seconds": None,
    },
    "problem": {
        "format": "gpulet-problem/1",
        "devices": 1,
        "capacity": 0.6,
        "models": [{"name": "plates", "rate": 24.2, "slo_ms": 80.0, "priority": 1, "queue": 0}],
        "max_gpulets": None,
    },
}
ADMISSION: Final[Example] = {
    "candidate": "plates",
    "kind": "model",
    "admitted": True,
    "reasons": [
        {
            "code": "fits",
            "model": "plates",
            "camera": None,
            "tenant": None,
            "numbers": {"models": 0.35, "models_before": 0.2, "capacity": 0.72, "cameras": 0.37},
            "message": "plates fits: models take 0.35 of 0.72 devices (0.20 without it), cameras plan within 0.37",
        }
    ],
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
    "budgets": [],
    "rate": 40.0,
    "planned_rate": 49.3,
    "tenants": None,
}

"""Examples of tenants and of how they share the box."""

from __future__ import annotations

from typing import Final

from web.examples.example import AT_UTC_S, Example

TENANT_SETTINGS: Final[Example] = {
    "id": "gate",
    "name": "Gate",
    "entitlement": 2.0,
    "objective": {"metric": "within_slo", "goal": 0.98, "utility": "linear"},
    "models": ["plates"],
    "applications": [],
    "cameras": [],
    "floor": 0.05,
    "declared_demand": None,
    "proxy_utilisation": None,
}
LEARNED: Final[Example] = {
    "reports": 412,
    "changes": 1,
    "last_utc_s": AT_UTC_S - 6.0,
    "age_s": 6.0,
    "dropped": 0,
    "forgotten": "versions",
    "forgotten_utc_s": AT_UTC_S - 4700.0,
}
TENANT: Final[Example] = {
    "id": "gate",
    "name": "Gate",
    "settings": TENANT_SETTINGS,
    "implicit": False,
    "models": ["plates"],
    "applications": [],
    "cameras": [],
    "share": {
        "held": 0.42,
        "given": 0.41,
        "entitlement": 0.36,
        "floor": 0.08,
        "raised_to_floor": 0.0,
        "moves": 17,
    },
    "state": "misses",
    "performance": 0.941,
    "goal": 0.98,
    "utility": 0.96,
    "load": 31.5,
    "missed_s": 50.0,
    "demand": {"share": 0.46, "low": 0.41, "high": 0.53, "best": 0.999},
    "source": "learned",
    "reason": {"code": "more", "numbers": {"moved": 0.02, "performance": 0.941, "goal": 0.98}, "others": ["parking"]},
    "learned": LEARNED,
}
TENANTS: Final[Example] = {"active": True, "capacity": 0.9, "tenants": [TENANT]}
CURVE: Final[Example] = {
    "id": "gate",
    "goal": 0.98,
    "points": [
        {"share": 0.1, "performance": 0.35, "low": 0.22, "high": 0.51},
        {"share": 0.3, "performance": 0.82, "low": 0.78, "high": 0.87},
        {"share": 0.5, "performance": 0.985, "low": 0.972, "high": 0.996},
        {"share": 0.9, "performance": 0.999, "low": 0.99, "high": 1.0},
    ],
    "reports": [{"utc_s": AT_UTC_S - 16.0, "share": 0.39, "performance": 0.928, "load": 31.0}],
    "now": 0.43,
    "last": {"utc_s": AT_UTC_S - 6.0, "share": 0.41, "performance": 0.941, "load": 31.5},
    "learned": LEARNED,
}
TENANT_DETAIL: Final[Example] = {"tenant": TENANT, "curve": CURVE}
SHARING_SETTINGS: Final[Example] = {
    "policy": "ew",
    "interval_s": 10.0,
    "largest_step": 0.05,
    "explore": 0.1,
    "dwell_s": 0.0,
    "hysteresis": 0.01,
    "missed_minutes": 5.0,
}
SHARING: Final[Example] = {
    "settings": SHARING_SETTINGS,
    "dwell_s": 0.0,
    "restarts": False,
    "active": True,
    "capacity": 0.9,
    "decided_utc_s": AT_UTC_S - 6.0,
    "next_utc_s": AT_UTC_S + 4.0,
    "lacking": 0.0,
    "social_welfare": 0.98,
    "egalitarian_welfare": 0.96,
}
HISTORY: Final[Example] = {
    "rows": [
        {
            "tenant": "gate",
            "utc_s": AT_UTC_S - 300.0,
            "seconds": 300.0,
            "held": 0.4,
            "given": 0.39,
            "performance": 0.934,
            "goal": 0.98,
            "utility": 0.953,
            "load": 30.2,
            "requests": 9060,
            "floor": 0.08,
            "need": 0.33,
            "used": None,
            "entitlement": 0.36,
        }
    ]
}
SHARING_WHAT_IF: Final[Example] = {
    "policy": "fair",
    "rows": 288,
    "seconds": 86_400.0,
    "from_utc_s": AT_UTC_S - 86_400.0,
    "social_welfare": 0.981,
    "egalitarian_welfare": 0.944,
    "other_social_welfare": 0.962,
    "other_egalitarian_welfare": 0.897,
    "tenants": [
        {"id": "gate", "share": 0.41, "utility": 0.953, "other_share": 0.36, "other_utility": 0.897},
        {"id": "parking", "share": 0.12, "utility": 1.0, "other_share": 0.18, "other_utility": 1.0},
    ],
}

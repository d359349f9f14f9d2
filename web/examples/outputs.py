"""Examples of outputs."""

from __future__ import annotations

from typing import Final

from web.examples.example import AT_UTC_S, Example

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
    "link_local": False,
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
        "counts": True,
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
    "utc_s": AT_UTC_S,
    "died_utc_s": AT_UTC_S + 2,
    "tries": 1,
    "reason": "the receiver answered 410",
    "body": {"id": 17, "kind": "camera_lost", "phase": "new", "camera": "junction-north"},
}

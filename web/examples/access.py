"""Examples of users, tokens, sessions and secrets."""

from __future__ import annotations

from typing import Final

from web.examples.example import AT_UTC_S, Example

LOGGED_IN: Final[Example] = {
    "name": "ann",
    "role": "operator",
    "cameras": None,
    "tenants": None,
    "csrf": "4f0c…",
    "expires_utc_s": AT_UTC_S + 43200,
}
ME: Final[Example] = LOGGED_IN | {"kind": "session", "must_change": False}
USER: Final[Example] = {
    "name": "ann",
    "role": "operator",
    "cameras": ["junction-north"],
    "tenants": None,
    "disabled": False,
    "must_change": False,
    "created_utc_s": AT_UTC_S,
    "last_login_utc_s": None,
}
TOKEN: Final[Example] = {
    "id": "6d1c0f6d3ad1c7b2",
    "name": "home automation",
    "user": "ann",
    "role": "viewer",
    "cameras": None,
    "prefix": "mgp_Qx81_a",
    "created_utc_s": AT_UTC_S,
    "expires_utc_s": None,
    "last_used_utc_s": None,
}
SESSION: Final[Example] = {
    "id": "0b9e7d5c3a1f2e4d",
    "user": "ann",
    "address": "192.0.2.7",
    "agent": "Mozilla/5.0",
    "created_utc_s": AT_UTC_S,
    "last_used_utc_s": AT_UTC_S + 60,
    "expires_utc_s": AT_UTC_S + 43200,
    "current": True,
}
AUDIT: Final[Example] = {
    "id": 12,
    "utc_s": AT_UTC_S,
    "by": "ann",
    "from": "192.0.2.7",
    "subject": "camera/junction-north",
    "action": "changed",
    "value": {"enabled": False},
}
SECRET: Final[Example] = {"name": "junction", "used_by": ["camera junction-north"]}

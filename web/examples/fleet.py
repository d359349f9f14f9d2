"""Examples of a fleet."""

from __future__ import annotations

from typing import Final

from web.examples.example import AT_UTC_S, Example

FLEET: Final[Example] = {
    "joined": True,
    "agent": True,
    "me": "b1",
    "told_utc_s": AT_UTC_S,
    "head": "b1",
    "mandate": True,
    "boxes": [
        {"name": "b1", "address": "https://b1:8470", "status": "open", "head": True, "decides": True,
         "drained": False, "zones": [], "cameras": 2},
        {"name": "b2", "address": "https://b2:8470", "status": "lost", "head": False, "decides": True,
         "drained": False, "zones": [], "cameras": 0},
    ],
    "cameras": [
        {"camera": "north", "owner": "b1", "previous": None, "answered": True, "zone": "", "unplaced": None,
         "waiting": None, "cannot": ""},
        {"camera": "south", "owner": "b1", "previous": None, "answered": True, "zone": "", "unplaced": None,
         "waiting": None, "cannot": ""},
    ],
    "overlaps": [{"camera": "south", "start_utc_s": AT_UTC_S - 4000.0, "end_utc_s": AT_UTC_S - 3940.0}],
    "refused": {"stranger": 2},
    "lending": {
        "lend": True, "borrow": True, "most_share": 0.5, "offered_share": 0.4,
        "here": [],
        "there": [{"box": "b2", "camera": "north", "phase": "running", "fraction": 0.25, "profiling": False}],
        "lent": 3, "borrowed": 12, "lent_profiles": 2, "borrowed_profiles": 9,
        "lent_device_s": 41.5, "borrowed_device_s": 260.0, "failures": {"refused": 1},
    },
}  # fmt: skip

JOB_GIVEN: Final[Example] = {
    "id": "night-check", "demand": {"cpu": 1}, "duration_s": 60, "tasks": 2, "tenant": "night",
    "work": {"program": "wait", "arguments": {"seconds": 60}},
}  # fmt: skip
JOB: Final[Example] = {
    "id": "night-check", "program": "wait", "phase": "running", "tenant": "night", "queue": None, "priority": 0.0,
    "tasks": 2, "running": 1, "done": 0,
    "told": [{"task": 0, "box": "b1", "done": False, "failures": 0, "why": "", "answer": None}],
    "why": {"code": "full", "words": "0 of 1 tasks fit now"},
    "by": "ada", "withdrawn_by": "", "came_utc_s": AT_UTC_S, "over_utc_s": None,
}  # fmt: skip
JOBS: Final[Example] = {
    "head": "b1",
    "engine": {"kind": "local", "phase": "up", "why": "", "boxes": ["b1"]},
    "jobs": [
        {"id": "first", "program": "wait", "phase": "ended", "tenant": "night", "queue": None, "priority": 0.0,
         "tasks": 1, "running": 0, "done": 1,
         "told": [{"task": 0, "box": "b1", "done": True, "failures": 0, "why": "", "answer": {"held_s": 5.0}}],
         "why": None, "by": "ada", "withdrawn_by": "", "came_utc_s": AT_UTC_S - 60.0, "over_utc_s": AT_UTC_S - 50.0},
        JOB,
    ],
    "tenants": [{"tenant": "night", "resource": "cpu", "wanted": 2.0, "share": 1.0, "used": 1.0}],
    "elsewhere": [{"box": "b2", "open": 3}],
    "damaged": False,
}  # fmt: skip

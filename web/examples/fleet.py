"""Examples of a fleet."""

from __future__ import annotations

from typing import Final

from web.examples.access import AUDIT as CHANGE
from web.examples.alarms import ALARM, OBJECT
from web.examples.events import EVENT
from web.examples.example import AT_UTC_S, Example

FLEET: Final[Example] = {
    "joined": True,
    "agent": True,
    "me": "b1",
    "reported_utc_s": AT_UTC_S,
    "head": "b1",
    "mandate": True,
    "boxes": [
        {"name": "b1", "address": "https://b1:8470", "status": "open", "head": True, "decides": True,
         "drained": False, "zones": [], "cameras": 2, "other_version": False},
        {"name": "b2", "address": "https://b2:8470", "status": "lost", "head": False, "decides": True,
         "drained": False, "zones": [], "cameras": 0, "other_version": False},
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
        "there": [{"box": "b2", "camera": "north", "phase": "running", "fraction": 0.25, "kind": "retraining"}],
        "lent": 3, "borrowed": 12, "lent_profiles": 2, "borrowed_profiles": 9, "lent_labels": 64,
        "borrowed_labels": 320, "lent_device_s": 41.5, "borrowed_device_s": 260.0, "failures": {"refused": 1},
        "groups": {
            "share": True,
            "boxes": [{"box": "b2", "shared": "shares"}, {"box": "b3", "shared": "not_known"}],
            "cameras": [
                {"group": 0, "trainer": "b1", "box": "b1", "camera": "north", "here": True},
                {"group": 0, "trainer": "b1", "box": "b2", "camera": "yard", "here": True},
            ],
            "trained": 4, "taken": 2, "refused": 1, "failures": {"unreachable": 1},
        },
    },
}  # fmt: skip
ORDERED: Final[Example] = {
    "kind": "move", "box": "b2", "cameras": ["north"], "code": None, "address": None, "hours": None,
}  # fmt: skip
_ASKED: Final = [
    {"box": "b1", "outcome": "answered", "age_s": 0.0, "page": ""},
    {"box": "b2", "outcome": "answered", "age_s": 0.0, "page": "https://b2:8080/"},
    {"box": "b3", "outcome": "silent", "age_s": 42.0, "page": ""},
]
WALL: Final[Example] = {
    "me": "b1",
    "boxes": _ASKED,
    "cameras": [
        {"camera": "north", "name": "Junction north", "box": "b1", "state": "live", "fault": None, "accuracy": 0.83,
         "fps": 25.0, "answers_per_s": 10.0},
        {"camera": "yard", "name": "Yard", "box": "b2", "state": "live", "fault": None, "accuracy": 0.71, "fps": 25.0,
         "answers_per_s": 5.0},
        {"camera": "gate", "name": "Gate", "box": "b3", "state": None, "fault": None, "accuracy": None, "fps": 0.0,
         "answers_per_s": 0.0},
    ],
}  # fmt: skip
BOXES: Final[Example] = {
    "me": "b1",
    "boxes": _ASKED,
    "rows": [
        {"box": "b1", "now": {
            "version": "0.9.0", "uptime_s": 86400.0, "ready": True, "device": "cpu", "units": 8.0, "kind": "cgroup",
            "enforced": "cap",
            "shares": [
                {"part": "inference", "camera": "north", "share": 0.2},
                {"part": "retraining", "camera": "north", "share": 0.3},
                {"part": "golden", "camera": None, "share": 0.07},
                {"part": "lent", "camera": None, "share": 0.2},
                {"part": "control", "camera": None, "share": 0.05},
            ],
            "lending": FLEET["lending"] | {
                "here": [{"box": "b2", "camera": "yard", "share": 0.2, "fraction": 0.5, "kind": "retraining"}],
                "there": [],
            },
        }},
        {"box": "b2", "now": {
            "version": "0.8.2", "uptime_s": 3600.0, "ready": False, "device": "cpu", "units": 4.0, "kind": "cgroup",
            "enforced": "cap",
            "shares": [
                {"part": "inference", "camera": "yard", "share": 0.7},
                {"part": "golden", "camera": None, "share": 0.2},
                {"part": "control", "camera": None, "share": 0.1},
            ],
            "lending": FLEET["lending"] | {
                "lend": False, "offered_share": 0.0, "here": [],
                "there": [
                    {"box": "b1", "camera": "yard", "phase": "running", "fraction": 0.4, "kind": "retraining"},
                    {"box": "b3", "camera": "yard", "phase": "fetching", "fraction": 0.0, "kind": "labels"},
                ],
            },
        }},
    ],
}  # fmt: skip
ALARMS: Final[Example] = {
    "boxes": _ASKED, "rows": [{"box": "b2", "also_on": ["b1"], "alarm": ALARM}], "next": None,
}  # fmt: skip
OBJECTS: Final[Example] = {"boxes": _ASKED, "rows": [{"box": "b2", "found": OBJECT}], "next": None}
EVENTS: Final[Example] = {"boxes": _ASKED, "rows": [{"box": "b2", "entry": EVENT}], "next": None}
AUDIT: Final[Example] = {"boxes": _ASKED, "rows": [{"box": "b2", "change": CHANGE}], "next": None}
QUESTION: Final[Example] = {
    "about": "alarms",
    "asker": {"name": "ann", "role": "viewer", "cameras": ["junction-north"], "tenants": None},
    "rows": {"limit": 50, "active": True},
}
FOUND: Final[Example] = {
    "page": "", "page_port": 8080, "page_tls": True, "more": False, "last": 17, "cameras": [], "alarms": [ALARM],
    "objects": [], "events": [], "audit": [],
    "overlaps": [{"camera": "junction-north", "start_utc_s": AT_UTC_S - 60.0, "end_utc_s": AT_UTC_S}], "now": None,
}  # fmt: skip
RECORD: Final[Example] = {"kind": "drain", "box": "b2", "camera": "", "by": "ann", "given_on": "b1"}

JOB_GIVEN: Final[Example] = {
    "id": "night-check", "demand": {"cpu": 1}, "duration_s": 60, "tasks": 2, "tenant": "night",
    "work": {"program": "wait", "arguments": {"seconds": 60}},
}  # fmt: skip
JOB: Final[Example] = {
    "id": "night-check", "program": "wait", "phase": "running", "tenant": "night", "queue": None, "priority": 0.0,
    "tasks": 2, "running": 1, "done": 0,
    "task_states": [{"task": 0, "box": "b1", "done": False, "failures": 0, "why": "", "answer": None}],
    "why": {"code": "full", "words": "0 of 1 tasks fit now"},
    "by": "ada", "withdrawn_by": "", "came_utc_s": AT_UTC_S, "over_utc_s": None,
}  # fmt: skip
JOBS: Final[Example] = {
    "head": "b1",
    "engine": {"kind": "local", "phase": "up", "why": "", "boxes": ["b1"]},
    "jobs": [
        {"id": "first", "program": "wait", "phase": "ended", "tenant": "night", "queue": None, "priority": 0.0,
         "tasks": 1, "running": 0, "done": 1,
         "task_states": [{"task": 0, "box": "b1", "done": True, "failures": 0, "why": "", "answer": {"held_s": 5.0}}],
         "why": None, "by": "ada", "withdrawn_by": "", "came_utc_s": AT_UTC_S - 60.0, "over_utc_s": AT_UTC_S - 50.0},
        JOB,
    ],
    "tenants": [{"tenant": "night", "resource": "cpu", "wanted": 2.0, "share": 1.0, "used": 1.0}],
    "elsewhere": [{"box": "b2", "open": 3}],
    "damaged": False,
    "resources": [{"box": "b1", "name": "cpu", "capacity": 2.0, "used": 1.0}],
}  # fmt: skip

"""The furnished appliance: users of every role, zones, rules, outputs, hostile names, windows that are over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.dashboard_box import GUARD, OPERATOR, Box, Person, good, live, until

#: Text that would run, break a query or break a line if it were not shown as what it is.
HOSTILE = "<img src=x onerror=alert(1)>'; DROP TABLE cameras;-- \"&amp;\u0645🚗"
#: The same for what is written about a camera: those who may not see the other camera may read it.
HOSTILE_REASON = "<svg onload=alert(2)>'; DROP TABLE models;-- \"&amp;\u0645🚗"
#: The camera that everybody may see, and the one with the hostile name.
PLAIN, NASTY = "overpass", "junction"
SQUARE = [[0.1, 0.3], [0.9, 0.3], [0.9, 0.95], [0.1, 0.95]]


@dataclass(frozen=True)
class Crossroads:
    """The appliance and its people. Each has a session of their own."""

    box: Box
    admin: Person
    operator: Person
    guard: Person

    def windows(self, measured: int = 2) -> list[int]:
        """Numbers of windows that are over and measured on both cameras; waits until there are so many."""

        def over() -> list[int] | None:
            rows: list[dict[str, Any]] = good(self.admin.rest.get("/windows", params={"limit": 20}))
            done = [r["id"] for r in rows if _measured(r)]
            return done if len(done) >= measured else None

        found: list[int] = until(over, f"{measured} windows are measured", 110.0)
        return found

    def alarms(self) -> None:
        """Wait until every rule has raised an alarm."""

        def raised() -> bool:
            return {"somebody", "unsure"} <= {a["rule"] for a in good(self.admin.rest.get("/alarms"))}

        until(raised, "every rule has raised an alarm")

    def rest_after_this_window(self) -> None:
        """The window that begins next lasts an hour: after it has retrained the machine is left alone."""
        good(self.admin.rest.patch("/retraining", json={"window_s": 3600}))


def _measured(window: dict[str, Any]) -> bool:
    cameras = window.get("cameras", [])
    return len(cameras) >= 2 and all(c.get("realised") for c in cameras)


def furnish(box: Box) -> Crossroads:
    """Users, zones, rules and outputs as an administrator makes them, by REST."""
    admin = box.set_up()
    rest = admin.rest
    operator = box.add_person(admin, OPERATOR, "operator")
    guard = box.add_person(admin, GUARD, "viewer", [PLAIN])
    until(lambda: live(admin), "both cameras answer")
    zone = {"name": "road", "polygon": SQUARE, "classes": []}
    line = {"name": "middle", "start": [0.5, 0.3], "end": [0.5, 1.0], "classes": []}
    good(rest.patch(f"/cameras/{PLAIN}", json={"name": "Overpass", "zones": [zone], "lines": [line]}))
    good(rest.patch(f"/cameras/{NASTY}", json={"name": HOSTILE, "zones": [zone]}))
    for rule in (
        {
            "id": "somebody",
            "name": HOSTILE[:80],
            "kind": "object",
            "cameras": [NASTY],
            "min_interval_s": 120,
            "clip": True,
        },
        {"id": "unsure", "name": "Hardly right", "kind": "accuracy", "below": 0.99, "severity": "critical"},
    ):
        good(rest.post("/rules", json=rule))
    good(rest.post("/tokens", json={"name": HOSTILE[:60], "role": "viewer", "cameras": [NASTY]}))
    good(rest.put("/secrets/hook", json={"value": "not-shown-anywhere"}))
    # No server listens there: what is sent ends among the dead letters or waits.
    good(rest.post("/outputs/webhooks", json={"id": "pager", "url": "http://127.0.0.1:9/hook", "kinds": ["alarm"]}))
    return Crossroads(box, admin, operator, guard)

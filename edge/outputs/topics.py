"""Names of MQTT topics, and what is retained in them. Pure.

Names never bring levels or wildcards of their own: whatever is not a letter, digit, "_", "-" or "." of ASCII is written
as %XX (of its UTF-8 bytes), as in URLs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

#: Rules about a camera, and rules about the whole appliance.
CAMERA_KINDS: Final[tuple[str, ...]] = ("object", "accuracy", "camera_lost", "roll_back")
APPLIANCE_KINDS: Final[tuple[str, ...]] = ("disk", "slo")
_PLAIN = re.compile(r"[A-Za-z0-9_.-]")
_ON_OFF: Final[Mapping[bool, str]] = {True: "ON", False: "OFF"}


def part(name: str) -> str:
    """A name as one level of a topic: never empty, no "/", "+", "#", NUL. Different names give different parts."""
    shown = "".join(c if _PLAIN.fullmatch(c) else _percent(c) for c in name)
    return shown or "%"


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


@dataclass(frozen=True)
class Topics:
    """Topic names under a prefix."""

    prefix: str

    @property
    def available(self) -> str:
        return f"{self.prefix}/available"

    @property
    def state(self) -> str:
        return f"{self.prefix}/state"

    @property
    def test(self) -> str:
        return f"{self.prefix}/test"

    @property
    def sets(self) -> str:
        """The filter of all switches."""
        return f"{self.prefix}/+/retraining/set"

    def camera(self, camera: str, what: str) -> str:
        return f"{self.prefix}/{part(camera)}/{what}"

    def alarm(self, camera: str | None, kind: str) -> str:
        """Whether an alarm of a kind is on."""
        return f"{self.prefix}/alarm/{kind}" if camera is None else self.camera(camera, f"alarm/{kind}")

    def messages(self, kind: str, camera: str | None) -> tuple[str, ...]:
        """Where an event or an alarm goes: all together, and its camera's own."""
        name = "alarms" if kind == "alarm" else "events"
        everyone = f"{self.prefix}/{name}"
        return (everyone,) if camera is None else (everyone, self.camera(camera, name))

    def camera_to_set(self, topic: str, cameras: Collection[str]) -> str | None:
        """The camera whose switch a topic is; None if it is none of `cameras`."""
        return next((c for c in cameras if self.camera(c, "retraining/set") == topic), None)


def switch(payload: bytes) -> bool | None:
    """The state asked of a switch: ON, OFF; None for anything else."""
    return {b"ON": True, b"OFF": False}.get(payload)


def states(topics: Topics, overview: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, str]:
    """The retained messages, by topic. `overview` is the service's. `facts`: {"ready": bool, "reasons": [codes],
    "version", "expected": {camera: accuracy promised or None}, "retraining": {camera: bool}, "alarms": {(camera or
    None, kind)}}. What is not known (an accuracy before the first measured window) is not there."""
    cameras = overview["cameras"]
    window = overview["window"]
    out = {
        topics.state: json.dumps(
            {
                "site": overview["site"],
                "version": facts["version"],
                "ready": facts["ready"],
                "reasons": sorted(set(facts["reasons"])),
                "policy": overview["policy"],
                "window": window["number"],
                "phase": window["phase"],
                "cameras": len(cameras),
                "cameras_live": sum(c["state"] == "live" for c in cameras),
                "retraining": len(overview["jobs"]),
            }
        )
    }
    alarms = facts["alarms"]
    for kind in APPLIANCE_KINDS:
        out[topics.alarm(None, kind)] = _ON_OFF[(None, kind) in alarms]
    for c in cameras:
        camera = c["id"]
        out[topics.camera(camera, "state")] = str(c["state"])
        out[topics.camera(camera, "model")] = str(c["model_version"])
        out[topics.camera(camera, "retraining")] = _ON_OFF[bool(facts["retraining"].get(camera, False))]
        accuracy, promised = c.get("accuracy"), facts["expected"].get(camera)
        if accuracy is not None:
            out[topics.camera(camera, "accuracy")] = f"{accuracy:.4f}"
            if promised is not None:
                out[topics.camera(camera, "drift")] = f"{promised - accuracy:.4f}"
        for kind in CAMERA_KINDS:
            out[topics.alarm(camera, kind)] = _ON_OFF[(camera, kind) in alarms]
    return out

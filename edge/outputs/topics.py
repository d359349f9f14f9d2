"""Names of MQTT topics, what is retained in them, and Home Assistant's discovery documents. Pure.

Names never bring levels or wildcards of their own: whatever is not a letter, digit, "_", "-" or "." of ASCII is written
as %XX (of its UTF-8 bytes), as in URLs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

Json = dict[str, Any]

#: Rules about a camera, and rules about the whole appliance.
CAMERA_KINDS: Final[tuple[str, ...]] = ("object", "accuracy", "camera_lost", "roll_back")
APPLIANCE_KINDS: Final[tuple[str, ...]] = ("disk", "slo")
_KIND_NAMES: Final[Mapping[str, tuple[str, str]]] = {
    "object": ("Object alarm", "occupancy"),
    "accuracy": ("Accuracy alarm", "problem"),
    "camera_lost": ("Camera lost alarm", "problem"),
    "roll_back": ("Roll-back alarm", "problem"),
    "disk": ("Disk alarm", "problem"),
    "slo": ("Serving alarm", "problem"),
}
_PLAIN = re.compile(r"[A-Za-z0-9_.-]")
_ON_OFF: Final[Mapping[bool, str]] = {True: "ON", False: "OFF"}


def part(name: str) -> str:
    """A name as one level of a topic: never empty, no "/", "+", "#", NUL. Different names give different parts."""
    shown = "".join(c if _PLAIN.fullmatch(c) else _percent(c) for c in name)
    return shown or "%"


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def word(name: str) -> str:
    """A name as an id of Home Assistant: letters, digits, "_" and "-" stay, all else is written in hexadecimal."""
    return "".join(c if re.fullmatch(r"[A-Za-z0-9-]", c) else "_" if c == "_" else _hex(c) for c in name) or "__"


def _hex(character: str) -> str:
    return "".join(f"_x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


def line(text: str, most: int = 120) -> str:
    """Free text for other people's screens: one line of printable characters."""
    clean = "".join(c if c.isprintable() else " " for c in text).strip()
    return clean[:most]


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
    """What a switch is asked for: ON, OFF; None for anything else."""
    return {b"ON": True, b"OFF": False}.get(payload)


def states(topics: Topics, overview: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, str]:
    """What is retained, by topic. `overview` is the service's. `facts`: {"ready": bool, "reasons": [codes], "version",
    "expected": {camera: accuracy promised or None}, "retraining": {camera: bool}, "alarms": {(camera or None, kind)}}.
    What is not known (an accuracy before the first measured window) is not there."""
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


def discovery(
    topics: Topics, prefix: str, site: str, version: str, cameras: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    """Home Assistant's discovery documents by topic: a device for the appliance, one per camera ({"id", "name"})."""
    box = f"magpie_{word(site)}"
    origin = {"name": "Magpie", "sw": version}
    base: Json = {"origin": origin, "availability_topic": topics.available, "qos": 1}
    about = {"manufacturer": "Magpie", "model": "Edge appliance", "sw_version": version}
    own: Json = {
        "cameras_live": {
            "platform": "sensor",
            "name": "Cameras live",
            "state_topic": topics.state,
            "value_template": "{{ value_json.cameras_live }}",
            "icon": "mdi:cctv",
        },
        "ready": {
            "platform": "binary_sensor",
            "name": "Ready",
            "state_topic": topics.state,
            "value_template": "{{ 'ON' if value_json.ready else 'OFF' }}",
            "entity_category": "diagnostic",
        },
    }
    own |= {f"alarm_{k}": _alarm(topics.alarm(None, k), k) for k in APPLIANCE_KINDS}
    out = {
        f"{prefix}/device/{box}/config": _device(base, {"identifiers": [box], "name": f"Magpie {site}"} | about, own)
    }
    for c in cameras:
        camera = str(c["id"])
        name = line(str(c.get("name") or "")) or camera
        ident = f"{box}_camera_{word(camera)}"
        device = {"identifiers": [ident], "name": name, "via_device": box} | about | {"model": "Camera"}
        parts: Json = {
            "connectivity": {
                "platform": "binary_sensor",
                "name": "Connection",
                "device_class": "connectivity",
                "state_topic": topics.camera(camera, "state"),
                "value_template": "{{ 'ON' if value == 'live' else 'OFF' }}",
            },
            "accuracy": _sensor(topics.camera(camera, "accuracy"), "Accuracy", "mdi:bullseye-arrow"),
            "drift": _sensor(topics.camera(camera, "drift"), "Drift", "mdi:trending-down"),
            "model": {
                "platform": "sensor",
                "name": "Model",
                "state_topic": topics.camera(camera, "model"),
                "icon": "mdi:brain",
                "entity_category": "diagnostic",
            },
            "retraining": {
                "platform": "switch",
                "name": "Retraining",
                "state_topic": topics.camera(camera, "retraining"),
                "command_topic": topics.camera(camera, "retraining/set"),
                "icon": "mdi:school",
                "entity_category": "config",
            },
        }
        parts |= {f"alarm_{k}": _alarm(topics.alarm(camera, k), k) for k in CAMERA_KINDS}
        out[f"{prefix}/device/{ident}/config"] = _device(base, device, parts)
    return out


def _device(base: Json, device: Json, components: Mapping[str, Json]) -> str:
    ident = device["identifiers"][0]
    with_ids = {key: {"unique_id": f"{ident}_{key}"} | about for key, about in components.items()}
    return json.dumps({"device": device} | base | {"components": with_ids})


def _sensor(topic: str, name: str, icon: str) -> Json:
    return {
        "platform": "sensor",
        "name": name,
        "state_topic": topic,
        "unit_of_measurement": "%",
        "value_template": "{{ (value | float * 100) | round(1) if value else None }}",
        "state_class": "measurement",
        "icon": icon,
    }


def _alarm(topic: str, kind: str) -> Json:
    name, device_class = _KIND_NAMES[kind]
    return {"platform": "binary_sensor", "name": name, "device_class": device_class, "state_topic": topic}

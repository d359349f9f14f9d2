"""Home Assistant's discovery documents: one device for the appliance, and one for each camera. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from edge.core.counts import Place
from edge.outputs.topics import APPLIANCE_KINDS, CAMERA_KINDS, Snapshot, Topics

Json = dict[str, Any]

_KIND_NAMES: Final[Mapping[str, tuple[str, str]]] = {
    "object": ("Object alarm", "occupancy"),
    "accuracy": ("Accuracy alarm", "problem"),
    "camera_lost": ("Camera lost alarm", "problem"),
    "roll_back": ("Roll-back alarm", "problem"),
    "crowd": ("Crowd alarm", "occupancy"),
    "movement": ("Movement alarm", "problem"),
    "unusual": ("Unusual count alarm", "problem"),
    "disk": ("Disk alarm", "problem"),
    "slo": ("Serving alarm", "problem"),
}


def word(name: str) -> str:
    """A name as an id of Home Assistant: letters, digits, "_" and "-" stay, all else is written in hexadecimal."""
    return "".join(c if re.fullmatch(r"[A-Za-z0-9-]", c) else "_" if c == "_" else _hex(c) for c in name) or "__"


def _hex(character: str) -> str:
    return "".join(f"_x{byte:02x}" for byte in character.encode("utf-8", "surrogatepass"))


def line(text: str, most: int = 120) -> str:
    """Free text for other people's screens: one line of printable characters."""
    clean = "".join(c if c.isprintable() else " " for c in text).strip()
    return clean[:most]


def discovery(topics: Topics, prefix: str, now: Snapshot) -> dict[str, str]:
    """Home Assistant's discovery documents by topic: a device for the appliance, one per camera. Boxes of a fleet have
    their own: else one that gives a camera up would delete the document of the one that has it now."""
    site = f"magpie_{word(now.site)}"
    box = f"{site}_box_{word(now.box)}" if now.box else site
    origin = {"name": "Magpie", "sw": now.version}
    base: Json = {"origin": origin, "availability_topic": topics.available, "qos": 1}
    about = {"manufacturer": "Magpie", "model": "Edge appliance", "sw_version": now.version}
    own = {"identifiers": [box], "name": f"Magpie {now.site} {now.box}".rstrip()} | about
    out = {f"{prefix}/device/{box}/config": _device(base, own, _appliance_components(topics))}
    for c in now.cameras:
        ident = f"{box}_camera_{word(c.id)}"
        device = {"identifiers": [ident], "name": line(c.name) or c.id, "via_device": box} | about | {"model": "Camera"}
        out[f"{prefix}/device/{ident}/config"] = _device(
            base, device, _camera_components(topics, c.id) | _count_components(topics, c.id, c.places)
        )
    return out


def _appliance_components(topics: Topics) -> dict[str, Json]:
    components: dict[str, Json] = {
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
    return components | {f"alarm_{k}": _alarm(topics.alarm(None, k), k) for k in APPLIANCE_KINDS}


def _camera_components(topics: Topics, camera: str) -> dict[str, Json]:
    components: dict[str, Json] = {
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
    return components | {f"alarm_{k}": _alarm(topics.alarm(camera, k), k) for k in CAMERA_KINDS}


def _count_components(topics: Topics, camera: str, places: Sequence[Place]) -> dict[str, Json]:
    """A sensor for each direction of a line, and for each zone: the last minute's objects."""
    return {
        "_".join(("count", p.kind, word(p.name), *filter(None, (p.way,)))): {
            "platform": "sensor",
            "name": line(f"{p.name} {p.way}" if p.way else f"{p.name}, most of a class"),
            "state_topic": topics.count(camera, p),
            # None is the state "unknown".
            "value_template": "{{ value_json.objects }}" if p.kind == "line" else "{{ value_json.most }}",
            "json_attributes_topic": topics.count(camera, p),
            "state_class": "measurement",
            "icon": "mdi:counter",
        }
        for p in places
    }


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

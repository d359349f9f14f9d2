"""Names of MQTT topics, and the values retained in them. Pure.

Names never bring levels or wildcards of their own: every character but a letter, digit, "_", "-" or "." of ASCII is
written as %XX (of its UTF-8 bytes), as in URLs.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from edge.core.camera import CameraState
from edge.core.counts import CountedMinute, Place, PlaceCount

#: Rules about a camera, and rules about the whole appliance.
CAMERA_KINDS: Final[tuple[str, ...]] = (
    "object",
    "accuracy",
    "camera_lost",
    "roll_back",
    "crowd",
    "movement",
    "unusual",
)
APPLIANCE_KINDS: Final[tuple[str, ...]] = ("disk", "slo")
_PLAIN = re.compile(r"[A-Za-z0-9_.-]")
#: Levels of messages that are not retained, by kind.
_MESSAGES: Final[Mapping[str, str]] = {"alarm": "alarms", "object": "events", "count": "counts", "report": "reports"}
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

    def count(self, camera: str, place: Place) -> str:
        """The last minute's count of all classes at a place."""
        return self.camera(camera, "/".join(("count", place.kind, part(place.name), *filter(None, (place.way,)))))

    def messages(self, kind: str, camera: str | None) -> tuple[str, ...]:
        """Where an event, an alarm or a minute's counts go: all together, and its camera's own."""
        name = _MESSAGES[kind]
        everyone = f"{self.prefix}/{name}"
        return (everyone,) if camera is None else (everyone, self.camera(camera, name))

    def camera_to_set(self, topic: str, cameras: Collection[str]) -> str | None:
        """The camera whose switch a topic is; None if it is none of `cameras`."""
        return next((c for c in cameras if self.camera(c, "retraining/set") == topic), None)


def switch(payload: bytes) -> bool | None:
    """The state asked of a switch: ON, OFF; None for anything else."""
    return {b"ON": True, b"OFF": False}.get(payload)


@dataclass(frozen=True)
class CameraSnapshot:
    """A camera now. `accuracy` [0, 1] of the window that was measured last, None before the first; `promised`: its
    model's promise, where that is known; `retrained`: its retraining is switched on; `places` where it counts; `minute`
    the last that is over and known."""

    id: str
    name: str
    state: CameraState
    model_version: str
    accuracy: float | None
    promised: float | None
    retrained: bool
    places: tuple[Place, ...] = ()
    minute: CountedMinute | None = None


@dataclass(frozen=True)
class Snapshot:
    """The appliance now. `reasons`: codes of what is wrong; `phase` of the window; `retraining`: how many retrainings
    run; `box`: its name in a fleet."""

    site: str
    version: str
    ready: bool
    reasons: tuple[str, ...]
    policy: str
    window: int
    phase: str
    retraining: int
    cameras: tuple[CameraSnapshot, ...]
    box: str = ""


def states(topics: Topics, now: Snapshot, alarms: Collection[tuple[str | None, str]]) -> dict[str, str]:
    """The retained messages, by topic. `alarms`: camera (None: the whole appliance) and kind of those that have not
    ended. Unknown values (an accuracy before the first measured window) are not there."""
    out = {
        topics.state: json.dumps(
            {
                "site": now.site,
                "version": now.version,
                "ready": now.ready,
                "reasons": sorted(set(now.reasons)),
                "policy": now.policy,
                "window": now.window,
                "phase": now.phase,
                "cameras": len(now.cameras),
                "cameras_live": sum(c.state == "live" for c in now.cameras),
                "retraining": now.retraining,
            }
        )
    }
    for kind in APPLIANCE_KINDS:
        out[topics.alarm(None, kind)] = _ON_OFF[(None, kind) in alarms]
    for c in now.cameras:
        out[topics.camera(c.id, "state")] = c.state
        out[topics.camera(c.id, "model")] = c.model_version
        out[topics.camera(c.id, "retraining")] = _ON_OFF[c.retrained]
        if c.accuracy is not None:
            out[topics.camera(c.id, "accuracy")] = f"{c.accuracy:.4f}"
            if c.promised is not None:
                out[topics.camera(c.id, "drift")] = f"{c.promised - c.accuracy:.4f}"
        # Before the first minute nothing is known, and a topic that was retained is not cleared.
        out |= {topics.count(c.id, place): _UNKNOWN for place in c.places}
        if c.minute is not None:
            out |= {topics.count(c.id, p.place): _count(c.minute, p) for p in c.minute.places if p.place in c.places}
        for kind in CAMERA_KINDS:
            out[topics.alarm(c.id, kind)] = _ON_OFF[(c.id, kind) in alarms]
    return out


_UNKNOWN: Final = json.dumps({"start_utc_s": None, "watched": 0.0, "objects": None, "corrected": None, "most": None})


def _count(minute: CountedMinute, found: PlaceCount) -> str:
    """The numbers of a minute without any watching are null: they are not known."""
    numbers = found.to_json() if minute.watched > 0 else dict.fromkeys(found.to_json())
    return json.dumps({"start_utc_s": minute.start_s, "watched": minute.watched} | numbers)

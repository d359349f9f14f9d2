"""`magpie plan fleet PROBLEM.json`: which box takes which camera ("fleet-placement/1" in, docs/fleet.md).

Each box's answer is the plan of its own retraining window, with the cameras that it would take.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from edge.core import checks
from edge.core.errors import InvalidValue
from edge.core.fields import mapping, required, sequence
from edge.core.window import WindowProblem
from scheduler.fleet.placement import BoxAnswer, place_cameras
from scheduler.policies import WindowPolicy

PLACEMENT_FORMAT: Final = "fleet-placement/1"


class _Boxes:
    """The boxes of a problem, each with its window and the streams of the cameras that may come."""

    def __init__(self, policy: WindowPolicy, windows: Mapping[str, Any], streams: Mapping[str, Any]) -> None:
        self._policy, self._windows, self._streams = policy, windows, streams

    def ask(self, box: str, cameras: frozenset[str]) -> BoxAnswer:
        """The sum of the accuracies of the box's cameras with these; None where a floor breaks."""
        window = self._windows[box]
        streams = [*(window.get("streams") or ()), *(self._streams[camera] for camera in sorted(cameras))]
        if not streams:
            return BoxAnswer(0.0)
        try:
            problem = WindowProblem.from_json({**window, "streams": streams})
        except InvalidValue as error:
            raise InvalidValue(f"boxes[{box}].window.{error.path}", error.given, error.allowed) from None
        plan = self._policy.plan(problem)
        return BoxAnswer(None if plan.faults and cameras else plan.objective * len(streams))


def placed(value: Any, policy: WindowPolicy) -> dict[str, Any]:
    """The answer to a placement problem, as JSON. Raises InvalidValue with the field's path."""
    given = mapping(value, "(file)")
    checks.known_keys("", given, ("format", "name", "boxes", "cameras"))
    checks.one_of("format", given.get("format"), (PLACEMENT_FORMAT,))
    windows: dict[str, Any] = {}
    zones: dict[str, frozenset[str]] = {}
    for n, row in enumerate(sequence(required(given, "boxes", ""), "boxes")):
        path = f"boxes[{n}]"
        checks.known_keys(path, mapping(row, path), ("name", "zones", "window"))
        name = str(required(row, "name", path))
        if name in windows:
            raise InvalidValue(f"{path}.name", name, "each name once")
        windows[name] = mapping(required(row, "window", path), f"{path}.window")
        zones[name] = frozenset(sequence(row.get("zones") or (), f"{path}.zones"))
    streams: dict[str, Any] = {}
    reach: dict[str, list[str]] = {}
    for n, row in enumerate(sequence(required(given, "cameras", ""), "cameras")):
        path = f"cameras[{n}]"
        checks.known_keys(path, mapping(row, path), ("zone", "stream"))
        stream = mapping(required(row, "stream", path), f"{path}.stream")
        camera = str(required(stream, "id", f"{path}.stream"))
        if camera in streams:
            raise InvalidValue(f"{path}.stream.id", camera, "each id once")
        streams[camera] = stream
        zone = row.get("zone")
        reach[camera] = [box for box in windows if zone is None or zone in zones[box]]
    answer = place_cameras(list(streams), reach, _Boxes(policy, windows, streams).ask)
    return {
        "format": "fleet-placement-plan/1",
        "problem": str(given.get("name", "")),
        "policy": policy.name,
        "boxes": dict(answer.boxes),
        "gain": round(answer.gain, 6),
        "unplaced": dict(answer.unplaced),
    }

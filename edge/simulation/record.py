"""A trace from what the store keeps of an appliance's windows, so that a live run can be replayed.

Works on the plain documents that the store and `GET /api/v1/windows/N` give, so it knows neither. The simulator
estimates and counts values that a live run did not measure (configurations that it did not train, other models on later
windows).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edge.core.errors import InvalidValue
from edge.core.profiles import InferenceProfile, RetrainingProfile
from edge.core.shares import ShareCaps
from edge.core.window import WindowProblem
from edge.simulation.trace import RecordedCamera, RecordedOutcome, RecordedWindow, Trace


def trace_from_windows(name: str, details: Sequence[Mapping[str, Any]]) -> Trace:
    """`details` are documents of edge.store's WindowDetail, any order; windows still open are left out.

    Windows are renumbered from 1 in their order. A camera without a measured frozen student in any window is left out,
    because there is nothing to carry it by. Raises InvalidValue where no closed window has a plan and such a camera.
    """
    closed = sorted((d for d in details if not d["window"]["open"]), key=lambda d: d["window"]["id"])
    problems = [WindowProblem.from_json(p["problem"]) for d in closed for p in d["plans"][-1:]]
    if not problems:
        raise InvalidValue("windows", len(closed), "at least one closed window with a recorded plan")
    last = problems[-1]
    names = sorted({row["camera"] for d in closed for row in d["window"]["cameras"]})
    cameras = tuple(c for c in (_camera(n, closed) for n in names) if c is not None)
    if not cameras:
        raise InvalidValue("windows", len(closed), "a window in which the frozen student of a camera was measured")
    seconds = float(closed[-1]["window"]["length_s"])
    return Trace(
        name, seconds, last.num_gpus, cameras, len(closed), last.delta, last.a_min, "from a live run", _caps(closed)
    )


def _caps(details: Sequence[Mapping[str, Any]]) -> ShareCaps | None:
    """Of the last plan that says what it was made from."""
    found = [p["basis"]["caps"] for d in details for p in d["plans"] if p.get("basis") is not None]
    return ShareCaps(**found[-1]) if found else None


def _camera(name: str, details: Sequence[Mapping[str, Any]]) -> RecordedCamera | None:
    frozen: dict[int, float] = {}
    windows: dict[int, RecordedWindow] = {}
    inference: InferenceProfile | None = None
    labelled = 0
    for number, detail in enumerate(details, start=1):
        row = next((r for r in detail["window"]["cameras"] if r["camera"] == name), None)
        profile_now = _inference(name, detail)
        inference = inference or profile_now
        if row is not None and row["frozen"] is not None:
            frozen[number] = row["frozen"]["value"]
        profiles = tuple(_profile(p["profile"]) for p in detail["profiles"] if p["camera"] == name)
        if profiles:
            costs = [c for c in detail["costs"] if c["camera"] == name and c["kind"] == "profiling"]
            windows[number] = RecordedWindow(
                profiles[0].start_accuracy,
                # A restart profiles again: the last word on a configuration counts.
                tuple({p.config.id: p for p in profiles}.values()),
                _outcomes(name, number, details),
                _delay(name, details, number),
                sum(_device_seconds(c) for c in costs),
                # The store keeps the sum only; the simulator asks no more than whether there were some.
                max(1, labelled - labelled // 3),
                max(1, labelled // 3),
                profile_now,
            )
        labelled = 0 if row is None else row["frames_labelled"]
    if not frozen or inference is None:
        return None
    return RecordedCamera(name, inference, frozen, windows)


def _profile(document: Mapping[str, Any]) -> RetrainingProfile:
    return RetrainingProfile.from_json(dict(document) | {"gpu_seconds": _device_seconds(document)})


def _device_seconds(document: Mapping[str, Any]) -> Any:
    """Profiles in the store, and all documents of earlier versions, say "gpu_seconds"."""
    return document["device_seconds" if "device_seconds" in document else "gpu_seconds"]


def _outcomes(name: str, number: int, details: Sequence[Mapping[str, Any]]) -> dict[str, RecordedOutcome]:
    """Completed retrainings of window `number`; a model in force at the end of a window, this one or a later one, was
    also measured on that window's own data."""
    out = {}
    for job in details[number - 1]["jobs"]:
        if job["camera"] != name or job["state"] != "completed" or job["accuracy_after"] is None:
            continue
        live = {}
        for later, detail in enumerate(details[number - 1 :], start=number):
            rows = (r for r in detail["window"]["cameras"] if r["camera"] == name)
            row = next((r for r in rows if r["model_version"] == job["model_version"]), None)
            fresh = None if row is None else row["details"].get("current_fresh")
            if fresh is not None and job["model_version"] is not None:
                live[later] = fresh["value"]
        out[job["config"]] = RecordedOutcome(job["accuracy_after"], _device_seconds(job), live)
    return out


def _delay(name: str, details: Sequence[Mapping[str, Any]], number: int) -> float:
    """Seconds after the boundary until the sample of the window before was labelled."""
    if number < 2:
        return 0.0
    rows = [r for r in details[number - 2]["window"]["cameras"] if r["camera"] == name]
    return float(rows[0]["labelling_delay_s"] or 0.0) if rows else 0.0


def _inference(name: str, detail: Mapping[str, Any]) -> InferenceProfile | None:
    for plan in detail["plans"]:
        for stream in plan["problem"]["streams"]:
            if stream["id"] == name:
                return InferenceProfile.from_json(stream["inference_profile"])
    return None

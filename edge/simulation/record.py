"""A trace from what the store keeps of an appliance's windows, so that a live run can be replayed.

Works on the plain documents that the store and `GET /api/v1/windows/N` give, so it knows neither. The simulator
estimates and counts values that a live run did not measure (configurations that it did not train, other models on later
windows).

A live run measures students in shadow beside answers that are as old as its own were (edge.runtime.profiler_worker):
the loss by age is in these accuracies already, and `RecordedCamera.factors` says how much of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from edge.core.errors import InvalidValue
from edge.core.profiles import InferenceProfile, RetrainingProfile
from edge.core.shares import ShareCaps
from edge.core.window import WindowProblem
from edge.simulation.accuracies import LEAST_FACTOR, believed, faded, weighed
from edge.simulation.trace import RecordedCamera, RecordedOutcome, RecordedWindow, Trace
from scheduler.controller import option_from_profile, waiting_shares


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
        name, seconds, last.num_gpus, cameras, len(closed), last.delta, last.a_min, "from a live run", _caps(closed),
        _num_gpus_at(closed, seconds),
    )  # fmt: skip


def _caps(details: Sequence[Mapping[str, Any]]) -> ShareCaps | None:
    """Of the last plan that says what it was made from."""
    found = [p["basis"]["caps"] for d in details for p in d["plans"] if p.get("basis") is not None]
    return ShareCaps(**found[-1]) if found else None


def _num_gpus_at(details: Sequence[Mapping[str, Any]], seconds: float) -> tuple[tuple[float, float], ...]:
    """When the devices for cameras changed. Plans say them; those of a window's first plan count from its beginning:
    labels and profiles were made with them."""
    out: list[tuple[float, float]] = []
    for number, detail in enumerate(details):
        for n, (at_s, plan) in enumerate(_plans(detail)):
            num_gpus = float(plan["problem"]["num_gpus"])
            if not out or num_gpus != out[-1][1]:
                out.append((round(number * seconds + (min(at_s, seconds) if n else 0.0), 3), num_gpus))
    return tuple(out) if len(out) > 1 else ()


def _plans(detail: Mapping[str, Any]) -> list[tuple[float, Mapping[str, Any]]]:
    """A window's plans, each with the seconds from its beginning, the oldest first."""
    began = detail["window"]["start_utc_s"]
    return [(max(0.0, p["at_utc_s"] - began), p) for p in sorted(detail["plans"], key=lambda p: p["at_utc_s"])]


def _camera(name: str, details: Sequence[Mapping[str, Any]]) -> RecordedCamera | None:
    frozen: dict[int, float] = {}
    windows: dict[int, RecordedWindow] = {}
    factors: dict[int, float] = {}
    inference: InferenceProfile | None = None
    labelled, measured = 0, _measured(name, details)
    for number, detail in enumerate(details, start=1):
        row = _row(name, detail)
        profile_now = _inference(name, detail)
        inference = inference or profile_now
        if row is not None and row["frozen"] is not None:
            frozen[number] = row["frozen"]["value"]
        factor = _factor(name, detail)
        if LEAST_FACTOR <= factor < 1.0:
            factors[number] = round(factor, 6)
        profiles = tuple(_profile(p["profile"]) for p in detail["profiles"] if p["camera"] == name)
        if profiles:
            # A restart profiles again: the last word on a configuration counts.
            by_config = {p.config.id: p for p in profiles}
            # The store keeps the sum only; the simulator asks no more than whether there were some.
            held_out = max(1, labelled // 3)
            costs = [c for c in detail["costs"] if c["camera"] == name and c["kind"] == "profiling"]
            windows[number] = RecordedWindow(
                profiles[0].start_accuracy,
                tuple(by_config.values()),
                _outcomes(name, number, details, by_config, measured),
                _delay(name, details, number),
                _slower(detail, _first_labels(details, number)) * sum(_device_seconds(c) for c in costs),
                max(1, labelled - labelled // 3),
                held_out,
                profile_now,
                measured.get(number - 1),
            )
        labelled = 0 if row is None else row["frames_labelled"]
    if not frozen or inference is None:
        return None
    inside = _measured_inside(name, details)
    return RecordedCamera(name, inference, frozen, windows, factors=factors, inference_at=inside)


def _profile(document: Mapping[str, Any]) -> RetrainingProfile:
    return RetrainingProfile.from_json(dict(document) | {"gpu_seconds": _device_seconds(document)})


def _device_seconds(document: Mapping[str, Any]) -> Any:
    """Profiles in the store, and all documents of earlier versions, say "gpu_seconds"."""
    return document["device_seconds" if "device_seconds" in document else "gpu_seconds"]


def _outcomes(
    name: str,
    number: int,
    details: Sequence[Mapping[str, Any]],
    profiles: Mapping[str, RetrainingProfile],
    measured: Mapping[int, float],
) -> dict[str, RecordedOutcome]:
    """Completed retrainings of window `number`; a model in force at the end of a window, this one or a later one, was
    also measured on that window's own data."""
    out = {}
    for job in details[number - 1]["jobs"]:
        if job["camera"] != name or job["state"] != "completed" or job["accuracy_after"] is None:
            continue
        live = _live(name, job["model_version"], number, details, measured)
        out[job["config"]] = RecordedOutcome(job["accuracy_after"], _work(job, profiles), live)
    return out or _taught(name, number, details, profiles, measured)


def _work(job: Mapping[str, Any], profiles: Mapping[str, RetrainingProfile]) -> float:
    """Device seconds of a retraining, at least what its share was worth by its profile while it ran: on a machine that
    others use too a share brings less than it says."""
    profile, done = profiles.get(job["config"]), float(_device_seconds(job))
    if profile is None or job.get("ended_utc_s") is None or job.get("started_utc_s") is None:
        return done
    rate = option_from_profile(profile).speed(job["share"])
    return max(done, rate * float(job["ended_utc_s"] - job["started_utc_s"]))


def _slower(detail: Mapping[str, Any], labelled_s: float) -> float:
    """How many times as long as by the shares a window's profiles took, from the first camera's labels (`labelled_s`
    after the boundary) to the last profile; at least 1."""
    work = sum(float(_device_seconds(c)) for c in detail["costs"] if c["kind"] == "profiling")
    plans, began = _plans(detail), detail["window"]["start_utc_s"]
    at_s = [p["at_utc_s"] - began for p in detail["profiles"] if p.get("at_utc_s") is not None]
    if work <= 0 or not plans or not at_s:
        return 1.0
    problem = WindowProblem.from_json(plans[0][1]["problem"])
    answering = waiting_shares(problem.num_gpus, {s.id: s.inference_profile for s in problem.streams})
    spare = max(0.05, min(1.0, problem.num_gpus - sum(answering.values())))
    return max(1.0, spare * (float(max(at_s)) - labelled_s) / work)


def _live(
    name: str, version: str | None, number: int, details: Sequence[Mapping[str, Any]], measured: Mapping[int, float]
) -> dict[int, float]:
    """The accuracy of a version in the windows, from `number` on, that it was in force at the end of."""
    rows = ((w, _row(name, d)) for w, d in enumerate(details[number - 1 :], start=number))
    return {
        w: measured[w]
        for w, row in rows
        if row is not None and version is not None and row["model_version"] == version and w in measured
    }


def _taught(
    name: str,
    number: int,
    details: Sequence[Mapping[str, Any]],
    profiles: Mapping[str, RetrainingProfile],
    measured: Mapping[int, float],
) -> dict[str, RecordedOutcome]:
    """The outcome of another camera's retraining that taught this one (a group), under its configuration and at the
    cost of the camera's own. Held-out accuracies of members are not kept, the believed gain stands in."""
    before, row = _row(name, details[number - 2]) if number > 1 else None, _row(name, details[number - 1])
    if before is None or row is None or row["model_version"] in (None, before["model_version"]):
        return {}
    own = {j["model_version"] for d in details for j in d["jobs"] if j["camera"] == name}
    live = _live(name, row["model_version"], number, details, measured)
    jobs = [j for j in details[number - 1]["jobs"] if j["state"] == "completed" and j["config"] in profiles]
    if row["model_version"] in own or not live or not jobs:
        return {}
    # A group's retraining takes several times the work of its leader's own.
    profile = profiles[max(jobs, key=_device_seconds)["config"]]
    gain = believed(_held_out(before)) * (profile.end_accuracy.value - profile.start_accuracy)
    end = min(1.0, max(0.0, profile.start_accuracy + gain))
    return {profile.config.id: RecordedOutcome(end, profile.device_seconds.value, live)}


def _held_out(before: Mapping[str, Any]) -> int:
    """Held-out frames of a camera's data; the store keeps the sum of all only."""
    return max(1, int(before["frames_labelled"]) // 3)


def _fresh(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The measured accuracy of the student that a camera's window ended with."""
    fresh: Mapping[str, Any] | None = row.get("details", {}).get("current_fresh")
    return fresh


def _believed_gain(row: Mapping[str, Any], before: Mapping[str, Any] | None, detail: Mapping[str, Any]) -> float:
    """The expected gain of the retraining that a window's last student came of, over the student before it."""
    if before is None or row["model_version"] == before["model_version"]:
        return 0.0
    part = believed(_held_out(before))
    for job in detail["jobs"]:
        known = job.get("accuracy_before") is not None and job["accuracy_after"] is not None
        if known and job["model_version"] == row["model_version"]:
            return part * float(job["accuracy_after"] - job["accuracy_before"])
    profiles = [_profile(p["profile"]) for p in detail["profiles"] if p["camera"] == row["camera"]]
    return part * max((p.end_accuracy.value - p.start_accuracy for p in profiles), default=0.0)


def _measured(name: str, details: Sequence[Mapping[str, Any]]) -> dict[int, float]:
    """The accuracy, on the whole of each window where it was measured, of the student that the window ended with. One
    that came into force late answered a few of its frames only."""
    rows = [_row(name, d) for d in details]
    frozen = {w: r["frozen"]["value"] for w, r in enumerate(rows, 1) if r is not None and r["frozen"] is not None}
    others = {r["model_version"] for r in rows if r is not None and _fresh(r) is not None}
    out: dict[int, float] = {}
    for number, (row, detail) in enumerate(zip(rows, details, strict=True), start=1):
        if row is None or row["model_version"] is None:
            continue
        fresh, version = _fresh(row), row["model_version"]
        if fresh is not None:
            out[number] = fresh["value"]
            if number - 1 in out and frozen:
                expected = faded(out[number - 1], frozen, number - 1, number) + _believed_gain(
                    row, rows[number - 2], detail
                )
                out[number] = weighed(fresh["value"], fresh["frames"], row["frames_labelled"], expected)
        elif rows[0] is not None and version == rows[0]["model_version"] and version not in others and number in frozen:
            # The first student has no parent, and is not measured beside the frozen one, which it is.
            out[number] = frozen[number]
    return {w: min(1.0, max(0.0, a)) for w, a in out.items()}


def _delay(name: str, details: Sequence[Mapping[str, Any]], number: int) -> float:
    """Seconds after the boundary until the sample of the window before was labelled."""
    if number < 2:
        return 0.0
    rows = [r for r in details[number - 2]["window"]["cameras"] if r["camera"] == name]
    return float(rows[0]["labelling_delay_s"] or 0.0) if rows else 0.0


def _first_labels(details: Sequence[Mapping[str, Any]], number: int) -> float:
    """Seconds after the boundary until the first camera's sample was labelled."""
    names = {p["camera"] for p in details[number - 1]["profiles"]}
    return min((_delay(name, details, number) for name in names), default=0.0)


def _row(name: str, detail: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return next((r for r in detail["window"]["cameras"] if r["camera"] == name), None)


def _inference(name: str, detail: Mapping[str, Any]) -> InferenceProfile | None:
    """The profile of the window's first plan with the camera."""
    return next((profile for _, profile in _inferences(name, detail)), None)


def _inferences(name: str, detail: Mapping[str, Any]) -> Iterator[tuple[float, InferenceProfile]]:
    """(seconds from the window's beginning, inference profile) of the camera by the window's plans."""
    for at_s, plan in _plans(detail):
        for stream in plan["problem"]["streams"]:
            if stream["id"] == name:
                yield at_s, InferenceProfile.from_json(stream["inference_profile"])


def _measured_inside(name: str, details: Sequence[Mapping[str, Any]]) -> tuple[tuple[float, InferenceProfile], ...]:
    """(seconds from the beginning, profile) where the camera's inference was measured inside of a window."""
    return tuple(
        (round(number * float(detail["window"]["length_s"]) + at_s, 3), profile)
        for number, detail in enumerate(details)
        for (_, before), (at_s, profile) in itertools.pairwise(_inferences(name, detail))
        if profile != before
    )


def _factor(name: str, detail: Mapping[str, Any]) -> float:
    """The mean inference factor that the camera's answers were planned to have in a window; 1 where it had no plan."""
    parts = [(end_s - begin_s, p.factor(share)) for begin_s, end_s, p, share in _answering(name, detail)]
    seconds = sum(s for s, _ in parts)
    return sum(s * f for s, f in parts) / seconds if seconds > 0 else 1.0


def _answering(name: str, detail: Mapping[str, Any]) -> Iterator[tuple[float, float, InferenceProfile, float]]:
    """(begin, end, inference profile, inference share) of a camera's parts of a window, by its plans. Until the first
    one every camera has what it has while labels and profiles are awaited."""
    length = float(detail["window"]["length_s"])
    plans = _plans(detail)
    for n, (at_s, plan) in enumerate(plans):
        problem = WindowProblem.from_json(plan["problem"])
        profiles = {s.id: s.inference_profile for s in problem.streams}
        if name not in profiles:
            continue
        if n == 0 and at_s > 0:
            yield 0.0, min(at_s, length), profiles[name], waiting_shares(problem.num_gpus, profiles)[name]
        until = min(length, plans[n + 1][0]) if n + 1 < len(plans) else length
        segments = [] if plan["plan"] is None else plan["plan"]["segments"]
        begins = [at_s, *(max(at_s, s["start_s"]) for s in segments[1:])]
        for segment, (begin_s, end_s) in zip(segments, itertools.pairwise([*begins, until]), strict=False):
            share = segment["streams"].get(name, {}).get("inference_share", 0.0)
            if begin_s < min(end_s, until):
                yield begin_s, min(end_s, until), profiles[name], share

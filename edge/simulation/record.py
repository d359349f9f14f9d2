"""A trace from what the store keeps of an appliance's windows, so that a live run can be replayed.

Works on the plain documents that the store and `GET /api/v1/windows/N` give, so it knows neither. The simulator
estimates and counts values that a live run did not measure (configurations that it did not train, other models on later
windows).

A live run measures students in shadow beside answers that are as old as its own were (edge.runtime.profiler_worker):
the loss by age is in these accuracies already, and `RecordedCamera.factors` says how much of it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edge.core.errors import InvalidValue
from edge.core.profiles import InferenceProfile, RetrainingProfile
from edge.core.shares import ShareCaps
from edge.core.window import WindowProblem
from edge.simulation.accuracies import LEAST_FACTOR, believed, clip, faded, weighed
from edge.simulation.trace import RecordedCamera, RecordedOutcome, RecordedWindow, Trace
from scheduler.controller import option_from_profile, waiting_shares

#: A student that the gate refused was this much worse on held-out data than the one in force, at least.
REFUSED = 0.001


def as_judged(accuracy: float, in_force: float, promoted: bool) -> float:
    """A held-out accuracy as an outcome has it: the gate judges on other frames, too, so its verdict counts. No refused
    student is better than the one in force then, no accepted one is worse."""
    return max(accuracy, in_force) if promoted else min(accuracy, max(0.0, in_force - REFUSED))


@dataclass(frozen=True)
class _PlanOfRun:
    """A plan, made `at_s` seconds after its window's beginning."""

    at_s: float
    problem: WindowProblem
    segments: Sequence[Mapping[str, Any]]

    def inference(self, camera: str) -> InferenceProfile | None:
        """The camera's inference profile; None: it is not in the plan."""
        return next((s.inference_profile for s in self.problem.streams if s.id == camera), None)


@dataclass(frozen=True)
class _WindowOfRun:
    """A window's document, with its plans, the oldest first. `slower`: how many times as long as by the shares its
    profiles took."""

    detail: Mapping[str, Any]
    plans: Sequence[_PlanOfRun]
    slower: float


def trace_from_windows(name: str, details: Sequence[Mapping[str, Any]]) -> Trace:
    """`details` are documents of edge.store's WindowDetail, any order; `whole_windows` are taken.

    Windows are renumbered from 1 in their order. A camera without a measured frozen student in any window is left out,
    because there is nothing to carry it by. Raises InvalidValue where no closed window has a plan and such a camera.
    """
    return RecordedRun(details).trace(name)


@dataclass(frozen=True)
class MeasuredGain:
    """By how much a new student was better on a window's frames than the one before was on the frames before it came,
    both on fresh answers, and the number of frames of each. Nothing is expected of it or of them: noise and all."""

    window: int
    gain: float
    frames: tuple[int, int]


class RecordedRun:
    """The closed windows of a live run, read once: its trace (`trace_from_windows`), and each new student's gain."""

    def __init__(self, details: Sequence[Mapping[str, Any]]) -> None:
        self._closed = whole_windows(details)
        self._windows = _windows_of(self._closed)
        self._cameras = {name: _CameraOfRun(name, self._windows) for name in _names(self._closed)}

    def trace(self, name: str) -> Trace:
        """See `trace_from_windows`."""
        closed = self._closed
        problems = [WindowProblem.from_json(p["problem"]) for d in closed for p in d["plans"][-1:]]
        if not problems:
            raise InvalidValue("windows", len(closed), "at least one closed window with a recorded plan")
        last = problems[-1]
        cameras = tuple(c for c in (camera.recorded() for camera in self._cameras.values()) if c is not None)
        if not cameras:
            raise InvalidValue("windows", len(closed), "a window in which the frozen student of a camera was measured")
        seconds = float(closed[-1]["window"]["length_s"])
        return Trace(
            name, seconds, last.num_gpus, cameras, len(closed), last.delta, last.a_min, "from a live run",
            _caps(closed), _num_gpus_at(self._windows, seconds),
        )  # fmt: skip

    def gains(self) -> dict[str, tuple[MeasuredGain, ...]]:
        """Of each camera, in order; windows are numbered as those of the trace."""
        return {name: tuple(camera.gains()) for name, camera in self._cameras.items()}


def whole_windows(details: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The newest windows in a row that are over, were not cut short and are of one length, the oldest first. A start
    of the appliance, and another length, begin anew."""
    kept: list[Mapping[str, Any]] = []
    for detail in sorted(details, key=lambda d: -d["window"]["id"]):
        window = detail["window"]
        whole = not window["open"] and window.get("outcome", "completed") == "completed"
        if whole and (not kept or window["length_s"] == kept[-1]["window"]["length_s"]):
            kept.append(detail)
        elif kept:
            break
    return kept[::-1]


def _windows_of(closed: Sequence[Mapping[str, Any]]) -> list[_WindowOfRun]:
    return [
        _WindowOfRun(detail, plans, _slower(detail, plans, _first_labels(before, detail)))
        for before, detail in zip([None, *closed], closed, strict=False)
        for plans in (_plans(detail),)
    ]


def _names(closed: Sequence[Mapping[str, Any]]) -> list[str]:
    return sorted({row["camera"] for d in closed for row in d["window"]["cameras"]})


def _caps(details: Sequence[Mapping[str, Any]]) -> ShareCaps | None:
    """Of the last plan that says what it was made from."""
    found = [p["basis"]["caps"] for d in details for p in d["plans"] if p.get("basis") is not None]
    return ShareCaps(**found[-1]) if found else None


def _num_gpus_at(windows: Sequence[_WindowOfRun], seconds: float) -> tuple[tuple[float, float], ...]:
    """When the devices for cameras changed. Plans say them; those of a window's first plan count from its beginning:
    labels and profiles were made with them."""
    out: list[tuple[float, float]] = []
    for number, window in enumerate(windows):
        for n, plan in enumerate(window.plans):
            num_gpus = float(plan.problem.num_gpus)
            if not out or num_gpus != out[-1][1]:
                out.append((round(number * seconds + (min(plan.at_s, seconds) if n else 0.0), 3), num_gpus))
    return tuple(out) if len(out) > 1 else ()


def _plans(detail: Mapping[str, Any]) -> tuple[_PlanOfRun, ...]:
    began = detail["window"]["start_utc_s"]
    return tuple(
        _PlanOfRun(
            max(0.0, p["at_utc_s"] - began),
            WindowProblem.from_json(p["problem"]),
            [] if p["plan"] is None else p["plan"]["segments"],
        )
        for p in sorted(detail["plans"], key=lambda p: p["at_utc_s"])
    )


def _slower(detail: Mapping[str, Any], plans: Sequence[_PlanOfRun], labelled_s: float) -> float:
    """How many times as long as by the shares a window's profiles took, from the first camera's labels (`labelled_s`
    after the boundary) to the last profile; at least 1."""
    work = sum(float(_device_seconds(c)) for c in detail["costs"] if c["kind"] == "profiling")
    began = detail["window"]["start_utc_s"]
    at_s = [p["at_utc_s"] - began for p in detail["profiles"] if p.get("at_utc_s") is not None]
    if work <= 0 or not plans or not at_s:
        return 1.0
    problem = plans[0].problem
    answering = waiting_shares(problem.num_gpus, {s.id: s.inference_profile for s in problem.streams})
    spare = max(0.05, min(1.0, problem.num_gpus - sum(answering.values())))
    return max(1.0, spare * (float(max(at_s)) - labelled_s) / work)


def _first_labels(before: Mapping[str, Any] | None, detail: Mapping[str, Any]) -> float:
    """Seconds after a window's boundary until the sample of its first camera, of the window before, was labelled."""
    names = {p["camera"] for p in detail["profiles"]}
    return min((_delay(None if before is None else _row(name, before)) for name in names), default=0.0)


class _CameraOfRun:
    """The record of one camera of a live run. Windows are numbered from 1."""

    def __init__(self, name: str, windows: Sequence[_WindowOfRun]) -> None:
        self._name, self._windows = name, windows
        self._rows = [_row(name, w.detail) for w in windows]
        self._frozen = {
            w: r["frozen"]["value"] for w, r in enumerate(self._rows, 1) if r is not None and r["frozen"] is not None
        }
        self._begun = self._began_learned()
        self._measured, self._replaced = self._accuracies()

    def recorded(self) -> RecordedCamera | None:
        """None for a camera without a measured frozen student or an inference profile."""
        numbers = range(1, len(self._windows) + 1)
        inference = next((p for n in numbers if (p := self._inference(n)) is not None), None)
        if not self._frozen or inference is None:
            return None
        kept = {n: record for n in numbers if (record := self._window(n)) is not None}
        factors = {n: round(f, 6) for n in numbers if LEAST_FACTOR <= (f := self._factor(n)) < 1.0}
        inside = self._measured_inside()
        return RecordedCamera(
            self._name, inference, dict(self._frozen), kept, factors=factors, inference_at=inside,
            begins_with=self._begins_with(),
        )  # fmt: skip

    def _began_learned(self) -> bool:
        """Whether the student in force as the first window begins is not the first one, which no window before it
        taught."""
        row = self._rows[0]
        if row is None or row.get("realised") is None:
            return False
        return _fresh(row) is not None or self._promoted(1) > 0

    def _begins_with(self) -> dict[int, float]:
        """Accuracies of the student in force as the first window begins; nothing where it is the first student. They
        include what a retraining inside of that window brought."""
        row = self._rows[0]
        if row is None or not self._begun:
            return {}
        after = self._live(row["model_version"], 1)
        if self._promoted(1) and 1 in after:
            after.setdefault(2, faded(after[1], self._frozen, 1, 2, self._learned(1)))
        return after | {1: row["realised"]["value"]}

    def _window(self, number: int) -> RecordedWindow | None:
        """A window with profiles; None: it has none."""
        window, before = self._windows[number - 1], self._before(number)
        profiles = self._profiles(number)
        if not profiles:
            return None
        # A restart profiles again: the last word on a configuration counts.
        by_config = {p.config.id: p for p in profiles}
        costs = [c for c in window.detail["costs"] if c["camera"] == self._name and c["kind"] == "profiling"]
        labelled = 0 if before is None else before["frames_labelled"]
        return RecordedWindow(
            profiles[-1].start_accuracy,
            tuple(by_config.values()),
            self._outcomes(number, by_config, profiles[-1].start_accuracy),
            _delay(before),
            window.slower * sum(_device_seconds(c) for c in costs),
            max(1, labelled - labelled // 3),
            _held_out(before),
            self._inference(number),
            self._start_live(number),
        )

    def _start_live(self, number: int) -> float | None:
        """The accuracy, on the window before, of the student in force as window `number` begins, as the simulator has
        it: that of the student that the record begins with includes a retraining inside of its first window."""
        row = self._rows[0]
        if number == 2 and row is not None and self._begun:
            return float(row["realised"]["value"])
        return self._measured.get(number - 1)

    def _before(self, number: int) -> Mapping[str, Any] | None:
        """The camera's row of the window before."""
        return self._rows[number - 2] if number > 1 else None

    def _profiles(self, number: int) -> list[RetrainingProfile]:
        found = self._windows[number - 1].detail["profiles"]
        return [_profile(p["profile"]) for p in found if p["camera"] == self._name]

    def _outcomes(
        self, number: int, profiles: Mapping[str, RetrainingProfile], start: float
    ) -> dict[str, RecordedOutcome]:
        """Completed retrainings of window `number`; a model in force at the end of a window, this one or a later one,
        was also measured on that window's own data."""
        out, in_force = {}, start
        for job in self._windows[number - 1].detail["jobs"]:
            if job["camera"] != self._name or job["state"] != "completed" or job["accuracy_after"] is None:
                continue
            live, promoted = self._live(job["model_version"], number), bool(job.get("promoted"))
            end = as_judged(float(job["accuracy_after"]), in_force, promoted)
            if promoted:
                in_force = end
            out[job["config"]] = RecordedOutcome(end, _work(job, profiles), live, promoted=promoted)
        return out or self._taught(number, profiles)

    def _live(self, version: str | None, number: int) -> dict[int, float]:
        """The accuracy of a version in the windows, from `number` on, that it was in force at the end of, or until
        another replaced it."""
        out: dict[int, float] = {}
        for w in range(number, len(self._rows) + 1) if version is not None else ():
            if self._version(w) == version and w in self._measured:
                out[w] = self._measured[w]
            elif w > number and self._version(w - 1) == version and w in self._replaced:
                out[w] = self._replaced[w]
        return out

    def _version(self, number: int) -> str | None:
        """The student that a window ended with."""
        row = self._rows[number - 1]
        return None if row is None else row["model_version"]

    def _promoted(self, number: int) -> int:
        """How many of the camera's own retrainings came into force in a window."""
        jobs = self._windows[number - 1].detail["jobs"]
        return sum(bool(j.get("promoted")) for j in jobs if j["camera"] == self._name)

    def _learned(self, number: int) -> list[int]:
        """The windows whose data the student that window `number` ended with, and its parents, were trained on. One
        that had learned as the record begins is taken to have learned scenes as hard as any in it."""
        known = [w for w in range(1, number + 1) if self._version(w) is not None]
        changed = [w - 1 for before, w in itertools.pairwise(known) if self._version(w) != self._version(before)]
        return [*self._frozen, *changed] if self._begun else changed

    def _taught(self, number: int, profiles: Mapping[str, RetrainingProfile]) -> dict[str, RecordedOutcome]:
        """The outcome of another camera's retraining that taught this one (a group), under its configuration and at the
        cost of the camera's own. Held-out accuracies of members are not kept, the believed gain stands in."""
        before, row = self._before(number), self._rows[number - 1]
        if before is None or row is None or row["model_version"] in (None, before["model_version"]):
            return {}
        own = {j["model_version"] for w in self._windows for j in w.detail["jobs"] if j["camera"] == self._name}
        live = self._live(row["model_version"], number)
        found = self._windows[number - 1].detail["jobs"]
        jobs = [j for j in found if j["state"] == "completed" and j["config"] in profiles]
        if row["model_version"] in own or not live or not jobs:
            return {}
        # A group's retraining takes several times the work of its leader's own.
        profile = profiles[max(jobs, key=_device_seconds)["config"]]
        gain = believed(_held_out(before)) * (profile.end_accuracy.value - profile.start_accuracy)
        end = clip(profile.start_accuracy + gain)
        return {profile.config.id: RecordedOutcome(end, profile.device_seconds.value, live)}

    def _accuracies(self) -> tuple[dict[int, float], dict[int, float]]:
        """Accuracies on the whole of each window: of the student that it ended with, where measured, and of the one
        that it began with, where another replaced it. Either may have answered a few of its frames only, so what was
        expected of it counts, too."""
        rows, frozen = self._rows, self._frozen
        others = {r["model_version"] for r in rows if r is not None and _fresh(r) is not None}
        measured: dict[int, float] = {}
        replaced: dict[int, float] = {}
        last: float | None = None  # of the student that the window before ended with
        for number, row in enumerate(rows, start=1):
            if row is None or row["model_version"] is None:
                last = None
                continue
            expected = None
            if last is not None and frozen:
                expected = faded(last, frozen, number - 1, number, self._learned(number - 1))
            answered = self._answered_before(number)
            if answered is not None:
                value, frames = answered
                before = value if expected is None else weighed(value, frames, row["frames_labelled"], expected)
                replaced[number] = expected = clip(before)
            if expected is not None:
                expected = clip(expected + self._believed_gain(number))
            fresh = _fresh(row)
            if fresh is not None:
                value, frames = fresh["value"], fresh["frames"]
                known = value if expected is None else weighed(value, frames, row["frames_labelled"], expected)
                measured[number] = clip(known)
            elif (
                rows[0] is not None
                and row["model_version"] == rows[0]["model_version"]
                and row["model_version"] not in others
                and number in frozen
            ):
                # The first student has no parent, and is not measured beside the frozen one, which it is.
                measured[number] = frozen[number]
            last = measured.get(number, expected)
        return measured, replaced

    def _answered_before(self, number: int) -> tuple[float, int] | None:
        """(accuracy, frames) of a window's answers before another student came into force. The realised accuracy is
        that of both; without the later one's answers, the rest is the earlier one's. None: no other came, several did,
        or no frame is left."""
        row, before = self._rows[number - 1], self._before(number)
        if row is None or before is None or row.get("realised") is None:
            return None
        if before["model_version"] in (None, row["model_version"]) or self._promoted(number) > 1:
            return None
        frames, later = row["frames_labelled"], _fresh(row)
        right = frames * row["realised"]["value"]
        if later is not None:
            frames, right = frames - later["frames"], right - later["frames"] * later["value"]
        return (clip(right / frames), frames) if frames > 0 else None

    def gains(self) -> Iterator[MeasuredGain]:
        """Of the windows in which both students answered some frames."""
        for number, row in enumerate(self._rows, start=1):
            fresh = None if row is None else _fresh(row)
            answered = None if fresh is None else self._answered_before(number)
            if answered is not None and fresh is not None:
                (value, frames), later = answered, int(fresh["frames"])
                # A retraining takes from answers: those before its end are older than those after it.
                at_s = float(self._windows[number - 1].detail["window"]["length_s"]) * frames / (frames + later)
                new = float(fresh["value"]) / max(LEAST_FACTOR, self._factor(number, since_s=at_s))
                old = value / max(LEAST_FACTOR, self._factor(number, until_s=at_s))
                yield MeasuredGain(number, new - old, (frames, later))

    def _believed_gain(self, number: int) -> float:
        """The expected gain of the retraining that a window's last student came of, over the student before it."""
        row, before = self._rows[number - 1], self._before(number)
        if row is None or before is None or row["model_version"] == before["model_version"]:
            return 0.0
        part = believed(_held_out(before))
        for job in self._windows[number - 1].detail["jobs"]:
            known = job.get("accuracy_before") is not None and job["accuracy_after"] is not None
            if known and job["model_version"] == row["model_version"]:
                return part * float(job["accuracy_after"] - job["accuracy_before"])
        profiles = self._profiles(number)
        return part * max((p.end_accuracy.value - p.start_accuracy for p in profiles), default=0.0)

    def _inference(self, number: int) -> InferenceProfile | None:
        """The profile of the window's first plan with the camera."""
        return next((profile for _, profile in self._inferences(self._windows[number - 1])), None)

    def _inferences(self, window: _WindowOfRun) -> Iterator[tuple[float, InferenceProfile]]:
        """(seconds from the window's beginning, inference profile) of the camera by the window's plans."""
        for plan in window.plans:
            profile = plan.inference(self._name)
            if profile is not None:
                yield plan.at_s, profile

    def _measured_inside(self) -> tuple[tuple[float, InferenceProfile], ...]:
        """(seconds from the beginning, profile) where the camera's inference was measured inside of a window."""
        return tuple(
            (round(number * float(window.detail["window"]["length_s"]) + at_s, 3), profile)
            for number, window in enumerate(self._windows)
            for (_, before), (at_s, profile) in itertools.pairwise(self._inferences(window))
            if profile != before
        )

    def _factor(self, number: int, since_s: float = 0.0, until_s: float = math.inf) -> float:
        """The mean inference factor that the camera's answers were planned to have in a part of a window; 1 where it
        had no plan."""
        answering = self._answering(self._windows[number - 1])
        parts = [
            (max(0.0, min(end_s, until_s) - max(begin_s, since_s)), p.factor(share))
            for begin_s, end_s, p, share in answering
        ]
        seconds = sum(s for s, _ in parts)
        return sum(s * f for s, f in parts) / seconds if seconds > 0 else 1.0

    def _answering(self, window: _WindowOfRun) -> Iterator[tuple[float, float, InferenceProfile, float]]:
        """(begin, end, inference profile, inference share) of the camera's parts of a window, by its plans. Until the
        first one every camera has what it has while labels and profiles are awaited."""
        length, name = float(window.detail["window"]["length_s"]), self._name
        for n, plan in enumerate(window.plans):
            profile, at_s, problem = plan.inference(name), plan.at_s, plan.problem
            if profile is None:
                continue
            if n == 0 and at_s > 0:
                profiles = {s.id: s.inference_profile for s in problem.streams}
                yield 0.0, min(at_s, length), profile, waiting_shares(problem.num_gpus, profiles)[name]
            until = min(length, window.plans[n + 1].at_s) if n + 1 < len(window.plans) else length
            begins = [at_s, *(max(at_s, s["start_s"]) for s in plan.segments[1:])]
            for segment, (begin_s, end_s) in zip(plan.segments, itertools.pairwise([*begins, until]), strict=False):
                share = segment["streams"].get(name, {}).get("inference_share", 0.0)
                if begin_s < min(end_s, until):
                    yield begin_s, min(end_s, until), profile, share


def _profile(document: Mapping[str, Any]) -> RetrainingProfile:
    return RetrainingProfile.from_json(dict(document) | {"gpu_seconds": _device_seconds(document)})


def _device_seconds(document: Mapping[str, Any]) -> Any:
    """Profiles in the store, and all documents of earlier versions, say "gpu_seconds"."""
    return document["device_seconds" if "device_seconds" in document else "gpu_seconds"]


def _work(job: Mapping[str, Any], profiles: Mapping[str, RetrainingProfile]) -> float:
    """Device seconds of a retraining, at least what its share was worth by its profile while it ran: on a machine that
    others use too a share brings less than it says."""
    profile, done = profiles.get(job["config"]), float(_device_seconds(job))
    if profile is None or job.get("ended_utc_s") is None or job.get("started_utc_s") is None:
        return done
    rate = option_from_profile(profile).speed(job["share"])
    return max(done, rate * float(job["ended_utc_s"] - job["started_utc_s"]))


def _held_out(before: Mapping[str, Any] | None) -> int:
    """Held-out frames of the data of a camera's window, that of its row of the window before. The store keeps the sum
    of all only; the simulator asks no more than whether there were some, and how far they are believed."""
    return max(1, int(before["frames_labelled"]) // 3) if before is not None else 1


def _fresh(row: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The measured accuracy of the student that a camera's window ended with."""
    fresh: Mapping[str, Any] | None = row.get("details", {}).get("current_fresh")
    return fresh


def _delay(before: Mapping[str, Any] | None) -> float:
    """Seconds after the boundary until the sample of a camera's window before was labelled; `before` is its row."""
    return 0.0 if before is None else float(before["labelling_delay_s"] or 0.0)


def _row(name: str, detail: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return next((r for r in detail["window"]["cameras"] if r["camera"] == name), None)

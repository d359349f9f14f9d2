"""The forecast of a change: recorded windows, replayed as they were and as they would be with it.

A camera's forecast is what was measured of it, moved by the difference of both replays in the same window, and by what
it goes on learning until the windows that are forecast, with the change or without. The simulator's errors that both
replays share cancel out. Takes seconds per window; `forecast` is a pure function.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean
from typing import Any

from edge.core import checks
from edge.core.capacity import (
    LEAST_WINDOWS,
    BoxChange,
    BoxWindow,
    CameraForecast,
    CapacityForecast,
    PastChange,
)
from edge.core.capacity_notes import CapacityNote
from edge.core.errors import Conflict
from edge.core.learning import BudgetProblem
from edge.core.profiles import Estimate, InferenceProfile
from edge.core.shares import ideal_caps
from edge.core.window import WindowProblem
from edge.runtime.device_shares import LEAST_CAMERAS
from edge.simulation import capacity_traces as traces
from edge.simulation.accuracies import clip
from edge.simulation.record import MeasuredGain, RecordedRun
from edge.simulation.simulator import CameraWindowResult, SimulationResult, simulate
from edge.simulation.trace import Trace
from scheduler.capacity.boxes import over_boxes
from scheduler.capacity.compared import calmed, steady
from scheduler.capacity.intervals import HORIZON, estimate, interval, past_errors, widened
from scheduler.capacity.learning import LearningEffect, learning_effect
from scheduler.capacity.moves import ReplayedWindow, TruePart, by_retraining, move, true_part
from scheduler.capacity.serving import ServedBox, ServedEffect, served_effect
from scheduler.capacity.trend import LearnedWindow, LearningTrend, learning_trends
from scheduler.follow import planner

#: A trend that moves a camera's accuracy by less has no note.
NOTED_TREND = 0.005
_Means = Mapping[str, Mapping[int, ReplayedWindow]]


@dataclass(frozen=True)
class CapacityQuestion:
    """A change, and what is known of the box: `details` are documents of edge.store's WindowDetail in any order,
    `budget` the last problem of the learning budget, `golden` the golden model's share (None: as the newest window had
    it), `past` earlier changes that were forecast, `began` the first window of each camera that is known, of all that
    the box ever had (else of `details`). The same `seed` gives the same intervals."""

    change: BoxChange
    details: tuple[Mapping[str, Any], ...]
    budget: BudgetProblem | None = None
    golden: float | None = None
    served: ServedBox | None = None
    past: tuple[PastChange, ...] = ()
    began: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0


def box_windows(details: Sequence[Mapping[str, Any]]) -> tuple[BoxWindow, ...]:
    """Closed windows with a plan, that were not cut short, in order."""
    closed = [d for d in details if not d["window"]["open"] and d["plans"]]
    whole = [d for d in closed if d["window"].get("outcome", "completed") == "completed"]
    return tuple(_box_window(d) for d in sorted(whole, key=lambda d: int(d["window"]["id"])))


def _box_window(detail: Mapping[str, Any]) -> BoxWindow:
    problem = WindowProblem.from_json(detail["plans"][-1]["problem"])
    rates = {s.id: rate for s in problem.streams if (rate := _top_rate(s.inference_profile)) is not None}
    realised = {
        row["camera"]: None if row["realised"] is None else row["realised"]["value"]
        for row in detail["window"]["cameras"]
    }
    window = detail["window"]
    basis = detail["plans"][-1].get("basis")
    device = None if basis is None else float(basis["caps"]["units"])
    share = _share(detail) * (1.0 if device is None else device)
    policy = str(window.get("policy", ""))
    frozen = {
        row["camera"]: float(row["frozen"]["value"]) for row in window["cameras"] if row.get("frozen") is not None
    }
    return BoxWindow(int(window["id"]), float(window["length_s"]), share, realised, rates, policy, device, frozen)


def _share(detail: Mapping[str, Any]) -> float:
    """Devices of the cameras in a window: the mean of its plans, for the golden model's share follows its work."""
    return fmean(float(plan["problem"]["num_gpus"]) for plan in detail["plans"])


def _top_rate(profile: InferenceProfile) -> float | None:
    return max((p.config.frame_rate for p in profile.points), default=None)


def usable(windows: Sequence[BoxWindow]) -> tuple[BoxWindow, ...]:
    """Those that a forecast is made from: the newest in a row of the box as it is now (`steady`), with a measured
    accuracy."""
    return tuple(w for w in steady(windows) if any(v is not None for v in w.realised.values()))


def enough(windows: Sequence[BoxWindow]) -> tuple[BoxWindow, ...]:
    """The usable ones. Raises Conflict where they are too few."""
    kept = usable(windows)
    if len(kept) < LEAST_WINDOWS:
        raise Conflict(
            f"a forecast needs {LEAST_WINDOWS} closed and measured windows in a row with the same cameras, length, "
            f"policy and share; there are {len(kept)}",
            "wait until they are over",
        )
    return kept


def forecast(question: CapacityQuestion) -> CapacityForecast:
    """Raises Conflict (too few windows), InvalidValue (a camera that is not there, windows that cannot be replayed)."""
    recorded = box_windows(question.details)
    windows = enough(recorded)
    numbers = {w.number for w in windows}
    kept = [d for d in question.details if int(d["window"]["id"]) in numbers]
    run = RecordedRun(kept)
    trace = replace(run.trace("box"), num_gpus=fmean(map(_share, kept)), num_gpus_at=())
    change, cameras = question.change, {c.id for c in trace.cameras}
    if change.camera is not None:
        checks.one_of("camera", change.camera, sorted(cameras))
    newest = max(kept, key=lambda d: int(d["window"]["id"]))["window"]
    golden = question.golden if question.golden is not None else float(newest["settings"].get("golden_share") or 0.0)
    trends, part = _Trends(windows, first_windows(recorded, question.began)), _true_part(trace, run.gains())
    box = _Box(question, trace, windows, str(newest["policy"]), golden, trends, part)
    return box.forecast()


def counted(windows: int) -> range:
    """The numbers of the recorded windows, from 1, that count: the newer half, at least `HORIZON`. Students that were
    young lose more by a change than those that learned. The first never counts: nothing was retrained in its replay,
    and on a new box it shows students that never learned."""
    return range(max(2, windows + 1 - max(HORIZON, windows // 2)), windows + 1)


def _true_part(trace: Trace, found: Mapping[str, Sequence[MeasuredGain]]) -> TruePart:
    """The part of the gains in `trace` that windows showed (`true_part`), of the windows that count."""
    there = counted(trace.windows)
    replayed = [g for c in trace.cameras for w, g in traces.gains_by_window(c).items() if w in there]
    measured = [(g.gain, g.frames) for c in trace.cameras for g in found.get(c.id, ()) if g.window in there]
    return true_part(replayed, measured)


def first_windows(windows: Sequence[BoxWindow], known: Mapping[str, int] | None = None) -> dict[str, int]:
    """The window that each camera began to learn in: the `known` one; else, by these windows, in order, its first one,
    or, of cameras that were there in all of them, the box's first."""
    began = dict(known or {})
    for window in windows:
        for camera in window.realised:
            began.setdefault(camera, min(1, window.number) if window is windows[0] else window.number)
    return began


class _Trends:
    """The learning trends of cameras, from the second of the recorded `windows` on; `began`: the window that each
    camera began to learn in. Ages are windows that a camera has learned from."""

    def __init__(self, windows: Sequence[BoxWindow], began: Mapping[str, int]) -> None:
        self._windows, self._began = windows, began
        seen: dict[str, list[LearnedWindow]] = {}
        for w in windows[1:]:
            for camera, realised in w.realised.items():
                if realised is not None:
                    one = LearnedWindow(w.number, self._age(camera, w.number), realised, w.frozen.get(camera))
                    seen.setdefault(camera, []).append(one)
        self._trends = learning_trends(seen)

    def young(self, camera: str) -> list[int]:
        """The recorded windows, numbered from 1, in which it was as young as a new camera is in the windows that are
        forecast; empty where its beginning is not recorded. The first has no replay."""
        began, first = self._began.get(camera, 1), self._windows[0].number
        if began < first - 1:
            return []
        return [n for n, w in enumerate(self._windows, 1) if n > 1 and 1 <= w.number - began <= HORIZON]

    def _age(self, camera: str, number: int) -> int:
        return max(1, number - self._began.get(camera, 1))

    def _later(self, camera: str) -> list[int]:
        """In the coming windows that are compared: the first after the change is not."""
        newest = self._windows[-1].number
        return [self._age(camera, newest + 1 + n) for n in range(1, HORIZON + 1)]

    def gained(self, camera: str, window: int) -> float:
        """Until the coming windows, since recorded window `window`, numbered from 1."""
        trend = self._trends.get(camera, LearningTrend())
        return trend.gained(self._age(camera, self._windows[window - 1].number), self._later(camera))

    def unsure(self, camera: str, windows: Collection[int]) -> float:
        """Standard deviation of the mean of `gained` over recorded windows."""
        trend = self._trends.get(camera, LearningTrend())
        ages = [self._age(camera, self._windows[n - 1].number) for n in windows]
        return trend.unsure(ages, self._later(camera))


@dataclass(frozen=True)
class _ChangedBox:
    """A changed box as a trace; `share` of today's device for its cameras. `half`: its windows are halves."""

    trace: Trace
    share: float
    half: bool = False


@dataclass(frozen=True)
class _Changed:
    """The boxes with the change that have cameras, the share for cameras of this one, the box of each camera, and what
    models do then."""

    boxes: Mapping[int, _ChangedBox]
    share: float
    placed: Mapping[str, int]
    served: ServedEffect
    notes: list[CapacityNote] = field(default_factory=list)


@dataclass(frozen=True)
class _Box:
    """The box as it was recorded, asked one question."""

    question: CapacityQuestion
    trace: Trace
    windows: tuple[BoxWindow, ...]
    policy: str
    golden: float
    trends: _Trends
    true_part: TruePart

    def forecast(self) -> CapacityForecast:
        base_run = self._play(self.trace)
        base = _means(base_run, False)
        like = self.like() if self.question.change.kind == "camera" else None
        new = None if like is None else self._new_name()
        changed = self._changed(like, new)
        runs = {n: self._play(w.trace) for n, w in changed.boxes.items()}
        means = {c: m for n, run in runs.items() for c, m in _means(run, changed.boxes[n].half).items()}
        past = past_errors(self.question.past, self.question.change)
        cameras = [self._camera(c.id, base, means, changed) for c in self.trace.cameras]
        cameras = [replace(c, then=self._reaching(c, base, changed)) for c in cameras]
        if new is not None and like is not None:
            cameras.append(self._new(new, like, base, means, cameras))
        unwidened = {c.camera: c.then for c in cameras}
        # Past errors may have been the trend's as well as the change's: they move what would be without it alike.
        bias = 0.0 if past is None else past.bias
        cameras = [
            replace(
                c,
                then=widened(c.then, past),
                unchanged=None if c.unchanged is None else clip(c.unchanged + bias),
            )
            for c in cameras
        ]
        change, served = self.question.change, changed.served
        stand_ins = sum(sum(run.estimates.values()) for run in (base_run, *runs.values()))
        notes = [*self._notes(like), *changed.notes, *served.notes]
        if stand_ins:
            notes.append(CapacityNote("stand_ins", numbers={"count": stand_ins}))
        if past is None:
            notes.append(CapacityNote("no_past"))
        else:
            about = {
                "answers": past.answers,
                "error": 100 * past.error,
                "held": 100 * past.held,
                "wider": 100 * past.wider,
                "learned": past.learned,
                "bias": 100 * past.bias,
                "unsure": 100 * past.unsure,
            }
            notes.append(CapacityNote("past", numbers=about))
        return CapacityForecast(
            change, len(self.windows), self.windows[-1].number, self.trace.num_gpus, changed.share,
            tuple(cameras), served.models, tuple(notes), calmed(self.windows)[-1], unwidened,
        )  # fmt: skip

    def like(self) -> str:
        """The recorded camera that a new one is taken to be like: the asked one, or the one of middle accuracy."""
        if self.question.change.camera is not None:
            return self.question.change.camera
        ordered = sorted(self.trace.cameras, key=lambda c: (fmean(self._levels(c.id, {}).values() or (0.0,)), c.id))
        return ordered[(len(ordered) - 1) // 2].id

    def _new_name(self) -> str:
        taken, name = {c.id for c in self.trace.cameras}, "new-camera"
        while name in taken:
            name += "-2"
        return name

    def _play(self, trace: Trace) -> SimulationResult:
        return simulate(trace, self.policy, planner(trace.caps or ideal_caps()), corrected=True)

    # -- the box with the change

    def _changed(self, like: str | None, new: str | None) -> _Changed:
        change, trace = self.question.change, self.trace
        here = {c.id for c in trace.cameras}
        served_now = None if self.question.served is None else self.question.served.planned(self.question.served.box)
        serving = 0.0 if served_now is None else served_now.serving_share
        placed = dict.fromkeys(here, 1)
        if change.kind == "box":
            placed = over_boxes({c.id: traces.load_of(c, trace.window_s) for c in trace.cameras}, serving)
        here = {c for c, n in placed.items() if n == 1}
        away = placed.keys() - here
        effect = self._learning(len(here) + (new is not None))
        factor = change.factor if change.kind == "device" else 1.0
        # Control and evaluation are parts of the device, as settings have them; labelling takes what it needs.
        labelling = self.golden * effect.golden if here else 0.0
        more = factor * (trace.num_gpus + self.golden + serving) - labelling - trace.num_gpus - serving
        served = ServedEffect(0.0, ())
        if self.question.served is not None and served_now is not None:
            served = served_effect(self.question.served, served_now, change, more, here, like)
        notes: list[CapacityNote] = []
        boxes: dict[int, _ChangedBox] = {}
        share = max(0.0, trace.num_gpus + more + serving - served.share_then)
        if here:
            if share < LEAST_CAMERAS:
                notes.append(CapacityNote("no_room", numbers={"left": share}))
                share = LEAST_CAMERAS
            one = self._changed_trace(traces.of_cameras(trace, here), like, new, effect, share)
            boxes[1] = _ChangedBox(one, share, change.kind == "window")
        if away:
            other = self._learning(len(away))
            share_2 = trace.num_gpus + serving + self.golden * (1.0 - other.golden)
            theirs = self._changed_trace(traces.of_cameras(trace, away), None, None, other, share_2)
            boxes[2] = _ChangedBox(theirs, share_2)
        return _Changed(boxes, share, placed, served, notes)

    def _learning(self, cameras: int) -> LearningEffect:
        return learning_effect(self.question.budget, self.question.change, len(self.trace.cameras), cameras)

    def _changed_trace(
        self, trace: Trace, like: str | None, new: str | None, effect: LearningEffect, share: float
    ) -> Trace:
        change = self.question.change
        factor = 1.0
        if new is not None and like is not None:
            trace = traces.with_camera(trace, new, like)
        trace = traces.learned(trace, effect)
        match change.kind:
            case "window":
                trace = traces.halved(trace)
            case "frame_rate":
                trace = traces.with_rate(trace, change.factor, change.camera, gains=True)
            case "device":
                factor = change.factor
                trace = traces.on_device(trace, factor)
        return replace(trace, num_gpus=share / factor)

    # -- a camera's forecast

    def _measured(self, camera: str, base: _Means) -> dict[int, float]:
        """Measured accuracy by window of the trace; of a camera that was not measured that of the replay."""
        found = {n: v for n, w in enumerate(self.windows, 1) if (v := w.realised.get(camera)) is not None}
        return found or {n: w.accuracy for n, w in base.get(camera, {}).items()}

    def _levels(self, camera: str, base: _Means) -> dict[int, float]:
        """Those of windows that count; else of the others, of which the first comes last."""
        found = self._measured(camera, base)
        there = {n: v for n, v in found.items() if n in counted(len(self.windows))}
        return there or {n: v for n, v in found.items() if n > 1} or found

    def _moved(
        self, levels: Mapping[int, float], pairs: Mapping[int, tuple[ReplayedWindow, ReplayedWindow]], part: float
    ) -> list[float]:
        """Each measured window as it would have been, moved as `pairs` say; windows without a replay move by the
        mean."""
        moves = {w: move(was, then, part) for w, (was, then) in pairs.items()}
        mean = fmean(moves.values()) if moves else 0.0
        return [clip(v + moves.get(w, mean)) for w, v in levels.items()]

    def _learned(self, camera: str, levels: Mapping[int, float]) -> dict[int, float]:
        """Each measured window as it would be in the coming ones, without the change."""
        return {n: clip(v + self.trends.gained(camera, n)) for n, v in levels.items()}

    def _camera(self, camera: str, base: _Means, means: _Means, changed: _Changed) -> CameraForecast:
        levels = self._levels(camera, base)
        learned = self._learned(camera, levels)
        pairs = _pairs(base[camera], means[camera], counted(len(self.windows)))
        retraining = fmean(by_retraining(*pair) for pair in pairs.values()) if pairs else 0.0
        unsure = math.hypot(self.trends.unsure(camera, levels), self.true_part.spread * retraining)
        then = interval(self._moved(learned, pairs, self.true_part.value), self.question.seed, unsure)
        now, unchanged = fmean(levels.values()), fmean(learned.values())
        return CameraForecast(camera, now, then, changed.placed[camera], unchanged)

    def _reaching(self, camera: CameraForecast, base: _Means, changed: _Changed) -> Estimate:
        """Down to no gain of a rate that was never measured."""
        change, then = self.question.change, camera.then
        if change.kind != "frame_rate" or change.camera not in (None, camera.camera):
            return then
        levels = self._levels(camera.camera, base)
        learned = self._learned(camera.camera, levels)
        unsure = self.trends.unsure(camera.camera, levels)
        unchanged = interval(list(learned.values()), self.question.seed, unsure)
        return estimate(then.value, min(then.low, unchanged.low), then.high)

    def _new(
        self, new: str, like: str, base: _Means, means: _Means, others: Sequence[CameraForecast]
    ) -> CameraForecast:
        """As its model's, from its first student on, in as many windows as are forecast, where these are recorded; it
        may turn out like any other camera. It has not learned for as long as the others, so it does not gain what they
        do until then. A first student's gains are large, and so all true."""
        young = self.trends.young(like)
        levels = {n: v for n, v in self._measured(like, base).items() if n in young}
        there: Collection[int] = young
        if not levels:
            levels, there = self._levels(like, base), counted(len(self.windows))
        then = interval(self._moved(levels, _pairs(base[like], means[new], there), 1.0), self.question.seed)
        low, high = min(c.then.low for c in others), max(c.then.high for c in others)
        return CameraForecast(new, None, estimate(then.value, min(low, then.low), max(high, then.high)))

    def _notes(self, like: str | None) -> list[CapacityNote]:
        change, notes = self.question.change, []
        if like is not None:
            notes.append(CapacityNote("new_camera", like))
        if change.kind == "frame_rate":
            for c in self.trace.cameras:
                if change.camera not in (None, c.id):
                    continue
                top = _top_rate(c.inference_profile)
                asked = {} if top is None else {"recorded": top, "asked": top * change.factor}
                notes.append(CapacityNote("rate_unknown" if top is None else "rate_above", c.id, numbers=asked))
        if change.kind == "device":
            notes.append(CapacityNote("device"))
        if change.kind == "box":
            notes.append(CapacityNote("second_box"))
        there = counted(len(self.windows))
        for c in self.trace.cameras:
            gains = [self.trends.gained(c.id, n) for n in there]
            if abs(fmean(gains)) >= NOTED_TREND:
                notes.append(CapacityNote("trend", c.id, numbers={"points": 100 * fmean(gains)}))
        if len(there) < HORIZON:
            notes.append(CapacityNote("few_windows", numbers={"windows": len(there)}))
        replayed = {c.id for c in self.trace.cameras}
        newest = self.windows[-1].realised
        notes += [CapacityNote("left_out", c) for c in sorted(newest.keys() - replayed)]
        unmeasured = [c for c in sorted(replayed) if all(w.realised.get(c) is None for w in self.windows)]
        notes += [CapacityNote("not_measured", c) for c in unmeasured]
        if self.question.budget is None:
            notes.append(CapacityNote("budget_unknown"))
        return notes


def _pairs(
    was: Mapping[int, ReplayedWindow], then: Mapping[int, ReplayedWindow], there: Collection[int]
) -> dict[int, tuple[ReplayedWindow, ReplayedWindow]]:
    """A camera in both replays, in windows of `there`."""
    return {w: (was[w], then[w]) for w in sorted(was.keys() & then.keys()) if w in there}


def _means(result: SimulationResult, half: bool) -> dict[str, dict[int, ReplayedWindow]]:
    """Accuracies by camera and recorded window, from the second on: in the first nothing was retrained."""
    found: dict[str, dict[int, list[CameraWindowResult]]] = {}
    for row in result.rows:
        window = traces.whole_of(row.window) if half else row.window
        if window > 1:
            found.setdefault(row.camera, {}).setdefault(window, []).append(row)
    return {
        c: {w: ReplayedWindow(fmean(r.accuracy for r in v), fmean(r.frozen for r in v)) for w, v in rows.items()}
        for c, rows in found.items()
    }

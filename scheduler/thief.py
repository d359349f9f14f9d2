"""Policy `thief`: the published scheduler (Ekya, thesis section 2.4.2, Algorithms 1 and 2), and the ablations that
share its loop.

Algorithm 1 starts from a fair allocation over all inference and retraining jobs; each job in turn steals a quantum
Delta from every other job as long as the estimated accuracy rises. Algorithm 2 picks, at an allocation, the
retraining configuration of each stream that brings the most accuracy over the window. Both run again whenever a
retraining completes. Beyond the paper: no job has more than one device, and the floor is kept from the start.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from edge.core.window import RetrainingOption, Segment, StreamAllocation, StreamProblem, WindowPlan, WindowProblem
from scheduler.grid import (
    SHORTFALL_PENALTY,
    SLACK,
    FloatArray,
    Floors,
    as_share,
    coarse_quantum,
    find_floors,
    quanta,
    share_quantum,
)
from scheduler.static import SAME_INSTANT_S, make_plan, without_empty
from scheduler.timeline import remaining_work

Kind = Literal["inference", "retraining"]
Jobs = tuple[tuple[str, Kind], ...]
Allocation = dict[tuple[str, Kind], float]


@dataclass
class _Valuation:
    """Values of one planning moment: cached because stealing asks for the same shares again and again."""

    problem: WindowProblem
    time_s: float
    floors: Mapping[str, tuple[float, bool]]
    candidates: Mapping[str, tuple[RetrainingOption, ...]]
    streams: dict[str, StreamProblem] = field(default_factory=dict)
    factors: dict[tuple[str, float], float] = field(default_factory=dict)
    durations: dict[tuple[str, float], list[tuple[float, RetrainingOption]]] = field(default_factory=dict)
    worths: dict[tuple[str, float, float], tuple[float, RetrainingOption | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.streams = {s.id: s for s in self.problem.streams}

    def worth(self, stream: str, inference: float, retraining: float) -> tuple[float, RetrainingOption | None]:
        """Algorithm 2 for one stream: best accuracy averaged over the time left, and its configuration."""
        key = (stream, inference, retraining)
        found = self.worths.get(key)
        if found is None:
            found = self.worths[key] = self._pick(stream, inference, retraining)
        return found

    def _pick(self, stream: str, inference: float, retraining: float) -> tuple[float, RetrainingOption | None]:
        factor = self.factor(stream, inference)
        start = self.momentary(stream, self.streams[stream].start_accuracy, factor)
        best: tuple[float, RetrainingOption | None] = (start, None)
        if start == -math.inf or retraining <= 0 or self.time_s <= 0:
            return best
        fitting = self.durations.get((stream, retraining))
        if fitting is None:
            fitting = self.durations[stream, retraining] = self._fitting(stream, retraining)
        # The share of an ended retraining is free again: the estimate gives it to the stream's own inference.
        freed = self.factor(stream, round(min(1.0, inference + retraining), 9))
        for part, option in fitting:
            after = self.momentary(stream, option.end_accuracy, freed)
            value = after if part == 0 else start * part + after * (1 - part) if part < 1 else start
            if value > best[0] + 1e-12:
                best = (value, option)
        return best

    def factor(self, stream: str, share: float) -> float:
        """Accuracy factor of `stream` at an inference share."""
        found = self.factors.get((stream, share))
        if found is None:
            found = self.factors[stream, share] = self.streams[stream].inference_profile.factor(share)
        return found

    def _fitting(self, stream: str, retraining: float) -> list[tuple[float, RetrainingOption]]:
        """Options that end in the time left at this share, with the part of it that they take."""
        out = []
        for option in self.candidates[stream]:
            speed = option.speed(retraining)
            work = remaining_work(self.streams[stream], option)
            if speed > 0 and work <= speed * self.time_s + SLACK:
                out.append((work / speed / self.time_s, option))
        return out

    def momentary(self, stream: str, accuracy: float, factor: float) -> float:
        """Momentary worth: -inf under a hard floor, less by the penalty under a soft one."""
        floor, hard = self.floors[stream]
        value = accuracy * factor
        if floor <= 0 or value >= floor - SLACK:
            return value
        return -math.inf if hard else value - SHORTFALL_PENALTY * (floor - value)


@dataclass(frozen=True)
class _FloorTable:
    """Floors by stream as (level, hard), and the values that tell which share keeps them."""

    floors: Floors
    by_stream: Mapping[str, tuple[float, bool]]
    shares: tuple[float, ...]
    factor: Mapping[str, FloatArray]

    def least(self, streams: Mapping[str, StreamProblem]) -> dict[str, float]:
        """The least inference share that keeps each stream's hard floor with the model that it has now."""
        out = {}
        for name, stream in streams.items():
            level, hard = self.by_stream[name]
            enough = stream.start_accuracy * self.factor[name] >= level - SLACK
            out[name] = self.shares[int(np.argmax(enough))] if hard and level > 0 else 0.0
        return out


def _floor_table(problem: WindowProblem) -> _FloorTable:
    quantum = share_quantum(problem)
    total = quanta(problem.num_gpus, quantum)
    device = min(total, quanta(1.0, quantum))
    shares = tuple(as_share(k, quantum) for k in range(device + 1))
    factor = np.array([[s.inference_profile.factor(x) for x in shares] for s in problem.streams])
    floors = find_floors(problem, factor, total, quantum)
    by_stream = {s.id: (float(floors.level[i]), bool(floors.hard[i])) for i, s in enumerate(problem.streams)}
    return _FloorTable(floors, by_stream, shares, {s.id: factor[i] for i, s in enumerate(problem.streams)})


def fair_allocation(problem: WindowProblem, jobs: Jobs, least: Mapping[str, float]) -> Allocation:
    """The same share for every job, at most one device; inference jobs are first raised to what the floor needs."""
    step = problem.share_step
    alloc: Allocation = dict.fromkeys(jobs, 0.0)
    open_jobs = list(jobs)
    left = problem.num_gpus
    while open_jobs:
        fair = min(1.0, max(0.0, left) / len(open_jobs))
        short = [j for j in open_jobs if j[1] == "inference" and least[j[0]] > fair + SLACK]
        if not short:
            for job in open_jobs:
                alloc[job] = fair if step is None else round(quanta(fair, step) * step, 9)
            break
        for job in short:
            alloc[job] = least[job[0]]
            left -= alloc[job]
        open_jobs = [j for j in open_jobs if j not in short]
    return alloc


def estimate(
    valuation: _Valuation, alloc: Mapping[tuple[str, Kind], float], picked: Mapping[str, RetrainingOption | None]
) -> float:
    """EstimateAccuracy over the time left: sum over streams of accuracy x seconds at this allocation.

    The share of a retraining that ends is spread evenly over the jobs that are left, as the published code does when
    a job completes. Whether that is what happens is decided anew then; here it is the estimate.
    """
    left = valuation.time_s
    ends: list[str] = [s for s, o in picked.items() if o is not None]
    extra = 0.0  # the gain of every remaining job so far from ended ones
    inference = {s: alloc[s, "inference"] for s in picked}
    work = {s: remaining_work(valuation.streams[s], o) for s, o in picked.items() if o is not None}
    jobs_left = len(alloc)
    rate = {
        s: valuation.momentary(s, valuation.streams[s].start_accuracy, valuation.factor(s, inference[s]))
        for s in picked
    }
    accuracy = {s: valuation.streams[s].start_accuracy for s in picked}
    total = 0.0
    while left > 0:
        step, first = left, None
        speeds: dict[str, float] = {}
        for s in ends:
            option = picked[s]
            assert option is not None
            speed = speeds[s] = option.speed(min(1.0, alloc[s, "retraining"] + extra))
            if work[s] < speed * step:
                step, first = work[s] / speed, s
        total += sum(rate.values()) * step
        left -= step
        if first is None:
            break
        for s in ends:
            work[s] -= speeds[s] * step
        ends.remove(first)
        option = picked[first]
        assert option is not None
        accuracy[first] = option.end_accuracy
        jobs_left -= 1
        extra += (alloc[first, "retraining"] + extra) / jobs_left
        for s in picked:
            rate[s] = valuation.momentary(s, accuracy[s], valuation.factor(s, min(1.0, inference[s] + extra)))
    return total


def steal(valuation: _Valuation, jobs: Jobs, alloc: Allocation, delta: float) -> Allocation:
    """Algorithm 1 from the allocation given: the best allocation found by stealing `delta` at a time."""
    alloc = dict(alloc)

    def pick(stream: str, a: Allocation) -> RetrainingOption | None:
        return valuation.worth(stream, a[stream, "inference"], a.get((stream, "retraining"), 0.0))[1]

    picked = {s: pick(s, alloc) for s in valuation.streams}
    best = estimate(valuation, alloc, picked)
    for thief in jobs:
        for victim in jobs:
            while victim != thief:
                given, taken = round(alloc[victim] - delta, 9), round(alloc[thief] + delta, 9)
                if given < 0 or taken > 1.0 + SLACK:
                    break
                trial = alloc | {victim: given, thief: taken}
                trial_picked = picked | {s: pick(s, trial) for s in (thief[0], victim[0])}
                accuracy = estimate(valuation, trial, trial_picked)
                if not accuracy > best + 1e-12 * valuation.time_s:
                    break
                alloc, picked, best = trial, trial_picked, accuracy
    return alloc


def play(
    policy: str,
    problem: WindowProblem,
    candidates: Mapping[str, tuple[RetrainingOption, ...]],
    *,
    stealing: bool,
    picking: bool = True,
) -> WindowPlan:
    """The window under replanning on every completed retraining.

    `candidates` are the options that may be picked; those that end no better than the model in force are left out.
    Without `stealing` the allocation stays fair; without `picking` the (single) candidate of each stream is retrained
    whether it pays off in this window or not, unless it would break the floor.
    """
    table = _floor_table(problem)
    delta = coarse_quantum(problem)
    # A retraining that ends no better is not a job: the gate would hold its model back, and it would hold a share.
    open_options = {
        s.id: tuple(o for o in candidates[s.id] if o.end_accuracy > s.start_accuracy) for s in problem.streams
    }
    streams = {s.id: s for s in problem.streams}
    now = problem.label_delay_s
    segments: list[Segment] = []
    while now < problem.window_s:
        moment = replace(problem, streams=tuple(streams.values()))
        valuation = _Valuation(moment, problem.window_s - now, table.by_stream, open_options)
        jobs: Jobs = tuple(
            (s, kind) for s in streams for kind in (("inference", "retraining") if open_options[s] else ("inference",))
        )
        alloc = fair_allocation(moment, jobs, table.least(streams))
        if stealing:
            alloc = steal(valuation, jobs, alloc, delta)
        allocations, ends = _decided(valuation, alloc, picking)
        segments.append(Segment(now, allocations))
        over = min((now + seconds for seconds, _ in ends.values()), default=math.inf)
        if over >= problem.window_s:
            break
        for s, stream in streams.items():
            if s not in ends:
                streams[s] = replace(stream, running=None, device_seconds_done=0.0)
                continue
            seconds, option = ends[s]
            if now + seconds <= over + SAME_INSTANT_S:
                streams[s] = replace(stream, start_accuracy=option.end_accuracy, running=None, device_seconds_done=0.0)
                open_options[s] = ()
            else:
                before = stream.device_seconds_done if stream.running == option.id else 0.0
                done = before + option.speed(allocations[s].retraining_share) * (over - now)
                streams[s] = replace(stream, running=option.id, device_seconds_done=done)
        now = over
    return make_plan(policy, problem, without_empty(segments), table.floors.faults)


def _decided(
    valuation: _Valuation, alloc: Allocation, picking: bool
) -> tuple[dict[str, StreamAllocation], dict[str, tuple[float, RetrainingOption]]]:
    """Each stream's part of an allocation, and the retrainings that come to an end at it, with the seconds that each
    takes from now on."""
    allocations: dict[str, StreamAllocation] = {}
    ends: dict[str, tuple[float, RetrainingOption]] = {}
    for s, stream in valuation.streams.items():
        inference, retraining = alloc[s, "inference"], alloc.get((s, "retraining"), 0.0)
        option = (
            valuation.worth(s, inference, retraining)[1] if picking else _fixed(valuation, s, inference, retraining)
        )
        if option is None:
            allocations[s] = StreamAllocation(inference)
            continue
        allocations[s] = StreamAllocation(inference, retraining, option.id)
        speed = option.speed(retraining)
        if speed > 0:
            ends[s] = remaining_work(stream, option) / speed, option
    return allocations, ends


def _fixed(valuation: _Valuation, stream: str, inference: float, retraining: float) -> RetrainingOption | None:
    """The stream's one candidate, unless it would break the floor."""
    if not valuation.candidates[stream] or retraining <= 0:
        return None
    option = valuation.candidates[stream][0]
    factor = valuation.streams[stream].inference_profile.factor(inference)
    return None if valuation.momentary(stream, option.end_accuracy, factor) == -math.inf else option


class ThiefPolicy:
    """The published scheduler, with replanning on every completed retraining."""

    name = "thief"

    def plan(self, problem: WindowProblem) -> WindowPlan:
        """The plan that Algorithms 1 and 2 find; `faults` where the floor cannot be kept."""
        return play(self.name, problem, {s.id: s.options for s in problem.streams}, stealing=True)

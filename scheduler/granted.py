"""A plan as the share kind in force can grant it: shares rounded to its steps, instants moved to fit, valued anew.

Policies that know the step (`WindowProblem.share_step`) plan in it already; this holds for any plan, also for a step
that came into force later and for the smallest share that a worker can have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from edge.core.shares import ShareCaps
from edge.core.window import RetrainingOption, Segment, StreamAllocation, WindowPlan, WindowProblem
from scheduler.static import SAME_INSTANT_S, all_faults, without_empty
from scheduler.timeline import EPSILON, evaluate

#: The step used where a share kind is continuous (devices).
CONTINUOUS_STEP = 0.001

_Key = tuple[str, Literal["inference", "retraining"]]


@dataclass
class _Progress:
    """A stream while the plan is played: accuracy now, GPU-seconds done by configuration, configurations over."""

    accuracy: float
    work: dict[str, float]
    over: set[str]


def grant(problem: WindowProblem, plan: WindowPlan, caps: ShareCaps) -> WindowPlan:
    """`plan` in shares that `caps` can grant, on at most the problem's devices, with its new objective.

    Shares are rounded down; what that frees goes first to streams under the floor, then to workers that would have
    nothing, then back to retrainings (up to what they were promised), then to whatever inference gains most, and last
    to retrainings. Where a retraining now takes longer, the segments after it start later.
    """
    step = caps.step if caps.step is not None else CONTINUOUS_STEP
    options = {s.id: {o.id: o for o in s.options} for s in problem.streams}
    state: dict[str, _Progress] = {}
    for stream in problem.streams:
        work = {} if stream.running is None else {stream.running: stream.work_done}
        state[stream.id] = _Progress(stream.start_accuracy, work, set())
    ended = evaluate(problem, plan.segments).completed
    now = plan.segments[0].start_s
    segments: list[Segment] = []
    for n, segment in enumerate(plan.segments):
        accuracy = {k: v.accuracy for k, v in state.items()}
        shares = _granted_segment(problem, segment.streams, accuracy, caps, step)
        segments.append(Segment(now, shares))
        if n + 1 == len(plan.segments):
            break
        boundary = plan.segments[n + 1].start_s
        waits = [
            _seconds_left(options[s][name], state[s], shares[s].retraining_share)
            for s, done in ended.items()
            for name, at in done
            if abs(at - boundary) <= SAME_INSTANT_S and name not in state[s].over
        ]
        finite = [w for w in waits if w is not None]
        length = max(finite) if finite else boundary - segment.start_s
        if now + length >= problem.window_s:
            break
        for s, a in shares.items():
            _advance(state[s], options[s].get(a.retrain_config or ""), a.retraining_share, length)
        now += length
    granted = tuple(without_empty(segments))
    outcome = evaluate(problem, granted)
    words = f"shares as {caps.kind} grants them (steps of {step:g}, at least {caps.min_share:g})"
    whole = plan.reasons.get("", "")
    reasons = dict(plan.reasons) | {"": f"{whole}; {words}" if whole else words}
    faults = all_faults(problem, outcome, plan.faults)
    return replace(plan, segments=granted, objective=outcome.objective, reasons=reasons, faults=faults)


def _seconds_left(option: RetrainingOption, progress: _Progress, share: float) -> float | None:
    speed = option.speed(share)
    if speed <= 0:
        return None
    return max(0.0, option.gpu_seconds - progress.work.get(option.id, 0.0)) / speed


def _advance(progress: _Progress, option: RetrainingOption | None, share: float, length: float) -> None:
    """Play `length` seconds of a retraining."""
    if option is None or option.id in progress.over:
        return
    done = progress.work.get(option.id, 0.0) + option.speed(share) * length
    progress.work[option.id] = done
    if share > EPSILON and done >= option.gpu_seconds - EPSILON:
        progress.over.add(option.id)
        progress.accuracy = option.end_accuracy


def _granted_segment(
    problem: WindowProblem,
    asked: Mapping[str, StreamAllocation],
    accuracy: Mapping[str, float],
    caps: ShareCaps,
    step: float,
) -> dict[str, StreamAllocation]:
    """One segment's shares in steps, never more than the devices together nor than one device per job."""
    wish: dict[_Key, float] = {}
    for s in problem.streams:
        a = asked.get(s.id, StreamAllocation(0.0))
        wish[s.id, "inference"] = a.inference_share
        if a.retrain_config is not None and a.retraining_share > 0:
            wish[s.id, "retraining"] = a.retraining_share
    # Down to the sixth digit: a share that was rounded up, times many cameras, is more than there is.
    given: dict[_Key, float] = {
        k: min(caps.quantize(min(1.0, v)), math.floor(min(1.0, v) * 1e6 + 1e-3) / 1e6) for k, v in wish.items()
    }
    profiles = {s.id: s.inference_profile for s in problem.streams}
    floor = problem.a_min or 0.0

    def rise(key: _Key) -> float:
        """What one more step is: the least share for a worker that has none."""
        least = math.ceil(caps.min_share / step - 1e-9) * step if given[key] == 0 else step
        return round(max(step, least), 6)

    def free() -> float:
        return problem.num_gpus - sum(given.values()) + 1e-9

    def worth(stream: str, share: float) -> float:
        return accuracy[stream] * profiles[stream].factor(share)

    def lift(key: _Key) -> bool:
        if given[key] + rise(key) > 1.0 + 1e-9 or rise(key) > free():
            return False
        given[key] = round(given[key] + rise(key), 6)
        return True

    serving: list[_Key] = [k for k in wish if k[1] == "inference"]
    training: list[_Key] = [k for k in wish if k[1] == "retraining"]
    for key in serving:
        reachable = worth(key[0], wish[key]) >= floor - EPSILON
        while reachable and worth(key[0], given[key]) < floor - EPSILON and lift(key):
            pass
    for key in serving + training:
        if given[key] == 0 and wish[key] > 0:
            lift(key)
    for key in training:
        while given[key] < wish[key] - 1e-9 and lift(key):
            pass
    while True:
        gains = []
        for key in serving:
            # Look some steps ahead: a factor curve may be flat before it rises.
            for steps in (1, 2, 4, 8):
                to = given[key] + rise(key) + (steps - 1) * step
                if to <= 1.0 + 1e-9 and to - given[key] <= free():
                    gain = worth(key[0], to) - worth(key[0], given[key])
                    gains.append((gain / (to - given[key]), key, to))
        best = max(gains, default=(0.0, ("", "inference"), 0.0))
        if best[0] <= 1e-9:
            break
        given[best[1]] = round(best[2], 6)
    for key in training:
        while lift(key):
            pass
    out = {}
    for s in problem.streams:
        retraining = given.get((s.id, "retraining"), 0.0)
        name = asked[s.id].retrain_config if retraining > 0 and s.id in asked else None
        out[s.id] = StreamAllocation(given[s.id, "inference"], retraining, name)
    return out

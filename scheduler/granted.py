"""A plan as the share kind in force can grant it: shares rounded to its steps, instants moved to fit, valued anew.

Policies that know the step (`WindowProblem.share_step`) plan in it already; this holds for any plan, also for a step
that came into force later and for the smallest share that a worker can have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from edge.core.plan_reasons import PlanReason
from edge.core.shares import ShareCaps
from edge.core.window import RetrainingOption, Segment, StreamAllocation, WindowPlan, WindowProblem
from scheduler.static import SAME_INSTANT_S, all_faults, with_present_shares, without_empty
from scheduler.timeline import EPSILON, evaluate

#: The step used where a share kind is continuous (devices).
CONTINUOUS_STEP = 0.001

_Key = tuple[str, Literal["inference", "retraining"]]


@dataclass
class _Progress:
    """A stream while the plan is played: accuracy now, device seconds done by configuration, configurations over."""

    accuracy: float
    work: dict[str, float]
    over: set[str]


def grant(problem: WindowProblem, plan: WindowPlan, caps: ShareCaps) -> WindowPlan:
    """`plan` in shares that `caps` can grant, on at most the problem's devices, with its new objective.

    Shares are rounded down; the freed rest goes first to streams under the floor, then to workers that would have
    nothing, then back to retrainings (up to what they were promised), then to the inference that gains most, and last
    to retrainings. Where a retraining now takes longer, the segments after it start later.
    """
    step = caps.step if caps.step is not None else CONTINUOUS_STEP
    options = {s.id: {o.id: o for o in s.options} for s in problem.streams}
    state: dict[str, _Progress] = {}
    for stream in problem.streams:
        work = {} if stream.running is None else {stream.running: stream.device_seconds_done}
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
    why = PlanReason("granted", name=caps.kind, numbers={"step": step, "least": caps.min_share})
    reasons = with_present_shares(problem, plan.reasons, granted) | {"": (*plan.reasons.get("", ()), why)}
    faults = all_faults(problem, outcome, plan.faults)
    return replace(plan, segments=granted, objective=outcome.objective, reasons=reasons, faults=faults)


def _seconds_left(option: RetrainingOption, progress: _Progress, share: float) -> float | None:
    speed = option.speed(share)
    if speed <= 0:
        return None
    return max(0.0, option.device_seconds - progress.work.get(option.id, 0.0)) / speed


def _advance(progress: _Progress, option: RetrainingOption | None, share: float, length: float) -> None:
    """Play `length` seconds of a retraining."""
    if option is None or option.id in progress.over:
        return
    done = progress.work.get(option.id, 0.0) + option.speed(share) * length
    progress.work[option.id] = done
    if share > EPSILON and done >= option.device_seconds - EPSILON:
        progress.over.add(option.id)
        progress.accuracy = option.end_accuracy


class _SegmentShares:
    """The shares of one segment's jobs, in steps: `given` never exceed the devices together nor one device per job.

    `accuracy` is that of each stream's model in the segment; `step` is the share kind's. Methods raise `given`.
    """

    def __init__(
        self,
        problem: WindowProblem,
        asked: Mapping[str, StreamAllocation],
        accuracy: Mapping[str, float],
        caps: ShareCaps,
        step: float,
    ) -> None:
        self._problem, self._asked, self._accuracy = problem, asked, accuracy
        self._caps, self._step = caps, step
        self._profiles = {s.id: s.inference_profile for s in problem.streams}
        self.wish: dict[_Key, float] = {}
        for s in problem.streams:
            a = asked.get(s.id, StreamAllocation(0.0))
            self.wish[s.id, "inference"] = a.inference_share
            if a.retrain_config is not None and a.retraining_share > 0:
                self.wish[s.id, "retraining"] = a.retraining_share
        # Down to the sixth digit: a share that was rounded up, times many cameras, is more than there is.
        self.given: dict[_Key, float] = {
            k: min(caps.quantize(min(1.0, v)), math.floor(min(1.0, v) * 1e6 + 1e-3) / 1e6) for k, v in self.wish.items()
        }
        self._serving = [k for k in self.wish if k[1] == "inference"]
        self._training = [k for k in self.wish if k[1] == "retraining"]

    def keep_floors(self) -> None:
        """Lift streams that rounding has put under the floor."""
        floor = self._problem.a_min or 0.0
        for key in self._serving:
            reachable = self._worth(key[0], self.wish[key]) >= floor - EPSILON
            while reachable and self._worth(key[0], self.given[key]) < floor - EPSILON and self._lift(key):
                pass

    def start_workers(self) -> None:
        """Give workers that would have nothing the least that they can have."""
        for key in self._serving + self._training:
            if self.given[key] == 0 and self.wish[key] > 0:
                self._lift(key)

    def restore_retrainings(self) -> None:
        """Give retrainings what they were promised."""
        for key in self._training:
            while self.given[key] < self.wish[key] - 1e-9 and self._lift(key):
                pass

    def raise_inference(self) -> None:
        """Give what is left to the inference that gains most by it, step by step, as long as any gains."""
        while True:
            gains = []
            for key in self._serving:
                # Look some steps ahead: a factor curve may be flat before it rises.
                for steps in (1, 2, 4, 8):
                    to = self.given[key] + self._rise(key) + (steps - 1) * self._step
                    if to <= 1.0 + 1e-9 and to - self.given[key] <= self._free():
                        gain = self._worth(key[0], to) - self._worth(key[0], self.given[key])
                        gains.append((gain / (to - self.given[key]), key, to))
            best = max(gains, default=(0.0, ("", "inference"), 0.0))
            if best[0] <= 1e-9:
                return
            self.given[best[1]] = round(best[2], 6)

    def raise_retrainings(self) -> None:
        """Give retrainings all that is left."""
        for key in self._training:
            while self._lift(key):
                pass

    def allocations(self) -> dict[str, StreamAllocation]:
        """The grant of each stream; without a share there is no retraining."""
        out = {}
        for s in self._problem.streams:
            retraining = self.given.get((s.id, "retraining"), 0.0)
            name = self._asked[s.id].retrain_config if retraining > 0 and s.id in self._asked else None
            out[s.id] = StreamAllocation(self.given[s.id, "inference"], retraining, name)
        return out

    def _rise(self, key: _Key) -> float:
        """The size of one more step: the least share for a worker that has none."""
        least = math.ceil(self._caps.min_share / self._step - 1e-9) * self._step if self.given[key] == 0 else self._step
        return round(max(self._step, least), 6)

    def _free(self) -> float:
        return self._problem.num_gpus - sum(self.given.values()) + 1e-9

    def _worth(self, stream: str, share: float) -> float:
        return self._accuracy[stream] * self._profiles[stream].factor(share)

    def _lift(self, key: _Key) -> bool:
        """Give one more step; False if there is none to give."""
        if self.given[key] + self._rise(key) > 1.0 + 1e-9 or self._rise(key) > self._free():
            return False
        self.given[key] = round(self.given[key] + self._rise(key), 6)
        return True


def _granted_segment(
    problem: WindowProblem,
    asked: Mapping[str, StreamAllocation],
    accuracy: Mapping[str, float],
    caps: ShareCaps,
    step: float,
) -> dict[str, StreamAllocation]:
    """One segment's shares in steps; `grant` tells which workers get the share that rounding frees."""
    shares = _SegmentShares(problem, asked, accuracy, caps, step)
    shares.keep_floors()
    shares.start_workers()
    shares.restore_retrainings()
    shares.raise_inference()
    shares.raise_retrainings()
    return shares.allocations()

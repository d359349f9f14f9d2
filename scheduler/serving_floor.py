"""Every camera keeps answering: no plan may leave a live stream less than its cheapest inference configuration needs,
nor take it under a floor that the devices could hold.

An objective that is a mean may give nothing to a camera whose model is worthless now; an operator still wants to see
what it sees, and its sample needs answers. So the least share of each stream is kept under every policy. A
policy plans in quanta: cameras whose floors would all fit in finer steps are given those.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from edge.core.plan_reasons import PlanReason
from edge.core.window import Segment, StreamAllocation, StreamProblem, WindowPlan, WindowProblem
from scheduler.static import all_faults, with_present_shares
from scheduler.timeline import Outcome, evaluate

#: Each camera is counted with at least this, even under a lower floor: a camera without a share sees nothing.
LEAST_SHARE = 0.02
_EPS = 1e-6


def least_share(stream: StreamProblem) -> float:
    """Share (devices) of the cheapest inference configuration; 0 where none was profiled."""
    points = stream.inference_profile.points
    return min((p.share for p in points), default=0.0)


def reachable(problem: WindowProblem, stream: StreamProblem) -> bool:
    """Whether there is a floor, and the model in force can keep it at all."""
    floor = problem.a_min or 0.0
    return floor > 0 and stream.start_accuracy * stream.inference_profile.factor(1.0) >= floor - _EPS


def floor_share(problem: WindowProblem, stream: StreamProblem) -> float:
    """The least share (devices), in steps that can be granted, that keeps a stream answering, and at the floor where it
    can reach it with the model in force."""
    share = least_share(stream)
    if reachable(problem, stream):
        low, high = 0.0, 1.0
        for _ in range(20):
            middle = (low + high) / 2
            if stream.start_accuracy * stream.inference_profile.factor(middle) >= (problem.a_min or 0.0) - _EPS:
                high = middle
            else:
                low = middle
        share = max(share, high)
    return in_steps(problem, share)


def floors_share(problem: WindowProblem | None) -> float:
    """Devices with which every stream keeps its floor, each with LEAST_SHARE at least; may be more than there are
    (0 of None: no stream)."""
    if problem is None:
        return 0.0
    least = in_steps(problem, LEAST_SHARE)
    return sum(max(floor_share(problem, s), least) for s in problem.streams)


def in_steps(problem: WindowProblem, share: float) -> float:
    """`share` rounded up to what can be granted."""
    step = problem.share_step or 0.0
    return share if step <= 0 else math.ceil(share / step - 1e-3) * step


def keep_serving(problem: WindowProblem, plan: WindowPlan) -> WindowPlan:
    """`plan` with at least the least share for every stream, valued anew; unchanged where it has them already. Where it
    breaks a floor although the devices could hold all that can be reached, each stream gets the share that holds its
    own. A stream that falls under its floor by what others get is among the faults.

    The missing share is taken from inference that has more than its own least share, the largest first, then from
    retrainings. Where the devices cannot even hold all least shares, each gets the same part of its own.
    """
    least = {s.id: least_share(s) for s in problem.streams}
    total = sum(least.values())
    if total > problem.num_gpus:
        least = {k: v * problem.num_gpus / total for k, v in least.items()}
    elif _breaks_floor(problem, plan):
        floors = {s.id: floor_share(problem, s) for s in problem.streams}
        if sum(floors.values()) <= problem.num_gpus + _EPS:
            least = floors
    segments = tuple(Segment(s.start_s, _lifted(dict(s.streams), least)) for s in plan.segments)
    if segments == plan.segments:
        return plan
    why = PlanReason("least_kept")
    reasons = with_present_shares(problem, plan.reasons, segments) | {"": (*plan.reasons.get("", ()), why)}
    outcome = evaluate(problem, segments)
    held = {s.id for s in problem.streams if problem.a_min and not _below(problem, outcome, s)}
    faults = all_faults(problem, outcome, [f for f in plan.faults if f.camera not in held])
    return replace(plan, segments=segments, objective=outcome.objective, reasons=reasons, faults=faults)


def _breaks_floor(problem: WindowProblem, plan: WindowPlan) -> bool:
    """Whether it takes a stream under a floor that its model could keep."""
    able = [s for s in problem.streams if reachable(problem, s)]
    if not able:
        return False
    outcome = evaluate(problem, plan.segments)
    return any(_below(problem, outcome, s) for s in able)


def _below(problem: WindowProblem, outcome: Outcome, stream: StreamProblem) -> bool:
    return outcome.lowest[stream.id] < (problem.a_min or 0.0) - _EPS


def _lifted(streams: dict[str, StreamAllocation], least: Mapping[str, float]) -> dict[str, StreamAllocation]:
    missing = {k: least[k] - a.inference_share for k, a in streams.items() if a.inference_share < least[k] - 1e-9}
    need = sum(missing.values())
    if not missing:
        return streams
    for k in missing:
        streams[k] = replace(streams[k], inference_share=least[k])
    for k in sorted(streams, key=lambda k: least[k] - streams[k].inference_share):
        a = streams[k]
        taken = min(need, max(0.0, a.inference_share - least[k]))
        if taken > 0:
            streams[k], need = replace(a, inference_share=a.inference_share - taken), need - taken
    for k in sorted(streams, key=lambda k: -streams[k].retraining_share):
        a = streams[k]
        taken = min(need, a.retraining_share)
        if taken > 0:
            streams[k], need = replace(a, retraining_share=a.retraining_share - taken), need - taken
    return streams

"""Every camera keeps answering: no plan may leave a live stream less than its cheapest inference configuration needs.

An objective that is a mean may give nothing to a camera whose model is worthless now; an operator still wants to see
what it sees, and its sample needs answers. So the least share of each stream is kept whatever the policy proposes.
"""

from __future__ import annotations

from dataclasses import replace

from edge.core.window import Segment, StreamAllocation, StreamProblem, WindowPlan, WindowProblem
from scheduler.timeline import evaluate


def least_share(stream: StreamProblem) -> float:
    """Share (devices) of the cheapest inference configuration; 0 where none was profiled."""
    points = stream.inference_profile.points
    return min((p.share for p in points), default=0.0)


def keep_serving(problem: WindowProblem, plan: WindowPlan) -> WindowPlan:
    """`plan` with at least the least share for every stream, valued anew; unchanged where it has them already.

    What is missing is taken from inference that has more than its own least share, the largest first, then from
    retrainings. Where the devices cannot even hold all least shares, each gets the same part of its own.
    """
    least = {s.id: least_share(s) for s in problem.streams}
    total = sum(least.values())
    if total > problem.num_gpus:
        least = {k: v * problem.num_gpus / total for k, v in least.items()}
    segments = tuple(Segment(s.start_s, _lifted(dict(s.streams), least)) for s in plan.segments)
    if segments == plan.segments:
        return plan
    words = "every camera keeps the share of its cheapest inference configuration"
    whole = plan.reasons.get("", "")
    reasons = dict(plan.reasons) | {"": f"{whole}; {words}" if whole else words}
    return replace(plan, segments=segments, objective=evaluate(problem, segments).objective, reasons=reasons)


def _lifted(streams: dict[str, StreamAllocation], least: dict[str, float]) -> dict[str, StreamAllocation]:
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

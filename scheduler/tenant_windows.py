"""One plan of a window, made tenant by tenant: the cameras of each within its budget, the plans united in time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from edge.core.plan_basis import CameraBudget, PlanRequest
from edge.core.plan_reasons import PlanReason
from edge.core.window import Segment, StreamAllocation, WindowPlan, WindowProblem

_LEAST = 1e-6


def by_tenant(request: PlanRequest, plan: Callable[[PlanRequest], WindowPlan]) -> WindowPlan:
    """`plan` asked once per tenant with cameras, each time with the tenant's part of the problem's devices. Parts are
    in proportion to the budgets; they sum to what there is. With one tenant at most, it is asked as without."""
    groups = camera_groups(request.budgets, request.problem)
    if len(groups) < 2:
        return plan(replace(request, budgets=()))
    problem, current = request.problem, request.current
    found = []
    for cameras, num_gpus in groups:
        streams = tuple(s for s in problem.streams if s.id in cameras)
        mine = None if current is None else replace(current, segments=_only(current, cameras))
        part = replace(problem, streams=streams, num_gpus=num_gpus)
        found.append((len(streams), plan(PlanRequest(request.policy, part, mine, request.age_s))))
    return _united(found)


def camera_groups(budgets: Sequence[CameraBudget], problem: WindowProblem) -> list[tuple[frozenset[str], float]]:
    """The cameras of each tenant that are there, and its devices. Cameras that no budget names (they came just now)
    are a group with a part by their number."""
    there = [s.id for s in problem.streams]
    groups = [(frozenset(b.cameras) & frozenset(there), b.share) for b in budgets]
    groups = [(cameras, share) for cameras, share in groups if cameras]
    named = frozenset(c for cameras, _ in groups for c in cameras)
    others = frozenset(there) - named
    if others and groups:
        mean = sum(share for _, share in groups) / len(named)
        groups.append((others, mean * len(others)))
    total = sum(share for _, share in groups)
    if total <= 0:
        return []
    return [(cameras, max(_LEAST, problem.num_gpus * share / total)) for cameras, share in groups]


def _only(plan: WindowPlan, cameras: frozenset[str]) -> tuple[Segment, ...]:
    return tuple(replace(s, streams={k: a for k, a in s.streams.items() if k in cameras}) for s in plan.segments)


def _united(found: Sequence[tuple[int, WindowPlan]]) -> WindowPlan:
    starts = sorted({s.start_s for _, p in found for s in p.segments})
    segments = []
    for start in starts:
        streams: dict[str, StreamAllocation] = {}
        for _, plan in found:
            past = [s for s in plan.segments if s.start_s <= start]
            if past:
                streams.update(past[-1].streams)
        segments.append(Segment(start, streams))
    reasons: dict[str, tuple[PlanReason, ...]] = {}
    for _, plan in found:
        for stream, why in plan.reasons.items():
            reasons[stream] = (*reasons.get(stream, ()), *why)
    count = sum(n for n, _ in found)
    first = found[0][1]
    return replace(
        first,
        objective=sum(n * p.objective for n, p in found) / count,
        segments=tuple(segments),
        decision_seconds=sum(p.decision_seconds for _, p in found),
        reasons=reasons,
        faults=tuple(f for _, p in found for f in p.faults),
    )

"""One wrapper around any window policy: bounds, hysteresis and minimum dwell. Time comes in as a value."""

from __future__ import annotations

from dataclasses import dataclass, replace

from edge.core import checks
from edge.core.window import RetrainingOption, Segment, StreamProblem, WindowPlan, WindowProblem
from scheduler.policies import WindowPolicy
from scheduler.timeline import EPSILON, evaluate


@dataclass(frozen=True)
class Limits:
    """The limits of a policy's proposals.

    `headroom` devices are never given out; options that gain less than `min_gain` (accuracy 0-1) or need more than
    `max_device_seconds` are not offered; with `cautious` an option counts with the low end of its estimate. A plan in
    force stays unless a new one is better by more than `improve_by` (objective, 0-1), and at least `dwell_s` seconds.
    """

    headroom: float = 0.0
    min_gain: float = 0.0
    max_device_seconds: float | None = None
    cautious: bool = False
    improve_by: float = 0.002
    dwell_s: float = 0.0

    def __post_init__(self) -> None:
        checks.in_range("limits.headroom", self.headroom, 0.0, 4096)
        checks.in_range("limits.min_gain", self.min_gain, 0.0, 1.0)
        checks.in_range("limits.improve_by", self.improve_by, 0.0, 1.0)
        checks.in_range("limits.dwell_s", self.dwell_s, 0.0, 1e7)
        if self.max_device_seconds is not None:
            checks.positive("limits.max_device_seconds", self.max_device_seconds)


@dataclass(frozen=True)
class BoundedPlan:
    """The plan to follow, whether it is a new one, and why."""

    plan: WindowPlan
    changed: bool
    reason: str


class BoundedPolicy:
    """A window policy within limits; itself a window policy."""

    def __init__(self, policy: WindowPolicy, limits: Limits) -> None:
        self._policy = policy
        self._limits = limits

    @property
    def name(self) -> str:
        """The wrapped policy's name."""
        return self._policy.name

    def plan(self, problem: WindowProblem) -> WindowPlan:
        """The policy's plan within the bounds, valued on the whole problem. Raises InvalidValue if no device is
        left after the headroom."""
        plan = self._policy.plan(self.bounded(problem))
        return replace(plan, objective=evaluate(problem, plan.segments).objective)

    def replan(self, problem: WindowProblem, current: WindowPlan | None, age_s: float) -> BoundedPlan:
        """Keep `current` (in force for `age_s` seconds) or change to a new plan for what is left of the window.

        The problem's label delay says how much of the window is over. A plan that no longer fits the problem (other
        cameras, fewer devices, a retraining that is over, a floor that it breaks) is always replaced.
        """
        if current is None:
            return BoundedPlan(self.plan(problem), True, "no plan is in force")
        rest = remaining_segments(problem, current)
        broken = _broken(problem, rest)
        if broken:
            return BoundedPlan(self.plan(problem), True, broken)
        outcome = evaluate(problem, rest)
        kept = replace(current, segments=rest, objective=outcome.objective)
        if age_s < self._limits.dwell_s:
            return BoundedPlan(kept, False, f"in force for {age_s:.1f} s, at least {self._limits.dwell_s:g} s")
        new = self.plan(problem)
        floor = (problem.a_min or 0.0) - EPSILON
        lowest = evaluate(problem, new.segments).lowest
        if any(outcome.lowest[s] < floor <= lowest[s] for s in lowest):
            return BoundedPlan(new, True, "the plan in force would break the floor, the new one keeps it")
        gain = 100 * (new.objective - kept.objective)
        if gain > 100 * self._limits.improve_by:
            return BoundedPlan(new, True, f"better by {gain:.2f} points")
        return BoundedPlan(kept, False, f"a new plan is better by {gain:.2f} points only")

    def bounded(self, problem: WindowProblem) -> WindowProblem:
        """The problem as the policy sees it."""
        offered = {s.id: self._offered(s) for s in problem.streams}
        streams = tuple(s if offered[s.id] == s.options else replace(s, options=offered[s.id]) for s in problem.streams)
        return replace(problem, num_gpus=problem.num_gpus - self._limits.headroom, streams=streams)

    def _offered(self, stream: StreamProblem) -> tuple[RetrainingOption, ...]:
        limits = self._limits
        offered = []
        for option in stream.options:
            if limits.cautious and option.end_accuracy_low is not None:
                option = replace(option, end_accuracy=option.end_accuracy_low)
            enough = option.end_accuracy - stream.start_accuracy >= limits.min_gain
            affordable = limits.max_device_seconds is None or option.device_seconds <= limits.max_device_seconds
            if option.id == stream.running or (enough and affordable):
                offered.append(option)
        return tuple(offered)


def remaining_segments(problem: WindowProblem, plan: WindowPlan) -> tuple[Segment, ...]:
    """The rest of `plan` from the problem's label delay on: the segment in force starts there."""
    now = problem.label_delay_s
    past = [s for s in plan.segments if s.start_s <= now]
    later = tuple(s for s in plan.segments if s.start_s > now)
    return (replace(past[-1], start_s=now), *later) if past else later


def _broken(problem: WindowProblem, segments: tuple[Segment, ...]) -> str:
    """Why the segments do not fit the problem; empty if they do."""
    streams = {s.id: {o.id for o in s.options} for s in problem.streams}
    if not segments or segments[0].start_s > problem.label_delay_s + 1e-6:
        return "the plan in force has no segment for now"
    for segment in segments:
        if set(segment.streams) != set(streams):
            return "the cameras have changed"
        total = sum(a.inference_share + a.retraining_share for a in segment.streams.values())
        if total > problem.num_gpus + 1e-6:
            return f"the plan in force needs {total:.3g} devices, there are {problem.num_gpus:.3g}"
        for stream, a in segment.streams.items():
            if a.retrain_config is not None and a.retrain_config not in streams[stream]:
                return f"{stream}: {a.retrain_config} is over or no longer offered"
    running = {s.id: s.running for s in problem.streams if s.running is not None}
    for stream, option in running.items():
        if segments[0].streams[stream].retrain_config != option:
            return f"{stream}: {option} is later than planned"
    return ""

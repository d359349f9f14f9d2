"""Plans made of one fixed allocation per stream, and how any allocation becomes segments and a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edge.core.plan_faults import PlanFault
from edge.core.plan_reasons import PlanReason, PlanReasonCode
from edge.core.window import Arrival, Segment, StreamAllocation, StreamProblem, WindowPlan, WindowProblem
from scheduler.timeline import EPSILON, Outcome, evaluate, remaining_work

#: Two instants closer than this (seconds) are one.
SAME_INSTANT_S = 1e-7
#: Reasons of a camera whose model is retrained.
_RETRAINING: frozenset[PlanReasonCode] = frozenset({"retrain", "go_on"})


@dataclass(frozen=True)
class StreamChoice:
    """A stream's fixed choice: shares in devices, the configuration (None: no retraining), inference share after."""

    inference_share: float
    retraining_share: float = 0.0
    retrain_config: str | None = None
    inference_share_after: float | None = None  # None: as before


def option_of(stream: StreamProblem, name: str) -> int:
    """Position of the option called `name`."""
    return next(n for n, o in enumerate(stream.options) if o.id == name)


def static_segments(problem: WindowProblem, choices: Mapping[str, StreamChoice]) -> tuple[Segment, ...]:
    """Segments of fixed choices: each stream changes once, when its own retraining ends (if it ends in the window)."""
    ends: dict[str, float] = {}
    for stream in problem.streams:
        choice = choices[stream.id]
        if choice.retrain_config is None:
            continue
        option = stream.options[option_of(stream, choice.retrain_config)]
        speed = option.speed(choice.retraining_share)
        if speed > 0:
            ends[stream.id] = problem.label_delay_s + remaining_work(stream, option) / speed
    starts = [problem.label_delay_s]
    for end in sorted(ends.values()):
        if end < problem.window_s and end > starts[-1] + SAME_INSTANT_S:
            starts.append(end)
    segments = []
    for start in starts:
        allocations: dict[str, StreamAllocation] = {}
        for stream in problem.streams:
            c = choices[stream.id]
            if c.retrain_config is None:
                allocations[stream.id] = StreamAllocation(c.inference_share)
            elif ends.get(stream.id, float("inf")) > start + SAME_INSTANT_S:
                allocations[stream.id] = StreamAllocation(c.inference_share, c.retraining_share, c.retrain_config)
            else:
                after = c.inference_share if c.inference_share_after is None else c.inference_share_after
                allocations[stream.id] = StreamAllocation(after)
        segments.append(Segment(start, allocations))
    return tuple(segments)


def without_empty(segments: Sequence[Segment]) -> list[Segment]:
    """Without segments that end at (nearly) the instant at which they start; the next one takes their start."""
    out: list[Segment] = []
    for segment in segments:
        if out and segment.start_s <= out[-1].start_s + SAME_INSTANT_S:
            segment = Segment(out.pop().start_s, segment.streams)
        out.append(segment)
    return out


def describe(problem: WindowProblem, segments: Sequence[Segment]) -> dict[str, tuple[PlanReason, ...]]:
    """Reasons by stream: the retraining, its gain and cost, and the accuracy that the inference share keeps."""
    order = first_starts(segments)
    reasons: dict[str, tuple[PlanReason, ...]] = {}
    for stream in problem.streams:
        serve = _serving(stream, segments[0].streams[stream.id])
        config = next((s.streams[stream.id].retrain_config for s in segments if _trains(s, stream.id)), None)
        if config is None:
            gains = any(o.end_accuracy > stream.start_accuracy for o in stream.options)
            alone = PlanReason("not_worth_it" if gains else "no_gain", stream.id)
            reasons[stream.id] = (alone if stream.arrival is None else _lent(stream, stream.arrival), serve)
            continue
        option = stream.options[option_of(stream, config)]
        work = remaining_work(stream, option)
        numbers = {
            "points": 100 * (option.end_accuracy - stream.start_accuracy),
            "device_s": work,
            "place": order.index(stream.id) + 1,
            "places": len(order),
        }
        code: PlanReasonCode = "go_on" if stream.running == config else "retrain"
        reasons[stream.id] = (PlanReason(code, stream.id, config, numbers), serve)
    return reasons


def with_present_shares(
    problem: WindowProblem, reasons: Mapping[str, tuple[PlanReason, ...]], segments: Sequence[Segment]
) -> dict[str, tuple[PlanReason, ...]]:
    """The reasons of a plan whose shares were moved, with the inference shares that it has now at its start and the
    retrainings that still have a share."""
    found = dict(reasons)
    for stream, (learning, serve) in describe(problem, segments).items():
        if stream in found:
            retraining = learning if learning.code in _RETRAINING else None
            found[stream] = tuple(_present(reason, retraining, serve) for reason in found[stream])
    return found


def _present(reason: PlanReason, retraining: PlanReason | None, serve: PlanReason) -> PlanReason:
    """A camera's reason as shares are now; `retraining` None: its retraining has no share."""
    if reason.code == "inference":
        return serve
    if reason.code in _RETRAINING:
        return retraining or PlanReason("no_share", reason.camera, reason.name)
    return reason


def _serving(stream: StreamProblem, allocation: StreamAllocation) -> PlanReason:
    share = allocation.inference_share
    return PlanReason("inference", stream.id, numbers={"share": share, "kept": stream.inference_profile.factor(share)})


def _lent(stream: StreamProblem, arrival: Arrival) -> PlanReason:
    numbers = {"points": 100 * (arrival.accuracy - stream.start_accuracy), "arrives_s": arrival.at_s}
    return PlanReason("lent", stream.id, arrival.box, numbers)


def first_starts(segments: Sequence[Segment]) -> list[str]:
    """Streams that are retrained, in the order in which their retraining begins (larger share first on ties)."""
    begun: list[str] = []
    for segment in segments:
        fresh = [(-a.retraining_share, s) for s, a in segment.streams.items() if s not in begun and _trains(segment, s)]
        begun += [s for _, s in sorted(fresh)]
    return begun


def _trains(segment: Segment, stream: str) -> bool:
    a = segment.streams[stream]
    return a.retrain_config is not None and a.retraining_share > 0


def make_plan(
    policy: str,
    problem: WindowProblem,
    segments: Sequence[Segment],
    faults: Sequence[PlanFault] = (),
    whole: PlanReason | None = None,
) -> WindowPlan:
    """A plan with its objective under the scoring rule. `decision_seconds` is the caller's to fill: no clock here."""
    reasons = describe(problem, segments)
    if whole is not None:
        reasons[""] = (whole,)
    outcome = evaluate(problem, segments)
    return WindowPlan(
        policy, problem.name, outcome.objective, tuple(segments), 0.0, reasons, all_faults(problem, outcome, faults)
    )


def all_faults(problem: WindowProblem, outcome: Outcome, known: Sequence[PlanFault]) -> tuple[PlanFault, ...]:
    """The known faults, and every other stream that this plan takes under the floor: none goes unsaid."""
    if problem.a_min is None:
        return tuple(known)
    said = {fault.camera for fault in known}
    under = (
        PlanFault.under(stream, problem.a_min, low)
        for stream, low in outcome.lowest.items()
        if low < problem.a_min - EPSILON and stream not in said
    )
    return (*known, *under)

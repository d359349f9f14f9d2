"""The worth of a plan: a list of segments played under the scoring rule.

The rule is that of "retrain-infer-window/1" (docs/formats.md): mean over streams of the time average over the window
of accuracy(t) x factor(inference share(t)). Work on a configuration adds up over segments at the option's speed at
its share (equal to the share where no throughput was measured); when it reaches `device_seconds` the accuracy becomes
`end_accuracy` at that instant. Extensions: measured throughput curves, and work that was done before (`running`).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from edge.core.errors import InvalidValue
from edge.core.window import RetrainingOption, Segment, StreamAllocation, StreamProblem, WindowProblem

#: device seconds that still count as done; the same tolerance as the scoring rule's.
EPSILON = 1e-6

_IDLE = StreamAllocation(0.0)
#: Start and end in seconds, and the allocations by stream.
_Span = tuple[float, float, Mapping[str, StreamAllocation]]


class Step(NamedTuple):
    """One stretch of a stream's predicted timeline: constant share, factor and model accuracy."""

    start_s: float
    end_s: float
    accuracy: float
    factor: float

    @property
    def momentary(self) -> float:
        """Inference accuracy in this stretch."""
        return self.accuracy * self.factor


@dataclass(frozen=True)
class Outcome:
    """A plan's predicted result.

    `objective` in [0, 1]; `by_stream` the time average per stream; `lowest` the smallest momentary accuracy per
    stream from the first segment on; `completed` per stream (configuration, seconds after the window's start);
    `steps` the whole predicted timeline per stream.
    """

    objective: float
    by_stream: Mapping[str, float]
    lowest: Mapping[str, float]
    completed: Mapping[str, tuple[tuple[str, float], ...]]
    steps: Mapping[str, tuple[Step, ...]]


def remaining_work(stream: StreamProblem, option: RetrainingOption) -> float:
    """device seconds at full share that `option` still needs; only the running one has anything done."""
    done = stream.device_seconds_done if stream.running == option.id else 0.0
    return max(0.0, option.device_seconds - done)


def evaluate(problem: WindowProblem, segments: Sequence[Segment]) -> Outcome:
    """Play `segments` (ordered by `start_s`; the first at the label delay) from the window's start to its end.

    Raises InvalidValue for no segments, segments out of order, or a configuration that the stream does not have.
    """
    if not segments:
        raise InvalidValue("segments", [], "at least one segment")
    for a, b in itertools.pairwise(segments):
        if b.start_s < a.start_s - EPSILON:
            raise InvalidValue("segments[].start_s", b.start_s, f"at least {a.start_s:g}, that of the one before")
    window_s, delay_s = problem.window_s, problem.label_delay_s
    starts = [s.start_s for s in segments]
    spans = [
        (start, min(end, window_s), segment.streams)
        for start, end, segment in zip(starts, [*starts[1:], window_s], segments, strict=True)
    ]
    spans = list(itertools.takewhile(lambda span: span[0] < window_s, spans))
    fair = problem.num_gpus / len(problem.streams)
    by_stream: dict[str, float] = {}
    lowest: dict[str, float] = {}
    completed: dict[str, tuple[tuple[str, float], ...]] = {}
    timeline: dict[str, tuple[Step, ...]] = {}
    for stream in problem.streams:
        steps, low, done = _play(stream, spans)
        steps = _with_arrival(stream, steps)
        if delay_s > 0:
            before = Step(0.0, delay_s, stream.start_accuracy, stream.inference_profile.factor(fair))
            steps = [before, *steps]
        total = sum([accuracy * factor * (end - start) for start, end, accuracy, factor in steps])
        by_stream[stream.id] = total / window_s
        lowest[stream.id], completed[stream.id], timeline[stream.id] = low, tuple(done), tuple(steps)
    return Outcome(sum(by_stream.values()) / len(by_stream), by_stream, lowest, completed, timeline)


def _with_arrival(stream: StreamProblem, steps: list[Step]) -> list[Step]:
    """The steps where a model comes from another box meanwhile."""
    arrival = stream.arrival
    if arrival is None:
        return steps
    out: list[Step] = []
    for step in steps:
        if step.start_s < arrival.at_s < step.end_s:
            out.append(step._replace(end_s=arrival.at_s))
            step = step._replace(start_s=arrival.at_s)
        out.append(step if step.start_s < arrival.at_s else step._replace(accuracy=arrival.accuracy))
    return out


def _play(stream: StreamProblem, spans: Sequence[_Span]) -> tuple[list[Step], float, list[tuple[str, float]]]:
    """One stream's steps, its lowest momentary accuracy and its completions."""
    options = {o.id: o for o in stream.options}
    work: dict[str, float] = {}
    if stream.running is not None:
        work[stream.running] = stream.device_seconds_done
    accuracy, lowest = stream.start_accuracy, 1.0
    done: list[tuple[str, float]] = []
    finished: set[str] = set()
    steps: list[Step] = []
    for n, (start, end, streams) in enumerate(spans):
        allocation = streams.get(stream.id, _IDLE)
        name, share = allocation.retrain_config, allocation.retraining_share
        factor = stream.inference_profile.factor(allocation.inference_share)
        if end > start and accuracy * factor < lowest:
            lowest = accuracy * factor
        completion: float | None = None
        if name is not None:
            if name not in options:
                raise InvalidValue(f"segments[{n}].streams.{stream.id}.retrain_config", name, "an id of the stream")
            if name not in finished:
                speed = options[name].speed(share)
                left = options[name].device_seconds - work.get(name, 0.0)
                if share > EPSILON and speed > 0 and left <= speed * (end - start) + EPSILON:
                    completion = start + max(0.0, left) / speed
                work[name] = work.get(name, 0.0) + speed * (end - start)
        if completion is None or completion >= end:
            steps.append(Step(start, max(start, end), accuracy, factor))
        else:
            steps.append(Step(start, completion, accuracy, factor))
        if completion is not None and name is not None:
            accuracy = options[name].end_accuracy
            done.append((name, completion))
            finished.add(name)
            if completion < end:
                steps.append(Step(completion, end, accuracy, factor))
                lowest = min(lowest, accuracy * factor)
    return steps, lowest, done

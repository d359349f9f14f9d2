"""Plans in shares that a share kind can grant."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_problems import LINEAR, problems

from edge.core.plan_faults import PlanFault
from edge.core.profiles import InferenceProfile
from edge.core.shares import ShareCaps
from edge.core.window import RetrainingOption, Segment, StreamAllocation, StreamProblem, WindowPlan, WindowProblem
from scheduler.granted import grant
from scheduler.policies import window_policy
from scheduler.static import all_faults
from scheduler.timeline import evaluate


def caps(step: float | None, least: float = 0.0) -> ShareCaps:
    return ShareCaps("mps", "cpu", "cap", "live", least, step, 100.0, False, False, "worker")


@settings(max_examples=40, deadline=None)
@given(
    problem=problems(running=True),
    step=st.sampled_from([None, 0.01, 0.125, 0.2]),
    least=st.sampled_from([0.0, 0.05, 0.2]),
    policy=st.sampled_from(["relay", "thief", "exact"]),
)
def test_granted_shares_are_legal_and_valued(
    problem: WindowProblem, step: float | None, least: float, policy: str
) -> None:
    kind = caps(step, least)
    found = grant(problem, window_policy(policy).plan(problem), kind)
    for segment in found.segments:
        shares = [x for a in segment.streams.values() for x in (a.inference_share, a.retraining_share)]
        assert sum(shares) <= problem.num_gpus + 1e-6
        for share in shares:
            assert share == 0 or least - 1e-9 <= share <= 1 + 1e-9
            if step is not None:
                assert share / step == pytest.approx(round(share / step), abs=1e-4)
    assert found.objective == pytest.approx(evaluate(problem, found.segments).objective, abs=1e-12)
    for stream, allocation in found.segments[0].streams.items():
        told = [r.numbers["share"] for r in found.reasons[stream] if r.code == "inference"]
        assert told == [allocation.inference_share], "the reason says what is granted"
    starts = [s.start_s for s in found.segments]
    assert starts == sorted(set(starts))
    assert found.segments[0].start_s == pytest.approx(problem.label_delay_s)


def test_what_rounding_frees_goes_where_it_helps_most() -> None:
    """Steps of 0.2 on one device: 0.5 and 0.5 become 0.4 and 0.4; the step left over goes to the better camera."""
    weak, strong = (
        StreamProblem("weak", 0.3, InferenceProfile("linear", 1.0)),
        StreamProblem("strong", 0.9, InferenceProfile("linear", 1.0)),
    )
    problem = WindowProblem("r", 1.0, 100.0, (weak, strong))
    plan = WindowPlan("p", "r", 0.0, (Segment(0.0, {"weak": StreamAllocation(0.5), "strong": StreamAllocation(0.5)}),))
    shares = grant(problem, plan, caps(0.2)).segments[0].streams
    assert shares["strong"].inference_share == pytest.approx(0.6)
    assert shares["weak"].inference_share == pytest.approx(0.4)


def test_a_slower_retraining_moves_the_segments_after_it() -> None:
    """Asked 0.5 for 20 GPU-s (40 s) beside 0.5 for inference; in steps of 0.4 it gets 0.4: 50 s."""
    stream = StreamProblem("a", 0.4, LINEAR, (RetrainingOption("o", 0.8, 20.0),))
    problem = WindowProblem("m", 1.0, 100.0, (stream,))
    plan = WindowPlan(
        "p",
        "m",
        0.0,
        (Segment(0.0, {"a": StreamAllocation(0.5, 0.5, "o")}), Segment(40.0, {"a": StreamAllocation(1.0)})),
    )
    found = grant(problem, plan, caps(0.4))
    assert [s.start_s for s in found.segments] == pytest.approx([0.0, 50.0])
    assert evaluate(problem, found.segments).completed["a"] == (("o", pytest.approx(50.0)),)


def test_the_floor_comes_before_retraining_when_shares_are_rounded() -> None:
    stream = StreamProblem("a", 0.8, InferenceProfile("linear", 1.0), (RetrainingOption("o", 0.9, 5.0),))
    problem = WindowProblem("f", 1.0, 100.0, (stream,), a_min=0.5)
    plan = WindowPlan("p", "f", 0.0, (Segment(0.0, {"a": StreamAllocation(0.65, 0.35, "o")}),))
    found = grant(problem, plan, caps(0.25))
    assert found.segments[0].streams["a"].inference_share == pytest.approx(0.75)
    assert not found.faults
    coarse = grant(replace(problem, num_gpus=0.7), plan, caps(0.5))
    assert any("falls to 0.400" in f.words for f in coarse.faults)


def test_a_stream_under_the_floor_is_said_once_after_what_is_known() -> None:
    streams = tuple(StreamProblem(name, 0.4, LINEAR) for name in ("gate", "gate-2", "yard"))
    problem = WindowProblem("f", 1.0, 100.0, (*streams, StreamProblem("fine", 0.9, LINEAR)), a_min=0.5)
    segment = Segment(0.0, {"gate": StreamAllocation(1.0)} | dict.fromkeys(("gate-2", "yard"), StreamAllocation(0.0)))
    outcome = replace(
        evaluate(replace(problem, streams=streams), (segment,)),
        lowest={"gate": 0.4, "gate-2": 0.0, "yard": 0.0, "fine": 0.5},
    )
    known = (PlanFault.unreachable("gate-2", 0.5, 0.4, 0.1),)
    assert all_faults(problem, outcome, known) == (
        *known, PlanFault.under("gate", 0.5, 0.4), PlanFault.under("yard", 0.5, 0.0),
    )  # fmt: skip
    assert all_faults(replace(problem, a_min=None), outcome, known) == known


def test_a_plan_made_for_the_step_is_left_as_it_is() -> None:
    stream = StreamProblem("a", 0.4, LINEAR, (RetrainingOption("o", 0.8, 20.0),))
    problem = WindowProblem("k", 1.0, 100.0, (stream,), share_step=0.05)
    plan = window_policy("relay").plan(problem)
    found = grant(problem, plan, caps(0.05))
    assert found.objective == pytest.approx(plan.objective, abs=1e-9)
    assert found.reasons[""][-1].numbers["step"] == 0.05

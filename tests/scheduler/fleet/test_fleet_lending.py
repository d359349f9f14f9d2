"""Who lends what to whom: nobody over-lent, no lender harmed, the same answer for the same question."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_problems import problems

from edge.core.lending import Borrower, LendingOffer
from edge.core.profiles import InferenceProfile
from edge.core.window import Arrival, RetrainingOption, StreamProblem, WindowPlan, WindowProblem
from scheduler.fleet.lending import AS_GOOD, GATE_S, LEAST_GAIN, START_S, lend_out, share_to_lend, with_lent
from scheduler.policies import window_policy
from scheduler.timeline import evaluate
from scheduler.window_lending import worth

PROFILE = InferenceProfile("subsampling", 0.2, (1.0, 2.0, 4.0), (1.0, 0.8, 0.5))
ME = Borrower("cpu", 2.0, {"a": 10_000_000, "b": 10_000_000})


def offer(box: str, share: float = 0.8, units: float = 2.0) -> LendingOffer:
    return LendingOffer(box, share, "cpu", units)


def crowded(*names: str, work: float = 60.0, delay: float = 10.0) -> WindowProblem:
    options = (RetrainingOption("long", 0.85, work),)
    streams = tuple(StreamProblem(n, 0.5, PROFILE, options) for n in names)
    return WindowProblem("w", 0.5, 100.0, streams, 0.05, label_delay_s=delay, carry_s=50.0)


def plan(problem: WindowProblem) -> WindowPlan:
    return window_policy("thief").plan(problem)


def value(problem: WindowProblem) -> float:
    return worth(problem, plan(problem))


class TestLender:
    def test_an_idle_box_lends_what_its_cameras_cannot_use(self) -> None:
        idle = WindowProblem("w", 1.0, 100.0, (StreamProblem("a", 0.8, PROFILE),), 0.05)
        share = share_to_lend(lambda s: value(replace(idle, num_gpus=1.0 - s)), 0.9)
        assert share == pytest.approx(0.72), (
            "0.8 of the device, of which its camera uses 0.2, in steps of what it may lend"
        )

    def test_a_box_that_needs_all_lends_nothing(self) -> None:
        busy = crowded("a", "b")
        assert share_to_lend(lambda s: value(replace(busy, num_gpus=0.5 - s)), 0.4) == 0.0

    @settings(max_examples=25, deadline=None)
    @given(problems(floor=False), st.floats(0.0, 0.9))
    def test_it_never_lends_what_its_own_plan_is_worse_without(self, problem: WindowProblem, part: float) -> None:
        def without(share: float) -> float:
            return value(replace(problem, num_gpus=problem.num_gpus - share))

        most = round(part * problem.num_gpus, 3)
        share = share_to_lend(without, most)
        assert 0.0 <= share <= most
        assert without(share) >= without(0.0) - AS_GOOD


class TestBorrower:
    def test_a_retraining_that_would_not_end_here_is_lent(self) -> None:
        (one,) = lend_out(crowded("a", "b"), (offer("idle"),), ME, value)
        assert (one.box, one.share, one.option.id, one.accuracy) == ("idle", 0.8, "long", 0.85)
        assert one.arrives_s == pytest.approx(10.0 + 1.0 + START_S + 60.0 / 0.8 + GATE_S)

    def test_a_box_with_more_cores_is_sooner(self) -> None:
        (one,) = lend_out(crowded("a", "b"), (offer("large", units=8.0),), ME, value)
        assert one.device_seconds == pytest.approx(15.0)
        assert one.arrives_s == pytest.approx(10.0 + 1.0 + START_S + 15.0 / 0.8 + GATE_S)

    def test_a_retraining_in_one_thread_asks_for_one_core_of_many(self) -> None:
        problem = crowded("a", "b", work=30.0)
        one_thread = replace(problem.streams[0].options[0], throughput=((0.5, 0.5), (1.0, 0.5)))
        streams = tuple(replace(s, options=(one_thread,)) for s in problem.streams)
        (one,) = lend_out(replace(problem, streams=streams), (offer("large", units=8.0),), ME, value)
        assert one.share == pytest.approx(1 / 8)
        assert one.arrives_s == pytest.approx(10.0 + 1.0 + START_S + 30.0 / 0.5 + GATE_S)

    def test_of_two_boxes_that_gain_the_same_the_smaller_offer_is_taken(self) -> None:
        offers = (offer("large", 0.81, 2.0), offer("small", 0.4, 4.05))
        (one, _) = lend_out(crowded("a", "b"), offers, ME, value)
        assert one.box == "small"

    def test_nothing_is_lent_for_nothing(self) -> None:
        rich = replace(crowded("a", "b", work=2.0), num_gpus=2.0)
        assert lend_out(rich, (offer("idle"),), ME, value) == ()
        assert lend_out(crowded("a"), (replace(offer("slow"), rate=1e4),), ME, value) == (), "it would come too late"
        assert lend_out(crowded("a"), (replace(offer("gpu"), device="gpu"),), ME, value) == ()
        assert lend_out(crowded("a"), (offer("idle"),), replace(ME, sizes={}), value) == (), "it has no pictures"
        soon = replace(offer("idle"), left_s=30.0)
        assert lend_out(crowded("a", "b"), (soon,), ME, value) == (), "the lender may need its share before it ends"

    @settings(max_examples=25, deadline=None)
    @given(problems(running=True, floor=False), st.lists(st.floats(0.0, 1.0), max_size=3))
    def test_nobody_is_over_lent_and_every_loan_pays(self, problem: WindowProblem, shares: list[float]) -> None:
        offers = tuple(offer(f"b{n}", share) for n, share in enumerate(shares))
        me = Borrower("cpu", 2.0, {s.id: 1_000_000 for s in problem.streams})
        lent = lend_out(problem, offers, me, value)
        assert lent == lend_out(problem, tuple(reversed(offers)), me, value), "the same answer"
        by_box = {o.box: o.share for o in offers}
        assert len({one.box for one in lent}) == len(lent) == len({one.camera for one in lent})
        assert all(one.share <= by_box[one.box] for one in lent)
        assert not {one.camera for one in lent} & {s.id for s in problem.streams if s.running}
        if lent:
            assert value(with_lent(problem, lent)) > value(problem) + LEAST_GAIN * len(lent)


class TestArrival:
    def test_a_plan_counts_what_another_box_brings(self) -> None:
        problem = crowded("a")
        alone = replace(problem, streams=(replace(problem.streams[0], options=(), arrival=Arrival(60.0, 0.9, "b2")),))
        outcome = evaluate(alone, plan(alone).segments)
        assert outcome.objective == pytest.approx(0.5 * 0.6 + 0.9 * 0.4)
        assert [s.accuracy for s in outcome.steps["a"]] == [0.5, 0.5, 0.9]
        assert WindowProblem.from_json(alone.to_json()) == alone
        (reason, *_) = plan(alone).reasons["a"]
        assert (reason.code, reason.name) == ("lent", "b2")
        assert "the box b2 retrains it: +40.0 points from second 60" in reason.words()

    def test_what_is_late_is_waited_for_a_little_longer(self) -> None:
        problem = crowded("a")
        (one,) = lend_out(problem, (offer("idle"),), replace(ME, sizes={"a": 1000}), value)
        late = with_lent(replace(problem, label_delay_s=95.0), (one,), late_s=3.0)
        assert late.streams[0].arrival == Arrival(98.0, 0.85, "idle")

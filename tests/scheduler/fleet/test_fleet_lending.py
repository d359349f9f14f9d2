"""Who lends what to whom: no box over-lent, no lender harmed, the same answer for the same question."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_problems import problems

from edge.core.lending import GATE_S, Borrower, LendingOffer
from edge.core.profiles import InferenceProfile
from edge.core.window import Arrival, RetrainingOption, StreamProblem, WindowPlan, WindowProblem
from scheduler.fleet.lending import (
    AS_GOOD,
    BACK_S,
    LEAST_GAIN,
    SOONER_S,
    START_S,
    lend_out,
    profiles_out,
    retrained_until,
    share_to_lend,
    with_lent,
)
from scheduler.fleet.lent_windows import LentWindows
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

    def test_one_after_the_other_on_one_box(self) -> None:
        problem = crowded("a", "b", "c", work=20.0)
        me = replace(ME, sizes=dict.fromkeys("abc", 10_000_000))
        first, second = lend_out(problem, (replace(offer("idle"), room=3),), me, value)[:2]
        assert first.arrives_s == pytest.approx(10.0 + 1.0 + START_S + 25.0 + GATE_S)
        assert second.arrives_s == pytest.approx(first.arrives_s + START_S + 25.0), "its pictures went there meanwhile"
        assert len(lend_out(problem, (offer("idle"),), me, value)) == 1, "a box with room for one"
        (behind,) = lend_out(problem, (replace(offer("idle"), busy_s=30.0),), me, value)
        assert behind.arrives_s == pytest.approx(10.0 + 30.0 + START_S + 25.0 + GATE_S), "behind what it does already"
        assert lend_out(problem, (replace(offer("full"), room=0),), me, value) == ()

    def test_over_the_end_of_the_lenders_window(self) -> None:
        problem = crowded("a", "b", work=40.0)
        known = replace(offer("idle"), left_s=24.0, again=0.6, pause_s=6.0, window_s=100.0)
        (one,) = lend_out(problem, (known,), ME, value)
        # From second 4 to 24 of now at 0.8: 16 of 40; a pause of 6; the other 24 at 0.6.
        assert one.arrives_s == pytest.approx(10.0 + 24.0 + 6.0 + 40.0 + GATE_S)
        assert lend_out(problem, (replace(known, again=0.0),), ME, value) == (), "it is not known what it lends then"

    @settings(max_examples=25, deadline=None)
    @given(problems(running=True, floor=False), st.lists(st.floats(0.0, 1.0), max_size=3), st.integers(1, 3))
    def test_no_box_is_over_lent_and_every_loan_pays(
        self, problem: WindowProblem, shares: list[float], rooms: int
    ) -> None:
        offers = tuple(replace(offer(f"b{n}", share), room=rooms) for n, share in enumerate(shares))
        me = Borrower("cpu", 2.0, {s.id: 1_000_000 for s in problem.streams})
        lent = lend_out(problem, offers, me, value)
        assert lent == lend_out(problem, tuple(reversed(offers)), me, value), "the same answer"
        by_box = {o.box: o.share for o in offers}
        assert len({one.camera for one in lent}) == len(lent)
        assert all(sum(one.box == box for one in lent) <= rooms for box in by_box)
        assert all(one.share <= by_box[one.box] for one in lent)
        assert not {one.camera for one in lent} & {s.id for s in problem.streams if s.running}
        for box in by_box:
            ends = [one.arrives_s for one in lent if one.box == box]
            assert ends == sorted(ends), "one after the other"
        if lent:
            assert value(with_lent(problem, lent)) > value(problem) + LEAST_GAIN * len(lent)


class TestEnds:
    @given(
        st.floats(0.0, 50.0), st.floats(0.1, 60.0), st.floats(-5.0, 120.0), st.floats(0.0, 1.0), st.floats(0.0, 30.0)
    )
    def test_a_boundary_never_makes_it_sooner(
        self, start_s: float, work_s: float, left_s: float, again: float, pause_s: float
    ) -> None:
        plain = offer("idle").ends_in(start_s, float, work_s)
        assert plain == pytest.approx(start_s + work_s / 0.8)
        over = replace(offer("idle"), left_s=left_s, again=again, pause_s=pause_s, window_s=40.0)
        ends_s = over.ends_in(start_s, float, work_s)
        if plain is not None and plain <= left_s:
            assert ends_s == pytest.approx(plain)
        elif ends_s is not None:
            assert again > 0.0
            assert ends_s >= plain - 1e-9
            assert ends_s >= left_s + pause_s

    def test_an_offer_ages(self) -> None:
        old = replace(offer("idle"), left_s=20.0, busy_s=3.0).later(5.0)
        assert (old.left_s, old.busy_s) == (15.0, 0.0)
        assert offer("idle").later(5.0) == offer("idle")


class TestProfiles:
    SIZES = Borrower("cpu", 1.0, dict.fromkeys("abcd", 5_000_000))

    def test_trials_that_would_wait_long_here_run_elsewhere(self) -> None:
        idle = LendingOffer("idle", 0.5, "cpu", 1.0, room=4)
        # Here: 1, 3, 5 and 7 device seconds until each is done, at 0.2 a second.
        lent = profiles_out("abcd", 1.0, 2.0, 0.2, (idle,), self.SIZES)
        assert [(one.camera, one.box, one.share) for one in lent] == [("d", "idle", 0.5), ("c", "idle", 0.5)]
        assert lent[0].ends_s == pytest.approx(0.5 + START_S + 4.0 + BACK_S)
        assert lent[1].ends_s == pytest.approx(lent[0].ends_s + START_S + 4.0), "after the first"

    def test_where_they_are_done_as_soon_here_they_stay(self) -> None:
        idle = LendingOffer("idle", 0.5, "cpu", 1.0, room=4)
        assert profiles_out("ab", 0.0, 1.0, 0.5, (idle,), self.SIZES) == ()
        assert profiles_out("abcd", 1.0, 2.0, 0.2, (replace(idle, left_s=5.0),), self.SIZES) == (), "its window ends"
        assert profiles_out("abcd", 1.0, 2.0, 0.2, (idle,), replace(self.SIZES, sizes={})) == (), "no pictures"

    @given(st.integers(0, 6), st.floats(0.1, 5.0), st.floats(0.01, 1.0), st.lists(st.floats(0.0, 1.0), max_size=3))
    def test_each_is_sooner_there_and_no_box_has_more_than_its_room(
        self, cameras: int, budget_s: float, speed: float, shares: list[float]
    ) -> None:
        names = [f"c{n}" for n in range(cameras)]
        me = Borrower("cpu", 1.0, dict.fromkeys(names, 1_000_000))
        offers = tuple(LendingOffer(f"b{n}", share, "cpu", 1.0, room=2) for n, share in enumerate(shares))
        lent = profiles_out(names, 0.0, budget_s, speed, offers, me)
        assert lent == profiles_out(names, 0.0, budget_s, speed, tuple(reversed(offers)), me), "the same answer"
        assert len({one.camera for one in lent}) == len(lent)
        for one in lent:
            assert one.ends_s + SOONER_S < (names.index(one.camera) + 1) * budget_s / speed
            assert sum(other.box == one.box for other in lent) <= 2


class TestLentWindows:
    def test_a_window_like_the_last_ones_is_expected(self) -> None:
        seen = LentWindows().planned(1, 0.5, 0.6).planned(1, 40.0, 0.5)
        assert (seen.share, seen.pause_s) == (0.0, 0.0), "no boundary was seen yet"
        seen = seen.planned(2, 8.0, 0.02)
        assert seen.window == 1, "nothing to lend yet"
        seen = seen.planned(2, 12.0, 0.7)
        assert (seen.share, seen.pause_s) == (0.5, 12.0)
        assert seen.planned(2, 50.0, 0.3).share == 0.3
        assert seen.planned(2, 50.0, 0.0).planned(3, 9.0, 0.6).share == 0.0, "it needed all in the last window"
        assert seen.planned(3, 9.0, 0.6).planned(4, 9.0, 0.6).share == 0.6, "two windows before this one count"


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


def test_the_end_of_a_plans_last_retraining() -> None:
    (alone,) = crowded("a").streams
    done = WindowProblem("w", 1.0, 100.0, (replace(alone, options=(RetrainingOption("short", 0.9, 8.0),)),), 0.05)
    until_s = retrained_until(plan(done))
    assert until_s is not None
    assert 8.0 <= until_s < 20.0
    assert retrained_until(plan(replace(done, streams=(replace(alone, options=()),)))) == 0.0
    cut = plan(done)
    assert retrained_until(replace(cut, segments=cut.segments[:1])) is None, "it runs to the window's end"

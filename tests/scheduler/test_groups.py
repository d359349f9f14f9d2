"""Which cameras may be retrained as one, and when a plan expects more from that."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_siblings import LOOK, looks

from edge.core.camera_look import CameraLook
from edge.core.errors import InvalidValue
from edge.core.profiles import InferenceProfile
from edge.core.window import (
    RetrainingOption,
    Segment,
    StreamAllocation,
    StreamProblem,
    WindowPlan,
    WindowProblem,
)
from scheduler.groups import (
    BETTER_BY,
    MOST_CAMERAS,
    MOST_KEPT,
    MOST_TRIED,
    SIZES,
    STALE,
    WORK_EXPONENT,
    Group,
    choose_group,
    for_all,
    group_work,
    grouped,
    groups_of,
    kept_by,
    kept_part,
    sets_of,
    taught_parts,
)
from scheduler.policies import window_policy
from scheduler.siblings import NOT_ALIKE, distance

INFERENCE = InferenceProfile("subsampling", 0.1, (1.0, 2.0), (1.0, 0.8))


def relay(problem: WindowProblem) -> WindowPlan:
    return window_policy("relay").plan(problem)


def stream(name: str, start: float = 0.5, end: float = 0.8, cost: float = 30.0) -> StreamProblem:
    return StreamProblem(name, start, INFERENCE, (RetrainingOption("all", end, cost),))


def problem(*streams: StreamProblem, num_gpus: float = 1.0) -> WindowProblem:
    return WindowProblem("w", num_gpus, 100.0, streams, 0.05, label_delay_s=10.0, carry_s=50.0)


# sets


def test_cameras_of_one_kind_are_one_set_alike_or_not_looked_at_or_not() -> None:
    far = replace(LOOK, features=(90.0, 2.0, 3.0))
    assert groups_of({"c": None, "a": LOOK, "x": far, "b": LOOK}) == (("a", "b", "c", "x"),)


def test_of_too_many_those_that_look_most_alike_come_together() -> None:
    far = replace(LOOK, features=(90.0, 2.0, 3.0))
    looks = {"a": LOOK, "b": far, "c": LOOK, "d": far, "e": None}
    assert groups_of(looks, most=2) == (("a", "c"), ("b", "d"))
    assert groups_of(looks, most=3) == (("a", "c", "e"), ("b", "d"))


def test_smaller_sets_are_tried_too() -> None:
    found = sets_of(dict.fromkeys("abcdefg", LOOK))
    assert {len(s) for s in found} == {7, 6, 3}
    assert found == tuple(sorted(set(found)))
    assert sets_of(dict.fromkeys("ab", LOOK)) == (("a", "b"),), "once, not for each size"


def test_where_a_window_is_short_fewer_are_retrained_as_one() -> None:
    names = [f"c{n:02}" for n in range(12)]
    found = {}
    for cost in (4.0, 16.0):
        window = problem(*(stream(n, cost=cost) for n in names), num_gpus=2.0)
        choice = choose_group(window, (tuple(names), tuple(names[:6])), 2.0, relay)
        assert choice is not None
        found[cost] = len(choice.group.members)
    assert found == {4.0: 11, 16.0: 5}


def test_of_many_sets_those_that_gain_most_are_planned_for() -> None:
    """Sixty cameras: each plan takes long, so there are few of them."""
    names = [f"c{n:02}" for n in range(60)]
    window = problem(*(stream(n, end=0.55 if n < "c48" else 0.8, cost=0.05) for n in names), num_gpus=8.0)
    asked: list[WindowProblem] = []

    def planned(question: WindowProblem) -> WindowPlan:
        asked.append(question)
        return WindowPlan("none", "w", 0.0, (Segment(0.0, {n: StreamAllocation(0.1) for n in names}),))

    assert choose_group(window, sets_of(dict.fromkeys(names)), 1.6, planned) is None, "nothing was retrained"
    groups = [[s.id for s in q.streams if not s.options] for q in asked[1:]]
    assert len(groups) == MOST_TRIED * len(SIZES)
    assert any({"c49", "c50"} <= set(members) for members in groups)


def test_with_a_limit_a_stranger_is_in_none() -> None:
    near, far = replace(LOOK, brightness=0.45), replace(LOOK, features=(90.0, 2.0, 3.0))
    assert groups_of({"c": near, "a": LOOK, "x": far, "b": LOOK, "y": None}, NOT_ALIKE) == (("a", "b", "c"),)


def test_with_a_limit_every_two_of_a_set_are_alike() -> None:
    """A chain of neighbours whose ends are strangers is no set."""
    chain = [replace(LOOK, height=-2.0 + 1.0 * n) for n in range(3)]
    steps = [distance(chain[0], chain[1]), distance(chain[1], chain[2]), distance(chain[0], chain[2])]
    limit = (max(steps[:2]) + steps[2]) / 2
    assert groups_of(dict(zip("abc", chain, strict=True)), limit) in ((("a", "b"),), (("b", "c"),))


@given(
    many=st.lists(st.none() | looks, max_size=9),
    limit=st.sampled_from([NOT_ALIKE, math.inf]),
    most=st.integers(2, MOST_CAMERAS),
)
def test_sets_are_apart_small_and_close(many: list[CameraLook | None], limit: float, most: int) -> None:
    by_name = {f"c{n}": look for n, look in enumerate(many)}
    found = groups_of(by_name, limit, most)
    names = [n for s in found for n in s]
    assert len(names) == len(set(names))
    for one in found:
        assert 2 <= len(one) <= most
        assert list(one) == sorted(one)
        for a, b in ((by_name[a], by_name[b]) for a in one for b in one if a != b):
            assert limit == math.inf or (a is not None and b is not None and distance(a, b) <= limit)
    if limit == math.inf:
        assert len(by_name) - len(names) <= 1, "no two cameras are left alone"
    assert groups_of(dict(reversed(by_name.items())), limit, most) == found, "the order of cameras does not matter"


# what a plan expects


def test_a_group_pays_where_single_retrainings_would_not_all_end() -> None:
    """Three cameras, each 25 device seconds; 90 seconds are left of one device that also answers."""
    p = problem(*(stream(n, cost=25.0) for n in "abc"))
    choice = choose_group(p, [("a", "b", "c")], 1.0, relay)
    assert choice is not None
    assert choice.group == Group("a", ("b", "c"))
    assert choice.gained >= BETTER_BY


def test_it_does_not_pay_where_members_would_keep_nothing() -> None:
    p = problem(*(stream(n) for n in "abc"))
    assert choose_group(p, [("a", "b", "c")], 0.0, relay) is None


def test_it_does_not_pay_where_every_camera_has_time_for_its_own() -> None:
    p = problem(*(stream(n, cost=1.0) for n in "ab"), num_gpus=4.0)
    assert choose_group(p, [("a", "b")], 0.7, relay) is None


def test_the_stalest_camera_leads_and_a_fresh_one_learns_with_it() -> None:
    names = ("a", "b", "c", "d", "e", "fresh")
    starts = {"b": 0.4, "fresh": 0.8}
    p = problem(*(stream(n, starts.get(n, 0.5), cost=8.0) for n in names))
    choice = choose_group(p, [names], 1.6, relay)
    assert choice is not None
    assert choice.group == Group("b", ("a", "c", "d", "e", "fresh"))
    assert choice.gains == pytest.approx(dict.fromkeys("acde", 0.3 * 1.6) | {"fresh": 0.0})


def test_a_camera_whose_profile_knows_all_layers_leads() -> None:
    light = RetrainingOption("last_stage", 0.9, 20.0, teaches=0.65)
    p = problem(replace(stream("a", 0.4), options=(light,)), stream("b", cost=20.0), stream("c", cost=20.0))
    choice = choose_group(p, [("a", "b", "c")], 2.0, relay)
    assert choice is not None
    assert choice.group == Group("b", ("a", "c"))


def test_no_member_is_promised_more_than_everything() -> None:
    names = [f"c{n:02}" for n in range(12)]
    p = problem(*(stream(n, 0.2, 0.9, 2.0) for n in names), num_gpus=2.0)
    choice = choose_group(p, [names], MOST_KEPT, relay)
    assert choice is not None
    assert max(choice.gains.values()) == pytest.approx(0.8)


def test_where_no_camera_is_stale_there_is_no_group() -> None:
    p = problem(*(stream(n, 0.8 - STALE / 2) for n in "abc"))
    assert choose_group(p, [("a", "b", "c")], 2.0, relay) is None


def test_a_camera_without_an_option_is_in_no_group() -> None:
    p = problem(stream("a"), stream("b"), replace(stream("late"), options=()))
    choice = choose_group(p, [("a", "b", "late")], 2.0, relay)
    assert choice is not None
    assert choice.group == Group("a", ("b",))


def test_a_camera_whose_retraining_runs_is_in_no_group() -> None:
    running = replace(stream("a"), running="all", device_seconds_done=5.0)
    assert choose_group(problem(running, stream("b")), [("a", "b")], 1.0, relay) is None


def test_a_set_names_cameras_that_are_gone() -> None:
    assert choose_group(problem(stream("a")), [("a", "gone")], 1.0, relay) is None


def test_what_members_gain_counts_at_the_leader_and_changes_no_objective() -> None:
    p = problem(stream("a", 0.5, 0.6), stream("b"))
    found = {s.id: s for s in for_all(p, Group("a", ("b",)), {"b": 0.25}, {"all": 1.0}).streams}
    assert found["a"].options[0].end_accuracy == pytest.approx(0.85)
    assert found["b"] == p.streams[1]


def test_gains_of_many_members_all_count() -> None:
    members = tuple(f"c{n}" for n in range(11))
    asked = for_all(problem(stream("a", 0.5, 0.9)), Group("a", members), dict.fromkeys(members, 0.1), {"all": 1.0})
    assert asked.streams[0].options[0].end_accuracy == pytest.approx(2.0)
    assert WindowProblem.from_json(asked.to_json()) == asked
    with pytest.raises(InvalidValue, match="end_accuracy"):
        replace(asked.streams[0].options[0], members=0)


def test_members_gain_by_the_work_and_the_layers_of_the_leaders_option() -> None:
    options = (
        RetrainingOption("short", 0.6, 10.0),
        RetrainingOption("long", 0.6, 40.0),
        RetrainingOption("light", 0.6, 40.0, teaches=0.5),
    )
    short = 0.25**WORK_EXPONENT
    assert taught_parts(options) == pytest.approx({"short": short, "long": 1.0, "light": 0.5})
    p = problem(replace(stream("a"), options=options))
    asked = for_all(p, Group("a", ("b",)), {"b": 0.2}, taught_parts(options))
    assert [o.end_accuracy for o in asked.streams[0].options] == pytest.approx([0.6 + 0.2 * short, 0.8, 0.7])
    assert taught_parts(()) == {}
    assert taught_parts([RetrainingOption("free", 0.6, 0.0)]) == {"free": 1.0}


def test_a_group_is_retrained_long_where_its_members_gain_by_that() -> None:
    """The leader gains as much by a short one; its members do not."""
    options = (RetrainingOption("short", 0.6, 2.0), RetrainingOption("long", 0.6, 8.0))
    p = problem(*(replace(stream(n), options=options) for n in "abcd"))
    group = Group("a", ("b", "c", "d"))
    chosen = relay(for_all(grouped(p, group), group, dict.fromkeys("bcd", 0.12), taught_parts(options))).chosen()
    assert chosen["a"] == "long"
    assert relay(grouped(p, group)).chosen()["a"] == "short"


def test_the_leader_pays_for_the_group_and_members_have_nothing_of_their_own() -> None:
    p = problem(*(stream(n) for n in "abc"))
    found = {s.id: s for s in grouped(p, Group("b", ("a",))).streams}
    assert found["b"].options[0].device_seconds == pytest.approx(30.0 * group_work(1))
    assert found["a"].options == ()
    assert found["c"] == p.streams[2]


@settings(max_examples=40, deadline=None)
@given(
    starts=st.lists(st.floats(0.2, 0.9), min_size=2, max_size=4),
    gains=st.lists(st.floats(0.0, 0.4), min_size=4, max_size=4),
    cost=st.floats(1.0, 120.0),
    kept=st.floats(0.0, 1.2),
    num_gpus=st.sampled_from([0.5, 1.0, 2.0]),
)
def test_what_is_chosen_is_one_of_the_sets_and_promises_more(
    starts: list[float], gains: list[float], cost: float, kept: float, num_gpus: float
) -> None:
    names = [f"c{n}" for n in range(len(starts))]
    streams = [stream(n, s, min(1.0, s + g), cost) for n, s, g in zip(names, starts, gains, strict=False)]
    choice = choose_group(problem(*streams, num_gpus=num_gpus), [names], kept, relay)
    if choice is not None:
        assert {choice.group.leader, *choice.group.members} <= set(names)
        assert choice.gained >= BETTER_BY
        assert kept > 0.0


# what groups teach


@given(before=st.floats(0.0, MOST_KEPT), expected=st.floats(STALE, 1.0), gained=st.floats(-1.0, 1.0))
def test_what_is_kept_moves_towards_what_was_seen(before: float, expected: float, gained: float) -> None:
    seen = min(MOST_KEPT, max(0.0, gained / expected))
    after = kept_part(before, expected, gained)
    assert min(before, seen) - 1e-9 <= after <= max(before, seen) + 1e-9
    assert abs(after - seen) <= abs(before - seen)


def test_a_small_group_has_fewer_pictures_of_others() -> None:
    assert [kept_by(1.6, n) for n in (2, 3, 6, 12)] == pytest.approx([1.12, 1.24, 1.6, 1.6])
    assert [kept_by(0.4, n) for n in (2, 12)] == pytest.approx([0.4, 0.4])


@given(kept=st.floats(0.0, MOST_KEPT), cameras=st.integers(2, MOST_CAMERAS))
def test_a_group_that_keeps_what_was_expected_of_its_size_changes_nothing(kept: float, cameras: int) -> None:
    assert kept_part(kept, 0.3, 0.3 * kept_by(kept, cameras), cameras) == pytest.approx(kept)


def test_nothing_is_learned_of_a_camera_that_was_expected_to_gain_nothing() -> None:
    assert kept_part(0.7, STALE / 2, 0.5) == 0.7


def test_a_group_has_members_and_no_camera_twice() -> None:
    with pytest.raises(InvalidValue, match="group"):
        Group("a", ())
    with pytest.raises(InvalidValue, match="group"):
        Group("a", ("a",))

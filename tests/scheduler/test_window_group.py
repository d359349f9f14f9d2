"""The window's group between its choice and its end, event by event; whole windows are in test_controller.py."""

from __future__ import annotations

import pytest

from edge.core.profiles import InferenceProfile
from edge.core.window import RetrainingOption, StreamProblem, WindowPlan, WindowProblem
from scheduler.groups import Group, choose_group, group_work
from scheduler.policies import window_policy
from scheduler.window_group import WindowGroup

INFERENCE = InferenceProfile("subsampling", 0.1, (1.0, 2.0), (1.0, 0.8))
OWN = (RetrainingOption("all", 0.8, 20.0),)


def problem(*names: str, options: tuple[RetrainingOption, ...] = OWN) -> WindowProblem:
    streams = tuple(StreamProblem(n, 0.5, INFERENCE, options) for n in names)
    return WindowProblem("w", 1.0, 100.0, streams, 0.05, label_delay_s=10.0, carry_s=50.0)


def relay(asked: WindowProblem) -> WindowPlan:
    return window_policy("relay").plan(asked)


def chosen() -> tuple[WindowGroup, dict[str, tuple[RetrainingOption, ...]]]:
    group, options = WindowGroup(possible=(("a", "b", "c"),), kept=1.5), dict.fromkeys("abc", OWN)
    group.choose(problem(*"abc"), options, relay)
    assert group.group == Group("a", ("b", "c"))
    return group, options


def test_its_leader_costs_more_and_its_members_wait() -> None:
    group, options = chosen()
    assert options["a"][0].device_seconds == pytest.approx(20.0 * group_work(2))
    assert [group.waits(n) for n in "abc"] == [False, True, True]


def test_a_group_that_a_plan_has_no_place_for_is_dissolved_before_it_has_begun() -> None:
    group, options = chosen()
    nothing = relay(problem(*"abc", options=()))
    assert group.unpaid(nothing)
    group.dissolve(options)
    assert options["a"] == OWN, "as it costs alone"
    assert not any(group.waits(n) for n in "abc")
    group, _ = chosen()
    group.begun("a", "job")
    assert not group.unpaid(nothing), "what runs is judged first"


def test_only_its_leaders_retraining_is_for_all_and_only_that_one_ends_it() -> None:
    group, _ = chosen()
    assert group.begun("x", "other") == ()
    assert group.begun("a", "job") == ("b", "c")
    assert group.has_taught("b", "job")
    assert not any(group.has_taught(*one) for one in (("a", "job"), ("b", "an earlier one"), ("x", "job")))
    assert not group.over("a", "an earlier one")
    assert not group.over("b", "job")
    assert group.waits("b")
    assert group.over("a", "job")
    assert not group.waits("b")


@pytest.mark.parametrize(("gone", "begun", "left"), [
    ("b", True, Group("a", ("c",))), ("a", True, None), ("b", False, None), ("a", False, None),
    ("x", True, Group("a", ("b", "c"))),
])  # fmt: skip
def test_a_camera_leaves(gone: str, begun: bool, left: Group | None) -> None:
    group, options = chosen()
    if begun:
        group.begun("a", "job")
    group.leave(gone, options)
    assert group.group == left
    if not begun and gone == "b":
        assert options["a"] == OWN


def test_what_a_member_gained_goes_with_it() -> None:
    group, options = chosen()
    group.begun("a", "job")
    group.gains, group.parts = {"b": 0.05, "c": 0.1}, {"all": 1.0}
    assert group.asked(problem(*"abc")).streams[0].options[0].end_accuracy == pytest.approx(0.95)
    group.leave("b", options)
    assert group.asked(problem("a", "c")).streams[0].options[0].end_accuracy == pytest.approx(0.9)


def test_while_a_short_retraining_runs_it_promises_no_more_than_before() -> None:
    """Options that the planner did not take are gone by then."""
    group, _ = chosen()
    group.gains, group.parts = {"b": 0.1, "c": 0.1}, {"short": 0.25, "all": 1.0}
    running = problem("a", options=(RetrainingOption("short", 0.6, 5.0),))
    assert group.asked(running).streams[0].options[0].end_accuracy == pytest.approx(0.65)
    late = problem("a", options=(RetrainingOption("came later", 0.6, 5.0),))
    assert group.asked(late).streams[0].options[0].end_accuracy == pytest.approx(0.6)


def test_a_camera_that_a_group_taught_is_retrained_by_a_group_only() -> None:
    group = WindowGroup(possible=(("a", "b", "c"),), kept=1.5, taught=frozenset("ab"))
    assert [group.withholds(n) for n in "abc"] == [True, True, False]
    options = dict.fromkeys("abc", OWN)
    group.choose(problem(*"abc"), options, relay)
    assert group.group == Group("a", ("b", "c"))
    assert [group.withholds(n) for n in "abc"] == [False, True, True]
    assert group.begun("a", "job") == ("b", "c")
    assert group.over("a", "job")
    assert [group.withholds(n) for n in "abc"] == [True, True, False]


def test_one_that_no_group_could_take_may_be_retrained_alone() -> None:
    group = WindowGroup(possible=(("a", "b", "c"),), kept=1.5, taught=frozenset("ab"))
    lonely = WindowProblem("w", 1.0, 100.0, (StreamProblem("a", 0.5, INFERENCE, OWN),), 0.05)
    group.choose(lonely, {"a": OWN}, relay)
    assert not group.withholds("a")


def test_a_group_is_weighed_against_what_would_be_retrained_without_it() -> None:
    """Of members that keep little, with time for all: one each is better, but none may be retrained alone."""
    p = problem(*"abc", options=(RetrainingOption("all", 0.8, 4.0),))
    assert choose_group(p, [tuple("abc")], 0.3, relay) is None
    choice = choose_group(p, [tuple("abc")], 0.3, relay, frozenset("abc"))
    assert choice is not None
    assert len(choice.group.members) == 2


def test_cameras_of_two_tenants_are_not_retrained_as_one() -> None:
    group = WindowGroup(possible=(tuple("abcd"),), kept=2.0)
    owned = (frozenset("ab"), frozenset("cd"))
    group.choose(problem(*"abcd"), dict.fromkeys("abcd", OWN), relay, owned)
    assert group.group in (Group("a", ("b",)), Group("c", ("d",)))
    group.end()
    group.choose(problem(*"ab"), dict.fromkeys("ab", OWN), relay, (frozenset("a"), frozenset("b")))
    assert group.group is None


def test_without_a_group_the_problem_is_asked_as_it_is() -> None:
    p = problem("a")
    assert WindowGroup().asked(p) is p

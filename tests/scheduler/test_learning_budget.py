"""The learning budget: never more than the device, better on a faster box, ready in time where that is possible."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from examples_kit import tried
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.errors import InvalidValue
from edge.core.learning import BudgetProblem, Cost, LearningBudget, LearningFacts
from scheduler.learning.budget import AIM, MEMORY_WAIT, decide, looks_in_time, most_golden_share, needed_golden_share
from scheduler.learning.costs import learned, observed
from scheduler.learning.windows import choose_window, net_value

#: As measured on two cores with the demo's teacher and students.
FACTS = LearningFacts(
    label_s=Cost(0.018, 0.001, 200),
    trial_s=Cost(0.6, 0.05, 20),
    setup_s=Cost(0.25, 0.05, 20),
    visit_s=Cost(0.006, 0.001, 20),
    memory_s=Cost(0.15, 0.02, 20),
    evaluation_s=Cost(0.015, 0.002, 20),
    wait=Cost(1.1, 0.1, 20),
)
DEMO = BudgetProblem(
    90.0, 4, 0.92, 0.19, FACTS, thread=0.58, profilers=2, visits=(5.0, 10.0, 20.0), families=2, exemplars=64
)


def slower(facts: LearningFacts, by: float) -> LearningFacts:
    """The same on a box where everything takes `by` times as long."""
    changes = {
        f.name: Cost(c.value * by, c.spread * by, c.samples)
        for f in fields(facts)
        if f.name.endswith("_s") and (c := getattr(facts, f.name)) is not None
    }
    return replace(facts, **changes)


def on(by: float, problem: BudgetProblem = DEMO) -> BudgetProblem:
    return replace(problem, facts=slower(problem.facts, by), inference=problem.inference * by)


costs = st.floats(1e-4, 5.0).map(lambda v: Cost(v, v / 10, 5))
problems = st.builds(
    BudgetProblem,
    window_s=st.floats(20, 3600),
    cameras=st.integers(1, 30),
    capacity=st.floats(0.05, 1.0),
    inference=st.floats(0.0, 2.0),
    facts=st.builds(
        LearningFacts, label_s=costs, trial_s=costs, setup_s=costs, visit_s=costs, memory_s=costs, evaluation_s=costs
    ),
    evaluation=st.floats(0.01, 0.1),
    thread=st.floats(0.05, 1.0),
    profilers=st.integers(1, 2),
    families=st.integers(0, 6),
    exemplars=st.integers(0, 200),
)


def test_pictures_that_nobody_has_time_to_look_at_take_no_time_of_the_budget() -> None:
    """Exemplars are then picked by their labels."""
    assert looks_in_time(None, 4, 0.1, 90.0)
    assert looks_in_time(Cost(0.2), 4, 0.2, 90.0)
    assert not looks_in_time(Cost(0.23), 4, 0.2, 90.0), f"0.9 device seconds for {MEMORY_WAIT:.0%} of the window"

    def ready_s(memory_s: float) -> float:
        facts = replace(FACTS, memory_s=Cost(memory_s, 0.0, 20))
        return decide(replace(DEMO, facts=facts, labels=8, profiling_s=0.1)).ready_s

    assert ready_s(0.3) > ready_s(0.1), "they are looked at"
    assert ready_s(30.0) < ready_s(0.1)


def test_looks_at_pictures_never_make_a_budget_late() -> None:
    """Labels alone take nearly all the time that there is: looks would fit into their part of the window, but not
    before the time until which profiles shall be ready."""

    def decided(memory_s: float) -> LearningBudget:
        facts = replace(FACTS, label_s=Cost(0.28, 0.0, 200), memory_s=Cost(memory_s, 0.0, 20))
        return decide(replace(DEMO, facts=facts, labels=8, golden_share=0.1, profiling_s=0.1))

    assert looks_in_time(Cost(0.6), DEMO.cameras, DEMO.profilers * 0.29, DEMO.window_s)
    short, long = decided(0.01), decided(0.6)
    assert (short.late, short.looks) == (False, True)
    assert (long.late, long.looks) == (False, False)


@given(problems)
@settings(max_examples=tried(60, 200), deadline=None)
def test_no_budget_takes_more_than_there_is(problem: BudgetProblem) -> None:
    b = decide(problem)
    assert 0 < b.golden_share <= max(0.02, 0.6 * problem.capacity) + 1e-4
    assert 1 <= b.labels <= problem.most_labels
    assert 0 <= b.trials <= problem.families
    assert b.retraining_s * problem.cameras <= problem.capacity * problem.window_s + 1e-2
    assert 0 <= b.retrainings <= problem.cameras
    if not b.late:
        assert b.ready_s <= AIM * problem.ready * problem.window_s + 1e-2


@given(problems, st.floats(1.1, 4.0))
@settings(max_examples=tried(80, 200), deadline=None)
def test_a_slower_box_is_never_worth_more(problem: BudgetProblem, by: float) -> None:
    fast, slow = decide(problem), decide(on(by, problem))
    assert not (fast.late and not slow.late), "what is ready in time on a slow box is on a fast one"
    if not fast.late and not slow.late and slow.looks:
        assert slow.value <= fast.value + 1e-6


@given(problems, st.floats(1.1, 4.0))
@settings(max_examples=tried(80, 200), deadline=None)
def test_a_slower_box_is_never_worth_more_where_looks_cost_nothing(problem: BudgetProblem, by: float) -> None:
    """The worth of looks at exemplars' pictures is not in the value: a faster box that has time for them may be ready
    later by that."""
    problem = replace(problem, facts=replace(problem.facts, memory_s=Cost(1e-9)))
    fast, slow = decide(problem), decide(on(by, problem))
    if not fast.late:
        assert slow.late or slow.value <= fast.value + 1e-6


@given(problems)
@settings(max_examples=tried(40, 100), deadline=None)
def test_labels_as_they_come_fit_the_golden_share(problem: BudgetProblem) -> None:
    b = decide(problem)
    assert problem.facts.label_s is not None
    work = problem.cameras * b.labels * problem.facts.label_s.value
    if not b.late:
        assert work <= b.golden_share * problem.window_s + 0.01, "no backlog at the boundary"


def test_half_the_speed_still_retrains_every_camera_in_time() -> None:
    whole, half = decide(DEMO), decide(on(2.0))
    assert (whole.late, half.late) == (False, False)
    assert (whole.retrainings, half.retrainings) == (4.0, 4.0)
    assert half.ready_s <= AIM * 0.15 * 90.0 + 0.01, "what is not tried by then is retrained as it is known"
    assert half.golden_share > whole.golden_share * 0.9
    assert half.value > 0.3 * whole.value > 0


def test_a_box_that_is_too_slow_says_so_and_keeps_the_least() -> None:
    b = decide(on(40.0))
    assert b.late
    assert "no budget is ready in time" in b.reason
    assert b.labels <= 12


def test_a_detector_with_slow_labels_gets_fewer_of_them() -> None:
    slow = replace(DEMO, window_s=200.0, facts=replace(FACTS, label_s=Cost(0.3, 0.02, 50)))
    assert decide(slow).labels < decide(replace(DEMO, window_s=200.0)).labels
    assert decide(slow).golden_share > decide(DEMO).golden_share


def test_labels_that_other_boxes_make_cost_nothing_here() -> None:
    much = replace(DEMO, window_s=900.0, labels=200, facts=replace(FACTS, label_s=Cost(1.0, 0.05, 50)))
    alone, helped = decide(much), decide(replace(much, elsewhere=600 / 900.0))
    assert (alone.late, helped.late) == (True, False)
    assert helped.golden_share < alone.golden_share / 1.5
    assert "600 of the labels" in helped.reason
    free = replace(much, labels=None)
    assert decide(replace(free, elsewhere=600 / 900.0)).labels > decide(free).labels


def test_numbers_of_the_operator_are_kept() -> None:
    b = decide(replace(DEMO, golden_share=0.3, labels=100, profiling_s=2.5))
    assert (b.golden_share, b.labels, b.profiling_s) == (0.3, 100, 2.5)
    assert b.trials == 2, "as many as 2.5 device seconds are enough for, of two families"


def test_without_measurements_the_budget_is_a_guess_and_says_so() -> None:
    b = decide(replace(DEMO, facts=LearningFacts(), least_trials=1))
    assert not b.known
    assert b.trials >= 1
    assert "first guess" in b.reason


def test_profiles_are_made_where_they_bring_much_and_left_where_they_do_not() -> None:
    gains = {"gain": Cost(0.1, 0.02, 9), "gain_labels": Cost(40.0, 0.0, 9)}
    useful = decide(replace(DEMO, facts=replace(FACTS, choice=Cost(0.06, 0.01, 9), **gains)))
    useless = decide(replace(DEMO, facts=replace(FACTS, choice=Cost(0.0, 0.0, 9), **gains)))
    assert useful.trials > useless.trials


def test_the_golden_share_follows_what_is_left() -> None:
    cost = Cost(0.02, 0.0, 10)
    assert needed_golden_share(100, cost, 50.0) == pytest.approx(0.05)
    assert needed_golden_share(0, cost, 50.0) == 0.02, "it is never without a share"


def test_the_golden_model_gets_no_more_than_one_thread_can_use() -> None:
    many_cores = replace(on(20.0), thread=0.1)
    assert decide(many_cores).golden_share == most_golden_share(many_cores) == 0.1
    assert most_golden_share(replace(many_cores, thread=1.0)) == pytest.approx(0.6 * DEMO.capacity)


def test_a_slow_box_chooses_a_longer_window() -> None:
    fast, slow = choose_window(DEMO), choose_window(on(4.0))
    assert slow.window_s > fast.window_s
    assert not slow.budget.late
    assert f"{slow.window_s:.0f} s" in slow.reason


@given(st.floats(0.0, 3e-3), st.floats(0.0, 3e-3))
@settings(max_examples=tried(12, 30), deadline=None)
def test_a_scene_that_drifts_faster_is_given_no_longer_windows(a: float, b: float) -> None:
    calm, wild = sorted((a, b))
    assert choose_window(DEMO, wild).window_s <= choose_window(DEMO, calm).window_s


def test_the_choice_is_the_best_of_what_was_weighed() -> None:
    choice = choose_window(DEMO, 1e-4)
    possible = [(s, b) for s, b in choice.weighed if not b.late]
    best = max(net_value(b, s, 1e-4) for s, b in possible)
    assert net_value(choice.budget, choice.window_s, 1e-4) == pytest.approx(best, abs=1e-5)


@given(st.lists(st.floats(0.01, 10.0), min_size=1, max_size=60))
def test_a_cost_lies_within_what_was_measured(values: list[float]) -> None:
    cost = None
    for v in values:
        cost = observed(cost, v)
    assert cost is not None
    assert min(values) - 1e-9 <= cost.value <= max(values) + 1e-9
    assert cost.samples == len(values)


def test_a_cost_follows_a_change_of_the_box() -> None:
    facts = LearningFacts()
    for _ in range(20):
        facts = learned(facts, label_s=0.1)
    assert facts.label_s is not None
    assert facts.label_s.spread < 0.01
    for _ in range(20):
        facts = learned(facts, label_s=0.2)
    assert facts.label_s.value == pytest.approx(0.2, rel=0.05)
    with pytest.raises(InvalidValue, match="labels_s"):
        learned(facts, labels_s=1.0)


def test_what_is_learned_survives_a_file() -> None:
    assert LearningFacts.from_json(FACTS.to_json()) == FACTS
    with pytest.raises(InvalidValue, match="no_such"):
        LearningFacts.from_json({"no_such": None})

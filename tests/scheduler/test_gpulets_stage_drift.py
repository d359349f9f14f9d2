"""Stages that leave their budgets: when that counts, what is planned then, and when it is over."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reorganiser_world import one_each, table, version, world

from edge.core.errors import InvalidValue
from edge.core.front_messages import StageTraffic
from edge.core.serving_reasons import ServingReason
from scheduler.gpulets import reorganiser_events as r
from scheduler.gpulets.demand import Demand
from scheduler.gpulets.stage_drift import StageDriftState, StageRule, slowed, step

RULE = StageRule()


def traffic(ratio: float, answered: int = 20, stage: str = "find", model: str = "a") -> StageTraffic:
    """A stage with a budget of 20 ms whose p99 is so many times that."""
    return StageTraffic("app", stage, model, answered, answered, took_ms=(1.0, 20.0 * ratio), budget_ms=20.0)


def watch(
    ratios: list[float], state: StageDriftState | None = None, start_s: float = 0.0, answered: int = 20
) -> tuple[StageDriftState, list[tuple[float, str]]]:
    """A report each second; the state and what was said when."""
    state, said = state or StageDriftState(), []
    for n, ratio in enumerate(ratios):
        state, reasons = step(RULE, state, start_s + n, [traffic(ratio, answered)])
        said += [(start_s + n, reason.words()) for reason in reasons]
    return state, said


def test_a_stage_late_for_long_is_planned_as_late_as_it_was() -> None:
    state, said = watch([1.3] * 31)
    assert state.factors == {"a": pytest.approx(1.3)}
    ((at_s, words),) = said
    assert at_s == RULE.hold_s
    assert "app, find" in words
    assert "1.30 times the budget" in words


def test_a_few_late_seconds_and_few_answers_change_nothing() -> None:
    assert watch([0.6] * 60 + [1.5] * 5 + [0.6] * 60)[1] == []
    assert watch([1.3] * 31, answered=3)[1] == [], "93 answers are too few"
    assert watch([0.99] * 200)[1] == [], "within the budget"


def test_a_little_less_than_late_is_no_end_of_it() -> None:
    # Late, then just inside for as long as the average needs to follow, then late again: one episode.
    state, said = watch([1.1] * 20 + [0.95] * 14 + [1.1] * 10)
    assert len(said) == 1
    assert state.factors["a"] > 1.0


def test_it_grows_at_most_every_dwell_and_to_the_most() -> None:
    state, said = watch([1.5] * 400)
    assert [at_s for at_s, _ in said[:3]] == [30.0, 90.0]
    assert state.factors == {"a": RULE.most}


def test_it_is_planned_as_measured_when_it_would_have_been_in_time_without() -> None:
    state, _ = watch([1.5] * 31)
    # 0.5 of the budget at 1.5 times: 0.75 without, which is clear of it. 0.7 would be 1.05.
    kept, said = watch([0.7] * 600, state, 31.0)
    assert (said, kept.factors) == ([], state.factors)
    freed, said = watch([0.5] * 320, state, 31.0)
    assert freed.factors == {}
    assert said[0][1].startswith("a keeps its budgets again")


def test_no_request_comes_any_more() -> None:
    state, _ = watch([1.5] * 31)
    assert step(RULE, state, 140.0, ())[0].factors == state.factors
    assert step(RULE, state, 151.0, ())[0].factors == {}


def test_the_latest_stage_of_a_model_counts_and_excused_models_do_not() -> None:
    state, excused = StageDriftState(), StageDriftState()
    for second in range(31):
        stages = [traffic(1.1), traffic(1.4, stage="again"), traffic(0.5, stage="other", model="b")]
        state, _ = step(RULE, state, float(second), stages)
        excused, said = step(RULE, excused, float(second), stages, {"a"})
        assert said == ()
    assert state.factors == {"a": pytest.approx(1.4)}
    assert excused.factors == {}
    assert state.without({"a"}).factors == {}
    assert {w.model for w in state.without({"a"}).watched.values()} == {"b"}


@given(st.lists(st.tuples(st.floats(0.01, 20.0), st.integers(0, 100)), max_size=200))
def test_factors_stay_in_bounds_and_change_only_with_a_reason_or_by_silence(seen: list[tuple[float, int]]) -> None:
    state = StageDriftState()
    for second, (ratio, answered) in enumerate(seen):
        before = state.factors
        state, reasons = step(RULE, state, float(second), [traffic(ratio, answered)])
        assert all(1.0 < f <= RULE.most for f in state.factors.values())
        assert bool(reasons) == (state.factors != before) or not answered


def test_the_table_to_plan_with() -> None:
    slow = slowed(table(), {"a": 1.5, "unknown": 2.0})
    for share, row in table().latency_ms["a"].items():
        assert slow.latency_ms["a"][share] == pytest.approx([1.5 * ms for ms in row])
    assert slow.latency_ms["b"] == table().latency_ms["b"]
    assert slowed(table(), {}) == table()


LATE = ServingReason("stage_late", "d", "app", "find", numbers={"ratio": 1.5, "factor": 1.5})


def test_the_reorganiser_plans_with_it_but_serves_no_less_for_it() -> None:
    w = world(one_each)
    reorganiser = w.reorganiser
    reorganiser.handle(r.ModelsChanged(0.0, (Demand(version("d", slo_ms=50.0), 10.0),)))
    plan = reorganiser.state.plan
    assert plan is not None
    orders = reorganiser.handle(r.StagesDrifted(1.0, {"d": 1.5}, (LATE,)))
    slower = reorganiser.state.plan
    assert slower is not None
    assert slower.total_share > plan.total_share
    assert [o.cause for o in orders if isinstance(o, r.RecordServingPlan)] == [(LATE,)]
    assert reorganiser.handle(r.StagesDrifted(2.0, {"d": 1.5}, (LATE,))) == [], "reported already"
    reorganiser.handle(r.StagesDrifted(3.0, {"d": 60.0}))
    assert (reorganiser.state.refused, reorganiser.state.capped) == ({}, {})
    reorganiser.handle(r.StagesDrifted(4.0, {}))
    assert reorganiser.state.plan == plan


def test_bad_rules_are_refused() -> None:
    for field, value in (("clear", 0.0), ("hold_s", -1.0), ("half_life_s", 0.0), ("least_answers", 0), ("most", 1.0)):
        with pytest.raises(InvalidValue, match=f"stages.{field}"):
            replace(RULE, **{field: value})

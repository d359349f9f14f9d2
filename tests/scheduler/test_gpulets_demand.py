"""Models that shall be served: which rate each needs, and which of them miss their objective."""

from __future__ import annotations

from dataclasses import replace

import pytest
from reorganiser_world import demand

from edge.core.front_messages import ModelTraffic, TrafficReport
from edge.core.serving_reasons import Refusal
from scheduler.gpulets.demand import Demands
from scheduler.gpulets.rates import planned_rate
from scheduler.gpulets.reorganiser_settings import ReorganiserSettings

RULES = ReorganiserSettings()


def report(*models: ModelTraffic) -> TrafficReport:
    return TrafficReport(1.0, 1.0, 1, models, ())


def test_models_that_are_asked_no_more_are_forgotten_and_a_changed_rate_is_expected_now() -> None:
    demands = Demands()
    demands.change([demand("a", 10.0), demand("b", 10.0)])
    demands.count(report(ModelTraffic("a", 40)), RULES.rates, settled=False)
    measured = demands.models["a"].estimate
    demands.change([demand("a", 10.0)])
    assert list(demands.models) == ["a"]
    assert demands.models["a"].estimate == measured, "the same rate: what was measured stands"
    demands.change([demand("a", 25.0)])
    assert demands.models["a"].estimate.rate == 25.0


def test_another_version_is_tried_though_the_one_before_failed() -> None:
    demands = Demands()
    demands.change([demand("a")])
    failing = demands.models["a"].failing = Refusal("failing", "a", said="no such operator")
    demands.change([demand("a", slo_ms=90.0)])
    assert demands.models["a"].failing == failing, "the same files"
    demands.change([demand("a", number=2)])
    assert demands.models["a"].failing is None


def test_need_is_the_planned_rate_but_never_less_than_the_least() -> None:
    demands = Demands()
    demands.change([demand("a", 20.0), replace(demand("b", 0.1), min_rate=7.0)])
    assert demands.models["a"].need(0.0, RULES.rates) == planned_rate(20.0, RULES.rates)
    assert demands.models["b"].need(0.0, RULES.rates) == 7.0


def test_a_boost_is_raised_by_15_percent_halves_in_two_minutes_and_ends_at_twice() -> None:
    demands = Demands()
    demands.change([demand("a")])
    model = demands.models["a"]
    model.raise_boost(100.0)
    assert model.boost_at(100.0) == pytest.approx(1.15)
    assert model.boost_at(220.0) == pytest.approx(1.075)
    for _ in range(10):
        model.raise_boost(220.0)
    assert model.boost_at(220.0) == 2.0


def test_models_that_miss_their_objective_are_named_once_per_period_unless_they_are_excused() -> None:
    demands = Demands()
    demands.change([demand(m) for m in "abc"])
    late = [ModelTraffic(m, 10, 10, 3) for m in "ab"]
    fine = ModelTraffic("c", 300, 300, 2)
    demands.count(report(*late, fine), RULES.rates, settled=True)
    assert demands.missing(4.9, RULES, ()) == [], "the period is not over"
    found = demands.missing(5.0, RULES, {"b"})
    assert [(m.name, m.violation) for m in found] == [("a", 0.3)]
    assert demands.missing(10.0, RULES, ()) == [], "counted anew"


def test_reports_of_other_routes_count_for_the_rate_only() -> None:
    demands = Demands()
    demands.change([demand("a", 10.0)])
    demands.count(report(ModelTraffic("a", 100, 100, 100)), RULES.rates, settled=False)
    assert demands.models["a"].estimate.rate > 10.0
    assert demands.missing(5.0, RULES, ()) == []


def test_over_and_under_are_by_the_rate_that_is_held() -> None:
    demands = Demands()
    demands.change([demand(m, 20.0) for m in "abc"])
    need = demands.models["a"].need(0.0, RULES.rates)
    for name, held in (("a", need / 1.2), ("b", need), ("c", need / 0.7)):
        demands.models[name].held = held
    assert [m.name for m in demands.over(0.0, RULES)] == ["a"]
    assert [m.name for m in demands.under(0.0, RULES)] == ["c"]

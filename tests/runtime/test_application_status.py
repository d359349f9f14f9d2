"""Applications for people: totals of stages over reports of the front, beside the budgets in force."""

from __future__ import annotations

from dataclasses import replace

from serving_parts import chained

from edge.core.layout import StageTraffic, TrafficReport
from edge.core.serving_reasons import ServingReason
from edge.runtime.application_status import StageTotals, applications_status
from edge.runtime.serving_status import View


def report(*stages: StageTraffic) -> TrafficReport:
    return TrafficReport(1.0, 1.0, 1, (), (), (), stages)


def test_counts_add_up_and_the_latest_times_stay() -> None:
    totals = StageTotals()
    totals.add(report(StageTraffic("app", "s1", "b", 4, 3, 1, 12, 3.0, 5.0, (20.0, 41.0), 50.0)))
    totals.add(report(StageTraffic("app", "s1", "b", 2, 2, 0, 2, 1.0, 1.0, (10.0, 11.0), 50.0)))
    totals.add(report(StageTraffic("app", "s1", "b", budget_ms=60.0)))
    found = totals.of("app", "s1")
    assert (found.requests, found.answered, found.over, found.rows) == (6, 5, 1, 14)
    assert (found.took_ms, found.fan_out, found.fan_out_p99) == ((10.0, 11.0), 1.0, 1.0), "nothing came since"
    assert totals.of("app", "s2").requests == 0


def test_budgets_stand_beside_the_even_split() -> None:
    application = replace(chained("a", "b", slo_ms=100.0), budgets={"s0": 30.0, "s1": 65.0})
    view = View(
        applications=(application,),
        application_rates={"app": (5.0, 7.5)},
        split_reasons=(ServingReason("one_queue", "a"), ServingReason("one_queue", "z")),
    )
    (found,) = applications_status(view, StageTotals())
    assert (found.name, found.rate, found.planned_rate, found.longest_ms) == ("app", 5.0, 7.5, 95.0)
    assert [(s.name, s.budget_ms, s.even_ms, s.after) for s in found.stages] == [
        ("s0", 30.0, 50.0, ()), ("s1", 65.0, 50.0, ("s0",))
    ]  # fmt: skip
    assert found.reasons == ("a has one queue from now on",)
    (unplanned,) = applications_status(View(applications=(chained("a", "b"),)), StageTotals())
    assert unplanned.longest_ms is None
    assert {s.budget_ms for s in unplanned.stages} == {None}


def test_an_application_gets_no_reasons_of_another() -> None:
    """Their cameras, and so their users, may be others."""
    one, two = chained("a", "b"), replace(chained("b", "c"), name="two")
    whole = ServingReason("split", numbers={"share": 0.5, "other_share": 0.6})
    budgets = [ServingReason("budget", "b", name, "s1", numbers={"ms": 1.0, "even_ms": 2.0}) for name in ("app", "two")]
    view = View(applications=(one, two), split_reasons=(whole, *budgets))
    found = [a.reasons for a in applications_status(view, StageTotals())]
    assert found == [(whole.words(), budgets[0].words()), (whole.words(), budgets[1].words())]

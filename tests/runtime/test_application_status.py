"""Applications for people: totals of stages over reports of the front, beside the budgets in force."""

from __future__ import annotations

from dataclasses import replace

from serving_parts import chained, version

from edge.core.front_messages import StageTraffic, TrafficReport
from edge.core.serving import DeviceTable, Gpulet, ModelBatch, QueueId, ServingPlan
from edge.core.serving_reasons import ServingReason
from edge.runtime.application_status import StageTotals, applications_status
from edge.runtime.serving_status import View, look
from scheduler.gpulets.demand import Demand
from scheduler.gpulets.fitting import Capacity
from scheduler.gpulets.follow import plan_function
from scheduler.gpulets.pipelines import PipelineDemand
from scheduler.gpulets.reorganiser import Reorganiser
from scheduler.gpulets.reorganiser_events import ModelsChanged
from scheduler.gpulets.reorganiser_settings import ReorganiserSettings
from scheduler.joint.fitting import fit_pipelines


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


def test_each_stage_has_what_is_planned_for_it() -> None:
    """The longest that a request takes, the share of its model's gpu-lets, and its rates with the fan-out measured."""
    queues = {"s1": 1}
    application = replace(chained("a", "b", slo_ms=100.0), budgets={"s0": 30.0, "s1": 65.0}, queues=queues)
    shared = Gpulet(0, 0.2, 20.0, (ModelBatch("a", 1), ModelBatch("b", 2)))
    apart = Gpulet(0, 0.3, 20.0, (ModelBatch("b", 4, 1),))
    view = View(
        applications=(application,),
        application_rates={"app": (5.0, 7.5)},
        pipelines=(PipelineDemand(application, 7.5, {"s1": 3.0}),),
        plan=ServingPlan(True, (shared, apart, apart)),
        planned_ms={QueueId("a"): 27.5, QueueId("b"): 99.0, QueueId("b", 1): 61.25},
    )
    (found,) = applications_status(view, StageTotals())
    assert [(s.planned_ms, s.rate, s.planned_rate, s.share) for s in found.stages] == [
        (27.5, 5.0, 7.5, 0.2), (61.25, 15.0, 22.5, 0.6)
    ]  # fmt: skip
    (unplanned,) = applications_status(View(applications=(application,)), StageTotals())
    assert [(s.planned_ms, s.share) for s in unplanned.stages] == [(None, 0.0), (None, 0.0)]


def test_a_models_objective_is_that_of_the_plan_in_force() -> None:
    """One model's budget is longer than its even part, the other's shorter; a model's own objective bounds both."""
    rows = {"a": {s: (100.0 / s,) for s in range(5, 101, 5)}, "b": {s: (800.0 / s,) for s in range(5, 101, 5)}}
    reorganiser = Reorganiser(
        plan_function("mosaic"), ReorganiserSettings(), Capacity(1.0, 1.0), DeviceTable("toy", rows, {}),
        fit_all=fit_pipelines,
    )  # fmt: skip
    application = replace(chained("a", "b", slo_ms=80.0), rate=10.0)
    wanted = tuple(Demand(replace(version(m), slo_ms=500.0), 10.0, slo_ms=40.0) for m in "ab")
    reorganiser.handle(ModelsChanged(0.0, wanted, (application,)))
    view = look(reorganiser)
    (planned,) = view.applications
    assert planned.budgets["s1"] > 45.0
    assert {m: v.slo_ms for m, v in view.models.items()} == {"a": planned.budgets["s0"], "b": planned.budgets["s1"]}
    stages = {s.model: s for s in applications_status(view, StageTotals())[0].stages}
    for model, stage in stages.items():
        assert stage.planned_ms is not None
        assert 0 < stage.planned_ms <= planned.budgets[stage.name] + 1e-3
        assert stage.share == sum(g.share for g in view.plan.gpulets if g.models[0].model == model)  # type: ignore[union-attr]
    strict = replace(wanted[1], version=replace(wanted[1].version, slo_ms=30.0))
    reorganiser.handle(ModelsChanged(1.0, (wanted[0], strict), (application,)))
    assert look(reorganiser).models["b"].slo_ms <= 30.0

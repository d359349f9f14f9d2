"""Applications in the reorganiser: measured rates and fan-outs, and budgets chosen together with the plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from examples_kit import tried
from hypothesis import given, settings
from hypothesis import strategies as st
from reorganiser_world import by_load, one_each, table, version

from edge.core.applications import Application, ApplicationOutput, Feed, Stage, ValueSource
from edge.core.front_messages import ModelTraffic, StageTraffic, TrafficReport
from edge.core.oip import TensorSpec
from edge.core.serving import DeviceTable, ModelBatch, ServedModel
from scheduler.gpulets import reorganiser_events as r
from scheduler.gpulets.demand import Demand
from scheduler.gpulets.fitting import Capacity
from scheduler.gpulets.follow import plan_function
from scheduler.gpulets.pipelines import FittedPipelines, PipelineDemand, PipelineRates, fit_evenly
from scheduler.gpulets.rates import RateSettings
from scheduler.gpulets.reorganiser import Reorganiser
from scheduler.gpulets.reorganiser_settings import ReorganiserSettings, ShareKindLimits
from scheduler.joint.fitting import fit_pipelines

RATES = RateSettings()
X = TensorSpec("x", "FP32", (-1, 4))


def chain(*models: str, name: str = "app", slo_ms: float = 120.0, rate: float = 5.0, rows: float = 1.0) -> Application:
    """Each model reads the one before; the last asks `rows` per request."""
    stages = tuple(
        Stage(f"s{n}", m, {"x": Feed(ValueSource(f"s{n - 1}" if n else None, "x"))}, per_request=rows if n else 1.0)
        for n, m in enumerate(models)
    )
    out = (ApplicationOutput(X, ValueSource(f"s{len(models) - 1}", "x")),)
    return Application(name, slo_ms, (X,), out, stages, rate=rate)


def asked(application: Application, rate: float) -> tuple[list[ServedModel], list[ServedModel]]:
    """Models as the reorganiser hands them over: with the even split, and with objectives of their own."""
    even = {m: application.slo_ms / len(application.stages) for m in application.models}
    rates = {s.model: rate * s.per_request for s in application.stages}
    return [ServedModel(m, rates[m], even[m]) for m in even], [ServedModel(m, rates[m], 1000.0) for m in even]


@given(
    st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True),
    st.floats(1.0, 60.0),
    st.floats(30.0, 400.0),
    st.floats(0.2, 1.0),
)
@settings(max_examples=tried(10, 25))
def test_never_more_share_than_the_even_split_and_budgets_within_the_objective(
    models: list[str], rate: float, slo_ms: float, room: float
) -> None:
    application = chain(*models, slo_ms=slo_ms, rate=rate)
    even, own = asked(application, rate)
    demands = [PipelineDemand(application, rate)]
    capacity = Capacity(round(room, 2), round(room, 2))
    evenly = fit_evenly(even, own, demands, table(), capacity, by_load)
    split = fit_pipelines(even, own, demands, table(), capacity, by_load, most_steps=1_000)
    assert replace(application, budgets=split.budgets["app"]).rest_ms["s0"] <= slo_ms * (1 + 1e-9)
    assert split.fitted.plan.total_share <= capacity.most + 1e-9
    if not evenly.fitted.capped and not evenly.fitted.refused:
        assert split.fitted.plan.total_share <= evenly.fitted.plan.total_share + 1e-9
        assert not split.fitted.capped
        assert not split.fitted.refused


def test_what_the_even_split_has_to_cap_may_fit() -> None:
    application = chain("d", "c", slo_ms=60.0, rate=20.0)
    even, own = asked(application, 20.0)
    found = {}
    for room in range(30, 101, tried(10, 5)):
        capacity = Capacity(room / 100, room / 100)
        demands = [PipelineDemand(application, 20.0)]
        evenly = fit_evenly(even, own, demands, table(), capacity, one_each).fitted
        split = fit_pipelines(even, own, demands, table(), capacity, one_each).fitted
        found[room] = (bool(evenly.capped or evenly.refused), bool(split.capped or split.refused))
    assert (True, False) in found.values(), found
    assert (False, True) not in found.values(), found


def test_a_plan_that_needs_turns_is_followed_and_the_front_knows() -> None:
    # 23 requests/s within 250 ms: batches of two take 160 ms, so two gpu-lets must be fed in turn (160 + 83 ms).
    device = DeviceTable("by hand", {"m": {50: (100.0, 160.0)}}, {})
    application = chain("m", slo_ms=250.0, rate=23.0)
    even, own = asked(application, 23.0)
    own = [replace(m, slo_ms=250.0) for m in own]
    demands = [PipelineDemand(application, 23.0)]
    mosaic = plan_function("mosaic")
    assert fit_evenly(even, own, demands, device, Capacity(1.0, 1.0), mosaic).fitted.capped
    found = fit_pipelines(even, own, demands, device, Capacity(1.0, 1.0), mosaic)
    assert (found.fitted.capped, found.fitted.refused) == ({}, {})
    assert [(g.percent, g.models) for g in found.fitted.plan.gpulets] == [(50, (ModelBatch("m", 2),))] * 2
    reorganiser = Reorganiser(
        mosaic, ReorganiserSettings(RateSettings(headroom=1.0, risk=0.5)), Capacity(1.0, 1.0), device,
        ShareKindLimits(min_share=0.0), fit_pipelines,
    )  # fmt: skip
    reorganiser.settings = replace(reorganiser.settings, warm_share=0.0)
    reorganiser.handle(r.ModelsChanged(0.0, (Demand(version("m", slo_ms=250.0), 23.0, slo_ms=250.0),), (application,)))
    for executor in list(reorganiser.partitions.executors):
        reorganiser.handle(r.ExecutorReady(1.0, executor))
    layout = reorganiser.routes.layout
    assert layout is not None
    one, two = layout.routes
    assert one.group
    assert one.group == two.group


def test_a_fan_out_that_leaves_the_head_room_is_planned_anew() -> None:
    application = chain("a", "c", slo_ms=150.0, rate=5.0)
    reorganiser = Reorganiser(one_each, ReorganiserSettings(), Capacity(1.0, 1.0), table(), fit_all=fit_pipelines)
    wanted = tuple(Demand(version(m, slo_ms=1000.0), 5.0, slo_ms=75.0) for m in "ac")
    reorganiser.handle(r.ModelsChanged(0.0, wanted, (application,)))

    def planned(start_s: int, rows: int) -> dict[str, float]:
        """Five requests a second that ask for `rows` rows of c each; the rates of the plan then."""
        for n in range(start_s, start_s + 20):
            models = ModelTraffic("a", 5, 5), ModelTraffic("c", 5, 5, rows=5 * rows)
            stages = StageTraffic("app", "s1", "c", 5, 5, rows=5 * rows, fan_out=float(rows), fan_out_p99=float(rows))
            report = TrafficReport(n, 1.0, 1, models, (), (ModelTraffic("app", 5, 5, rows=5),), (stages,))
            reorganiser.handle(r.TrafficMeasured(float(n), report))
        assert reorganiser.state.problem is not None
        return {m.name: m.rate for m in reorganiser.state.problem.models}

    before = planned(1, 1)
    assert before["a"] == pytest.approx(before["c"])
    after = planned(21, 3)
    assert after["a"] == pytest.approx(before["a"], rel=0.1)
    assert after["c"] > 15.0


@pytest.mark.parametrize(("rate", "rows"), [(1e9, 1.0), (10.0, 1e6)])
def test_one_application_of_any_legal_size_does_not_stop_the_planning_of_others(rate: float, rows: float) -> None:
    huge = chain("d", "b", name="huge", rate=rate, rows=rows)
    others = chain("a", "c", slo_ms=150.0)
    reorganiser = Reorganiser(one_each, ReorganiserSettings(), Capacity(1.0, 1.0), table(), fit_all=fit_pipelines)
    wanted = tuple(Demand(version(m, slo_ms=1000.0), 5.0, slo_ms=75.0) for m in "abc")
    wanted += (Demand(version("d", slo_ms=1000.0), rate, slo_ms=60.0),)
    reorganiser.handle(r.ModelsChanged(0.0, wanted, (huge, others)))
    assert reorganiser.state.plan is not None
    placed = {part.model for g in reorganiser.state.plan.gpulets for part in g.models}
    assert placed >= {"a", "c"}


def test_a_models_own_objective_bounds_its_budget() -> None:
    application = chain("a", "c", slo_ms=300.0)
    even, own = asked(application, 10.0)
    strict = [replace(m, slo_ms=25.0) if m.name == "a" else m for m in own]
    even = [replace(m, slo_ms=min(m.slo_ms, 25.0)) if m.name == "a" else m for m in even]
    split = fit_pipelines(even, strict, [PipelineDemand(application, 10.0)], table(), Capacity(1.0, 1.0), one_each)
    worst = {m.name: m.slo_ms for m in split.fitted.problem.models}
    assert worst["a"] <= 25.0 + 1e-9


def test_rates_and_fan_outs_follow_what_is_measured() -> None:
    application = chain("a", "b", rate=5.0)
    rates = PipelineRates()
    rates.change((), [application])
    assert rates.demands([application], RATES)[0].fan_out == {}
    for n in range(120):
        stages = (
            StageTraffic("app", "s1", "b", requests=20, fan_out=3.0),
            StageTraffic("gone", "x", "b", 5, fan_out=9.0),
        )
        traffic = (ModelTraffic("app", arrived=10, rows=20),)
        rates.count(TrafficReport(float(n), 1.0, 1, (), (), traffic, stages), RATES)
    (found,) = rates.demands([application], RATES)
    assert rates.estimates["app"].rate == pytest.approx(20.0, rel=0.02), "rows, which batches are made of"
    assert found.fan_out == {"s1": pytest.approx(3.0, rel=0.01)}
    assert found.rate > 20.0, "head-room"
    rates.change([application], [replace(application, rate=7.0)])
    assert rates.estimates["app"].rate == 7.0, "a changed rate is the one that is expected now"
    rates.change([application], [])
    assert (rates.estimates, rates.fan_out) == ({}, {})


def test_a_plan_that_saves_shares_is_looked_for_again_when_less_is_asked_or_more_is_there() -> None:
    application = chain("a", "c", slo_ms=150.0)
    looked: list[float] = []

    def counted(*asked: Any) -> FittedPipelines:
        looked.append(asked[2][0].rate)
        return fit_evenly(*asked)

    reorganiser = Reorganiser(one_each, ReorganiserSettings(), Capacity(1.0, 1.0), table(), fit_all=counted)
    wanted = tuple(Demand(version(m, slo_ms=1000.0), 20.0, slo_ms=75.0) for m in "ac")
    reorganiser.handle(r.ModelsChanged(0.0, wanted, (replace(application, rate=20.0),)))

    def looks(start_s: int, rate: int) -> int:
        """How often is planned in five minutes with so many requests a second."""
        before = len(looked)
        for n in range(start_s, start_s + 300):
            models = tuple(ModelTraffic(m, rate, rate, rows=rate) for m in "ac")
            stages = tuple(
                StageTraffic("app", s, m, rate, rate, rows=rate, fan_out=1.0) for s, m in (("s0", "a"), ("s1", "c"))
            )
            traffic = (ModelTraffic("app", rate, rate, rows=rate),)
            reorganiser.handle(r.TrafficMeasured(float(n), TrafficReport(n, 1.0, 1, models, (), traffic, stages)))
        return len(looked) - before

    assert looks(1, 20) == 1, "once after the plan was made, and not every 20 s"
    assert looks(301, 20) == 0
    assert looks(601, 19) + looks(901, 18) == 1, "a tenth less"
    reorganiser.handle(r.TableChanged(1201.0, table(0.9)))
    assert looks(1202, 18) == 1, "other latencies"


def test_a_fan_out_begins_at_what_the_application_says_and_each_row_counts_alike() -> None:
    application = chain("a", "b", rate=5.0, rows=2.0)

    def after(*stages: StageTraffic) -> float:
        """The fan-out that is planned for after a second with these requests."""
        rates = PipelineRates()
        rates.change((), [application])
        for stage in stages:
            rates.count(TrafficReport(1.0, 1.0, 1, (), (), (), (stage,)), RATES)
        (found,) = rates.demands([application], RATES)
        return found.rows_per_row(application.stages[1])

    assert after() == 2.0
    one = after(StageTraffic("app", "s1", "b", 1, rows=9, fan_out=9.0, of_rows=1))
    assert 2.0 < one < 2.2, "one request is chance"
    large = StageTraffic("app", "s1", "b", 1, rows=4000, fan_out=4.0, of_rows=1000)
    small = StageTraffic("app", "s1", "b", 1, rows=0, fan_out=0.0, of_rows=1)
    assert 3.6 < after(large, small) < 4.0, "a thousand rows of four each, and one of none"
    nothing = after(*[StageTraffic("app", "s1", "b", 50, fan_out=0.0, of_rows=50)] * 400)
    assert nothing == 0.01, "measured as none, it is not planned for as if nothing were known"


def test_the_front_gets_the_budgets_of_the_plan() -> None:
    application = chain("d", "c", slo_ms=150.0)
    reorganiser = Reorganiser(
        one_each, ReorganiserSettings(), Capacity(1.0, 1.0), table(), fit_all=fit_pipelines
    )  # fmt: skip
    wanted = tuple(Demand(version(m, slo_ms=1000.0), 5.0, slo_ms=75.0) for m in "cd")
    reorganiser.handle(r.ModelsChanged(0.0, wanted, (application,)))
    (planned,) = reorganiser.state.applications
    assert planned.budgets.keys() == {"s0", "s1"}
    assert planned.budgets["s1"] > planned.budgets["s0"], "the dearer model gets more of the time"
    assert reorganiser.state.plan is not None
    even = Reorganiser(one_each, ReorganiserSettings(), Capacity(1.0, 1.0), table())
    even.handle(r.ModelsChanged(0.0, wanted, (application,)))
    assert even.state.plan is not None
    assert even.state.applications[0].budgets == {"s0": 75.0, "s1": 75.0}
    assert reorganiser.state.plan.total_share <= even.state.plan.total_share + 1e-9

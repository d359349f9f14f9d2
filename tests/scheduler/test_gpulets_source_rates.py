"""Cameras as sources of applications: their rates, and what the planner makes of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from reorganiser_world import one_each, table, version
from test_gpulets_pipelines import RATES, chain

from edge.core.application_sources import ApplicationSource
from edge.core.applications import Application
from edge.core.front_messages import ModelTraffic, StageTraffic, TrafficReport
from edge.core.serving_reasons import ServingReason, in_words
from scheduler.gpulets import reorganiser_events as r
from scheduler.gpulets.demand import Demand
from scheduler.gpulets.fitting import Capacity
from scheduler.gpulets.pipelines import PipelineRates
from scheduler.gpulets.rates import planned_rate
from scheduler.gpulets.reorganiser import Reorganiser
from scheduler.gpulets.reorganiser_settings import ReorganiserSettings
from scheduler.gpulets.source_rates import SourceState, change_of, fault_of, fed

GATE = SourceState(("car", "person"), most=10.0)


def sourced(camera: str = "gate", classes: tuple[str, ...] = (), max_rate: float | None = None) -> Application:
    return replace(chain("a", "b", rows=2.0), source=ApplicationSource(camera, classes, max_rate=max_rate), rate=0.0)


@given(
    st.one_of(st.none(), st.floats(0.1, 60.0)),
    st.floats(0.1, 60.0),
    st.one_of(st.none(), st.floats(0.0, 60.0)),
    st.one_of(st.none(), st.floats(0.1, 60.0)),
)
def test_the_rate_is_the_lambda_in_force_bounded_by_the_stream_and_the_limit(
    in_force: float | None, most: float, fps: float | None, max_rate: float | None
) -> None:
    camera = SourceState(("car",), True, in_force, most, fps)
    found = fed(sourced(max_rate=max_rate), {"gate": camera})
    assert found.unfed is None
    bounds = [most if in_force is None else in_force, *([fps] if fps else []), *([max_rate] if max_rate else [])]
    assert found.rate == min(bounds)


def test_a_camera_that_gives_nothing_says_why_and_asks_for_nothing() -> None:
    cases = {
        "unknown_camera": (sourced("yard"), {"gate": GATE}),
        "unknown_class": (sourced(classes=("ship",)), {"gate": GATE}),
        "camera_off": (sourced(), {"gate": replace(GATE, enabled=False)}),
    }
    for fault, (application, cameras) in cases.items():
        assert application.source is not None
        assert fault_of(application.source, cameras) == fault
        found = fed(application, cameras)
        assert found.rate == 0.0
        assert found.unfed == fault
    clients = chain("a")
    assert fed(clients, {}) is clients


def test_a_camera_asks_no_more_than_its_models_can_be_asked() -> None:
    many = replace(chain("a", "b", rows=1e6), name="many", rate=0.0)
    wide = replace(many, stages=(*many.stages, *(replace(many.stages[1], name=f"t{n}") for n in range(60))))
    camera = SourceState(("car",), most=240.0)
    found = fed(replace(wide, source=ApplicationSource("gate")), {"gate": camera})
    assert found.rate == wide.most_rate == pytest.approx(1e9 / 61e6)


def test_only_other_rates_are_reported_as_such() -> None:
    slow, fast = (fed(sourced(), {"gate": replace(GATE, in_force=rate)}) for rate in (2.5, 5.0))
    assert change_of([slow], [fast]) == (
        ServingReason("source_rate", application="app", numbers={"before": 2.5, "now": 5.0}),
    )
    assert change_of([slow], [slow]) == ()
    assert change_of([], [fast]) == ()


def test_the_known_rate_counts_however_few_requests_came() -> None:
    application = fed(sourced(), {"gate": replace(GATE, in_force=5.0)})
    rates = PipelineRates()
    rates.change((), [application])
    for n in range(60):  # the camera is silent
        rates.count(TrafficReport(float(n), 1.0, 1, (), (), (ModelTraffic("app"),)), RATES)
    (demand,) = rates.demands([application], RATES)
    assert demand.rate == pytest.approx(planned_rate(5.0, RATES), abs=1e-3)
    known = rates.known_rates([demand], RATES)
    assert known == pytest.approx({"a": demand.rate, "b": 2 * demand.rate}, abs=1e-2)
    stage = StageTraffic("app", "s1", "b", requests=5, answered=5, rows=20, fan_out=4.0)
    for n in range(120):
        rates.count(TrafficReport(float(n), 1.0, 1, (), (), (), (stage,)), RATES)
    (demand,) = rates.demands([application], RATES)
    assert rates.known_rates([demand], RATES)["b"] == pytest.approx(4 * demand.rate, rel=0.01), "fan-outs are measured"


def test_the_plan_follows_lambda_before_requests_are_seen() -> None:
    reorganiser = Reorganiser(one_each, ReorganiserSettings(), Capacity(1.0, 1.0), table())
    wanted = tuple(Demand(version(m, slo_ms=1000.0), 1.0, slo_ms=60.0) for m in "ab")
    slow, fast, gone = (
        fed(sourced(), cameras)
        for cameras in ({"gate": replace(GATE, in_force=1.0)}, {"gate": replace(GATE, in_force=60.0)}, {})
    )

    def planned(application: Application, at_s: float, why: tuple[ServingReason, ...] = ()) -> tuple[float, list[str]]:
        out = reorganiser.handle(r.ModelsChanged(at_s, wanted, (application,), None, why))
        plan = reorganiser.state.plan
        assert plan is not None
        return plan.total_share, [in_words(o.cause) for o in out if isinstance(o, r.RecordServingPlan)]

    less, _ = planned(slow, 0.0)
    more, causes = planned(fast, 1.0, change_of([slow], [fast]))
    assert more > less
    assert causes == ["cameras answer at other rates: app 1 -> 60/s"]
    again, _ = planned(slow, 2.0, change_of([fast], [slow]))
    assert again == pytest.approx(less), "what it needs no more is given back at once"
    nothing, _ = planned(gone, 3.0)
    assert nothing <= less
    assert reorganiser.state.applications[0].unfed

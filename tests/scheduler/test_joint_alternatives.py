"""Stages that several models may answer: the best total accuracy that holds every objective, and when it changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reorganiser_world import SimulatedServing, one_each, table, version

from edge.core.applications import Alternative, Application, ApplicationOutput, Feed, Stage, ValueSource
from edge.core.errors import InvalidValue
from edge.core.front_messages import ModelTraffic, StageTraffic, TrafficReport
from edge.core.oip import TensorSpec
from edge.core.serving import ServedModel
from edge.core.serving_reasons import ServingReason
from scheduler.gpulets import reorganiser_events as r
from scheduler.gpulets.demand import Demand
from scheduler.gpulets.fitting import Capacity
from scheduler.gpulets.pipelines import FittedPipelines, PipelineDemand, asked_rows, evenly_split, fit_evenly
from scheduler.gpulets.reorganiser import Reorganiser
from scheduler.gpulets.reorganiser_settings import ReorganiserSettings, ShareKindLimits
from scheduler.joint.alternatives import (
    MARGIN,
    MOST_CHOICES,
    MOST_STEPS,
    FitAlternatives,
    candidates,
    chosen,
    of_choice,
    total_accuracy,
)
from scheduler.joint.fitting import fit_pipelines

X = TensorSpec("x", "FP32", (-1, 4))
FIT = FitAlternatives(fit_evenly)
#: Work of one request in the table's device milliseconds: c 8, b 4, a 2, d 1.
LARGE, SMALL = "c", "a"


def application(
    *stages: Sequence[tuple[str, float]], slo_ms: float = 200.0, name: str = "app", rate: float = 5.0
) -> Application:
    """A chain; of each stage the models with their accuracies, the first of which answers."""
    made = []
    for n, ((model, accuracy), *others) in enumerate(stages):
        feed = {"x": Feed(ValueSource(f"s{n - 1}" if n else None, "x"))}
        made.append(Stage(f"s{n}", model, feed, None, 1.0, accuracy, tuple(Alternative(m, a) for m, a in others)))
    out = (ApplicationOutput(X, ValueSource(f"s{len(stages) - 1}", "x")),)
    return Application(name, slo_ms, (X,), out, tuple(made), rate=rate)


READER = application([("d", 0.99)], [(LARGE, 0.95), (SMALL, 0.85)])


def planned(
    demands: Sequence[PipelineDemand], capacity: float = 1.0, direct: Mapping[str, float] | None = None
) -> tuple[dict[str, str], float]:
    """Choice of the application and the least part of its rate that a model is served at."""
    found = fitted(demands, capacity, direct)
    return dict(found.choices["app"]), min(found.fitted.capped.values(), default=1.0)


def fitted(demands: Sequence[PipelineDemand], capacity: float = 1.0, direct: Mapping[str, float] | None = None):  # type: ignore[no-untyped-def]
    asked = asked_rows(demands)
    names = sorted({m for d in demands for m in d.application.every_model})
    own = [ServedModel(m, asked.get(m, 0.0) + (direct or {}).get(m, 0.5), 1000.0) for m in names]
    room = Capacity(capacity, capacity)
    return FIT(evenly_split(own, demands), own, demands, table(), room, one_each)


def test_the_most_accurate_model_answers_while_it_holds_and_another_beyond() -> None:
    assert planned([PipelineDemand(READER, 5.0)]) == ({"s1": LARGE}, 1.0)
    choice, part = planned([PipelineDemand(READER, 150.0)])
    assert (choice, part) == ({"s1": SMALL}, 1.0)
    (words, *_) = fitted([PipelineDemand(READER, 150.0)]).reasons
    assert words.words().startswith("app, s1: a answers (accuracy 0.85) instead of c (0.95)")


def test_where_none_holds_as_much_as_can_be_is_served() -> None:
    _, part = planned([PipelineDemand(READER, 900.0)])
    assert 0.0 < part < 1.0
    assert "with either" in fitted([PipelineDemand(READER, 900.0)]).reasons[0].words()


def with_bystander(rate: float, slo_ms: float, bystander_rate: float = 5.0, priority: int = 0) -> FittedPipelines:
    """READER beside model b, which no stage asks."""
    reader = PipelineDemand(replace(READER, priority=1), rate)
    asked = asked_rows([reader])
    own = [ServedModel(m, asked.get(m, 0.5), 1000.0, 1) for m in ("a", "c", "d")]
    own.append(ServedModel("b", bystander_rate, slo_ms, priority))
    return FIT(evenly_split(own, [reader]), own, [reader], table(), Capacity(1.0, 1.0), one_each)


def test_a_model_beside_that_cannot_be_served_at_all_does_not_decide() -> None:
    """Every choice leaves it refused; the large model stays where it holds, and yields where it does not."""
    for priority in (0, 1, 2):
        held, pressed = (with_bystander(rate, 2.0, priority=priority) for rate in (5.0, 150.0))
        assert (held.fitted.refused.keys(), pressed.fitted.refused.keys()) == ({"b"}, {"b"})
        assert (held.choices, held.fitted.capped) == ({"app": {"s1": LARGE}}, {})
        assert (pressed.choices, pressed.fitted.capped) == ({"app": {"s1": SMALL}}, {}), "it was capped with c"
        assert pressed.reasons[0].numbers["holds"] == 1.0


def test_a_model_that_yields_before_them_does_not_cost_their_accuracy() -> None:
    """At 60/s the large model holds, beside it not all of b; b decides only where it does not yield first."""
    lower, equal = (with_bystander(60.0, 1000.0, 120.0, priority) for priority in (0, 1))
    assert 0.0 < lower.fitted.capped["b"] < 1.0
    assert lower.choices == {"app": {"s1": LARGE}}
    assert (equal.choices, equal.fitted.capped) == ({"app": {"s1": SMALL}}, {})


def test_a_model_of_the_same_accuracy_is_no_reason() -> None:
    alike = application([("d", 0.99)], [(SMALL, 0.9), (LARGE, 0.9)])
    found = fitted([PipelineDemand(alike, 5.0)])
    assert found.choices["app"] == {"s1": SMALL}, "the one in force stays"
    assert found.reasons == ()


def test_without_alternatives_nothing_changes() -> None:
    plain = application([("d", 0.9)], [("c", 0.9)])
    demands = [PipelineDemand(plain, 20.0)]
    own = [ServedModel(m, 20.0, 1000.0) for m in "cd"]
    given_ = evenly_split(own, demands)
    room = Capacity(1.0, 1.0)
    assert FIT(given_, own, demands, table(), room, one_each) == fit_evenly(
        given_, own, demands, table(), room, one_each
    )


def test_a_rate_at_the_limit_does_not_change_the_models_to_and_fro() -> None:
    """From the highest rate at which the accurate model holds down to a tenth less, each stays as it is."""
    low, high = 5.0, 150.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if planned([PipelineDemand(READER, middle)])[0]["s1"] == LARGE else (low, middle)
    small = READER.choosing({"s1": SMALL})
    near = 0.97 * low
    assert planned([PipelineDemand(READER, near)])[0] == {"s1": LARGE}
    assert planned([PipelineDemand(small, near)])[0] == {"s1": SMALL}
    assert planned([PipelineDemand(small, 0.9 * low / MARGIN)])[0] == {"s1": LARGE}


def test_rates_that_cross_do_not_change_the_models_to_and_fro() -> None:
    """Two applications of which either may have its large model, but not both: a little more rate does not move it."""
    options = [(LARGE, 0.95), (SMALL, 0.85)]
    one, two = (application(options, name=name) for name in ("one", "two"))

    def after(rate: float, other: float, now: Mapping[str, str]) -> dict[str, str]:
        demands = [
            PipelineDemand(one.choosing({"s0": now["one"]}), rate),
            PipelineDemand(two.choosing({"s0": now["two"]}), other),
        ]
        return {name: models["s0"] for name, models in fitted(demands).choices.items()}

    first = {"one": LARGE, "two": SMALL}
    assert after(60.0, 60.0, {"one": LARGE, "two": LARGE}) == first  # both large would not hold
    assert after(60.0, 62.0, first) == after(62.0, 60.0, first) == first
    assert after(55.0, 72.0, first) == {"one": SMALL, "two": LARGE}


@given(st.integers(1, 14), st.integers(2, 4), st.data())
@settings(max_examples=8, deadline=None)
def test_the_choice_in_force_is_always_tried(stages: int, models: int, data: st.DataObject) -> None:
    """And with it the most and the least accurate, however many stages may choose."""
    names = [(f"m{n}", 0.99 - 0.1 * n) for n in range(models)]
    wanted = application(*[names] * stages)
    now = {f"s{n}": data.draw(st.sampled_from(names))[0] for n in range(stages)}
    demands = [PipelineDemand(wanted.choosing(now), 10.0)]
    tried = [c["app"] for c in candidates(demands, {name for name, _ in names})]
    assert now in tried
    assert len(tried) <= MOST_CHOICES + 1
    totals = [total_accuracy(of_choice(demands, {"app": c})) for c in tried]
    least, most = ({f"s{n}": names[k][0] for n in range(stages)} for k in (-1, 0))
    assert (max(totals), min(totals)) == tuple(total_accuracy(of_choice(demands, {"app": c})) for c in (most, least))


def test_direct_requests_stay_with_their_model() -> None:
    """Clients that ask the large model themselves are not moved with the stage."""
    found = fitted([PipelineDemand(READER, 100.0)], direct={LARGE: 20.0, SMALL: 3.0})
    assert found.choices == {"app": {"s1": SMALL}}
    assert found.rates == {LARGE: pytest.approx(20.0), SMALL: pytest.approx(103.0)}


@given(st.floats(1.0, 300.0), st.floats(0.3, 1.0), st.permutations([("c", 0.97), ("b", 0.9), ("a", 0.8)]))
@settings(max_examples=30)
def test_no_choice_that_holds_is_more_accurate(rate: float, room: float, options: list[tuple[str, float]]) -> None:
    """Compared with every choice planned alone; from the most accurate one nothing is held back."""
    best_first = sorted(options, key=lambda o: -o[1])
    wanted = application([("d", 0.99)], best_first)
    room = round(room, 2)
    choice, part = planned([PipelineDemand(wanted, rate)], room)
    holds = []
    for model, accuracy in best_first:
        alone = application([("d", 0.99)], [(model, accuracy)])
        own = [ServedModel(m, rate if m in ("d", model) else 0.5, 1000.0) for m in "abcd"]
        own = [replace(m, rate=rate + 0.5) if m.name in ("d", model) else m for m in own]
        demands = [PipelineDemand(alone, rate)]
        found = fit_evenly(evenly_split(own, demands), own, demands, table(), Capacity(room, room), one_each)
        if not found.fitted.capped and not found.fitted.refused:
            holds.append((accuracy, model))
    if holds:
        assert (choice, part) == ({"s1": max(holds)[1]}, 1.0)
    else:
        assert part < 1.0 or not holds


def test_choices_are_bounded_and_in_the_order_of_their_accuracy() -> None:
    wide = application(*([[("a", 0.9), ("b", 0.8), ("c", 0.7), ("d", 0.6)]] * 5))
    demands = [PipelineDemand(wide, 1.0)]
    found = candidates(demands, set("abcd"))
    accuracies = [total_accuracy(of_choice(demands, c)) for c in found]
    assert len(found) <= MOST_CHOICES + 1
    assert accuracies == sorted(accuracies, reverse=True)
    assert chosen(demands) in found
    assert candidates(demands, {"b"}) == [{"app": {f"s{n}": "b" for n in range(5)}}], "only what is measured"
    assert candidates(demands, set()) == [chosen(demands)], "each keeps its own where none is"


def test_total_accuracy_is_weighted_by_rates() -> None:
    one = application([("a", 0.9)], [("b", 0.5)], name="one")
    other = application([("a", 0.8)], name="other")
    assert one.accuracy == pytest.approx(0.45)
    assert total_accuracy([PipelineDemand(one, 30.0), PipelineDemand(other, 10.0)]) == pytest.approx(
        0.75 * 0.45 + 0.25 * 0.8
    )
    assert total_accuracy([PipelineDemand(one, 0.0), PipelineDemand(other, 0.0)]) == pytest.approx(0.625)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"accuracy": None, "alternatives": (Alternative("b", 0.5),)}, "stages[s].accuracy"),
        ({"accuracy": 1.5}, "stages[s].accuracy"),
        ({"accuracy": 0.9, "version": "1", "alternatives": (Alternative("b", 0.5),)}, "stages[s].version"),
        ({"accuracy": 0.9, "alternatives": (Alternative("a", 0.5),)}, "stages[s].alternatives"),
    ],
)
def test_bad_alternatives_are_refused(fields: dict[str, object], path: str) -> None:
    with pytest.raises(InvalidValue) as error:
        Stage("s", "a", {"x": Feed(ValueSource(None, "x"))}, **fields)  # type: ignore[arg-type]
    assert error.value.path == path


def test_all_choices_together_take_no_more_steps_than_are_allowed() -> None:
    """Eight choices none of which holds: each is planned, with its part of the steps and what others left."""
    wide = application(*([[("a", 0.9), ("b", 0.8)]] * 3), slo_ms=120.0)
    given_: list[int] = []

    def counted(*args: Any, most_steps: int = 0) -> FittedPipelines:
        *asked, most = args
        given_.append(most)
        return fit_pipelines(*asked, most_steps=min(most, 200))

    demands = [PipelineDemand(wide, 150.0)]
    own = [ServedModel(m, asked_rows(demands).get(m, 0.5), 1000.0) for m in "ab"]
    found = FitAlternatives(counted)(evenly_split(own, demands), own, demands, table(), Capacity(0.4, 0.4), one_each)
    assert len(given_) == MOST_CHOICES
    assert given_[0] == MOST_STEPS // (2 * MOST_CHOICES)
    assert given_ == sorted(given_), "what one leaves is for those behind it"
    assert found.search is not None
    assert (found.search.most, found.search.complete) == (MOST_STEPS, False)
    assert [r for r in found.reasons if r.code == "search"] == [found.search.why], "reported once, of all choices"


# -- in the reorganiser


def site(capacity: float = 0.9, settle: bool = True) -> SimulatedServing:
    limits = ShareKindLimits(live=True, min_share=0.01)
    made = Reorganiser(
        one_each, ReorganiserSettings(), Capacity(capacity, capacity), table(), limits, FitAlternatives(fit_evenly)
    )
    w = SimulatedServing(made)
    wanted = tuple(Demand(version(m, slo_ms=1000.0), 1.0, 1.0) for m in (LARGE, SMALL, "d"))
    w.tell(r.ModelsChanged, wanted, (READER,), None)
    if settle:
        w.settle()
    return w


def answers(w: SimulatedServing) -> str:
    """The model that the front asks for the second stage."""
    assert w.layout is not None
    return w.layout.applications[0].choice["s1"]


def ask(w: SimulatedServing, rate: int, seconds: int, direct: int = 0) -> None:
    """Requests of the application for a while, answered by the models that the front asks; `direct` ones to LARGE."""
    for _ in range(seconds):
        w.at_s += 1.0
        assert w.layout is not None
        now = w.layout.applications[0]
        stages = tuple(StageTraffic("app", s.name, s.model, rate, rate, rows=rate, fan_out=1.0) for s in now.stages)
        rows = {s.model: rate for s in now.stages}
        rows[LARGE] = rows.get(LARGE, 0) + direct
        models = tuple(ModelTraffic(m, n, n, rows=n) for m, n in rows.items())
        whole = (ModelTraffic("app", rate, rate, rows=rate),)
        w.tell(r.TrafficMeasured, TrafficReport(w.at_s, 1.0, w.layout.number, models, (), whole, stages))


def test_under_pressure_the_smaller_model_answers_and_later_the_larger_again() -> None:
    w = site()
    assert answers(w) == LARGE
    ask(w, 150, 30)
    w.settle()
    ask(w, 150, 10)
    assert answers(w) == SMALL
    assert not w.reorganiser.state.capped
    assert any(
        isinstance(said, r.RecordServingPlan) and ServingReason("answers", SMALL, "app", "s1") in said.cause
        for said in w.said
    ), "the journal says it"
    held = {m.name: m.held for m in w.reorganiser.demands.models.values()}
    assert held[LARGE] < 20, "no plan for requests that it does not get any more"
    ask(w, 5, 120)
    w.settle()
    ask(w, 5, 30)
    assert answers(w) == LARGE


def test_the_front_changes_only_when_the_other_models_partitions_are_up() -> None:
    w = site()
    ask(w, 150, 40)
    w.settle()
    ask(w, 150, 10)
    seen: list[str] = []
    for layout in w.layouts:
        (now,) = layout.applications
        routed = {batch.model for route in layout.routes for batch in route.gpulet.models}
        if set(now.models) <= routed or seen:
            assert set(now.models) <= routed, "asked without a route"
            seen.append(now.choice["s1"])
    assert (seen[0], seen[-1]) == (LARGE, SMALL)
    assert seen == sorted(seen, reverse=True), "changed once"


def test_requests_of_clients_count_beside_the_stages() -> None:
    w = site()
    ask(w, 5, 60, direct=20)
    direct = w.reorganiser.pipelines.direct
    assert direct[LARGE].rate == pytest.approx(20.0, rel=0.05)
    assert direct["d"].rate == pytest.approx(0.0, abs=0.01)


def test_a_model_that_fails_is_replaced_by_its_alternative() -> None:
    w = site(settle=False)
    executor = next(name for name, p in w.processes.items() if LARGE in p.versions)
    w.processes.pop(executor)
    w.tell(r.ExecutorFailed, executor, "does not load", (LARGE,))
    w.settle()
    assert answers(w) == SMALL
    assert LARGE in w.reorganiser.state.refused


def test_a_changed_description_keeps_the_choice_in_force() -> None:
    w = site()
    ask(w, 150, 40)
    w.settle()
    ask(w, 150, 5)
    assert answers(w) == SMALL
    wanted = tuple(Demand(version(m, slo_ms=1000.0), 1.0, 1.0) for m in (LARGE, SMALL, "d"))
    w.tell(r.ModelsChanged, wanted, (replace(READER, slo_ms=210.0),), None)
    w.settle()
    assert answers(w) == SMALL

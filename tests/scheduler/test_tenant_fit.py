"""One serving plan, tenant by tenant: none takes more than its budget, and partitions are not shared by tenants."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.applications import Application, ApplicationOutput, Feed, Stage, ValueSource
from edge.core.oip import TensorSpec
from edge.core.serving import DeviceTable, ServedModel, Utilisation
from scheduler.gpulets.fitting import Capacity, Fitted
from scheduler.gpulets.follow import plan_function
from scheduler.gpulets.pipelines import FittedPipelines, SplitSearch, fit_evenly
from scheduler.gpulets.tenant_fit import (
    ROUNDS,
    DisputedMember,
    FitTenants,
    ServingBudget,
    disputed,
    need_of,
    owners,
    shares_of,
)
from scheduler.gpulets.verdict import verdict

NAMES = ("a", "b", "c")
PERCENTS = tuple(range(5, 101, 5))
TABLE = DeviceTable("toy", {m: {p: tuple(3.0 * n * 100 / p for n in range(1, 5)) for p in PERCENTS} for m in NAMES}, {})
PLAN = plan_function("elastic")
OWNER = {"a": "gate", "b": "stats", "c": "rest"}


def budgets(*shares: float) -> tuple[ServingBudget, ...]:
    tenants = (("gate", {"a"}), ("stats", {"b"}), ("rest", set()))
    return tuple(ServingBudget(t, s, frozenset(m), t == "rest") for (t, m), s in zip(tenants, shares, strict=True))


@settings(max_examples=30, deadline=None)
@given(st.tuples(*[st.floats(0.0, 0.5)] * 3), st.tuples(*[st.floats(1.0, 120.0)] * 3), st.floats(0.1, 1.0))
def test_every_tenant_stays_within_its_budget(shares: tuple[float, ...], rates: tuple[float, ...], most: float) -> None:
    models = [ServedModel(m, r, 200.0) for m, r in zip(NAMES, rates, strict=True)]
    fitted = FitTenants(fit_evenly, budgets(*shares))(models, models, (), TABLE, Capacity(most, most), PLAN).fitted
    given_ = shares_of(fitted.plan, OWNER)
    for budget in budgets(*shares):
        assert given_.get(budget.tenant, 0.0) <= budget.share + 2e-4
    assert fitted.plan.total_share <= most + 2e-4
    assert all(len({OWNER[b.model] for b in g.models}) == 1 for g in fitted.plan.gpulets)
    placed = {b.model for g in fitted.plan.gpulets for b in g.models}
    assert placed | set(fitted.refused) == set(NAMES)


def test_a_larger_budget_is_given_to_the_executors_in_the_same_partitions() -> None:
    models = [ServedModel(m, 20.0, 200.0) for m in NAMES]
    few, many = (
        FitTenants(fit_evenly, budgets(s, 0.3, 0.3))(models, models, (), TABLE, Capacity(1.0, 1.0), PLAN).fitted.plan
        for s in (0.2, 0.35)
    )
    assert shares_of(few, OWNER)["gate"] == pytest.approx(0.2)
    assert shares_of(many, OWNER)["gate"] == pytest.approx(0.35)
    assert [g.models for g in few.gpulets] == [g.models for g in many.gpulets]
    assert need_of(models[:1], TABLE, PLAN) < 0.2


def test_budgets_that_are_rounded_up_keep_their_partitions() -> None:
    models = [ServedModel(m, 1.0, 400.0) for m in NAMES]
    least = need_of(models[:1], TABLE, PLAN)
    shares = (0.09742, least, least)
    most = round(sum(shares), 4) - 1e-5
    found = FitTenants(fit_evenly, budgets(*shares))(models, models, (), TABLE, Capacity(most, most), PLAN).fitted
    assert {b.model for g in found.plan.gpulets for b in g.models} == set(NAMES)


def test_where_budgets_are_cut_no_tenant_loses_what_its_plan_needs() -> None:
    models = [ServedModel(m, 20.0, 200.0) for m in NAMES]
    least = need_of(models[:1], TABLE, PLAN)
    most = 3 * least + 0.05
    found = FitTenants(fit_evenly, budgets(least, least, 0.4))(
        models, models, (), TABLE, Capacity(most, most), PLAN
    ).fitted  # fmt: skip
    given_ = shares_of(found.plan, OWNER)
    assert not found.capped
    assert not found.refused
    assert (given_["gate"], given_["stats"]) == pytest.approx((least, least))
    assert given_["rest"] <= most - 2 * least + 2e-4
    half = FitTenants(fit_evenly, budgets(0.4, 0.4, 0.4))(models, models, (), TABLE, Capacity(0.05, 0.05), PLAN).fitted
    assert half.plan.total_share <= 0.05 + 2e-4


def test_without_budgets_all_is_planned_as_without_tenants() -> None:
    models = [ServedModel(m, 20.0, 200.0) for m in NAMES]
    asked = (models, models, (), TABLE, Capacity(0.8, 0.7, 2), PLAN)
    assert FitTenants(fit_evenly, ())(*asked) == fit_evenly(*asked)


def alone(share: float, most: float, models: list[ServedModel], table: DeviceTable = TABLE) -> FittedPipelines:
    """One tenant serves, beside cameras."""
    one = (ServingBudget("plates", share, frozenset({"a"})),)
    return FitTenants(fit_evenly, one)(models, models, (), table, Capacity(most, most), PLAN)


def test_one_tenant_beside_cameras_has_all_of_its_budget_and_never_more() -> None:
    models = [ServedModel(m, 20.0, 200.0) for m in NAMES]
    owner = dict.fromkeys(NAMES, "plates")
    smallest = fit_evenly(models, models, (), TABLE, Capacity(1.0, 1.0), PLAN).fitted
    least = smallest.plan.total_share
    for more in (0.0, 0.1, 0.35):
        share = round(least + more, 6)
        found = alone(share, 1.0, models)
        assert shares_of(found.fitted.plan, owner) == {"plates": pytest.approx(share)}
        assert [g.models for g in found.fitted.plan.gpulets] == [g.models for g in smallest.plan.gpulets]
        assert (found.fitted.capped, found.fitted.refused, found.cut) == ({}, {}, False)
    less = alone(round(least - 0.05, 6), 1.0, models).fitted
    assert less.plan.total_share <= least - 0.05 + 1e-6
    assert less.capped or less.refused
    assert alone(0.0, 1.0, models).fitted.plan.gpulets == ()


def test_a_plan_says_that_budgets_were_cut_to_what_there_was() -> None:
    models = [ServedModel("a", 20.0, 200.0)]
    found = alone(0.6, 0.4, models)
    assert found.cut
    assert found.fitted.plan.total_share == pytest.approx(0.4)
    assert not alone(0.6, 0.6, models).cut


def test_the_rest_of_a_budget_does_not_make_a_tenant_s_own_partitions_slow_each_other_too_much() -> None:
    models = [ServedModel("a", 60.0, 45.0), ServedModel("b", 60.0, 45.0)]
    table = beside(0.5)

    def smallest(mine: Any, own: Any, pipelines: Any, its: Any, room: Capacity, *rest: Any) -> FittedPipelines:
        return fit_evenly(mine, own, pipelines, its, Capacity(0.4, 0.4), *rest)

    # One step more for one of them would make the other late; both together are faster with more.
    for share, total in ((0.45, 0.4), (0.5, 0.5), (0.8, 0.8)):
        one = (ServingBudget("plates", share, frozenset({"a", "b"})),)
        found = FitTenants(smallest, one)(models, models, (), table, Capacity(1.0, 1.0), PLAN).fitted
        judged = verdict(found.problem, table, found.plan)
        assert judged.valid or all("shares add up" in fault for fault in judged.faults), judged.faults
        assert found.plan.total_share == pytest.approx(total)
        assert SLOWED not in found.plan.reasons, "there is no other tenant"


def application(name: str, *models: str) -> Application:
    x = TensorSpec("x", "FP32", (-1, 4))
    stages = tuple(
        Stage(f"s{n}", m, {"x": Feed(ValueSource(f"s{n - 1}" if n else None, "x"))}) for n, m in enumerate(models)
    )
    last = ValueSource(f"s{len(models) - 1}", "x")
    return Application(name, 300.0, (x,), (ApplicationOutput(x, last),), stages)


def test_an_application_brings_its_models_to_its_tenant() -> None:
    given_ = (
        ServingBudget("gate", 0.3, frozenset({"a", "app"})), ServingBudget("stats", 0.3, frozenset({"b"})),
        ServingBudget("rest", 0.3, frozenset(), True),
    )  # fmt: skip
    asked = [application("app", "b", "c")]
    assert owners(given_, NAMES, asked) == {"app": "gate", "a": "gate", "b": "gate", "c": "gate"}
    assert owners(given_, NAMES, []) == {"a": "gate", "b": "stats", "c": "rest"}
    assert disputed(given_, asked) == (DisputedMember("b", "stats", "gate", "app"),)
    words = disputed(given_, asked)[0].words()
    assert words.startswith("b, which tenant stats names, counts for tenant gate, as application app asks it")
    assert disputed(given_, []) == ()
    assert disputed(given_, [application("app", "a", "c")]) == (), "its own models, and those of nobody"


def test_members_that_another_tenant_has_are_told_with_the_application_that_asks_them() -> None:
    given_ = (
        ServingBudget("gate", 0.3, frozenset({"a", "first"})), ServingBudget("stats", 0.3, frozenset({"b", "second"})),
    )  # fmt: skip
    # Two applications of different tenants ask one model: both are of the first of the budgets, and so is all they ask.
    found = disputed(given_, [application("second", "b", "c"), application("first", "a", "c")])
    assert found == (DisputedMember("b", "stats", "gate", "first"), DisputedMember("second", "stats", "gate", "first"))
    # One that no tenant names is of the first tenant that a model of it is of.
    found = disputed(given_, [application("third", "b", "a")])
    assert found == (DisputedMember("b", "stats", "gate", "third"),)
    every = {"first", "second", "third", *NAMES}
    for asked in ([application("third", "b", "a")], [application("second", "b"), application("first", "a", "b")]):
        owner = owners(given_, NAMES, asked)
        assert {d.member: d.tenant for d in disputed(given_, asked)} == {
            m: owner[m] for b in given_ for m in b.members & every & owner.keys() if owner[m] != b.tenant
        }


def beside(fierce: float) -> DeviceTable:
    """The table of a device where a neighbour slows by up to `fierce` times its share."""
    used = {m: {1: Utilisation(0.0, 1.0)} for m in NAMES}
    return replace(TABLE, utilisation=used, interference=(0.0, 0.0, 0.0, fierce, 1.0))


def planned(table: DeviceTable, models: list[ServedModel], *shares: float, inner: Any = fit_evenly) -> FittedPipelines:
    return FitTenants(inner, budgets(*shares))(models, models, (), table, Capacity(1.0, 1.0), PLAN)


def apart(table: DeviceTable, models: list[ServedModel], *shares: float) -> list[Fitted]:
    """Each model planned as if its tenant had no neighbours."""
    return [planned(table, [m], *shares).fitted for m in models]


SLOWED = "neighbours of other tenants may slow it"


def test_a_plan_that_neighbours_of_other_tenants_would_break_is_made_anew() -> None:
    models = [ServedModel("a", 60.0, 45.0), ServedModel("b", 60.0, 200.0)]
    table = beside(1.5)
    found = planned(table, models, 0.6, 0.35, 0.0).fitted
    alone = apart(table, models, 0.6, 0.35, 0.0)
    together = replace(found.plan, gpulets=tuple(g for f in alone for g in f.plan.gpulets))
    assert not verdict(found.problem, table, together).valid, "without a look at neighbours it would not hold"
    judged = verdict(found.problem, table, found.plan)
    assert judged.valid, judged.faults
    assert (found.refused, found.capped) == ({}, {})
    (reason,) = [r for r in found.plan.reasons if "beside other tenants" in r]
    assert reason.startswith("b: "), "the other holds, and keeps its plan"
    assert SLOWED not in found.plan.reasons
    assert [g for g in found.plan.gpulets if g.models[0].model == "a"] == list(alone[0].plan.gpulets)


def test_neighbours_that_break_nothing_change_nothing() -> None:
    models = [ServedModel("a", 20.0, 200.0), ServedModel("b", 20.0, 200.0)]
    found = planned(beside(0.1), models, 0.4, 0.4, 0.0).fitted
    alone = apart(beside(0.1), models, 0.4, 0.4, 0.0)
    assert found.plan.gpulets == tuple(g for f in alone for g in f.plan.gpulets)
    assert found.plan.reasons == tuple(r for f in alone for r in f.plan.reasons)


def test_what_cannot_be_made_up_for_is_reported_and_no_model_is_lost() -> None:
    models = [ServedModel("a", 20.0, 45.0), ServedModel("b", 60.0, 200.0)]
    calls = 0

    def counted(*args: Any) -> FittedPipelines:
        nonlocal calls
        calls += 1
        return fit_evenly(*args)

    found = planned(beside(20.0), models, 0.4, 0.4, 0.0, inner=counted).fitted
    assert found.refused == {}
    assert SLOWED in found.plan.reasons
    assert 2 < calls <= 2 * (1 + ROUNDS)


@settings(max_examples=20, deadline=None)
@given(
    st.tuples(*[st.floats(0.1, 0.33)] * 3), st.tuples(*[st.floats(1.0, 100.0)] * 3),
    st.tuples(*[st.floats(30.0, 250.0)] * 3), st.floats(0.0, 4.0),
)  # fmt: skip
def test_beside_any_neighbours_a_plan_holds_or_says_that_it_may_not(
    shares: tuple[float, ...], rates: tuple[float, ...], slos: tuple[float, ...], fierce: float
) -> None:
    models = [ServedModel(m, r, s) for m, r, s in zip(NAMES, rates, slos, strict=True)]
    table = beside(fierce)
    found = planned(table, models, *shares).fitted
    assert verdict(found.problem, table, found.plan).valid is (SLOWED not in found.plan.reasons)
    assert set(found.refused) == {m for f in apart(table, models, *shares) for m in f.refused}
    for budget in budgets(*shares):
        assert shares_of(found.plan, OWNER).get(budget.tenant, 0.0) <= budget.share + 1e-5


def test_the_searches_of_all_tenants_are_reported_as_one_that_was_cut_if_any_was() -> None:
    models = [ServedModel(m, 20.0, 200.0) for m in NAMES]

    def searched(cut: str) -> Any:
        def inner(mine: list[ServedModel], *rest: Any) -> FittedPipelines:
            found = fit_evenly(mine, *rest)
            if mine[0].name == "c":
                return found  # nothing was searched for
            return found.with_search(SplitSearch(40 if mine[0].name == cut else 7, 40, mine[0].name != cut))

        return inner

    for cut, steps in (("a", 47), ("", 14)):
        found = planned(TABLE, models, 0.3, 0.3, 0.3, inner=searched(cut))
        assert found.search == SplitSearch(steps, 80, not cut)
        reasons = [r.words() for r in found.reasons if r.code == "search"]
        assert ["cut short" in words for words in reasons] == [bool(cut)]
    assert planned(TABLE, models, 0.3, 0.3, 0.3).search is None

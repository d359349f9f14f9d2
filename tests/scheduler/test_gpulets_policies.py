"""Serving policies against each other and by hand; what all of them must keep is in tests/contracts."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
from examples_kit import tried
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving_problems import problems, tables

from benchmarks.scripts import load_script
from edge.core.errors import InvalidValue
from edge.core.serving import (
    DeviceTable,
    Gpulet,
    ModelBatch,
    ServedModel,
    ServingPlan,
    ServingProblem,
    Utilisation,
)
from scheduler.gpulets.curves import Curves, Load, knee, least_share
from scheduler.gpulets.policies import (
    DEFAULT_SERVING_POLICY,
    SERVING_POLICIES,
    FirstThatHolds,
    NoDearerThan,
    least_percent,
    serving_policy,
    share_step,
    smallest_plan,
)
from scheduler.gpulets.verdict import verdict

#: Not every policy is cheap enough for many random problems.
FAST = [name for name in SERVING_POLICIES if name not in ("ideal", "mosaic")]
SHARES = (20, 40, 50, 60, 80, 100)


def linear(**models: tuple[float, float]) -> DeviceTable:
    """Models by (fixed ms, ms per request on the whole device); no interference."""
    latency = {
        name: {p: tuple(fixed + per * b * 100 / p for b in range(1, 33)) for p in SHARES}
        for name, (fixed, per) in models.items()
    }
    return DeviceTable("linear", latency, {})


def problem(*models: tuple[str, float, float], devices: int = 1, capacity: float = 1.0) -> ServingProblem:
    return ServingProblem(tuple(ServedModel(*m) for m in models), devices, capacity)


@settings(max_examples=tried(12, 30), suppress_health_check=[HealthCheck.too_slow])
@given(asked=problems(), table=tables())
def test_ideal_schedules_whatever_elastic_does(asked: ServingProblem, table: DeviceTable) -> None:
    elastic = serving_policy("elastic").plan(asked, table)
    ideal = serving_policy("ideal").plan(asked, table)
    if elastic.schedulable:
        assert ideal.schedulable
        assert ideal.devices_used <= elastic.devices_used


@settings(max_examples=tried(16, 40), suppress_health_check=[HealthCheck.too_slow])
@given(asked=problems(), table=tables())
def test_the_default_schedules_whatever_the_others_do(asked: ServingProblem, table: DeviceTable) -> None:
    others = [serving_policy(name).plan(asked, table) for name in FAST]
    if any(plan.schedulable for plan in others):
        assert serving_policy(DEFAULT_SERVING_POLICY).plan(asked, table).schedulable


def test_the_first_that_holds_answers_under_the_name_of_the_first() -> None:
    """b's objective is too strict to share a device in time: squishy packing fails, elastic partitioning does not."""
    table = linear(a=(1.0, 1.0), b=(1.0, 0.1))
    asked = problem(("a", 10.0, 100.0), ("b", 100.0, 4.0))
    squishy, elastic = serving_policy("squishy"), serving_policy("elastic")
    assert not squishy.plan(asked, table).schedulable
    plan = FirstThatHolds(squishy, elastic).plan(asked, table)
    assert plan.schedulable
    assert plan.policy == "squishy"
    assert plan.gpulets == elastic.plan(asked, table).gpulets
    assert plan.reasons[0] == "squishy found no plan, elastic did"
    hopeless = problem(("a", 10.0, 1.0))
    assert FirstThatHolds(squishy, elastic).plan(hopeless, table) == squishy.plan(hopeless, table)


class Always:
    """A policy with one answer."""

    def __init__(self, name: str, *gpulets: Gpulet) -> None:
        self.name, self.answer = name, ServingPlan(bool(gpulets), gpulets, name)

    def plan(self, problem: ServingProblem, table: DeviceTable) -> ServingPlan:
        return self.answer


def test_a_plan_with_less_share_on_no_more_devices_takes_the_place_of_a_dearer_one() -> None:
    table, asked = linear(a=(1.0, 1.0)), problem(("a", 10.0, 100.0))
    part = (ModelBatch("a", 1),)
    large, small, apart = (
        Always(name, *(Gpulet(device, share, 10.0, part) for device, share in given))
        for name, given in (("large", [(0, 0.6)]), ("small", [(0, 0.5)]), ("apart", [(0, 0.2), (1, 0.2)]))
    )
    plan = NoDearerThan(large, small).plan(asked, table)
    assert (plan.policy, plan.gpulets) == ("large", small.answer.gpulets)
    assert plan.reasons == ("small takes less share than large found",)
    for first, other in ((small, large), (small, apart), (large, Always("none")), (Always("none"), small)):
        assert NoDearerThan(first, other).plan(asked, table) == first.answer


@settings(max_examples=tried(16, 40))
@given(asked=problems(), table=tables(), policy=st.sampled_from(FAST))
def test_the_smallest_plan_takes_no_more_and_no_less_than_can_be(
    asked: ServingProblem, table: DeviceTable, policy: str
) -> None:
    whole = serving_policy(policy).plan(asked, table)
    small = smallest_plan(asked, table, serving_policy(policy))
    assert small.schedulable == whole.schedulable
    if small.schedulable and small.gpulets:
        assert small.total_share <= whole.total_share + 1e-9
        assert verdict(asked, table, small, slack=0.0).faults == ()
        used = {d: sum(g.percent for g in small.gpulets if g.device == d) for d in range(asked.devices)}
        assert max(used.values()) >= least_percent(asked, table)
        assert all(u % share_step(asked, table) == 0 for u in used.values())


def test_the_smallest_plan_is_smaller_where_the_policy_is_lavish() -> None:
    table = linear(a=(1.0, 1.0))
    asked = problem(("a", 10.0, 100.0))
    squishy = serving_policy("squishy")
    assert squishy.plan(asked, table).total_share == 1.0
    assert smallest_plan(asked, table, squishy).total_share == pytest.approx(0.2)


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(InvalidValue, match="policy: got 'best'"):
        serving_policy("best")
    assert DEFAULT_SERVING_POLICY in SERVING_POLICIES


def test_an_objective_that_no_share_meets_is_named() -> None:
    for name in SERVING_POLICIES:
        plan = serving_policy(name).plan(problem(("a", 1.0, 3.0)), linear(a=(1.0, 1.0)))
        assert not plan.schedulable
        assert any("a" in reason for reason in plan.reasons)


# -- elastic partitioning


def test_the_knee_is_where_the_curve_bends_most() -> None:
    assert knee([(20, 100.0), (40, 200.0), (60, 210.0), (80, 215.0), (100, 220.0)]) == 40
    assert knee([(20, 20.0), (40, 40.0), (60, 60.0), (80, 80.0), (100, 100.0)]) == 20  # no bend: all alike
    assert knee([(20, 0.0), (40, 0.0), (60, 10.0), (80, 30.0), (100, 90.0)]) == 100  # it only gets steeper
    assert knee([(20, 0.0)]) is None
    assert least_share([(20, 100.0), (40, 200.0)], 150.0) == 40
    assert least_share([(20, 100.0), (40, 200.0)], 201.0) is None


def test_elastic_splits_a_device_and_takes_the_rest_for_the_next_model() -> None:
    """a needs 60 % for 100 requests/s (1 ms + 100 / 60 x 3 ms = 6 ms); c's objective allows no sharing in time."""
    table = linear(a=(1.0, 3.0), c=(1.0, 0.1))
    plan = serving_policy("elastic").plan(problem(("a", 150.0, 13.0), ("c", 100.0, 4.0)), table)
    assert plan.schedulable
    shares = {g.models[0].model: g.percent for g in plan.gpulets}
    assert shares["a"] + shares["c"] <= 100
    assert len(plan.gpulets) == 2


def test_elastic_merges_by_temporal_sharing_and_reverts_the_split() -> None:
    table = linear(a=(1.0, 1.0), b=(1.0, 1.0))
    plan = serving_policy("elastic").plan(problem(("a", 20.0, 100.0), ("b", 10.0, 100.0)), table)
    assert plan.schedulable
    assert [(g.percent, {m.model for m in g.models}) for g in plan.gpulets] == [(20, {"a", "b"})]


def test_elastic_takes_the_best_fit_among_remnants() -> None:
    """One device is split 80 / 20, the other 50 / 50: a load that needs 20 % goes beside the 80, not to the half."""
    latency = {"a": {80: (6.0,)}, "b": {50: (6.0,)}, "c": {20: (2.0,), 50: (1.5,)}}
    asked = problem(("a", 160.0, 12.0), ("b", 150.0, 12.0), ("c", 100.0, 4.0), devices=2)
    plan = serving_policy("elastic").plan(asked, DeviceTable("d", latency, {}))
    assert plan.schedulable
    assert [(g.device, g.percent, g.models[0].model) for g in plan.gpulets] == [
        (0, 80, "a"),
        (0, 20, "c"),
        (1, 50, "b"),
    ]


def test_elastic_spreads_a_rate_that_one_gpulet_cannot_serve() -> None:
    table = linear(a=(1.0, 2.0))
    plan = serving_policy("elastic").plan(problem(("a", 900.0, 50.0), devices=3), table)
    assert plan.schedulable
    assert len(plan.gpulets) >= 2
    assert {m.model for g in plan.gpulets for m in g.models} == {"a"}


def test_elastic_splits_in_two_unless_the_problem_allows_more() -> None:
    table = linear(a=(3.0, 0.1), b=(3.0, 0.1), c=(3.0, 0.1))
    asked = problem(("a", 100.0, 8.0), ("b", 100.0, 8.0), ("c", 100.0, 8.0))
    two, four = (serving_policy("elastic").plan(replace(asked, max_gpulets=n), table) for n in (2, 4))
    assert not two.schedulable
    assert four.schedulable
    assert len(four.gpulets) == 3


def test_interference_is_counted_on_both_sides() -> None:
    """Alone each holds on half a device with nothing to spare; side by side both are slowed, and need two devices."""
    latency = {m: {50: (10.0,), 100: (9.0,)} for m in ("a", "b")}
    used = {m: {1: Utilisation(0.5, 0.5)} for m in ("a", "b")}
    table = DeviceTable("d", latency, used, (0.0, 1.0, 0.0, 0.0, 1.0))
    asked = problem(("a", 100.0, 20.0), ("b", 100.0, 20.0), devices=2)
    blind = serving_policy("elastic-no-interference").plan(asked, table)
    assert not blind.schedulable
    assert any("ms of work in a duty cycle" in r for r in blind.reasons)
    plan = serving_policy("elastic").plan(asked, table)
    assert plan.schedulable
    assert plan.devices_used == 2
    assert not serving_policy("elastic").plan(replace(asked, devices=1), table).schedulable


# -- the others


def test_squishy_uses_whole_devices_and_merges_remainders_with_the_shorter_cycle() -> None:
    table = linear(a=(2.0, 1.0), b=(2.0, 1.0))
    plan = serving_policy("squishy").plan(problem(("a", 100.0, 60.0), ("b", 50.0, 60.0), devices=2), table)
    assert plan.schedulable
    assert [(g.share, sorted(m.model for m in g.models)) for g in plan.gpulets] == [(1.0, ["a", "b"])]
    # a alone gathers 5 in 50 ms (5 + 2 + 50 <= 60), b 2 in 40 ms (2 + 2 + 40 <= 60): the cycle is b's, a shrinks to 4.
    assert plan.gpulets[0].duty_cycle_ms == pytest.approx(40.0)
    assert {m.model: m.batch for m in plan.gpulets[0].models} == {"a": 4, "b": 2}


def test_squishy_gives_full_devices_to_a_large_rate() -> None:
    table = linear(a=(2.0, 1.0))
    plan = serving_policy("squishy").plan(problem(("a", 2500.0, 60.0), devices=3), table)
    full = [g for g in plan.gpulets if g.models[0].batch == 28]
    assert plan.schedulable
    assert len(full) == 2  # 28 requests in 30 ms, twice; the rest on the third
    assert len(plan.gpulets) == 3


def test_self_tuning_gives_each_model_the_smallest_share_of_its_own() -> None:
    table = linear(a=(1.0, 1.0), b=(1.0, 1.0))
    plan = serving_policy("guided-self-tuning").plan(problem(("a", 20.0, 100.0), ("b", 300.0, 100.0)), table)
    assert plan.schedulable
    assert {g.models[0].model: g.percent for g in plan.gpulets} == {"a": 20, "b": 40}


def test_curves_agree_with_the_verdict_on_the_largest_rate() -> None:
    table = linear(a=(1.0, 2.0))
    curves = Curves(problem(("a", 1.0, 40.0)), table)
    most = curves.affordable(0, 40)
    assert curves.fit(40, (Load(0, most),), None) is not None
    assert curves.fit(40, (Load(0, most * 1.001),), None) is None


@settings(max_examples=tried(60, 150))
@given(
    table=tables(("a", "b")),
    rates=st.tuples(st.floats(0.5, 400), st.floats(0.5, 400)),
    slos=st.tuples(st.floats(2, 150), st.floats(2, 150)),
    pressure=st.sampled_from((None, 0.0, 0.2)),
)
def test_loads_fit_exactly_when_some_batches_do(
    table: DeviceTable, rates: tuple[float, float], slos: tuple[float, float], pressure: float | None
) -> None:
    """Against all pairs of batches: E <= b 1000 / r for both, and 2 E <= SLO."""
    curves = Curves(problem(("a", rates[0], slos[0]), ("b", rates[1], slos[1])), table)
    share = curves.shares[0]

    def execution(model: int, batch: int) -> float:
        factor = 1.0
        if pressure is not None:
            factor = max(1.0, curves.constant + curves.own[model][batch - 1] * share / 100 + pressure)
        return curves.solo[model][share][batch - 1] * factor

    def holds(batches: tuple[int, ...], tolerance: float) -> bool:
        busy = sum(execution(m, b) for m, b in enumerate(batches))
        longest = min(b * 1000 / r for b, r in zip(batches, rates, strict=True))
        return busy <= longest * tolerance and 2 * busy <= min(slos) * tolerance

    found = curves.fit(share, (Load(0, rates[0]), Load(1, rates[1])), pressure)
    each = [range(1, len(curves.solo[m][share]) + 1) for m in (0, 1)]
    possible = [pair for pair in itertools.product(*each) if holds(pair, 1 - 1e-6)]
    if found is None:
        assert possible == []
    else:
        assert holds(found.batches, 1 + 1e-6)
        assert found.busy_ms <= found.duty_ms * (1 + 1e-9)
        assert found.busy_ms + found.duty_ms <= min(slos) * (1 + 1e-9)


# -- against the independent checker


@pytest.fixture(scope="module")
def scenarios(shared_dir: Path) -> tuple[object, dict[str, object], DeviceTable, list[ServingProblem]]:
    folder = shared_dir / "data"
    checker = load_script(folder / "check_serving_plan.py")
    raw = json.loads((folder / "serving-problems" / "device-rtx2080ti-synthetic.json").read_text())
    given = json.loads((folder / "serving-problems" / "scenarios.json").read_text())
    asked = [
        ServingProblem(
            tuple(ServedModel(m, r, s) for m, r, s in zip(given["models"], row, given["slo_ms"], strict=True)), 4
        )
        for row in given["scenarios"]
    ]
    return checker, raw, DeviceTable.from_json(raw), asked


#: Policy -> every n-th scenario, and how many of those at least must be valid.
SAMPLES = {"elastic": (11, 88), "squishy": (11, 50), "guided-self-tuning": (31, 3), "elastic-no-interference": (31, 2)}


@pytest.mark.parametrize("policy", SAMPLES)
def test_plans_of_the_shared_scenarios_pass_the_independent_checker(
    scenarios: tuple[object, dict[str, object], DeviceTable, list[ServingProblem]], policy: str
) -> None:
    checker, raw, table, asked = scenarios
    every, least = SAMPLES[policy]
    valid = 0
    for one in asked[5::every]:
        plan = serving_policy(policy).plan(one, table)
        if plan.schedulable:
            faults, devices = checker.check(raw, one.to_json(), plan.to_json())  # type: ignore[attr-defined]
            assert faults == []
            assert devices == plan.devices_used
            valid += 1
    assert valid >= least

"""Policy `mosaic`: what it must keep, worked examples, and the shared scenarios under the independent checker."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from examples_kit import tried
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving_problems import problems, tables

from benchmarks.scripts import load_script
from edge.core.serving import DeviceTable, ServedModel, ServingPlan, ServingProblem, Utilisation
from scheduler.gpulets.elastic import ElasticPolicy
from scheduler.gpulets.mosaic import Mosaic
from scheduler.gpulets.mosaic_columns import ALONE, candidates, workload
from scheduler.gpulets.mosaic_search import pack
from scheduler.gpulets.mosaic_settle import PlacedGpulet, fitted, rooms, settled, timing
from scheduler.gpulets.verdict import verdict

TENTHS = tuple(range(10, 101, 10))


def linear(shares: tuple[int, ...] = TENTHS, **models: tuple[float, float]) -> DeviceTable:
    """Models by (fixed ms, ms per request on the whole device); no interference."""
    latency = {
        name: {p: tuple(fixed + per * b * 100 / p for b in range(1, 33)) for p in shares}
        for name, (fixed, per) in models.items()
    }
    return DeviceTable("linear", latency, {})


def problem(*models: tuple[str, float, float], devices: int = 1, capacity: float = 1.0) -> ServingProblem:
    return ServingProblem(tuple(ServedModel(*m) for m in models), devices, capacity)


def planned(asked: ServingProblem, table: DeviceTable) -> ServingPlan:
    """The plan of `mosaic`; where it is schedulable it is judged without slack."""
    plan = Mosaic().plan(asked, table)
    if plan.schedulable:
        assert verdict(asked, table, plan, slack=0.0).faults == ()
    return plan


# -- properties


# Two searches, no proofs.
@settings(max_examples=tried(12, 30), suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(asked=problems(), table=tables())
def test_on_one_device_a_model_less_never_takes_more(asked: ServingProblem, table: DeviceTable) -> None:
    asked = replace(asked, devices=1)
    plan = planned(asked, table)
    if not plan.schedulable:
        return
    for n in range(len(asked.models)):
        fewer = planned(replace(asked, models=asked.models[:n] + asked.models[n + 1 :]), table)
        assert fewer.schedulable
        assert fewer.total_share <= plan.total_share + 1e-9


@settings(max_examples=tried(12, 30), suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(asked=problems(), table=tables())
def test_it_schedules_what_elastic_does_on_no_more_share(asked: ServingProblem, table: DeviceTable) -> None:
    asked = replace(asked, devices=1)
    elastic = ElasticPolicy().plan(asked, table)
    if elastic.schedulable:
        plan = planned(asked, table)
        assert plan.schedulable
        assert plan.total_share <= elastic.total_share + 1e-9


@settings(max_examples=tried(12, 30), suppress_health_check=[HealthCheck.too_slow])
@given(asked=problems(), table=tables())
def test_the_same_answer_every_time_and_all_it_says_is_so(asked: ServingProblem, table: DeviceTable) -> None:
    plan = planned(asked, table)
    assert Mosaic().plan(asked, table) == plan
    found = verdict(asked, table, plan, slack=0.0)
    if not plan.schedulable:
        assert plan.reasons
        short = [m.name for m in asked.models if found.throughput[m.name] < m.rate]
        assert list(plan.unplaced) == short
    # The given shares are real even where they are not enough: no placed model is late, nothing is overloaded.
    assert [f for f in found.faults if "requests/s" not in f] == []


@settings(max_examples=tried(24, 60))
@given(table=tables(), rate=st.floats(0.5, 300.0), slo=st.floats(4.0, 200.0), beside=st.floats(0.0, 0.5))
def test_a_fit_holds_and_what_does_not_fit_could_not(
    table: DeviceTable, rate: float, slo: float, beside: float
) -> None:
    """Against trying every pair of batches and every duty cycle that matters."""
    load = workload(problem(("a", rate, slo), ("b", rate / 2, slo)), table)
    gpulet = PlacedGpulet(0, (0, 1), (rate, rate / 2), (1, 1))
    for share in range(len(load.shares)):
        possible = False
        for x in range(1, load.batches + 1):
            for y in range(1, load.batches + 1):
                busy = sum(
                    float(load.solo_ms[m, share, b - 1]) * float(load.factor(m, share, beside)[b - 1])
                    for m, b in ((0, x), (1, y))
                )
                longest = min(x * 1000 / rate, y * 2000 / rate)
                possible = possible or (busy < longest * (1 - 1e-6) and 2 * busy < slo * (1 - 1e-6))
        found = fitted(load, gpulet, share, beside)
        assert (found is not None) >= possible
        if found is not None:
            ran = timing(load, found, beside)
            assert ran.room >= 1.0 - 1e-12
            assert ran.busy_ms <= ran.duty_ms * (1 + 1e-12)
            assert ran.busy_ms + ran.duty_ms <= slo * (1 + 1e-12)
            assert all(
                b * 1000 / ran.duty_ms >= r * (1 - 1e-12) for b, r in zip(found.batches, found.rates, strict=True)
            )


# -- worked examples


def test_models_share_a_gpulet_in_time_where_that_is_cheaper() -> None:
    """Apart each takes 10 % for its fixed cost; together they still fit in one 10 %."""
    table = linear(a=(1.0, 0.1), b=(1.0, 0.1), c=(1.0, 0.1))
    plan = planned(problem(("a", 20.0, 100.0), ("b", 20.0, 100.0), ("c", 20.0, 100.0)), table)
    assert [(g.percent, sorted(m.model for m in g.models)) for g in plan.gpulets] == [(10, ["a", "b", "c"])]
    assert any("one after the other" in r for r in plan.reasons)


def test_a_device_holds_as_many_gpulets_as_its_shares_allow() -> None:
    """Objectives that allow no sharing in time: 2 x (3 + 1) ms = 8 ms, so each has its own tenth."""
    table = linear(**dict.fromkeys("abcde", (3.0, 0.1)))
    asked = problem(*((name, 100.0, 8.1) for name in "abcde"))
    plan = planned(asked, table)
    assert [g.percent for g in plan.gpulets] == [10] * 5
    two = Mosaic().plan(replace(asked, max_gpulets=2), table)
    assert not two.schedulable
    assert len(two.gpulets) == 2
    spread = planned(replace(asked, max_gpulets=2, devices=3), table)
    assert spread.schedulable
    assert spread.devices_used == 3


def test_the_duty_cycle_is_searched_below_a_millisecond() -> None:
    """a and b fit together only with 4 + 2 requests every 20/3 ms or so: no whole number of milliseconds does."""
    latency = {"a": {100: (2.0, 2.4, 2.8, 3.2)}, "b": {100: (2.0, 3.3)}}
    plan = planned(problem(("a", 600.0, 13.2), ("b", 300.0, 13.2)), DeviceTable("d", latency, {}))
    assert plan.schedulable
    assert [(m.model, m.batch) for m in plan.gpulets[0].models] == [("a", 4), ("b", 2)]
    assert 6.5 <= plan.gpulets[0].duty_cycle_ms <= 6.67


def test_the_largest_batch_is_used() -> None:
    table = DeviceTable("d", {"a": {100: tuple(10.0 + 0.01 * b for b in range(1, 33))}}, {})
    plan = planned(problem(("a", 3100.0, 100.0)), table)
    assert [m.batch for g in plan.gpulets for m in g.models] == [32]


def test_a_rate_beyond_one_device_is_divided() -> None:
    plan = planned(problem(("a", 900.0, 50.0), devices=3), linear(a=(1.0, 2.0)))
    assert plan.schedulable
    assert plan.devices_used == 2
    assert any("the rate is divided" in r for r in plan.reasons)


def test_neighbours_that_slow_each_other_are_parted() -> None:
    """Side by side both would take 12.5 ms and more; alone on a device each holds its 20 ms just so."""
    latency = {m: {50: (10.0,), 100: (9.0,)} for m in ("a", "b")}
    used = {m: {1: Utilisation(0.5, 0.5)} for m in ("a", "b")}
    table = DeviceTable("d", latency, used, (0.0, 1.0, 0.0, 0.0, 1.0))
    plan = planned(problem(("a", 100.0, 20.0), ("b", 100.0, 20.0), devices=2), table)
    assert sorted((g.device, g.percent) for g in plan.gpulets) == [(0, 50), (1, 50)]
    assert not Mosaic().plan(problem(("a", 100.0, 20.0), ("b", 100.0, 20.0)), table).schedulable


def test_memory_parts_models_too() -> None:
    table = replace(linear(a=(1.0, 0.1), b=(1.0, 0.1)), memory_mb={"a": 600.0, "b": 600.0}, device_memory_mb=1000.0)
    plan = planned(problem(("a", 5.0, 100.0), ("b", 5.0, 100.0), devices=2), table)
    assert plan.schedulable
    assert plan.devices_used == 2


def test_shares_of_any_step_within_a_capacity() -> None:
    """A CPU's table in steps of 5 %: what is taken is the least, the rest stays for cameras."""
    table = linear(tuple(range(5, 101, 5)), a=(2.0, 1.0), b=(2.0, 3.0))
    plan = planned(problem(("a", 30.0, 100.0), ("b", 40.0, 100.0), capacity=0.6), table)
    assert plan.schedulable
    assert plan.total_share == pytest.approx(0.2)
    assert not planned(problem(("a", 30.0, 100.0), ("b", 40.0, 100.0), capacity=0.15), table).schedulable


def test_what_cannot_be_served_is_said_with_its_shortfall_and_priority_goes_first() -> None:
    table = linear(a=(1.0, 5.0), b=(1.0, 5.0))
    asked = ServingProblem((ServedModel("a", 150.0, 100.0, 0), ServedModel("b", 150.0, 100.0, 1)))
    plan = planned(asked, table)
    assert not plan.schedulable
    assert plan.unplaced == ("a",)
    assert any(r.startswith("at least 1.5") for r in plan.reasons)
    assert any(r.startswith("closest plan: a ") and "of 150 requests/s" in r for r in plan.reasons)
    swapped = replace(asked, models=tuple(replace(m, priority=1 - m.priority) for m in asked.models))
    assert planned(swapped, table).unplaced == ("b",)


def test_an_objective_that_nothing_meets_is_explained_and_the_others_are_still_placed() -> None:
    plan = planned(problem(("a", 5.0, 3.0), ("b", 5.0, 50.0)), linear(a=(1.0, 1.0), b=(1.0, 1.0)))
    assert not plan.schedulable
    assert plan.unplaced == ("a",)
    assert any("a: one batch takes at least 2.00 ms" in r and "the SLO is 3 ms" in r for r in plan.reasons)
    assert {m.model for g in plan.gpulets for m in g.models} == {"b"}


def test_no_requests_no_gpulets_and_no_capacity_no_plan() -> None:
    table = linear(a=(1.0, 1.0))
    idle = planned(problem(("a", 0.0, 9.0)), table)
    assert idle.schedulable
    assert idle.gpulets == ()
    assert idle.reasons == ("a: no requests, so no gpu-let",)
    nothing = planned(problem(("a", 1.0, 9.0), capacity=0.0), table)
    assert not nothing.schedulable
    assert any("no share was measured" in r for r in nothing.reasons)


# -- the parts


def test_candidates_hold_at_their_level() -> None:
    latency = {
        m: {p: tuple(1.0 + k * b * 100 / p for b in (1, 2, 3, 4)) for p in (30, 60, 100)}
        for m, k in (("a", 1), ("b", 2))
    }
    used = {m: {1: Utilisation(0.3, 0.3)} for m in ("a", "b")}
    load = workload(
        problem(("a", 40.0, 60.0), ("b", 20.0, 90.0)), DeviceTable("d", latency, used, (0.1, 0.5, 0.1, 0.2, 1.0))
    )
    pool = candidates(load)
    assert len(pool)
    assert load.levels[-1] == ALONE
    for row in range(len(pool)):
        level = load.levels[int(pool.level[row])]
        beside = None if level == ALONE else max(0.0, level - float(pool.pressure[row]))
        members = tuple(m for m in range(2) if pool.batch[row, m])
        gpulet = PlacedGpulet(
            int(pool.share[row]),
            members,
            tuple(float(pool.rate[row, m]) for m in members),
            tuple(int(pool.batch[row, m]) for m in members),
        )
        assert timing(load, gpulet, beside).room >= 1 - 1e-9


def test_packing_finds_what_largest_first_misses() -> None:
    """Largest first puts 50 + 30, 40 + 40 and leaves 20, 20 ...: only 50 + 30 + 20 and 40 + 40 + 20 fit two devices."""
    load = workload(problem(("a", 1.0, 1e6), devices=2), linear(a=(1.0, 0.1)))
    pool = candidates(load)
    row = {load.shares[int(pool.share[k])]: k for k in range(len(pool))}
    bins = pack(load, pool, [row[s] for s in (50, 40, 40, 30, 20, 20)], 2)
    assert bins is not None
    assert [sum(load.shares[int(pool.share[k])] for k in one) for one in bins] == [100, 100]
    assert pack(load, pool, [row[60], row[60], row[60]], 2) is None


def test_a_device_is_settled_with_the_neighbours_there_are() -> None:
    """Composed too large and with single requests: it shrinks to the least shares, and batches leave more room."""
    load = workload(problem(("a", 100.0, 60.0), ("b", 50.0, 60.0)), linear(a=(1.0, 0.5), b=(1.0, 0.5)))
    start = (PlacedGpulet(8, (0,), (100.0,), (1,)), PlacedGpulet(0, (1,), (50.0,), (1,)))
    held = settled(load, start)
    assert held is not None
    assert [load.shares[g.share] for g in held] == [10, 10]
    assert min(rooms(load, held)) > 1.1
    assert settled(load, (PlacedGpulet(9, (0,), (5000.0,), (1,)),)) is None


# -- against the independent checker


@pytest.fixture(scope="module")
def shared(shared_dir: Path) -> tuple[ModuleType, dict[str, object], dict[str, list[object]]]:
    folder = shared_dir / "data"
    checker = load_script(folder / "check_serving_plan.py")
    raw = json.loads((folder / "serving-problems" / "device-rtx2080ti-synthetic.json").read_text())
    return checker, raw, json.loads((folder / "serving-problems" / "scenarios.json").read_text())


def test_the_shared_scenarios_are_valid_on_fewer_devices(
    shared: tuple[ModuleType, dict[str, object], dict[str, list[object]]],
) -> None:
    checker, raw, given_ = shared
    table = DeviceTable.from_json(raw)
    used = []
    for row in given_["scenarios"][8 :: tried(85, 17)]:
        models = zip(given_["models"], row, given_["slo_ms"], strict=True)  # type: ignore[call-overload]
        asked = ServingProblem(tuple(ServedModel(*m) for m in models), 4)
        plan = planned(asked, table)
        assert plan.schedulable
        faults, devices = checker.check(raw, asked.to_json(), plan.to_json())
        assert faults == []
        used.append(devices)
    assert len(used) == tried(12, 60)
    assert sum(used) / len(used) <= 2.8


@pytest.mark.parametrize(
    ("models", "rate"),
    [
        (
            {
                "lenet": (1, 5),
                "googlenet": (1, 44),
                "resnet50": (1, 95),
                "ssd-mobilenetv1": (1, 136),
                "vgg16": (1, 130),
            },
            500,
        ),
        ({"resnet50": (1, 95), "ssd-mobilenetv1": (1, 136), "vgg16": (1, 130)}, 680),
        (
            {
                "lenet": (2, 5),
                "googlenet": (2, 44),
                "resnet50": (2, 95),
                "ssd-mobilenetv1": (1, 136),
                "vgg16": (1, 130),
            },
            360,
        ),
        ({**{f"lenet-{n}": (1, 95) for n in range(6)}, "resnet50": (1, 95)}, 1700),
        ({"ssd-mobilenetv1": (1, 69), "googlenet": (1, 67), "vgg16": (1, 67)}, 700),
    ],
    ids=["equal", "long-only", "short-skew", "game", "traffic"],
)
def test_the_published_workloads_at_the_rates_to_reach(
    shared: tuple[ModuleType, dict[str, object], dict[str, list[object]]],
    models: dict[str, tuple[int, int]],
    rate: int,
) -> None:
    checker, raw, _ = shared
    named = {name: name.split("-")[0] if name.startswith("lenet") else name for name in models}
    kinds = ("latency_ms", "utilisation")
    raw = {**raw, **{k: {name: raw[k][kind] for name, kind in named.items()} for k in kinds}}  # type: ignore[index]
    asked = problem(*((name, times * rate, float(slo)) for name, (times, slo) in models.items()), devices=4)
    plan = planned(asked, DeviceTable.from_json(raw))
    assert plan.schedulable
    assert checker.check(raw, asked.to_json(), plan.to_json())[0] == []

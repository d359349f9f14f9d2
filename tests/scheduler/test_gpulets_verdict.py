"""The timing and the faults of a plan: by hand, and against the independent checker."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from examples_kit import tried
from hypothesis import given, settings
from hypothesis import strategies as st

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
from scheduler.gpulets.verdict import pressure, slowdown, stretch_beside, times, verdict

TABLE = DeviceTable(
    "by hand",
    {
        "a": {50: (4.0, 6.0), 100: (3.0, 5.0)},
        "b": {50: (8.0,), 100: (7.0,)},
        "c": {50: (2.0,)},
    },
    {
        "a": {1: Utilisation(0.2, 0.4), 2: Utilisation(0.4, 0.6)},
        "b": {1: Utilisation(0.3, 0.2)},
        "c": {1: Utilisation(0.1, 0.8)},
    },
    (0.1, 0.5, 0.2, 0.25, 1.0),
    {"a": 300.0, "b": 300.0, "c": 500.0},
    1000.0,
)


def asked(*models: tuple[str, float, float], devices: int = 1, **rest: float | int) -> ServingProblem:
    return ServingProblem(tuple(ServedModel(*m) for m in models), devices, **rest)  # type: ignore[arg-type]


def gpulet(device: int, share: float, duty: float, **batches: int) -> Gpulet:
    return Gpulet(device, share, duty, tuple(ModelBatch(m, b) for m, b in batches.items()))


def test_each_pair_that_shares_a_device_is_reported_and_all_neighbours_together() -> None:
    gpulets = {
        "one": gpulet(0, 0.25, 12.0, a=2),
        "two": gpulet(0, 0.25, 20.0, b=1),
        "three": gpulet(0, 0.5, 20.0, c=1),
        "apart": gpulet(1, 0.5, 20.0, a=1),
    }
    factors = {(x.gpulet, x.model, x.beside): x.factor for x in stretch_beside(TABLE, gpulets)}
    assert {k for k in factors if k[0] == "one"} == {("one", "a", "two"), ("one", "a", "three"), ("one", "a", None)}
    assert {k for k in factors if k[0] == "apart"} == {("apart", "a", None)}
    assert factors["apart", "a", None] == 1.0
    own = 1 + 0.1 * 0.4 * 0.25 + 0.2 * 0.6 * 0.25
    beside_two, beside_three = pressure(TABLE, gpulets["two"]), pressure(TABLE, gpulets["three"])
    assert factors["one", "a", "two"] == pytest.approx(own + beside_two, abs=1e-4)
    assert factors["one", "a", None] == pytest.approx(own + beside_two + beside_three, abs=1e-4)


def test_two_neighbours_by_hand() -> None:
    """a beside {b, c}: c5 + c1 l2 p + c3 dram p + the neighbour's fiercest model, each worked out below."""
    left, right = gpulet(0, 0.5, 12.0, a=2), gpulet(0, 0.5, 20.0, b=1, c=1)
    assert pressure(TABLE, left) == pytest.approx((0.5 * 0.4 + 0.25 * 0.6) * 0.5)
    assert pressure(TABLE, right) == pytest.approx(max(0.5 * 0.3 + 0.25 * 0.2, 0.5 * 0.1 + 0.25 * 0.8) * 0.5)
    one, two = times(TABLE, (left, right))
    on_a = 1 + 0.1 * 0.4 * 0.5 + 0.2 * 0.6 * 0.5 + 0.125
    on_b = 1 + 0.1 * 0.3 * 0.5 + 0.2 * 0.2 * 0.5 + 0.175
    on_c = 1 + 0.1 * 0.1 * 0.5 + 0.2 * 0.8 * 0.5 + 0.175
    assert one.factors == pytest.approx((on_a,))
    assert two.factors == pytest.approx((on_b, on_c))
    assert one.busy_ms == pytest.approx(6.0 * on_a)
    assert two.worst_ms == pytest.approx(8.0 * on_b + 2.0 * on_c + 20.0)
    assert two.occupancy == pytest.approx((8.0 * on_b + 2.0 * on_c) / 20.0)
    found = verdict(
        asked(("a", 2000 / 12, 100.0), ("b", 50.0, 100.0), ("c", 50.0, 100.0)), TABLE, ServingPlan(True, (left, right))
    )
    assert any("memory" in f for f in found.faults)
    assert found.throughput == pytest.approx({"a": 2000 / 12, "b": 50.0, "c": 50.0})
    assert found.worst_ms["a"] == pytest.approx(6.0 * on_a + 12.0)
    assert found.devices_used == 1


def test_alone_or_blind_the_solo_time_counts() -> None:
    alone, far = gpulet(0, 0.5, 12.0, a=2), gpulet(1, 0.5, 20.0, b=1)
    assert [t.factors for t in times(TABLE, (alone, far))] == [(1.0,), (1.0,)]
    beside = replace(far, device=0)
    assert [t.factors for t in times(TABLE, (alone, beside), interference=False)] == [(1.0,), (1.0,)]
    assert slowdown(replace(TABLE, interference=(0.0, 0.0, 0.0, 0.0, 0.7)), 0.5, "a", 1, [0.1]) == 1.0
    with pytest.raises(InvalidValue, match="share in percent: got 30"):
        times(TABLE, [gpulet(0, 0.3, 9.0, a=1)])


@pytest.mark.parametrize(
    ("problem", "gpulets", "words"),
    [
        (asked(("a", 1.0, 99.0)), (gpulet(0, 0.5, 3.0, a=1),), "4.00 ms of work in a duty cycle of 3.00 ms"),
        (asked(("a", 1.0, 12.0)), (gpulet(0, 0.5, 9.0, a=1),), "a takes up to 13.00 ms, its SLO is 12 ms"),
        (asked(("a", 200.0, 99.0)), (gpulet(0, 0.5, 8.0, a=1),), "a: 125.0 of 200 requests/s"),
        (asked(("a", 1.0, 99.0), capacity=0.9), (gpulet(0, 1.0, 9.0, a=1),), "add up to 1.00 of 0.9"),
        (
            asked(("a", 1.0, 99.0), max_gpulets=1),
            (gpulet(0, 0.5, 9.0, a=1), gpulet(0, 0.5, 9.0, a=1)),
            "2 gpu-lets of at most 1",
        ),
        (asked(("a", 1.0, 99.0)), (gpulet(0, 0.5, 9.0, a=1), gpulet(1, 0.5, 9.0, a=1)), "2 devices used of 1"),
        (asked(("a", 1.0, 99.0)), (gpulet(3, 0.5, 9.0, a=1),), "the devices are numbered 0 to 0"),
        (asked(("a", 1.0, 99.0)), (gpulet(0, 0.3, 9.0, a=1),), "a was measured at shares of 50, 100 %"),
        (asked(("a", 1.0, 99.0)), (gpulet(0, 0.5, 9.0, a=3),), "a was measured up to batches of 2"),
        (asked(("a", 1.0, 99.0)), (gpulet(0, 0.5, 9.0, a=1), gpulet(0, 0.5, 9.0, b=1)), "b is not asked for"),
        (asked(("x", 0.0, 99.0)), (gpulet(0, 0.5, 9.0, x=1),), "x was not measured on by hand"),
        (
            asked(("b", 1.0, 99.0), ("c", 1.0, 99.0), ("a", 1.0, 99.0)),
            (gpulet(0, 0.5, 30.0, a=1, b=1, c=1),),
            "1100 MB of memory used of 1000",
        ),
    ],
)
def test_each_fault_in_words(problem: ServingProblem, gpulets: tuple[Gpulet, ...], words: str) -> None:
    found = verdict(problem, TABLE, ServingPlan(True, gpulets))
    assert any(words in fault for fault in found.faults)
    assert not found.valid


def test_slack_forgives_one_percent_and_no_slack_nothing() -> None:
    plan = ServingPlan(True, (gpulet(0, 0.5, 8.0, a=2),))
    close = asked(("a", 252.0, 13.9))
    assert verdict(close, TABLE, plan).valid
    assert len(verdict(close, TABLE, plan, slack=0.0).faults) == 2
    assert verdict(asked(("a", 250.0, 14.0)), TABLE, plan, slack=0.0).valid


@pytest.fixture(scope="module")
def checker(shared_dir: Path) -> tuple[ModuleType, dict[str, object], DeviceTable]:
    module = load_script(shared_dir / "data" / "check_serving_plan.py")
    raw = json.loads((shared_dir / "data" / "serving-problems" / "device-rtx2080ti-synthetic.json").read_text())
    return module, raw, DeviceTable.from_json(raw)


@settings(max_examples=tried(60, 150))
@given(data=st.data())
def test_the_faults_are_those_of_the_independent_checker(
    checker: tuple[ModuleType, dict[str, object], DeviceTable], data: st.DataObject
) -> None:
    module, raw, table = checker
    names = data.draw(st.lists(st.sampled_from(sorted(table.latency_ms)), min_size=1, max_size=4, unique=True))
    gpulets = []
    for device in range(2):
        for share in data.draw(st.sampled_from([(), (10,), (5, 5), (2, 8), (3, 3, 4), (4, 4, 4)])):
            inside = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
            batches = {m: data.draw(st.integers(1, 32)) for m in inside}
            gpulets.append(gpulet(device, share / 10, data.draw(st.floats(1.0, 200.0)), **batches))
    plan = ServingPlan(True, tuple(gpulets))
    free = asked(*((m, 0.0, 1e6) for m in names), devices=data.draw(st.integers(1, 2)))
    real = verdict(free, table, plan)
    # Rates and objectives near what the plan gives, so that neither valid plans nor invalid ones are rare.
    problem = replace(
        free,
        models=tuple(
            ServedModel(
                m,
                round(real.throughput[m] * data.draw(st.sampled_from((0.5, 1.0, 1.005, 1.05))), 6),
                round(real.worst_ms.get(m, 9.0) * data.draw(st.sampled_from((0.9, 0.995, 1.0, 1.5))), 6),
            )
            for m in names
        ),
    )
    for interference in (True, False):
        faults, devices = module.check(raw, problem.to_json(), plan.to_json(), interference)
        found = verdict(problem, table, plan, interference)
        ours = [f for f in found.faults if "numbered" not in f]
        assert len(ours) == len(faults), (ours, faults)
        assert found.devices_used == devices

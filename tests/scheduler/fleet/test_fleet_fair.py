"""Hierarchical fair share: the shares themselves, and what a simulated fleet gives."""

from __future__ import annotations

import pytest
from fleet_kit import boxes, scenario
from hypothesis import given
from hypothesis import strategies as st

from edge.core.errors import InvalidValue
from edge.core.fleet import FleetTenant
from edge.simulation.fleet_check import check_log
from edge.simulation.fleet_scenario import scenario_from_json
from edge.simulation.fleet_simulation import FleetSimulation
from scheduler.fleet.fair import TenantTree

TREE = [
    FleetTenant("one", 1), FleetTenant("two", 1), FleetTenant("a", 2, "one"), FleetTenant("b", 3, "one"),
    FleetTenant("c", 1, "two"),
]  # fmt: skip


def test_shares_follow_the_tree() -> None:
    tree = TenantTree(TREE)
    assert tree.shares({"a": 99, "b": 99, "c": 99}, 20.0) == pytest.approx({"a": 4, "b": 6, "c": 10})
    assert tree.shares({"a": 99, "c": 99}, 20.0) == pytest.approx({"a": 10, "b": 0, "c": 10})
    assert tree.shares({"a": 99, "b": 1, "c": 2}, 20.0) == pytest.approx({"a": 17, "b": 1, "c": 2})
    assert tree.shares({}, 20.0) == {"a": 0, "b": 0, "c": 0}


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(0, 50)), min_size=1, max_size=6), st.floats(0, 100))
def test_no_tenant_gets_more_than_it_wants_and_none_below_its_part_lacks(
    given_: list[tuple[float, float]], total: float
) -> None:
    tree = TenantTree([FleetTenant(f"t{n}", weight) for n, (weight, _) in enumerate(given_)])
    want = {f"t{n}": asked for n, (_, asked) in enumerate(given_)}
    got = tree.shares(want, total)
    assert sum(got.values()) == pytest.approx(min(total, sum(want.values())), abs=1e-6)
    weights = {f"t{n}": weight for n, (weight, _) in enumerate(given_)}
    for name, share in got.items():
        assert share <= want[name] + 1e-9
        if share < want[name] - 1e-6:
            # A tenant that lacks something has at least as much by its weight as all others.
            assert all(share / weights[name] >= got[o] / weights[o] - 1e-6 for o in got)


@pytest.mark.parametrize(
    ("tenants", "path"),
    [
        ([FleetTenant("a", 1), FleetTenant("a", 1)], "tenants[1].name"),
        ([FleetTenant("a", 1, "b")], "tenants[0].parent"),
        ([FleetTenant("a", 1, "b"), FleetTenant("b", 1, "a")], "tenants[0].parent"),
    ],
)
def test_what_is_no_tree_is_refused(tenants: list[FleetTenant], path: str) -> None:
    with pytest.raises(InvalidValue) as error:
        TenantTree(tenants)
    assert error.value.path == path


@pytest.mark.parametrize("late", ["a", "b", "c"])
def test_shares_are_held_over_time(late: str) -> None:
    """Tasks of different sizes and lengths, one tenant comes late: within two hundredths of the capacity."""
    begin = {"a": 0.0, "b": 5.0, "c": 8.0} | {late: 15.0}
    jobs = [
        {
            "id": f"{name}{n}", "t": begin[name], "tasks": 10, "tenant": name,
            "demand": {"cpu": 2 if name == "b" else 1}, "duration_s": (0.5, 1.0, 1.5)[n % 3],
        }
        for name in "abc" for n in range(40)
    ]  # fmt: skip
    value = scenario(
        boxes(4, cpu=5.0), jobs, tenants=[{"name": t.name, "weight": t.weight, "parent": t.parent} for t in TREE],
        expect={"hfs": {"resource": "cpu", "from": 3, "to": 35, "max_error": 0.02}},
    )  # fmt: skip
    given_ = scenario_from_json(value)
    verdict = check_log(given_, FleetSimulation(given_).run().log)
    assert verdict.accepted, verdict.to_json()
    assert set(verdict.hfs_error) == {"a", "b", "c"}

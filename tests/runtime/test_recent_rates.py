"""A load that has gone is known after two intervals; a lull, a silence, or a goal that is missed says nothing."""

from __future__ import annotations

from pathlib import Path

from tenants_kit import ServingBox, TenantsBox, tenant

from edge.core.front_messages import ModelTraffic, TrafficReport
from edge.runtime.recent_rates import INTERVALS, RecentRates
from edge.runtime.tenant_needs import TenantNeeds, met_twice
from scheduler.tenants.known import LearnedTenant, SharingReport


def interval(rates: RecentRates, requests: int, rows: int = 0, silent: bool = False) -> float | None:
    """Two seconds with so many requests in each."""
    for _ in range(2):
        rates.add(TrafficReport(1.0, 1.0, 1, (ModelTraffic("a", requests, rows=rows),), ()))
    rates.end(silent)
    return rates.fallen("a")


def test_the_greater_of_two_intervals_counts() -> None:
    rates = RecentRates()
    assert interval(rates, 300) is None
    assert interval(rates, 20) is None, "it may be a lull"
    assert interval(rates, 20) == 20
    assert interval(rates, 100) == 100
    assert interval(rates, 10, rows=40) == 100
    assert interval(rates, 10, rows=40) == 40, "batches are of rows"
    assert rates.fallen("b") is None
    assert interval(rates, 5, silent=True) is None
    assert [interval(rates, 5) for _ in range(3)] == [None] * 3, "what was before the silence says nothing"


def test_a_steady_rate_has_not_fallen() -> None:
    rates = RecentRates()
    assert {interval(rates, n) for n in (60, 55, 52, 60, 49, 50)} == {None}, "chance"
    after = [interval(rates, 20) for _ in range(INTERVALS)]
    assert after == [None, *[20.0] * (INTERVALS - 2), None], "by then plans have followed"


def test_an_interval_without_a_report_changes_nothing() -> None:
    rates = RecentRates()
    interval(rates, 30)
    rates.end(False)
    assert interval(rates, 20) is None
    assert interval(rates, 20) == 20


async def test_a_tenant_needs_less_once_its_load_has_gone(tmp_path: Path) -> None:
    serving = ServingBox(tmp_path, "a", "b", rate=60.0)
    await serving.start()
    box = TenantsBox(serving, tenant("gate", "a"), tenant("stats", "b"))
    needs = TenantNeeds(box.parts.controller, box.clock)
    members, gate, rates = box.shares.members(), tenant("gate", "a"), needs.recent

    async def need(follow: bool = True) -> float:
        found = await needs.of(gate, members, serving, follow)  # type: ignore[arg-type]
        assert found[1] is not None
        return found[1]

    planned = await need(follow=False)
    assert await need() == planned, "nothing is known of it"
    interval(rates, 55)
    interval(rates, 55)
    assert await need() == planned, "chance"
    interval(rates, 10)
    assert await need() == planned
    interval(rates, 10)
    low = await need()
    assert low < planned / 2
    interval(rates, 200)
    assert await need() == planned, "more than planned is for the reorganiser to see"


def test_a_load_is_followed_down_where_the_goal_was_met_twice() -> None:
    def report(performance: float) -> SharingReport:
        return SharingReport(10.0, 10.0, 8.0, performance, 0.2, 80)

    gate, good, bad = tenant("gate", "a"), report(0.95), report(0.94)
    assert met_twice(gate, LearnedTenant(recent=(good,)), good)
    assert met_twice(gate, LearnedTenant(recent=(bad, good, good)), None), "between two intervals"
    assert not met_twice(gate, LearnedTenant(recent=(good,)), bad)
    assert not met_twice(gate, LearnedTenant(recent=(good, bad)), good)
    assert not met_twice(gate, LearnedTenant(), good)
    assert not met_twice(gate, None, good)


async def test_the_front_s_reports_are_counted_by_interval(tmp_path: Path) -> None:
    serving = ServingBox(tmp_path, "a", "b", rate=60.0)
    await serving.start()
    box = TenantsBox(serving, tenant("gate", "a"), tenant("stats", "b"))
    await box.shares.look()
    gate: list[float] = []
    for rates in ({"a": 60, "b": 60}, {"a": 60, "b": 60}, {"a": 8, "b": 60}, {"a": 8, "b": 60}):
        await box.interval(lambda name, _: 0.5 if name == "stats" else 1.0, rates)
        gate.append(box.held()["gate"])
    planned = serving.view.held["a"]
    assert planned > 15, "the plan's own rate follows slowly"
    assert gate[-1] < gate[1] - 0.05, "its share does not: the other one misses its goal"

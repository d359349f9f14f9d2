"""A load that has gone is known after two intervals; a lull, a silence, or a goal that is missed says nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tenants_kit import ServingBox, TenantsBox, tenant

from edge.core.front_messages import ModelTraffic, TrafficReport
from edge.core.tenants import Tenant
from edge.runtime.recent_rates import RecentRates
from edge.runtime.tenant_needs import TenantNeeds


def interval(rates: RecentRates, requests: int, rows: int = 0, silent: bool = False) -> float | None:
    """Two seconds with so many requests in each."""
    for _ in range(2):
        rates.add(TrafficReport(1.0, 1.0, 1, (ModelTraffic("a", requests, rows=rows),), ()))
    rates.end(silent)
    return rates.most("a")


def test_the_greater_of_two_intervals_counts() -> None:
    rates = RecentRates()
    assert interval(rates, 300) is None
    assert interval(rates, 20) == 300, "it may be a lull"
    assert interval(rates, 20) == 20
    assert interval(rates, 100) == 100
    assert interval(rates, 10, rows=40) == 100
    assert interval(rates, 10, rows=40) == 40, "batches are of rows"
    assert rates.most("b") is None
    assert interval(rates, 5, silent=True) is None
    assert interval(rates, 5) is None
    assert interval(rates, 5) == 5


def test_an_interval_without_a_report_changes_nothing() -> None:
    rates = RecentRates()
    interval(rates, 30)
    rates.end(False)
    assert interval(rates, 20) == 30


async def test_a_tenant_needs_less_once_its_load_has_gone(tmp_path: Path) -> None:
    serving = ServingBox(tmp_path, "a", "b", rate=60.0)
    await serving.start()
    box = TenantsBox(serving, tenant("gate", "a"), tenant("stats", "b"))
    needs = TenantNeeds(box.parts.controller, box.clock)
    members, gate, rates = box.shares.members(), tenant("gate", "a"), RecentRates()

    async def need(recent: RecentRates | None) -> float:
        found = await needs.of(gate, members, serving, recent)  # type: ignore[arg-type]
        assert found[1] is not None
        return found[1]

    planned = await need(None)
    assert await need(rates) == planned, "nothing is known of it"
    interval(rates, 55)
    interval(rates, 55)
    assert await need(rates) == planned, "chance"
    interval(rates, 10)
    assert await need(rates) == planned
    interval(rates, 10)
    low = await need(rates)
    assert low < planned / 2
    interval(rates, 200)
    assert await need(rates) == planned, "more than planned is for the reorganiser to see"


@pytest.mark.parametrize("met", [True, False])
async def test_only_a_tenant_that_meets_its_goal_gives_up_what_its_load_no_longer_needs(
    tmp_path: Path, met: bool
) -> None:
    serving = ServingBox(tmp_path, "a", "b", rate=60.0)
    await serving.start()
    box = TenantsBox(serving, tenant("gate", "a"), tenant("stats", "b"))
    asked: list[RecentRates | None] = []
    needed = box.shares._needs.of

    async def watched(mine: Tenant, *more: Any) -> tuple[float, float | None]:
        if mine.id == "gate":
            asked.append(more[-1])
        return await needed(mine, *more)

    box.shares._needs.of = watched  # type: ignore[method-assign]
    await box.shares.look()
    for rates in ({"a": 60, "b": 60}, {"a": 8, "b": 60}, {"a": 8, "b": 60}):
        await box.interval(lambda name, _: 1.0 if met or name != "gate" else 0.5, rates)
    assert [recent is not None for recent in asked] == [False, False, met, met]
    assert box.shares._rates.most("a") == pytest.approx(8.0)

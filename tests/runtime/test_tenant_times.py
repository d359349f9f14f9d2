"""The times of sharing: intervals that end by their own time, rows with the shares that were held in them, and time in
which nothing is shared or measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from tenants_kit import ServingBox, TenantsBox, camera, tenant, two_tenants

from edge.core.alarms import AccuracyMeasured, TenantGoalNow, TenantQuiet
from edge.core.tenants import SharingRules, Tenant, TenantObjective, TenantReason
from edge.runtime.tenant_times import HeldShare, TenantTimes
from scheduler.tenants.sharing import TenantShare

RATES = {"a": 40, "b": 40}


def missed(name: str, given: float) -> float:
    """Requests of "gate" are late half of the time."""
    return 0.5 if name == "gate" else 1.0


def share(held: float, floor: float = 0.1) -> TenantShare:
    return TenantShare(held, 0.4, floor, 0.0, 0.0, "meets", "learned", TenantReason("kept"))


def test_what_a_tenant_held_is_a_mean_over_the_time_in_which_something_was_shared() -> None:
    times = TenantTimes(0.0)
    times.held({}, 10.0)
    assert times.take("gate") is None, "nothing was in force"
    times.held({"gate": share(0.2)}, 20.0)
    times.held({"gate": share(0.5, 0.3)}, 50.0)
    assert times.take("gate") == HeldShare(40.0, pytest.approx(0.425), pytest.approx(0.4), 0.3)
    assert times.take("gate") is None
    times.held({"gate": share(0.2)}, 60.0)
    assert times.pause(70.0), "it was shared until now"
    assert not times.pause(5000.0)
    assert times.passed(5003.0) == 3.0
    times.held({"gate": share(0.9)}, 5010.0)
    assert times.take("gate") is None, "the pause is no time, and ends what was before it"
    times.held({"gate": share(0.4)}, 5020.0)
    assert times.take("gate") == HeldShare(10.0, pytest.approx(0.4), pytest.approx(0.4), 0.1)


async def test_an_interval_ends_though_there_is_more_or_less_to_share_all_the_time(tmp_path: Path) -> None:
    box = await two_tenants(tmp_path)
    await box.shares.look()
    for n in range(22):
        box.parts.shares.shared_capacity = lambda n=n: 0.9 if n % 2 else 0.8
        for _ in range(2):
            box.report({"a": (40, 4), "b": (40, 0)})
        await box.shares.look()
        assert sum(box.held().values()) == pytest.approx(0.9 if n % 2 else 0.8)
    assert box.shares.known["gate"].memory.curve.reports == 4
    assert [r.seconds for r in box.shares.known["gate"].recent] == [10.0] * 4


@pytest.mark.parametrize("why", ["one tenant", "no room"])
async def test_time_in_which_nothing_is_shared_is_in_no_row_and_no_report(tmp_path: Path, why: str) -> None:
    box = await two_tenants(tmp_path)
    tenants, there = box.shares.tenants, box.parts.shares.shared_capacity
    await box.shares.look()
    for _ in range(3):
        await box.interval(missed, RATES)
    ended_utc_s, reports = box.clock.utc(), box.shares.known["gate"].memory.curve.reports
    for _ in range(5):
        if why == "one tenant":
            box.shares.change((), box.shares.rules)
        else:
            box.parts.shares.shared_capacity = lambda: 0.01
        for _ in range(10):
            box.report({"a": (40, 20), "b": (40, 0)})
        await box.shares.look()
    box.clock.advance(5 * 3600.0)
    await box.shares.look()
    box.shares.change(tenants, box.shares.rules)
    box.parts.shares.shared_capacity = there
    again_utc_s = box.clock.utc()
    await box.shares.look()
    for _ in range(31):
        await box.interval(missed, RATES)
    rows = [row for row in box.history.rows if row.tenant == "gate"]
    assert [row.seconds for row in rows] == [30.0, 300.0]
    assert rows[0].utc_s <= ended_utc_s + 10.0
    assert rows[1].utc_s - rows[1].seconds >= again_utc_s - 1e-3
    assert box.shares.known["gate"].memory.curve.reports == reports + 31
    assert all(report.seconds <= 10.0 for report in box.shares.known["gate"].recent)


async def test_rows_have_what_was_held_in_the_window_and_not_the_next_budget(tmp_path: Path) -> None:
    serving = ServingBox(tmp_path, "a")
    await serving.start()
    streets = Tenant("streets", TenantObjective("accuracy", 0.8), cameras=("north",))
    box = TenantsBox(serving, tenant("gate", "a"), streets)
    box.parts.cameras["north"] = camera()
    await box.shares.look()
    first = box.held()["streets"]
    for _ in range(9):
        await box.interval(lambda name, given: 1.0, {"a": 20})
    box.shares.fact(AccuracyMeasured("north", 1, 0.4))
    await box.interval(lambda name, given: 1.0, {"a": 20})
    assert box.held()["streets"] > first + 0.01, "it misses its goal"
    (row,) = [row for row in box.history.rows if row.tenant == "streets"]
    assert (row.held, row.performance, row.seconds) == (pytest.approx(first, abs=1e-4), 0.4, 100.0)
    assert row.entitlement == pytest.approx(0.45)


async def test_the_first_miss_after_a_night_without_requests_raises_nothing(tmp_path: Path) -> None:
    box = await two_tenants(tmp_path)
    box.shares.change(box.shares.tenants, SharingRules(missed_minutes=1.0, policy="fair"))
    await box.shares.look()
    for _ in range(4):
        await box.interval(missed, RATES)
    box.clock.advance(8 * 3600.0)
    await box.shares.look()
    box.facts.clear()

    for _ in range(4):  # nothing is learned of the first one: the front was silent before it
        await box.interval(missed, RATES)
    found = [f.missed_s for f in box.facts if isinstance(f, TenantGoalNow) and f.tenant == "gate"]
    assert found[0] == 0.0
    assert found[-1] == pytest.approx(70.0), "time that was measured before the night counts"


async def test_a_goal_alarm_ends_where_nothing_was_measured_for_as_long_as_a_miss_takes(tmp_path: Path) -> None:
    box = await two_tenants(tmp_path)
    box.shares.change(box.shares.tenants, SharingRules(missed_minutes=1.0, policy="fair"))
    await box.shares.look()
    for _ in range(7):
        await box.interval(missed, RATES)
    assert box.facts[-1].missed_s == 0.0, "stats meets its goal"
    assert max(f.missed_s for f in box.facts if isinstance(f, TenantGoalNow)) >= 60.0
    box.facts.clear()
    for _ in range(5):
        await box.interval(missed, {"b": 40})
    assert [f for f in box.facts if isinstance(f, TenantQuiet)] == []
    await box.interval(missed, {"b": 40})
    assert [f for f in box.facts if isinstance(f, TenantQuiet)] == [TenantQuiet("gate", "gate", 60.0)]
    box.facts.clear()
    for n in range(5):
        await box.interval(missed, RATES)
        assert {f.missed_s for f in box.facts if isinstance(f, TenantGoalNow)} == {0.0}, n
    assert box.shares.known["gate"].missed_utc_s is not None


async def test_a_camera_tenant_is_quiet_after_two_windows_at_least(tmp_path: Path) -> None:
    serving = ServingBox(tmp_path, "a")
    await serving.start()
    streets = Tenant("streets", TenantObjective("accuracy", 0.8), cameras=("north",))
    box = TenantsBox(serving, tenant("gate", "a"), streets, rules=SharingRules(missed_minutes=1.0))
    box.parts.cameras["north"] = camera()
    await box.shares.look()
    await box.interval(lambda name, given: 1.0, {"a": 20})
    box.shares.fact(AccuracyMeasured("north", 1, 0.4))
    for _ in range(20):
        await box.interval(lambda name, given: 1.0, {"a": 20})
    assert [f for f in box.facts if isinstance(f, TenantQuiet)] == []
    await box.interval(lambda name, given: 1.0, {"a": 20})
    assert [f.tenant for f in box.facts if isinstance(f, TenantQuiet)] == ["streets"]

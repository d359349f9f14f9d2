"""The times of sharing: intervals that end by their own time, rows with the shares that were held in them, and time in
which nothing is shared or measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from tenants_kit import ServingBox, TenantsBox, camera, tenant, two_tenants

from edge.core.alarms import AccuracyMeasured, TenantGoalNow, TenantQuiet, TenantsNow
from edge.core.tenants import SharingRules, Tenant, TenantObjective, TenantReason
from edge.runtime.tenant_times import HeldShare, QuietTimes, TenantTimes
from scheduler.tenants.sharing import TenantShare, missed_s, right_missed_s

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
    assert times.pause(70.0) == 0.0, "it was shared until now"
    assert times.pause(5000.0) is None
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
    assert max(found) == 0.0, "time that was measured before the night does not count, though it raised no alarm"
    assert right_missed_s(box.shares.known["gate"]) == pytest.approx(30.0)
    assert missed_s(box.shares.known["gate"]) == pytest.approx(70.0)


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


def quiet(box: TenantsBox) -> list[str]:
    return [f.tenant for f in box.facts if isinstance(f, TenantQuiet)]


def well(name: str, given: float) -> float:
    return 1.0


async def test_a_camera_tenant_is_quiet_after_four_windows_and_not_between_two_reports(tmp_path: Path) -> None:
    """An accuracy is known a window late, and a late one makes two reports more than two windows apart."""
    serving = ServingBox(tmp_path, "a")
    await serving.start()
    streets = Tenant("streets", TenantObjective("accuracy", 0.8), cameras=("north",))
    box = TenantsBox(serving, tenant("gate", "a"), streets, rules=SharingRules(missed_minutes=1.0))
    box.parts.cameras["north"] = camera()
    await box.shares.look()
    await box.interval(well, {"a": 20})
    for window in (1, 2, 3):
        box.shares.fact(AccuracyMeasured("north", window, 0.4))
        for _ in range(22):
            await box.interval(well, {"a": 20})
    assert quiet(box) == []
    for _ in range(18):
        await box.interval(well, {"a": 20})
    assert quiet(box) == []
    await box.interval(well, {"a": 20})
    assert quiet(box) == ["streets"]


async def test_quiet_goes_on_and_ends_alarms_while_there_is_nothing_to_divide(tmp_path: Path) -> None:
    box = await two_tenants(tmp_path)
    box.shares.change(box.shares.tenants, SharingRules(missed_minutes=1.0, policy="fair"))
    await box.shares.look()
    for _ in range(7):
        await box.interval(missed, RATES)
    assert right_missed_s(box.shares.known["gate"]) >= 60.0
    box.parts.shares.shared_capacity = lambda: 0.01
    for _ in range(5):
        await box.interval(missed, RATES)
    assert quiet(box) == []
    await box.interval(missed, RATES)
    assert sorted(quiet(box)) == ["gate", "stats"]
    assert right_missed_s(box.shares.known["gate"]) == 0.0, "the first miss after it raises nothing"


async def test_a_dip_of_what_there_is_to_divide_begins_no_quiet_anew_and_ends_no_row(tmp_path: Path) -> None:
    box = await two_tenants(tmp_path)
    there = box.parts.shares.shared_capacity
    box.shares.change(box.shares.tenants, SharingRules(missed_minutes=1.0, policy="fair"))
    await box.shares.look()
    await box.interval(missed, RATES)
    for n in range(8):
        await box.interval(missed, {"b": 40})
        if n % 2:
            box.parts.shares.shared_capacity = lambda: 0.01
            box.clock.advance(2.0)
            await box.shares.look()
            box.parts.shares.shared_capacity = there
    assert "gate" in quiet(box)
    assert box.history.rows == (), "no row is five minutes long yet"
    box.history.end(box.clock.utc())
    assert len(box.history.rows) == 2


async def test_time_in_which_the_front_is_away_is_not_quiet(tmp_path: Path) -> None:
    box = await two_tenants(tmp_path)
    there = box.parts.shares.shared_capacity
    box.shares.change(box.shares.tenants, SharingRules(missed_minutes=1.0, policy="fair"))
    await box.shares.look()
    for _ in range(7):
        await box.interval(missed, RATES)
    for pool in (there, lambda: 0.01):
        box.serving.front.up = False
        box.parts.shares.shared_capacity = pool
        for _ in range(20):
            box.clock.advance(10.0)
            await box.shares.look()
        assert quiet(box) == [], "all requests fail"
    box.serving.front.up, box.parts.shares.shared_capacity = True, there
    for _ in range(8):
        await box.interval(missed, {"b": 40})
    assert set(quiet(box)) == {"gate"}


async def test_rows_of_a_tenant_that_left_are_not_joined_over_the_gap(tmp_path: Path) -> None:
    serving = ServingBox(tmp_path, "a", "b", "c")
    await serving.start()
    box = TenantsBox(serving, tenant("gate", "a"), tenant("stats", "b"), tenant("night", "c"))
    rates = {"a": 20, "b": 20, "c": 20}
    await box.shares.look()
    for _ in range(10):
        await box.interval(well, rates)
    tenants, left_utc_s = box.shares.tenants, box.clock.utc()
    offer = serving.models.offers.pop("c")
    for _ in range(60):
        await box.interval(well, {"a": 20, "b": 20})
    serving.models.offers["c"] = offer
    came_utc_s = box.clock.utc()
    for _ in range(31):
        await box.interval(well, rates)
    assert box.shares.tenants == tenants
    first, second = [row for row in box.history.rows if row.tenant == "night"]
    assert first.utc_s <= left_utc_s + 10.0
    assert second.utc_s - second.seconds >= came_utc_s - 1e-3


def test_the_quiet_of_a_tenant_that_returns_begins_anew() -> None:
    times = QuietTimes()
    times.only({"gate", "stats"}, 0.0)
    times.measured("gate", 10.0)
    assert times.only({"stats"}, 20.0)
    assert not times.only({"gate", "stats"}, 1000.0)
    assert (times.quiet_s("gate", 1050.0, 60.0), times.quiet_s("stats", 1050.0, 60.0)) == (0.0, 1050.0)
    times.uncounted("stats", 1000.0, 1050.0)
    assert (times.quiet_s("stats", 1050.0, 60.0), times.quiet_s("stats", 1060.0, 60.0)) == (0.0, 60.0)


async def test_alarms_end_where_tenants_go_before_anything_was_shared(tmp_path: Path) -> None:
    box = await two_tenants(tmp_path)
    box.parts.shares.shared_capacity = lambda: 0.01
    await box.shares.look()
    box.shares.change((), box.shares.rules)
    for _ in range(3):
        await box.shares.look()
    assert box.facts == [TenantsNow(frozenset())]


@pytest.mark.parametrize("windows", [False, True])
async def test_what_was_measured_before_a_decision_that_fails_counts_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, windows: bool
) -> None:
    serving = ServingBox(tmp_path, "a")
    await serving.start()
    streets = Tenant("streets", TenantObjective("accuracy", 0.8), cameras=("north",))
    box = TenantsBox(serving, tenant("gate", "a"), streets)
    box.parts.cameras["north"] = camera()
    await box.shares.look()
    for _ in range(3):
        await box.interval(well, {"a": 20})
    if windows:
        box.shares.fact(AccuracyMeasured("north", 1, 0.4))

    def fails(*args: object) -> None:
        raise ArithmeticError

    with monkeypatch.context() as patched:
        patched.setattr("edge.runtime.tenants.decide", fails)
        with pytest.raises(ArithmeticError):
            await box.interval(missed, {"a": 20})
    await box.interval(well, {"a": 60})
    report = box.shares.known["gate"].recent[-1]
    assert (report.seconds, report.requests, report.load) == (20.0, 800, pytest.approx(40.0))
    assert report.performance == pytest.approx(0.875)
    assert len(box.shares.known["streets"].recent) == windows
    await box.interval(well, {"a": 20})
    assert box.shares.known["gate"].recent[-1].requests == 200, "once"

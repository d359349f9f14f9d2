"""The recorded day: rows, what is written and read, and the day again under another policy."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, get_args

import pytest

from edge.core.errors import InvalidValue
from edge.core.tenants import SharingRules, Tenant, TenantObjective
from edge.runtime.tenant_day import HistoryRow, TenantDay
from edge.runtime.tenant_what_if import replayed
from edge.settings.tenants import SharingPolicyName
from scheduler.tenants.known import LearnedTenant, SharingReport
from scheduler.tenants.sharing import MeasuredUse, SharingQuestion, TenantNow, decide

GATE = Tenant("gate", TenantObjective("within_slo", 0.95))
STATS = Tenant("stats", TenantObjective("within_slo", 0.95))
STREETS = Tenant("streets", TenantObjective("accuracy", 0.8))


class Day(TenantDay):
    """A day that keeps what it would write."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []
        super().__init__(self.written.append)


def report(utc_s: float, performance: float, given: float = 0.3) -> SharingReport:
    return SharingReport(utc_s, 10.0, 5.0, performance, given, 50)


def test_rows_are_means_of_five_minutes_with_needs_and_uses() -> None:
    day = Day()
    for n in range(30):
        use = MeasuredUse(0.1 + 0.002 * n, 0.25)
        entry = TenantNow(GATE, need=0.2 if n % 2 else None, report=report(10.0 * n, 1.0 if n % 2 else 0.8), use=use)
        day.add(entry, 1000.0 + 10.0 * (n + 1), 10.0, 0.35, 0.1)
        day.add(TenantNow(STATS, use=use), 1000.0 + 10.0 * (n + 1), 10.0, 0.55, 0.0)
    gate, stats = day.rows
    assert (gate.seconds, gate.held, gate.given, gate.load) == (300.0, pytest.approx(0.35), 0.3, 5.0)
    assert (gate.performance, gate.need, gate.used) == (pytest.approx(0.9), 0.2, pytest.approx(0.129))
    assert (stats.performance, stats.need, stats.used, stats.given) == (None, None, gate.used, 0.25)


def test_rows_of_many_tenants_are_written_once_and_read_again_without_newer_fields() -> None:
    day = Day()
    for n in range(30):
        for k in range(20):
            day.add(TenantNow(replace(GATE, id=f"t{k}"), report=report(10.0 * n, 0.9)), 10.0 * (n + 1), 10.0, 0.05, 0.0)
        day.keep()
    (document,) = day.written
    assert len(document["rows"]) == 20
    read = json.loads(json.dumps(document))
    for row in read["rows"][:10]:
        del row["need"], row["used"]
    again = Day()
    again.restore(read)
    assert list(again.rows) == list(day.rows)
    for damage in ({"held": None}, {"seconds": 1.0, "colour": "red"}):
        broken = {k: v for k, v in (read["rows"][0] | damage).items() if v is not None or k == "performance"}
        with pytest.raises(InvalidValue, match="rows"):
            Day().restore({"rows": [broken]})


def test_a_row_is_closed_after_the_clock_went_back_and_times_rise() -> None:
    day = Day()
    utc_s = 10_000.0
    for n in range(100):
        utc_s += 10.0 if n != 50 else -3600.0
        day.add(TenantNow(GATE, report=report(utc_s, 0.9)), utc_s, 10.0, 0.5, 0.0)
    times = [row.utc_s for row in day.rows]
    assert len(times) == 2
    assert times == sorted(times)
    assert times[-1] < 10_000.0, "those that are still to come are left out"


def rows_of(tenant: Tenant, count: int, seconds: float = 300.0, **row: Any) -> list[HistoryRow]:
    held = row.pop("held", 0.3)
    defaults: dict[str, Any] = {"performance": 0.9, "utility": 0.95, "load": 5.0, "given": held} | row
    return [
        HistoryRow(
            tenant.id, 1000.0 + seconds * (n + 1), seconds, held, goal=tenant.objective.goal, requests=100, **defaults
        )
        for n in range(count)
    ]


def known_of(tenant: Tenant, knee: float) -> LearnedTenant:
    """A curve that rises to 1 at the share `knee`."""
    known: dict[str, LearnedTenant] = {}
    for n in range(25):
        share = 0.1 + 0.03 * n
        entries = (
            TenantNow(tenant, report=SharingReport(10.0 * n, 10.0, 5.0, min(1.0, share / knee), share, 100)),
            TenantNow(replace(tenant, id="other")),
        )
        known.update(decide(known, SharingQuestion(10.0 * n, 0.9, entries, SharingRules())).known)
    return known[tenant.id]


@pytest.mark.parametrize("policy", get_args(SharingPolicyName))
def test_the_day_is_replayed_under_every_policy_of_the_box(policy: str) -> None:
    rows = rows_of(GATE, 12, performance=0.6) + rows_of(STATS, 12, held=0.6, performance=1.0)
    known = {"gate": known_of(GATE, 0.5), "stats": known_of(STATS, 0.15)}
    found = replayed(rows, (GATE, STATS), known, SharingRules(policy=policy))
    assert (found.rows, found.seconds, found.from_utc_s) == (12, 3600.0, 1000.0)
    assert sum(found.share.values()) == pytest.approx(0.9)
    assert sum(found.other_share.values()) == pytest.approx(0.9)
    assert found.egalitarian == pytest.approx(0.6 / 0.95)
    assert found.other_egalitarian is not None
    assert found.other_egalitarian > found.egalitarian, "gate would get what stats does not need"


def test_profiles_and_uses_that_were_recorded_count_in_the_replay() -> None:
    silent = replace(STATS, proxy_utilisation=0.5)
    rows = rows_of(GATE, 6, need=0.2) + rows_of(STATS, 6, performance=None, utility=None, held=0.6, used=0.1)
    shares = replayed(rows, (GATE, silent), {}, SharingRules(policy="njc")).other_share
    assert shares["stats"] < 0.45, "it uses a tenth and shall use half of its share"
    without = [replace(row, need=None, used=None) for row in rows]
    blank = replayed(without, (GATE, silent), {}, SharingRules(policy="njc")).other_share
    assert blank["stats"] == pytest.approx(0.45, abs=0.02), "nothing says what it needs"


def test_one_replayed_decision_moves_as_far_as_those_of_five_minutes() -> None:
    rows = rows_of(GATE, 3, performance=0.4) + rows_of(STATS, 3, held=0.6, performance=1.0)
    known = {"gate": known_of(GATE, 0.7), "stats": known_of(STATS, 0.1)}
    rules = SharingRules(policy="ew", largest_step=0.01, interval_s=10.0)
    fast = replayed(rows, (GATE, STATS), known, rules).other_share["gate"]
    slow = replayed(rows, (GATE, STATS), known, replace(rules, interval_s=300.0)).other_share["gate"]
    assert slow <= 0.45 + 0.02
    assert fast > slow + 0.03


@pytest.mark.parametrize("window_s", [100.0, 300.0, 600.0])
def test_windows_of_any_length_count_by_their_time(window_s: float) -> None:
    cameras = rows_of(STREETS, round(3600 / window_s), window_s, held=0.4, load=None)
    cameras = [replace(row, performance=0.4 + 0.4 * (n % 2)) for n, row in enumerate(cameras)]
    rows = sorted(rows_of(GATE, 12, held=0.5) + cameras, key=lambda row: row.utc_s)
    found = replayed(rows, (GATE, STREETS), {}, SharingRules(policy="fair"))
    assert (found.rows, found.seconds) == (12, pytest.approx(3600.0))
    assert found.utility["streets"] == pytest.approx(0.75, abs=1e-6), "half of the time 0.4 of 0.8, half of it 0.8"
    assert found.share == pytest.approx({"gate": 0.5, "streets": 0.4})

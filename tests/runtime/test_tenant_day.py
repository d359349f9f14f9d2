"""The recorded day: rows, what is written and read, and the day again under another policy."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any, get_args

import pytest
from tenants_kit import SetClock

from edge.core.tenants import SharingRules, Tenant, TenantObjective
from edge.runtime.tenant_day import HistoryRow, TenantDay
from edge.runtime.tenant_times import HeldShare
from edge.runtime.tenant_what_if import replayed
from edge.settings.tenants import SharingPolicyName
from scheduler.tenants.known import LearnedTenant, SharingReport
from scheduler.tenants.sharing import MeasuredUse, SharingQuestion, TenantNow, decide

GATE = Tenant("gate", TenantObjective("within_slo", 0.95))
STATS = Tenant("stats", TenantObjective("within_slo", 0.95))
STREETS = Tenant("streets", TenantObjective("accuracy", 0.8))


class Day(TenantDay):
    """A day that keeps what it would write. `passed` adds an interval with the shares `had`."""

    def __init__(self, utc_s: float = 1000.0, *, document: Any = None) -> None:
        self.written: list[dict[str, Any]] = []
        self.clock = SetClock()
        self.clock.set(utc_s)
        super().__init__(self.written.append, self.clock)
        self.errors = self.restore(document)

    def passed(self, entry: TenantNow, seconds: float, held: float = 0.35, floor: float = 0.1) -> None:
        self.clock.advance(seconds)
        self.add(entry, self.clock.utc(), seconds, HeldShare(seconds, held, 0.45, floor))

    def minutes(self, count: int) -> list[HistoryRow]:
        """`count` rows of five minutes of one tenant, written; returns what is shown."""
        for _ in range(count):
            self.passed(TenantNow(GATE, report=report(self.clock.utc(), 0.9)), 300.0)
        self.keep()
        return list(self.rows)


def report(utc_s: float, performance: float, given: float = 0.3) -> SharingReport:
    return SharingReport(utc_s, 10.0, 5.0, performance, given, 50)


def test_rows_are_means_of_five_minutes_with_needs_and_uses() -> None:
    day = Day()
    for n in range(30):
        use = MeasuredUse(0.1 + 0.002 * n, 0.25)
        entry = TenantNow(GATE, need=0.2 if n % 2 else None, report=report(10.0 * n, 1.0 if n % 2 else 0.8), use=use)
        day.passed(entry, 10.0)
        day.add(TenantNow(STATS, use=use), day.clock.utc(), 10.0, HeldShare(10.0, 0.55, 0.3 + 0.01 * n, 0.0))
    gate, stats = day.rows
    assert (gate.seconds, gate.held, gate.given, gate.load) == (300.0, pytest.approx(0.35), 0.3, 5.0)
    assert (gate.performance, gate.need, gate.used) == (pytest.approx(0.9), 0.2, pytest.approx(0.129))
    assert (stats.performance, stats.need, stats.used, stats.given) == (None, None, gate.used, 0.25)
    assert (gate.entitlement, stats.entitlement) == (0.45, pytest.approx(0.445)), "as of then"


def test_rows_of_many_tenants_are_written_once_and_read_again_without_newer_fields() -> None:
    day = Day()
    for n in range(30):
        day.clock.advance(10.0)
        for k in range(20):
            entry = TenantNow(replace(GATE, id=f"t{k}"), report=report(10.0 * n, 0.9))
            day.add(entry, day.clock.utc(), 10.0, HeldShare(10.0, 0.05, 0.05, 0.0))
        day.keep()
    (document,) = day.written
    assert len(document["rows"]) == 20
    read = json.loads(json.dumps(document))
    for row in read["rows"][:10]:
        del row["need"], row["used"], row["entitlement"]
    again = Day(1300.0, document=read)
    assert again.errors == []
    assert [replace(row, entitlement=0.05) for row in again.rows] == list(day.rows)
    assert again.rows[0].entitlement is None


WHOLE = {
    "tenant": "gate", "utc_s": 900.0, "seconds": 300.0, "held": 0.3, "given": 0.3, "performance": 0.9, "goal": 0.95,
    "utility": 0.95, "load": 5.0, "requests": 10, "floor": 0.1, "need": None, "used": None, "entitlement": 0.4,
}  # fmt: skip


@pytest.mark.parametrize(
    "damage",
    [
        {"held": "much"}, {"held": None}, {"held": 7.0}, {"seconds": -1.0}, {"utc_s": "now"}, {"utc_s": float("nan")},
        {"performance": float("inf")}, {"requests": "ten"}, {"tenant": 3}, {"tenant": ""}, {"floor": []},
        {"colour": "red"}, {"entitlement": True},
    ],
)  # fmt: skip
def test_a_damaged_row_is_left_out_and_the_others_are_kept_and_written(damage: dict[str, Any]) -> None:
    day = Day(document={"rows": [WHOLE, WHOLE | damage, "no row", WHOLE]})
    assert len(day.rows) == 2
    assert "rows[1]" in str(day.errors[0])
    assert len(day.minutes(1)) == 3
    assert len(json.loads(json.dumps(day.written[-1]))["rows"]) == 3


@pytest.mark.parametrize("document", [[], "text", {"rows": {}}, {"rows": None}, 3])
def test_a_document_that_is_no_day_is_begun_anew(document: Any) -> None:
    day = Day(document=document)
    assert len(day.errors) == 1
    assert len(day.minutes(1)) == 1
    assert Day(document=None).errors == Day(document={}).errors == []


@pytest.mark.parametrize("step_s", [-3600.0, 3600.0, -1e9, 1e9])
def test_rows_of_a_run_are_dated_anew_where_the_clock_was_set(step_s: float) -> None:
    day = Day(2e9)
    assert len(day.minutes(10)) == 10
    day.clock.set(day.clock.utc() + step_s)
    rows = day.minutes(2)
    assert len(rows) == 12
    assert [row.utc_s for row in rows] == pytest.approx(
        [2e9 + step_s + 300.0 * (n + 1) for n in range(12)], rel=0, abs=0.1
    )


def test_a_box_that_begins_in_1970_has_its_day_again_once_it_is_corrected() -> None:
    before = Day(2e9)
    document = {"rows": [dict(vars(row)) for row in before.minutes(20)]}
    off_s = 600.0
    day = Day(0.0, document=document)
    assert len(day.rows) == 0, "all of them are still to come"
    assert len(day.minutes(3)) == 3
    again = Day(0.0, document=day.written[-1])
    assert len(again.minutes(2)) == 2
    again.clock.set(2e9 + 20 * 300.0 + off_s + 5 * 300.0)
    rows = again.minutes(1)
    assert len(rows) == 20 + 3, "what the first run recorded in 1970 is in no known time"
    times = [row.utc_s for row in rows]
    assert times == sorted(times)
    assert len(again.written[-1]["rows"]) == 20 + 3 + 3


def test_rows_that_the_clock_does_not_show_are_kept_for_a_day_of_a_run_and_no_more_than_a_day_of_them() -> None:
    document = {"rows": [WHOLE | {"utc_s": 2e9 + 300.0 * n} for n in range(400)]}
    day = Day(document=document)
    day.minutes(1)
    assert len(day.written[-1]["rows"]) == 288, "a day of each tenant"
    day.minutes(287)
    assert len(day.written[-1]["rows"]) == 288
    assert {row["utc_s"] < 1e9 for row in day.written[-1]["rows"]} == {True}
    other = Day(document={"rows": [WHOLE | {"tenant": "gone", "utc_s": 2e9}]})
    other.minutes(200)
    assert any(row["tenant"] == "gone" for row in other.written[-1]["rows"])
    other.minutes(100)
    assert not any(row["tenant"] == "gone" for row in other.written[-1]["rows"]), "a day old by both"


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


def test_the_replay_judges_each_time_by_the_curve_at_its_own_load() -> None:
    """Half of the day has a tenth of the load: more share brings nothing then, whatever the load is now."""
    busy, quiet = rows_of(GATE, 24, performance=0.6), rows_of(GATE, 24, performance=1.0, load=0.5)
    mixed = [a if n % 2 else b for n, (a, b) in enumerate(zip(busy, quiet, strict=True))]
    rows = mixed + rows_of(STATS, 24, held=0.6, performance=1.0)
    gate, stats = known_of(GATE, 0.5), known_of(STATS, 0.15)
    found = replayed(rows, (GATE, STATS), {"gate": gate, "stats": stats}, SharingRules(policy="fair"))
    assert found.other_utility["gate"] > found.utility["gate"] + 0.05, "busy hours gain by the larger share"
    assert found.other_utility["gate"] <= 1.0
    load = replace(gate.memory.load, last=math.log(0.5), mean=math.log(0.5))
    calm = replace(gate, memory=replace(gate.memory, load=load))
    later = replayed(rows, (GATE, STATS), {"gate": calm, "stats": stats}, SharingRules(policy="fair"))
    assert later.other_utility == pytest.approx(found.other_utility), "the load of the moment says nothing of the day"


def test_the_replay_begins_with_the_shares_of_the_day_and_with_what_is_known() -> None:
    rows = rows_of(GATE, 2, performance=0.6) + rows_of(STATS, 2, held=0.6, performance=1.0)
    known = {"gate": known_of(GATE, 0.5), "stats": known_of(STATS, 0.15)}
    rules = SharingRules(policy="ew", largest_step=0.02, interval_s=300.0, explore=1.0)
    found = replayed(rows, (GATE, STATS), known, rules)
    assert found.share["gate"] < found.other_share["gate"] <= 0.31 + 1e-6, "one step, once something is reported"


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

"""Every invariant holds on a good run and breaks on a bad one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.soak import invariants as inv
from benchmarks.soak.schedule import CALM_S, KINDS, RESULTS_LATER_S, FaultName
from benchmarks.soak.values import (
    BoxSeen,
    EarlierProcess,
    FaultDone,
    Gap,
    InForce,
    ProcessSample,
    ReceivedMessage,
    RecordedEvent,
    RequestTotal,
)

BACK_S = KINDS["camera_gone"].back_s


def fault(name: FaultName, began_s: float, ended_s: float | None = None, camera: str = "") -> FaultDone:
    return FaultDone(1, name, camera, began_s, began_s if ended_s is None else ended_s)


def look(at_s: float, life: int = 0, **changed: Any) -> BoxSeen:
    seen = BoxSeen(at_s, life, {"north": "v1"}, {"north": "live"}, frozenset(), {}, at_s)
    return replace(seen, **changed)


def breaks(checked: Any) -> list[str]:
    assert checked.checks > 0, "it has looked at something"
    return [b.said for b in checked.breaks]


# -- gaps


def test_gaps_reach_from_the_beginning_to_the_end() -> None:
    found = inv.gaps({"camera north": [3.0, 12.0, 15.0, 40.0]}, 10.0, 30.0)
    assert [(g.from_s, g.to_s) for g in found] == [(10.0, 12.0), (12.0, 15.0), (15.0, 30.0)]
    assert [g.length_s for g in inv.gaps({"page": []}, 0.0, 50.0)] == [50.0], "never an answer"


@pytest.mark.parametrize(
    ("name", "subject", "stopped"),
    [
        ("camera_gone", "camera north", True), ("camera_gone", "camera south", False), ("camera_gone", "page", False),
        ("kill_all", "camera south", True), ("kill_all", "page", True), ("kill_front", "model lenet", True),
        ("kill_front", "answered lenet", True), ("kill_front", "camera north", False), ("broker_away", "page", False),
    ],
)  # fmt: skip
def test_a_fault_touches_its_own_subjects_alone(name: FaultName, subject: str, stopped: bool) -> None:
    assert inv.touches(fault(name, 1.0, camera="north"), subject) == stopped


def test_a_gap_is_bounded_by_the_fault_that_it_meets() -> None:
    gone = fault("camera_gone", 100.0, 120.0, "north")
    during = Gap("camera north", 99.0, 120.0 + BACK_S - 1)
    assert breaks(inv.answers_back([during], [gone])) == []
    assert len(breaks(inv.answers_back([replace(during, to_s=120.0 + BACK_S + 1)], [gone]))) == 1
    assert len(breaks(inv.answers_back([replace(during, subject="camera south")], [gone]))) == 1, "not its own"
    assert len(breaks(inv.answers_back([during], [replace(gone, tried=False)]))) == 1, "it was not done"
    assert len(breaks(inv.answers_back([during], [replace(gone, began_s=400.0, ended_s=420.0)]))) == 1, "later"
    assert breaks(inv.answers_back([Gap("page", 5.0, 5.0 + CALM_S)], [])) == []


def test_a_fault_late_in_a_silence_is_no_excuse_for_the_silence_before_it() -> None:
    silence = Gap("model lenet", 100.0, 400.0)
    late = fault("kill_front", 390.0)
    assert inv.excused(silence, [late]) == (CALM_S, ())
    assert len(breaks(inv.answers_back([silence], [late]))) == 1
    back_s = KINDS["kill_front"].back_s
    in_a_row = [fault("kill_front", 115.0), fault("kill_front", 115.0 + back_s)]
    assert inv.bound_s(silence, in_a_row) == 15.0 + 2 * back_s, "the second came before the first had to be over"
    assert inv.bound_s(silence, [*in_a_row, late]) == 15.0 + 2 * back_s


def test_results_may_be_absent_for_longer_than_answers_but_not_for_ever() -> None:
    results = Gap("answered lenet", 100.0, 100.0 + CALM_S + RESULTS_LATER_S)
    assert breaks(inv.answers_back([results], [])) == []
    assert len(breaks(inv.answers_back([replace(results, subject="model lenet")], []))) == 1
    assert len(breaks(inv.answers_back([replace(results, to_s=results.to_s + 1)], []))) == 1


# -- models


def test_a_version_changes_by_the_journal_alone() -> None:
    looks = [look(1.0), look(2.0, models={"north": "v2"}), look(9.0, life=1, models={"north": "v2"})]
    assert breaks(inv.models_kept(looks, [InForce(4, "north", "v2")])) == []
    lost = [*looks[:2], look(9.0, life=1)]
    assert "v2 was in force, now v1" in breaks(inv.models_kept(lost, [InForce(4, "north", "v2")]))[0]
    assert breaks(inv.models_kept(looks, [InForce(4, "south", "v2")])), "of another camera"
    entries = [InForce(3, "north", "v1"), InForce(4, "north", "v2")]
    assert breaks(inv.models_kept(lost, entries)), "an older entry is no reason to go back"
    assert breaks(inv.models_kept(lost, [*entries, InForce(7, "north", "v1")])) == [], "it was rolled back"


def test_the_last_entry_is_in_force_in_the_end() -> None:
    entries = [InForce(9, "north", "v3"), InForce(4, "north", "v2")]
    assert breaks(inv.promotions_in_force({"north": "v3"}, entries)) == []
    assert breaks(inv.promotions_in_force({"north": "v2"}, entries))


# -- events


def heard(number: int, phase: str, destination: str = "mqtt", message: str = "", at_s: float = 0.0) -> ReceivedMessage:
    return ReceivedMessage(at_s, destination, "object", number, phase, message or f"{destination}-{number}-{phase}")


def test_every_record_was_heard_everywhere() -> None:
    all_of_it = [heard(1, p, d) for p in ("new", "end") for d in ("mqtt", "webhook")] + [heard(2, "new")]
    kept = [RecordedEvent("object", 1, 45.0, 50.0)]
    both = ("mqtt", "webhook")
    assert breaks(inv.events_delivered(kept, all_of_it, both, [])) == []
    assert breaks(inv.events_delivered(kept, all_of_it[:-2], both, [])) == ["object 1: its end never came to webhook"]
    going_on = [RecordedEvent("object", 2, 50.0, None)]
    assert breaks(inv.events_delivered(going_on, all_of_it, both, [])) == ["object 2: its new never came to webhook"]
    assert inv.events_delivered(going_on, [], both, [50.5]).checks == 0, "of the last second before a kill"
    assert breaks(inv.events_delivered(going_on, [], both, [49.0, 52.0]))
    ended_by_the_restart = [RecordedEvent("object", 3, 50.0, 90.0)]
    only_ends = [heard(3, "end", d) for d in both]
    assert breaks(inv.events_delivered(ended_by_the_restart, only_ends, both, [50.5])) == []
    assert len(breaks(inv.events_delivered(ended_by_the_restart, [], both, [50.5]))) == 2, "its end must come"
    assert len(breaks(inv.events_delivered(ended_by_the_restart, [], both, [90.5]))) == 2, "its beginning must come"


def test_an_event_is_one_message_which_may_come_again() -> None:
    again = [heard(1, "new"), heard(1, "new"), heard(1, "update", message="a"), heard(1, "update", message="b")]
    assert breaks(inv.events_once(again)) == []
    assert inv.sent_again(again) == 1
    assert breaks(inv.events_once([*again, heard(1, "new", message="other")]))


def test_a_beginning_comes_before_its_end() -> None:
    assert breaks(inv.events_in_order([heard(1, "new"), heard(1, "end"), heard(1, "new")])) == [], "sent again"
    assert breaks(inv.events_in_order([heard(1, "end"), heard(1, "new")]))
    assert breaks(inv.events_in_order([heard(1, "end", "webhook"), heard(1, "new", "mqtt")])) == [], "two places"


# -- losses


@pytest.mark.parametrize(
    ("name", "sign"),
    [
        ("camera_gone", {"states": {"north": "reconnecting"}}),
        ("camera_password", {"states": {"north": "refused"}}),
        ("database_away", {"reasons": frozenset({"reason store"})}),
        ("broker_away", {"reasons": frozenset({"down mqtt"})}),
        ("kill_golden", {"counters": {'magpie_worker_losses_total{worker="golden"}': 1.0}}),
        ("camera_damaged", {"counters": {'magpie_camera_frames_dropped_total{camera="north",cause="damaged"}': 3.0}}),
    ],
)
def test_each_fault_is_visible(name: FaultName, sign: dict[str, Any]) -> None:
    done = fault(name, 10.0, 20.0, "north")
    assert breaks(inv.faults_visible([look(9.0), look(15.0, **sign), look(60.0)], [done])) == []
    assert breaks(inv.faults_visible([look(9.0), look(15.0), look(60.0)], [done])), "nothing was said"
    assert breaks(
        inv.faults_visible([look(9.0, **sign), look(25.0, **({} if "counters" not in sign else sign))], [done])
    )


def test_the_loss_of_another_worker_is_no_sign() -> None:
    other = {"counters": {'magpie_worker_losses_total{worker="camera"}': 1.0}}
    assert breaks(inv.faults_visible([look(9.0), look(15.0, **other)], [fault("kill_golden", 10.0)]))


def test_a_loss_is_not_looked_for_in_counters_that_were_read_before_it_or_in_another_life() -> None:
    killed = fault("kill_golden", 10.0)
    for unread in ({"counters_read_s": 9.0}, {"counters_read_s": 12.0}, {"life": 1}):
        looks = [look(9.0), look(15.0, **unread)]
        assert inv.faults_visible(looks, [killed]).checks == 0
        assert inv.not_looked_for(looks, [killed]) == {"kill_golden": 1}
    assert inv.not_looked_for([look(9.0), look(15.0)], [killed]) == {}
    assert breaks(inv.faults_visible([look(9.0), look(15.0)], [killed]))


def test_requests_add_up() -> None:
    total = RequestTotal(1.0, "lenet", 1000, 900, 50, 20, 10, 5, 15)
    rates = {"lenet": 2.6}
    assert breaks(inv.requests_add_up([total], rates)) == []
    assert breaks(inv.requests_add_up([replace(total, answered=892)], rates)) == []
    assert breaks(inv.requests_add_up([replace(total, answered=891)], rates)), "more than of two seconds, and two"
    assert breaks(inv.requests_add_up([replace(total, answered=896)], {})) == [
        "lenet: 19 of 1000 requests have no end, 15 are inside"
    ]


def test_nothing_is_given_up_and_counters_grow() -> None:
    name = 'magpie_output_lost_total{destination="mqtt",cause="age"}'
    good = [look(1.0, counters={name: 0.0}), look(2.0, counters={name: 0.0})]
    assert breaks(inv.nothing_given_up(good)) == []
    assert (
        len(breaks(inv.nothing_given_up([*good, look(3.0, counters={name: 2.0}), look(4.0, counters={name: 2.0})])))
        == 1
    )
    sent = "magpie_output_sent_total"
    falls = [look(1.0, counters={sent: 5.0}), look(2.0, counters={sent: 4.0})]
    assert breaks(inv.counters_grow(falls))
    assert inv.counters_grow([falls[0], replace(falls[1], life=1)]).breaks == (), "it was started again"


def test_all_is_well_again_after_a_fault() -> None:
    done = fault("camera_gone", 10.0, 20.0, "north")
    bad = look(30.0, states={"north": "reconnecting"})
    after = [look(9.0), bad, look(70.0, reasons=frozenset({"complaint disk_full"}))]
    assert breaks(inv.well_again(after, [done], 500.0)) == []
    assert breaks(inv.well_again([look(9.0), bad, replace(bad, at_s=70.0)], [done], 500.0))
    assert breaks(inv.well_again([look(30.0, reasons=frozenset({"reason store"}))], [done], 500.0))
    assert inv.well_again([bad], [done], 60.0).checks == 0, "its time was not over"


def test_processes_of_a_killed_life_end() -> None:
    kill = fault("kill_control", 100.0, 130.0)
    until_s = 130.0 + KINDS["kill_control"].back_s
    orphan = EarlierProcess(0, "front", 7, 101.0, until_s)
    assert breaks(inv.earlier_ended([orphan], [kill], 900.0)) == []
    assert breaks(inv.earlier_ended([replace(orphan, seen_s=until_s + 1)], [kill], 900.0)) == [
        f"front (7) of start 0 still ran at {until_s + 1:.0f} s"
    ]
    assert inv.earlier_ended([orphan], [kill], until_s - 1).checks == 0, "its time was not over"


def test_the_disk_stays_within_its_limit_and_a_process_started_again_is_another() -> None:
    assert breaks(inv.disk_within([(1.0, 90.0)], 100.0)) == []
    assert breaks(inv.disk_within([(1.0, 90.0), (2.0, 101.0)], 100.0))
    samples = [ProcessSample(t, "golden", pid, 1.0, 2, 3) for t, pid in ((1.0, 5), (2.0, 5), (3.0, 6))]
    assert {key: len(found) for key, found in inv.series(samples).items()} == {("golden", 5): 2, ("golden", 6): 1}

"""Rules: worked examples of each kind, and what holds for any facts in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core import alarms as a
from edge.core.counts import Place
from edge.core.errors import InvalidValue
from edge.core.hours import inside
from edge.core.roll_backs import RollBackReason
from edge.core.tracks import TrackedObject
from scheduler.alarms import MAX_ACTIVE, AlarmState, Now, handle, key_of, restore


def tracked(number: int, name: str = "car", camera: str = "gate", **more: Any) -> TrackedObject:
    base = TrackedObject(number, camera, name, 0.8, (0.1, 0.1, 0.2, 0.2), 0.0, 0.0, 0.0, 3)
    return replace(base, **more)


WORSE = RollBackReason("under_parent", 0.4, 0.6, 100, 0.05)
ASKED = RollBackReason.asked("I say so")


class Rules:
    """Rules under a clock that the test moves; `at` tells a fact and gives back what came of it."""

    def __init__(self, *rules: a.Rule, minute: int = 720) -> None:
        self.rules: Sequence[a.Rule] = rules
        self.state, self.minute = AlarmState(), minute

    def at(self, at_s: float, fact: a.Fact) -> list[tuple[str, int, str]]:
        self.state, out = handle(self.rules, self.state, fact, Now(at_s, 1e9 + at_s, self.minute))
        self.last = out
        return [(x.phase, x.id, x.message) for x in out]


def test_a_car_that_stays_in_a_zone_is_one_alarm() -> None:
    w = Rules(a.Rule("park", "object", classes=("car",), zones=("drive",), dwell_s=5))

    def here(t: float, *zones: str, name: str = "car") -> list[tuple[str, int, str]]:
        return w.at(t, a.ObjectsNow("gate", (tracked(7, name, zones=zones, zone_s={"drive": t}),)))

    assert here(1) == [], "not in the zone"
    assert here(2, "drive") == [], "not for long enough"
    assert here(6, "drive") == [("new", 1, "car in drive for 6 s")]
    assert here(8, "drive") == []
    assert here(30, "drive") == [], "time passing is no news"
    assert here(31) == [("end", 1, "car left drive")]
    assert w.last[0].value == 30.0, "how long it was there"
    assert here(40, "drive") == [], "the same object is not reported again at once"
    assert here(62, "drive") == [("new", 2, "car in drive for 62 s")]
    assert w.at(63, a.ObjectsNow("gate", ())) == [("end", 2, "car is gone")]
    assert here(200, "drive", name="person") == []


def test_another_class_or_zone_is_an_update_and_not_too_often() -> None:
    w = Rules(a.Rule("any", "object"))
    assert w.at(0, a.ObjectsNow("gate", (tracked(1),))) == [("new", 1, "car")]
    assert w.at(4, a.ObjectsNow("gate", (tracked(1, "bus"),))) == []
    assert w.at(12, a.ObjectsNow("gate", (tracked(1, "bus", zones=("road",)),))) == [("update", 1, "bus in road")]
    assert w.at(30, a.ObjectsNow("gate", (tracked(1, "bus", zones=("road",)),))) == []
    both = [a.ObjectsNow("gate", (tracked(1, "bus", zones=zones),)) for zones in (("bay", "road"), ("road", "bay"))]
    assert w.at(42, both[0]) == [("update", 1, "bus in bay, road")]
    assert w.at(54, both[1]) == [], "the zone that it was seen in last is no news"


def test_accuracy_ends_with_a_margin() -> None:
    w = Rules(a.Rule("low", "accuracy", below=0.5, cameras=("gate",)))
    assert w.at(0, a.AccuracyMeasured("yard", 1, 0.1)) == [], "another camera"
    assert w.at(1, a.AccuracyMeasured("gate", 1, 0.45))[0][:2] == ("new", 1)
    assert w.at(200, a.AccuracyMeasured("gate", 2, 0.51)) == [], "neither below nor well above"
    assert w.at(400, a.AccuracyMeasured("gate", 3, 0.44))[0][:2] == ("update", 1)
    assert w.at(600, a.AccuracyMeasured("gate", 4, 0.53))[0][:2] == ("end", 1)


def test_a_camera_must_be_lost_for_a_while() -> None:
    w = Rules(a.Rule("lost", "camera_lost"))
    for t in range(0, 50, 10):
        assert w.at(t, a.CameraNow("gate", False, "unreachable")) == []
    assert w.at(55, a.CameraNow("gate", True)) == [], "it came back in time"
    for t in range(60, 120, 10):
        assert w.at(t, a.CameraNow("gate", False, "unreachable")) == []
    assert w.at(120, a.CameraNow("gate", False, "unreachable")) == [("new", 1, "no pictures: unreachable")]
    assert w.at(130, a.CameraNow("gate", False, "silent")) == []
    assert w.at(131, a.CameraGone("yard")) == []
    assert w.at(140, a.CameraNow("gate", True)) == [("end", 1, "pictures come again")]


def test_a_removed_camera_ends_what_it_had() -> None:
    w = Rules(a.Rule("any", "object"), a.Rule("lost", "camera_lost", after_s=10))
    w.at(0, a.ObjectsNow("gate", (tracked(1),)))
    w.at(0, a.CameraNow("gate", False))
    assert w.at(1, a.CameraGone("gate")) == [("end", 1, "the camera was removed")]
    assert w.at(60, a.TimePassed()) == [], "nothing is waited for any more"


def test_disk_and_slo() -> None:
    w = Rules(a.Rule("disk", "disk"), a.Rule("slo", "slo", below=0.9, after_s=5))
    assert w.at(0, a.DiskNow(40, 1000))[0][0] == "new"
    assert w.at(20, a.DiskNow(55, 1000)) == []
    assert w.at(30, a.DiskNow(61, 1000))[0][0] == "end"
    assert w.at(40, a.ServedNow({"plates": 0.5, "faces": 0.99})) == []
    out = w.at(46, a.ServedNow({"plates": 0.5, "faces": 0.99}))
    assert out == [("new", 2, "plates: 50.0 % of requests were answered within the objective")]
    assert w.at(50, a.ServedNow({"faces": 0.99})) == [("end", 2, "plates is not served any more")]


def test_the_alarm_of_a_served_model_says_whose_the_model_is() -> None:
    w = Rules(a.Rule("slo", "slo", after_s=0))
    w.at(0, a.ServedNow({"plates": 0.5, "faces": 0.4}, {"plates": a.ModelOwner("gate", ("north",))}))
    details = {alarm.subject: alarm.details for alarm in w.last}
    assert details == {
        "plates": {"model": "plates", "tenant": "gate", "cameras": ["north"]},
        "faces": {"model": "faces", "tenant": None, "cameras": []},
    }


def whose(w: Rules) -> list[tuple[str, Any, Any]]:
    return [(alarm.phase, alarm.details.get("tenant"), alarm.details.get("cameras")) for alarm in w.last]


def test_a_model_that_moves_while_its_alarm_is_open_takes_the_alarm_along() -> None:
    w = Rules(a.Rule("slo", "slo", below=0.9, after_s=0))
    gate = {"plates": a.ModelOwner("gate", ("north",))}
    w.at(0, a.ServedNow({"plates": 0.5}, gate))
    w.at(20, a.ServedNow({"plates": 0.5}, gate))
    assert w.last == (), "nothing is new"
    w.at(21, a.ServedNow({"plates": 0.5}, {"plates": a.ModelOwner("yard", ("north",))}))
    assert whose(w) == [("update", "yard", ["north"])]
    w.at(40, a.ServedNow({"plates": 0.905}, {"plates": a.ModelOwner("yard", ("south",))}))
    assert whose(w) == [("update", "yard", ["south"])], "within the margin, too"
    w.at(45, a.ServedNow({"plates": 0.5}))
    assert w.last == (), "not too often"
    w.at(60, a.ServedNow({"plates": 0.5}))
    assert whose(w) == [("update", None, [])], "the tenants were removed"
    w.at(80, a.ServedNow({"plates": 0.95}))
    assert whose(w) == [("end", None, [])]


def test_a_tenant_that_gets_a_camera_while_its_alarm_is_open_is_reported() -> None:
    w = Rules(a.Rule("goals", "tenant"))
    w.at(0, a.TenantGoalNow("gate", "Gate", 0.8, 0.95, 300.0, ("north",)))
    w.at(20, a.TenantGoalNow("gate", "Gate", 0.8, 0.95, 320.0, ("north", "south")))
    assert whose(w) == [("update", "gate", ["north", "south"])]


@pytest.mark.parametrize(
    ("kept", "now", "updates"),
    [
        ({"tenant": "gate", "cameras": []}, {"plates": a.ModelOwner("gate")}, []),
        ({"tenant": "gate", "cameras": []}, {"plates": a.ModelOwner("yard")}, [("update", "yard", [])]),
        ({"tenant": "gate", "cameras": ["north"]}, {}, [("update", None, [])]),
        ({}, {"plates": a.ModelOwner("yard", ("north",))}, [("update", "yard", ["north"])]),
        ({"tenant": ["?"], "cameras": 5}, {"plates": a.ModelOwner("yard")}, [("update", "yard", [])]),
        ({}, {}, []),
    ],
)
def test_an_alarm_that_is_open_over_a_restart_gets_the_owner_of_then(
    kept: dict[str, Any], now: dict[str, a.ModelOwner], updates: list[tuple[str, Any, Any]]
) -> None:
    """`kept` without an owner: of an earlier version; with an odd one: damaged."""
    w = Rules(a.Rule("slo", "slo", after_s=0))
    w.at(0, a.ServedNow({"plates": 0.5}))
    w.state = restore([replace(w.last[0], details={"model": "plates", **kept})], 8, Now(100, 1e9 + 100, 0))
    w.at(101, a.ServedNow({"plates": 0.5}, now))
    assert w.last == ()
    w.at(111, a.ServedNow({"plates": 0.5}, now))
    assert whose(w) == updates
    w.at(131, a.ServedNow({"plates": 0.5}, now))
    assert w.last == (), "it was reported once"


def test_a_stranger_at_the_fleet() -> None:
    w = Rules(a.Rule("strangers", "stranger"))
    assert w.at(0, a.StrangersNow(0)) == []
    (new,) = w.at(1, a.StrangersNow(2, "no certificate"))
    assert new == ("new", 1, "refused by the fleet's agent: no certificate")
    assert w.at(100, a.ServedNow({"model": 0.9})) == [], "served models say nothing of it"
    assert w.at(700, a.StrangersNow(0)) == [("end", 1, "no stranger came again")]


def test_a_tenant_that_misses_its_goal_with_its_full_share() -> None:
    w = Rules(a.Rule("goals", "tenant"), a.Rule("served", "slo"))

    def seen(t: float, performance: float, missed_s: float) -> list[tuple[str, int, str]]:
        return w.at(t, a.TenantGoalNow("gate", "Entrance", performance, 0.95, missed_s))

    assert seen(1, 0.8, 0.0) == [], "with less than its share, or not for long"
    words = "Entrance: 80.0 % where 95 % is its goal, with the share that is its by right"
    assert seen(300, 0.8, 300.0) == [("new", 1, words)]
    unreachable = a.TenantGoalNow("gate", "Entrance", 0.8, 0.95, 300.0, best=0.87)
    other = Rules(a.Rule("goals", "tenant"))
    assert other.at(300, unreachable) == [("new", 1, f"{words}; the whole box would bring 87 %")]
    assert w.at(301, a.ServedNow({"gate-model": 0.99})) == [], "served models say nothing of tenants"
    assert w.at(302, a.TenantsNow(frozenset({"gate"}))) == []
    assert [x[:2] for x in seen(400, 0.96, 0.0)] == [("end", 1)]
    assert [x[0] for x in seen(900, 0.7, 500.0)] == ["new"]
    assert w.at(901, a.TenantsNow(frozenset())) == [("end", 2, "gate is no tenant any more")]


def test_the_alarm_of_a_tenant_of_which_nothing_is_measured_any_more_ends_with_the_reason() -> None:
    w = Rules(a.Rule("goals", "tenant"), a.Rule("served", "slo"))
    for tenant in ("gate", "yard"):
        assert [x[0] for x in w.at(300, a.TenantGoalNow(tenant, tenant.title(), 0.8, 0.95, 300.0))] == ["new"]
    words = "Gate: nothing was measured for 5 min, so how it fares is not known"
    assert w.at(600, a.TenantQuiet("gate", "Gate", 300.0)) == [("end", 1, words)]
    assert w.at(610, a.TenantQuiet("gate", "Gate", 310.0)) == []
    assert [x[:2] for x in w.at(620, a.TenantGoalNow("yard", "Yard", 0.96, 0.95, 0.0))] == [("end", 2)]


def test_a_roll_back_ends_with_the_next_promotion_or_when_it_was_seen() -> None:
    w = Rules(a.Rule("back", "roll_back"))
    assert w.at(0, a.RolledBack("gate", "m1", WORSE)) == [("new", 1, f"back to m1: {WORSE.words}")]
    assert w.at(9, a.Promoted("yard", "m9")) == []
    assert w.at(10, a.Promoted("gate", "m3")) == [("end", 1, "m3 is in force")]
    w.at(20, a.RolledBack("gate", "m3", WORSE))
    assert w.at(21, a.Acknowledged(2, "ann")) == [("end", 2, "seen by ann")]
    assert w.last[0].acknowledged_by == "ann"


def test_a_roll_back_that_a_person_asked_for_is_no_alarm() -> None:
    w = Rules(a.Rule("back", "roll_back"))
    assert w.at(0, a.RolledBack("gate", "m1", ASKED)) == []
    assert w.state.waiting == {}


def test_what_began_in_quiet_hours_is_reported_when_they_are_over() -> None:
    w = Rules(a.Rule("back", "roll_back", quiet_hours=("22:00-06:00",)), minute=23 * 60)
    assert w.at(0, a.RolledBack("gate", "m1", WORSE)) == []
    assert w.at(100, a.TimePassed()) == []
    assert w.state.held_back == {"back": 1}, "counted once"
    w.minute = 6 * 60
    assert w.at(200, a.TimePassed())[0][:2] == ("new", 1)
    w.minute = 23 * 60
    assert w.at(300, a.Promoted("gate", "m2"))[0][:2] == ("end", 1), "an end is reported at any hour"


def test_the_least_time_between_new_alarms_of_a_rule_and_camera() -> None:
    w = Rules(a.Rule("any", "object", min_interval_s=60))
    assert len(w.at(0, a.ObjectsNow("gate", (tracked(1), tracked(2))))) == 1
    assert w.at(30, a.ObjectsNow("gate", (tracked(3),)))[0][0] == "end"
    assert len(w.at(31, a.ObjectsNow("yard", (tracked(9, camera="yard"),)))) == 1, "another camera is another matter"
    assert w.at(61, a.ObjectsNow("gate", (tracked(3),)))[0][0] == "new", "it is still there"


def test_rules_that_go_end_their_alarms() -> None:
    first, second = a.Rule("x", "object"), a.Rule("y", "object")
    w = Rules(first, second)
    w.at(0, a.ObjectsNow("gate", (tracked(1),)))
    w.rules = (replace(first, cameras=("yard",)), replace(second, enabled=False))
    out = w.at(1, a.RulesChanged(("x", "y")))
    assert sorted(out) == [("end", 1, "the rule was changed"), ("end", 2, "the rule was removed or switched off")]


def test_a_restart_goes_on_with_what_was_active() -> None:
    w = Rules(a.Rule("lost", "camera_lost", after_s=0))
    w.at(0, a.CameraNow("gate", False))
    alarm = w.last[0]
    w.state = restore([alarm], 8, Now(100, 1e9 + 100, 0))
    assert w.at(101, a.CameraNow("gate", False)) == [], "it is known already"
    assert w.at(102, a.CameraNow("gate", True))[0][:2] == ("end", 1)
    assert w.at(103, a.CameraNow("gate", False))[0][:2] == ("new", 8)


def test_the_state_stays_bounded() -> None:
    w = Rules(a.Rule("any", "object"), a.Rule("later", "object", dwell_s=5))
    crowd = tuple(tracked(n) for n in range(MAX_ACTIVE + 50))
    w.at(0, a.ObjectsNow("gate", crowd))
    assert len(w.state.active) == MAX_ACTIVE
    assert w.state.refused == 50
    w.at(1000, a.ObjectsNow("gate", ()))
    w.at(2000, a.TimePassed())
    assert w.state == AlarmState(next_id=MAX_ACTIVE + 1, refused=50)


CAMERAS = st.sampled_from(("gate", "yard"))
SOME = st.lists(st.integers(1, 4), unique=True, max_size=3)
SOME_CAMERAS = st.sampled_from(((), ("gate",)))
GATE = Place("line", "gate", "forward")


def _hour(objects: int | None) -> a.CountedHour:
    return a.CountedHour(0.0 if objects is None else 1.0, {} if not objects else {(GATE, "car"): objects})


FACTS = st.one_of(
    st.builds(
        lambda camera, ids, zone, age: a.ObjectsNow(
            camera,
            tuple(
                tracked(n, ("car", "bus")[n % 2], camera, zones=("drive",) * zone, zone_s={"drive": age}, age_s=age)
                for n in ids
            ),
        ),
        CAMERAS, SOME, st.integers(0, 1), st.floats(0, 20),
    ),
    st.builds(
        a.Moved, CAMERAS, st.integers(1, 3), st.sampled_from(("car", "bus")), st.just("drive"),
        st.sampled_from(("road", "drive")),
    ),
    st.builds(
        lambda camera, now, past: a.HourCounted(camera, 0, (GATE,), _hour(now), tuple(map(_hour, past))), CAMERAS,
        st.none() | st.integers(0, 200), st.lists(st.none() | st.integers(40, 60), max_size=8),
    ),
    st.builds(a.AccuracyMeasured, CAMERAS, st.integers(0, 9), st.floats(0, 1)),
    st.builds(a.CameraNow, CAMERAS, st.booleans()),
    st.builds(a.CameraGone, CAMERAS),
    st.builds(a.DiskNow, st.integers(0, 100), st.just(100)),
    st.builds(a.RolledBack, CAMERAS, st.just("m"), st.sampled_from([WORSE, ASKED])),
    st.builds(a.Promoted, CAMERAS, st.just("n")),
    st.builds(
        a.TenantGoalNow, st.sampled_from("tu"), st.just("T"), st.floats(0, 1), st.just(0.9), st.sampled_from((0.0, 9.0))
    ),
    st.builds(a.TenantQuiet, st.sampled_from("tu"), st.just("T"), st.just(300.0)),
    st.builds(a.TenantsNow, st.frozensets(st.sampled_from("tu"))),
    st.builds(
        a.ServedNow, st.dictionaries(st.sampled_from("pq"), st.floats(0, 1)),
        st.dictionaries(st.sampled_from("pq"), st.builds(a.ModelOwner, st.sampled_from("tu"), SOME_CAMERAS)),
    ),
    st.builds(a.Acknowledged, st.integers(1, 6), st.just("ann")),
    st.builds(a.TimePassed),
    st.builds(a.RulesChanged, st.just(("o",))),
)  # fmt: skip
QUIET = ("22:00-06:00", "12:00-13:00")
RULES = (
    a.Rule("o", "object", classes=("car",), zones=("drive",), dwell_s=3, quiet_hours=QUIET),
    a.Rule("p", "object", min_interval_s=40, quiet_hours=QUIET),
    a.Rule("a", "accuracy", below=0.5, quiet_hours=QUIET),
    a.Rule("c", "camera_lost", after_s=20, quiet_hours=QUIET, cameras=("gate",)),
    a.Rule("d", "disk", quiet_hours=QUIET),
    a.Rule("r", "roll_back", quiet_hours=QUIET),
    a.Rule("s", "slo", quiet_hours=QUIET),
    a.Rule("t", "tenant", quiet_hours=QUIET),
    a.Rule("m", "crowd", zones=("drive",), above=0, after_s=5, quiet_hours=QUIET),
    a.Rule("n", "movement", zones=("road",), quiet_hours=QUIET),
    a.Rule("u", "unusual", quiet_hours=QUIET),
    a.Rule("off", "object", enabled=False),
)


@given(st.lists(st.tuples(FACTS, st.floats(0.1, 60), st.integers(0, 1439)), max_size=40))
def test_lives_of_alarms_for_any_facts(steps: list[tuple[a.Fact, float, int]]) -> None:
    state, now_s = AlarmState(), 0.0
    open_now: dict[Any, a.Alarm] = {}
    numbers: list[int] = []
    last_new: dict[tuple[str, str | None], float] = {}
    for fact, passed, minute in steps:
        now_s += passed
        before, copy = state, replace(state, active=dict(state.active), waiting=dict(state.waiting))
        state, out = handle(RULES, state, fact, Now(now_s, now_s, minute))
        assert before == copy, "the state that went in is left as it was"
        for alarm in out:
            key = key_of(alarm)
            assert alarm.rule != "off"
            if alarm.phase == "new":
                assert key not in open_now, "never two new ones without an end between"
                assert not inside(QUIET, minute), "nothing new in quiet hours"
                assert alarm.ended_utc_s is None
                rule = next(r for r in RULES if r.id == alarm.rule)
                since = now_s - last_new.get((alarm.rule, alarm.camera), -1e9)
                assert since >= rule.min_interval_s
                last_new[alarm.rule, alarm.camera] = now_s
                numbers.append(alarm.id)
                open_now[key] = alarm
            else:
                assert open_now[key].id == alarm.id, "updates and ends follow news"
                assert alarm.began_utc_s == open_now[key].began_utc_s
                if alarm.phase == "end":
                    assert alarm.ended_utc_s is not None
                    assert alarm.ended_utc_s >= alarm.began_utc_s
                    del open_now[key]
        assert {k: v.alarm.id for k, v in state.active.items()} == {k: x.id for k, x in open_now.items()}
        assert not state.active.keys() & state.waiting.keys()
    assert numbers == sorted(set(numbers)), "numbers only grow"


@pytest.mark.parametrize("fact", [a.Fact()])
def test_an_unknown_fact_is_an_error(fact: a.Fact) -> None:
    with pytest.raises(TypeError, match="no rule looks at Fact"):
        handle((), AlarmState(), fact, Now(0, 0, 0))


def test_a_crowd_must_stay_and_one_more_or_less_is_no_news() -> None:
    w = Rules(a.Rule("many", "crowd", zones=("yard",), above=2, after_s=60))

    def here(t: float, number: int) -> list[tuple[str, int, str]]:
        return w.at(t, a.ObjectsNow("gate", tuple(tracked(n, zones=("yard",)) for n in range(number))))

    assert here(0, 3) == []
    assert here(50, 2) == [], "not more than two: it begins anew"
    assert here(60, 3) == here(119, 3) == []
    assert here(120, 4) == [("new", 1, "4 objects in yard; more than 2 are too many")]
    assert w.last[0].subject == "yard"
    assert here(130, 2) == [], "one fewer than it takes"
    assert here(140, 3) == []
    assert here(150, 1) == [("end", 1, "1 objects in yard; more than 2 are too many")]
    here(160, 3)
    w.at(221, a.TimePassed())
    w.rules = (a.Rule("many", "crowd", zones=("door",), above=2),)
    w.at(230, a.RulesChanged(("many",)))
    assert here(240, 3) == [("end", 2, "the rule looks there no more")]


def test_a_movement_is_a_moment() -> None:
    w = Rules(a.Rule("wrong", "movement", classes=("car",), from_zones=("east",), zones=("west",)))
    moved = a.Moved("gate", 7, "car", "east", "west")
    for other in (replace(moved, class_name="bus"), replace(moved, from_zone="north"), replace(moved, to_zone="east")):
        assert w.at(0, other) == []
    assert w.at(1, moved) == [("new", 1, "car from east to west")]
    assert w.at(2, a.ObjectsNow("gate", ())) == [], "it is gone, that is why it is known"
    assert w.at(3, a.TimePassed()) == []
    assert w.at(12, a.TimePassed()) == [("end", 1, "car from east to west")]
    quiet = Rules(a.Rule("wrong", "movement", zones=("west",), quiet_hours=("12:00-13:00",)))
    assert quiet.at(0, moved) == []
    quiet.minute = 900
    assert quiet.at(20, a.TimePassed()) == [], "one that was held back is over"
    assert quiet.state.held_back == {"wrong": 1}


def test_an_unusual_hour_ends_with_a_usual_one_and_not_with_one_that_is_unknown() -> None:
    gate = GATE
    w = Rules(a.Rule("odd", "unusual", classes=("car",), lines=("gate",), factor=4))

    def hour(at: float, objects: int, watched: float = 1.0, weeks: int = 6) -> list[tuple[str, int, str]]:
        past = tuple(a.CountedHour(1.0, {(gate, "car"): 100 + n % 3, (gate, "bus"): 5}) for n in range(weeks))
        now = a.CountedHour(watched, {(gate, "car"): objects})
        return w.at(at, a.HourCounted("gate", int(at), (gate, Place("line", "door", "forward")), now, past))

    assert hour(0, 12, weeks=3) == [], "too few weeks"
    assert hour(3600, 90) == hour(7200, 12, watched=0.5) == []
    assert hour(10_800, 12) == [("new", 1, "gate, forward: 12 in an hour, usually 101 (61 to 141)")]
    assert dict(w.last[0].details)["weeks"] == 6
    assert hour(14_400, 0, watched=0.0) == [], "unknown is no zero, and no news"
    assert hour(18_000, 150)[0][0] == "update"
    assert hour(21_600, 104)[0][0] == "end"
    with pytest.raises(InvalidValue, match="above"):
        a.Rule("x", "crowd")
    with pytest.raises(InvalidValue, match="zones"):
        a.Rule("x", "movement")
    with pytest.raises(InvalidValue, match="factor"):
        a.Rule("x", "unusual", factor=0.5)

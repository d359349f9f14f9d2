"""Alarms of one event on two boxes: paired within an overlap, and never otherwise."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.fleet.doubled import GAP_S, SLACK_S, RaisedAlarm, ReportedOverlap, doubled

OVERLAP = ReportedOverlap("b1", "gate", 100.0, 160.0)


def alarm(box: str, number: int, utc_s: float, camera: str = "gate", rule: str = "parked") -> RaisedAlarm:
    return RaisedAlarm(box, number, camera, rule, utc_s)


def test_two_owners_alarms_of_one_event_are_a_pair_and_the_closest_ones_come_first() -> None:
    ours, theirs = [alarm("b1", 1, 110.0), alarm("b1", 2, 150.0)], [alarm("b2", 7, 111.0), alarm("b2", 8, 149.5)]
    assert set(doubled([*ours, *theirs], [OVERLAP])) == {(ours[0], theirs[0]), (ours[1], theirs[1])}
    near, far = alarm("b2", 9, 110.5), alarm("b2", 10, 118.0)
    assert doubled([ours[0], far, near], [OVERLAP]) == ((ours[0], near),)


def test_alarms_that_may_be_of_two_events_stay_two() -> None:
    one = alarm("b1", 1, 120.0)
    for other in (
        alarm("b2", 2, 120.0, camera="yard"),
        alarm("b2", 2, 120.0, rule="lost"),
        alarm("b1", 2, 120.0),
        alarm("b2", 2, 120.0 + GAP_S + 0.1),
    ):
        assert doubled([one, other], [OVERLAP]) == ()
    late = 160.0 + SLACK_S + 0.1
    assert doubled([alarm("b1", 1, late), alarm("b2", 2, late)], [OVERLAP]) == (), "after the overlap"
    assert doubled([alarm("b3", 1, 120.0), alarm("b2", 2, 120.0)], [OVERLAP]) == (), "neither box reported it"
    assert doubled([one, alarm("b2", 2, 120.0)], []) == (), "the fleet was whole"


ALARMS = st.lists(
    st.builds(
        RaisedAlarm,
        st.sampled_from(["b1", "b2", "b3"]),
        st.integers(1, 40),
        st.sampled_from(["gate", "yard"]),
        st.sampled_from(["parked", "lost"]),
        st.floats(80.0, 180.0),
    ),
    max_size=14,
    unique_by=lambda a: (a.box, a.number),
)
OVERLAPS = st.lists(
    st.builds(
        ReportedOverlap,
        st.sampled_from(["b1", "b2", "b3"]),
        st.sampled_from(["gate", "yard"]),
        st.floats(80.0, 120.0),
        st.floats(120.0, 180.0),
    ),
    max_size=3,
)


@given(ALARMS, OVERLAPS, st.randoms())
def test_no_alarm_is_in_two_pairs_each_pair_is_within_an_overlap_and_the_order_does_not_matter(
    alarms: list[RaisedAlarm], overlaps: list[ReportedOverlap], shuffled: st.DataObject
) -> None:
    pairs = doubled(alarms, overlaps)
    paired = [a for pair in pairs for a in pair]
    assert len(paired) == len(set(paired))
    for one, other in pairs:
        assert (one.camera, one.rule) == (other.camera, other.rule)
        assert one.box != other.box
        assert abs(one.utc_s - other.utc_s) <= GAP_S
        assert any(o.camera == one.camera and o.box in (one.box, other.box) for o in overlaps)
    mixed = list(alarms)
    shuffled.shuffle(mixed)  # type: ignore[attr-defined]
    assert doubled(mixed, overlaps) == pairs

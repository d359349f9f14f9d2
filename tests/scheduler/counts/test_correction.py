"""Counts corrected by labels: intervals hold on worlds that are drawn, and are never narrower than they deserve."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.counts import Corrected, CountCheck, Place
from scheduler.counts.checks import LEAST_OBJECTS, REACH_S, CheckIndex, ClusterSums, SumsAround
from scheduler.counts.correction import corrected as corrected_by

GATE = Place("line", "gate")


def check(minute: int, followed: int, there: int, same: int, name: str = "car") -> CountCheck:
    return CountCheck("north", 60 * minute, GATE, name, 6, followed, there, same)


def sums(checks: Sequence[CountCheck]) -> ClusterSums:
    """Of all checks, whatever their class and time."""
    return CheckIndex([replace(c, class_name="car") for c in checks]).around(GATE, "car", 0.0, 1e9, 0)[1]


def corrected(
    objects: int,
    own: Sequence[CountCheck],
    every: Sequence[CountCheck],
    at_place: int | None = None,
    crossings: bool = True,
) -> Corrected | None:
    return corrected_by(objects, objects if at_place is None else at_place, sums(own), sums(every), crossings)


def test_without_labels_nothing_is_known() -> None:
    assert corrected(40, (), ()) is None
    few = (check(0, LEAST_OBJECTS, LEAST_OBJECTS - 1, 3),)
    assert corrected(40, few, few) is None


def test_a_student_that_misses_a_fifth_is_corrected_by_a_quarter() -> None:
    rows = [check(n, 40, 50, 40) for n in range(20)]
    found = corrected(80, rows, rows)
    assert found is not None
    assert found.value == pytest.approx(100.0, rel=0.01)
    assert found.low < 100.0 < found.high


def test_false_objects_lower_a_count() -> None:
    rows = [check(n, 50, 40, 40) for n in range(20)]
    found = corrected(100, rows, rows)
    assert found is not None
    assert found.value == pytest.approx(80.0, rel=0.01)


def test_one_class_that_is_taken_for_another_is_given_back() -> None:
    """Ten trucks of eighty are counted as cars."""
    trucks = [check(n, 5, 10, 5, "truck") for n in range(20)]
    every = [check(n, 40, 40, 35) for n in range(20)]
    found = corrected(10, trucks, every, at_place=80)
    assert found is not None
    assert found.value == pytest.approx(20.0)


def test_a_class_without_labels_of_its_own_is_left_as_it_was_counted() -> None:
    found = corrected(80, (), [check(n, 40, 50, 40) for n in range(20)])
    assert found is not None
    assert found.value == 80.0


def test_nothing_counted_may_still_have_been_something() -> None:
    rows = [check(n, 20, 40, 20) for n in range(20)]
    found = corrected(0, rows, rows)
    assert found is not None
    assert found.value == 0.0
    assert found.high > corrected(0, (), [check(n, 20, 20, 20) for n in range(20)]).high  # type: ignore[union-attr]


def test_a_difference_that_may_be_chance_is_taken_in_part() -> None:
    """In half of the minutes labels show one more, in half one less; in the last minute, too."""
    rows = [check(n, 10, 11 if n % 2 else 9, 9) for n in range(21)]
    found = corrected(400, rows, rows)
    assert found is not None
    assert abs(found.value - 400.0) < 0.2, "all of it would be almost two"


def test_labels_of_all_of_the_time_leave_nothing_to_chance() -> None:
    rows = [check(n, 10, 11 if n % 2 else 9, 9) for n in range(21)]
    found = corrected(210, rows, rows)
    assert found is not None
    assert found.value == 209.0


@pytest.mark.parametrize("minutes", [10, 20])
def test_as_many_followed_as_counted_leaves_chance_where_labels_are_of_another_time(minutes: int) -> None:
    """Thirty are counted in ten minutes without a label; around them labels show noise, of 30 or 60 followed."""
    rows = [check(n, 3, (3, 0, 5, 2)[n % 4], 0) for n in range(minutes)]
    around = CheckIndex(rows).around(GATE, "car", 60.0 * 25, 60.0 * 35, 30)
    assert (around.every.followed, around.crossings) == (3 * minutes, False)
    noise = (around.own.there - around.own.followed) * 30 / around.every.followed
    found = corrected_by(30, 30, *around)
    assert found is not None
    assert abs(found.value - 30) < 0.8 * abs(noise)


def test_labels_of_objects_in_a_zone_say_nothing_about_the_part_of_the_time() -> None:
    yard = Place("zone", "yard")
    rows = [replace(check(n, 10, 11 if n % 2 else 9, 9), place=yard) for n in range(21)]
    around = CheckIndex(rows).around(yard, "car", 0.0, 60.0 * 21, 210)
    assert not around.crossings
    found = corrected_by(210, 210, *around)
    assert found is not None
    assert abs(found.value - 210.0) < 0.2


@given(st.integers(1, 500), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=2, max_size=20))
def test_a_corrected_count_lies_between_the_count_and_all_of_the_difference(
    objects: int, found: list[tuple[int, int]]
) -> None:
    rows = [check(n, a, b, min(a, b)) for n, (a, b) in enumerate(found)]
    one = corrected(objects, rows, rows)
    if one is None:
        return
    followed, there = (sum(row[k] for row in found) for k in (0, 1))
    all_of_it = max(0.0, objects + (there - followed) * objects / followed)
    assert min(objects, all_of_it) - 1e-6 <= one.value <= max(objects, all_of_it) + 1e-6


@given(st.integers(0, 500), st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=2, max_size=20))
def test_an_interval_holds_its_value_and_more_of_the_same_labels_make_it_no_wider(
    objects: int, found: list[tuple[int, int]]
) -> None:
    once = [check(n, a, b, min(a, b)) for n, (a, b) in enumerate(found)]
    often = [check(n, a, b, min(a, b)) for n, (a, b) in enumerate(found * 4)]
    few, many = corrected(objects, once, once), corrected(objects, often, often)
    if few is None or many is None:
        return
    for one in (few, many):
        assert 0.0 <= one.low <= one.value <= one.high
    # A larger part of the difference is sure, and a larger count is off by more.
    more = max(0.0, many.value - few.value)
    assert many.high - many.low <= few.high - few.low + 2 * more + 1e-6


def played(rng: random.Random, found: float, false: float, minutes: int) -> tuple[int, int, list[CountCheck]]:
    """A period in which objects pass at random: how many did, how many were counted, and the checks of its frames. A
    minute's frames see objects that are followed, or not, for all of the time that they are near."""
    passed = counted = 0
    checks = []
    for minute in range(minutes):
        there = followed = same = 0
        for _ in range(sum(rng.random() < 0.3 for _ in range(20))):
            seen = rng.random() < found
            frames = sum(rng.random() < 0.5 for _ in range(3))
            passed, counted = passed + 1, counted + seen
            there, followed, same = there + frames, followed + frames * seen, same + frames * seen
        for _ in range(sum(rng.random() < false for _ in range(6))):
            frames = sum(rng.random() < 0.5 for _ in range(3))
            counted, followed = counted + 1, followed + frames
        checks.append(check(minute, followed, there, same))
    return passed, counted, checks


@pytest.mark.parametrize(("found", "false"), [(0.95, 0.0), (0.8, 0.05), (0.65, 0.2)])
def test_at_least_nine_of_ten_intervals_hold_the_truth(found: float, false: float) -> None:
    """Minutes of half an hour are checked; the count is of five minutes in it."""
    rng = random.Random(11)
    held = raw_error = error = 0.0
    rounds = 300
    for _ in range(rounds):
        _, _, checks = played(rng, found, false, 30)
        passed, counted, own = played(rng, found, false, 5)
        true = corrected(counted, [*checks, *own], [*checks, *own])
        assert true is not None
        held += true.low <= passed <= true.high
        error += abs(true.value - passed)
        raw_error += abs(counted - passed)
    assert held / rounds >= 0.85
    assert error < raw_error or found > 0.9


def test_checks_are_taken_of_as_short_a_time_as_has_enough() -> None:
    """The nearest half hour has many labels; what was hours ago is left out."""
    now = 100_000
    near = [CountCheck("north", now - 60 * n, GATE, "car", 6, 10, 20, 10) for n in range(1, 20)]
    far = [
        CountCheck("north", now - 7000, GATE, "car", 6, 99, 9, 9),
        CountCheck("north", now - 300, GATE, "bus", 1, 1, 1, 0),
    ]
    own, every, crossings = CheckIndex([*near, *far]).around(GATE, "car", now, now + 60, 20)
    assert not crossings, "of a longer time"
    assert (own.clusters, own.followed, own.there) == (19, 190, 380)
    assert every.there == 381
    few = CheckIndex(far).around(GATE, "car", now, now + 60, 20)
    assert few[0].followed == 99, "of hours around, where there are few"
    assert CheckIndex(near).around(GATE, "car", now + REACH_S[-1] + 1e6, now + 2e6, 20) == SumsAround()
    assert CheckIndex(near).around(Place("line", "door"), "car", now, now, 20) == SumsAround()


#: Four pass in half an hour, of which one is missed; nothing else passes for hours.
QUIET = (check(0, 2, 3, 2), check(20, 1, 1, 1))


def test_labels_whose_frames_cover_all_that_was_counted_are_enough() -> None:
    around = CheckIndex(QUIET).around(GATE, "car", 0.0, 1800.0, 3)
    assert around.crossings
    found = corrected_by(3, 3, *around)
    assert found is not None
    assert found.value == 4.0, "labelled frames cover all that was counted: nothing is left to chance"
    assert found.low < 3.0
    assert found.high > 5.0


def test_one_counted_object_in_no_labelled_frames_time_leaves_few_labels_unknown() -> None:
    around = CheckIndex(QUIET).around(GATE, "car", 0.0, 1800.0, 4)
    assert not around.crossings
    assert corrected_by(4, 4, *around) is None


def test_few_labels_around_a_time_without_a_counted_object_say_nothing() -> None:
    """Whether any frame of that time was labelled is not known."""
    for first_s in (0.0, 3600.0):
        assert corrected_by(0, 0, *CheckIndex(QUIET).around(GATE, "car", first_s, first_s + 1800.0, 0)) is None
    assert corrected_by(1, 1, *CheckIndex(QUIET).around(GATE, "car", 3600.0, 5400.0, 1)) is None, (
        "labels of another time"
    )


def test_enough_labels_around_are_taken_before_few_whose_frames_cover_all_that_was_counted() -> None:
    """Labels of a part of the time may show a single crossing by chance, and not those that were missed beside it."""
    around = CheckIndex([*QUIET, check(60, LEAST_OBJECTS, 2 * LEAST_OBJECTS, 9)]).around(GATE, "car", 0.0, 1800.0, 3)
    assert not around.crossings
    assert around.every.followed == LEAST_OBJECTS + 3


def test_labels_in_a_zone_are_not_enough_however_few_were_counted() -> None:
    yard = Place("zone", "yard")
    around = CheckIndex([replace(c, place=yard) for c in QUIET]).around(yard, "car", 0.0, 1800.0, 3)
    assert corrected_by(3, 3, *around) is None


def test_where_labels_show_that_all_were_false_none_is_left() -> None:
    around = CheckIndex([check(0, 2, 0, 0)]).around(GATE, "car", 0.0, 60.0, 2)
    found, other = corrected_by(2, 2, *around), corrected_by(0, 2, ClusterSums(), around.every, True)
    assert found is not None
    assert other is not None
    assert (found.value, other.value) == (0.0, 0.0)
    assert min(found.high, other.high) > 1.0

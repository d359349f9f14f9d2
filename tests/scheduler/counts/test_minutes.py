"""Minutes that are sent: each once, none before it is settled, and the content of one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edge.core.counts import Count, CountCheck, Place, WatchedTime, places_of
from scheduler.counts.checks import CheckIndex
from scheduler.counts.minutes import LATEST_S, MINUTE_S, SETTLED_S, TotalChecks, counted_minute, due_minutes

GATE, BACK = Place("line", "gate", "forward"), Place("line", "gate", "backward")
START = 1_790_000_040


@given(st.lists(st.floats(-200.0, 400.0), min_size=1, max_size=40))
def test_each_minute_is_reported_once_in_order_and_none_before_it_is_settled(steps: list[float]) -> None:
    sent: list[int] = []
    until, now = None, 1_790_000_000.0
    for step in steps:
        now += step
        due = due_minutes(until, now)
        assert all(start + MINUTE_S + SETTLED_S <= now for start in due)
        sent += due
        until = due[-1] + MINUTE_S if due else until
    assert sent == sorted(set(sent))
    assert all(start % MINUTE_S == 0 for start in sent)
    if sent and max(steps) <= LATEST_S:
        assert sent == list(range(sent[0], sent[-1] + 1, MINUTE_S)), "none is left out"


def test_after_a_long_time_only_the_last_hour_is_reported() -> None:
    assert len(due_minutes(START - 86_400, START + 15.0)) == 60
    assert list(due_minutes(None, START + 15.0)) == [START - 60]
    # A clock that was ahead by a day and is right again.
    assert list(due_minutes(START + 86_400, START + 15.0)) == [START - 60]
    assert list(due_minutes(START + 60, START + 15.0)) == []


def test_a_minute_has_every_place_and_all_classes_of_it() -> None:
    counts = [Count("north", START, GATE, "car", 3), Count("north", START, GATE, "truck", 1)]
    checks = [
        CountCheck("north", START - 60 * n, place, name, 4, 10, 12, 9)
        for n in range(9)
        for name in ("car", "truck")
        for place in (GATE, BACK)
    ]
    made = counted_minute(WatchedTime("north", START, 54.0, 270), (GATE, BACK), counts, CheckIndex(checks))
    assert (made.watched, made.answers_per_s) == (0.9, 5.0)
    forward, backward = made.places
    assert (forward.place, forward.objects, backward.objects) == (GATE, 4, 0)
    assert forward.corrected is not None
    assert abs(forward.corrected.value - 4.8) < 1e-9
    assert forward.corrected.low < 4.8 < forward.corrected.high
    assert backward.corrected is not None
    assert backward.corrected.value == 0.0 < backward.corrected.high
    document = made.to_json()
    assert [(row["class"], row["objects"]) for row in document["counts"]] == [("car", 3), ("truck", 1)]
    assert document["counts"][0]["corrected"]["value"] > 3


def test_a_quiet_minute_whose_crossings_labels_show_is_corrected() -> None:
    counts = [Count("north", START, GATE, "car", 2), Count("north", START, GATE, "truck", 1)]
    checks = [CountCheck("north", START, GATE, name, 2, n, n, n) for name, n in (("car", 2), ("truck", 1))]
    made = counted_minute(WatchedTime("north", START, 60.0, 300), (GATE, BACK), counts, CheckIndex(checks))
    assert [c.value for _, c in made.counts if c is not None] == [2.0, 1.0]
    forward, backward = made.places
    assert forward.corrected is not None
    assert forward.corrected.value == 3.0
    assert backward.corrected is None
    one_more = [*counts, Count("north", START, GATE, "bus", 1)]
    made = counted_minute(WatchedTime("north", START, 60.0, 300), (GATE,), one_more, CheckIndex(checks))
    assert [c for _, c in made.counts] == [None, None, None], "of four crossings labels show three"
    assert made.places[0].corrected is None


def test_places_of_a_camera() -> None:
    assert places_of(["gate"], ["yard"]) == (GATE, BACK, Place("zone", "yard"))


_checks = st.builds(
    CountCheck, st.just("north"), st.integers(-40, 60).map(lambda n: START + 900 * n), st.just(GATE),
    st.sampled_from(("car", "truck")), st.just(2), st.integers(0, 30), st.integers(0, 30), st.just(0),
)  # fmt: skip


@given(st.lists(_checks, max_size=60), st.integers(1, 12), st.integers(0, 9))
def test_sums_that_were_made_elsewhere_are_those_of_the_checks(
    found: list[CountCheck], hours: int, counted: int
) -> None:
    index, end = CheckIndex(found), START + 3600 * hours

    def totals(from_s: float, to_s: float) -> dict[tuple[Place, str], tuple[int, ...]]:
        out: dict[tuple[Place, str], tuple[int, ...]] = {}
        inside = [c for c in found if from_s <= c.start_s < to_s]
        for name in ("car", "truck", ""):
            rows = [c for c in inside if name in ("", c.class_name)]
            starts = {c.start_s: [r for r in rows if r.start_s == c.start_s] for c in rows}
            sums = [
                tuple(sum(getattr(r, f) for r in at) for f in ("followed", "there", "same")) for at in starts.values()
            ]
            if sums:
                squares = [(f * f, t * t, f * t) for f, t, _ in sums]
                plain = (sum(column) for column in zip(*sums, strict=True))
                out[GATE, name] = (len(sums), *plain, *(sum(c) for c in zip(*squares, strict=True)))
        return out

    whole = TotalChecks(totals)
    for name in ("car", "truck", "bus"):
        assert whole.around(GATE, name, START, end, counted) == index.around(GATE, name, START, end, counted)

"""The search of objects in the database, its pages, and the records of a camera's day."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from edge.core.alarms import Alarm
from edge.core.application_sources import AttributeValue
from edge.core.counts import Place
from edge.core.finding import BoxStart, DaySpan, FoundAfter, ObjectsCame, ObjectSearch, PlacePassed
from edge.core.tracks import TrackedObject
from edge.store import finding, tables
from edge.store.clips import ClipRecord
from edge.store.finding import LOOKED_AT
from edge.store.retention import RetentionLimits
from edge.store.store import Store

GATE, BACK, DRIVE = Place("line", "gate", "forward"), Place("line", "gate", "backward"), Place("zone", "drive")


def tracked(
    number: int, began: float, camera: str = "north", stay: float | None = 5.0, kind: str = "car"
) -> TrackedObject:
    ended = None if stay is None else began + stay
    return TrackedObject(number, camera, kind, 0.8, (0.1, 0.2, 0.3, 0.4), began, began, 0.0, 3, ended_utc_s=ended)


def found(
    store: Store, limit: int = 50, cameras: Any = None, now: float = 1000.0, looked_at: int = LOOKED_AT, **wanted: Any
) -> list[int]:
    """The ids of all pages."""
    ids: list[int] = []
    after: FoundAfter | None = None
    while True:
        page = store.finding.find_objects(ObjectSearch(**wanted), limit, after, cameras, now, looked_at)
        ids += [o.id for o in page.objects]
        after = page.after
        if after is None:
            return ids


@pytest.fixture
def filled(store: Store) -> Store:
    red = {"colour": AttributeValue("red", 0.9, 2)}
    store.alarms.put_objects(
        [
            tracked(1, 100.0),
            replace(tracked(2, 200.0, stay=60.0, kind="bus"), attributes=red),
            tracked(3, 200.0, "south"),
            tracked(4, 150.0, stay=None),
            tracked(5, 300.0, "south", stay=30.0, kind="bus"),
        ]
    )
    store.finding.put_object_places(
        [
            PlacePassed(1, GATE, 101.0), PlacePassed(1, BACK, 103.0), PlacePassed(2, GATE, 204.0),
            PlacePassed(3, GATE, 202.0), PlacePassed(3, DRIVE, 203.0), PlacePassed(4, DRIVE, 151.0),
            PlacePassed(99, GATE, 5.0),
        ]
    )  # fmt: skip
    return store


def test_objects_are_found_by_what_is_asked_the_newest_first(filled: Store) -> None:
    for limit in (1, 2, 50):
        assert found(filled, limit) == [5, 3, 2, 4, 1]
        assert found(filled, limit, cameras=("north",)) == [2, 4, 1]
        assert found(filled, limit, cameras=("north", "south"), classes=("bus",)) == [5, 2]
        assert found(filled, limit, line="gate") == [3, 2, 1], "once, though it crossed in both directions"
        assert found(filled, limit, line="gate", way="backward") == [1]
        assert found(filled, limit, line="gate", zone="drive") == [3]
        assert found(filled, limit, zone="drive", cameras=("north",)) == [4]
        assert found(filled, limit, from_utc_s=150.0, to_utc_s=200.0) == [4]
        assert found(filled, limit, least_s=30.0) == [5, 2, 4], "one that is there has stayed until now"
        assert found(filled, limit, least_s=10.0, most_s=30.0) == [5]
        assert found(filled, limit, attribute=("colour", "red")) == [2]
        assert found(filled, limit, attribute=("colour", "blue")) == []
    passed = filled.finding.places_passed([1, 3, 4])
    assert {n: [(p.place.way, p.utc_s) for p in ps] for n, ps in passed.items()} == {
        1: [("forward", 101.0), ("backward", 103.0)], 3: [("forward", 202.0)],
    }  # fmt: skip


def test_a_user_of_some_cameras_finds_only_theirs(filled: Store) -> None:
    assert [o.id for o in filled.finding.find_objects(ObjectSearch(), 9, None, {"south"}, 0.0).objects] == [5, 3]
    assert filled.finding.find_objects(ObjectSearch(cameras=("north",)), 9, None, {"south"}, 0.0).objects == ()
    assert filled.finding.find_objects(ObjectSearch(line="gate"), 9, None, set(), 0.0).objects == ()


def test_a_page_looks_at_so_many_objects_and_goes_on_from_there(store: Store) -> None:
    store.alarms.put_objects([tracked(n, float(n), kind="bus" if n in (3, 14) else "car") for n in range(1, 41)])
    page = store.finding.find_objects(ObjectSearch(classes=("bus",)), 5, None, None, 0.0, 10)
    assert (page.objects, page.after) == ((), FoundAfter(31.0, 31))
    assert found(store, 5, looked_at=10, classes=("bus",)) == [14, 3]
    newer = store.finding.find_objects(ObjectSearch(), 5, None, None, 0.0, 10)
    store.alarms.put_objects([tracked(41, 41.0)])
    assert [o.id for o in store.finding.find_objects(ObjectSearch(), 5, newer.after, None, 0.0, 10).objects] == [
        35,
        34,
        33,
        32,
        31,
    ]


def test_places_go_with_their_object_and_one_that_cannot_be_read_is_left_out(filled: Store) -> None:
    with filled.database.write() as c:
        c.execute(sa.text("UPDATE objects SET box = '7' WHERE id = 3"))
    assert found(filled, 2, line="gate") == [2, 1]
    filled.alarms.retain_alarms(1, 100, 10**9, lambda *_: None)
    assert found(filled) == [5, 4], "the newest, and one that is there"
    with filled.database.read() as c:
        assert c.execute(sa.text("SELECT object FROM object_places")).scalars().all() == [4]


def test_a_day_has_what_was_recorded_in_it(filled: Store) -> None:
    day = DaySpan(150.0, 300.0)
    assert filled.finding.came("north", day, 50) == (ObjectsCame(0, "car", 1), ObjectsCame(1, "bus", 1))
    # Of a bucket that is not full no database makes the next one.
    assert filled.finding.came("north", DaySpan(120.0, 300.0), 100) == (
        ObjectsCame(0, "bus", 1),
        ObjectsCame(0, "car", 1),
    )

    def alarm(number: int, camera: str, began: float, ended: float | None) -> Alarm:
        return Alarm(number, "r", "R", "object", "warning", camera, "", "new", began, "a car", ended_utc_s=ended)

    filled.alarms.put_alarms(
        [
            alarm(1, "north", 100.0, 120.0), alarm(2, "north", 101.0, 160.0), alarm(3, "north", 102.0, None),
            alarm(4, "north", 299.0, None), alarm(5, "north", 300.0, None), alarm(6, "south", 200.0, None),
        ]
    )  # fmt: skip
    kept = filled.finding.alarms_of("north", day)
    assert ([a.id for a in kept.rows], kept.cut) == ([4, 3, 2], False)
    kept = filled.finding.alarms_of("north", day, 2)
    assert ([a.id for a in kept.rows], kept.cut) == ([4, 3], True)
    clip = ClipRecord(0, "north", "making", "ann", 200.0, 195.0, 210.0)
    first, second = (
        filled.clips.add_clip(clip),
        filled.clips.add_clip(replace(clip, at_utc_s=400.0, from_utc_s=395.0, to_utc_s=410.0)),
    )
    filled.clips.put_clip(replace(clip, id=first, state="kept", outcome={"begins_utc_s": 193.0, "seconds": 15.0}))
    assert [c.id for c in filled.finding.clips_of("north", day).rows] == [first]
    spans = filled.finding.clip_spans("north", 250.0)
    assert [(s.number, s.from_utc_s, s.to_utc_s, s.making, s.asked) for s in spans] == [
        (first, 193.0, 208.0, False, (195.0, 210.0)), (second, 395.0, 410.0, True, (395.0, 410.0)),
    ]  # fmt: skip
    for at, kind in (
        (50.0, "appliance.started"),
        (170.0, "plan"),
        (180.0, "appliance.started"),
        (400.0, "appliance.started"),
    ):
        filled.journal.append(kind, at_utc_s=at)
    filled.journal.append("appliance.started", at_utc_s=500.0)
    starts = (BoxStart(50.0, None), BoxStart(180.0, 170.0), BoxStart(400.0, 180.0))
    assert filled.finding.box_starts(day) == finding.OfDay(starts, False)
    assert filled.finding.has_traces("south")
    assert not filled.finding.has_traces("west")


def test_a_retraining_that_goes_on_over_midnight_is_of_both_days(store: Store) -> None:
    window = store.windows.open_window(1.0, 60.0, "relay")
    day = DaySpan(200_000.0, 286_400.0)
    for name, started, ended in (
        ("over", 199_000.0, 199_500.0), ("went-on", 199_900.0, 200_100.0), ("running", 199_950.0, None),
        ("inside", 250_000.0, 250_100.0), ("later", 286_400.0, None),
    ):  # fmt: skip
        store.windows.start_job(name, window, "north", "head-e5", 0.5)
        with store.database.write() as c:
            c.execute(
                sa.text("UPDATE jobs SET started_utc_s = :started, ended_utc_s = :ended WHERE id = :name"),
                {"name": name, "started": started, "ended": ended},
            )
    kept = store.finding.retrainings_of("north", day)
    assert ([j.id for j in kept.rows], kept.cut) == (["inside", "running", "went-on"], False)


def test_who_sees_some_cameras_gets_no_cursor_of_another(filled: Store) -> None:
    own = {100.0, 150.0, 200.0}  # when objects of north came
    filled.finding.put_object_places([PlacePassed(5, GATE, 301.0), PlacePassed(4, GATE, 152.0)])
    for wanted in (
        ObjectSearch(line="gate", classes=("bus",)), ObjectSearch(classes=("bus",)), ObjectSearch(zone="drive"),
    ):  # fmt: skip
        for cameras in ({"north"}, {"north", "west"}):
            after: FoundAfter | None = None
            while (after := filled.finding.find_objects(wanted, 1, after, cameras, 0.0, 2).after) is not None:
                assert after.began_utc_s in own
                assert after.id in (1, 2, 4)
    unseen = filled.finding.find_objects(ObjectSearch(), 1, None, set(), 0.0, 2)
    assert (unseen.objects, unseen.after) == ((), None)


def test_at_a_pages_border_no_object_is_left_out(filled: Store) -> None:
    for way, ids in (("forward", [3, 2, 1]), ("backward", [1]), (None, [3, 2, 1])):
        assert found(filled, 1, looked_at=1, line="gate", way=way) == ids
    filled.finding.put_object_places([PlacePassed(1, GATE, 999.0)])
    (first, _) = filled.finding.places_passed([1])[1]
    assert first.utc_s == 101.0, "the first time stays"


def test_labels_that_are_numbers_are_compared_as_numbers(store: Store) -> None:
    for number, value in ((1, 1.0), (2, 1), (3, "1"), (4, "1.0"), (5, 2)):
        store.alarms.put_objects([tracked(number, float(number))])
        said = json.dumps({"seats": {"value": value, "score": 0.9}})
        with store.database.write() as c:
            c.execute(sa.text("UPDATE objects SET attributes = :said WHERE id = :id"), {"said": said, "id": number})

    def ids(label: str) -> list[int]:
        attributes = ("seats", label)
        return [n for n in range(1, 6) if finding._has(raw[n], attributes)]

    with store.database.read() as c:
        raw = {row.id: row.attributes for row in c.execute(sa.select(tables.objects.c.id, tables.objects.c.attributes))}
    assert (ids("1"), ids("1.0"), ids("two")) == ([1, 2, 3], [1, 2, 4], [])


def test_searches_and_days_read_indexes(store: Store) -> None:
    """Of SQLite: no search sorts what it looks at, and none goes through a table."""
    if not store.database.sqlite:
        pytest.skip("the plans of another database")

    def plan(query: sa.Select[Any]) -> str:
        text = query.compile(store.database.engine, compile_kwargs={"literal_binds": True})
        with store.database.read() as c:
            return " / ".join(str(row[3]) for row in c.execute(sa.text(f"EXPLAIN QUERY PLAN {text}")))

    after = FoundAfter(50.0, 7)
    for wanted, cameras, index in (
        (ObjectSearch(), None, "ix_objects_began_utc_s_id"),
        (ObjectSearch(), {"north"}, "ix_objects_camera_began_utc_s_id"),
        (ObjectSearch(line="gate", way="forward"), None, "ix_object_places_kind_name_began_utc_s_object"),
        (ObjectSearch(zone="drive", from_utc_s=3.0), {"north", "south"}, "ix_object_places_kind_name_began_utc_s"),
    ):
        query_plan = plan(finding._looked_at(wanted, after, cameras).limit(9))
        assert f"COVERING INDEX {index}" in query_plan, query_plan
        assert "TEMP B-TREE" not in query_plan, query_plan


def test_the_states_of_a_camera_are_read_by_day(store: Store) -> None:
    day = DaySpan(100.0, 200.0)
    kinds = ("camera.live", "camera.stalled", "worker.worker_lost")
    for at, kind, camera in (
        (10.0, "camera.live", "north"), (90.0, "plan", None), (95.0, "camera.stalled", "south"),
        (150.0, "camera.stalled", "north"), (140.0, "worker.worker_lost", "north"), (160.0, "camera.added", "north"),
        (170.0, "camera.live", "north"), (200.0, "camera.stalled", "north"),
    ):  # fmt: skip
        store.journal.append(kind, camera=camera, at_utc_s=at)
    kept = store.finding.entries_of_day("north", kinds, day, 9)
    assert ([e.at_utc_s for e in kept.rows], kept.cut) == ([10.0, 140.0, 150.0, 170.0], False)
    kept = store.finding.entries_of_day("north", kinds, day, 2)
    assert ([e.at_utc_s for e in kept.rows], kept.cut) == ([10.0, 140.0, 150.0], True)
    assert store.finding.journal_begins() == 90.0


def test_the_last_state_of_a_camera_outlives_the_journal_and_no_outage_comes_of_it(store: Store) -> None:
    for at, kind, camera in (
        (10.0, "camera.connecting", "north"), (11.0, "camera.live", "north"), (12.0, "camera.live", "gone"),
        (13.0, "camera.removed", "gone"), (14.0, "plan", None), (90.0, "appliance.started", None),
    ):  # fmt: skip
        store.journal.append(kind, camera=camera, at_utc_s=at)
    store.retention.retain(RetentionLimits(days=36_500, max_events=1))
    kept = [(e.kind, e.camera) for e in store.journal.events()]
    assert kept == [("appliance.started", None), ("camera.live", "north")]
    assert store.finding.box_starts(DaySpan(80.0, 100.0)).rows == (BoxStart(90.0, None),)

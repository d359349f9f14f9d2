"""Alarms and objects in the database: their life, pages, limits by camera, and what retention deletes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa
from store_helpers import JumpClock

from edge.core.alarms import Alarm
from edge.core.application_sources import AttributeValue
from edge.core.errors import NotFound
from edge.core.tracks import TrackedObject
from edge.store.store import Store


def alarm(number: int, camera: str | None = "gate", began: float = 1000.0, rule: str = "r") -> Alarm:
    return Alarm(number, rule, "Rule", "object", "warning", camera, str(number), "new", began, "a car", 2.5, number)


def tracked(number: int, camera: str = "gate", began: float = 1000.0, ended: float | None = None) -> TrackedObject:
    return TrackedObject(
        number, camera, "car", 0.8, (0.1, 0.2, 0.3, 0.4), began, began, 0.0, 3, zone_s={"drive": 1.5}, ended_utc_s=ended
    )


def test_an_alarm_lives_and_keeps_its_acknowledgement(store: Store) -> None:
    store.alarms.put_alarms([alarm(1), alarm(2, "yard"), alarm(3, None)])
    seen = store.alarms.acknowledge_alarm(1, "ann")
    assert seen.acknowledged_by == "ann"
    assert store.alarms.acknowledge_alarm(1, "bob") == seen, "who was first stays"
    store.alarms.set_picture("alarms", 1, 900)
    store.alarms.put_alarms(
        [replace(alarm(1), phase="end", ended_utc_s=1010.0, message="it left", value=9.0), alarm(4)]
    )
    kept = store.alarms.alarm(1)
    assert (kept.phase, kept.ended_utc_s, kept.message, kept.value) == ("end", 1010.0, "it left", 9.0)
    assert (kept.acknowledged_by, kept.picture, kept.object) == ("ann", True, 1)
    assert [a.id for a in store.alarms.newest(active=True)] == [4, 3, 2]
    assert [a.id for a in store.alarms.newest(active=False)] == [1]
    assert [a.id for a in store.alarms.newest(before=3, limit=1)] == [2]
    assert [a.id for a in store.alarms.newest(cameras=["yard"])] == [2], "not the one that belongs to no camera"
    assert [a.id for a in store.alarms.newest(camera="gate", rule="r")] == [4, 1]
    assert store.alarms.newest(cameras=[]) == ()
    store.alarms.put_alarms([replace(alarm(n, None), kind="tenant", subject=t) for n, t in ((5, "gate"), (6, "yard"))])
    assert [a.id for a in store.alarms.newest(tenants=["gate"])] == [5, 4, 2, 1]
    assert [a.id for a in store.alarms.newest(cameras=["yard"], tenants=["gate"])] == [5, 2]
    assert [a.id for a in store.alarms.newest(cameras=["yard"])] == [6, 5, 2]
    assert [a.id for a in store.alarms.newest(cameras=[], tenants=[])] == []
    with pytest.raises(NotFound, match="alarm 9"):
        store.alarms.acknowledge_alarm(9, "ann")


def test_alarms_of_served_models_are_found_by_their_tenant(store: Store) -> None:
    """Those of no tenant, as of a site without tenants, are fetched for no user of some cameras or tenants."""
    details: list[dict[str, object]] = [
        {"model": "a"}, {"tenant": None}, {"tenant": "gate"}, {"tenant": "yard", "cameras": ["north"]}, {"tenant": 7},
        {"tenant": {}},
    ]  # fmt: skip
    kept = [replace(alarm(n), camera=None, kind="slo", details=said) for n, said in enumerate(details, 1)]
    store.alarms.put_alarms(kept)
    store.alarms.put_alarms([replace(alarm(8, None), kind="disk", subject="", details={"tenant": "gate"})])
    assert [a.id for a in store.alarms.newest(tenants=["gate"])] == [3]
    assert [a.id for a in store.alarms.newest(tenants=["yard", "gate"])] == [4, 3]
    assert store.alarms.newest(tenants=[]) == ()
    assert {3, 4} <= {a.id for a in store.alarms.newest(cameras=["south"])} <= {3, 4, 5, 6}
    assert len(store.alarms.newest()) == 7


def test_an_alarm_with_details_that_are_not_json_hides_no_other_from_a_tenants_user(lite: Store) -> None:
    kept = [replace(alarm(n, None), kind="slo", subject="a", details={"tenant": "gate"}) for n in (1, 2, 3)]
    lite.alarms.put_alarms(kept)
    with lite.database.write() as c:
        c.execute(sa.text("UPDATE alarms SET details = '{' WHERE id = 2"))
    assert [a.id for a in lite.alarms.newest(tenants=["gate"])] == [3, 1]


def test_an_object_is_brought_up_to_date_and_read_back(store: Store) -> None:
    store.alarms.put_objects([tracked(7), tracked(8, "yard")])
    said = {"colour": AttributeValue("red", 0.75, 3), "speed": AttributeValue(7.5, None, 2)}
    store.alarms.put_objects(
        [replace(tracked(7), class_name="bus", ended_utc_s=1009.0, zone_s={"drive": 4.0, "road": 1.0}, attributes=said)]
    )
    kept = store.alarms.tracked_object(7)
    assert (kept.class_name, kept.ended_utc_s, kept.zone_s) == ("bus", 1009.0, {"drive": 4.0, "road": 1.0})
    assert kept.box == (0.1, 0.2, 0.3, 0.4)
    assert kept.to_json()["zones"] == ["drive", "road"]
    assert kept.attributes == said
    assert kept.to_json()["attributes"]["colour"] == {"value": "red", "score": 0.75, "answers": 3}
    assert store.alarms.tracked_object(8).attributes == {}
    assert [o.id for o in store.alarms.tracked_objects(class_name="car")] == [8]
    assert [o.id for o in store.alarms.tracked_objects(cameras=["gate"])] == [7]
    assert store.alarms.last_numbers() == (0, 8)
    store.alarms.put_objects([tracked(9, began=1025.0), tracked(10)])
    assert [o.id for o in store.alarms.open_objects()] == [8, 9, 10]
    store.alarms.end_open_objects(1020.0, 9)
    assert [o.id for o in store.alarms.open_objects()] == [10], "of this run"
    store.alarms.end_open_objects(1030.0, 9)
    assert [store.alarms.tracked_object(n).ended_utc_s for n in (8, 9)] == [1020.0, 1025.0], "none ends before it began"


def test_retention_takes_the_oldest_and_leaves_what_is_active(store: Store, clock: JumpClock) -> None:
    now = clock.utc()
    ended = [replace(alarm(n, began=now - 10 * 86400), phase="end", ended_utc_s=now) for n in (1, 2)]
    store.alarms.put_alarms([*ended, alarm(3, began=now - 10 * 86400), alarm(4, began=now)])
    store.alarms.put_objects([tracked(n, began=now - 100 + n, ended=now) for n in range(1, 7)])
    for n in range(1, 7):
        store.alarms.set_picture("objects", n, 100)
    store.alarms.set_picture("alarms", 1, 50)
    dropped: list[tuple[str, int, str | None]] = []
    report = store.alarms.retain_alarms(5, 4, 250, lambda kind, n, camera: dropped.append((kind, n, camera)))
    assert [a.id for a in store.alarms.newest()] == [4, 3], "an active one stays however old it is"
    assert [(o.id, o.picture) for o in store.alarms.tracked_objects()] == [
        (6, True), (5, True), (4, False), (3, False),
    ]  # fmt: skip
    assert dropped[:3] == [("objects", 1, "gate"), ("objects", 2, "gate"), ("alarms", 1, "gate")]
    assert (report.alarms, report.objects, report.pictures, report.bytes_kept) == (2, 2, 5, 200)
    assert not store.alarms.retain_alarms(5, 4, 250, lambda *_: None).anything


def test_a_picture_that_cannot_be_deleted_is_reported_and_tried_again(store: Store, clock: JumpClock) -> None:
    store.alarms.put_objects([tracked(1, began=10.0, ended=11.0), tracked(2, began=clock.utc(), ended=clock.utc())])
    store.alarms.set_picture("objects", 1, 100)

    def refuse(*_: object) -> None:
        raise OSError("read-only")

    report = store.alarms.retain_alarms(5, 10, 1000, refuse)
    assert report.failures == ("picture of objects 1: read-only",)
    assert len(store.alarms.tracked_objects()) == 2
    assert store.alarms.retain_alarms(5, 10, 1000, lambda *_: None).objects == 1
    assert store.alarms.last_numbers() == (0, 2), "numbers go on after the highest"

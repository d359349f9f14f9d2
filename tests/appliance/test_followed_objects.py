"""Objects that are followed: recorded, reported at their beginning and end, delivered at each change."""

from __future__ import annotations

from typing import Any, cast

from edge.appliance.followed_objects import FollowedObjects
from edge.appliance.picture_requests import PictureRequests
from edge.core.application_sources import AttributeValue, DescribedObject, ObjectsDescribed
from edge.core.clock import ManualClock
from edge.core.tracks import TrackedObject
from edge.core.vision import Detections
from edge.outputs.messages import OutputEvent
from edge.runtime import messages as m
from edge.settings import CameraSettings, parse

SETTINGS = {"id": "gate", "url": "rtsp://192.0.2.1/g", "classes": ["car", "person"]}
ZONE = {"name": "drive", "polygon": [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]]}


class Box:
    """Followed objects of one camera; what they record, tell and deliver is written down."""

    def __init__(self) -> None:
        self.clock = ManualClock(1000.0)
        self.settings = parse(CameraSettings, SETTINGS)
        self.recorded: list[int] = []
        self.kinds: list[str] = []
        self.delivered: list[OutputEvent] = []
        self.pictures = PictureRequests(self.clock, lambda camera, order: True)
        self.objects = FollowedObjects(
            self.clock, cast(Any, self), self.pictures, lambda kind, camera, body: self.kinds.append(kind),
            self.delivered.append,
        )  # fmt: skip

    def put_object(self, tracked: TrackedObject) -> None:
        """As AlarmRecords."""
        self.recorded.append(tracked.id)

    def see(self, label: int = 0, answers: int = 2) -> bool:
        """Answers with one object, 0.5 s apart; whether the last was followed."""
        for _ in range(answers):
            self.clock.advance(0.5)
            found = Detections.build([(0.2, 0.2, 0.3, 0.3)], [0.8], [label])
            good = self.objects.answered(self.settings, m.Answered(1, self.clock.monotonic(), self.clock.utc(), found))
        return good


def test_an_object_is_recorded_reported_and_delivered_from_beginning_to_end() -> None:
    box = Box()
    box.objects.next_id = 41
    assert box.see()
    (tracked,) = box.objects.on("gate")
    assert (tracked.id, tracked.class_name, box.objects.next_id) == (41, "car", 42)
    box.pictures.keep(41)
    box.clock.advance(60.0)
    assert list(box.objects.expire()) == ["gate"]
    assert list(box.objects.expire()) == [], "nothing more has ended"
    assert box.objects.on("gate") == ()
    assert set(box.recorded) == {41}
    assert box.kinds == ["object.new", "object.end"]
    assert [(d.phase, d.picture) for d in box.delivered] == [("new", False), ("end", True)]
    assert box.objects.counts == {"gate": 1}
    assert not box.pictures.kept(41), "forgotten with the object"


def test_an_answer_of_another_list_of_classes_is_left_out() -> None:
    box = Box()
    assert not box.see(label=2)
    assert box.objects.cameras == ()
    assert not box.objects.finish("gate")


def test_objects_end_where_they_were_seen_last_when_the_camera_is_gone() -> None:
    box = Box()
    box.see()
    assert box.objects.finish("gate")
    assert not box.objects.finish("gate")
    assert box.kinds == ["object.new", "object.end"]
    assert box.objects.cameras == ()


def test_zones_are_those_of_the_settings_in_force() -> None:
    box = Box()
    box.see()
    assert box.objects.on("gate")[0].zones == ()
    box.settings = parse(CameraSettings, SETTINGS | {"zones": [ZONE]})
    box.see()
    assert box.objects.on("gate")[0].zones == ("drive",)


def said(number: int, value: str = "red", camera: str = "gate") -> ObjectsDescribed:
    colour = {"colour": AttributeValue(value, 0.9)}
    return ObjectsDescribed("names", camera, number, (DescribedObject((0.2, 0.2, 0.3, 0.3), colour),))


def test_what_an_application_says_is_an_attribute_of_the_object_to_its_end() -> None:
    box = Box()
    box.objects.described(said(1))
    assert box.delivered == [], "nothing is followed yet"
    box.see()
    box.objects.described(said(1))
    (tracked,) = box.objects.on("gate")
    assert tracked.attributes == {"colour": AttributeValue("red", 0.9, 1)}
    assert [d.phase for d in box.delivered] == ["new", "update"]
    assert box.delivered[-1].to_json()["attributes"] == {"colour": {"value": "red", "score": 0.9, "answers": 1}}
    box.objects.described(said(1))
    box.objects.described(said(9))
    assert len(box.delivered) == 2, "the same again is no news; a later answer is taken for the one that was followed"
    box.objects.described(said(1, camera="yard"))
    box.objects.described(said(0))
    assert box.objects.on("gate")[0].attributes["colour"].answers == 3, "one of before it was seen is of no object"
    box.clock.advance(60.0)
    assert list(box.objects.expire()) == ["gate"]
    assert box.delivered[-1].to_json()["attributes"]["colour"]["value"] == "red"
    box.objects.described(said(1))
    assert [d.phase for d in box.delivered] == ["new", "update", "end"], "it is over"

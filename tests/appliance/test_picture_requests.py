"""Which pictures are asked for: the best objects first, each a few times, and not too many at once."""

from __future__ import annotations

import pytest

from edge.appliance.picture_requests import PictureRequests
from edge.core.clock import ManualClock
from edge.core.tracks import TrackedObject
from edge.runtime import messages as m


class Box:
    """Requests to cameras that write down what they are asked; `there`: whether their workers are."""

    def __init__(self) -> None:
        self.clock, self.there = ManualClock(100.0), True
        self.asked: list[tuple[str, int, str]] = []
        self.requests = PictureRequests(self.clock, self._take)

    def _take(self, camera: str, order: m.TakePictures) -> bool:
        if self.there:
            self.asked += [(camera, order.number, f"{w.of.kind}/{w.of.number}") for w in order.wanted]
        return self.there

    def see(self, *objects: TrackedObject, frame: int = 1) -> list[str]:
        """Keys that are asked for when these objects are seen now."""
        before = len(self.asked)
        self.requests.ask_for_objects("gate", frame, 5.0, objects)
        return [key for _, _, key in self.asked[before:]]


def _object(number: int, side: float = 0.1, at: float = 0.2, seen_utc_s: float = 5.0) -> TrackedObject:
    box = (at, at, at + side, at + side)
    return TrackedObject(number, "gate", "car", 0.8, box, 0.0, seen_utc_s, 5.0, 3)


def test_only_objects_that_are_followed_and_seen_now_are_asked_for() -> None:
    box = Box()
    box.requests.follow(1)
    box.requests.follow(2)
    assert box.see(_object(1), _object(2, seen_utc_s=4.0), _object(3), frame=9) == ["objects/1"]
    assert box.asked == [("gate", 9, "objects/1")]


def test_an_object_is_asked_for_again_when_it_is_seen_much_better_and_not_too_soon() -> None:
    box = Box()
    box.requests.follow(1)
    assert box.see(_object(1, 0.10)) == ["objects/1"]
    box.clock.advance(0.9)
    assert box.see(_object(1, 0.20)) == [], "too soon"
    box.clock.advance(0.1)
    assert box.see(_object(1, 0.12)) == [], "hardly better"
    assert box.see(_object(1, 0.20)) == ["objects/1"]
    box.clock.advance(10.0)
    assert box.see(_object(1, 0.40)) == ["objects/1"]
    box.clock.advance(10.0)
    assert box.see(_object(1, 0.70)) == [], "three of one object are enough"


def test_an_object_at_the_edge_is_worth_less_than_a_whole_one() -> None:
    box = Box()
    box.requests.follow(1)
    box.requests.follow(2)
    assert box.see(_object(1, 0.2, at=0.0), _object(2, 0.2)) == ["objects/2", "objects/1"]


def test_six_at_once_and_then_one_a_second_and_alarms_beside_objects() -> None:
    box = Box()
    crowd = [_object(n) for n in range(8)]
    for tracked in crowd:
        box.requests.follow(tracked.id)
    assert len(box.see(*crowd)) == 6
    assert box.see(*crowd) == []
    box.clock.advance(2.0)
    assert box.see(*crowd) == ["objects/6", "objects/7"], "those that have none come first"
    box.requests.ask_for_alarms("gate", 1, range(8))
    assert len(box.asked) == 6 + 2 + 6
    assert box.requests.not_taken == 2
    box.requests.camera_gone("gate")
    box.requests.ask_for_alarms("gate", 2, [9])
    assert box.asked[-1] == ("gate", 2, "alarms/9")


@pytest.mark.parametrize("full", [False, True])
def test_alarms_without_a_worker_or_without_disk_are_counted(full: bool) -> None:
    box = Box()
    box.there = full
    if full:
        box.requests.free_bytes = 199_999_999
    box.requests.ask_for_alarms("gate", 1, [1, 2])
    assert (box.asked, box.requests.not_taken) == ([], 2)


def test_a_picture_that_was_missed_is_asked_for_again_and_counted_at_the_end() -> None:
    box = Box()
    for number in (1, 2):
        box.requests.follow(number)
        box.see(_object(number))
    box.requests.came("objects", 2)
    for number in (1, 2):
        box.requests.missed("objects", number)
    box.clock.advance(1.0)
    assert box.see(_object(1), _object(2)) == ["objects/1"], "of the other one there is a picture"
    for number in (1, 2, 3):
        box.requests.ended(number)
    assert box.requests.not_taken == 1
    box.requests.missed("alarms", 1)
    assert box.requests.not_taken == 2


def test_a_picture_is_kept_of_what_is_followed() -> None:
    box = Box()
    box.requests.follow(1)
    assert not box.requests.kept(1)
    for number in (1, 2):
        box.requests.keep(number)
    assert [box.requests.kept(n) for n in (1, 2)] == [True, False]
    box.requests.ended(1)
    assert not box.requests.kept(1)

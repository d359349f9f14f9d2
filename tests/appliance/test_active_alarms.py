"""Rules at work: what is recorded, journaled and delivered of each alarm, and which pictures are asked for."""

from __future__ import annotations

from typing import Any, cast

from edge.appliance.active_alarms import ActiveAlarms
from edge.appliance.picture_requests import PictureRequests
from edge.core import alarms as al
from edge.core.alarms import Alarm
from edge.core.clock import ManualClock
from edge.core.tracks import TrackedObject
from edge.runtime import messages as m
from edge.settings import RuleSettings, parse

CAR = TrackedObject(5, "gate", "car", 0.8, (0.2, 0.2, 0.3, 0.3), 0.0, 0.0, 3.0, 4)


class Box:
    """Alarms of one rule about any object; what they record, journal and deliver is written down."""

    def __init__(self) -> None:
        self.clock = ManualClock(1000.0)
        self.in_force = (parse(RuleSettings, {"id": "any", "kind": "object"}).rule(),)  # as AlarmRules
        self.recorded: list[Alarm] = []
        self.noted: list[str] = []
        self.delivered: list[tuple[str, bool]] = []
        self.asked: list[tuple[int, str]] = []
        self.active = ActiveAlarms(
            self.clock, cast(Any, self), cast(Any, self), PictureRequests(self.clock, self._take),
            lambda kind, camera, data: self.noted.append(kind),
            lambda alarm: self.delivered.append((alarm.phase, alarm.picture)),
        )  # fmt: skip

    def put_alarm(self, alarm: Alarm) -> None:
        """As AlarmRecords."""
        self.recorded.append(alarm)

    def _take(self, camera: str, order: m.TakePictures) -> bool:
        self.asked += [(order.number, f"{w.of.kind}/{w.of.number}") for w in order.wanted]
        return True


def test_an_alarm_from_beginning_to_end() -> None:
    box = Box()
    box.active.restore((), (), next_id=7)
    box.active.look(al.ObjectsNow("gate", (CAR,)), ("gate", 31))
    assert [a.id for a in box.active.alarms()] == [7]
    assert box.asked == [(31, "alarms/7")]
    box.active.pictured(7)
    box.active.pictured(8)
    box.clock.advance(60.0)
    box.active.look(al.ObjectsNow("gate", ()), ("gate", 32))
    box.active.pictured(7)
    assert box.active.alarms() == []
    assert box.noted == ["alarm.new", "alarm.update", "alarm.end"]
    assert box.delivered == [("new", False), ("update", True), ("end", True)]
    assert [a.picture for a in box.recorded] == [False, True, True]
    assert box.active.raised == {"object": 1}
    assert len(box.asked) == 1, "of new alarms only"


def test_without_a_frame_no_picture_is_asked_for() -> None:
    box = Box()
    box.active.look(al.ObjectsNow("gate", (CAR,)))
    assert (box.noted, box.asked) == (["alarm.new"], [])


def test_an_alarm_goes_on_after_a_restart_with_its_picture() -> None:
    box = Box()
    box.active.look(al.ObjectsNow("gate", (CAR,)))
    box.active.pictured(1)
    again = Box()
    again.active.restore((), box.recorded[-1:], next_id=20)
    assert [a.id for a in again.active.alarms()] == [1]
    again.active.look(al.ObjectsNow("gate", ()))
    assert again.delivered == [("end", True)]
    assert again.active.raised == {"object": 0}
    again.active.look(al.ObjectsNow("gate", (CAR,)))
    assert (again.active.held_back, again.active.refused) == (1, 0), "the same object so soon"
    assert again.active.raised == {"object": 0}

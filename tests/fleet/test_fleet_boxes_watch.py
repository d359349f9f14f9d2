"""What the benchmark of three appliances makes of answers and events that it saw."""

from __future__ import annotations

from typing import Any, cast

import pytest

from benchmarks import fleet_boxes_events as events
from benchmarks.fleet_boxes import RealBox
from benchmarks.fleet_boxes_watch import KnownProcess, ShownAnswer, Viewers, ended_of, longest_gap
from benchmarks.soak.values import ReceivedMessage


def viewers_of(*answers: ShownAnswer) -> Viewers:
    found = Viewers(())
    found.answers += answers
    return found


def test_the_longest_time_reaches_from_the_beginning_to_the_end() -> None:
    found = [longest_gap(times, 0.0, 4.0) for times in ([3.0, 1.0, 1.5], [1.0], [])]
    assert [(gap.from_s, gap.length_s) for gap in found] == [(1.5, 1.5), (1.0, 3.0), (0.0, 4.0)]


def test_gaps_are_in_frame_periods_as_answers_came_and_by_their_frames() -> None:
    """One answer of a frame in time comes 0.19 s late: the viewer waits, no frame went without an answer."""
    late = {10: 0.24}
    seen = viewers_of(*(ShownAnswer("b1", "north", 0.2 * n + late.get(n, 0.05), 0.2 * n) for n in range(1, 20)))
    found = seen.seen("north", 5.0, 0.2, 3.9)
    assert found["came_periods"] == pytest.approx(1.95, abs=0.01)
    assert found["came_at_s"] == pytest.approx(1.65, abs=0.01)
    assert found["frames_periods"] == pytest.approx(1.0, abs=0.01)
    assert found["per_s"] == pytest.approx(5.0, abs=0.2)
    never = {"came_periods": 18.5, "came_at_s": 0.0, "frames_periods": 18.5, "per_s": 0.0}
    assert seen.seen("south", 5.0, 0.2, 3.9) == never


def test_processes_that_ended_are_counted_by_kind() -> None:
    gone = [KnownProcess("raylet", 2**22 + 1, 1.0), KnownProcess("raylet", 2**22 + 2, 1.0)]
    assert ended_of(gone) == {"raylet": 2}


class OneBox:
    """A box with these records, whose messages are all sent."""

    def __init__(self, name: str, objects: list[dict[str, Any]], overlaps: tuple[dict[str, Any], ...] = ()) -> None:
        self.name, self._objects, self._overlaps = name, objects, overlaps

    def ask(self, path: str) -> Any:
        if path == "/outputs":
            return {"mqtt": {"state": {"waiting": 0}}, "unwritten": 0}
        return self._objects if path.startswith("/objects") and "before" not in path else []

    def status(self) -> dict[str, Any]:
        return {"overlaps": self._overlaps}


def an_object(number: int, began_utc_s: float, ended_utc_s: float | None = None) -> dict[str, Any]:
    return {"id": number, "camera": "north", "began_utc_s": began_utc_s, "ended_utc_s": ended_utc_s}


class HeardAll:
    """Messages that came to the broker."""

    def __init__(self, *messages: ReceivedMessage) -> None:
        self.messages = messages


def message(box: str, number: int, phase: str, of: str) -> ReceivedMessage:
    return ReceivedMessage(1.0, box, "object", number, phase, of)


def checked(box: OneBox, heard: HeardAll, kills: dict[str, float]) -> dict[str, Any]:
    return events.check_events([cast(RealBox, box)], cast(events.EventsHeard, heard), kills)


def test_each_event_is_heard_once_from_its_own_box(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.fleet_boxes_events.time.sleep", lambda _: None)
    box = OneBox("b1", [an_object(1, 10.0, 12.0), an_object(2, 20.0)])
    whole = HeardAll(message("b1", 1, "new", "a"), message("b1", 1, "end", "b"), message("b1", 2, "new", "c"))
    found = checked(box, whole, {})
    assert (found["on_record"], found["beginnings_and_ends"], found["lost"], found["doubled"]) == (2, 3, 0, 0)
    other = HeardAll(*whole.messages[:2], message("b2", 2, "new", "c"))
    assert checked(box, other, {})["lost"] == 1, "another box's object of that number is not it"
    assert checked(box, other, {"b1": 20.5})["lost"] == 0, "of the last second before the box was killed"
    twice = checked(box, HeardAll(*whole.messages, message("b1", 1, "end", "d")), {})
    assert (twice["lost"], twice["doubled"]) == (0, 1)
    assert checked(box, HeardAll(*whole.messages, *whole.messages[:1]), {})["same_message_again"] == 1


def test_objects_of_two_boxes_are_looked_for_in_the_marked_overlaps() -> None:
    marked = ({"camera": "north", "start_utc_s": 100.0, "end_utc_s": 110.0},)
    one = OneBox("b1", [an_object(1, 105.0), an_object(2, 200.0), an_object(3, 300.0)], marked)
    other = OneBox("b2", [an_object(1, 105.5), an_object(2, 200.5), an_object(3, 310.0)])
    boxes = [cast(RealBox, box) for box in (one, other)]
    assert events.seen_twice(boxes, ["north"]) == {"in_a_marked_overlap": 1, "elsewhere": 1}

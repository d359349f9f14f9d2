"""The benchmarks of real appliances in a fleet count answers, events and goals as they say."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import psutil
import pytest

from benchmarks import bench_fleet_boxes, bench_fleet_lending, fleet_boxes_jobs
from benchmarks import fleet_boxes_events as events
from benchmarks.fleet_boxes import BrokerLines, Lines, RealBox, running_on
from benchmarks.fleet_boxes_watch import KnownProcess, ShownAnswer, Viewers, Watch, ended_of, longest_gap
from benchmarks.soak.values import ReceivedMessage
from benchmarks.waiting import free_port, until


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
    own = psutil.Process()
    known = [KnownProcess("raylet", 2**22 + n, 1.0) for n in (1, 2)]
    known += [KnownProcess("control", own.pid, own.create_time()), KnownProcess("camera", own.pid, 1.0)]
    assert ended_of(known) == {"camera": 1, "raylet": 2}, "the own process runs; one that had its number does not"


def watch_of(*looks: tuple[str, float, dict[str, int] | None]) -> Watch:
    """What a watch of b1 and b2 noted of these looks; None: not answered."""
    found = Watch([cast(RealBox, OneBox(name, [])) for name in ("b1", "b2")])
    before: dict[str, dict[str, int]] = {"b1": {}, "b2": {}}
    for box, at_s, counts in looks:
        if counts is not None:
            before[box] = found.note(box, at_s, counts, before[box])
    return found


def test_an_unchanged_count_is_no_answer_also_after_a_look_without_reply() -> None:
    seen = watch_of(
        ("b1", 1.0, {"north": 5}), ("b2", 1.0, {}), ("b1", 2.0, None), ("b1", 3.0, {"north": 5}),
        ("b2", 4.0, {"north": 0}), ("b1", 4.0, {"north": 6}), ("b2", 5.0, {"north": 1}),
    )  # fmt: skip
    assert [look.at_s for look in seen.looks["b1"] if look.answers] == [1.0, 4.0]
    assert seen.gap_s("north", 1.0, 5.0) == 3.0
    assert seen.first("north", 0.0, "b1") == (5.0, "b2")
    assert seen.first("south", 0.0, "b1") is None
    assert (seen.longest_look_s(1.0, 5.0), seen.longest_look_s(1.0, 5.0, "b2")) == (3.0, 2.0)


def test_a_box_has_a_camera_until_it_is_seen_without_it() -> None:
    both = {"north": 5}
    looks = [("b1", 1.0, both), ("b2", 1.1, both), ("b1", 2.0, both), ("b2", 6.0, None), ("b1", 7.0, both)]
    healed = watch_of(*looks, ("b2", 7.1, {}))
    assert healed.both_s("north", 2.0, 8.0) == pytest.approx(5.1), "b2 was silent: it may have had it until 7.1 s"
    assert healed.both_s("south", 2.0, 8.0) == 0.0
    assert watch_of(*looks).both_s("north", 2.0, 8.0) is None, "nothing is known of b2"
    assert healed.owners_now("north", 0.0) is None, "those looks are old"


def test_a_box_that_has_a_camera_now_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = watch_of(("b1", 10.0, {"north": 1}), ("b2", 10.2, {}))
    monkeypatch.setattr("benchmarks.fleet_boxes_watch.time.monotonic", lambda: 10.5)
    assert seen.owners_now("north", 9.0) == {"b1"}
    assert seen.owners_now("north", 10.1) is None, "b1 answered none since then"


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


class HeadOfJobs:
    """A head whose job "cut" is over: task 0 ran on b2, task 1 has no answer; it does not answer the first time."""

    name = "b1"

    def __init__(self) -> None:
        self._asked = 0

    def ask(self, path: str) -> Any:
        self._asked += 1
        if self._asked == 1:
            return None
        if path.startswith("/events"):
            return [{"data": {"job": "cut"}}, {"data": {"job": "other"}}]
        states = [{"task": 0, "box": "b2", "done": True}, {"task": 1, "box": "b3", "done": False}]
        return {
            "jobs": [{"id": "cut", "phase": "ended", "tasks": 2, "done": 1, "over_utc_s": 9.0, "task_states": states}]
        }

    def log(self) -> str:
        return ""


def test_a_job_has_the_boxes_of_its_answers_and_its_ends_in_the_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.fleet_boxes_jobs.time.sleep", lambda _: None)
    assert fleet_boxes_jobs.over(cast(RealBox, HeadOfJobs()), "cut", 10.0) == {
        "tasks": 2, "tasks_without_an_answer": 1, "answered_on": {"0": "b2"}, "over_in_the_journal": 1,
        "over_utc_s": 9.0,
    }  # fmt: skip


class Echo(asyncio.Protocol):
    """Sends all back that it gets; adds itself to `opened`."""

    def __init__(self, opened: list[Echo]) -> None:
        self._opened = opened

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._opened.append(self)
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)


def test_a_connection_that_is_opened_while_its_line_is_cut_goes_on_after_healing() -> None:
    target, relay = free_port(), free_port()
    with Lines((), BrokerLines(target, {"b1": relay})) as lines:
        loop = lines._loop
        opened: list[Echo] = []
        serve = partial(loop.create_server, partial(Echo, opened), "127.0.0.1", target)
        asyncio.run_coroutine_threadsafe(serve(), loop).result(10)
        lines.cut("b1", "broker")
        with socket.create_connection(("127.0.0.1", relay), 10) as gave_up:
            gave_up.sendall(b"gave up")
        with socket.create_connection(("127.0.0.1", relay), 10) as waits:
            waits.sendall(b"first")
            waits.settimeout(0.3)
            with pytest.raises(TimeoutError):
                waits.recv(100)
            waits.settimeout(10)
            lines.heal()
            assert waits.recv(100) == b"first"
            waits.sendall(b"second")
            assert waits.recv(100) == b"second"
        until(lambda: not asyncio.all_tasks(loop), "the relay ended both", 10)
        assert len(opened) == 1, "a client that gave up meanwhile connects no more"


def whole_results() -> dict[str, Any]:
    """Results of every run that reach each goal just so."""
    found: dict[str, Any] = {}
    for run, goals in bench_fleet_boxes.GOALS.items():
        for path, (least, most) in goals.items():
            *above, last = f"{run}.{path}".replace("*", "b1").split(".")
            place = found
            for key in above:
                place = place.setdefault(key, {})
            place[last] = least if most is None else most
    return found


def test_a_goal_without_a_number_is_missed() -> None:
    whole = whole_results()
    assert bench_fleet_boxes.missed(whole) == []
    assert len(bench_fleet_boxes.missed({})) == sum(map(len, bench_fleet_boxes.GOALS.values()))
    whole["killed"]["others"]["b1"]["after"]["came_periods"] = 2.1
    whole["head"] = {"failed": "TimeoutError: no box"}
    whole["cut"]["answered_elsewhere_s"] = None
    whole["away"]["decided_meanwhile"] = ["b2"]
    whole["away"]["known_processes"]["b1"] = {"control": 1}
    whole["jobs"]["cut"]["answer_of_another_box"] = False
    found = bench_fleet_boxes.missed(whole)
    assert [line for line in found if not line.startswith("head ")] == [
        "killed others.b1.after.came_periods: 2.1, not 0 to 2.0",
        "cut answered_elsewhere_s: not measured",
        "away decided_meanwhile: ['b2'], not 0 to 0",
        "away known_processes.b1.camera: not measured",
        "jobs cut.answer_of_another_box: False, not 1 to 1",
    ]
    assert len(found) == 5 + len(bench_fleet_boxes.GOALS["head"])


def lent(alone: Mapping[str, float | None], lending: Mapping[str, float | None]) -> dict[str, Any]:
    """A run whose crowded box gains, and whose idle box has this accuracy by window."""
    crowded = [{"south": {"2": value}} for value in (0.2, 0.3)]
    return {
        arm: {
            "by_camera": {"crowded": crowded[number], "idle": {"north": dict(rows)}},
            "frozen_by_camera": {"crowded": crowded[0], "idle": {"north": {"2": 0.3 + 0.02 * number}}},
        }
        for number, (arm, rows) in enumerate((("alone", alone), ("lending", lending)))
    }


def test_lending_gains_in_windows_that_both_arms_measured() -> None:
    run = lent({"2": 0.5, "3": None, "4": 0.1}, {"2": 0.51, "3": 0.1, "4": None})
    found = bench_fleet_lending.summed_up([run])
    assert found["idle"] == {
        "mean": pytest.approx(1.0), "runs": [pytest.approx(1.0)], "frozen_runs": [pytest.approx(2.0)]
    }  # fmt: skip
    assert found["crowded"]["frozen_runs"] == [0.0], "frozen students do not gain"
    assert found["met"]
    never = bench_fleet_lending.summed_up([run, lent({"2": None}, {"2": 0.5})])
    assert (never["idle"]["runs"], never["met"]) == ([pytest.approx(1.0), None], False)


def test_answers_of_a_worker_that_was_replaced_have_no_rate() -> None:
    given = bench_fleet_lending.AnswersGiven
    began = {"north": given(10.0, 7, 100), "south": given(10.0, 8, 100), "west": given(10.0, None, 0)}
    ended = {"north": given(20.0, 7, 150), "south": given(20.0, 9, 300)}
    assert bench_fleet_lending.per_s(began, ended) == {"north": 5.0, "south": None, "west": None}


def test_boxes_have_processors_of_their_own() -> None:
    assert bench_fleet_lending.halved([0, 1, 4, 5, 6]) == ({0, 1}, {4, 5, 6})
    with pytest.raises(RuntimeError, match="two processors"):
        bench_fleet_lending.halved([3])
    mine = os.sched_getaffinity(0)
    with running_on({min(mine)}):
        assert os.sched_getaffinity(0) == {min(mine)}
    assert os.sched_getaffinity(0) == mine
    with pytest.raises(OSError), running_on({100_000}):
        pass
    assert os.sched_getaffinity(0) == mine

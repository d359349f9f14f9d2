"""Counts in the appliance: from answers and labels to the database and the outputs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edge.appliance.counts import ObjectCounts
from edge.appliance.counts_opened import open_counts
from edge.core.alarms import Fact, HourCounted, Moved
from edge.core.clock import ManualClock
from edge.core.counts import Count, CountCheck, CountedMinute, DayReport, Place, WatchedTime
from edge.core.errors import InvalidValue, NotFound, Unavailable
from edge.core.facts import FrameLabelled, FrameSampled
from edge.core.labels import LabelledFrame, SampledFrame
from edge.core.tracks import TrackedObject
from edge.core.vision import Detections
from edge.settings import CameraSettings, SiteSettings, parse
from edge.store.store import Store

LINE = {"name": "gate", "start": [0.2, 0.5], "end": [0.8, 0.5]}
SETTINGS = {"id": "north", "url": "rtsp://192.0.2.1/n", "classes": ["car", "person"], "lines": [LINE]}
HOUR = 1_790_000_000 // 3600 * 3600


def box_at(y: float) -> tuple[float, float, float, float]:
    return 0.45, y - 0.1, 0.55, y


class Box:
    """Counts of one camera over a real store."""

    def __init__(self, store: Store) -> None:
        self.complaints: list[str] = []
        self.there = False
        self.store, self.clock = store, ManualClock(0.0)
        self.settings = parse(CameraSettings, SETTINGS)
        self.sent_minutes: list[CountedMinute] = []
        self.facts: list[Fact] = []
        self.counts = self.begun()

    def begun(self) -> ObjectCounts:
        """The counts of another run of the appliance."""

        async def kept() -> bool:
            return True

        return open_counts(
            SiteSettings(), self.store, self.clock, lambda code, message: self.complaints.append(code),
            lambda: {"north": self.settings} if self.there else {}, self._send, kept, lambda: True, self.facts.append,
        )  # fmt: skip

    def _send(self, event: CountedMinute | DayReport) -> None:
        assert isinstance(event, CountedMinute)
        self.sent_minutes.append(event)

    def see(self, at_s: float, *objects: tuple[int, float]) -> None:
        """An answer at `at_s` after the hour with objects (number, foot)."""
        there = [
            TrackedObject(n, "north", "car", 0.9, box_at(y), 0.0, HOUR + at_s, 0.0, 3, began_box=box_at(y))
            for n, y in objects
        ]
        self.counts.answered(self.settings, there, HOUR + at_s)

    def sampled(self, at_s: float, number: int) -> SampledFrame:
        """A frame of that instant is sampled."""
        frame = SampledFrame("north", 1, number, HOUR + at_s, Path("x.jpg"), Detections.empty(), "v")
        self.counts.fact(FrameSampled(frame))
        return frame

    def labelled(self, frame: SampledFrame, *feet: float) -> None:
        """Later it is labelled."""
        labels = Detections.build([box_at(y) for y in feet], [0.9] * len(feet), [0] * len(feet))
        self.counts.fact(FrameLabelled(LabelledFrame(frame, labels, "t")))

    def answer(self, step: Any = "hour", hours: int = 1) -> Any:
        return self.counts.of_camera("north", step, HOUR, HOUR + 3600 * hours)


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    with Store(None, tmp_path) as store:
        yield Box(store)


async def test_a_crossing_between_two_labelled_frames_is_counted_again_once(box: Box) -> None:
    for n in range(20):
        at = 60.0 * n
        box.see(at, (n, 0.4))
        first = box.sampled(at + 0.1, 2 * n)
        box.see(at + 0.5, (n, 0.55))
        second = box.sampled(at + 0.9, 2 * n + 1)
        box.see(at + 1.0, (n, 0.6))
        box.see(at + 5.0)
        box.labelled(first, 0.43)
        box.labelled(second, 0.58)
    await box.counts.close()
    found = box.store.counts.count_checks("north", HOUR, HOUR + 3600, 60)
    assert {(c.place.way, sum(x.followed for x in found), sum(x.there for x in found)) for c in found} == {
        ("forward", 20, 20)
    }


async def test_what_passed_is_reported_with_how_true_it_is_and_how_long_it_was_watched(box: Box) -> None:
    for n in range(20):
        at = 60.0 * n
        box.see(at, (n, 0.45))
        frame = box.sampled(at + 0.2, n)
        box.see(at + 0.4, (n, 0.55))
        box.see(at + 5.0)
        # The teacher sees two where one is followed.
        box.labelled(frame, 0.5, 0.48)
    box.clock.advance(600.0)  # no more labels come
    await box.counts.flush(HOUR + 3600.0)
    found = box.answer(hours=2)
    assert [b.watched for b in found.buckets] == [pytest.approx(8 / 3600, abs=1e-4), 0.0]
    (row,) = found.buckets[0].counts
    assert (row.kind, row.name, row.way, row.class_, row.objects) == ("line", "gate", "forward", "car", 20)
    assert row.corrected is not None
    assert row.corrected.value == pytest.approx(40.0, rel=0.02)
    assert row.corrected.low < 40.0 < row.corrected.high
    assert found.buckets[1].counts == ()
    assert found.totals == (row,)
    assert box.counts.metrics()["counted"][0]["objects"] == 20
    assert len(box.answer("minute").buckets) == 60


async def test_a_time_beside_an_earlier_one(box: Box) -> None:
    def passing(camera_at: float, objects: int) -> list[Count]:
        return [Count("north", HOUR + int(camera_at), Place("line", "gate", "forward"), "car", objects)]

    whole = [WatchedTime("north", HOUR + at, 3600.0, 9) for at in (0, 3600, -7200)]
    box.store.counts.add_counts(passing(0.0, 9) + passing(3600.0, 5) + passing(-7200.0, 6), whole, [])
    found = box.counts.compared("north", "hour", HOUR, HOUR + 7200, HOUR - 7200)
    assert [(b.before_utc_s - HOUR, b.compared) for b in found.buckets] == [(-7200, True), (-3600, False)]
    assert [(t.name, t.objects, t.before) for t in found.totals] == [("gate", 9, 6)]
    assert found.compared == 0.5
    with pytest.raises(InvalidValue, match="before"):
        box.counts.compared("north", "hour", HOUR, HOUR + 7200, HOUR)
    with pytest.raises(NotFound, match="south"):
        box.counts.compared("south", "hour", HOUR, HOUR + 7200, HOUR - 7200)


async def test_a_minute_that_is_not_over_is_written_at_the_end(box: Box) -> None:
    box.see(0.0, (1, 0.45))
    box.see(1.0, (1, 0.55))
    await box.counts.flush(HOUR + 2.0)
    assert not box.store.counts.has_counted("north")
    await box.counts.close()
    assert box.answer().totals[0].objects == 1


async def test_counts_wait_for_a_database_that_is_away(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    box.see(0.0, (1, 0.45))
    box.see(1.0, (1, 0.55))

    def away(*_: object) -> None:
        raise Unavailable("the database is away")

    with monkeypatch.context() as patch:
        patch.setattr(box.store.counts, "add_counts", away)
        await box.counts.flush(HOUR + 60.0)
    assert box.complaints == ["counts_not_written"]
    await box.counts.flush(HOUR + 61.0)
    assert box.answer().totals[0].objects == 1
    assert box.counts.lost == 0


async def test_records_that_a_fault_of_the_code_kept_from_the_database_wait_too(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.see(0.0, (1, 0.45))
    box.see(1.0, (1, 0.55))
    box.there = True

    def faulty(*_: object) -> None:
        raise TypeError("a fault")

    with monkeypatch.context() as patch:
        patch.setattr(box.store.counts, "add_counts", faulty)
        with pytest.raises(TypeError):
            await box.counts.flush(HOUR + 60.0)

    async def fails(now_utc_s: float) -> None:
        raise TypeError("another fault")

    box.counts.followers.insert(0, fails)
    await box.counts.look(HOUR + 80.0)
    assert box.answer().totals[0].objects == 1
    assert box.complaints == ["counts_not_told"]
    assert [m.start_s for m in box.sent_minutes] == [HOUR], "those after it have their turn"


async def test_other_lines_begin_anew_and_keep_what_was_counted(box: Box) -> None:
    box.see(0.0, (1, 0.45))
    box.see(1.0, (1, 0.55))
    moved = {**LINE, "name": "door", "start": [0.2, 0.7], "end": [0.8, 0.7]}
    box.settings = parse(CameraSettings, {**SETTINGS, "lines": [moved]})
    box.see(2.0, (1, 0.65))
    box.see(3.0, (1, 0.75))
    box.settings = parse(CameraSettings, {**SETTINGS, "lines": []})
    box.see(4.0, (1, 0.8))
    await box.counts.flush(HOUR + 5.0)
    assert [t.name for t in box.answer().totals] == ["door", "gate"]


async def test_questions_that_cannot_be_answered(box: Box) -> None:
    with pytest.raises(NotFound, match="north"):
        box.answer()
    box.there = True
    assert [b.watched for b in box.answer().buckets] == [0.0], "it is there, and has not counted"
    with pytest.raises(InvalidValue, match="after `from`"):
        box.counts.of_camera("north", "hour", HOUR, HOUR - 3600)
    with pytest.raises(InvalidValue, match="2000 buckets"):
        box.counts.of_camera("north", "minute", HOUR, HOUR + 60 * 2001)
    with pytest.raises(InvalidValue, match="step"):
        box.counts.of_camera("north", "week", HOUR, HOUR + 60)  # type: ignore[arg-type]


async def test_each_minute_is_reported_once_and_whole_also_over_a_restart(
    box: Box, monkeypatch: pytest.MonkeyPatch
) -> None:
    box.there = True
    await box.counts.look(HOUR + 20.0)
    box.see(21.0, (1, 0.45))
    box.see(22.0, (1, 0.55))
    await box.counts.close()
    box.counts = box.begun()
    box.see(40.0, (2, 0.45))
    box.see(41.0, (2, 0.55))
    await box.counts.look(HOUR + 70.0)
    assert [m.start_s - HOUR for m in box.sent_minutes] == [-60], "its last answers may be on their way"

    def away(*_: object, **__: object) -> None:
        raise Unavailable("the database is away")

    with monkeypatch.context() as patch:
        patch.setattr(box.store.counts, "watched", away)
        await box.counts.look(HOUR + 76.0)
    assert set(box.complaints) == {"counts_not_told"}
    await box.counts.look(HOUR + 77.0)
    await box.counts.look(HOUR + 120.0)
    (_, minute) = box.sent_minutes
    assert (minute.start_s, [(c.class_name, c.objects) for c, _ in minute.counts]) == (HOUR, [("car", 2)])
    assert box.counts.metrics()["minutes"][0]["places"][0]["objects"] == 2
    await box.counts.look(HOUR + 140.0)
    assert (box.sent_minutes[-1].start_s - HOUR, box.sent_minutes[-1].watched) == (60, 0.0), "unknown is sent, too"
    box.settings = parse(CameraSettings, {**SETTINGS, "enabled": False})
    await box.counts.look(HOUR + 200.0)
    assert len(box.sent_minutes) == 3
    assert box.counts.metrics()["minutes"] == []


async def test_movements_and_hours_are_facts_for_rules(box: Box) -> None:
    box.there = True
    west, east = [[0.0, 0.0], [0.4, 0.0], [0.4, 1.0]], [[0.6, 0.0], [1.0, 0.0], [1.0, 1.0]]
    zones = [{"name": "west", "polygon": west}, {"name": "east", "polygon": east}]
    box.settings = parse(CameraSettings, {**SETTINGS, "zones": zones})
    for at, there in ((0.0, ("west",)), (1.0, ("east",)), (30.0, None)):
        objects = () if there is None else (
            TrackedObject(5, "north", "car", 0.9, box_at(0.3), 0.0, HOUR + at, 0.0, 3, there, began_box=box_at(0.3)),
        )  # fmt: skip
        box.counts.answered(box.settings, objects, HOUR + at)
    assert box.facts == [Moved("north", 5, "car", "west", "east")]
    week = 7 * 86_400
    gate = Place("line", "gate", "forward")
    box.store.counts.add_counts(
        [Count("north", HOUR - n * week, gate, "car", 40 + n) for n in range(3)],
        [WatchedTime("north", HOUR - n * week, 3600.0, 9) for n in range(3)], [],
    )  # fmt: skip
    await box.counts.look(HOUR + 3600.0 + 75.0)
    await box.counts.look(HOUR + 3600.0 + 85.0)
    hours = [f for f in box.facts if isinstance(f, HourCounted)]
    assert [(f.start_utc_s, len(f.places), len(f.past)) for f in hours] == [(HOUR, 2, 8)]
    assert [h.objects.get((gate, "car")) for h in (hours[0].now, *hours[0].past[:3])] == [40, 41, 42, None]
    assert [h.watched for h in hours[0].past[:3]] == [1.0, 1.0, 0.0]
    assert [set(h.not_yet) for h in hours[0].past[:3]] == [set(), {"gate"}, {"gate"}], "before its first day was over"


async def test_hours_and_days_are_settled_once_and_tell_the_same(box: Box) -> None:
    gate = Place("line", "gate", "forward")
    checks = [
        CountCheck("north", HOUR + 60 * n, gate, name, 2, 4 + n % 3, 5 + n % 2, 4)
        for n in range(-100, 200)
        for name in ("car", "person")
    ]
    counts = [
        Count("north", HOUR + 3600 * n, gate, name, 10 + n) for n in range(3) for name in ("car", "person", "unknown")
    ]
    box.store.counts.add_counts(counts, [WatchedTime("north", HOUR + 3600 * n, 3500.0, 9) for n in range(3)], checks)
    before = [box.answer(step, 3) for step in ("hour", "day")]
    assert all(t.corrected is not None for found in before for b in found.buckets for t in b.counts)
    for n in range(4):
        await box.counts.look(HOUR + 10.9 * 3600.0 + n)
    kept = box.store.counts.counted("north", "hour", HOUR, HOUR + 3 * 3600)
    assert [c.settled for c in kept] == [True] * 6 + [False] * 3, "labels of the third hour may come"
    for n in range(8):
        await box.begun().look(HOUR + 60 * 3600.0 + n)
    for step in ("hour", "day"):
        settled = box.store.counts.counted("north", step, HOUR - 86_400, HOUR + 86_400)  # type: ignore[arg-type]
        assert settled
        assert all(c.settled for c in settled)
    assert [box.answer(step, 3) for step in ("hour", "day")] == before

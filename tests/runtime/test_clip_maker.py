"""The clips of one camera in its worker: cut when their end is there, with the boxes of their pictures."""

from __future__ import annotations

import json
import threading
import weakref
from pathlib import Path

import av
import numpy as np
import pytest
from video_clips import make_clip, wait_for

from edge.clips.mp4 import boxes_path, clip_path
from edge.core.clips import ClipAsked, ClipFailed, ClipMade
from edge.core.clock import ManualClock
from edge.core.vision import Detections, Observation
from edge.ingest.masking import Masker
from edge.ingest.tap import TappedStream
from edge.runtime.clip_maker import ClipMaker
from edge.settings import CameraSettings, ClipSettings, parse
from scheduler.clips.cutting import PATIENCE_S

UTC = 1_790_000_000.0
CAMERA = {"id": "north", "url": "rtsp://192.0.2.1/n", "classes": ["car", "bus"]}


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_clip(tmp_path_factory.mktemp("video") / "a.mp4", seconds=6.0, fps=10, gop=10)


class SetClock(ManualClock):
    """A clock whose UTC time is set by so many seconds."""

    set_by_s = 0.0

    def utc(self) -> float:
        return super().utc() + self.set_by_s


class Worker:
    """A camera's clips; `play` hands the file's packets to the ring as if they came in real time, a fifth of a second
    after their pictures were taken."""

    def __init__(self, folder: Path, *masks: object) -> None:
        self.clock = SetClock(0.0, UTC)
        camera = parse(CameraSettings, CAMERA | {"masks": list(masks)})
        self.maker = ClipMaker(camera, ClipSettings(), folder, self.clock)
        self.given: list[weakref.ref[Observation]] = []

    def play(self, video: Path, until_s: float, ends: bool = False) -> None:
        with av.open(str(video)) as container:
            stream = container.streams.video[0]
            tapped = TappedStream(self.maker.ring, self.maker.ring.attempt(), stream)
            for packet in container.demux(stream):
                if packet.pts is None or float(packet.pts * packet.time_base) > until_s:
                    break
                at_s = float(packet.pts * packet.time_base)
                tapped.packet(packet, at_s + 0.2, UTC + at_s + 0.2)
                for frame in packet.decode():
                    tapped.shown(frame, UTC + float(frame.time))
            self.clock.advance(max(0.0, until_s - self.clock.monotonic()))
            if ends:
                tapped.ends()

    def answer(self, at_s: float, *classes: int) -> None:
        boxes = np.array([[0.1, 0.2, 0.3, 0.4]] * len(classes), np.float32).reshape(-1, 4)
        found = Detections.build(boxes, [0.9] * len(classes), list(classes))
        utc_s = UTC + at_s + self.clock.set_by_s
        observation = Observation("north", 1, at_s, utc_s, "v1", found, False)
        self.given.append(weakref.ref(observation))
        self.maker.answered(observation)

    @property
    def answers_held(self) -> int:
        return sum(given() is not None for given in self.given)

    def ask(self, number: int, at_s: float, before_s: float = 1.0, after_s: float = 1.0) -> None:
        at = UTC + at_s
        self.maker.ask(ClipAsked(number, "north", at, at - before_s, at + after_s))

    def done(self, now_s: float) -> list[ClipMade | ClipFailed]:
        found: list[ClipMade | ClipFailed] = []
        self.clock.advance(max(0.0, now_s - self.clock.monotonic()))
        assert wait_for(lambda: found.extend(self.maker.step()) or found)  # type: ignore[func-returns-value]
        return found


def test_a_clip_waits_for_its_end_and_carries_the_boxes_of_its_pictures(video: Path, tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    worker.play(video, 2.9)
    worker.answer(0.0, 0)
    worker.answer(2.5, 0, 1)
    worker.ask(1, 2.5)
    assert worker.maker.step() == [], "its end is to come"
    worker = Worker(tmp_path)
    worker.play(video, 5.0)
    worker.answer(0.0, 0)
    worker.answer(2.5, 0, 1)
    worker.answer(2.55, 0)  # of a picture that the ring does not know
    worker.ask(1, 2.5)
    (made,) = worker.done(5.0)
    assert isinstance(made, ClipMade)
    assert (made.begins_utc_s, made.end, made.missing_before_s, made.codec) == (UTC + 1.0, "whole", 0.0, "h264")
    assert made.seconds == pytest.approx(2.5, abs=0.11), "from the key frame before to the wanted end"
    document = json.loads(boxes_path(clip_path(tmp_path, "north", 1)).read_text())
    assert [(a["at_s"], [b["class"] for b in a["boxes"]]) for a in document["answers"]] == [(1.5, ["car", "bus"])]
    assert document["begins_utc_s"] == UTC + 1.0
    worker.maker.close()


def test_a_camera_that_goes_ends_the_clip_there(video: Path, tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    worker.play(video, 3.0, ends=True)
    worker.ask(1, 2.5, after_s=4.0)
    (made,) = worker.done(3.1)
    assert isinstance(made, ClipMade)
    assert (made.end, made.missing_after_s) == ("camera_gone", pytest.approx(3.5, abs=0.11))
    worker.ask(2, 30.0)
    assert worker.done(40.0) == [ClipFailed(2, "north", "not_in_ring", UTC, UTC + 3.0)], "it has what can be had"


def test_a_worker_that_ends_finishes_what_it_has(video: Path, tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    worker.play(video, 3.0)
    for number in range(1, 6):
        worker.ask(number, 2.5, after_s=5.0)
    ended = {d.number: d for d in worker.maker.finish()}
    assert ended.pop(5) == ClipFailed(5, "north", "too_many")
    assert [isinstance(d, ClipMade) and d.end for d in ended.values()] == ["cut_short"] * 4
    assert worker.maker.finish() == []


def test_a_disk_that_refuses_and_a_codec_that_cannot_be_kept(video: Path, tmp_path: Path) -> None:
    (tmp_path / "clips").write_text("a file where the folder should be")
    worker = Worker(tmp_path)
    worker.play(video, 4.0)
    worker.ask(1, 2.5)
    assert worker.done(4.0) == [ClipFailed(1, "north", "not_written")]
    other = Worker(tmp_path)
    other.maker.ring.begins(other.maker.ring.attempt(), "mpeg4", b"")
    other.ask(1, 2.5)
    assert other.maker.step() == [], "a picture may be on its way"
    assert other.done(9.0) == [ClipFailed(1, "north", "codec")]


def test_answers_are_remembered_as_long_as_their_pictures_whatever_the_clock_does(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    remembered = 2 * round(ClipSettings().ring_s) + 1
    for second in range(1000):
        worker.clock.set_by_s = 3600.0 if 300 <= second < 600 else 0.0
        worker.answer(float(second), 0)
        assert worker.answers_held == min(second + 1, remembered), f"after {second} s"
    worker.maker.close()


def test_a_clock_that_is_set_back_holds_no_clip_up(video: Path, tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    worker.play(video, 3.0)
    worker.ask(1, 2.5, after_s=2.0)
    worker.clock.set_by_s = -3600.0
    assert worker.maker.step() == []
    worker.clock.advance(2.0 + PATIENCE_S)
    (made,) = worker.done(3.0)
    assert isinstance(made, ClipMade)
    assert made.missing_after_s == pytest.approx(1.5, abs=0.11)


DOOR = {"name": "door", "polygon": [[0.1, 0.1], [0.4, 0.1], [0.4, 0.4]]}


def test_a_clip_that_is_not_written_when_its_worker_ends_is_reported_and_leaves_nothing(
    video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(tmp_path, DOOR)
    begun, go_on = threading.Event(), threading.Event()
    masked = Masker.frame

    def slow(masker: Masker, frame: av.VideoFrame) -> av.VideoFrame:
        begun.set()
        assert go_on.wait(30.0)
        return masked(masker, frame)

    monkeypatch.setattr(Masker, "frame", slow)
    worker.play(video, 3.0)
    for number in (1, 2):
        worker.ask(number, 2.5, after_s=5.0)
    assert worker.maker.step(cut_short=True) == []
    assert begun.wait(30.0)
    assert worker.maker.finish(0.0) == [ClipFailed(n, "north", "interrupted") for n in (1, 2)]
    go_on.set()
    worker.maker._writer.shutdown(wait=True)
    assert list((tmp_path / "clips" / "north").iterdir()) == []

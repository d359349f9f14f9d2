"""A camera's answers: counted, sent to the tracker, shown to viewers."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from edge.core.vision import Detections, Frame, Observation, ResolutionProbe
from edge.runtime import messages as m
from edge.runtime.answer_counts import AnswerCounts
from edge.runtime.answer_feed import AnswerFeed
from edge.runtime.answer_ways import AnswerWays
from edge.runtime.application_feed import ApplicationFeed
from edge.runtime.live_preview import LivePreview

FOUND = Detections(np.array([[0.25, 0.25, 0.5, 0.5]], np.float32), np.array([0.9], np.float32), np.array([0]))


def frame(number: int, at_s: float, width: int = 1280, height: int = 720) -> Frame:
    return Frame("a", number, at_s, 1000.0 + at_s, np.full((height, width, 3), 90, np.uint8))


def answer(number: int, at_s: float, inference_s: float = 0.02, probe: ResolutionProbe | None = None) -> Observation:
    return Observation("a", number, at_s, 1000.0 + at_s, "v1", FOUND, inference_s=inference_s, probe=probe)


def size_of(jpeg: bytes) -> tuple[int, int]:
    height, width = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR).shape[:2]
    return int(width), int(height)


# -- counts


def test_rate_and_cost_are_those_of_the_latest_answers() -> None:
    counts = AnswerCounts()
    assert (counts.rate(0.0), counts.mean_ms()) == (0.0, 0.0)
    probe = ResolutionProbe(0.5, agreement=0.9, seconds=0.01)
    for n in range(10):
        counts.answered(answer(n, float(n), 0.02, probe), 0.03, float(n))
    assert counts.rate(9.0) == 6 / 5.0, "of five seconds, both ends included"
    assert counts.rate(100.0) == 0.0
    assert counts.mean_ms() == pytest.approx(50.0)
    assert counts.answering_s == pytest.approx(0.3), "probes are device time, converting is not"
    assert (counts.answers, counts.last_utc_s) == (10, 1009.0)


def test_answers_that_clearly_go_missing_are_counted() -> None:
    counts = AnswerCounts()
    for n in range(5):
        counts.answered(answer(n, float(n)), 0.0, float(n))
    counts.expect(5.0, 4.0)
    assert counts.unanswered == 0, "too few to tell"
    counts.answered(answer(5, 4.5), 0.0, 4.5)
    counts.expect(1.4, 4.5)
    assert counts.unanswered == 0, "1.2 of 1.4 a second"
    counts.expect(5.0, 4.5)
    assert counts.unanswered == 4


# -- the feed


def test_ten_answers_a_second_are_sent_and_the_others_counted() -> None:
    feed = AnswerFeed(ApplicationFeed("gate", (), None))
    offered = [feed.offer(frame(n, 100.0 + n * 0.05), answer(n, 100.0 + n * 0.05)) for n in range(6)]
    assert [t.number for t in offered if t is not None] == [0, 2, 4]
    assert feed.not_sent == 3
    assert offered[0] is not None
    assert (offered[0].at_s, offered[0].utc_s, offered[0].answer) == (100.0, 1100.0, FOUND)


def test_pictures_are_those_of_frames_announced_lately() -> None:
    feed = AnswerFeed(ApplicationFeed("gate", (), None))
    for n in range(4):
        feed.offer(frame(n, 100.0 + n), answer(n, 100.0 + n))
    whole, part = (
        m.PictureWanted(m.PictureOf("alarms", 1)),
        m.PictureWanted(m.PictureOf("objects", 2), (0.25, 0.25, 0.5, 0.5)),
    )
    shown = list(feed.pictures(m.TakePictures(3, (whole, part))))
    assert [p.of for p in shown] == [whole.of, part.of]
    assert size_of(shown[0].jpeg) == (640, 360)
    assert size_of(shown[1].jpeg) == (320, 180), "the object and half its size around it"
    assert [p.jpeg for p in feed.pictures(m.TakePictures(0, (whole,)))] == [b""], "gone"


# -- the live picture


def test_no_picture_is_due_at_a_rate_of_0() -> None:
    assert not LivePreview(0.0).due(1e9)


def test_a_live_picture_is_as_wide_and_as_often_as_asked() -> None:
    preview = LivePreview(10.0, 320)
    assert preview.due(100.0)
    shown = preview.picture(frame(1, 100.0), answer(1, 100.0))
    assert shown is not None
    assert (shown.number, shown.width, shown.height, size_of(shown.jpeg)) == (1, 320, 180, (320, 180))
    assert (shown.stale, shown.model_version) == (False, "v1")
    assert [preview.due(t) for t in (100.05, 100.1)] == [False, True]
    preview.width = 4000
    wide = preview.picture(frame(2, 101.0), answer(2, 101.0))
    assert wide is not None
    assert wide.width == 1280, "never wider than it is"


def test_answers_go_on_once_that_was_right_often_enough() -> None:
    ways = AnswerWays("gate", ("car",))

    def cars(t: float) -> Detections:
        boxes = [(x, y, x + 0.1, y + 0.1) for y in (0.1, 0.4, 0.7) for x in [0.05 + 0.1 * t]]
        return Detections.build(boxes, [0.9] * 3, [0] * 3)

    said = [ways.after(cars(n * 0.5), n * 0.5) for n in range(15)]
    assert said[0] is None, "nothing is known of a first answer"
    assert said[-1] is not None
    assert np.allclose(said[-1][:, 0], 0.1, atol=0.02)
    assert np.allclose(said[-1][:, 1:], 0.0, atol=0.05)
    assert ways.after(cars(7.0).select(np.array([0])), 7.0) is None, "another answer to the same moment"

"""The newest picture's place: numbers only grow, and a picture that was not taken is counted as replaced."""

from __future__ import annotations

import numpy as np

from edge.ingest.newest import NewestFrame
from edge.ingest.timing import FrameTime

PICTURE = np.zeros((36, 64, 3), np.uint8)


def put(newest: NewestFrame, at_s: float) -> bool:
    return newest.put(PICTURE, FrameTime(at_s, 1000.0 + at_s, 0.0), 64, 36)


def test_a_frame_is_there_for_those_who_have_seen_older_ones() -> None:
    newest = NewestFrame("gate")
    assert not newest.has(0)
    assert newest.take(0) is None
    put(newest, 1.5)
    assert newest.has(0)
    found = newest.take(0)
    assert found is not None
    assert (found.camera, found.number, found.monotonic_s, found.utc_s) == ("gate", 1, 1.5, 1001.5)
    assert (found.width, found.height) == (64, 36)
    assert newest.take(0) is found, "it stays for others"
    assert newest.take(1) is None


def test_a_frame_that_was_not_taken_is_replaced() -> None:
    newest = NewestFrame("gate")
    assert not put(newest, 0.0)
    assert put(newest, 1.0)
    newest.take(1)
    assert not put(newest, 2.0)
    assert newest.take(3) is None
    assert put(newest, 3.0), "to ask for a later one takes nothing"


def test_numbers_go_on_after_a_frame_was_let_go() -> None:
    newest = NewestFrame("gate")
    put(newest, 0.0)
    newest.clear()
    assert newest.take(0) is None
    put(newest, 1.0)
    found = newest.take(0)
    assert found is not None
    assert found.number == 2

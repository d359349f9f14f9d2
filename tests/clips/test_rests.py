"""The rests of a thread that codes a clip anew."""

from __future__ import annotations

from typing import Any

import pytest

from edge.clips.rests import LONGEST_S, Rests
from edge.core.errors import StoreError


def test_a_clip_rests_after_each_picture_as_long_as_that_took_until_its_process_ends() -> None:
    times = iter([0.0, 0.04, 1.0, 9.0, 20.0, 30.0])
    rested: list[float] = []
    rests = Rests(lambda: next(times), rested.append)
    each = rests.between(lambda frame: frame)
    frame: Any = object()
    assert [each(frame), each(frame), each(frame)] == [frame] * 3
    assert rested == [pytest.approx(0.04), LONGEST_S]
    rests.none()
    each(frame)
    assert len(rested) == 2
    rests.give_up()
    with pytest.raises(StoreError, match="given up"):
        each(frame)

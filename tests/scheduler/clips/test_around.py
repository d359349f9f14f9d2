"""The clip that shows a moment: kept, in the making, still to be had, or why there is none."""

from __future__ import annotations

import pytest

from edge.core.clips import ClipAround, ClipSpan, NoClipReason, VideoNow
from scheduler.clips.around import clip_around

NOW = 1000.0
RING = VideoNow(20.0)


def test_the_clip_that_shows_most_around_the_moment_is_taken() -> None:
    clips = [ClipSpan(1, 890.0, 901.0, False), ClipSpan(2, 895.0, 915.0, False), ClipSpan(3, 880.0, 920.0, True)]
    assert clip_around(clips, 900.0, NOW, RING) == ClipAround("kept", 2)
    assert clip_around(clips[2:], 900.0, NOW, RING) == ClipAround("making", 3)
    twice = [ClipSpan(4, 890.0, 910.0, False), ClipSpan(5, 890.0, 910.0, False)]
    assert clip_around(twice, 900.0, NOW, VideoNow(missing="camera_removed")) == ClipAround("kept", 5)


def test_one_is_made_of_what_is_in_memory() -> None:
    assert clip_around([ClipSpan(1, 890.0, 901.0, False)], 985.0, NOW, RING) == ClipAround("can_be_made", held_s=20.0)
    assert clip_around([], 979.0, NOW, RING) == ClipAround("none", reason="too_old", held_s=20.0)
    assert clip_around([], 1002.0, NOW, RING) == ClipAround("none", reason="in_future")


@pytest.mark.parametrize("reason", ["not_kept", "camera_off", "camera_removed", "camera_away", "no_video"])
def test_where_no_video_is_in_memory_the_reason_is_reported(reason: NoClipReason) -> None:
    assert clip_around([], 999.0, NOW, VideoNow(missing=reason)) == ClipAround("none", reason=reason)


def test_a_clip_that_shows_next_to_nothing_around_the_moment_gives_way_to_one_that_can_be_made() -> None:
    barely = [ClipSpan(1, 980.0, 990.5, False)]
    assert clip_around(barely, 990.0, NOW, RING) == ClipAround("can_be_made", held_s=20.0)
    assert clip_around(barely, 990.0, NOW, VideoNow(missing="camera_off")) == ClipAround("kept", 1)
    assert clip_around(barely, 988.0, NOW, RING) == ClipAround("kept", 1)


def test_a_clip_that_was_asked_for_the_moment_is_the_last_choice() -> None:
    late = ClipSpan(1, 892.0, 905.0, False, (885.0, 905.0))
    assert clip_around([late], 890.0, NOW, RING) == ClipAround("kept", 1)
    assert clip_around([late, ClipSpan(2, 889.5, 900.0, False)], 890.0, NOW, RING) == ClipAround("kept", 2)
    assert clip_around([late], 884.0, NOW, RING).reason == "too_old"

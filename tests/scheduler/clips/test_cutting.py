"""Where clips are cut, when, and which alarm needs none of its own."""

from __future__ import annotations

import pytest

from edge.core.clips import ClipAsked, Cut, VideoStretch, check_span
from edge.core.errors import InvalidValue
from edge.ingest.timing import CaptureClock
from scheduler.clips.asking import check_moment, joined
from scheduler.clips.cutting import PATIENCE_S, cut, cut_by, due
from scheduler.clips.keeping import StoredClip, to_drop

ASKED = ClipAsked(1, "north", 100.0, 95.0, 110.0)
LIVE = VideoStretch(3, (90.0, 92.0, 94.0, 96.0, 98.0), 111.0)


def test_a_clip_begins_at_the_last_key_frame_before_it() -> None:
    assert cut(ASKED, [LIVE]) == Cut(3, 2, 110.0, 0.0, 0.0, "whole")
    late = VideoStretch(3, (97.0, 99.0), 111.0)
    assert cut(ASKED, [late]) == Cut(3, 0, 110.0, 2.0, 0.0, "whole"), "the part that the ring does not hold is reported"


@pytest.mark.parametrize("ended", ["camera_gone", "coding_changed"])
def test_a_clip_ends_where_its_stretch_ends_and_says_so(ended: str) -> None:
    gone = VideoStretch(3, (94.0, 96.0), 104.0, ended)  # type: ignore[arg-type]
    back = VideoStretch(4, (106.0,), 111.0)
    assert due(ASKED, [gone]), "nothing more comes of it"
    assert cut(ASKED, [gone, back]) == Cut(3, 0, 110.0, 0.0, 6.0, ended)  # type: ignore[arg-type]


def test_a_moment_without_video_takes_the_stretch_with_most_of_the_clip() -> None:
    before, after = VideoStretch(3, (90.0,), 96.0, "camera_gone"), VideoStretch(4, (103.0,), 111.0)
    found = cut(ASKED, [before, after])
    assert found is not None
    assert (found.stretch, found.missing_before_s) == (4, 8.0)
    assert cut(ASKED, [VideoStretch(3, (50.0,), 60.0, "camera_gone")]) is None
    assert cut(ASKED, []) is None


def test_a_stream_that_stands_still_ends_the_clip() -> None:
    still = VideoStretch(3, (94.0,), 104.0)
    assert not due(ASKED, [still])
    assert not due(ASKED, [])
    found, ended = cut(ASKED, [still]), cut(ASKED, [still], cut_short=True)
    assert found is not None
    assert ended is not None
    assert (found.end, ended.end) == ("camera_gone", "cut_short")
    assert due(ASKED, [LIVE])


def test_patience_outlasts_pictures_that_are_on_their_way_and_clocks_that_are_set() -> None:
    arrived = 100.0 + 0.9 * PATIENCE_S
    assert CaptureClock().frame(arrived, arrived, 100.0).delay_s == 0.0, "so late no camera is taken at its word"
    assert cut_by(ASKED, 100.0, 7.0) == 17.0 + PATIENCE_S
    assert cut_by(ASKED, 108.0, 7.0) == 9.0 + PATIENCE_S
    assert cut_by(ASKED, 500.0, 7.0) == 7.0 + PATIENCE_S
    assert cut_by(ASKED, -3500.0, 7.0) == 17.0 + PATIENCE_S, "the clock was set back by an hour since the alarm"


@pytest.mark.parametrize(
    ("before", "after", "field", "allowed"),
    [
        (5.0, 16.0, "after_s", "0 to 15: the ring holds 20 s"),
        (21.0, 1.0, "before_s", "from 0 to 20"),
        (0.4, 0.4, "after_s", "at least 1 s"),
        (5.0, float("nan"), "after_s", "0 to 15"),
    ],
)
def test_a_clip_longer_than_the_ring_is_refused_with_what_can_be_had(
    before: float, after: float, field: str, allowed: str
) -> None:
    with pytest.raises(InvalidValue) as refused:
        check_span(before, after, 20.0)
    assert refused.value.path == field
    assert allowed in refused.value.allowed


def test_moments_that_the_ring_cannot_hold() -> None:
    check_span(5.0, 15.0, 20.0)
    check_moment(990.0, 1000.0, 20.0)
    for moment in (979.0, 1002.0):
        with pytest.raises(InvalidValue, match="at_utc_s"):
            check_moment(moment, 1000.0, 20.0)
    with pytest.raises(InvalidValue, match="at_utc_s"):
        ClipAsked(1, "north", 111.0, 95.0, 110.0)


def test_an_alarm_shares_a_clip_that_shows_it() -> None:
    wanted = {"before_s": 5.0, "after_s": 10.0}
    assert joined([ASKED], "north", 105.0, **wanted) == ASKED
    assert joined([ASKED], "north", 105.5, **wanted) is None, "less than half of what comes after it would be seen"
    assert joined([ASKED], "north", 97.5, **wanted) == ASKED
    assert joined([ASKED], "north", 97.0, **wanted) is None
    assert joined([ASKED], "south", 100.0, **wanted) is None


def test_old_clips_go_then_the_oldest_but_never_the_newest() -> None:
    clips = [StoredClip(n, "north", 100.0 + n, 10) for n in range(1, 6)]
    assert [c.number for c in to_drop(clips, 103.0, 1000)] == [1, 2]
    assert [c.number for c in to_drop(clips, 0.0, 25)] == [1, 2, 3]
    assert [c.number for c in to_drop(clips, 0.0, 5)] == [1, 2, 3, 4], "one clip that is larger than the limit stays"
    assert to_drop([StoredClip(1, "north", 50.0, 0)], 100.0, 0)[0].number == 1, "records without a file go by age"

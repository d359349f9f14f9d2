"""The choice among the streams of a camera."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.discovery import PROPOSALS, MediaProfile, StreamNeed
from scheduler.substreams import judge

NEED = StreamNeed(416, 416, 5.0)


def stream(token: str, codec: str = "h264", width: int = 640, height: int = 360, fps: float = 15, kbps: int = 512,
           url: str = "rtsp://192.0.2.1/") -> MediaProfile:  # fmt: skip
    return MediaProfile(token, token, codec, width, height, fps, kbps, url)


def test_the_cheapest_that_is_good_enough_is_proposed() -> None:
    main, sub = stream("main", "h265", 3840, 2160, 25), stream("sub")
    third = stream("third", width=352, height=288)
    assert judge([main, sub, third], NEED) == ("dearer", "proposed", "too_small")


def test_a_picture_that_fills_a_fixed_input_along_one_side_is_not_enlarged() -> None:
    assert judge([stream("wide", width=416, height=234)], NEED) == ("proposed",)
    assert judge([stream("tall", width=234, height=416)], NEED) == ("proposed",)
    assert judge([stream("small", width=415, height=415)], NEED) == ("nearest",)


@pytest.mark.parametrize(
    ("width", "height", "verdict"),
    [(416, 234, "nearest"), (511, 287, "nearest"), (512, 288, "proposed"), (640, 360, "proposed"),
     (416, 416, "proposed"), (415, 415, "nearest"), (288, 512, "proposed"), (1920, 90, "proposed"),
     (352, 288, "nearest")],
)  # fmt: skip
def test_an_input_in_the_proportions_of_the_picture_is_larger_than_the_square(
    width: int, height: int, verdict: str
) -> None:
    """As inference does: 416 x 234 would be enlarged to 512 x 288."""
    need = StreamNeed(416, 416, 5.0, fixed=False)
    assert judge([stream("one", width=width, height=height)], need) == (verdict,)


@pytest.mark.parametrize(
    ("profile", "verdict"),
    [
        (stream("a", codec=""), "no_encoder"),
        (stream("b", width=0), "no_size"),
        (stream("c", codec="jpeg"), "codec"),
        (stream("d", url=""), "no_address"),
        (MediaProfile("e", "e", "h264", 640, 360, 15, 0, "", "elsewhere"), "elsewhere"),
        (MediaProfile("g", "g", "h264", 640, 360, 15, 0, "", "refused"), "refused"),
        (stream("f", fps=4), "too_slow"),
    ],
)
def test_why_a_stream_is_not_chosen(profile: MediaProfile, verdict: str) -> None:
    assert judge([profile, stream("good")], NEED) == (verdict, "proposed")


def test_a_rate_that_is_not_said_is_no_reason_against_but_none_for_a_stream() -> None:
    assert judge([stream("unsaid", fps=0)], NEED) == ("proposed",)
    assert judge([stream("unsaid", fps=0), stream("said", fps=25)], NEED) == ("dearer", "proposed")


def test_where_none_is_good_enough_the_nearest_is_large_enough_and_the_fastest_and_cheapest() -> None:
    large = stream("large", width=3840, height=2160, fps=2)
    assert judge([large, stream("a", fps=2), stream("b", fps=1)], NEED) == ("too_slow", "nearest", "too_slow")
    assert judge([large, stream("a", fps=1)], NEED) == ("nearest", "too_slow"), "the rate counts more"


def test_where_none_is_large_enough_the_largest_picture_is_nearest() -> None:
    small = [stream("small", width=320, height=240), stream("smaller", width=320, height=180, fps=60)]
    assert judge(small, NEED) == ("nearest", "too_small")
    slow, small = stream("slow", fps=2), stream("small", width=320, height=240)
    assert judge([small, slow, stream("none", codec="")], NEED) == ("too_small", "nearest", "no_encoder")
    assert judge([stream("none", codec="")], NEED) == ("no_encoder",)
    assert judge([], NEED) == ()


def test_of_two_alike_the_lower_bit_rate_is_cheaper() -> None:
    assert judge([stream("a", kbps=900), stream("b", kbps=300)], NEED) == ("dearer", "proposed")


PROFILES = st.builds(
    stream, st.text("ab", min_size=1, max_size=3), st.sampled_from(["h264", "h265", "jpeg", ""]),
    st.integers(0, 900), st.integers(0, 900), st.sampled_from([0.0, 1.0, 5.0, 25.0]), st.integers(0, 999),
    st.sampled_from(["", "rtsp://192.0.2.1/"]),
)  # fmt: skip


@given(st.lists(PROFILES, max_size=5), st.booleans())
def test_one_at_most_is_proposed_and_nothing_that_cannot_be_opened(profiles: list[MediaProfile], fixed: bool) -> None:
    verdicts = judge(profiles, StreamNeed(416, 416, 5.0, fixed))
    assert len(verdicts) == len(profiles)
    proposed = [p for p, v in zip(profiles, verdicts, strict=True) if v in PROPOSALS]
    assert len(proposed) <= 1
    assert all(p.url and p.codec in ("h264", "h265") for p in proposed)
    assert proposed or not any(p.url and p.codec in ("h264", "h265") and p.width and p.height for p in profiles)
    assert sum(v == "dearer" for v in verdicts) == 0 or "proposed" in verdicts

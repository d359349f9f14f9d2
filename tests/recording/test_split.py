"""Train and held-out: by time, both with objects, clear errors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.errors import InvalidValue, LabelError
from edge.core.labels import LabelledFrame, SampledFrame
from edge.core.vision import Detections
from edge.recording import build_labelled_window, split_by_time


def labelled(number: int, utc_s: float, classes: list[int], window: int = 1, camera: str = "c") -> LabelledFrame:
    n = len(classes)
    labels = Detections.build(np.tile([0.1, 0.1, 0.5, 0.5], (n, 1)), np.full(n, 0.9), classes)
    sample = SampledFrame(camera, window, number, utc_s, Path(f"{number}.jpg"), Detections.empty(), "v")
    return LabelledFrame(sample, labels, "t")


def test_the_latest_part_is_held_out() -> None:
    frames = [labelled(i, float(i), [0]) for i in range(10)]
    split = split_by_time(list(reversed(frames)), 0.3)
    assert [f.frame.number for f in split.train] == list(range(7))
    assert [f.frame.number for f in split.held_out] == [7, 8, 9]


def test_the_cut_moves_a_little_so_that_both_parts_know_each_class() -> None:
    # Class 1 is seen at 6 and 8 only: the cut at 7 serves, the one at 6 (0.4 held out) does not.
    frames = [labelled(i, float(i), [0, 1] if i in (6, 8) else [0]) for i in range(10)]
    split = split_by_time(frames, 0.4)
    assert len(split.train) == 7


def test_frames_in_the_gap_belong_to_no_part() -> None:
    frames = [labelled(i, float(i), [0]) for i in range(10)]
    split = split_by_time(frames, 0.3, gap_s=2.5)
    assert [f.frame.number for f in split.gap] == [5, 6]
    assert [f.frame.number for f in split.train] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("classes", "message"),
    [([[0]] * 3, "too few"), ([[]] * 8, "none of the 8"), ([[0]] + [[]] * 7, "no split by time")],
)
def test_what_cannot_be_split_says_why(classes: list[list[int]], message: str) -> None:
    with pytest.raises(LabelError, match=message):
        split_by_time([labelled(i, float(i), c) for i, c in enumerate(classes)])


def test_window_leaves_out_its_own_exemplars_and_refuses_foreign_frames() -> None:
    frames = [labelled(i, float(i), [0], window=4) for i in range(8)]
    older = [labelled(50, -9.0, [0], window=2), labelled(51, 1.0, [0], window=4)]
    window = build_labelled_window("c", 4, "detection", ("car",), frames, 0.25, older)
    assert [e.frame.number for e in window.exemplars] == [50]
    assert len(window.all_sampled) == 8
    with pytest.raises(InvalidValue, match=r"frames\[\].camera"):
        build_labelled_window("other", 4, "detection", ("car",), frames)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1000), st.lists(st.integers(0, 3), max_size=3)), max_size=30),
    st.floats(0.1, 0.5),
    st.floats(0, 50),
)
def test_parts_are_disjoint_ordered_and_complete(
    rows: list[tuple[float, list[int]]], share: float, gap_s: float
) -> None:
    frames = [labelled(i, t, c) for i, (t, c) in enumerate(rows)]
    try:
        split = split_by_time(frames, share, gap_s=gap_s)
    except LabelError:
        return
    parts = (split.train, split.gap, split.held_out)
    assert sorted(f.frame.number for part in parts for f in part) == list(range(len(rows)))
    assert min(len(split.train), len(split.held_out)) >= 2
    for part in (split.train, split.held_out):
        assert any(len(f.labels) for f in part)
    start = split.held_out[0].frame.utc_s
    assert all(f.frame.utc_s <= start - gap_s for f in split.train)
    assert all(start - gap_s < f.frame.utc_s <= start for f in split.gap)

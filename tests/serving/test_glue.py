"""Operations between the stages of an application, against the simplest way to say the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from edge.core.applications import Crop, CropBoxes, Feed, Grey, Normalise, Operation, Resize, ValueSource
from edge.core.errors import InvalidValue
from edge.serving.glue import apply, cut_boxes, prepare, spread

BOXES = ValueSource("f", "boxes")


def pictures(rows: int = 2, height: int = 20, width: int = 30, channels: int = 3, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (rows, height, width, channels), dtype=np.uint8)


def test_a_crop_is_a_part_of_the_picture() -> None:
    x = pictures()
    assert np.array_equal(apply(Crop(0.5, 0.25, 1, 0.75), x), x[:, 5:15, 15:30])
    assert apply(Crop(0.999, 0.999, 1, 1), x).shape == (2, 1, 1, 3)  # never nothing


def test_grey_weighs_the_colours() -> None:
    x = np.zeros((1, 1, 4, 3), np.uint8)
    x[0, 0] = [[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]]
    assert apply(Grey(), x).ravel().tolist() == [76, 150, 29, 255]
    grey = pictures(channels=1)
    assert apply(Grey(), grey) is grey


def test_normalise_moves_the_channels_first() -> None:
    x = pictures()
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.6, 0.7)
    got = apply(Normalise(mean, std), x)
    expected = ((x.astype(np.float64) / 255 - mean) / std).transpose(0, 3, 1, 2)
    assert got.dtype == np.float32
    assert got.flags.c_contiguous
    np.testing.assert_allclose(got, expected, atol=1e-5)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_resize_keeps_rows_channels_and_flat_areas(channels: int, dtype: type) -> None:
    x: NDArray[Any] = np.full((3, 40, 20, channels), 7, dtype)
    x[1] = 9
    for size in ((10, 10), (80, 50), (40, 20), (1, 1)):
        got = apply(Resize(*size), x)
        assert got.shape == (3, *size, channels)
        assert got.dtype == dtype
        assert (got[0] == 7).all()
        assert (got[1] == 9).all()


def test_resize_shrinks_by_areas() -> None:
    x = pictures(1, 4, 4, 1)
    expected = x.reshape(1, 2, 2, 2, 2, 1).astype(float).mean(axis=(2, 4))
    assert np.abs(apply(Resize(2, 2), x) - expected).max() <= 0.5


def cut(x: NDArray[Any], boxes: Any, most: int = 3, **more: Any) -> tuple[NDArray[Any], list[int]]:
    values: dict[ValueSource, NDArray[Any]] = {BOXES: np.asarray(boxes, np.float32)}
    for name in ("scores", "labels"):
        if name in more:
            source = ValueSource("f", name)
            values[source] = np.asarray(more[name])
            more[name] = source
    cuts, counts, _ = cut_boxes(CropBoxes(BOXES, 4, 4, most, **more), x, values)
    assert counts.dtype == np.int32
    return cuts, counts.tolist()


def test_boxes_are_cut_out_the_likeliest_first() -> None:
    x = np.zeros((2, 10, 10, 3), np.uint8)
    x[0, :5, :5], x[0, :5, 5:], x[0, 5:, :5] = 1, 2, 3
    x[1] = 4
    quarters = [[0, 0, 0.5, 0.5], [0.5, 0, 1, 0.5], [0, 0.5, 0.5, 1]]
    cuts, counts = cut(x, [quarters, quarters], 2, scores=[[0.1, 0.9, 0.5], [0.2, 0.6, 0.1]], above=0.15)
    assert counts == [2, 2]
    assert cuts[:, 0, 0, 0].tolist() == [2, 3, 4, 4]
    cuts, counts = cut(x, [quarters, quarters], labels=[[5, 6, 7], [5, 5, 5]], classes=(6, 7))
    assert counts == [2, 0]
    assert cuts[:, 3, 3, 0].tolist() == [2, 3]


def test_boxes_in_pixels_of_the_detectors_picture() -> None:
    x = pictures(1, 10, 10)
    in_pixels = cut(x, [[[0, 32, 64, 64]]], scale=(64, 128))
    assert np.array_equal(in_pixels[0], cut(x, [[[0, 0.5, 0.5, 1]]])[0])


def test_boxes_beyond_the_picture_are_cut_off_and_senseless_ones_left_out() -> None:
    x = pictures(1, 10, 10)
    nan, inf = float("nan"), float("inf")
    boxes = [[-1, -1, 2, 2], [0.5, 0.5, 0.5, 0.9], [0.9, 0.1, 0.1, 0.9], [nan, 0, 1, 1], [0, 0, inf, 1], [2, 2, 3, 3]]
    cuts, counts = cut(x, [boxes], most=6)
    assert counts == [1]
    assert np.array_equal(cuts[0], apply(Resize(4, 4), x)[0])


def test_a_margin_and_a_square_around_a_box() -> None:
    x = pictures(1, 40, 40)
    box = [[[0.25, 0.375, 0.75, 0.625]]]  # columns 10-30, rows 15-25
    assert np.array_equal(cut(x, box, square=True)[0], apply(Resize(4, 4), x[:, 10:30, 10:30]))
    assert np.array_equal(cut(x, box, margin=1.5)[0][0], apply(Resize(4, 4), x[:, 12:28, 5:35])[0])
    assert np.array_equal(cut(x, box, margin=3, square=True)[0], apply(Resize(4, 4), x))


box_numbers = st.floats(-2, 3) | st.sampled_from([float("nan"), float("inf"), -float("inf"), 1e30, 0.0, 1.0])


@given(
    st.lists(st.tuples(*[box_numbers] * 4, st.floats(0, 1) | st.just(float("nan"))), max_size=6),
    st.integers(1, 4),
    st.booleans(),
    st.floats(0.1, 10),
)
@settings(max_examples=60)
def test_whatever_a_detector_says_the_cut_outs_fit(
    found: list[tuple[float, ...]], most: int, square: bool, margin: float
) -> None:
    x = pictures(1, 9, 7)
    boxes = np.array([f[:4] for f in found], np.float32).reshape(1, -1, 4)
    cuts, counts = cut(
        x, boxes, most, scores=np.array([[f[4] for f in found]]), above=0.5, square=square, margin=margin
    )
    assert cuts.shape == (counts[0], 4, 4, 3)
    assert counts[0] <= min(most, sum(f[4] >= 0.5 for f in found))


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.sampled_from([np.float32, object]))
def test_answers_go_back_to_their_rows(counts: list[int], dtype: type) -> None:
    total = sum(counts)
    answers = np.arange(1, total * 2 + 1).reshape(total, 2)
    answers = answers.astype(np.float32) if dtype is np.float32 else np.array(answers.astype("S").tolist(), object)
    got = spread(answers.reshape(total, 2), np.array(counts, np.int32), 3)
    assert got.shape == (len(counts), 3, 2)
    assert np.array_equal(np.concatenate([got[n, :k] for n, k in enumerate(counts)]), answers.reshape(total, 2))
    unused = np.concatenate([got[n, k:].ravel() for n, k in enumerate(counts)])
    assert all(u in (0, b"") for u in unused)


@pytest.mark.parametrize(
    ("operation", "array", "says"),
    [
        (Resize(2, 2), np.zeros((1, 3, 8, 8), np.uint8), "resize"),
        (Resize(2, 2), np.zeros((4, 4), np.uint8), "resize"),
        (Crop(0, 0, 1, 1), np.zeros((1, 0, 8, 3), np.uint8), "crop"),
        (Grey(), np.zeros((1, 8, 8, 3), np.int64), "int64"),
        (Normalise((0.5,), (0.5,)), np.zeros((1, 8, 8, 3), np.uint8), "1 channels"),
        (CropBoxes(ValueSource(None, "b"), 4, 4), np.zeros((1, 8, 8, 3), np.uint8), r"boxes \(b\)"),
        (
            CropBoxes(ValueSource(None, "c"), 4, 4, scores=ValueSource(None, "s")),
            np.zeros((1, 8, 8, 3), np.uint8),
            r"scores \(s\)",
        ),
    ],
)
def test_what_does_not_fit_an_operation_is_named(operation: Operation, array: NDArray[Any], says: str) -> None:
    named = {"p": array, "b": np.zeros((1, 5)), "c": np.zeros((1, 5, 4)), "s": np.zeros((1, 4))}
    values = {ValueSource(None, name): value for name, value in named.items()}
    with pytest.raises(InvalidValue, match=f"p: .*{says}|p: {says}"):
        prepare(Feed(ValueSource(None, "p"), (operation,)), values)


def test_many_tiny_pictures_are_not_made_into_gigabytes() -> None:
    tiny = np.broadcast_to(np.zeros((1, 1, 1, 1), np.uint8), (10**9, 1, 1, 1))
    with pytest.raises(InvalidValue, match=r"resize: got '1000000000 pictures of 224 x 224 .*fewer rows"):
        apply(Resize(224, 224), tiny)
    boxes = np.broadcast_to(np.array([0.0, 0.0, 1.0, 1.0], np.float32), (2, 1024, 4))
    cut = CropBoxes(boxes=BOXES, height=512, width=512, most=1024)
    with pytest.raises(InvalidValue, match=r"crop_boxes: got '1024 pictures of 512 x 512"):
        cut_boxes(cut, np.zeros((2, 4, 4, 1), np.uint8), {BOXES: boxes})


def test_what_passes_through_is_not_copied() -> None:
    x = pictures()
    assert prepare(Feed(ValueSource(None, "x")), {ValueSource(None, "x"): x}).array is x

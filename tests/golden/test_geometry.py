"""Overlap, suppression, fusion, tiles."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.vision import Detections
from edge.detectors.boxes import iou_matrix, suppress
from golden.geometry import from_tile, fuse, tiles


def boxes_of(draw_count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    low = rng.random((draw_count, 2)) * 0.7
    return np.concatenate([low, low + 0.05 + rng.random((draw_count, 2)) * 0.25], 1).astype(np.float32)


def test_iou_of_known_boxes() -> None:
    a = np.array([[0, 0, 2, 2], [0, 0, 0, 0]], np.float32)
    b = np.array([[1, 1, 3, 3], [0, 0, 2, 2], [5, 5, 6, 6]], np.float32)
    assert np.allclose(iou_matrix(a, b), [[1 / 7, 1, 0], [0, 0, 0]])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 25), st.integers(0, 999), st.floats(0.1, 0.9), st.integers(1, 10))
def test_suppression_keeps_the_best_and_nothing_that_overlaps_it(n: int, seed: int, iou: float, limit: int) -> None:
    rng = np.random.default_rng(seed)
    boxes, scores, classes = boxes_of(n, seed), rng.random(n).astype(np.float32), rng.integers(0, 2, n)
    kept = suppress(boxes, scores, classes, iou, limit)
    assert len(kept) <= limit
    assert list(scores[kept]) == sorted(scores[kept], reverse=True)
    overlap = iou_matrix(boxes, boxes)
    for a in kept:
        assert not any(overlap[a, b] > iou and classes[a] == classes[b] for b in kept if b != a)
    if len(kept) < limit:  # whatever went, went because of a better kept one
        for gone in set(range(n)) - set(kept.tolist()):
            assert any(
                overlap[gone, k] > iou and classes[k] == classes[gone] and scores[k] >= scores[gone] for k in kept
            )


def test_two_detectors_agree_on_a_box_between_theirs() -> None:
    one = Detections.build([[0.1, 0.1, 0.3, 0.3]], [0.9], [2])
    two = Detections.build([[0.12, 0.1, 0.32, 0.3]], [0.3], [2])
    fused = fuse([one, two], [1, 1], 0.5)
    assert np.allclose(fused.detections.boxes, [[0.105, 0.1, 0.305, 0.3]], atol=1e-6)  # 0.9 to 0.3
    assert fused.detections.scores[0] == pytest.approx(0.6)
    assert fused.agreement[0] == 1


def test_an_object_that_one_of_three_saw_scores_a_third() -> None:
    seen = Detections.build([[0.1, 0.1, 0.3, 0.3]], [0.9], [0])
    fused = fuse([seen, Detections.empty(), Detections.empty()], [1, 1, 1], 0.5)
    assert fused.detections.scores[0] == pytest.approx(0.3)
    assert fused.agreement[0] == pytest.approx(1 / 3)


def test_two_boxes_of_one_detector_do_not_count_twice() -> None:
    twice = Detections.build([[0.1, 0.1, 0.3, 0.3], [0.1, 0.1, 0.3, 0.31]], [0.8, 0.6], [0, 0])
    fused = fuse([twice, Detections.empty()], [1, 1], 0.5)
    assert len(fused.detections) == 1
    assert fused.detections.scores[0] == pytest.approx(0.4)


def test_other_classes_are_other_objects() -> None:
    a = Detections.build([[0.1, 0.1, 0.3, 0.3]], [0.8], [0])
    b = Detections.build([[0.1, 0.1, 0.3, 0.3]], [0.8], [1])
    assert len(fuse([a, b], [1, 1], 0.5).detections) == 2


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 8), min_size=1, max_size=4), st.integers(0, 999), st.floats(0.2, 0.8))
def test_fusion_stays_inside_what_the_members_said(counts: list[int], seed: int, iou: float) -> None:
    rng = np.random.default_rng(seed)
    members = [
        Detections.build(boxes_of(n, seed + i), rng.random(n), rng.integers(0, 2, n)) for i, n in enumerate(counts)
    ]
    weights = rng.random(len(counts)) + 0.1
    fused = fuse(members, list(weights), iou)
    total = sum(counts)
    assert len(fused.detections) <= total
    assert (len(fused.detections) > 0) == (total > 0)
    if total:
        every = np.concatenate([m.boxes for m in members])
        assert (fused.detections.boxes >= every.min(0) - 1e-5).all()
        assert (fused.detections.boxes <= every.max(0) + 1e-5).all()
        assert fused.detections.scores.max() <= max(float(m.scores.max()) for m in members if len(m)) + 1e-6
        assert list(fused.detections.scores) == sorted(fused.detections.scores, reverse=True)


@settings(max_examples=60, deadline=None)
@given(st.integers(20, 2000), st.integers(20, 2000), st.integers(1, 5), st.integers(1, 5), st.floats(0, 0.5))
def test_tiles_cover_the_picture(width: int, height: int, columns: int, rows: int, overlap: float) -> None:
    parts = tiles(width, height, columns, rows, overlap)
    assert len(parts) == columns * rows
    for axis, size in (("x", width), ("y", height)):
        spans = sorted({(getattr(t, axis + "0"), getattr(t, axis + "1")) for t in parts})
        assert spans[0][0] == 0
        assert spans[-1][1] == size
        assert all(b0 <= a1 for (_, a1), (b0, _) in itertools.pairwise(spans))
        assert all(0 <= a < b <= size for a, b in spans)


def test_a_box_comes_back_from_its_tile_and_cut_off_ones_do_not() -> None:
    left, right = tiles(100, 50, 2, 1, 0.2)
    assert (left.x1, right.x0) == (56, 44)
    found = Detections.build([[0.0, 0.2, 0.5, 0.6], [0.5, 0.2, 1.0, 0.6]], [0.9, 0.8], [1, 2])
    whole, kept = from_tile(found, left, 100, 50)
    assert kept.tolist() == [True, False]  # the second touches the side that is inside the picture
    assert np.allclose(whole.boxes, [[0.0, 0.2, 0.28, 0.6]], atol=0.01)

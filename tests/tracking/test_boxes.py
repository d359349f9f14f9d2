"""Arithmetic of boxes, many at once as one by one."""

from __future__ import annotations

import numpy as np

from edge.tracking import boxes as bx


def boxes(count: int, seed: int) -> bx.Boxes:
    rng = np.random.default_rng(seed)
    low = rng.uniform(0.0, 0.8, (count, 2))
    return np.concatenate([low, low + rng.uniform(0.02, 0.4, (count, 2))], 1)


def test_each_with_its_own_is_what_all_with_all_say_of_them() -> None:
    a, b = boxes(20, 1), boxes(20, 2)
    assert bx.iou_each(a, b).tolist() == np.diagonal(bx.iou(a, b)).tolist()
    both = bx.iou_and_within(a, b)
    assert both[0].tolist() == bx.iou(a, b).tolist()
    assert both[1].tolist() == bx.within(a, b).tolist()


def test_worked_boxes() -> None:
    a, b = np.array([[0.0, 0.0, 0.4, 0.4]]), np.array([[0.2, 0.2, 0.4, 0.6], [0.5, 0.5, 0.6, 0.6]])
    assert np.allclose(bx.iou(a, b), [[0.04 / 0.2, 0.0]], atol=1e-12)
    assert np.allclose(bx.within(a, b), [[0.5, 0.0]], atol=1e-12)


def test_a_box_is_cut_off_by_any_edge() -> None:
    inside = np.array([0.1, 0.1, 0.9, 0.9])
    at_edges = np.array([[0.0, 0.1, 0.9, 0.9], [0.1, 0.0, 0.9, 0.9], [0.1, 0.1, 1.0, 0.9], [0.1, 0.1, 0.9, 1.0]])
    assert bx.cut_off(np.array([inside, *at_edges])).tolist() == [False, True, True, True, True]

"""How an object looks, in a few numbers."""

from __future__ import annotations

import numpy as np

from edge.inference import looks


def test_what_a_look_is() -> None:
    picture = np.zeros((100, 200, 3), np.uint8)
    picture[:, :100] = (200, 30, 30)
    picture[:, 100:] = (30, 30, 200)
    boxes = np.array([[0.1, 0.2, 0.3, 0.8], [0.15, 0.3, 0.4, 0.9], [0.6, 0.2, 0.9, 0.8], [0.9, 0.9, 1.4, 1.3]])
    red, other_red, blue, _ = shown = looks.looks(picture, boxes)
    assert shown.shape == (4, looks.LENGTH)
    assert np.abs(red - other_red).max() < 0.01 < 0.5 < np.abs(red - blue).max()
    assert looks.looks(picture, np.zeros((0, 4))).shape == (0, looks.LENGTH)

"""Cameras over two boxes, so that both are loaded alike."""

from __future__ import annotations

from collections.abc import Mapping


def over_boxes(loads: Mapping[str, float], held: float = 0.0) -> dict[str, int]:
    """The box (1: this one, 2: the second) of each camera, by its load in devices; `held` is what this box does beside.
    The heaviest first, each to the box with less to do; cameras stay where it makes no difference."""
    sums = {1: held, 2: 0.0}
    placed: dict[str, int] = {}
    for camera in sorted(loads, key=lambda c: (-loads[c], c)):
        box = 2 if sums[2] < sums[1] - 1e-9 else 1
        placed[camera] = box
        sums[box] += loads[camera]
    return placed

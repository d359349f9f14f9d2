"""The pictures of a camera that teach others: few enough for a group of cameras, evenly drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from edge.core.labels import LabelledWindow

#: Kept-out pictures of earlier windows that each camera of a group is judged by: they bound memory and time.
MOST_KEPT_OUT = 24

T = TypeVar("T")


def of_few(data: LabelledWindow, pictures: int) -> LabelledWindow:
    """A window with at most `pictures` to train on, its own before exemplars, and the latest kept-out ones."""
    train = _spread(data.train, pictures)
    exemplars = _spread(data.exemplars, pictures - len(train))
    return replace(data, train=train, exemplars=exemplars, kept_out=data.kept_out[-MOST_KEPT_OUT:])


def _spread(values: Sequence[T], most: int) -> tuple[T, ...]:
    """At most so many, evenly over all."""
    every = max(1.0, len(values) / most) if most > 0 else 1.0
    return tuple(values[int(n * every)] for n in range(min(len(values), max(0, most))))

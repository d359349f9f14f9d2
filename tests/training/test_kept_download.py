"""The part of the download that a retrained student keeps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.accuracy import Counts
from edge.training.kept_download import (
    FEWEST_OBJECTS,
    FEWEST_PICTURES,
    KEPT_OF_DOWNLOAD,
    KEPT_WITHOUT_OBJECTS,
    best_part,
    usual_part,
)

counts = st.builds(Counts, st.integers(0, 8), st.integers(0, 5), st.integers(0, 5))


def drawn(share: float, frames: int = 12, objects: int = 10) -> tuple[Counts, ...]:
    """About `share` of the objects right on each picture."""
    right = np.random.default_rng(1).binomial(objects, share, frames)
    return tuple(Counts(int(n), objects - int(n), objects - int(n)) for n in right)


def test_the_fewer_objects_there_are_the_more_is_kept() -> None:
    assert usual_part(0) == KEPT_WITHOUT_OBJECTS
    assert usual_part(200) == usual_part(5000) == KEPT_OF_DOWNLOAD
    assert KEPT_OF_DOWNLOAD < usual_part(100) < usual_part(50) < KEPT_WITHOUT_OBJECTS


@given(st.lists(counts, max_size=20), st.sampled_from([0.0, 0.25, 0.6]))
def test_the_usual_part_is_kept_where_all_are_as_good(frames: list[Counts], usual: float) -> None:
    assert best_part({0.0: frames, 0.25: frames, 0.6: frames}, usual) == usual


def test_a_part_that_is_surely_better_is_taken_and_the_best_of_several() -> None:
    found = {0.0: drawn(0.8), 0.25: drawn(0.7), 0.5: drawn(0.5), 0.75: drawn(0.3)}
    assert best_part(found, 0.5) == 0.0
    assert best_part(found | {0.0: drawn(0.6)}, 0.5) == 0.25
    assert best_part({0.0: found[0.0], 0.25: found[0.0], 0.5: found[0.5]}, 0.5) == 0.25, "of equal ones the nearest"


def test_a_part_that_is_better_on_one_picture_in_many_is_not_taken() -> None:
    same = [Counts(5, 2, 2)] * 11
    assert best_part({0.0: [*same, Counts(6, 1, 1)], 0.5: [*same, Counts(5, 2, 2)]}, 0.5) == 0.5


@pytest.mark.parametrize(("frames", "objects"), [(FEWEST_PICTURES - 1, 50), (FEWEST_OBJECTS - 1, 1)])
def test_few_pictures_or_objects_say_nothing(frames: int, objects: int) -> None:
    found = {0.0: [Counts(objects, 0, 0)] * frames, 0.5: [Counts(0, 0, objects)] * frames}
    assert best_part(found, 0.5) == 0.5
    more = {part: [*each, *each] for part, each in found.items()}
    assert best_part(more, 0.5) == 0.0

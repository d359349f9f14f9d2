"""Accuracies of models in windows where a trace does not have them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.simulation.accuracies import RISE, carried, faded

part = st.floats(0.0, 1.0)


def test_a_model_loses_what_the_frozen_student_loses_and_has_half_of_what_it_gains() -> None:
    frozen = {1: 0.5, 2: 0.3, 3: 0.7}
    assert faded(0.8, frozen, 1, 2) == pytest.approx(0.6)
    assert faded(0.6, frozen, 2, 3) == pytest.approx(0.8)
    assert faded(0.8, frozen, 2, 2) == 0.8
    assert carried({2: 0.4}, frozen, 3) == pytest.approx(0.6)
    assert carried({}, frozen, 3) == 0.7, "of a model that was never measured the frozen student's"


@given(accuracy=part, before=part, after=part, most=st.floats(0.5, 1.2))
def test_it_moves_with_the_frozen_student_within_what_is_possible(
    accuracy: float, before: float, after: float, most: float
) -> None:
    found = faded(accuracy, {1: before, 2: after}, 1, 2, most)
    assert 0.0 <= found <= most
    if after >= before:
        assert found >= min(accuracy, most)
        assert found - accuracy <= RISE * (after - before) + 1e-9
    else:
        assert found <= accuracy

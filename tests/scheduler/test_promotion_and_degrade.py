"""The promotion gate, roll-back, and the choice of the inference configuration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.configs import InferenceConfig
from edge.core.errors import InvalidValue
from edge.core.profiles import InferencePoint, InferenceProfile
from edge.core.roll_backs import RollBackReason
from scheduler.degrade import choose_inference, inference_choice
from scheduler.promotion import CAUTION_LIMIT, gate, roll_back

unit = st.floats(0.0, 1.0)


@given(candidate=unit, parent=unit, frames=st.integers(0, 5000), tolerance=st.floats(0.0, 0.2))
def test_the_gate_never_passes_a_worse_model_beyond_the_tolerance(
    candidate: float, parent: float, frames: int, tolerance: float
) -> None:
    decision = gate(candidate, parent, frames, tolerance)
    if decision:
        assert candidate >= parent - tolerance
        assert frames > 0
    if frames > 0 and candidate >= parent + CAUTION_LIMIT:
        assert decision, "a clear gain passes however few frames there are"


def test_few_frames_ask_for_more() -> None:
    assert not gate(0.61, 0.60, 15, 0.0)
    assert gate(0.61, 0.60, 5000, 0.0)
    assert gate(0.64, 0.60, 15, 0.0)
    assert "held-out" in gate(0.61, 0.60, 15, 0.0).reason
    assert not gate(0.9, 0.5, 0, 0.0)


def test_the_tolerance_lets_an_equal_model_pass_with_enough_frames() -> None:
    assert gate(0.60, 0.60, 1000, 0.02)
    assert not gate(0.60, 0.60, 1000, 0.0)
    assert not gate(0.57, 0.60, 1000, 0.02)


def test_a_worse_model_that_looks_better_by_luck_is_held_back_more_often_than_by_comparing_scores() -> None:
    """A candidate truly 3 points worse, judged on 40 frames: errors shared with its parent on most of them."""
    rng = np.random.default_rng(5)
    passed = naive = 0
    for _ in range(2000):
        same = rng.random(40) < 0.7
        parent = rng.random(40) < 0.60
        own = rng.random(40) < 0.50
        candidate = np.where(same, parent, own)  # 0.7 * 0.60 + 0.3 * 0.50 = 0.57
        passed += gate(float(candidate.mean()), float(parent.mean()), 40, 0.0).yes
        naive += bool(candidate.mean() >= parent.mean())
    assert passed < 0.7 * naive


def test_roll_back_needs_a_clear_difference() -> None:
    assert roll_back(0.40, 0.60, 100, 0.05)
    assert not roll_back(0.56, 0.60, 100, 0.05)
    assert not roll_back(0.53, 0.60, 10, 0.05)
    assert roll_back(0.53, 0.60, 1000, 0.05)
    assert not roll_back(0.0, 1.0, 4, 0.05)


def test_a_roll_back_says_by_how_much() -> None:
    why = roll_back(0.40, 0.60, 100, 0.05)
    assert why is not None
    assert (why.code, why.live, why.parent, why.frames, why.automatic) == ("under_parent", 0.40, 0.60, 100, True)
    assert why.words == ("live 40.0 %, its parent 60.0 % on the same 100 frames: more than 7.4 points under its parent")
    assert not RollBackReason.asked("it misses buses").automatic
    assert RollBackReason.asked("it misses buses").words == "it misses buses"


@given(live=unit, parent=unit, frames=st.integers(0, 5000), margin=st.floats(0.0, 0.5))
def test_roll_back_never_within_the_margin(live: float, parent: float, frames: int, margin: float) -> None:
    if roll_back(live, parent, frames, margin):
        assert parent - live > margin


@pytest.mark.parametrize("bad", [(1.2, 0.5, 10, 0.0), (0.5, -0.1, 10, 0.0), (0.5, 0.5, -1, 0.0), (0.5, 0.5, 9, 2.0)])
def test_values_out_of_range_are_named(bad: tuple[float, float, int, float]) -> None:
    for decide in (gate, roll_back):
        with pytest.raises(InvalidValue, match="allowed: a number from"):
            decide(*bad)


FAST, MIDDLE, SLOW = InferenceConfig(10.0), InferenceConfig(5.0), InferenceConfig(1.0)
PROFILE = InferenceProfile(
    "linear",
    0.5,
    points=(InferencePoint(FAST, 0.5, 1.0), InferencePoint(MIDDLE, 0.25, 0.8), InferencePoint(SLOW, 0.05, 0.4)),
)


def test_the_best_that_keeps_up_is_taken() -> None:
    assert choose_inference(PROFILE, 0.6) == FAST
    assert choose_inference(PROFILE, 0.5) == FAST
    assert choose_inference(PROFILE, 0.3) == MIDDLE
    assert choose_inference(PROFILE, 0.1) == SLOW


def test_the_one_in_force_stays_until_a_better_one_has_room() -> None:
    assert choose_inference(PROFILE, 0.5, current=MIDDLE) == MIDDLE
    assert choose_inference(PROFILE, 0.56, current=MIDDLE) == FAST
    assert choose_inference(PROFILE, 0.5, current=FAST) == FAST


def test_it_degrades_at_once_when_it_cannot_keep_up() -> None:
    assert choose_inference(PROFILE, 0.49, current=FAST) == MIDDLE
    slower = inference_choice(PROFILE, 0.5, current=FAST, measured_share=0.9)
    assert slower.config == MIDDLE
    assert slower.needed_share == pytest.approx(0.45)


def test_where_nothing_keeps_up_the_cheapest_says_so() -> None:
    chosen = inference_choice(PROFILE, 0.02)
    assert chosen.config == SLOW
    assert not chosen.keeps_up
    assert chosen.factor == pytest.approx(0.4 * 0.02 / 0.05)
    assert "frames are skipped" in chosen.reason


@given(share=st.floats(0.0, 2.0), current=st.sampled_from([None, FAST, MIDDLE, SLOW]))
def test_what_is_chosen_keeps_up_wherever_something_can(share: float, current: InferenceConfig | None) -> None:
    chosen = inference_choice(PROFILE, share, current)
    assert chosen.keeps_up == (share >= 0.05 - 1e-9)
    if chosen.keeps_up:
        assert chosen.needed_share <= share + 1e-9


def test_a_profile_without_points_needs_a_configuration_in_force() -> None:
    empty = InferenceProfile("linear", 0.5)
    assert choose_inference(empty, 0.3, MIDDLE) == MIDDLE
    with pytest.raises(InvalidValue, match="points"):
        choose_inference(empty, 0.3)

"""Cost, data-size and share scaling."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.configs import LAYERS, RetrainingConfig
from edge.core.errors import InvalidValue
from edge.core.trials import TrialResult
from edge.core.window import RetrainingOption
from microprofiler.scaling import (
    DATA_EXPONENTS,
    EXPONENTS,
    ExponentWeights,
    frames_of,
    monotone_throughput,
    prefix_cost,
    retraining_cost,
    trial_epochs,
    with_more_data,
)


def trial(**changes: object) -> TrialResult:
    base = {
        "config": RetrainingConfig(5), "points": ((1, 0.5), (2, 0.55)), "start_accuracy": 0.4,
        "device_seconds_per_epoch": 2.0, "setup_seconds": 1.0, "frames": 20, "held_out_objects": 50,
        "prefix_seconds": 0.4, "prefix_frames": 20, "evaluation_seconds": 0.1,
    }  # fmt: skip
    return TrialResult(**(base | changes))  # type: ignore[arg-type]


def test_cost_is_setup_plus_prefix_plus_epochs_by_data() -> None:
    config = RetrainingConfig(30, data_fraction=0.5)
    cost = retraining_cost(config, trial(), 200, prefix_cost([trial()]))
    assert cost.value == pytest.approx(1.0 + 0.02 * 100 + 30 * 2.0 * 100 / 20)
    assert cost.low < cost.value < cost.high


def test_a_trial_counts_all_it_cost() -> None:
    assert trial().device_seconds == pytest.approx(1.0 + 0.4 + 2 * 2.0 + 0.1)


def test_a_prefix_that_an_earlier_trial_computed_is_charged_once() -> None:
    shared = trial(prefix_seconds=0.0, prefix_frames=0)
    assert prefix_cost([trial(), shared]) == pytest.approx(0.02)
    assert prefix_cost([shared]) == 0.0


def test_epochs_are_worth_more_on_more_data() -> None:
    worth = trial_epochs(10, 200, 20, ExponentWeights())
    assert [round(x, 3) for x, _ in worth] == [round(10 * 10**k, 3) for k in EXPONENTS]
    assert trial_epochs(10, 20, 20, ExponentWeights())[0][0] == pytest.approx(10)


@given(st.lists(st.tuples(st.lists(st.floats(0, 1), min_size=4, max_size=4), st.floats(0, 1)), max_size=30))
def test_belief_stays_a_distribution(outcomes: list[tuple[list[float], float]]) -> None:
    belief = ExponentWeights()
    for predicted, achieved in outcomes:
        belief = belief.learned(predicted, achieved)
    assert sum(belief.weights) == pytest.approx(1.0)
    assert min(belief.weights) > 0.01


def test_belief_moves_to_the_exponent_that_was_right() -> None:
    belief = ExponentWeights()
    for _ in range(5):
        belief = belief.learned([0.5, 0.6, 0.7, 0.8], 0.7)
    assert belief.weights.index(max(belief.weights)) == 2


@given(st.lists(st.tuples(st.floats(0.01, 0.99), st.floats(0.0, 5.0)), max_size=10), st.floats(0.1, 5.0))
def test_throughput_is_what_a_planner_may_read(points: list[tuple[float, float]], full: float) -> None:
    curve = monotone_throughput([*points, (1.0, full)])
    shares, speeds = [s for s, _ in curve], [v for _, v in curve]
    assert shares == sorted(set(shares))
    assert all(b >= a for a, b in itertools.pairwise(speeds))
    assert curve[-1] == (1.0, 1.0)
    option = RetrainingOption("x", 0.5, 1.0, throughput=curve)
    assert 0.0 <= option.speed(0.37) <= option.speed(0.9) <= 1.0


def test_throughput_averages_neighbours_that_fall() -> None:
    assert monotone_throughput([(0.25, 0.5), (0.5, 0.4), (1.0, 1.0)]) == (
        (0.25, pytest.approx(0.45)), (0.5, pytest.approx(0.45)), (1.0, 1.0),
    )  # fmt: skip


@pytest.mark.parametrize("points", [[], [(0.5, 1.0)], [(0.0, 0.0), (1.0, 1.0)], [(1.0, 0.0)], [(1.0, -1.0)]])
def test_throughput_that_says_nothing_is_refused(points: list[tuple[float, float]]) -> None:
    with pytest.raises(InvalidValue, match="throughput"):
        monotone_throughput(points)


def test_data_fraction_rounds_to_frames() -> None:
    assert frames_of(RetrainingConfig(1, data_fraction=0.1), 44) == 4
    assert frames_of(RetrainingConfig(1, data_fraction=0.01), 10) == 1


@given(st.floats(0, 1), st.floats(0, 1), st.integers(1, 500), st.integers(1, 64), st.sampled_from(LAYERS))
def test_more_data_ends_higher_and_never_out_of_range(
    value: float, start: float, frames: int, tried: int, layers: str
) -> None:
    at = with_more_data(value, start, frames, tried, layers)
    assert 0.0 <= at <= 1.0
    assert at >= value - 1e-12
    assert with_more_data(value, start, 2 * frames, tried, layers) >= at - 1e-12
    if frames <= tried:
        assert at == pytest.approx(value)


def test_what_a_trial_forgot_on_few_frames_is_not_expected_of_many() -> None:
    few, many = (with_more_data(0.5, 0.7, frames, 16, "head") for frames in (16, 64))
    assert few == pytest.approx(0.5)
    assert many == pytest.approx(1 - (0.3 + 0.2 / 16) * 4 ** -DATA_EXPONENTS["head"])
    assert many > 0.68
    assert with_more_data(0.6, 0.4, 16, 16, "all", 4.0) > 0.6
    assert with_more_data(0.6, 0.4, 16, 16, "all", 0.5) == pytest.approx(0.6)
    assert with_more_data(0.6, 0.4, 160, 16, "all") > with_more_data(0.6, 0.4, 160, 16, "last_stage") > 0.6

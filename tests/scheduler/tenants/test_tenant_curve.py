"""Learned curves and loads: bounds that never fall, knowledge where reports are, forgetting after a change."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from scheduler.tenants.curve import NOISE, ROUNDS_OUTSIDE, CurveMemory, cut_mean, learned, with_round
from scheduler.tenants.load import LoadForecast
from scheduler.tenants.shapes import GRID, Ending, shapes

ENDINGS: tuple[Ending, ...] = ("accuracy", "part", "multiple")
REPORTS = st.lists(st.tuples(st.floats(-7.5, 4.0), st.floats(0.0, 1.0)), max_size=12)


def taught(reports: list[tuple[float, float]], ending: Ending = "part") -> CurveMemory:
    memory = CurveMemory()
    for report in reports:
        memory = with_round(memory, learned(memory, ending), [report], ending)
    return memory


def truth(place: float) -> float:
    return 1.0 / (1.0 + math.exp(-2.0 * place))


def test_no_shape_falls() -> None:
    assert (np.diff(shapes(), axis=1) >= -1e-12).all()


@given(REPORTS, st.sampled_from(ENDINGS), st.sampled_from([-2.0, -0.5, 0.0, 0.5, 2.0]))
@hypothesis_settings(max_examples=25, deadline=None)
def test_no_bound_falls_and_bounds_are_in_order(
    reports: list[tuple[float, float]], ending: Ending, widths: float
) -> None:
    curve = learned(taught(reports, ending), ending)
    places = np.linspace(-8.0, 5.0, 60)
    assert (np.diff(curve.at(places, widths)) >= -1e-9).all()
    assert (curve.at(places, -1.0) <= curve.at(places, 1.0) + 1e-9).all()
    assert curve.at(np.array([-np.inf]))[0] == 0.0
    if ending != "multiple":
        assert curve.mean.max() <= 1.0


def test_it_knows_most_where_it_was_measured() -> None:
    memory = taught([(0.0, truth(0.0))] * 20)
    curve = learned(memory, "part")
    assert abs(curve.at(np.array([0.0]))[0] - truth(0.0)) < 0.02
    assert np.interp(0.0, GRID, curve.spread) < 0.2 * np.interp(2.0, GRID, learned(CurveMemory(), "part").spread)
    assert np.interp(0.0, GRID, curve.spread) < np.interp(1.0, GRID, curve.spread)


def test_it_learns_the_curve_that_it_visits() -> None:
    rng = np.random.default_rng(3)
    places = rng.uniform(-2.0, 2.0, 60)
    memory = taught([(float(p), min(1.0, max(0.0, truth(p) + 0.02 * rng.normal()))) for p in places])
    errors = [abs(learned(memory, "part").at(np.array([p]))[0] - truth(p)) for p in np.linspace(-1.5, 1.5, 7)]
    assert max(errors) < 0.05


def test_an_accuracy_that_no_share_raises_is_believed_to_be_flat() -> None:
    """A third of the device or less, windows with other cars each: the rest of it is worth little to these cameras."""
    reports = [(0.3, 0.09), (0.4, 0.12), (0.35, 0.05), (0.1, 0.11), (0.3, 0.07), (0.4, 0.1)]
    accuracy, part = (learned(taught(reports, ending), ending) for ending in ENDINGS[:2])
    gains = [float(np.diff(curve.at(np.array([0.4, 1.1])))[0]) for curve in (accuracy, part)]
    assert gains[0] < 0.1
    assert gains[0] < gains[1] / 2, "parts of requests end above 0.5, so it must rise soon"


def test_a_change_is_noticed_and_the_old_curve_moves() -> None:
    rng = np.random.default_rng(4)
    memory = taught([(float(p), truth(p)) for p in rng.uniform(-1.0, 1.0, 40)])
    assert memory.changes == 0
    # Each unit does half as much: the same performance needs twice the share.
    for _ in range(8):
        memory = with_round(memory, learned(memory, "part"), [(0.3, truth(0.3 - math.log(2)))], "part")
    assert memory.changes >= 1
    after = learned(memory, "part")
    assert abs(after.at(np.array([0.3]))[0] - truth(0.3 - math.log(2))) < 0.05
    assert memory.reports < 40


def test_the_noise_of_single_reports_is_seen_beside_earlier_ones_at_their_place() -> None:
    """As of cameras on a box: one accuracy a window, of other cars each time."""
    rng = np.random.default_rng(5)
    windows = [(0.3, float(np.clip(0.35 + 0.08 * rng.normal(), 0.0, 1.0))) for _ in range(60)]
    memory = taught(windows, "accuracy")
    assert memory.noise == pytest.approx(0.08, rel=0.25)
    assert memory.changes == 0, "a window with hard pictures is no change"


def test_single_reports_that_agree_are_no_sign_that_others_would() -> None:
    memory = taught([(0.3, 1.0)] * 60)
    assert memory.noise == pytest.approx(NOISE)


def test_a_slope_is_no_noise() -> None:
    rng = np.random.default_rng(6)
    memory = taught([(float(p), truth(p)) for p in rng.uniform(-0.6, 0.6, 80)])
    assert memory.noise < 1.5 * NOISE


@pytest.mark.parametrize(("before", "after", "reports"), [(0.9, 0.4, 20), (1.0, 0.8, 20), (1.0, 0.8, 6)])
def test_a_change_is_no_noise(before: float, after: float, reports: int) -> None:
    memory = taught([(0.3, before)] * reports)
    for _ in range(ROUNDS_OUTSIDE):
        assert memory.changes == 0
        memory = with_round(memory, learned(memory, "part"), [(0.3, after)], "part")
    assert memory.changes == 1
    assert memory.noise < 2 * NOISE


def test_reports_that_are_cut_at_one_are_not_taken_for_the_mean() -> None:
    assert cut_mean(np.array([0.95]), 0.2)[0] == pytest.approx(0.89, abs=0.02)
    assert cut_mean(np.array([0.5]), 0.05)[0] == pytest.approx(0.5, abs=0.005)


def test_an_empty_round_changes_nothing() -> None:
    memory = taught([(0.0, 0.5)])
    assert with_round(memory, learned(memory, "part"), [], "part") == memory


def test_a_steady_load_is_forecast_with_a_narrow_width() -> None:
    forecast = LoadForecast()
    for _ in range(100):
        forecast = forecast.seen(20.0)
    mean, width = forecast.ahead(2)
    assert math.exp(mean) == pytest.approx(20.0, rel=0.01)
    assert width < 0.05


def test_the_width_grows_with_the_load_s_changes() -> None:
    rng = np.random.default_rng(1)
    calm, wild = LoadForecast(), LoadForecast()
    for _ in range(200):
        calm = calm.seen(20.0 * math.exp(0.02 * rng.normal()))
        wild = wild.seen(20.0 * math.exp(0.3 * rng.normal()))
    assert wild.ahead(2)[1] > 3 * calm.ahead(2)[1]
    # Independent loads return to their mean: the forecast is not the last one.
    assert abs(wild.seen(200.0).ahead(2)[0] - math.log(20.0)) < 0.5


def test_without_a_load_there_is_no_forecast() -> None:
    with pytest.raises(ValueError, match="no load"):
        LoadForecast().ahead(1)

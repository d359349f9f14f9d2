"""Pareto pruning over windows."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.errors import InvalidValue
from microprofiler.pareto import (
    PruningSettings,
    PruningState,
    begin_window,
    end_window,
    front_distances,
    pareto_front,
)

cloud = st.lists(st.tuples(st.floats(0.1, 1e4), st.floats(0, 1)), min_size=1, max_size=20)


@given(cloud)
def test_front_is_exactly_what_nothing_dominates(points: list[tuple[float, float]]) -> None:
    front = pareto_front(points)
    assert any(front)
    for n, (cost, accuracy) in enumerate(points):
        better = [p for p in points if p[0] <= cost and p[1] >= accuracy and p != (cost, accuracy)]
        assert front[n] == (not better)
    distances = front_distances(points)
    assert all((d == 0.0) == on or d > 0 for d, on in zip(distances, front, strict=True))
    assert all(d == 0.0 for d, on in zip(distances, front, strict=True) if on)


def test_distance_counts_accuracy_and_cost() -> None:
    points = [(10.0, 0.8), (10.0, 0.7), (100.0, 0.8)]
    assert front_distances(points) == (0.0, pytest.approx(1.0), pytest.approx(1.0))


IDS = [f"c{n}" for n in range(12)]
#: c0 is the front; the higher the number the worse.
POINTS = {i: (10.0, 0.8 - 0.02 * n) for n, i in enumerate(IDS)}


def run(windows: int, settings: PruningSettings, accuracies: list[float] | None = None) -> list[set[str]]:
    """The sets of configurations left out, window after window."""
    state, out = PruningState(), []
    for w in range(windows):
        accuracy = accuracies[w] if accuracies else 0.6
        state, reasons = begin_window(state, settings, IDS, accuracy)
        out.append(set(reasons))
        state = end_window(state, settings, {i: POINTS[i] for i in IDS if i not in reasons}, accuracy)
        state = PruningState.from_json(json.loads(json.dumps(state.to_json())))
    return out


def test_all_run_first_then_a_fraction_goes_every_second_window() -> None:
    out = run(5, PruningSettings(return_after=100))
    assert out[:2] == [set(), set()]
    assert out[2] == out[3] == {"c9", "c10", "c11"}  # a quarter of 12
    assert out[4] == {"c7", "c8", "c9", "c10", "c11"}  # a quarter of the 9 left


def test_some_are_always_kept_and_the_front_is_never_dropped() -> None:
    out = run(60, PruningSettings(fraction=1.0, keep=4, return_after=1000))
    assert len(out[-1]) == len(IDS) - 4
    assert "c0" not in out[-1]
    near = run(60, PruningSettings(fraction=1.0, keep=1, far=10.0))
    assert near[-1] == set()


def test_a_dropped_one_returns_and_must_fail_again() -> None:
    out = run(9, PruningSettings(return_after=3))
    assert "c11" in out[2]
    assert "c11" in out[4]
    assert "c11" not in out[5]


def test_all_return_when_the_scene_moved() -> None:
    out = run(5, PruningSettings(return_after=100), [0.6, 0.6, 0.6, 0.3, 0.3])
    assert out[2]
    assert out[3] == set()


@given(st.lists(st.dictionaries(st.sampled_from(IDS), st.tuples(st.floats(1, 100), st.floats(0, 1))), max_size=12))
def test_any_history_keeps_enough_to_choose_from(history: list[dict[str, tuple[float, float]]]) -> None:
    settings, state = PruningSettings(fraction=0.5), PruningState()
    for points in history:
        state, reasons = begin_window(state, settings, IDS, None)
        before = set(IDS) - set(reasons)
        state = end_window(state, settings, {i: p for i, p in points.items() if i in before}, None)
        assert state.windows >= max(state.dropped.values(), default=0)
        tried = {i for i in points if i in before}
        assert len(tried - set(state.dropped)) >= min(settings.keep, len(tried))


@pytest.mark.parametrize("bad", [{"every": 0}, {"fraction": 1.5}, {"keep": 0}, {"drift": 0.0}, {"return_after": 0}])
def test_bad_settings_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InvalidValue, match=next(iter(bad))):
        PruningSettings(**bad)  # type: ignore[arg-type]


def test_unknown_state_keys_are_refused() -> None:
    with pytest.raises(InvalidValue, match="window_count"):
        PruningState.from_json({"window_count": 3})

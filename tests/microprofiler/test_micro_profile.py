"""`micro_profile` on runners with known laws: sharing, budget, pruning, learning, lack of data."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.configs import LAYERS, RetrainingConfig
from edge.core.errors import InvalidValue
from edge.core.trials import TrialResult
from edge.core.window import RetrainingOption
from microprofiler.history import ProfilerHistory
from microprofiler.pareto import PruningSettings
from microprofiler.profile import ProfilerSettings, WindowSize, micro_profile
from microprofiler.trials import Family, families, sample_frames

SPACE = tuple(
    RetrainingConfig(epochs, layers=layers, data_fraction=fraction)
    for layers in LAYERS
    for epochs in (5, 15, 30)
    for fraction in (0.2, 1.0)
)
SIZE = WindowSize("cam", 3, 200, 40, 180)
CEILING = {"head": 0.70, "last_stage": 0.78, "all": 0.82}
EPOCH_S = {"head": 0.01, "last_stage": 0.05, "all": 0.2}  # device seconds per frame and epoch


class LawfulRunner:
    """Accuracy depends on steps seen by an inverse law; costs are linear. Keeps what it was asked."""

    def __init__(self, train_frames: int = 200, noise: float = 0.0, seed: int = 0) -> None:
        self.train_frames, self.noise, self.rng = train_frames, noise, np.random.default_rng(seed)
        self.calls: list[tuple[Family, float, int]] = []

    def accuracy(self, config: RetrainingConfig, epochs: float, frames: int) -> float:
        gain = CEILING[config.layers] - 0.45
        return 0.45 + gain - gain / (1.0 + 0.3 * epochs * (frames / 20) ** 0.75)

    def cost(self, config: RetrainingConfig) -> float:
        frames = round(config.data_fraction * self.train_frames)
        prefix = 0.02 * frames if config.layers != "all" else 0.0
        return 0.5 + prefix + config.epochs * EPOCH_S[config.layers] * frames

    def run(self, config: RetrainingConfig, data_fraction: float, epochs: int, seed: int) -> TrialResult:
        self.calls.append((Family.of(config), data_fraction, epochs))
        frames = round(data_fraction * self.train_frames)
        noisy = [self.accuracy(config, e, frames) + self.rng.normal(0, self.noise) for e in range(1, epochs + 1)]
        prefix = 0.02 * frames if config.layers != "all" else 0.0
        return TrialResult(
            config, tuple((n + 1, min(1.0, max(0.0, a))) for n, a in enumerate(noisy)), 0.45,
            EPOCH_S[config.layers] * frames, 0.5, frames, 180, prefix, frames if prefix else 0, 0.05,
        )  # fmt: skip


def test_one_trial_per_family_serves_all_epochs_and_fractions() -> None:
    runner = LawfulRunner()
    result = micro_profile(SIZE, SPACE, runner)
    assert len(runner.calls) == len(families(SPACE)) == 3
    assert [p.config for p in result.profiles] == list(SPACE)
    assert {(round(f * 200), e) for _, f, e in runner.calls} == {(20, ProfilerSettings().epochs)}
    assert result.device_seconds == pytest.approx(sum(t.device_seconds for t in result.trials))
    assert not result.pruned
    assert result.start_accuracy == 0.45


def test_predictions_are_near_the_law() -> None:
    runner = LawfulRunner()
    result = micro_profile(SIZE, SPACE, runner)
    errors = []
    for profile in result.profiles:
        truth = runner.accuracy(profile.config, profile.config.epochs, round(200 * profile.config.data_fraction))
        errors.append(abs(profile.end_accuracy.value - truth))
        assert profile.device_seconds.value == pytest.approx(runner.cost(profile.config), rel=0.02)
    assert np.median(errors) < 0.03
    assert max(errors) < 0.1


def test_profiles_fit_the_planner() -> None:
    result = micro_profile(SIZE, SPACE, LawfulRunner(), throughput=((0.25, 0.3), (1.0, 1.0)))
    for p in result.profiles:
        xs = [x for x, _ in p.curve]
        assert xs == sorted(xs)
        assert p.curve[0] == (0.0, 0.45)
        assert p.curve[-1] == (p.device_seconds.value, p.end_accuracy.value)
        assert all(0.0 <= y <= 1.0 for _, y in p.curve)
        option = RetrainingOption(
            p.config.id, p.end_accuracy.value, p.device_seconds.value, p.curve, p.throughput, p.end_accuracy.low
        )
        assert option.speed(0.25) == pytest.approx(0.3)
    json.dumps(result.to_json())


def test_budget_stops_with_what_it_has_and_says_so() -> None:
    full = micro_profile(SIZE, SPACE, LawfulRunner())
    known = full.history
    limit = full.trials[0].device_seconds + full.trials[1].device_seconds + 0.01
    runner = LawfulRunner()
    cut = micro_profile(SIZE, SPACE, runner, ProfilerSettings(max_device_seconds=limit), known)
    assert cut.device_seconds <= limit
    assert len(runner.calls) == 2
    assert len(cut.profiles) == 12
    assert len(cut.pruned) == 6
    assert all("device seconds" in reason for reason in cut.pruned.values())
    assert set(cut.pruned) | {p.config.id for p in cut.profiles} == {c.id for c in SPACE}


def test_the_first_trial_runs_whatever_the_budget() -> None:
    result = micro_profile(SIZE, SPACE, LawfulRunner(), ProfilerSettings(max_device_seconds=1e-6))
    assert len(result.trials) == 1
    assert result.profiles


def test_pruned_configurations_cost_no_trial_and_return() -> None:
    """`all` here is dear and no better than `last_stage`, so that its configurations leave the space."""
    history, asked, left_out = ProfilerHistory(), [], []
    setting = ProfilerSettings(pruning=PruningSettings(fraction=0.5, return_after=4))
    for _ in range(7):
        runner = LawfulRunner()
        result = micro_profile(SIZE, SPACE, runner, setting, history)
        history = ProfilerHistory.from_json(json.loads(json.dumps(result.history.to_json())))
        asked.append({family.layers for family, _, _ in runner.calls})
        left_out.append(set(result.pruned))
    assert left_out[0] == left_out[1] == set()
    assert left_out[2]
    assert all("Pareto" in r or "device seconds" in r for r in result.pruned.values())
    assert asked[0] == {"head", "last_stage", "all"}
    assert left_out[6] != left_out[5]


@pytest.mark.parametrize(
    ("size", "word"),
    [(WindowSize("c", 0, 2, 10, 30), "training"), (WindowSize("c", 0, 50, 1, 30), "held-out"),
     (WindowSize("c", 0, 50, 10, 0), "object")],
)  # fmt: skip
def test_too_little_data_is_said_in_words_and_costs_nothing(size: WindowSize, word: str) -> None:
    runner = LawfulRunner()
    result = micro_profile(size, SPACE, runner)
    assert word in result.complaint
    assert result.profiles == ()
    assert runner.calls == []
    assert result.device_seconds == 0.0


def test_an_empty_space_says_so() -> None:
    assert "empty" in micro_profile(SIZE, (), LawfulRunner()).complaint


def test_a_configuration_given_twice_is_refused() -> None:
    with pytest.raises(InvalidValue, match="space"):
        micro_profile(SIZE, (SPACE[0], SPACE[0]), LawfulRunner())


def test_small_windows_try_on_a_minimum_of_frames() -> None:
    assert sample_frames(60, 0.1, 16) == 16
    assert sample_frames(10, 0.1, 16) == 10
    assert sample_frames(1000, 0.1, 16) == 100
    runner = LawfulRunner(60)
    micro_profile(WindowSize("c", 0, 60, 10, 40), SPACE, runner)
    assert {round(f * 60) for _, f, _ in runner.calls} == {16}


def test_learns_a_constant_error_of_accuracy_and_cost() -> None:
    history = ProfilerHistory()
    first = last = 0.0
    for n in range(8):
        runner = LawfulRunner(noise=0.005, seed=n)
        result = micro_profile(SIZE, SPACE, runner, None, history)
        profile = result.profiles[-1]
        # The world is 6 points worse and 1.5 times dearer than the law says.
        achieved = runner.accuracy(profile.config, profile.config.epochs, 200) - 0.06
        cost = 1.5 * runner.cost(profile.config)
        last = abs(profile.end_accuracy.value - achieved) + abs(profile.device_seconds.value / cost - 1)
        first = first or last
        history = result.history.learned(profile.config.id, achieved, cost)
    assert last < 0.5 * first
    assert history.cost_factor(Family.of(profile.config).id) == pytest.approx(1.5, rel=0.25)


def test_learning_from_what_was_not_predicted_changes_nothing() -> None:
    history = micro_profile(SIZE, SPACE, LawfulRunner()).history
    assert history.learned("head-e999-b1-d1-lr1", 0.5, 1.0) is history


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0.001, 1e3), st.floats(0, 1e3)), max_size=25))
def test_any_outcomes_leave_corrections_bounded(outcomes: list[tuple[float, float, float, float]]) -> None:
    from edge.core.profiles import Estimate
    from microprofiler.history import Prediction

    history = ProfilerHistory()
    for raw, achieved, said, cost in outcomes:
        prediction = Prediction("f", raw, 0.05, said, (raw,) * 4)
        history = ProfilerHistory(
            history.pruning, history.exponents, history.outcomes, {"x": prediction}, history.trial_seconds
        ).learned("x", achieved, cost)
    assert abs(history.accuracy_bias("f")) <= 0.1
    assert 0.2 < history.cost_factor("f") < 5
    assert 0.5 <= history.width_scale() <= 4.0
    estimate = history.corrected("f", Estimate(0.5, 0.4, 0.6))
    assert 0.0 <= estimate.low <= estimate.value <= estimate.high <= 1.0
    assert ProfilerHistory.from_json(json.loads(json.dumps(history.to_json()))) == history


def test_history_with_missing_or_unknown_fields_is_refused() -> None:
    good = ProfilerHistory().to_json()
    with pytest.raises(InvalidValue, match="colour"):
        ProfilerHistory.from_json(good | {"colour": 1})
    with pytest.raises(InvalidValue, match="outcomes"):
        ProfilerHistory.from_json({k: v for k, v in good.items() if k != "outcomes"})

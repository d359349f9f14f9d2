"""Profiles without a trial: from what past windows taught, honest about how little that is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.configs import RetrainingConfig
from edge.core.trials import TrialResult
from microprofiler.history import ProfilerHistory
from microprofiler.known import FROM_PROFILE, ConfigGain, merged, part_gained, seen, unprofiled
from microprofiler.profile import MicroProfile, ProfilerSettings, WindowSize, micro_profile

SPACE = tuple(RetrainingConfig(e, 8, y) for y in ("head", "last_stage") for e in (5, 20))
WINDOW = WindowSize("a", 2, 40, 12, 60)


class Trainer:
    """Every trial gains ten points and costs a second; it has to hand in after `after` epochs."""

    def __init__(self, after: int = 10_000) -> None:
        self.left = after
        self.runs = 0

    def handed_in(self) -> bool:
        return self.left <= 0

    def run(self, config: RetrainingConfig, data_fraction: float, epochs: int, seed: int) -> TrialResult | None:
        points = []
        for n in range(1, epochs + 1):
            if self.left <= 0:
                break
            self.left -= 1
            points.append((n, 0.5 + 0.1 * n / epochs))
        if not points:
            return None
        self.runs += 1
        return TrialResult(config, tuple(points), 0.5, 0.3, 0.1, round(40 * data_fraction), 60)


def profiled(after: int = 10_000, history: ProfilerHistory | None = None) -> tuple[MicroProfile, Trainer]:
    trainer = Trainer(after)
    done = micro_profile(
        WINDOW, SPACE, trainer, ProfilerSettings(), history, start_accuracy=0.5, handed_in=trainer.handed_in
    )
    return done, trainer


def test_a_trial_that_is_cut_short_keeps_its_points() -> None:
    done, trainer = profiled(after=4)  # a whole trial of three epochs, and one epoch of the next
    assert trainer.runs == 2
    assert {p.config.layers for p in done.profiles} == {"head", "last_stage"}
    assert [len(t.points) for t in done.trials] == [3, 1]


def test_what_was_not_tried_is_offered_as_past_windows_knew_it() -> None:
    first, _ = profiled()
    done, trainer = profiled(after=3, history=first.history)
    assert trainer.runs == 1
    tried = {p.config.layers for p in done.profiles}
    assert {p.config.layers for p in done.untried} == {"head", "last_stage"} - tried
    assert not any(p.profiled for p in done.untried)
    before = {p.config.id: p for p in first.profiles}
    for p in done.untried:
        old = before[p.config.id]
        assert p.end_accuracy.value == pytest.approx(old.end_accuracy.value, abs=0.02)
        assert p.end_accuracy.high - p.end_accuracy.low > 0.15, "no certainty without a trial"
        assert p.device_seconds.value == pytest.approx(old.device_seconds.value, rel=0.01)


def test_nothing_tried_and_nothing_known_is_nothing() -> None:
    done, _ = profiled(after=0)
    assert (done.profiles, done.untried) == ((), ())
    assert set(done.pruned) == {c.id for c in SPACE}
    assert done.history.pruning.windows == 0, "a window without a trial teaches nothing of the front"


def test_a_retraining_without_a_trial_teaches_what_it_brought() -> None:
    first, _ = profiled()
    offered = unprofiled(SPACE, first.history.known, 40, 0.5)
    history = first.history.offered(offered, 40)
    config = offered[0].config.id
    learned = history.learned(config, 0.5, 100.0)
    assert learned.known[config].gain < history.known[config].gain, "it gained nothing"
    assert learned.known[config].seconds_per_frame > history.known[config].seconds_per_frame
    assert len(learned.outcomes) == len(history.outcomes), "the curve fit had not said anything of it"
    kept = learned.to_json()
    assert "gpu_seconds" in kept["pending"][offered[1].config.id], "as earlier versions, and other boxes, read it"
    assert ProfilerHistory.from_json(kept) == learned


def test_a_history_from_before_is_read() -> None:
    value = ProfilerHistory().to_json()
    del value["known"]
    assert ProfilerHistory.from_json(value) == ProfilerHistory()


def test_other_cameras_help_where_a_camera_knows_nothing() -> None:
    own = {"x": ConfigGain(0.1, 0.05, 0.2, 3)}
    others = [
        {"x": ConfigGain(0.9, 0.1, 9.0, 3), "y": ConfigGain(0.2, 0.1, 0.1, 2)},
        {"y": ConfigGain(0.4, 0.1, 0.3, 4)},
    ]
    found = merged(own, others)
    assert found["x"] == own["x"]
    assert found["y"].gain == pytest.approx(0.3)
    assert found["y"].spread == pytest.approx(0.2)


knowns = st.builds(
    ConfigGain,
    gain=st.floats(-1, 0.9),
    spread=st.floats(0, 1),
    seconds_per_frame=st.floats(0.001, 5),
    seen=st.integers(0, 9),
)


@given(st.dictionaries(st.sampled_from([c.id for c in SPACE]), knowns), st.floats(0, 1), st.integers(1, 500))
def test_offers_are_in_range_and_gain(known: dict[str, ConfigGain], start: float, frames: int) -> None:
    offers = unprofiled(SPACE, known, frames, start, windows=10)
    assert bool(offers) == any(k.gain > 0 for k in known.values())
    for p in offers:
        assert start <= p.end_accuracy.value <= 1
        assert p.end_accuracy.low <= p.end_accuracy.value <= p.end_accuracy.high
        assert p.device_seconds.value == pytest.approx(max(1e-3, known[p.config.id].seconds_per_frame * frames))
    if offers:
        assert max(known.items(), key=lambda k: k[1].gain)[1].gain in {known[p.config.id].gain for p in offers}


@given(st.lists(st.floats(-0.5, 0.9), min_size=1, max_size=20))
def test_what_is_known_stays_within_what_was_seen(gains: list[float]) -> None:
    known = None
    for n, gain in enumerate(gains):
        known = seen(known, gain, 0.1, n, FROM_PROFILE)
    assert known is not None
    assert min(gains) - 1e-9 <= known.gain <= max(gains) + 1e-9


def test_gains_are_parts_of_what_is_missing() -> None:
    assert part_gained(0.5, 0.75) == pytest.approx(0.5)
    assert part_gained(1.0, 0.5) == -1.0


def test_what_is_known_grows_uncertain_with_age() -> None:
    known = {SPACE[0].id: ConfigGain(0.3, 0.05, 0.1, seen=2)}
    (fresh,), (old,) = (unprofiled(SPACE, known, 40, 0.5, windows=w) for w in (2, 8))
    assert old.end_accuracy.high - old.end_accuracy.low > fresh.end_accuracy.high - fresh.end_accuracy.low

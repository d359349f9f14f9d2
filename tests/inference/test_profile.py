"""The measured inference profile."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.configs import InferenceConfig
from edge.core.errors import InvalidValue
from edge.core.vision import Detections, Observation, ResolutionProbe
from edge.inference import ProfileMeter, agreement, inference_profile
from edge.inference.profile import HEADROOM


def moving(time_s: float, speed: float, stale: bool = False, **more: Any) -> Observation:
    """One object of a tenth of the picture's width that crosses it again and again."""
    x = (speed * time_s) % 0.9
    box = [[x, 0.4, x + 0.1, 0.6]]
    found = Detections.build(box, [0.9], [0])
    return Observation("c", round(time_s * 100), time_s, time_s, "v", found, stale, 0.01, **more)


def test_agreement_is_the_metric_of_the_task() -> None:
    two = Detections.build([[0, 0, 0.2, 0.2], [0.5, 0.5, 0.7, 0.7]], [0.9, 0.9], [0, 1])
    one = two.select(np.array([0]))
    assert agreement("detection", one, two) == pytest.approx(2 / 3)
    assert agreement("classification", one, two) == 0.5
    assert agreement("classification", two, one) == 1.0
    assert agreement("detection", Detections.empty(), Detections.empty()) == 1.0
    assert agreement("classification", two, Detections.empty()) == 1.0


SPACE = [InferenceConfig(f, r) for r in (1.0, 0.5) for f in (8.0, 4.0, 1.0)]


def test_profile_by_hand() -> None:
    profile = inference_profile(
        SPACE, {1.0: 0.02, 0.5: 0.01}, {8.0: 1.0, 4.0: 0.9, 1.0: 0.5}, {1.0: 1.0, 0.5: 0.8}, cores=2, overhead=0.04
    )
    # Dominated: 8 fps at half (0.06, 0.8) costs what 4 fps at full (0.06, 0.9) costs.
    kept = [(p.config.frame_rate, p.config.resolution) for p in profile.points]
    assert kept == [(8, 1), (4, 1), (4, 0.5), (1, 1), (1, 0.5)]
    assert profile.max_gpu == pytest.approx(HEADROOM * (0.04 + 0.16) / 2)
    assert profile.factor(profile.max_gpu) == 1.0
    assert profile.factor(HEADROOM * (0.04 + 0.08) / 2) == pytest.approx(0.9)
    assert profile.factor(profile.points[-1].share * 0.9) == 0.0


def test_a_rate_above_the_streams_own_costs_no_more() -> None:
    profile = inference_profile(
        SPACE[:3], {1.0: 0.02}, {8.0: 1.0, 4.0: 1.0, 1.0: 0.5}, {1.0: 1.0}, cores=1, stream_fps=4.0
    )
    assert profile.max_gpu == pytest.approx(HEADROOM * 0.08)
    assert len(profile.points) == 2


@given(
    st.lists(st.floats(0.001, 0.2), min_size=2, max_size=2),
    st.lists(st.floats(0, 1), min_size=3, max_size=3),
    st.floats(0.1, 1),
    st.floats(0.5, 16),
    st.floats(0, 0.3),
)
@settings(max_examples=100, deadline=None)
def test_profiles_are_monotone(
    costs: list[float], stale: list[float], reduced: float, cores: float, overhead: float
) -> None:
    profile = inference_profile(
        SPACE, dict(zip((1.0, 0.5), costs, strict=True)), dict(zip((8.0, 4.0, 1.0), stale, strict=True)),
        {1.0: 1.0, 0.5: reduced}, cores, overhead=overhead,
    )  # fmt: skip
    shares = [p.share for p in profile.points]
    assert shares == sorted(shares, reverse=True)
    grid = np.linspace(0.0, profile.max_gpu * 1.2, 40)
    values = [profile.factor(float(s)) for s in grid]
    assert all(a <= b + 1e-9 for a, b in itertools.pairwise(values))


def test_meter_measures_costs_overhead_and_resolutions() -> None:
    cpu = {"now": 0.0}
    meter = ProfileMeter(SPACE, 2.0, cpu_clock=lambda: cpu["now"])
    with pytest.raises(InvalidValue, match="observations"):
        meter.profile()
    for n in range(20):
        probe = ResolutionProbe(0.5, agreement=0.8, seconds=0.004) if n % 5 == 4 else None
        meter.observe(moving(n * 0.25, 0.02, probe=probe))
        meter.observe(moving(n * 0.25 + 0.1, 0.02, stale=True))
        # 0.01 for the answer, 0.005 for decoding one quarter of a second.
        cpu["now"] += 0.015 if n % 5 != 3 else 0.019
    profile = meter.profile(stream_fps=8.0)
    assert meter.seconds_per_answer == pytest.approx(0.01)
    assert meter.overhead == pytest.approx(0.02, abs=0.001)
    # The object moves slowly: one answer per second is as good as eight; only half resolution loses something.
    kept = {(p.config.frame_rate, p.config.resolution): p.factor for p in profile.points}
    assert kept == {(1.0, 1.0): pytest.approx(1.0), (1.0, 0.5): pytest.approx(0.8)}
    assert profile.max_gpu == pytest.approx(HEADROOM * (0.02 + 0.01) / 2, rel=0.02)
    assert profile.points[-1].share == pytest.approx(HEADROOM * (0.02 + 0.004) / 2, rel=0.02)


def test_meter_guesses_what_it_has_not_measured() -> None:
    meter = ProfileMeter(SPACE, 1.0, cpu_clock=lambda: 0.0)
    for n in range(3):
        meter.observe(moving(n * 0.25, 0.0, resolution=0.5, task="classification"))
    profile = meter.profile()
    assert profile.points[0].config.resolution == 1.0
    assert 0 < profile.points[-1].factor < 1

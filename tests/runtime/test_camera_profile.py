"""A camera's inference profile from its measured points, and what it remembers of switches of its student."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.configs import InferenceConfig
from edge.core.profiles import InferencePoint
from edge.runtime import messages as m
from edge.runtime.camera import Swaps, assumed_profile, profile_from_points
from edge.settings import CameraSettings

points = st.lists(
    st.builds(
        InferencePoint,
        st.builds(InferenceConfig, st.sampled_from([8.0, 4.0, 2.0, 1.0, 0.5]), st.sampled_from([1.0, 0.75, 0.5])),
        st.floats(0.001, 2.0),
        st.floats(0.0, 1.0),
    ),
    min_size=1,
    max_size=12,
)


@given(points)
def test_only_points_that_no_other_beats_are_kept(given_points: list[InferencePoint]) -> None:
    profile = profile_from_points(tuple(given_points))
    for kept in profile.points:
        assert not any(p.share <= kept.share and p.factor > kept.factor for p in given_points), (
            "a cheaper one is better"
        )
    best = max(p.factor for p in given_points)
    assert profile.points[0].factor == best, "the best is reachable"
    assert profile.max_gpu == profile.points[0].share == min(p.share for p in given_points if p.factor == best)


@given(points)
def test_the_curve_passes_through_its_points_and_never_falls(given_points: list[InferencePoint]) -> None:
    profile = profile_from_points(tuple(given_points))
    assert list(profile.subsampling) == sorted(set(profile.subsampling))
    assert profile.subsampling[0] == 1.0
    assert list(profile.factors) == sorted(profile.factors, reverse=True)
    for x, factor in zip(profile.subsampling, profile.factors, strict=True):
        assert profile.factor(profile.max_gpu / x) == pytest.approx(factor, abs=1e-6)
    shares = [profile.max_gpu * n / 20 for n in range(1, 21)]
    values = [profile.factor(s) for s in shares]
    assert all(a <= b + 1e-9 for a, b in pairwise(values))


@given(st.floats(0.5, 64), st.lists(st.sampled_from([8.0, 4.0, 2.0, 1.0]), min_size=1, unique=True))
def test_what_is_assumed_before_anything_is_measured_can_be_planned_with(cores: float, rates: list[float]) -> None:
    settings = CameraSettings.model_validate(
        {"id": "a", "url": "rtsp://h/a", "classes": ["car"], "inference": {"frame_rates": rates}}
    )
    profile = assumed_profile(settings.inference, cores)
    assert profile.factor(profile.max_gpu) == 1.0
    assert {p.config for p in profile.points} <= set(settings.inference.space())


def test_the_gaps_of_the_last_switches_are_remembered_and_all_lost_frames_counted() -> None:
    swaps = Swaps()
    for n in range(5000):
        swaps.add(m.Swapped(f"v{n}", float(n), 1))
    assert swaps.frames_lost == 5000
    assert len(swaps.gaps_s) == 1000
    assert swaps.gaps_s[-1] == 4999.0

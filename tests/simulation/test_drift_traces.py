"""Generated drift: the same cameras for a seed, accuracies that fall with distance, retrainings that cost and gain."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

from benchmarks.ekya_alternatives import (
    CloudLink,
    UniformParts,
    alone,
    cached_accuracy,
    cloud_accuracy,
    mean_of,
    slots_from,
)
from edge.core.errors import InvalidValue
from edge.simulation.drift_traces import CONFIGS, drift_cameras, drift_trace, ended_or_nothing
from edge.simulation.simulator import simulate
from edge.simulation.trace import Trace


def test_a_seed_names_its_cameras_and_few_are_the_first_of_many() -> None:
    few, many = drift_cameras(3, 2, 4), drift_cameras(3, 5, 6)
    for a, b in zip(few, many[:2], strict=True):
        assert np.array_equal(a.ways.way, b.ways.way[: len(a.ways.way)])
        assert np.array_equal(a.goals, b.goals[:5, :5])
    assert drift_trace(few, 1.0) == drift_trace(drift_cameras(3, 2, 4), 1.0)
    assert not np.array_equal(few[0].goals, drift_cameras(4, 1, 4)[0].goals)


def test_windows_of_another_length_see_the_same_scenes() -> None:
    long, short = drift_cameras(1, 1, 2, 200.0)[0], drift_cameras(1, 1, 4, 100.0)[0]
    assert np.array_equal(long.ways.way[:100], short.ways.way[:100])


def test_a_student_is_best_where_it_was_trained_and_without_drift_stays_so() -> None:
    for camera in drift_cameras(0, 4, 8):
        assert np.all(np.diag(camera.goals)[:, None] >= camera.goals - 0.05)
        assert camera.goals[0, 8] < camera.goals[0, 0] - 0.03
    still = drift_cameras(0, 1, 8, drift=0.0)[0]
    assert still.goals == pytest.approx(still.ways.top)


def test_configurations_span_costs_of_two_hundred_times_and_dearer_is_not_always_better() -> None:
    camera = drift_cameras(0, 1, 1)[0]
    points = sorted((camera.device_seconds(n), camera.part(n)) for n in range(len(CONFIGS)))
    assert points[-1][0] / points[0][0] == pytest.approx(200.0)
    assert any(b[1] < a[1] for a, b in itertools.pairwise(points))


def test_profiles_err_as_asked_and_the_trace_is_a_trace_file() -> None:
    cameras = drift_cameras(0, 3, 3)
    exact, rough = drift_trace(cameras, 1.0), drift_trace(cameras, 1.0, estimate_error=0.1)
    off = []
    for camera, other in zip(exact.cameras, rough.cameras, strict=True):
        for number, window in camera.windows.items():
            assert [p.end_accuracy.value for p in window.profiles] == [
                window.outcomes[p.config.id].accuracy for p in window.profiles
            ]
            assert other.windows[number].outcomes == window.outcomes
            rough_ones = other.windows[number].profiles
            off += [p.end_accuracy.value - window.outcomes[p.config.id].accuracy for p in rough_ones]
    assert 0.07 < float(np.std(off)) < 0.13
    assert Trace.from_json(json.loads(json.dumps(rough.to_json()))) == rough


def test_a_retraining_that_does_not_end_brings_nothing_as_published_and_its_part_in_the_appliance() -> None:
    trace = drift_trace(drift_cameras(0, 1, 3), 0.5)
    dearest = max(CONFIGS, key=lambda c: trace.cameras[0].windows[2].outcomes[c.id].device_seconds).id
    plan = alone(UniformParts(dearest, 0.5))
    published = simulate(ended_or_nothing(trace), "uniform", plan)
    kept = simulate(trace, "uniform", plan)
    assert kept.rows[-1].accuracy > published.rows[-1].accuracy + 0.02
    assert published.rows[-1].accuracy == pytest.approx(published.rows[-1].frozen, abs=0.002)


def test_wrong_worlds_are_refused() -> None:
    with pytest.raises(InvalidValue, match="cameras"):
        drift_cameras(0, 0, 4)
    with pytest.raises(InvalidValue, match="window_s"):
        drift_cameras(0, 1, 4, 1.0)
    with pytest.raises(InvalidValue, match="estimate_error"):
        drift_trace(drift_cameras(0, 1, 2), 1.0, estimate_error=2.0)


def test_the_cloud_s_links_carry_what_the_paper_counts_and_a_fast_link_is_as_good_as_training_at_once() -> None:
    assert CloudLink("cellular", 5.1, 17.5).round_s(8) == pytest.approx(432, abs=2)
    cameras = drift_cameras(0, 2, 4, 400.0)
    trace = drift_trace(cameras, 2.0)
    slow, fast = (
        mean_of(cloud_accuracy(trace, cameras, link), slots_from(cameras, 2))
        for link in (CloudLink("slow", 0.4, 1.5), CloudLink("fast", 1e5, 1e5))
    )
    at_once = 100 * float(np.mean([c.goals[w - 1, w] for c in cameras for w in (2, 3, 4)]))
    assert slow < fast - 1
    assert fast == pytest.approx(at_once, abs=0.5)


def test_a_cached_model_chosen_by_labels_beats_any() -> None:
    cameras = drift_cameras(0, 4, 10)
    trace = drift_trace(cameras, 4.0)
    by_labels, any_one = (mean_of(cached_accuracy(trace, cameras, how, 0), 6) for how in ("labels", "any"))
    assert by_labels > any_one + 1

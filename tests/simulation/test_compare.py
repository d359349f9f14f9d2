"""Policies are compared with the same luck, in pairs; people's labels; the simulator step by step."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest

from edge.core.errors import InvalidValue
from edge.core.profiles import Estimate
from edge.core.shares import ideal_caps
from edge.simulation.box_trace import BoxTrace
from edge.simulation.chance import varied
from edge.simulation.compare import compare, contender
from edge.simulation.generated import generated_windows
from edge.simulation.simulator import SimulationResult, simulate
from edge.simulation.trace import RecordedCamera, Trace
from scheduler.follow import planner

TRACE = generated_windows(2, 3, 7)
BOX = BoxTrace("box", TRACE)


def test_equal_policies_differ_by_nothing_in_every_pair() -> None:
    same = [contender("uniform"), contender("window:uniform")]
    found = compare(BOX, same, 3)
    assert found.seeds == 3
    assert {d.measure for d in found.differences} == {"accuracy", "worst camera"}
    assert all((d.mean, d.low, d.high) == (0.0, 0.0, 0.0) for d in found.differences)
    assert found.values["uniform"]["accuracy"].spread > 0, "but luck differs between seeds"


def test_a_difference_is_that_of_the_pairs_and_has_an_interval() -> None:
    found = compare(BOX, [contender("uniform"), contender("no-retraining")], 4)
    gaps = []
    for seed in range(1, 5):
        lucky = varied(TRACE, seed)
        a, b = (
            simulate(lucky, name, planner(ideal_caps()), corrected=True).mean_accuracy
            for name in ("uniform", "no-retraining")
        )
        gaps.append(a - b)
    (accuracy,) = [d for d in found.differences if d.measure == "accuracy"]
    assert accuracy.mean == pytest.approx(statistics.fmean(gaps))
    assert accuracy.low is not None
    assert accuracy.high is not None
    # Student's t for 3 degrees of freedom is 3.182.
    assert accuracy.high - accuracy.mean == pytest.approx(3.182 * statistics.stdev(gaps) / 2, rel=5e-3)
    assert accuracy.mean - accuracy.low == pytest.approx(accuracy.high - accuracy.mean)


def test_one_seed_is_the_trace_as_recorded_and_tells_no_interval() -> None:
    assert varied(TRACE, 0) is TRACE
    found = compare(BOX, [contender("uniform"), contender("no-retraining")])
    recorded = simulate(TRACE, "uniform", planner(ideal_caps()), corrected=True)
    assert found.values["uniform"]["accuracy"].mean == recorded.mean_accuracy
    assert all(d.low is None for d in found.differences)


def test_luck_is_by_seed_camera_and_window_and_leaves_profiles() -> None:
    once, again, other = varied(TRACE, 1), varied(TRACE, 1), varied(TRACE, 2)
    assert once == again != other
    alone = varied(replace(TRACE, cameras=TRACE.cameras[1:]), 1)
    assert alone.cameras[0] == once.cameras[1], "whatever cameras there are beside it"
    for camera, lucky in zip(TRACE.cameras, once.cameras, strict=True):
        assert all(lucky.windows[w].profiles == r.profiles for w, r in camera.windows.items())
        assert lucky.frozen == camera.frozen


@pytest.mark.parametrize(
    ("text", "words"),
    [("nobody", "window: relay"), ("relay+thief", "two"), ("serving:relay", "serving:NAME"), ("relay+", "window")],
)
def test_a_policy_that_is_none_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidValue, match=words):
        contender(text)


def test_each_part_of_a_box_may_have_its_policy() -> None:
    found = contender("thief+serving:elastic+sharing:sw").policies
    assert (found.window, found.planning.policy, found.sharing) == ("thief", "elastic", "sw")
    with pytest.raises(InvalidValue, match="each policy once"):
        compare(BOX, [contender("thief"), contender("thief")])
    with pytest.raises(InvalidValue, match="--seeds"):
        compare(BOX, [contender("thief")], 0)


def _with_people(camera: RecordedCamera, less: float) -> RecordedCamera:
    """People see so much less than the teacher, of every model."""
    windows = {
        w: replace(
            r,
            outcomes={
                i: replace(o, people={v: max(0.0, a - less) for v, a in o.live.items()}) for i, o in r.outcomes.items()
            },
        )
        for w, r in camera.windows.items()
    }
    return replace(camera, windows=windows, frozen_people={w: max(0.0, a - less) for w, a in camera.frozen.items()})


def test_accuracy_by_people_is_reported_beside_and_changes_no_plan() -> None:
    seen = replace(TRACE, cameras=tuple(_with_people(c, 0.1) for c in TRACE.cameras))
    assert Trace.from_json(seen.to_json()) == seen
    assert (seen.to_json()["format"], TRACE.to_json()["format"]) == ("magpie-trace/2", "magpie-trace/1")
    plain, seen_run = (simulate(t, "uniform", planner(ideal_caps())) for t in (TRACE, seen))
    assert plain.mean_people is None
    assert [r.accuracy for r in seen_run.rows] == [r.accuracy for r in plain.rows]
    assert any(r.promoted for r in seen_run.rows)
    for row in seen_run.rows:
        assert row.people is not None
        # Where every model's accuracy is known against both, people see just so much less.
        assert row.accuracy - row.people == pytest.approx(0.1 * row.frozen / _frozen(row.camera, row.window), abs=2e-3)


def _frozen(camera: str, window: int) -> float:
    return next(c for c in TRACE.cameras if c.id == camera).frozen[window]


def test_promises_that_are_not_kept_are_believed_less() -> None:
    """Every profile promises 20 points that never come: the appliance learns it, and so does its simulation."""
    boast = replace(TRACE, cameras=tuple(_boasting(c) for c in generated_windows(2, 12, 7).cameras), windows=12)
    plain, learned = (simulate(boast, "relay", planner(ideal_caps()), corrected=c) for c in (False, True))

    def work(result: SimulationResult) -> float:
        return sum(r.retraining_device_s for r in result.rows if r.window > 6)

    assert work(learned) < work(plain)


def _boasting(camera: RecordedCamera) -> RecordedCamera:
    windows = {}
    for w, r in camera.windows.items():
        said = min(0.98, r.start_accuracy + 0.2)
        profiles = tuple(replace(p, end_accuracy=Estimate.exact(said)) for p in r.profiles)
        outcomes = {i: replace(o, accuracy=r.start_accuracy, live={}) for i, o in r.outcomes.items()}
        windows[w] = replace(r, profiles=profiles, outcomes=outcomes)
    return replace(camera, windows=windows)

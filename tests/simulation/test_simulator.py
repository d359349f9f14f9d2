"""The simulator on small made traces: the numbers can be worked out by hand, and the controller is the live one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from examples_kit import tried
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.cli import main
from edge.core.configs import RetrainingConfig
from edge.core.errors import InvalidValue
from edge.core.plan_basis import PlanRequest
from edge.core.profiles import Estimate, InferenceProfile, RetrainingProfile
from edge.core.window import WindowPlan
from edge.simulation.accuracies import WITHIN, believed
from edge.simulation.simulator import Simulator, simulate
from edge.simulation.trace import RecordedCamera, RecordedOutcome, RecordedWindow, Trace, read_trace
from scheduler.policies import WINDOW_POLICIES, window_policy

LIGHT, HEAVY = RetrainingConfig(5), RetrainingConfig(30, layers="all")


def plan(request: PlanRequest) -> WindowPlan:
    return window_policy(request.policy).plan(request.problem)


def profile(config: RetrainingConfig, start: float, end: float, cost: float) -> RetrainingProfile:
    curve = ((0.0, start), (cost / 2, start + 0.7 * (end - start)), (cost, end))
    return RetrainingProfile(config, start, Estimate.exact(end), Estimate.exact(cost), curve)


def window(start: float, light: float, heavy: float, *, window: int, live_loss: float = 0.0) -> RecordedWindow:
    return RecordedWindow(
        start,
        (profile(LIGHT, start, light, 10.0), profile(HEAVY, start, heavy, 60.0)),
        {
            LIGHT.id: RecordedOutcome(light, 10.0, {window: light - live_loss}),
            HEAVY.id: RecordedOutcome(heavy, 60.0, {window: heavy - live_loss}),
        },
        labelling_s=2.0,
        profiling_device_s=1.0,
        train_frames=60,
        held_out_frames=20,
    )


def small_trace(cameras: int = 2, windows: int = 4) -> Trace:
    """Accuracy of the frozen student falls 10 points a window; retraining brings 0.75 (light) or 0.85 (heavy)."""
    made = []
    for n in range(cameras):
        frozen = {w: 0.7 - 0.1 * (w - 1) for w in range(1, windows + 1)}
        records = {w: window(frozen[w - 1], 0.75, 0.85, window=w) for w in range(2, windows + 1)}
        made.append(RecordedCamera(f"cam{n}", InferenceProfile("linear", 0.2), frozen, records))
    return Trace("small", 100.0, 1.0, tuple(made), windows, delta=0.1)


def test_without_retraining_the_accuracy_is_the_frozen_students() -> None:
    result = simulate(small_trace(), "no-retraining", plan)
    assert result.mean_accuracy == pytest.approx((0.6 + 0.5 + 0.4) / 3)
    assert result.mean_frozen == pytest.approx(result.mean_accuracy)
    assert all(r.retraining_device_s == 0 and not r.promoted for r in result.rows)


@pytest.mark.parametrize("policy", sorted(WINDOW_POLICIES))
def test_every_policy_keeps_the_controllers_invariants(policy: str) -> None:
    seen: list[str] = []
    Simulator(
        small_trace(3), policy, plan, on_event=lambda c: (c.check(), seen.append(c.state.phase)),  # type: ignore[func-returns-value]
    ).run()  # fmt: skip
    assert "preparing" in seen
    assert "running" in seen


def test_retraining_pays_off_as_recorded() -> None:
    relay = simulate(small_trace(), "relay", plan)
    frozen = simulate(small_trace(), "no-retraining", plan)
    assert relay.mean_accuracy > frozen.mean_accuracy + 0.1
    assert any(r.promoted for r in relay.rows)
    assert all(r.accuracy <= 0.85 + 1e-9 for r in relay.rows)
    assert all(0 <= r.retraining_device_s <= 100.0 + 1e-6 for r in relay.rows)


def test_one_camera_one_window_worked_out_by_hand() -> None:
    """Window 2 at one whole device, one light option: 10 GPU-s at the share that inference leaves."""
    base = small_trace(1, 2)
    camera = base.cameras[0]
    only = replace(camera.windows[2], profiles=camera.windows[2].profiles[:1], labelling_s=0.0, profiling_device_s=0.0)
    trace = replace(base, cameras=(replace(camera, windows={2: only}),))
    result = simulate(trace, "relay", plan)
    row = next(r for r in result.rows if r.window == 2)
    # Inference keeps its 0.2, training has 0.8: done after 12.5 s.
    assert row.accuracy == pytest.approx((0.6 * 12.5 + 0.75 * 87.5) / 100, abs=0.002)
    assert row.retraining_device_s == pytest.approx(10.0)
    assert row.promoted == (LIGHT.id,)
    assert result.estimates == {"drift": 0, "start": 0, "outcome": 0}


def test_a_retraining_that_really_is_worse_is_not_promoted() -> None:
    base = small_trace(1, 2)
    camera = base.cameras[0]
    record = camera.windows[2]
    bad = {i: RecordedOutcome(0.3, o.device_seconds) for i, o in record.outcomes.items()}
    trace = replace(base, cameras=(replace(camera, windows={2: replace(record, outcomes=bad)}),))
    result = simulate(trace, "relay", plan)
    row = next(r for r in result.rows if r.window == 2)
    assert row.promoted == ()
    assert row.accuracy <= 0.6 + 1e-9


@pytest.mark.parametrize("promoted", [False, True, None])
def test_a_recorded_refusal_holds_where_the_student_in_force_has_no_right_answer(promoted: bool | None) -> None:
    base = small_trace(1, 2)
    camera = base.cameras[0]
    record = window(0.0, 0.0, 0.0, window=2)
    made = {i: replace(o, promoted=promoted) for i, o in record.outcomes.items()}
    there = replace(record, profiles=camera.windows[2].profiles, outcomes=made, start_live=0.0)
    trace = replace(base, cameras=(replace(camera, frozen={1: 0.0, 2: 0.0}, windows={2: there}),))
    row = next(r for r in simulate(trace, "relay", plan).rows if r.window == 2)
    assert bool(row.promoted) is (promoted is not False)


def test_a_retraining_that_costs_more_than_said_ends_later() -> None:
    base = small_trace(1, 2)
    camera = base.cameras[0]
    record = replace(camera.windows[2], profiles=camera.windows[2].profiles[:1])
    dear = {LIGHT.id: replace(record.outcomes[LIGHT.id], device_seconds=30.0)}

    def accuracy(outcomes: dict[str, RecordedOutcome]) -> float:
        made = replace(record, outcomes=outcomes)
        trace = replace(base, cameras=(replace(camera, windows={2: made}),))
        return simulate(trace, "relay", plan).mean_accuracy

    assert accuracy(dear) < accuracy(dict(record.outcomes))


def test_an_unrecorded_retraining_ends_near_the_recorded_one() -> None:
    """The light one was recorded to end 10 points under its word in its window; the heavy one promises 10 more."""
    base = small_trace(1, 2)
    camera = base.cameras[0]
    record = window(0.7, 0.75, 0.85, window=2, live_loss=0.1)
    light = {LIGHT.id: record.outcomes[LIGHT.id]}
    heavy = tuple(p for p in record.profiles if p.config == HEAVY)

    def ends(outcomes: dict[str, RecordedOutcome]) -> float:
        made = replace(record, outcomes=outcomes, profiling_device_s=0.0, labelling_s=0.0)
        cameras = (replace(camera, windows={2: made}),)
        result = simulate(replace(base, cameras=cameras), "relay", only_heavy)
        assert result.estimates["outcome"] == 1
        return next(r.accuracy for r in result.rows if r.window == 2)

    def only_heavy(request: PlanRequest) -> WindowPlan:
        streams = tuple(
            replace(s, options=tuple(o for o in s.options if o.id == HEAVY.id)) for s in request.problem.streams
        )
        return window_policy("relay").plan(replace(request.problem, streams=streams))

    part = believed(record.held_out_frames)
    assert part == pytest.approx(0.6), "20 held-out frames are enough to count on as much as with 12"
    near, alone = ends(light), ends({})
    trained_s = 100.0 - 60.0 / 0.8  # the camera's inference has 0.2 devices
    before = 0.6 * (100.0 - trained_s)
    assert near == pytest.approx((before + (0.65 + part * 0.1) * trained_s) / 100.0)
    assert alone == pytest.approx((before + (0.6 + part * 0.15) * trained_s) / 100.0)
    assert heavy[0].end_accuracy.value == 0.85
    assert believed(3) < part, "few held-out frames say less"
    assert believed(0) == part


def test_a_student_that_learned_a_night_keeps_most_of_it_in_the_next() -> None:
    """Windows 2 and 4 are nights; the student that was trained on window 2 serves window 4 without another retraining.
    What it lost of the day in window 3 is a part of what the frozen student loses."""
    base = small_trace(1, 4)
    camera = base.cameras[0]
    frozen = {1: 0.7, 2: 0.4, 3: 0.7, 4: 0.4}

    def last_night(learned_in: int) -> float:
        record = RecordedWindow(
            frozen[learned_in - 1],
            (profile(LIGHT, frozen[learned_in - 1], 0.8, 10.0),),
            {LIGHT.id: RecordedOutcome(0.8, 10.0, {3: 0.8})},
            train_frames=40,
            held_out_frames=20,
        )
        made = replace(camera, frozen=frozen, windows={learned_in: record})
        result = simulate(replace(base, cameras=(made,)), "relay", plan)
        return next(r.accuracy for r in result.rows if r.window == 4)

    assert last_night(3) == pytest.approx(0.8 - WITHIN * 0.3), "in window 3 it is trained on window 2, a night"
    assert last_night(2) == pytest.approx(0.8 - 0.3), "in window 2 it is trained on window 1, a day"


def test_a_retraining_like_one_that_the_gate_refused_is_refused() -> None:
    """The light one was recorded to end worse than its start; the heavy one promises as much."""
    base = small_trace(1, 2)
    camera = base.cameras[0]
    start = camera.windows[2].start_accuracy
    light, heavy = (profile(c, start, 0.8, 10.0) for c in (LIGHT, HEAVY))

    def promoted(end: float) -> tuple[str, ...]:
        refused = {LIGHT.id: RecordedOutcome(end, 10.0)}
        profiles = (replace(light, device_seconds=Estimate.exact(90.0)), heavy)
        record = RecordedWindow(start, profiles, refused, train_frames=40, held_out_frames=20)
        result = simulate(replace(base, cameras=(replace(camera, windows={2: record}),)), "relay", plan)
        assert result.estimates["outcome"] == 1
        return next(r.promoted for r in result.rows if r.window == 2)

    assert promoted(start - 0.01) == ()
    assert promoted(start + 0.01) == (HEAVY.id,)


@pytest.mark.parametrize("policy", ["relay", "thief", "exact", "uniform"])
def test_a_retraining_a_little_dearer_than_said_does_not_stall_the_clock(policy: str) -> None:
    """Too little to correct the plan's cost for, so that by the plan nothing is left while it still runs."""
    base = small_trace(1, 2)
    camera = base.cameras[0]
    record = replace(camera.windows[2], profiles=camera.windows[2].profiles[:1])
    dearer = replace(record, outcomes={LIGHT.id: replace(record.outcomes[LIGHT.id], device_seconds=12.0)})
    trace = replace(base, cameras=(replace(camera, windows={2: dearer}),))
    result = simulate(trace, policy, plan)
    row = next(r for r in result.rows if r.window == 2)
    assert row.promoted == (LIGHT.id,)
    assert 10.0 <= row.retraining_device_s <= 12.0 + 1e-6
    assert result.plans < 60


def test_a_window_too_short_for_labels_is_said() -> None:
    base = small_trace(1, 2)
    camera = base.cameras[0]
    late = replace(camera.windows[2], labelling_s=90.0)
    result = simulate(replace(base, cameras=(replace(camera, windows={2: late}),)), "relay", plan)
    assert any("labelling" in c for c in result.complaints)
    assert not any(r.promoted for r in result.rows)


def test_the_other_start_rule_scales_with_its_setting() -> None:
    """Recorded from a better model than the frozen one that the replay starts from."""
    base = small_trace(1, 2)
    camera = base.cameras[0]
    record = replace(camera.windows[2], start_accuracy=0.9)
    trace = replace(base, cameras=(replace(camera, windows={2: record}),))
    least = simulate(trace, "uniform", plan, start_influence=0.2)
    most = simulate(trace, "uniform", plan, start_influence=0.0)
    assert least.mean_accuracy < most.mean_accuracy
    assert least.estimates["start"] > 0
    assert most.estimates["start"] == 0


def test_cameras_that_retrain_less_often_skip_windows() -> None:
    base = small_trace(1, 4)
    trace = replace(base, cameras=(replace(base.cameras[0], every_kth_window=2),))
    result = simulate(trace, "relay", plan)
    assert {r.window for r in result.rows if r.retraining_device_s > 0} <= {2, 4}
    assert any(r.promoted for r in result.rows)


@settings(max_examples=tried(8, 20), deadline=None)
@given(
    st.integers(1, 3), st.integers(1, 3), st.floats(0.3, 4.0), st.sampled_from(["relay", "thief", "uniform"]),
    st.lists(st.tuples(st.floats(0.05, 0.95), st.floats(1.0, 300.0)), min_size=3, max_size=3),
)  # fmt: skip
def test_any_trace_gives_accuracies_in_range_and_the_same_answer_twice(
    cameras: int, windows: int, gpus: float, policy: str, truths: list[tuple[float, float]]
) -> None:
    base = replace(small_trace(cameras, windows), num_gpus=gpus)
    made = []
    for camera, (end, cost) in zip(base.cameras, truths, strict=False):
        records = {w: replace(r, outcomes={LIGHT.id: RecordedOutcome(end, cost)}) for w, r in camera.windows.items()}
        made.append(replace(camera, windows=records))
    trace = replace(base, cameras=tuple(made))
    first = Simulator(trace, policy, plan, on_event=lambda c: c.check()).run()
    assert first == simulate(trace, policy, plan)
    assert len(first.rows) == cameras * windows
    assert all(0.0 <= r.accuracy <= 1.0 for r in first.rows)
    assert all(r.retraining_device_s <= gpus * trace.window_s + 1e-6 for r in first.rows)


# -- the file


def test_traces_survive_the_file(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(small_trace().to_json()))
    assert read_trace(path) == small_trace()


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"format": "x"}, "format"),
        ({"colour": 1}, "colour"),
        ({"cameras": []}, "cameras"),
        ({"window_s": -1}, "window_s"),
        ({"cameras": [{"id": "a"}]}, "cameras[0].frozen"),
        ({"cameras": "x"}, "cameras"),
    ],
)
def test_a_broken_trace_names_the_field(change: dict, path: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        Trace.from_json(small_trace().to_json() | change)
    assert caught.value.path == path


def test_a_broken_window_names_its_place() -> None:
    value = small_trace().to_json()
    value["cameras"][1]["windows"]["3"]["outcomes"][LIGHT.id] = {"accuracy": 0.5}
    with pytest.raises(InvalidValue, match=r"cameras\[1\].windows\[3\].outcomes\[.*\].gpu_seconds"):
        Trace.from_json(value)
    value = small_trace().to_json()
    value["cameras"][0]["windows"]["0"] = {}
    with pytest.raises(InvalidValue, match="window numbers from 1"):
        Trace.from_json(value)


def test_the_command_prints_a_table_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(small_trace(1, 2).to_json()))
    assert main(["simulate", str(path), "--policy", "relay", "--policy", "no-retraining"]) == 0
    out = capsys.readouterr().out
    assert out.index("relay") < out.index("no-retraining")
    assert main(["simulate", str(path), "--policy", "uniform", "--fixed", LIGHT.id, "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert result["policy"] == "uniform"
    assert len(result["rows"]) == 2


@pytest.mark.parametrize(
    "arguments", [["{missing}"], ["{file}", "--policy", "nope"], ["{file}", "--start-influence", "2"]]
)
def test_the_command_refuses_clearly(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    path = tmp_path / "t.json"
    path.write_text(json.dumps(small_trace(1, 2).to_json()))
    given_arguments = [a.format(file=path, missing=tmp_path / "none.json") for a in arguments]
    assert main(["simulate", *given_arguments]) == 1
    error = capsys.readouterr().err
    assert "allowed" in error
    assert "Traceback" not in error

"""A run kept by the real store becomes a trace that can be replayed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from recorded_run_kit import CONFIG, INFERENCE, OTHER, keep_a_run

from edge.cli import main
from edge.core.errors import InvalidValue
from edge.core.plan_basis import PlanRequest
from edge.core.profiles import InferenceProfile
from edge.core.shares import ideal_caps
from edge.core.window import Segment, StreamAllocation, WindowPlan
from edge.simulation.accuracies import weighed
from edge.simulation.record import REFUSED, trace_from_windows
from edge.simulation.simulator import simulate
from edge.simulation.trace import RecordedCamera, Trace, read_trace
from scheduler.controller import waiting_shares
from scheduler.follow import planner
from scheduler.policies import window_policy


def test_what_was_recorded_is_in_the_trace(tmp_path: Path) -> None:
    trace = trace_from_windows("run", keep_a_run(tmp_path))
    assert (trace.windows, trace.window_s, trace.num_gpus, trace.delta) == (2, 100.0, 1.0, 0.1)
    (camera,) = trace.cameras
    assert camera.frozen == {1: 0.6, 2: 0.5}
    assert camera.inference_profile == INFERENCE
    assert set(camera.windows) == {2}
    window = camera.windows[2]
    assert [p.config for p in window.profiles] == [CONFIG, OTHER]
    assert set(window.outcomes) == {CONFIG.id}  # a stopped retraining is no outcome
    assert window.outcomes[CONFIG.id].device_seconds == 9.0
    assert window.outcomes[CONFIG.id].live == {2: 0.7}
    assert (window.labelling_s, window.profiling_device_s, window.start_accuracy) == (3.0, 1.5, 0.6)
    assert window.train_frames + window.held_out_frames == 30


def test_a_model_is_known_in_each_window_that_it_was_in_force_at_the_end_of(tmp_path: Path) -> None:
    details = keep_a_run(tmp_path)
    details[0]["window"] |= {"open": False, "outcome": "completed"}
    (camera,) = trace_from_windows("run", details).cameras
    assert camera.windows[2].outcomes[CONFIG.id].live == {2: 0.7, 3: 0.7}
    (row,) = details[0]["window"]["cameras"]
    row["model_version"] = "v3"
    (camera,) = trace_from_windows("run", details).cameras
    assert camera.windows[2].outcomes[CONFIG.id].live == {2: 0.7}


def test_documents_of_rest_and_of_earlier_versions_say_the_same(tmp_path: Path) -> None:
    details = keep_a_run(tmp_path)
    wanted = trace_from_windows("run", details)
    for detail in details:
        for profile in detail["profiles"]:
            profile["profile"]["device_seconds"] = profile["profile"].pop("gpu_seconds")
    assert trace_from_windows("run", details) == wanted
    for detail in details:
        for one in (*(p["profile"] for p in detail["profiles"]), *detail["jobs"], *detail["costs"]):
            one["gpu_seconds"] = one.pop("device_seconds")
    assert trace_from_windows("run", details) == wanted


def test_the_command_replays_a_data_folder_and_saves_the_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, saved = tmp_path / "data", tmp_path / "trace.json"
    data.mkdir()
    keep_a_run(data)
    assert main(["simulate", "--data", str(data), "--policy", "relay", "--json", "--save", str(saved)]) == 0
    (result,) = json.loads(capsys.readouterr().out)
    retrained = next(r for r in result["rows"] if r["window"] == 2)
    assert retrained["promoted"]
    assert retrained["accuracy"] > 0.5
    assert read_trace(saved).windows == 2


def test_a_run_without_windows_or_two_sources_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InvalidValue, match="closed window"):
        trace_from_windows("x", [])
    assert main(["simulate"]) == 1
    assert main(["simulate", "--data", str(tmp_path / "none")]) == 1
    assert "Traceback" not in capsys.readouterr().err


def test_the_age_of_answers_is_charged_once(tmp_path: Path) -> None:
    """Students in shadow answer as late as the one in force did: what was measured is what was realised."""
    details = keep_a_run(tmp_path)
    for detail in details:
        (plan,) = detail["plans"]
        allocation = {"inference_share": 0.15, "retraining_share": 0.0, "retrain_config": None}
        plan["plan"]["segments"] = [{"start_s": 0.0, "streams": {"gate": allocation}}]
    trace = trace_from_windows("run", details)
    (camera,) = trace.cameras
    assert camera.factors == {1: 0.5, 2: 0.5}, "half of the share that the camera can use"
    assert Trace.from_json(json.loads(json.dumps(trace.to_json()))) == trace

    def half_the_share(request: PlanRequest) -> WindowPlan:
        return replace(window_policy("no-retraining").plan(request.problem), segments=(Segment(0.0, {"gate": half}),))

    half = StreamAllocation(0.15)
    rows = simulate(trace, "relay", half_the_share).rows
    assert [row.accuracy for row in rows if row.window == 1] == pytest.approx([0.6])
    full = simulate(trace, "no-retraining", lambda request: window_policy(request.policy).plan(request.problem)).rows
    assert [row.accuracy for row in full if row.window == 1] == [1.0], "no more than everything right"


def test_devices_and_inference_change_when_they_did(tmp_path: Path) -> None:
    details = json.loads(json.dumps(keep_a_run(tmp_path)))
    first = min(details, key=lambda d: d["window"]["id"])
    later = json.loads(json.dumps(first["plans"][0]))
    better = InferenceProfile("linear", 0.1)
    later["at_utc_s"] += 20.0
    later["problem"]["num_gpus"] = 0.5
    later["problem"]["streams"][0]["inference_profile"] = better.to_json()
    first["plans"].append(later)
    trace = trace_from_windows("run", details)
    (camera,) = trace.cameras
    assert trace.num_gpus_at == ((0.0, 1.0), (20.0, 0.5), (100.0, 1.0))
    assert (camera.inference_profile, camera.inference_at) == (INFERENCE, ((20.0, better),))
    assert Trace.from_json(json.loads(json.dumps(trace.to_json()))) == trace

    seen = []

    def planned(request: PlanRequest) -> WindowPlan:
        seen.append((request.problem.num_gpus, request.problem.streams[0].inference_profile))
        return window_policy(request.policy).plan(request.problem)

    simulate(trace, "no-retraining", planned)
    assert {(1.0, INFERENCE), (0.5, better)} <= set(seen)


def test_a_boundary_is_measured_by_the_student_that_served_before_it(tmp_path: Path) -> None:
    details = keep_a_run(tmp_path)
    first, second = sorted(details, key=lambda d: d["window"]["id"])[:2]
    assert trace_from_windows("run", details).cameras[0].windows[2].start_live == 0.7
    (row,) = first["window"]["cameras"]
    del row["details"]["current_fresh"]  # the first student has no parent to be measured beside
    assert trace_from_windows("run", details).cameras[0].windows[2].start_live == 0.6
    second["window"]["cameras"][0]["model_version"] = "v1"  # another window measured it: then this one could have, too
    assert trace_from_windows("run", details).cameras[0].windows[2].start_live is None


def test_a_record_of_a_box_that_had_learned_begins_with_what_it_had_learned(tmp_path: Path) -> None:
    details = keep_a_run(tmp_path)
    for detail in details:
        detail["window"] |= {"open": False, "outcome": "completed"}
        (row,) = detail["window"]["cameras"]
        row["realised"] = dict(row["frozen"], value=0.65)
    (row,) = details[-1]["window"]["cameras"]
    row["details"] = {}  # the first student is not measured beside the frozen one, which it is
    (camera,) = trace_from_windows("run", details).cameras
    assert camera.begins_with == {}
    # From the second window on: that one promoted v2, which served all of the third.
    (camera,) = trace_from_windows("run", details[:-1]).cameras
    assert camera.begins_with == {1: 0.65, 2: 0.7}
    # From the third on.
    trace = trace_from_windows("run", details[:-2])
    assert trace.cameras[0].begins_with == {1: 0.65}
    assert Trace.from_json(json.loads(json.dumps(trace.to_json()))) == trace
    (row,) = simulate(trace, "relay", planner(ideal_caps())).rows
    assert row.accuracy > row.frozen, "it is not simulated with the first student in force"


def test_a_member_has_the_outcome_of_its_groups_retraining(tmp_path: Path) -> None:
    """The camera "yard" has no retraining of its own, and another student at the end."""
    details = json.loads(json.dumps(keep_a_run(tmp_path)))
    for detail in details:
        (row,) = detail["window"]["cameras"]
        version = "v1" if row["model_version"] == "v1" else "yard-of-a-group"
        detail["window"]["cameras"].append(row | {"camera": "yard", "model_version": version})
        detail["profiles"] += [p | {"camera": "yard"} for p in detail["profiles"]]
        for plan in detail["plans"]:
            plan["problem"]["streams"].append(plan["problem"]["streams"][0] | {"id": "yard"})
    yard = next(c for c in trace_from_windows("run", details).cameras if c.id == "yard")
    assert set(yard.windows[2].outcomes) == {CONFIG.id}
    outcome = yard.windows[2].outcomes[CONFIG.id]
    assert (outcome.live, outcome.device_seconds) == ({2: 0.7}, 8.0), "it cost what its own would have"
    assert 0.6 < outcome.accuracy < 0.75, "the believed part of what its profile says"
    for detail in details:
        detail["jobs"] = []
    yard = next(c for c in trace_from_windows("run", details).cameras if c.id == "yard")
    assert not yard.windows[2].outcomes, "nothing was retrained: the student came from elsewhere"


def test_a_student_that_answered_few_frames_is_half_known(tmp_path: Path) -> None:
    """It came into force at the end of window 2; one frame says little of it."""
    details = json.loads(json.dumps(keep_a_run(tmp_path)))
    second = sorted(details, key=lambda d: d["window"]["id"])[1]
    second["window"]["cameras"][0]["details"]["current_fresh"] |= {"value": 0.95, "frames": 1}
    live = trace_from_windows("run", details).cameras[0].windows[2].outcomes[CONFIG.id].live[2]
    assert 0.6 < live < 0.75, "near what was expected: 0.7, less what the frozen student lost, with the believed gain"
    assert weighed(0.95, 30, 30, 0.6) == pytest.approx(0.95), "that of every frame is what it is"
    assert 0.6 < weighed(0.95, 10, 30, 0.6) < 0.95


def test_a_share_that_others_squeeze_makes_the_record_dearer(tmp_path: Path) -> None:
    details = json.loads(json.dumps(keep_a_run(tmp_path)))
    second = sorted(details, key=lambda d: d["window"]["id"])[1]
    first_job = next(j for j in second["jobs"] if j["config"] == CONFIG.id)
    first_job["ended_utc_s"] = first_job["started_utc_s"] + 30.0
    for profile in second["profiles"]:
        profile["at_utc_s"] = second["window"]["start_utc_s"] + 12.0
    window = trace_from_windows("run", details).cameras[0].windows[2]
    assert window.outcomes[CONFIG.id].device_seconds == pytest.approx(0.7 * 30.0), "what its share was worth meanwhile"
    spare = 1.0 - waiting_shares(1.0, {"gate": INFERENCE})["gate"]
    assert window.profiling_device_s == pytest.approx((12.0 - 3.0) * spare)


def a_replacement(folder: Path, realised: float, value: float | None, frames: int) -> RecordedCamera:
    """From the second window on, with the first student's accuracies known: v3 replaces v2 in the third window, where
    `realised` is the accuracy of 30 frames and `value` that of the later student's `frames`."""
    details = json.loads(json.dumps(keep_a_run(folder)))
    third = max(details, key=lambda d: d["window"]["id"])
    third["window"] |= {"open": False, "outcome": "completed"}
    (row,) = third["window"]["cameras"]
    row["model_version"] = "v3"
    row["realised"] = dict(row["frozen"], value=realised)
    row["details"] = {} if value is None else {"current_fresh": dict(row["frozen"], value=value, frames=frames)}
    return trace_from_windows("run", details).cameras[0]


def test_a_student_that_was_replaced_is_known_by_the_frames_before(tmp_path: Path) -> None:
    live = a_replacement(tmp_path, 0.5, 0.8, 10).windows[2].outcomes[CONFIG.id].live
    assert live[2] == 0.7
    before = (30 * 0.5 - 10 * 0.8) / 20
    assert before < live[3] < before + 0.05, "near what it answered on 20 frames, drawn to what was expected: 0.6"


def test_a_student_that_came_at_the_windows_end_leaves_all_to_the_one_before(tmp_path: Path) -> None:
    live = a_replacement(tmp_path, 0.45, None, 0).windows[2].outcomes[CONFIG.id].live
    assert live[3] == pytest.approx(0.45), "every frame is its own"


def test_a_student_that_answered_next_to_nothing_is_as_expected(tmp_path: Path) -> None:
    one = a_replacement(tmp_path, 0.8, 0.8, 29).windows[2].outcomes[CONFIG.id].live[3]
    assert 0.6 <= one < 0.65, "0.7 less the 10 points of the frozen student: a scene harder than it has learned"


def test_two_students_in_one_window_are_not_told_apart(tmp_path: Path) -> None:
    details = json.loads(json.dumps(keep_a_run(tmp_path)))
    third = max(details, key=lambda d: d["window"]["id"])
    third["window"] |= {"open": False, "outcome": "completed"}
    (row,) = third["window"]["cameras"]
    row |= {"model_version": "v4", "realised": dict(row["frozen"], value=0.5), "details": {}}
    job = next(j for d in details for j in d["jobs"] if j["promoted"])
    third["jobs"] = [job | {"model_version": version} for version in ("v3", "v4")]
    assert set(trace_from_windows("run", details).cameras[0].windows[2].outcomes[CONFIG.id].live) == {2}


def test_the_verdict_of_the_gate_counts(tmp_path: Path) -> None:
    """It judges on other frames than the profiler: 72 % may be refused although the profile begins at 60 %."""
    details = json.loads(json.dumps(keep_a_run(tmp_path)))
    job = next(j for d in details for j in d["jobs"] if j["promoted"])

    def end(promoted: bool, accuracy: float) -> float:
        job.update(promoted=promoted, accuracy_after=accuracy)
        window = trace_from_windows("run", details).cameras[0].windows[2]
        assert window.start_accuracy == 0.6
        return window.outcomes[CONFIG.id].accuracy

    assert end(True, 0.72) == 0.72
    assert end(True, 0.55) == 0.6, "accepted: no worse than the start"
    assert end(False, 0.72) == pytest.approx(0.6 - REFUSED)
    assert end(False, 0.5) == 0.5


def test_a_second_retraining_is_judged_beside_the_first_one(tmp_path: Path) -> None:
    """The gate refused 74 % beside the 75 % of the student that had come into force: it is no worse than the start."""
    details = json.loads(json.dumps(keep_a_run(tmp_path)))
    window = next(d for d in details if any(j["promoted"] for j in d["jobs"]))
    first = next(j for j in window["jobs"] if j["promoted"])
    first["accuracy_after"] = 0.75
    refused = {"config": "second", "promoted": False, "accuracy_after": 0.76, "model_version": None}
    window["jobs"] = [first, first | refused]
    outcomes = trace_from_windows("run", details).cameras[0].windows[2].outcomes
    assert outcomes["second"].accuracy == pytest.approx(0.75 - REFUSED)


def test_the_last_profile_says_where_a_window_started(tmp_path: Path) -> None:
    """Profiles that were guessed are measured a moment later, from another start."""
    details = json.loads(json.dumps(keep_a_run(tmp_path)))
    second = sorted(details, key=lambda d: d["window"]["id"])[1]
    measured = json.loads(json.dumps(second["profiles"]))
    for one in measured:
        one["profile"]["start_accuracy"] = 0.65
    second["profiles"] += measured
    window = trace_from_windows("run", details).cameras[0].windows[2]
    assert window.start_accuracy == 0.65
    assert all(p.start_accuracy == 0.65 for p in window.profiles)


def test_a_record_that_begins_with_a_learned_student_starts_as_recorded(tmp_path: Path) -> None:
    """What was realised in its first window is that of two students; the simulator begins with both as one."""
    details = json.loads(json.dumps(keep_a_run(tmp_path)))
    for detail in details:
        detail["window"] |= {"open": False, "outcome": "completed"}
        (row,) = detail["window"]["cameras"]
        row["realised"] = dict(row["frozen"], value=0.65)
    newest = max(details, key=lambda d: d["window"]["id"])
    newest["profiles"] = sorted(details, key=lambda d: d["window"]["id"])[1]["profiles"]
    (camera,) = trace_from_windows("run", details[:-1]).cameras
    assert camera.begins_with[1] == camera.windows[2].start_live == 0.65

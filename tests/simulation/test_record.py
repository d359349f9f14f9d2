"""A run kept by the real store becomes a trace that can be replayed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edge.cli import main
from edge.core.clock import ManualClock
from edge.core.configs import RetrainingConfig
from edge.core.errors import InvalidValue
from edge.core.labels import Accuracy
from edge.core.plan_causes import PlanCause
from edge.core.profiles import Estimate, InferenceProfile, RetrainingProfile
from edge.core.window import StreamProblem, WindowProblem
from edge.simulation.record import trace_from_windows
from edge.simulation.trace import read_trace
from edge.store.store import Store
from scheduler.policies import window_policy

CONFIG, OTHER = RetrainingConfig(5), RetrainingConfig(20)
INFERENCE = InferenceProfile("linear", 0.3)


def keep_a_run(folder: Path) -> list[dict]:
    """Three windows of one camera: measured, then retrained, then open."""
    clock = ManualClock()
    with Store(None, folder, clock=clock) as store:
        for n, frozen in enumerate((0.6, 0.5, 0.4)):
            window = store.open_window(clock.utc(), 100.0, "relay")
            problem = WindowProblem("p", 1.0, 100.0, (StreamProblem("gate", frozen, INFERENCE),), delta=0.1)
            store.add_plan(window, problem, window_policy("no-retraining").plan(problem), PlanCause("prepared"))
            if n == 1:
                said = [
                    RetrainingProfile(c, 0.6, Estimate(end, end - 0.05, end + 0.05), Estimate.exact(cost))
                    for c, end, cost in ((CONFIG, 0.75, 8.0), (OTHER, 0.8, 30.0))
                ]
                store.add_profiles(window, "gate", said)
                store.add_cost(window, "profiling", camera="gate", gpu_seconds=1.5)
                store.start_job("j", window, "gate", CONFIG.id, 0.7)
                store.end_job("j", "completed", gpu_seconds=9.0, accuracy_after=0.72, promoted=True, model_version="v2")
                store.start_job("k", window, "gate", OTHER.id, 0.7)
                store.end_job("k", "stopped", gpu_seconds=2.0)
            store.put_camera_window(
                window, "gate", model_version="v2" if n else "v1", frozen=Accuracy(frozen, 30, 90), frames_labelled=30,
                labelling_delay_s=3.0, details={"current_fresh": Accuracy(0.7, 30, 90).to_json()},
            )  # fmt: skip
            clock.advance(100.0)
            if n < 2:
                store.close_window(window)
        return [store.window(w.id).to_json() for w in store.windows()]


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
    assert window.outcomes[CONFIG.id].gpu_seconds == 9.0
    assert window.outcomes[CONFIG.id].live == {2: 0.7}
    assert (window.labelling_s, window.profiling_gpu_s, window.start_accuracy) == (3.0, 1.5, 0.6)
    assert window.train_frames + window.held_out_frames == 30


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

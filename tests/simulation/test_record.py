"""A run kept by the real store becomes a trace that can be replayed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from recorded_run_kit import CONFIG, INFERENCE, OTHER, keep_a_run

from edge.cli import main
from edge.core.errors import InvalidValue
from edge.simulation.record import trace_from_windows
from edge.simulation.trace import read_trace


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
    details[0]["window"]["open"] = False
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

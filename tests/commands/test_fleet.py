"""`magpie fleet simulate`, `magpie fleet check`, `magpie plan fleet`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fleet_kit import boxes, scenario

from edge.cli import main

CAMERA = {"id": "camera", "t": 0, "demand": {"cpu": 1}, "duration_s": None}
GANG = {"id": "gang", "t": 1, "demand": {"cpu": 1}, "duration_s": 1, "tasks": 99, "gang": True}


def written(path: Path, value: Any) -> str:
    path.write_text(json.dumps(value))
    return str(path)


def test_a_simulated_log_is_written_and_accepted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = written(tmp_path / "s.json", scenario(boxes(2), [CAMERA, GANG | {"infeasible": True}]))
    log = tmp_path / "log.jsonl"
    assert main(["fleet", "simulate", given, "--log", str(log)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["accepted"]
    assert shown["waiting"] == {}
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert rows[-1]["event"] == "end"
    (refused,) = [row for row in rows if row["event"] == "rejected"]
    assert (refused["code"], refused["reason"]) == (
        "too_many_at_once",
        "99 tasks have to run at once, and 8 fit on the empty fleet",
    )
    assert main(["fleet", "check", given, str(log), "--tolerance", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["accepted"]


def test_a_broken_rule_and_a_waiting_job_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    large = {"id": "large", "t": 1, "demand": {"cpu": 4}, "duration_s": 1}
    given = written(tmp_path / "s.json", scenario(boxes(1), [CAMERA, large]))
    assert main(["fleet", "simulate", given]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert shown["rules"] == {"lost": 1}
    assert shown["waiting"]["large"]["code"] == "full"
    assert shown["waiting"]["large"]["words"] == "0 of 1 tasks fit now"


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["simulate", "{none}"], "SCENARIO"),
        (["simulate", "{bad}"], "boxes[1].name: got 'b0', allowed: each name once"),
        (["simulate", "{good}", "--log", "{none}/log"], "--log"),
        (["check", "{good}", "{none}"], "LOG"),
        (["check", "{good}", "{good}", "--tolerance", "-1"], "--tolerance"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = scenario(boxes(1), [CAMERA])
    paths = {
        "none": str(tmp_path / "none"),
        "good": written(tmp_path / "good.json", good),
        "bad": written(tmp_path / "bad.json", good | {"boxes": good["boxes"] * 2}),
    }
    assert main(["fleet", *(argument.format(**paths) for argument in arguments)]) == 1
    error = capsys.readouterr().err
    assert shown in error
    assert error.count("\n") == 1


def test_the_command_starts_without_anything_heavy() -> None:
    code = (
        "import edge.commands.fleet, sys; "
        "sys.exit(len({'torch', 'cv2', 'fastapi', 'sqlalchemy', 'ray', 'kubernetes'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- plan fleet --------------------------------------------------------------------------------------------------
def stream(name: str, accuracy: float = 0.8) -> dict[str, Any]:
    """A camera whose answers are better with more share."""
    return {"id": name, "start_accuracy": accuracy, "inference_profile": {"kind": "linear", "max_gpu": 0.8}}


def window(*streams: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"format": "retrain-infer-window/1", "num_gpus": 1.0, "window_s": 100.0, "streams": list(streams)} | fields


def problem(**fields: Any) -> dict[str, Any]:
    crowded = {"name": "crowded", "zones": ["gate"], "window": window(stream("a"), stream("b"))}
    idle = {"name": "idle", "zones": ["gate"], "window": window()}
    far = {"name": "far", "window": window()}
    camera = {"zone": "gate", "stream": stream("new")}
    return {"format": "fleet-placement/1", "boxes": [crowded, idle, far], "cameras": [camera]} | fields


def test_a_camera_goes_where_the_sum_of_accuracies_is_best(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "fleet", written(tmp_path / "p.json", problem())]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["boxes"] == {"new": "idle"}
    assert plan["gain"] == pytest.approx(0.8)


def test_a_camera_that_no_box_reaches_or_admits_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cameras = [{"zone": "yard", "stream": stream("unreached")}, {"zone": "gate", "stream": stream("poor", 0.3)}]
    strict = {"name": "strict", "zones": ["gate"], "window": window(a_min=0.6)}
    path = written(tmp_path / "p.json", problem(cameras=cameras, boxes=[strict]))
    assert main(["plan", "fleet", path]) == 3
    assert json.loads(capsys.readouterr().out)["unplaced"] == {"unreached": "no_box_reaches", "poor": "no_box_admits"}


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({"speed": 1}, "speed"),
        ({"boxes": [{"name": "x"}]}, "boxes[0].window"),
        ({"boxes": [{"name": "x", "window": window()}] * 2}, "boxes[1].name"),
        ({"cameras": [{"stream": stream("c")}] * 2}, "cameras[1].stream.id"),
        ({"cameras": [{"stream": {"id": "c"}}]}, "boxes[crowded].window.streams[2].inference_profile"),
    ],
)
def test_a_bad_placement_problem_names_the_field(
    fields: dict[str, Any], shown: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "fleet", written(tmp_path / "p.json", problem(**fields))]) == 1
    assert shown in capsys.readouterr().err

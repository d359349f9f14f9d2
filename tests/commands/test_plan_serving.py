"""`magpie plan serving` and the schemas of its files."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from benchmarks.scripts import load_script
from edge.cli import main
from edge.commands.schema import schema
from edge.core.serving import DeviceTable, ServingPlan, ServingProblem
from scheduler.gpulets.policies import SERVING_POLICIES

REPO = Path(__file__).resolve().parents[2]
DEVICE: dict[str, Any] = {
    "format": "gpulet-device/1",
    "name": "box",
    "latency_ms": {
        "plates": {"25": [9.0, 15.0, 21.0], "50": [5.0, 8.0, 11.5], "100": [3.5, 5.0, 7.0]},
        "pose": {"25": [30.0, 55.0], "50": [16.0, 30.0], "100": [9.0, 16.0]},
    },
    "utilisation": {"plates": {"1": {"l2": 0.1, "dram": 0.2}}},
    "interference": [0.11, 0.72, 0.35, 0.09, 0.9],
    "measured": "by hand",
}
PROBLEM: dict[str, Any] = {
    "format": "gpulet-problem/1",
    "device_file": "device.json",
    "models": [{"name": "plates", "rate": 40, "slo_ms": 80}, {"name": "pose", "rate": 12.5, "slo_ms": 120}],
}


def write(folder: Path, problem: object = PROBLEM, device: object = DEVICE) -> str:
    for name, value in (("device.json", device), ("problem.json", problem)):
        (folder / name).write_text(value if isinstance(value, str) else json.dumps(value))
    return str(folder / "problem.json")


@pytest.mark.parametrize("policy", SERVING_POLICIES)
def test_prints_a_plan_that_fits_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str], policy: str) -> None:
    assert main(["plan", "serving", write(tmp_path), "--policy", policy]) == 0
    value = json.loads(capsys.readouterr().out)
    jsonschema.validate(value, schema("serving-plan"))
    assert value["policy"] == policy
    assert value["schedulable"] is True
    assert value["decision_seconds"] > 0
    assert ServingPlan.from_json(value).to_json() == value


def test_the_table_is_found_beside_the_problem_or_given(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(PROBLEM)))
    assert main(["plan", "serving", "-", "--out", "plan.json", "--policy", "elastic"]) == 0
    assert capsys.readouterr().out == ""
    first = json.loads((tmp_path / "plan.json").read_text())
    other = DEVICE | {"latency_ms": {m: {"100": [1.0]} for m in ("plates", "pose")}}
    (tmp_path / "other.json").write_text(json.dumps(other))
    assert main(["plan", "serving", "problem.json", "--table", "other.json", "--policy", "elastic"]) == 0
    assert json.loads(capsys.readouterr().out)["gpulets"] != first["gpulets"]


def test_what_is_not_schedulable_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = PROBLEM | {"models": [{"name": "plates", "rate": 40, "slo_ms": 5}, PROBLEM["models"][1]]}
    assert main(["plan", "serving", write(tmp_path, problem), "--policy", "elastic"]) == 3
    printed = capsys.readouterr()
    plan = json.loads(printed.out)
    assert plan["schedulable"] is False
    assert plan["unplaced"] == ["plates"]
    assert "plates: 0.0 of 40 requests/s" in printed.err


@pytest.mark.parametrize(
    ("problem", "device", "words"),
    [
        ("{no", DEVICE, "allowed: JSON (line 1"),
        ([1], DEVICE, "problem: got [1], allowed: an object"),
        (PROBLEM | {"devices": 0}, DEVICE, "devices: got 0"),
        (PROBLEM | {"gpus": 1}, DEVICE, "gpus: got 'gpus', allowed: one of the known fields"),
        (PROBLEM | {"models": 3}, DEVICE, "models: got 3, allowed: a list"),
        (PROBLEM | {"models": [{"name": "plates", "rate": -1, "slo_ms": 5}]}, DEVICE, "models[plates].rate: got -1"),
        (PROBLEM | {"models": [{"name": "plates", "rate": 1}]}, DEVICE, "models[0].slo_ms: got None"),
        (PROBLEM | {"models": [{"name": "face", "rate": 1, "slo_ms": 9}]}, DEVICE, "models[0].name: got 'face'"),
        (PROBLEM | {"device_file": 5}, DEVICE, "device_file: got 5"),
        ({k: v for k, v in PROBLEM.items() if k != "device_file"}, DEVICE, "or give --table"),
        (PROBLEM | {"device_file": "none.json"}, DEVICE, "none.json: cannot be read"),
        (PROBLEM, DEVICE | {"latency_ms": {"plates": {"x": [1]}}}, "latency_ms.plates: got 'x'"),
        (PROBLEM, DEVICE | {"latency_ms": {"plates": {"25": [0]}}}, "latency_ms.plates.25[0]: got 0"),
        (PROBLEM, DEVICE | {"interference": [1, 2]}, "interference: got [1, 2], allowed: five numbers"),
    ],
)
def test_bad_files_are_refused_by_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], problem: object, device: object, words: str
) -> None:
    assert main(["plan", "serving", write(tmp_path, problem, device)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert "Traceback" not in printed.err


def test_an_unknown_policy_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "serving", write(tmp_path), "--policy", "best"]) == 1
    assert "policy: got 'best', allowed: one of " in capsys.readouterr().err


def test_planning_starts_without_heavy_packages(tmp_path: Path) -> None:
    heavy = ("torch", "cv2", "fastapi", "sqlalchemy", "scipy", "av", "onnxruntime", "pydantic")
    code = (
        "import sys\nfrom edge.cli import main\n"
        f"assert main(['plan', 'serving', {write(tmp_path)!r}, '--policy', 'elastic']) == 0\n"
        "assert main(['schema', 'serving-problem']) == 0\n"
        f"print([m for m in {heavy!r} if m in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.strip() == "[]"


def test_schemas_accept_what_is_read_and_refuse_the_rest() -> None:
    jsonschema.validate(PROBLEM, schema("serving-problem"))
    jsonschema.validate(ServingProblem.from_json(PROBLEM).to_json(), schema("serving-problem"))
    jsonschema.validate(DEVICE, schema("serving-device"))
    jsonschema.validate(DeviceTable.from_json(DEVICE).to_json(), schema("serving-device"))
    for bad in (PROBLEM | {"gpus": 1}, PROBLEM | {"devices": "4"}, {"format": "gpulet-problem/1"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(bad, schema("serving-problem"))


def test_the_documented_examples_hold_and_every_field_is_documented() -> None:
    text = (REPO / "docs" / "formats.md").read_text()
    part = text[text.index("## The serving problem") :]
    blocks = [json.loads(block.split("```")[0]) for block in part.split("```json")[1:4]]
    for block, name in zip(blocks, ("serving-problem", "serving-device", "serving-plan"), strict=True):
        jsonschema.validate(block, schema(name))
        found = schema(name)
        fields = set(found["properties"]).union(*(d["properties"] for d in found.get("$defs", {}).values()))
        assert [f for f in sorted(fields) if f'"{f}"' not in part and f"`{f}`" not in part] == []
    from scheduler.gpulets.verdict import verdict

    problem, table = ServingProblem.from_json(blocks[0]), DeviceTable.from_json(blocks[1])
    assert verdict(problem, table, ServingPlan.from_json(blocks[2]), slack=0.0).faults == ()


def test_plans_of_the_shared_scenarios_pass_the_independent_checker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shared_dir: Path
) -> None:
    folder = shared_dir / "data" / "serving-problems"
    checker = load_script(shared_dir / "data" / "check_serving_plan.py")
    device_file = folder / "device-rtx2080ti-synthetic.json"
    raw, given = json.loads(device_file.read_text()), json.loads((folder / "scenarios.json").read_text())
    held = 0
    for row in given["scenarios"][10::120]:
        models = [
            {"name": m, "rate": r, "slo_ms": s} for m, r, s in zip(given["models"], row, given["slo_ms"], strict=True)
        ]
        problem = {"format": "gpulet-problem/1", "devices": 4, "models": models}
        file = tmp_path / "scenario.json"
        file.write_text(json.dumps(problem))
        code = main(["plan", "serving", str(file), "--table", str(device_file), "--policy", "elastic"])
        plan = json.loads(capsys.readouterr().out)
        assert (code == 0) == plan["schedulable"]
        if plan["schedulable"]:
            held += 1
            assert checker.check(raw, problem, plan)[0] == []
    assert held >= 8


def test_text_that_native_code_prints_is_no_part_of_the_answer() -> None:
    """The HiGHS solver prints a line now and then, whatever its options say."""
    code = "import ctypes, edge.cli as c; c.answers_apart(); print('{}'); ctypes.CDLL(None).puts(b'native')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "{}\n"
    assert "native" in done.stderr

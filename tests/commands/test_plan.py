"""`magpie plan window` and `magpie schema`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from edge.cli import main
from edge.commands.schema import schema
from edge.core.window import PLAN_FORMAT, WindowPlan, WindowProblem
from scheduler.policies import WINDOW_POLICIES

PROBLEM = {
    "format": "retrain-infer-window/1",
    "name": "two-cameras",
    "num_gpus": 1,
    "window_s": 100,
    "delta": 0.1,
    "a_min": 0.1,
    "streams": [
        {
            "id": "gate",
            "start_accuracy": 0.5,
            "inference_profile": {"kind": "linear", "max_gpu": 0.4},
            "retrain_configs": [{"id": "head", "end_accuracy": 0.7, "gpu_seconds": 10, "epochs": 5}],
        },
        {
            "id": "yard",
            "start_accuracy": 0.6,
            "inference_profile": {"kind": "subsampling", "max_gpu": 0.3, "subsampling": [1, 4], "factor": [1, 0.5]},
            "retrain_configs": [],
        },
    ],
}


def write(folder: Path, value: object) -> str:
    path = folder / "problem.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return str(path)


@pytest.mark.parametrize("policy", WINDOW_POLICIES)
def test_prints_a_plan_that_fits_its_schema(tmp_path: Path, capsys: pytest.CaptureFixture[str], policy: str) -> None:
    assert main(["plan", "window", write(tmp_path, PROBLEM), "--policy", policy]) == 0
    value = json.loads(capsys.readouterr().out)
    jsonschema.validate(value, schema("window-plan"))
    assert value["format"] == PLAN_FORMAT
    assert value["policy"] == policy
    assert value["decision_seconds"] > 0
    assert WindowPlan.from_json(value).to_json() == value


def test_writes_to_a_file_and_reads_standard_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import io

    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(PROBLEM)))
    out = tmp_path / "plan.json"
    assert main(["plan", "window", "-", "--out", str(out)]) == 0
    assert capsys.readouterr().out == ""
    assert json.loads(out.read_text())["problem"] == "two-cameras"


def test_faults_go_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "window", write(tmp_path, PROBLEM | {"a_min": 0.55})]) == 0
    printed = capsys.readouterr()
    assert "gate: the floor of 0.55 cannot be kept; the best at the start is 0.500" in printed.err
    assert len(json.loads(printed.out)["faults"]) == 1


def changed(path: list[object], value: object) -> object:
    """PROBLEM with one field changed."""
    out = json.loads(json.dumps(PROBLEM))
    inner = out
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return out


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("{not json", "allowed: JSON (line 1"),
        ([1], "(file): got 'list', allowed: a JSON object"),
        ({}, "format: got None"),
        (changed(["num_gpus"], 0), "num_gpus: got 0"),
        (changed(["num_gpus"], "8"), "num_gpus: got '8', allowed: a finite number"),
        (changed(["window_s"], None), "window_s: got None"),
        (changed(["delta"], 2), "delta: got 2"),
        (changed(["a_min"], "low"), "a_min: got 'low'"),
        (changed(["share_step"], 0), "share_step: got 0"),
        (changed(["gpus"], 3), "gpus: got 'gpus', allowed: one of the known fields"),
        (changed(["streams"], []), "streams: got (), allowed: at least one item"),
        (changed(["streams", 0], 5), "streams[0]: got 5"),
        (changed(["streams", 1, "id"], "gate"), "streams[].id: got 'gate'"),
        (changed(["streams", 0, "start_accuracy"], None), "streams[0].start_accuracy: got None"),
        (changed(["streams", 0, "start_accuracy"], 65), "streams[gate].start_accuracy: got 65"),
        (changed(["streams", 0, "running"], "x"), "streams[0].running: got 'x', allowed: one of head"),
        (changed(["streams", 0, "inference_profile"], 1), "streams[0].inference_profile: got 1"),
        (changed(["streams", 0, "inference_profile", "kind"], "cubic"), "kind: got 'cubic'"),
        (changed(["streams", 1, "inference_profile", "factor"], [1, "a"]), "factor[1]: got 'a'"),
        (changed(["streams", 1, "inference_profile", "points"], [{}]), "points[0].config: got None"),
        (changed(["streams", 0, "retrain_configs"], {"id": 1}), "streams[0].retrain_configs: got"),
        (changed(["streams", 0, "retrain_configs", 0, "gpu_seconds"], "x"), "retrain_configs[0].gpu_seconds: got 'x'"),
        (changed(["streams", 0, "retrain_configs", 0, "curve"], [5]), "retrain_configs[0].curve[0]: got 5"),
        (
            changed(["streams", 0, "retrain_configs", 0, "throughput"], [[0.5, 0.6], [0.4, 0.7]]),
            "retrain_configs[0].throughput[1][0]: got 0.4",
        ),
    ],
)
def test_a_bad_file_is_refused_by_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], value: object, words: str
) -> None:
    assert main(["plan", "window", write(tmp_path, value)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert words in printed.err
    assert "Traceback" not in printed.err


def test_an_absent_file_and_an_unknown_policy_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "window", str(tmp_path / "none.json")]) == 1
    assert "cannot be read: No such file" in capsys.readouterr().err
    assert main(["plan", "window", write(tmp_path, PROBLEM), "--policy", "best"]) == 1
    assert "policy: got 'best', allowed: one of relay" in capsys.readouterr().err
    assert main(["plan", "window", write(tmp_path, PROBLEM), "--out", str(tmp_path / "no" / "plan.json")]) == 1
    assert "cannot be written" in capsys.readouterr().err


HEAVY = ("torch", "cv2", "fastapi", "sqlalchemy", "scipy", "av", "onnxruntime", "pydantic")


def test_planning_starts_without_heavy_packages(tmp_path: Path) -> None:
    code = (
        "import sys, pkgutil, importlib, scheduler\n"
        "[importlib.import_module('scheduler.' + m.name) for m in pkgutil.iter_modules(scheduler.__path__)]\n"
        "from edge.cli import main\n"
        f"assert main(['plan', 'window', {write(tmp_path, PROBLEM)!r}]) == 0\n"
        "assert main(['schema', 'window-problem']) == 0\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr.strip() == "[]"


def test_schemas_accept_what_is_read_and_refuse_unknown_keys() -> None:
    jsonschema.validate(PROBLEM, schema("window-problem"))
    jsonschema.validate(WindowProblem.from_json(PROBLEM).to_json(), schema("window-problem"))
    for bad in (
        PROBLEM | {"gpus": 1},
        PROBLEM | {"num_gpus": "8"},
        {k: v for k, v in PROBLEM.items() if k != "streams"},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(bad, schema("window-problem"))


def test_schema_accepts_the_shared_problems(shared_dir: Path) -> None:
    files = sorted((shared_dir / "data" / "window-problems").glob("s*.json"))
    assert files
    for file in files[::7]:
        jsonschema.validate(json.loads(file.read_text()), schema("window-problem"))


REPO = Path(__file__).resolve().parents[2]


def test_the_documented_examples_are_valid_and_every_field_is_documented() -> None:
    text = (REPO / "docs" / "formats.md").read_text()
    blocks = [json.loads(part.split("```")[0]) for part in text.split("```json")[1:3]]
    jsonschema.validate(blocks[0], schema("window-problem"))
    assert WindowProblem.from_json(blocks[0]).streams[0].running == "head-e5"
    jsonschema.validate(blocks[1], schema("window-plan"))
    assert WindowPlan.from_json(blocks[1]).segments[1].start_s == 30.3
    for name in ("window-problem", "window-plan"):
        found = schema(name)
        fields = set(found["properties"])
        for definition in found["$defs"].values():
            fields |= set(definition["properties"])
        missing = [f for f in sorted(fields) if f'"{f}"' not in text and f"`{f}`" not in text and f".{f}`" not in text]
        assert missing == []


def test_faults_are_sentences_in_files() -> None:
    assert schema("window-plan")["properties"]["faults"] == {"type": "array", "items": {"type": "string"}}

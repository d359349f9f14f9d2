"""`magpie plan pipeline`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edge.cli import main
from scheduler.pipelines.policies import PIPELINE_POLICIES

ROWS = [[1, 0.02, "gpu", 1.0], [4, 0.05, "gpu", 1.0]]
PROBLEM: dict[str, Any] = {
    "format": "pipeline-problem/1",
    "name": "plates",
    "slo_s": 0.3,
    "edges": [["find", "read"]],
    "modules": {"find": {"rate": 30.0, "profile": ROWS}, "read": {"rate": 60.0, "profile": ROWS}},
}


def written(folder: Path, problem: object) -> str:
    (folder / "problem.json").write_text(json.dumps(problem))
    return str(folder / "problem.json")


@pytest.mark.parametrize("policy", PIPELINE_POLICIES)
def test_prints_a_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str], policy: str) -> None:
    assert main(["plan", "pipeline", written(tmp_path, PROBLEM), "--policy", policy]) == 0
    out, err = capsys.readouterr()
    plan = json.loads(out)
    assert err == ""
    assert (plan["format"], plan["problem"], plan["policy"]) == ("pipeline-plan/1", "plates", policy)
    assert plan["feasible"] is True
    assert plan["complete"] is True
    assert plan["decision_seconds"] > 0
    assert set(plan["modules"]) == {"find", "read"}
    assert plan["cost"] > 0


def test_an_objective_that_cannot_be_kept_ends_with_3_and_says_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "pipeline", written(tmp_path, {**PROBLEM, "slo_s": 0.03})]) == 3
    out, err = capsys.readouterr()
    assert json.loads(out)["feasible"] is False
    assert "slo_s: got 0.03, the path find > read takes 0.04 s at least" in err


def test_bad_fields_end_with_1_and_their_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "pipeline", written(tmp_path, {**PROBLEM, "edges": [["find", "faces"]]})]) == 1
    assert "edges[0][1]: got 'faces'" in capsys.readouterr().err
    assert main(["plan", "pipeline", written(tmp_path, PROBLEM), "--policy", "luck"]) == 1
    assert "policy: got 'luck'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"edges": [["find", "read"], ["read", "find"]]}, "edges: got 'a circle among find, read'"),
        (
            {"modules": PROBLEM["modules"] | {"x": {"rate": 1, "profile": ROWS}}},
            "modules.x: got 'a module that no",
        ),
        ({"modules": {"find": {"rate": 0, "profile": ROWS}, "read": PROBLEM["modules"]["read"]}}, "modules.find.rate"),
        ({"modules": {"find": {"rate": 1, "profile": []}, "read": PROBLEM["modules"]["read"]}}, "modules.find.profile"),
        ({"slo_s": 0}, "slo_s: got 0.0"),
    ],
)
def test_bad_graphs_and_rates_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any], words: str
) -> None:
    assert main(["plan", "pipeline", written(tmp_path, PROBLEM | change)]) == 1
    assert words in capsys.readouterr().err


def test_many_problems_are_answered_in_one_file(tmp_path: Path) -> None:
    file = written(tmp_path, {"format": "pipeline-problems/1", "problems": [PROBLEM, {**PROBLEM, "name": "two"}]})
    out = tmp_path / "plans.json"
    assert main(["plan", "pipeline", file, "--out", str(out)]) == 0
    value = json.loads(out.read_text())
    assert value["format"] == "pipeline-plans/1"
    assert [plan["problem"] for plan in value["plans"]] == ["plates", "two"]


def test_it_starts_without_torch(tmp_path: Path) -> None:
    code = f"import sys; from edge.cli import main; main(['plan', 'pipeline', {written(tmp_path, PROBLEM)!r}]); "
    done = subprocess.run(
        [sys.executable, "-c", code + "sys.exit('torch' in sys.modules)"], check=False, capture_output=True
    )
    assert done.returncode == 0, done.stderr

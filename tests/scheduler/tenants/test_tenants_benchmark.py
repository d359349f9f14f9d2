"""The benchmark of tenants' policies: all parts in one file, several plays at a time, each baseline beside its
reference. A program that answers by table stands in for the arena."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import bench_tenants as bench

ARENA = """
import json, sys
problem, policy = json.load(open(sys.argv[1])), sys.argv[sys.argv.index("--policy") + 1]
seed = int(sys.argv[sys.argv.index("--seed") + 1])
line = {"faults": 0, "of_oracle": 0.9, "reply_s": {"median": 0.01}}
if problem["kind"] == "pipeline":
    line |= {"e2e": 0.3 + 0.01 * seed, "p99_ms": 400.0, "last_half": {"p99_ms": 300.0 + seed}}
else:
    line |= {"sw": 0.9, "ew": 0.8 - 0.1 * (policy == "minerva") + 0.01 * seed, "njc": 1.0, "useful": 0.9}
print(json.dumps(line))
"""


@pytest.fixture
def played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the benchmark with these arguments; returns its exit code and results."""
    problems = tmp_path / "problems"
    problems.mkdir()
    for name, kind in (("few", "tenants"), ("line", "pipeline")):
        (problems / f"{name}.json").write_text(json.dumps({"format": "tenant-problem/1", "name": name, "kind": kind}))
    (problems / "expected.json").write_text(json.dumps({"line": {"evo": {"e2e": 0.34}}}))
    (tmp_path / "arena.py").write_text(ARENA)
    out = tmp_path / "results" / "tenants.json"

    def play(*arguments: str) -> tuple[int, Any]:
        given = ["bench_tenants", "--arena", str(tmp_path / "arena.py"), "--problems", str(problems)]
        monkeypatch.setattr(sys, "argv", [*given, "--out", str(out), *arguments])
        return bench.main(), json.loads(out.read_text())

    return play


def test_all_parts_are_played_into_one_file_in_order(played: Any, capsys: pytest.CaptureFixture[str]) -> None:
    code, result = played(
        "--own", "1", "--held-out", "5", "--policies", "ew,minerva", "--seeds", "0,1,2", "--jobs", "2"
    )  # fmt: skip
    assert (code, result["missed"]) == (0, [])
    assert list(result["plays"]) == ["few"]
    for part, number in (("own", 0), ("held_out", 5)):
        assert set(result[part]["plays"]) == {f"own-{kind}-{number}" for kind in ("tables", "box", "silent")}
    for part in (result, result["own"], result["held_out"]):
        assert part["jobs"] == 2
        for plays in part["plays"].values():
            assert list(plays) == ["ew", "minerva"]
            assert all(list(seeds) == ["0", "1", "2"] for seeds in plays.values())
    assert result["medians"]["few"]["ew"]["ew"] == pytest.approx(0.81)
    assert "with 2 plays at a time" in capsys.readouterr().out.splitlines()[-1]


def test_a_part_alone_keeps_the_others(played: Any) -> None:
    before = played("--policies", "ew", "--seeds", "0", "--own", "1", "--own-policies", "ew")[1]
    after = played("--policies", "minerva", "--seeds", "0", "--keep")[1]
    assert after["own"] == before["own"]
    assert set(after["plays"]["few"]) == {"ew", "minerva"}
    assert (before["played"], after["played"]) == (1, 1)


def test_plays_without_the_measure_that_is_compared_are_played_again(
    played: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _, before = played("--policies", "evo-e2e,e2e,fair", "--seeds", "0,1")
    for policy in ("evo-e2e", "e2e", "fair"):
        del before["plays"]["line"][policy]["1"]["e2e"]  # as an earlier version wrote them
    (tmp_path / "results" / "tenants.json").write_text(json.dumps(before))
    capsys.readouterr()
    # Another policy is played: the older plays are in the results, and the comparison is not made in silence.
    code, _ = played("--policies", "ew", "--seeds", "0", "--keep")
    assert code == 0
    assert "not compared: evo-e2e on line: no e2e in its plays\n" in capsys.readouterr().out
    code, after = played("--policies", "evo-e2e,e2e,fair", "--seeds", "0,1", "--keep")
    assert (code, after["played"]) == (1, 1), "e2e and fair are compared with nothing by this measure"
    assert after["missed"] == ["evo-e2e on line: e2e 0.305, reference 0.34"]
    assert "not compared" not in capsys.readouterr().out


def test_evolution_end_to_end_is_compared_with_its_reference(played: Any) -> None:
    code, result = played("--policies", "evo-e2e", "--seeds", "0,1")
    assert result["medians"]["line"]["evo-e2e"]["e2e"] == pytest.approx(0.305)
    assert (code, result["missed"]) == (1, ["evo-e2e on line: e2e 0.305, reference 0.34"])

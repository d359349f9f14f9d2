"""The pipeline formats: what is read, and what is refused with the field's path."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from edge.core.errors import InvalidValue
from edge.core.pipelines import MOST_MODULES, PipelineProblem, problems_of

ROWS = [[1, 0.02, "gpu", 1.0], [4, 0.05, "gpu", 1.0]]
PROBLEM: dict[str, Any] = {
    "format": "pipeline-problem/1",
    "name": "plates",
    "slo_s": 0.3,
    "edges": [["find", "read"], ["find", "colour"]],
    "structure": ["S", "find", ["P", "read", "colour"]],
    "modules": {
        "find": {"rate": 30.0, "profile": ROWS},
        "read": {"rate": 60.0, "profile": ROWS},
        "colour": {"rate": 60.0, "profile": ROWS},
    },
}


def changed(path: str, value: Any) -> dict[str, Any]:
    problem = copy.deepcopy(PROBLEM)
    at: Any = problem
    *parents, last = path.split("/")
    for key in parents:
        at = at[int(key) if isinstance(at, list) else key]
    at[int(last) if isinstance(at, list) else last] = value
    return problem


def test_reads_and_writes() -> None:
    problem = PipelineProblem.from_json(PROBLEM)
    assert [m.name for m in problem.modules] == ["find", "read", "colour"]
    assert problem.order == ("find", "read", "colour")
    assert PipelineProblem.from_json(problem.to_json()) == problem


@pytest.mark.parametrize(
    ("path", "value", "where"),
    [
        ("format", "pipeline-problem/2", "format"),
        ("slo_s", 0, "slo_s"),
        ("slo_s", float("nan"), "slo_s"),
        ("slo_s", "fast", "slo_s"),
        ("modules", {}, "modules"),
        ("modules/find/rate", 0, "modules.find.rate"),
        ("modules/find/rate", -3, "modules.find.rate"),
        ("modules/find/rate", True, "modules.find.rate"),
        ("modules/find/profile", [], "modules.find.profile"),
        ("modules/find/profile", "none", "modules.find.profile"),
        ("modules/find/profile/1", [4, 0.05, "gpu"], "modules.find.profile[1]"),
        ("modules/find/profile/1/0", 2.5, "modules.find.profile[1].0"),
        ("modules/find/profile/1/0", 0, "modules.find.profile[1].0"),
        ("modules/find/profile/1/1", 0, "modules.find.profile[1].1"),
        ("modules/find/profile/1/2", 7, "modules.find.profile[1].2"),
        ("modules/find/profile/1/3", -1, "modules.find.profile[1].3"),
        ("modules/find/profile/1/0", 1, "modules.find.profile"),
        ("modules/find/fan_out", 3, "modules.find.fan_out"),
        ("edges/0", ["find"], "edges[0]"),
        ("edges/0/1", "faces", "edges[0][1]"),
        ("edges/1/1", "read", "edges"),
        ("edges/1", ["read", "find"], "modules.colour"),
        ("objective", 3, "objective"),
    ],
)
def test_refuses_a_bad_field_by_its_path(path: str, value: Any, where: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        PipelineProblem.from_json(changed(path, value))
    assert caught.value.path == where


@pytest.mark.parametrize("edges", [[["find", "read"], ["read", "colour"], ["colour", "read"]], [["find", "find"]]])
def test_refuses_a_circle_and_names_its_modules(edges: list[list[str]]) -> None:
    problem = changed("edges", edges)
    problem["modules"] = {m: v for m, v in problem["modules"].items() if any(m in edge for edge in edges)}
    with pytest.raises(InvalidValue, match="edges: got 'a circle among ") as caught:
        PipelineProblem.from_json(problem)
    assert caught.value.path == "edges"


def test_refuses_a_stage_that_is_not_fed() -> None:
    with pytest.raises(InvalidValue, match=r"modules\.colour: got 'a module that no edge names'"):
        PipelineProblem.from_json(changed("edges", [["find", "read"]]))


def test_refuses_too_many_modules() -> None:
    many = {f"m{n}": {"rate": 1.0, "profile": ROWS} for n in range(MOST_MODULES + 1)}
    with pytest.raises(InvalidValue, match="at most 64 modules"):
        PipelineProblem.from_json({**PROBLEM, "edges": [], "modules": many})


def test_a_file_of_many_problems_names_the_bad_one() -> None:
    assert len(problems_of({"problems": [PROBLEM, PROBLEM]})) == 2
    with pytest.raises(InvalidValue) as caught:
        problems_of({"problems": [PROBLEM, changed("slo_s", -1)]})
    assert caught.value.path == "problems[1].slo_s"

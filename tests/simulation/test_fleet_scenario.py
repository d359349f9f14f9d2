"""Scenario files with a fault: the error names the field, and nothing hangs."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fleet_kit import boxes, scenario

from edge.core.errors import InvalidValue
from edge.simulation.fleet_scenario import read_scenario, scenario_from_json

JOB = {"id": "a", "t": 0, "demand": {"cpu": 1}, "duration_s": 1}
GOOD = scenario(
    boxes(2),
    [
        JOB,
        JOB | {"id": "b", "after": ["a"], "queue": "q", "tenant": "t", "priority": 2},
        JOB | {"id": "c", "prefer": [{"zone": {"site": ["north"]}, "avoid": {"group": "g"}}, {}], "relax_after_s": 1},
    ],
    tenants=[{"name": "t", "weight": 1}],
    queues=[{"name": "q", "slots": 1, "discipline": "priority"}],
    faults=[{"t": 5, "kind": "box_down", "box": "b0"}, {"t": 2, "kind": "head_down"}],
    expect={"deadline_s": 9, "hfs": {"resource": "cpu", "from": 0, "to": 1, "max_error": 0.1},
            "balance": [{"jobs": "a", "at": 1, "most": 1}]},
)  # fmt: skip


def change(*path: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    """Put a value where `path` leads."""

    def put(value: Any) -> None:
        for key in path[:-1]:
            value = value[key]
        value[path[-1]] = to

    return put


def test_a_good_scenario_is_read() -> None:
    read = scenario_from_json(GOOD)
    assert [fault.kind for fault in read.faults] == ["head_down", "box_down"]
    assert read.expect.detect_s == 15.0
    assert read.expect.hfs is not None


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("surprise", change("surprise", to=1)),
        ("format", change("format", to="fleet-scenario/9")),
        ("placement", change("placement", to="random")),
        ("boxes", change("boxes", to=[])),
        ("boxes", change("boxes", to=3)),
        ("boxes[1].name", change("boxes", 1, "name", to="b0")),
        ("boxes[0].name", change("boxes", 0, "name", to="a box")),
        ("boxes[0].colour", change("boxes", 0, "colour", to="red")),
        ("boxes[0].resources", change("boxes", 0, "resources", to=None)),
        ("boxes[0].resources.c p u", change("boxes", 0, "resources", to={"c p u": 1})),
        ("boxes[0].resources.at:a", change("boxes", 0, "resources", to={"at:a": 1})),
        ("boxes[0].resources.cpu", change("boxes", 0, "resources", "cpu", to=-1)),
        ("boxes[0].labels.box", change("boxes", 0, "labels", "box", to="b7")),
        ("boxes[0].labels.rack", change("boxes", 0, "labels", "rack", to=7)),
        ("tenants[0].weight", change("tenants", 0, "weight", to=0)),
        ("tenants[0].parent", change("tenants", 0, "parent", to="nobody")),
        ("queues[0].slots", change("queues", 0, "slots", to=0)),
        ("queues[0].discipline", change("queues", 0, "discipline", to="lifo")),
        ("jobs[0]", change("jobs", 0, to="a")),
        ("jobs[0].id", change("jobs", 0, "id", to="")),
        ("jobs[1].id", change("jobs", 1, "id", to="a")),
        ("jobs[0].t", change("jobs", 0, "t", to=-1)),
        ("jobs[0].tasks", change("jobs", 0, "tasks", to=0)),
        ("jobs[0].tasks", change("jobs", 0, "tasks", to=1.5)),
        ("jobs[0].demand.cpu", change("jobs", 0, "demand", "cpu", to=float("nan"))),
        ("jobs[0].demand.\u200bcpu", change("jobs", 0, "demand", to={"\u200bcpu": 1})),
        ("jobs[0].demand.done:b", change("jobs", 0, "demand", to={"done:b": 1})),
        ("jobs[0].offers.cpu", change("jobs", 0, "offers", to={"cpu": 1})),
        ("jobs[0].offers.at:a", change("jobs", 0, "offers", to={"at:a": 1})),
        ("jobs[0].gang", change("jobs", 0, "gang", to="yes")),
        ("jobs[0].overlap", change("jobs", 0, "overlap", to="always")),
        ("jobs[1].after", change("jobs", 1, "after", to=["nobody"])),
        ("jobs[1].after[0]", change("jobs", 1, "after", to=[5])),
        ("jobs[0].near", change("jobs", 0, "near", to=["nobody"])),
        ("jobs[0].after", change("jobs", 0, "after", to=["b"])),
        ("jobs[1].queue", change("jobs", 1, "queue", to="nobody")),
        ("jobs[1].tenant", change("jobs", 1, "tenant", to="nobody")),
        ("jobs[2].prefer[0].speed", change("jobs", 2, "prefer", 0, "speed", to=1)),
        ("jobs[2].prefer[0].avoid.group", change("jobs", 2, "prefer", 0, "avoid", to={"group": "a b"})),
        ("jobs[2].prefer[0].zone.site", change("jobs", 2, "prefer", 0, "zone", "site", to=[])),
        ("jobs[2].prefer[1].near", change("jobs", 2, "prefer", 1, "near", to=["nobody"])),
        ("faults[0].kind", change("faults", 0, "kind", to="meteor")),
        ("faults[0].box", change("faults", 0, "box", to=None)),
        ("expect.patience", change("expect", "patience", to=1)),
        ("expect.hfs.resource", change("expect", "hfs", "resource", to=None)),
        ("expect.balance[0].most", change("expect", "balance", 0, "most", to="few")),
    ],
)
def test_the_error_names_the_field(path: str, fault: Callable[[dict[str, Any]], None]) -> None:
    value = copy.deepcopy(GOOD)
    fault(value)
    with pytest.raises(InvalidValue) as error:
        scenario_from_json(value)
    assert error.value.path == path
    assert error.value.allowed


def test_a_duration_has_to_be_given_since_null_means_a_service() -> None:
    value = copy.deepcopy(GOOD)
    del value["jobs"][0]["duration_s"]
    with pytest.raises(InvalidValue, match=r"jobs\[0\].duration_s"):
        scenario_from_json(value)


def test_a_circle_may_stand_where_a_refusal_is_expected() -> None:
    jobs = [JOB | {"after": ["b"], "infeasible": True}, JOB | {"id": "b", "after": ["a"], "infeasible": True}]
    assert len(scenario_from_json(scenario(boxes(1), jobs)).jobs) == 2


@pytest.mark.parametrize("text", ["", "[]", "{", "[" * 100_000, '{"format": 1}'])
def test_files_that_are_none(text: str, tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(text)
    with pytest.raises(InvalidValue):
        read_scenario(path)
    with pytest.raises(InvalidValue, match="can be read"):
        read_scenario(tmp_path / "none.json")


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(GOOD))
    assert read_scenario(path) == scenario_from_json(GOOD)

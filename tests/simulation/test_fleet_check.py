"""The checker of fleet logs: a good log is accepted, each change that breaks a rule is refused by that rule."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fleet_kit import boxes, scenario

from edge.core.errors import InvalidValue
from edge.simulation.fleet_check import check_log, read_log
from edge.simulation.fleet_scenario import scenario_from_json
from edge.simulation.fleet_simulation import FleetSimulation

Rows = list[dict[str, Any]]


def value() -> dict[str, Any]:
    """A fleet with a bit of everything."""
    one = {"demand": {"cpu": 1}, "duration_s": 2}
    jobs = [
        {"id": "camera", "t": 0, "demand": {"cpu": 1}, "duration_s": None, "overlap": "allowed"},
        {"id": "work", "t": 1} | one,
        {"id": "gang", "t": 1, "tasks": 2, "gang": True} | one,
        {"id": "near", "t": 2, "near": ["camera"]} | one,
        {"id": "zone", "t": 2, "zone": {"site": ["south"]}} | one,
        {"id": "apart", "t": 2, "tasks": 2, "avoid": {"group": "g", "per": "rack"}} | one,
        {"id": "first", "t": 3, "queue": "q"} | one,
        {"id": "second", "t": 3.5, "queue": "q"} | one,
        {"id": "last", "t": 3, "after": ["first"]} | one,
        {"id": "soft", "t": 4, "prefer": [{"zone": {"site": ["north"]}}, {}], "relax_after_s": 5} | one,
        {"id": "huge", "t": 4, "demand": {"cpu": 99}, "duration_s": 1, "infeasible": True},
    ]
    faults = [
        {"t": 20, "kind": "box_cut", "box": "b0"},
        {"t": 60, "kind": "box_healed", "box": "b0"},
        {"t": 70, "kind": "drain", "box": "b2"},
        {"t": 80, "kind": "head_down"},
        {"t": 90, "kind": "head_up"},
        {"t": 100, "kind": "box_down", "box": "b3"},
    ]
    balance = [{"jobs": "apart", "at": 3, "most": 1}]
    return scenario(
        boxes(4), jobs, faults=faults, queues=[{"name": "q", "slots": 1}],
        expect={"max_gap_s": 20, "deadline_s": 30, "replace_s": 20, "balance": balance},
    )  # fmt: skip


def good() -> Rows:
    """Its log."""
    return copy.deepcopy(list(FleetSimulation(scenario_from_json(value())).run().log))


def judged(rows: Rows, **change: Any) -> dict[str, int]:
    """Breaches by rule."""
    given = value()
    given["expect"] |= change
    return dict(check_log(scenario_from_json(given), sorted(rows, key=lambda row: row["t"])).counts)


def find(rows: Rows, event: str, job: str, n: int = 0) -> dict[str, Any]:
    return [row for row in rows if row["event"] == event and row.get("job") == job][n]


def add(rows: Rows, at_s: float, event: str, **row: Any) -> None:
    rows.append({"t": at_s, "event": event, **row})


def place(rows: Rows, at_s: float, job: str, box: str, task: int = 0, **row: Any) -> None:
    add(rows, at_s, "placed", job=job, task=task, box=box, demand={"cpu": 1}, **row)


def drop(rows: Rows, event: str, job: str) -> None:
    rows.remove(find(rows, event, job))


def other_rack(rows: Rows) -> None:
    """Both tasks that are to be apart are on the box of the first one."""
    box = find(rows, "placed", "apart")["box"]
    for row in rows:
        if row.get("job") == "apart":
            row["box"] = box
            if row["event"] == "placed":
                row["demand"] = {"cpu": 1}


def on_box(rows: Rows, job: str, box: str) -> None:
    for row in rows:
        if row.get("job") == job and "box" in row:
            row["box"] = box
            if row["event"] == "placed":
                row["demand"] = {"cpu": 1}


def two_copies(rows: Rows) -> None:
    """The camera's older copy goes on after the cut."""
    find(rows, "evicted", "camera")["t"] = 66.0


def elsewhere(rows: Rows, job: str) -> str:
    return next(box for box in ("b1", "b3") if box != find(rows, "placed", job)["box"])


BREAKS: list[tuple[str, Callable[[Rows], object]]] = [
    ("log", lambda rows: add(rows, 5.0, "exploded", box="b0")),
    ("log", lambda rows: find(rows, "ended", "work").update(t=2.0)),
    ("log", lambda rows: drop(rows, "started", "work")),
    ("log", lambda rows: find(rows, "submitted", "work").update(t=0.5)),
    ("capacity", lambda rows: find(rows, "placed", "work").update(demand={"cpu": 0.5})),
    ("capacity", lambda rows: find(rows, "placed", "work").update(demand={"cpu": 5})),
    ("capacity", lambda rows: find(rows, "placed", "work").update(demand={"cpu": 1, "x:y": 1})),
    ("capacity", lambda rows: add(rows, 5.0, "set_resource", name="cpu", box="b0", capacity=9)),
    ("down", lambda rows: place(rows, 120.0, "camera", "b3")),
    ("gang", lambda rows: find(rows, "placed", "gang", 1).update(t=1.5)),
    ("gang", lambda rows: drop(rows, "placed", "gang")),
    ("avoid", other_rack),
    ("near", lambda rows: on_box(rows, "near", elsewhere(rows, "camera"))),
    ("zone", lambda rows: on_box(rows, "zone", "b2")),
    ("after", lambda rows: find(rows, "placed", "last").update(t=4.0)),
    ("fifo", lambda rows: (find(rows, "placed", "first").update(t=7.0), find(rows, "placed", "second").update(t=4.0))),
    ("queue", lambda rows: find(rows, "placed", "second").update(t=4.0)),
    ("soft", lambda rows: find(rows, "placed", "soft").update(choice=1)),
    ("copies", two_copies),
    ("copies", lambda rows: place(rows, 5.0, "work", elsewhere(rows, "work"))),
    ("lost", lambda rows: drop(rows, "ended", "work")),
    ("lost", lambda rows: drop(rows, "rejected", "huge")),
    ("lost", lambda rows: drop(rows, "submitted", "huge")),
    ("lost", lambda rows: add(rows, 50.0, "rejected", job="work", reason="no")),
    ("autonomy", lambda rows: find(rows, "placed", "camera", 1).update(t=85.0)),
    ("drain", lambda rows: place(rows, 75.0, "work", "b2")),
    ("deadline", lambda rows: find(rows, "ended", "work").update(t=31.0)),
]  # fmt: skip


def test_a_good_log_is_accepted() -> None:
    assert judged(good()) == {}


@pytest.mark.parametrize(("rule", "change"), BREAKS)
def test_a_broken_rule_is_named(rule: str, change: Callable[[Rows], object]) -> None:
    rows = good()
    change(rows)
    assert rule in judged(rows)


@pytest.mark.parametrize(
    ("rule", "change"),
    [
        ("balance", {"balance": [{"jobs": "apart", "at": 3, "most": 0}]}),
        ("pack", {"pack": [{"jobs": "apart", "at": 3, "most": 1}]}),
        ("deadline", {"deadline_s": 5}),
    ],
)
def test_an_expectation_that_is_not_met_is_named(rule: str, change: dict[str, Any]) -> None:
    assert judged(good(), **change) == {rule: 1}


def test_gaps_and_slow_replacements_are_named() -> None:
    jobs = [{"id": "camera", "t": 0, "demand": {"cpu": 1}, "duration_s": None, "overlap": "allowed"}]
    faults = [{"t": 20, "kind": "box_down", "box": "b0"}]
    given = scenario_from_json(scenario(boxes(2), jobs, faults=faults, expect={"max_gap_s": 5, "replace_s": 5}))
    assert check_log(given, FleetSimulation(given).run().log).counts == {"replace": 1, "gap": 1}
    assert check_log(given, FleetSimulation(given).run().log, tolerance_s=15.0).accepted


def test_unfair_shares_are_named() -> None:
    jobs = [
        {"id": f"{t}{n}", "t": 0, "demand": {"cpu": 4}, "duration_s": 2, "tenant": t} for t in "ab" for n in range(5)
    ]
    tenants = [{"name": "a", "weight": 1}, {"name": "b", "weight": 1}]
    expect = {"hfs": {"resource": "cpu", "from": 0, "to": 8, "max_error": 0.1}}
    given = scenario_from_json(scenario(boxes(1), jobs, tenants=tenants, expect=expect))
    log = sorted(FleetSimulation(given).run().log, key=lambda row: row["t"])
    assert check_log(given, log).accepted
    one_sided = [row | {"job": row["job"].translate(str.maketrans("ab", "ba"))} if "job" in row else row for row in log]
    order = [row["job"] for row in log if row["event"] == "placed"]
    assert order[0][0] != order[1][0]
    only = [row for row in one_sided if row.get("job", "a")[0] == "a" or row["event"] == "submitted"]
    assert "hfs" in check_log(given, only).counts


def test_a_file_that_is_no_log_is_refused_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text('{"t": 0, "event": "end"}\n[]\n')
    with pytest.raises(InvalidValue, match="line 2"):
        list(read_log(path))
    path.write_text("{\n")
    with pytest.raises(InvalidValue, match="line 1"):
        list(read_log(path))
    with pytest.raises(InvalidValue, match="can be read"):
        list(read_log(tmp_path / "none"))

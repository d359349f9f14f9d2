"""Simulated fleets under faults: every log is judged by the project's checker, and by the shared one where it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from fleet_kit import boxes, overlapping_faults, random_scenario, scenario

from benchmarks.scripts import load_script
from edge.simulation.fleet_check import check_log
from edge.simulation.fleet_scenario import read_scenario, scenario_from_json
from edge.simulation.fleet_simulation import FleetRun, FleetSimulation

SHOWN = ["affinity", "apart", "box-lost", "composed", "fair-share", "gangs", "head-lost", "order", "soft"]


def play(value: dict[str, Any]) -> FleetRun:
    """Simulate a scenario whose log has to be accepted, and in which no job waits at the end."""
    given = scenario_from_json(value)
    run = FleetSimulation(given).run()
    verdict = check_log(given, run.log)
    assert verdict.accepted, verdict.to_json()
    assert run.waiting == {}
    return run


@pytest.mark.parametrize("seed", range(40))
def test_random_fleets_keep_every_rule(seed: int) -> None:
    play(random_scenario(seed))


@pytest.mark.parametrize("seed", range(40))
def test_faults_that_overlap_break_no_rule(seed: int) -> None:
    value = random_scenario(seed)
    play(value | {"faults": overlapping_faults(seed, len(value["boxes"]))})


@pytest.mark.parametrize("seed", range(60, 75))
def test_the_shared_checker_agrees(seed: int, shared_dir: Path) -> None:
    value = random_scenario(seed)
    checker = load_script(shared_dir / "data" / "check_fleet_log.py").Checker(value)
    for row in play(value).log:
        checker.feed(row)
    checker.expectations()
    assert checker.faults == []


@pytest.mark.parametrize("name", SHOWN)
def test_the_shared_scenarios_are_accepted_by_both_checkers(name: str, shared_dir: Path) -> None:
    path = shared_dir / "data" / "fleet-problems" / f"{name}.json"
    checker = load_script(shared_dir / "data" / "check_fleet_log.py").Checker(json.loads(path.read_text()))
    given = read_scenario(path)
    log = FleetSimulation(given).run().log
    for row in log:
        checker.feed(row)
    checker.expectations()
    assert checker.faults == []
    assert check_log(given, log).accepted


CAMERA = {"id": "camera", "t": 0, "demand": {"cpu": 1}, "duration_s": None, "overlap": "allowed"}


def events(run: FleetRun, kind: str, job: str) -> list[tuple[float, str]]:
    """(time, box) of each event of a job."""
    return [(row["t"], row["box"]) for row in run.log if row["event"] == kind and row.get("job") == job]


def faults(*rows: tuple[float, str, str]) -> list[dict[str, Any]]:
    """Faults of boxes (time, kind, box)."""
    return [{"t": at_s, "kind": kind, "box": box} for at_s, kind, box in rows]


def test_nothing_moves_while_a_box_is_cut_off_for_less_than_its_lease() -> None:
    work = {"id": "work", "t": 1, "demand": {"cpu": 4}, "duration_s": 3}
    rows = faults((2, "box_cut", "b0"), (2, "box_cut", "b1"), (10, "box_healed", "b0"), (10, "box_healed", "b1"))
    run = play(scenario(boxes(2, cpu=5.0), [CAMERA, work], faults=rows))
    assert len(events(run, "placed", "camera")) == len(events(run, "placed", "work")) == 1
    assert events(run, "ended", "work")[0][0] == 10.0


def test_a_camera_of_a_lost_box_runs_elsewhere_in_time_and_the_older_copy_stops() -> None:
    run = play(
        scenario(boxes(2), [CAMERA], faults=faults((20.5, "box_cut", "b0"), (60, "box_healed", "b0")),
                 expect={"max_gap_s": 1})
    )  # fmt: skip
    (_, first), (moved_s, second) = events(run, "started", "camera")
    assert (first, second) == ("b0", "b1")
    assert 12.0 < moved_s - 20.5 < 16.0
    assert events(run, "evicted", "camera") == [(60, "b0")]


def test_a_killed_box_that_is_back_at_once_gets_its_camera_back() -> None:
    run = play(scenario(boxes(1), [CAMERA], faults=faults((20, "box_down", "b0"), (23, "box_up", "b0"))))
    assert events(run, "placed", "camera")[1] == (23, "b0")


def test_without_a_head_a_box_restarts_its_own_camera() -> None:
    rows = faults((5, "box_down", "b0"), (8, "box_up", "b0"))
    away = [{"t": 4, "kind": "head_down"}, {"t": 40, "kind": "head_up"}]
    run = play(scenario(boxes(1), [CAMERA], faults=[*away, *rows], expect={"max_gap_s": 5}))
    (row,) = [row for row in run.log if row["event"] == "placed" and row["t"] > 1]
    assert (row["t"], row["by"]) == (9.0, "box")


def test_without_a_head_work_ends_and_new_work_waits_for_one() -> None:
    jobs = [
        {"id": "old", "t": 1, "demand": {"cpu": 1}, "duration_s": 5},
        {"id": "new", "t": 10, "demand": {"cpu": 1}, "duration_s": 5},
    ]
    away = [{"t": 3, "kind": "head_down"}, {"t": 30, "kind": "head_up"}]
    run = play(scenario(boxes(2), jobs, faults=away))
    assert events(run, "ended", "old")[0][0] == pytest.approx(6.01)
    assert events(run, "placed", "new")[0][0] == 30


def test_a_job_without_room_waits_with_a_reason_and_the_run_ends() -> None:
    job = {"id": "late", "t": 1, "demand": {"cpu": 4}, "duration_s": 5}
    given = scenario_from_json(scenario(boxes(1), [CAMERA, job]))
    run = FleetSimulation(given).run()
    assert run.waiting["late"].code == "full"
    assert check_log(given, run.log).counts == {"lost": 1}

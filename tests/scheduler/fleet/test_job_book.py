"""The table of a fleet's jobs."""

from __future__ import annotations

from typing import Any

import pytest

from edge.core.errors import Conflict, InvalidValue, NotFound
from edge.core.fleet_job_file import submitted_job
from edge.core.fleet_jobs import LARGEST_ANSWER, FleetJobRecord, FleetJobTable
from edge.core.fleet_reasons import FleetReason
from scheduler.fleet import job_book


def given(name: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "demand": {"cpu": 1}, "duration_s": 5.0} | fields


def table_of(*jobs: dict[str, Any]) -> FleetJobTable:
    table = FleetJobTable()
    for n, job in enumerate(jobs):
        table = job_book.added(table, submitted_job(job), job, "ada", 100.0 + n)
    return table


def test_jobs_come_in_once_and_name_jobs_that_are_there() -> None:
    table = table_of(given("one"), given("two", after=["one"]))
    assert job_book.open_jobs(table) == ["one", "two"]
    with pytest.raises(Conflict, match="there is a job one already"):
        job_book.added(table, submitted_job(given("one")), given("one"), "ada", 0.0)
    for job, path in (
        (given("x", after=["one", "none"]), "after[1]"),
        (given("x", near=["none"]), "near[0]"),
        (given("x", prefer=[{}, {"near": ["none"]}]), "prefer[1].near[0]"),
    ):
        with pytest.raises(InvalidValue) as caught:
            job_book.added(table, submitted_job(job), job, "ada", 0.0)
        assert caught.value.path == path
    full = table_of(*(given(f"j{n}") for n in range(job_book.MOST_OPEN)))
    with pytest.raises(Conflict, match="jobs are open"):
        job_book.added(full, submitted_job(given("more")), given("more"), "ada", 0.0)


def test_what_becomes_of_a_job_is_reported() -> None:
    table = table_of(given("one", tasks=3))
    table = job_book.task_kept(table, "one", 0, {"done_s": 1.0})
    table = job_book.task_raised(table, "one", 1, 2, "no " * 1000)
    table = job_book.task_done(table, "one", 0, "b1", {"held_s": 5.0})
    table = job_book.task_done(table, "one", 2, "b2", "x" * LARGEST_ANSWER)
    kept = table.jobs["one"]
    assert (kept.kept, list(kept.raised)) == ({}, [1])
    report = job_book.report(kept, {1: "b1"}, FleetReason("full", (), 1, 0))
    assert (report.phase, report.running, report.program) == ("running", {1: "b1"}, "wait")
    assert report.done_on[0].answer == {"held_s": 5.0}
    assert report.done_on[2].answer is None, "it is too large"
    assert len(report.raised[1].why) == 500
    table = job_book.task_done(table, "one", 1, "b1", None)
    over = job_book.over(table, "one", 3, 200.0).jobs["one"]
    assert (over.outcome, over.over_utc_s, over.raised) == ("ended", 200.0, {})
    report = job_book.report(over, {1: "b1"}, FleetReason("full"))
    assert (report.phase, report.running, report.why) == ("ended", {}, None)


def test_a_withdrawn_job_is_over_when_its_tasks_are() -> None:
    table = job_book.withdrawn(table_of(given("one", tasks=2)), "one", "ada")
    assert job_book.report(table.jobs["one"], {0: "b1"}, None).phase == "stopping"
    assert job_book.withdrawn(table, "one", "bea") is table, "the first one counts"
    table = job_book.over(job_book.task_done(table, "one", 0, "b1", 1), "one", 2, 200.0)
    assert (table.jobs["one"].outcome, table.jobs["one"].withdrawn_by) == ("withdrawn", "ada")
    with pytest.raises(Conflict, match="over"):
        job_book.withdrawn(table, "one", "ada")
    with pytest.raises(NotFound):
        job_book.withdrawn(table, "none", "ada")
    waits = job_book.withdrawn(table_of(given("one"), given("two")), "two", "")
    assert job_book.open_jobs(job_book.stopped(waits, 300.0)) == ["one"]


def test_a_refused_job_has_a_reason_and_nothing_changes_a_job_that_is_over() -> None:
    why = FleetReason("too_large", ("cpu",), 9, 4)
    table = job_book.refused(table_of(given("one")), "one", why, 200.0)
    assert job_book.report(table.jobs["one"], {}, None).why == why
    assert job_book.over(table, "one", 1, 300.0) is table
    assert job_book.task_kept(table, "one", 0, {}) is table
    for change in (
        job_book.task_done(table, "none", 0, "b1", 1), job_book.task_raised(table, "none", 0, 1, ""),
        job_book.over(table, "none", 1, 0.0), job_book.task_kept(table, "none", 0, {}),
    ):  # fmt: skip
        assert change is table


def test_the_newest_that_are_over_are_kept_and_those_that_open_jobs_name() -> None:
    table = table_of(*(given(f"j{n}") for n in range(4)), given("open", after=["j0"]))
    for n, at_s in ((0, 10.0), (1, 40.0), (2, 20.0), (3, 30.0)):
        table = job_book.over(job_book.task_done(table, f"j{n}", 0, "b1", 1), f"j{n}", 1, at_s)
    assert job_book.to_forget(table, 4) == []
    assert job_book.to_forget(table, 1) == ["j2", "j3"]
    assert list(job_book.without(table, ["j2", "j3"]).jobs) == ["j0", "j1", "open"]


def test_a_job_that_this_version_cannot_read_is_left_out() -> None:
    table = table_of(given("one"))
    strange = FleetJobTable({**table.jobs, "odd": FleetJobRecord({"id": "odd", "colour": "red"}, 7, "ada", 0.0)}, 8)
    assert job_book.usable(strange) == FleetJobTable(table.jobs, 8)

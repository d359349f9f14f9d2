"""The book of a fleet's jobs."""

from __future__ import annotations

from typing import Any

import pytest

from edge.core.errors import Conflict, InvalidValue, NotFound
from edge.core.fleet_job_file import submitted_job
from edge.core.fleet_jobs import LARGEST_ANSWER, JobBook, KeptJob
from edge.core.fleet_reasons import FleetReason
from scheduler.fleet import job_book


def given(name: str, **fields: Any) -> dict[str, Any]:
    return {"id": name, "demand": {"cpu": 1}, "duration_s": 5.0} | fields


def book_of(*jobs: dict[str, Any]) -> JobBook:
    book = JobBook()
    for n, job in enumerate(jobs):
        book = job_book.added(book, submitted_job(job), job, "ada", 100.0 + n)
    return book


def test_jobs_come_in_once_and_name_jobs_that_are_there() -> None:
    book = book_of(given("one"), given("two", after=["one"]))
    assert job_book.open_jobs(book) == ["one", "two"]
    with pytest.raises(Conflict, match="there is a job one already"):
        job_book.added(book, submitted_job(given("one")), given("one"), "ada", 0.0)
    for job, path in (
        (given("x", after=["one", "none"]), "after[1]"),
        (given("x", near=["none"]), "near[0]"),
        (given("x", prefer=[{}, {"near": ["none"]}]), "prefer[1].near[0]"),
    ):
        with pytest.raises(InvalidValue) as caught:
            job_book.added(book, submitted_job(job), job, "ada", 0.0)
        assert caught.value.path == path
    full = book_of(*(given(f"j{n}") for n in range(job_book.MOST_OPEN)))
    with pytest.raises(Conflict, match="jobs are open"):
        job_book.added(full, submitted_job(given("more")), given("more"), "ada", 0.0)


def test_what_becomes_of_a_job_is_reported() -> None:
    book = book_of(given("one", tasks=3))
    book = job_book.task_kept(book, "one", 0, {"done_s": 1.0})
    book = job_book.task_raised(book, "one", 1, 2, "no " * 1000)
    book = job_book.task_done(book, "one", 0, "b1", {"held_s": 5.0})
    book = job_book.task_done(book, "one", 2, "b2", "x" * LARGEST_ANSWER)
    kept = book.jobs["one"]
    assert (kept.kept, list(kept.raised)) == ({}, [1])
    report = job_book.report(kept, {1: "b1"}, FleetReason("full", (), 1, 0))
    assert (report.phase, report.running, report.program) == ("running", {1: "b1"}, "wait")
    assert report.done_on[0].answer == {"held_s": 5.0}
    assert report.done_on[2].answer is None, "it is too large"
    assert len(report.raised[1].why) == 500
    book = job_book.task_done(book, "one", 1, "b1", None)
    over = job_book.over(book, "one", 3, 200.0).jobs["one"]
    assert (over.outcome, over.over_utc_s, over.raised) == ("ended", 200.0, {})
    report = job_book.report(over, {1: "b1"}, FleetReason("full"))
    assert (report.phase, report.running, report.why) == ("ended", {}, None)


def test_a_withdrawn_job_is_over_when_its_tasks_are() -> None:
    book = job_book.withdrawn(book_of(given("one", tasks=2)), "one", "ada")
    assert job_book.report(book.jobs["one"], {0: "b1"}, None).phase == "stopping"
    assert job_book.withdrawn(book, "one", "bea") is book, "the first one counts"
    book = job_book.over(job_book.task_done(book, "one", 0, "b1", 1), "one", 2, 200.0)
    assert (book.jobs["one"].outcome, book.jobs["one"].withdrawn_by) == ("withdrawn", "ada")
    with pytest.raises(Conflict, match="over"):
        job_book.withdrawn(book, "one", "ada")
    with pytest.raises(NotFound):
        job_book.withdrawn(book, "none", "ada")
    waits = job_book.withdrawn(book_of(given("one"), given("two")), "two", "")
    assert job_book.open_jobs(job_book.stopped(waits, 300.0)) == ["one"]


def test_a_refused_job_has_a_reason_and_nothing_changes_a_job_that_is_over() -> None:
    why = FleetReason("too_large", ("cpu",), 9, 4)
    book = job_book.refused(book_of(given("one")), "one", why, 200.0)
    assert job_book.report(book.jobs["one"], {}, None).why == why
    assert job_book.over(book, "one", 1, 300.0) is book
    assert job_book.task_kept(book, "one", 0, {}) is book
    for change in (
        job_book.task_done(book, "none", 0, "b1", 1), job_book.task_raised(book, "none", 0, 1, ""),
        job_book.over(book, "none", 1, 0.0), job_book.task_kept(book, "none", 0, {}),
    ):  # fmt: skip
        assert change is book


def test_the_newest_that_are_over_are_kept_and_those_that_open_jobs_name() -> None:
    book = book_of(*(given(f"j{n}") for n in range(4)), given("open", after=["j0"]))
    for n, at_s in ((0, 10.0), (1, 40.0), (2, 20.0), (3, 30.0)):
        book = job_book.over(job_book.task_done(book, f"j{n}", 0, "b1", 1), f"j{n}", 1, at_s)
    assert job_book.to_forget(book, 4) == []
    assert job_book.to_forget(book, 1) == ["j2", "j3"]
    assert list(job_book.without(book, ["j2", "j3"]).jobs) == ["j0", "j1", "open"]


def test_a_job_that_this_version_cannot_read_is_left_out() -> None:
    book = book_of(given("one"))
    strange = JobBook({**book.jobs, "odd": KeptJob({"id": "odd", "colour": "red"}, 7, "ada", 0.0)}, 8)
    assert job_book.usable(strange) == JobBook(book.jobs, 8)

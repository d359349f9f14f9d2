"""Lent retrainings in the window controller, event by event."""

from __future__ import annotations

import pytest
from controller_kit import controller, joined, of, prepared

from edge.core import events as ev
from edge.core.lending import Borrower, LendingOffer
from scheduler.controller import WindowController

CAMERAS = ("a", "b", "c")
ME = Borrower("cpu", 2.0, dict.fromkeys(CAMERAS, 1_000_000))
OFFERS = (LendingOffer("idle", 0.9, "cpu", 2.0),)


def crowded(offers: tuple[LendingOffer, ...] = OFFERS) -> tuple[WindowController, list[ev.Instruction]]:
    c = controller(0.5)
    joined(c, *CAMERAS)
    c.handle(ev.LendersOffered(0.0, offers, ME))
    c.handle(ev.BoundaryReached(0.0))
    return c, prepared(c, CAMERAS, 100.0)


def lent(out: list[ev.Instruction]) -> ev.StartRetraining:
    (found,) = [o for o in of(ev.StartRetraining, out) if isinstance(o, ev.StartRetraining) and o.lender]
    return found


def test_a_crowded_box_lends_one_retraining_out_and_plans_with_it() -> None:
    c, out = crowded()
    start = lent(out)
    assert (start.lender, start.share, start.window) == ("idle", 0.9, 1)
    plan = of(ev.RecordPlan, out)[-1]
    stream = next(s for s in plan.problem.streams if s.id == start.camera)
    assert stream.options == ()
    assert stream.arrival.box == "idle"
    assert all(g.streams[start.camera].retraining_share == 0 for g in plan.plan.segments)
    assert start.camera not in c.state.jobs
    c.check()


def test_without_offers_all_is_as_before() -> None:
    _, out = crowded(())
    assert all(not o.lender for o in of(ev.StartRetraining, out))


def test_its_result_counts_as_a_retraining_and_it_is_not_retrained_again() -> None:
    c, out = crowded()
    start = lent(out)
    out = c.handle(ev.RetrainingCompleted(150.0, start.camera, start.job, True, 0.8))
    assert c.state.cameras[start.camera].accuracy == pytest.approx(0.8)
    stream = next(s for s in of(ev.RecordPlan, out)[-1].problem.streams if s.id == start.camera)
    assert (stream.options, stream.arrival) == ((), None)
    c.check()


def test_what_does_not_come_back_is_retrained_here_and_not_lent_again() -> None:
    c, out = crowded()
    start = lent(out)
    out = c.handle(ev.RetrainingFailed(105.0, start.camera, start.job, "the lender does not answer"))
    assert of(ev.Complain, out)[0].code == "lending_failed"
    stream = next(s for s in of(ev.RecordPlan, out)[-1].problem.streams if s.id == start.camera)
    assert stream.options
    assert start.camera not in c.state.lending.out
    c.check()


def test_at_the_boundary_nobody_waits_for_it() -> None:
    c, out = crowded()
    start = lent(out)
    out = c.handle(ev.BoundaryReached(200.0))
    stop = next(o for o in of(ev.StopRetraining, out) if o.job == start.job)
    assert not stop.keep
    assert c.state.lending.out == {}


def test_a_camera_that_leaves_takes_its_lent_retraining_with_it() -> None:
    c, out = crowded()
    start = lent(out)
    out = c.handle(ev.CameraLeft(110.0, start.camera))
    assert of(ev.StopRetraining, out)[0].job == start.job
    c.check()


def test_an_offer_that_comes_later_is_used_where_a_camera_waits() -> None:
    c, out = crowded(())
    assert of(ev.StartRetraining, out)
    out = c.handle(ev.LendersOffered(104.0, OFFERS, ME))
    assert lent(out).lender == "idle"
    assert c.handle(ev.LendersOffered(105.0, OFFERS, ME)) == [], "nothing more than before"
    c.check()


def test_a_reader_of_the_state_has_a_copy_of_its_own() -> None:
    c, _ = crowded()
    c.state.copy().lending.out.clear()
    assert c.state.lending.out

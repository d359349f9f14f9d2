"""Lent retrainings in the window controller, event by event."""

from __future__ import annotations

from dataclasses import replace

import pytest
from controller_kit import SETTINGS, Answered, controller, joined, of, prepared, profile

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


def test_at_the_boundary_it_is_not_waited_for() -> None:
    c, out = crowded()
    start = lent(out)
    out = c.handle(ev.BoundaryReached(200.0))
    stop = next(o for o in of(ev.StopRetraining, out) if o.job == start.job)
    assert stop.keep, "a candidate that is here is still judged"
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


def test_a_lender_that_is_done_gets_the_next_one() -> None:
    c, out = crowded()
    start = lent(out)
    out = c.handle(ev.RetrainingCompleted(115.0, start.camera, start.job, True, 0.8))
    assert lent(out).camera != start.camera
    c.check()


def test_a_lender_with_room_gets_several_at_once() -> None:
    _, out = crowded((replace(OFFERS[0], room=3),))
    starts = [o for o in of(ev.StartRetraining, out) if isinstance(o, ev.StartRetraining) and o.lender]
    assert len(starts) > 1
    stream = {s.id: s for s in of(ev.RecordPlan, out)[-1].problem.streams}
    arrivals = [stream[o.camera].arrival.at_s for o in starts]
    assert arrivals == sorted(set(arrivals)), "one after the other"


def test_what_was_given_to_a_lender_counts_before_it_says_so() -> None:
    c, out = crowded((replace(OFFERS[0], room=2),))
    first = [o.camera for o in of(ev.StartRetraining, out) if isinstance(o, ev.StartRetraining) and o.lender]
    assert len(first) == 2
    out = c.handle(ev.LendersOffered(104.0, (replace(OFFERS[0], room=2),), ME))
    assert not [o for o in of(ev.StartRetraining, out) if isinstance(o, ev.StartRetraining) and o.lender]


def test_a_question_that_replaces_another_one_may_lend_in_its_place() -> None:
    asking = WindowController(SETTINGS, 0.5)
    c = Answered(asking)
    joined(c, *CAMERAS)
    c.handle(ev.LendersOffered(0.0, OFFERS, ME))
    c.handle(ev.BoundaryReached(0.0))
    c.handle(ev.BoundaryReached(100.0))
    for camera in CAMERAS:
        c.handle(ev.SampleLabelled(101.0, camera, 1, 30, 10, 0.5))
    for camera in CAMERAS:
        asking.handle(ev.Profiled(102.0, camera, 1, (profile(), profile(0.7, 8.0, epochs=2)), 0.5))
    # The plan that was asked for then is never made: this one is in its place.
    out = c.handle(ev.CapacityChanged(103.0, 0.49))
    assert lent(out).lender == "idle"
    assert not asking.state.lending.due

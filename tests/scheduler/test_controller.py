"""The window controller: worked sequences, and invariants after every event of random ones."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from controller_kit import INFERENCE, SETTINGS, controller, joined, of, prepared, profile

from edge.core import events as ev
from edge.core.learning import Correction
from edge.core.plan_causes import CameraChange, PlanCause
from scheduler.controller import HAND_IN_PART, LAST_PART, PREPARATION_LIMIT, READY_PART


class TestOneWindow:
    def test_the_first_window_has_nothing_to_retrain_on(self) -> None:
        c = controller()
        joined(c, "a", "b")
        out = c.handle(ev.BoundaryReached(0.0))
        assert c.state.window == 1
        assert of(ev.ScheduleBoundary, out) == [ev.ScheduleBoundary(100.0, 1)]
        assert not of(ev.CloseSample, out)
        assert not of(ev.StartRetraining, out)
        assert of(ev.SetShares, out)

    def test_a_boundary_closes_every_sample_and_plans_once_profiles_are_in(self) -> None:
        c = controller()
        joined(c, "a", "b")
        c.handle(ev.BoundaryReached(0.0))
        out = c.handle(ev.BoundaryReached(100.0))
        assert [(i.camera, i.window) for i in of(ev.CloseSample, out)] == [("a", 1), ("b", 1)]
        assert of(ev.CloseWindow, out) == [ev.CloseWindow(1)]
        out = c.handle(ev.SampleLabelled(101.0, "a", 1, 30, 10, 0.5))
        assert [i.camera for i in of(ev.StartProfiling, out)] == ["a"]
        c.handle(ev.SampleLabelled(101.0, "b", 1, 30, 10, 0.4))
        assert not of(ev.RecordPlan, c.handle(ev.Profiled(104.0, "a", 1, (profile(),), 0.5)))
        out = c.handle(ev.Profiled(105.0, "b", 1, (profile(),), 0.4))
        plan = of(ev.RecordPlan, out)[0]
        assert plan.problem.label_delay_s == pytest.approx(5.0)
        assert of(ev.StartRetraining, out)
        c.check()

    def test_a_completed_retraining_replans_with_the_new_accuracy(self) -> None:
        c = controller()
        joined(c, "a", "b")
        c.handle(ev.BoundaryReached(0.0))
        out = prepared(c, ("a", "b"), 100.0)
        start = of(ev.StartRetraining, out)[0]
        out = c.handle(ev.RetrainingCompleted(130.0, start.camera, start.job, True, 0.81))
        problem = of(ev.RecordPlan, out)[0].problem
        stream = next(s for s in problem.streams if s.id == start.camera)
        assert stream.start_accuracy == pytest.approx(0.81)
        assert stream.options == ()
        assert problem.label_delay_s == pytest.approx(30.0)
        c.check()

    def test_a_failed_retraining_is_complained_about_and_not_tried_again(self) -> None:
        c = controller()
        joined(c, "a")
        c.handle(ev.BoundaryReached(0.0))
        start = of(ev.StartRetraining, prepared(c, ("a",), 100.0))[0]
        out = c.handle(ev.RetrainingFailed(110.0, "a", start.job, "out of memory"))
        assert of(ev.Complain, out)[0].code == "retraining_failed"
        assert not of(ev.StartRetraining, out)

    def test_progress_that_departs_from_the_profile_replans_early(self) -> None:
        c = controller()
        joined(c, "a")
        c.handle(ev.BoundaryReached(0.0))
        start = of(ev.StartRetraining, prepared(c, ("a",), 100.0))[0]
        # Half of the steps took what the profile had for the whole: it costs twice as much.
        cost = c.state.jobs["a"].option.device_seconds
        assert not of(ev.RecordPlan, c.handle(ev.RetrainingProgressed(105.0, "a", start.job, 0.2 * cost, 0.1)))
        out = c.handle(ev.RetrainingProgressed(130.0, "a", start.job, cost, 0.5))
        record = of(ev.RecordPlan, out)[0]
        assert record.cause.camera == "a"
        assert record.cause.code in ("work_corrected", "progress_unexpected")
        assert "device seconds" in record.cause.words
        stream = record.problem.streams[0]
        assert stream.running == start.config
        assert next(o for o in stream.options if o.id == start.config).device_seconds == pytest.approx(2 * cost)

    def test_what_precedes_the_first_step_is_no_part_of_the_rate(self) -> None:
        """Pictures are read before the first step: by its first report a retraining seems to cost many times that."""
        c = controller()
        joined(c, "a")
        c.handle(ev.BoundaryReached(0.0))
        start = of(ev.StartRetraining, prepared(c, ("a",), 100.0))[0]
        cost, share = c.state.jobs["a"].option.device_seconds, c.state.jobs["a"].share
        for fraction in (0.05, 0.1, 0.3, 0.6, 0.9):
            done = 0.2 * cost + 0.8 * cost * fraction
            at_s = c.state.jobs["a"].since_s + done / share
            assert not of(ev.RecordPlan, c.handle(ev.RetrainingProgressed(at_s, "a", start.job, done, fraction)))
        assert c.state.jobs["a"].option.device_seconds == cost

    @pytest.mark.parametrize("what", get_args(CameraChange))
    def test_a_changed_camera_did_not_join(self, what: CameraChange) -> None:
        c = controller()
        joined(c, "a", "b")
        c.handle(ev.BoundaryReached(0.0))
        (record,) = of(ev.RecordPlan, c.handle(ev.CameraChanged(1.0, what, "a", 0.7, INFERENCE, retraining=False)))
        assert record.cause == PlanCause(what, "a")
        assert (c.state.cameras["a"].accuracy, c.state.cameras["a"].retraining) == (0.7, False)
        c.handle(ev.CameraLeft(2.0, "a"))
        assert c.handle(ev.CameraChanged(3.0, what, "a", 0.7, INFERENCE)) == [], "it left meanwhile"
        assert set(c.state.cameras) == {"b"}

    def test_a_plan_says_what_it_was_made_for(self) -> None:
        def cause(out: list[ev.Instruction]) -> PlanCause:
            (record,) = of(ev.RecordPlan, out)
            return record.cause

        c = controller()
        joined(c, "a", "b")
        assert cause(c.handle(ev.BoundaryReached(0.0))) == PlanCause("first_window")
        assert cause(c.handle(ev.CameraJoined(1.0, "c", 0.5, INFERENCE))) == PlanCause("camera_joined", "c")
        assert cause(c.handle(ev.CameraLeft(2.0, "c"))) == PlanCause("camera_left", "c")
        out = prepared(c, ("a", "b"), 100.0)
        assert cause(out) == PlanCause("prepared")
        assert {i.plan for i in of(ev.StartRetraining, out)} == {c.state.plan_number}
        jobs = {i.camera: i.job for i in of(ev.StartRetraining, out)}
        first = min(jobs)
        out = c.handle(ev.RetrainingCompleted(110.0, first, jobs[first], True, 0.8))
        assert cause(out) == PlanCause("retraining_completed", first, promoted=True)
        jobs |= {i.camera: i.job for i in of(ev.StartRetraining, out)}
        assert cause(c.handle(ev.CapacityChanged(111.0, 0.9))) == PlanCause("capacity_changed")
        (other,) = set(jobs) - {first}
        out = c.handle(ev.RetrainingFailed(112.0, other, jobs[other], "no memory"))
        assert cause(out) == PlanCause("retraining_failed", other)

    def test_a_restart_says_whether_there_was_a_plan(self) -> None:
        c = controller()
        joined(c, "a")
        c.handle(ev.BoundaryReached(0.0))
        record = of(ev.RecordPlan, prepared(c, ("a",), 100.0))[0]
        for plan, finished, expected in (
            (None, frozenset(), PlanCause("restarted_without_plan")),
            (record.plan, frozenset({"a"}), PlanCause("restarted")),
        ):
            again = controller()
            again.resume_after(2)
            joined(again, "a", at=1000.0)
            out = again.restore(1005.0, 2, 1000.0, record.problem, plan, finished)
            assert of(ev.RecordPlan, out)[0].cause == expected

    def test_progress_as_profiled_changes_nothing(self) -> None:
        c = controller()
        joined(c, "a")
        c.handle(ev.BoundaryReached(0.0))
        start = of(ev.StartRetraining, prepared(c, ("a",), 100.0))[0]
        job = c.state.jobs["a"]
        done = job.share * 10.0
        assert (
            c.handle(ev.RetrainingProgressed(job.since_s + 10, "a", start.job, done, done / job.option.device_seconds))
            == []
        )

    def test_late_profiles_do_not_hold_the_window_up(self) -> None:
        c = controller()
        joined(c, "a", "b")
        c.handle(ev.BoundaryReached(0.0))
        out = c.handle(ev.BoundaryReached(100.0))
        deadline = of(ev.ScheduleDeadline, out)[0]
        assert deadline.at_s == pytest.approx(100.0 + PREPARATION_LIMIT * 100.0)
        c.handle(ev.SampleLabelled(101.0, "a", 1, 30, 10, 0.5))
        c.handle(ev.SampleLabelled(101.0, "b", 1, 30, 10, 0.5))
        c.handle(ev.Profiled(110.0, "a", 1, (profile(),), 0.5))
        out = c.handle(ev.DeadlinePassed(140.0, 2))
        assert of(ev.Complain, out)[0].code == "window_too_short"
        assert [i.camera for i in of(ev.Complain, out)] == ["b"]
        assert [i.camera for i in of(ev.StartRetraining, out)] == ["a"]
        assert of(ev.StopProfiling, out) == [ev.StopProfiling(1)]
        out = c.handle(ev.Profiled(141.0, "b", 1, (profile(),), 0.5))
        (record,) = of(ev.RecordPlan, out)
        assert record.cause == PlanCause("profiles_late", "b")
        assert [len(s.options) for s in record.problem.streams] == [1, 1], "what came late is planned with all the same"
        assert c.handle(ev.Profiled(142.0, "b", 1, (profile(),), 0.5)) == [], "once"

    def test_profiles_are_handed_in_before_they_are_late(self) -> None:
        c = controller()
        joined(c, "a", "b")
        c.handle(ev.BoundaryReached(0.0))
        out = c.handle(ev.BoundaryReached(100.0))
        (due,) = of(ev.ScheduleHandIn, out)
        assert due.at_s == pytest.approx(100.0 + HAND_IN_PART * 100.0)
        assert HAND_IN_PART < READY_PART
        (start,) = of(ev.StartProfiling, c.handle(ev.SampleLabelled(101.0, "a", 1, 30, 10, 0.5)))
        assert not start.hurry
        again = ev.ScheduleHandIn(100.0 + LAST_PART * 100.0, 2)
        assert c.handle(ev.HandInDue(due.at_s, 2)) == [ev.HandIn(1), again]
        (start,) = of(ev.StartProfiling, c.handle(ev.SampleLabelled(112.0, "b", 1, 30, 10, 0.5)))
        assert start.hurry, "whose labels come now has no time for trials"
        assert c.handle(ev.HandInDue(again.at_s, 2)) == [ev.HandIn(1, last=True)]
        c.handle(ev.Profiled(112.5, "a", 1, (profile(),), 0.5))
        out = c.handle(ev.Profiled(113.0, "b", 1, (profile(),), 0.5))
        assert of(ev.RecordPlan, out)
        assert not of(ev.Complain, out)
        assert c.handle(ev.HandInDue(114.0, 2)) == [], "nothing is waited for any more"

    def test_labels_that_come_after_the_deadline_are_retrained_on_without_a_trial(self) -> None:
        c = controller()
        joined(c, "a", "b")
        c.handle(ev.BoundaryReached(0.0))
        c.handle(ev.BoundaryReached(100.0))
        c.handle(ev.SampleLabelled(101.0, "a", 1, 30, 10, 0.5))
        c.handle(ev.Profiled(110.0, "a", 1, (), 0.5))
        c.handle(ev.DeadlinePassed(140.0, 2))
        (start,) = of(ev.StartProfiling, c.handle(ev.SampleLabelled(150.0, "b", 1, 30, 10, 0.5)))
        assert (start.camera, start.hurry) == ("b", True)
        out = c.handle(ev.Profiled(150.1, "b", 1, (replace(profile(), profiled=False),), None))
        (start,) = of(ev.StartRetraining, out)
        assert start.camera == "b"
        assert c.state.jobs["b"].option.details["profiled"] is False
        c.check()

    def test_a_plan_is_made_with_what_the_window_will_show(self) -> None:
        c = controller()
        joined(c, "a")
        c.handle(ev.BoundaryReached(0.0))
        c.handle(ev.BoundaryReached(100.0))
        way = Correction(offset=-0.1, gain=0.5)
        c.handle(ev.SampleLabelled(101.0, "a", 1, 30, 10, 0.5, correction=way))
        out = c.handle(ev.Profiled(102.0, "a", 1, (profile(0.8),), 0.6))
        (record,) = of(ev.RecordPlan, out)
        (stream,) = record.problem.streams
        assert stream.start_accuracy == pytest.approx(0.5)
        assert stream.options[0].end_accuracy == pytest.approx(0.5 + 0.5 * 0.2)
        assert stream.promise is not None
        assert stream.promise.correction == way
        (start,) = of(ev.StartRetraining, out)
        out = c.handle(ev.RetrainingCompleted(130.0, "a", start.job, True, 0.8))
        (stream,) = of(ev.RecordPlan, out)[0].problem.streams
        assert stream.start_accuracy == pytest.approx(0.6), "what was gained counts as what it was promised to bring"

    def test_a_retraining_that_is_not_over_at_the_boundary_is_kept_as_it_is(self) -> None:
        c = controller()
        joined(c, "a")
        c.handle(ev.BoundaryReached(0.0))
        start = of(ev.StartRetraining, prepared(c, ("a",), 100.0))[0]
        out = c.handle(ev.BoundaryReached(200.0))
        assert of(ev.StopRetraining, out) == [ev.StopRetraining("a", start.job, "the retraining window is over", True)]


class TestSettings:
    def test_settings_of_a_boundary_hold_until_others_come(self) -> None:
        c = controller()
        joined(c, "a")
        c.handle(ev.BoundaryReached(0.0))
        out = c.handle(ev.BoundaryReached(100.0, settings=replace(SETTINGS, window_s=60.0)))
        assert of(ev.ScheduleBoundary, out)[0].at_s == pytest.approx(160.0)
        out = c.handle(ev.BoundaryReached(160.0))
        assert of(ev.ScheduleBoundary, out)[0].at_s == pytest.approx(220.0)

    @pytest.mark.parametrize("allowed", [True, False])
    def test_quiet_hours_measure_but_do_not_retrain(self, allowed: bool) -> None:
        c = controller()
        joined(c, "a")
        c.handle(ev.BoundaryReached(0.0))
        out = c.handle(ev.BoundaryReached(100.0, retraining_allowed=allowed))
        assert of(ev.CloseSample, out)
        out = c.handle(ev.SampleLabelled(101.0, "a", 1, 30, 10, 0.5))
        assert bool(of(ev.StartProfiling, out)) is allowed

    def test_a_camera_may_ask_for_every_second_window_only(self) -> None:
        c = controller()
        c.handle(ev.CameraJoined(0.0, "a", 0.5, INFERENCE, every_kth_window=2))
        asked = []
        c.handle(ev.BoundaryReached(0.0))
        for n in range(1, 6):
            c.handle(ev.BoundaryReached(100.0 * n))
            out = c.handle(ev.SampleLabelled(100.0 * n + 1, "a", n, 30, 10, 0.5))
            if of(ev.StartProfiling, out):
                asked.append(c.state.window)
                c.handle(ev.Profiled(100.0 * n + 2, "a", n, (), 0.5))
        assert asked == [2, 4, 6]

    def test_a_floor_that_no_plan_keeps_is_complained_about(self) -> None:
        c = controller(num_gpus=0.1, a_min=0.6)
        joined(c, "a")
        out = c.handle(ev.BoundaryReached(0.0))
        (complaint,) = of(ev.Complain, out)
        assert complaint.code == "floor_unreachable"
        assert complaint.camera == "a"
        assert [complaint.message] == [f.what for f in of(ev.RecordPlan, out)[0].plan.faults]
        assert complaint.message.startswith("the floor of 0.60 cannot be kept; the best at the start is ")


class TestRestart:
    def test_the_recorded_plan_goes_on_from_where_the_time_is(self) -> None:
        c = controller()
        joined(c, "a", "b")
        c.handle(ev.BoundaryReached(0.0))
        record = of(ev.RecordPlan, prepared(c, ("a", "b"), 100.0))[0]
        again = controller()
        again.resume_after(2)
        joined(again, "a", "b", at=1000.0)
        out = again.restore(998.0, 2, 995.0, record.problem, record.plan, frozenset())
        assert of(ev.ScheduleBoundary, out) == [ev.ScheduleBoundary(1095.0, 2, resumed=True)]
        expected = record.plan.segments[0].streams
        assert of(ev.SetShares, out)[0].inference == {k: a.inference_share for k, a in expected.items()}
        assert {i.camera for i in of(ev.StartRetraining, out)} == {k for k, a in expected.items() if a.retrain_config}
        again.check()

    def test_what_was_finished_is_not_done_again(self) -> None:
        c = controller()
        joined(c, "a", "b")
        c.handle(ev.BoundaryReached(0.0))
        record = of(ev.RecordPlan, prepared(c, ("a", "b"), 100.0))[0]
        again = controller()
        again.resume_after(2)
        joined(again, "a", "b", at=1000.0)
        out = again.restore(1030.0, 2, 1000.0, record.problem, record.plan, frozenset({"a"}))
        assert "a" not in {i.camera for i in of(ev.StartRetraining, out)}
        again.check()

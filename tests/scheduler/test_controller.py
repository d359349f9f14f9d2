"""The window controller: worked sequences, and invariants after every event of random ones."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core import events as ev
from edge.core.configs import RetrainingConfig
from edge.core.learning import Correction
from edge.core.plan_basis import PlanRequest
from edge.core.plan_causes import CameraChange, PlanCause
from edge.core.profiles import Estimate, InferenceProfile, RetrainingProfile
from edge.core.window import WindowPlan
from scheduler.controller import HAND_IN_PART, LAST_PART, PREPARATION_LIMIT, READY_PART, WindowController
from scheduler.policies import window_policy
from scheduler.window_planning import MakePlan, PlanMade, PlanNotMade, PlanQuestion, made_plan

INFERENCE = InferenceProfile("subsampling", 0.2, (1.0, 2.0, 4.0), (1.0, 0.8, 0.5))
SETTINGS = ev.WindowSettings(100.0, None, "relay", True, 0.05)


def controller(num_gpus: float = 1.0, **changes: object) -> WindowController:
    return WindowController(replace(SETTINGS, **changes), num_gpus, by_policy)


def profile(end: float = 0.8, cost: float = 20.0, start: float = 0.5, epochs: int = 5) -> RetrainingProfile:
    return RetrainingProfile(RetrainingConfig(epochs), start, Estimate.exact(end), Estimate.exact(cost))


def of(kind: type, instructions: list[ev.Instruction]) -> list[ev.Instruction]:
    return [i for i in instructions if isinstance(i, kind)]


def joined(c: WindowController, *cameras: str, at: float = 0.0) -> None:
    for camera in cameras:
        c.handle(ev.CameraJoined(at, camera, 0.5, INFERENCE))


def prepared(c: WindowController, cameras: tuple[str, ...], at: float) -> list[ev.Instruction]:
    """Boundary, labels and profiles of every camera; returns what the last profile led to."""
    window = c.state.window
    c.handle(ev.BoundaryReached(at))
    out: list[ev.Instruction] = []
    for camera in cameras:
        c.handle(ev.SampleLabelled(at + 1, camera, window, 30, 10, 0.5))
    for camera in cameras:
        out = c.handle(ev.Profiled(at + 2, camera, window, (profile(), profile(0.7, 8.0, epochs=2)), 0.5))
        c.check()
    return out


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
        cost = c.state.jobs["a"].option.gpu_seconds
        out = c.handle(ev.RetrainingProgressed(130.0, "a", start.job, cost, 0.5))
        record = of(ev.RecordPlan, out)[0]
        assert record.cause.camera == "a"
        assert record.cause.code in ("work_corrected", "progress_unexpected")
        assert "device seconds" in record.cause.words
        stream = record.problem.streams[0]
        assert stream.running == start.config
        assert next(o for o in stream.options if o.id == start.config).gpu_seconds == pytest.approx(2 * cost)

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
            c.handle(ev.RetrainingProgressed(job.since_s + 10, "a", start.job, done, done / job.option.gpu_seconds))
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


ACTIONS = st.sampled_from(
    [
        "alike",
        "boundary",
        "labelled",
        "profiled",
        "deadline",
        "progress",
        "completed",
        "failed",
        "segment",
        "join",
        "leave",
        "capacity",
        "answer",
    ]
)


def by_policy(request: PlanRequest) -> WindowPlan:
    return window_policy(request.policy).plan(request.problem)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(ACTIONS, st.sampled_from("abc"), st.floats(0, 1)), max_size=40), st.booleans(), st.booleans())
def test_invariants_hold_after_every_event(steps: list[tuple[str, str, float]], grouped: bool, elsewhere: bool) -> None:
    """Shares never exceed the device, jobs belong to cameras that are there, nothing waits outside of preparation; also
    where plans are made elsewhere, come late or not at all."""
    c, now = controller(), 0.0
    if grouped:
        c, now = TestGroups().started()[0], 102.0
    else:
        joined(c, "a", "b")
        c.handle(ev.BoundaryReached(0.0))
    c._plan = None if elsewhere else by_policy
    questions: list[PlanQuestion] = []
    for action, camera, x in steps:
        now += 10 * x
        s = c.state
        job = s.jobs.get(camera)
        event: ev.Event | None = None
        if action == "boundary":
            event = ev.BoundaryReached(now, retraining_allowed=x > 0.1)
        elif action == "labelled":
            event = ev.SampleLabelled(now, camera, s.window - 1, int(30 * x), int(10 * x), x)
        elif action == "profiled":
            event = ev.Profiled(now, camera, s.window - 1, (profile(x, 5 + 40 * x),), x)
        elif action == "deadline":
            event = ev.DeadlinePassed(now, s.window)
        elif action == "progress" and job is not None:
            event = ev.RetrainingProgressed(now, camera, job.id, x * 30, x)
        elif action == "completed" and job is not None:
            event = ev.RetrainingCompleted(now, camera, job.id, x > 0.5, x)
        elif action == "failed" and job is not None:
            event = ev.RetrainingFailed(now, camera, job.id, "died")
        elif action == "segment":
            event = ev.SegmentDue(now, s.plan_number)
            if s.plan is None or s.next_segment >= len(s.plan.segments):
                event = None
        elif action == "join":
            known = camera in s.cameras and x > 0.5
            changed = ev.CameraChanged(now, "camera_measured", camera, x, INFERENCE)
            event = changed if known else ev.CameraJoined(now, camera, x, INFERENCE)
        elif action == "leave" and len(s.cameras) > 1:
            event = ev.CameraLeft(now, camera)
        elif action == "capacity":
            event = ev.CapacityChanged(now, 0.3 + x)
        elif action == "alike":
            event = ev.CamerasAlike(now, (("a", "b", "c"),) if x > 0.2 else (), 2 * x)
        elif action == "answer" and questions:
            question = questions[int(x * (len(questions) - 1))]
            failed = PlanNotMade(now, question.number, "broken")
            event = failed if camera == "c" else PlanMade(now, made_plan(question, by_policy))
        if event is not None:
            questions += [i.question for i in c.handle(event) if isinstance(i, MakePlan)]
            c.check()
    if elsewhere and c.state.planning.asked is not None:
        c.handle(PlanMade(now, made_plan(questions[-1], by_policy)))
        c.check()
        assert c.state.planning.asked is None, "the last question's answer is taken"
        assert c.state.plan is not None


class TestPlansMadeElsewhere:
    """Plans are asked for, and events go on until they come."""

    def asked(self, orders: list[ev.Instruction]) -> PlanQuestion:
        (order,) = of(MakePlan, orders)
        assert isinstance(order, MakePlan)
        return order.question

    def started(self) -> tuple[WindowController, PlanQuestion]:
        c = WindowController(SETTINGS, 1.0)
        joined(c, "a", "b")
        out = c.handle(ev.BoundaryReached(0.0))
        assert of(ev.SetShares, out), "cameras answer before there is a plan"
        return c, self.asked(out)

    def test_an_answer_is_carried_out(self) -> None:
        c, question = self.started()
        out = c.handle(PlanMade(1.0, made_plan(question, by_policy)))
        assert [type(o) for o in out][:2] == [ev.RecordPlan, ev.SetShares]
        assert c.state.plan_number == 1

    def test_to_answer_changes_nothing_of_the_question(self) -> None:
        c = controller()
        joined(c, *TestGroups.CAMERAS)
        c.handle(ev.BoundaryReached(0.0))
        c.handle(ev.CamerasAlike(100.0, (TestGroups.CAMERAS,), 1.5))
        c._plan = None
        question = self.asked(prepared(c, TestGroups.CAMERAS, 100.0))
        first = made_plan(question, by_policy)
        assert first.group.group is not None, "they are retrained as one"
        assert first.options, "its leader's retraining costs more"
        assert made_plan(question, by_policy) == first
        assert c.state.group.group is None, "nothing is chosen before the answer is taken"
        c.handle(PlanMade(103.0, first))
        assert c.state.group.group == first.group.group
        c.check()

    def test_what_comes_too_late_is_dropped(self) -> None:
        c, question = self.started()
        again = self.asked(c.handle(ev.CameraLeft(0.5, "b")))
        assert c.handle(PlanMade(1.0, made_plan(question, by_policy))) == []
        (record,) = of(ev.RecordPlan, c.handle(PlanMade(1.5, made_plan(again, by_policy))))
        assert [s.id for s in record.problem.streams] == ["a"]
        assert c.handle(PlanMade(2.0, made_plan(again, by_policy))) == [], "nobody asks for it any more"
        c.handle(ev.BoundaryReached(3.0))
        c.check()

    def test_less_of_the_device_is_kept_at_once(self) -> None:
        c, question = self.started()
        c.handle(PlanMade(1.0, made_plan(question, by_policy)))
        before = dict(c.state.shares)
        out = c.handle(ev.CapacityChanged(2.0, 0.5 * sum(before.values())))
        assert of(ev.SetShares, out)[0].inference == {k: pytest.approx(0.5 * v) for k, v in before.items()}
        c.check()
        grown = c.handle(ev.CapacityChanged(3.0, 1.0))
        assert not of(ev.SetShares, grown), "more is given by the plan"

    def test_a_segment_that_is_due_waits_for_the_plan_that_is_being_made(self) -> None:
        c, question = self.started()
        c.handle(PlanMade(1.0, made_plan(question, by_policy)))
        c._plan = by_policy
        prepared(c, ("a", "b"), 100.0)
        c._plan = None
        number = c.state.plan_number
        asked = self.asked(c.handle(ev.CapacityChanged(110.0, 0.9)))
        assert c.handle(ev.SegmentDue(111.0, number)) == []
        out = c.handle(PlanNotMade(112.0, asked.number, "ValueError: broken"))
        (complaint,) = of(ev.Complain, out)
        assert (complaint.code, complaint.message) == ("planning_failed", "no new plan: ValueError: broken")
        assert of(ev.SetShares, out), "the plan in force goes on from where the time is"
        c.check()

    def test_a_plan_that_is_taken_up_again_has_each_segment_in_its_time(self) -> None:
        """The timers that were set when it came into force ring too; one that is too early is none."""
        c, question = self.started()
        c.handle(PlanMade(1.0, made_plan(question, by_policy)))
        c._plan = by_policy
        (timer,) = of(ev.ScheduleReplan, prepared(c, ("a", "b"), 100.0))
        c._plan = None
        asked = self.asked(c.handle(ev.CapacityChanged(103.0, 1.0)))
        (again,) = of(ev.ScheduleReplan, c.handle(PlanNotMade(104.0, asked.number, "ValueError: broken")))
        assert again == timer
        assert c.handle(ev.SegmentDue(timer.at_s - 1.0, timer.plan_number)) == []
        late = self.asked(c.handle(ev.SegmentDue(timer.at_s, timer.plan_number)))
        assert late.cause.code == "retraining_late", "the retraining that should be over is not"

    def test_without_any_plan_cameras_answer_on(self) -> None:
        c, question = self.started()
        out = c.handle(PlanNotMade(1.0, question.number, "ValueError: broken"))
        (shares,) = of(ev.SetShares, out)
        assert set(shares.inference) == {"a", "b"}
        assert c.handle(PlanNotMade(1.0, question.number, "once more")) == []


class TestGroups:
    """Cameras that look alike: three of 18 device seconds each."""

    CAMERAS = ("a", "b", "c")

    def started(self, kept: float = 1.5) -> tuple[WindowController, list[ev.Instruction]]:
        c = controller()
        joined(c, *self.CAMERAS)
        c.handle(ev.BoundaryReached(0.0))
        c.handle(ev.CamerasAlike(100.0, (self.CAMERAS,), kept))
        c.handle(ev.BoundaryReached(100.0))
        out: list[ev.Instruction] = []
        for camera in self.CAMERAS:
            c.handle(ev.SampleLabelled(101.0, camera, 1, 30, 10, 0.5))
        for camera in self.CAMERAS:
            out = c.handle(ev.Profiled(102.0, camera, 1, (profile(0.8, 18.0),), 0.5))
            c.check()
        return c, out

    def test_one_retraining_is_for_all(self) -> None:
        _, out = self.started()
        starts = of(ev.StartRetraining, out)
        assert [(s.camera, s.members) for s in starts] == [("a", ("b", "c"))]
        problem = of(ev.RecordPlan, out)[-1].problem
        assert [len(s.options) for s in problem.streams] == [1, 0, 0], "members wait for the group's"

    def test_one_retraining_each_where_groups_keep_nothing(self) -> None:
        _, out = self.started(kept=0.0)
        starts = of(ev.StartRetraining, out)
        assert starts
        assert {s.members for s in starts} == {()}

    def test_members_are_planned_for_again_from_what_the_group_gave_them(self) -> None:
        c, out = self.started()
        job = of(ev.StartRetraining, out)[0].job
        c.handle(ev.RetrainingCompleted(150.0, "b", job, True, 0.75))
        c.handle(ev.RetrainingCompleted(150.0, "c", job, False, 0.6))
        c.check()
        out = c.handle(ev.RetrainingCompleted(150.0, "a", job, True, 0.8))
        c.check()
        streams = {s.id: s for s in of(ev.RecordPlan, out)[-1].problem.streams}
        assert {n: s.start_accuracy for n, s in streams.items()} == {"a": 0.8, "b": 0.75, "c": 0.5}
        assert {n: len(s.options) for n, s in streams.items()} == {"a": 0, "b": 1, "c": 1}, "made special again after"
        assert c.state.group.group is None

    def test_a_group_that_fails_leaves_its_members_their_own(self) -> None:
        c, out = self.started()
        job = of(ev.StartRetraining, out)[0].job
        out = c.handle(ev.RetrainingFailed(120.0, "a", job, "no memory"))
        c.check()
        assert {s.camera for s in of(ev.StartRetraining, out)} & {"b", "c"}
        assert all(s.members == () for s in of(ev.StartRetraining, out))

    def test_members_wait_for_a_group_that_is_stopped_early_until_it_is_judged(self) -> None:
        c, out = self.started()
        job = of(ev.StartRetraining, out)[0].job
        out = c.handle(ev.CapacityChanged(110.0, 0.02))
        c.check()
        assert [s.keep for s in of(ev.StopRetraining, out)] == [True], "no share is left for it"
        out = c.handle(ev.CapacityChanged(112.0, 1.0))
        c.check()
        assert not of(ev.StartRetraining, out)
        c.handle(ev.RetrainingCompleted(113.0, "b", job, True, 0.55))
        out = c.handle(ev.RetrainingCompleted(113.0, "a", job, True, 0.6))
        c.check()
        assert {s.camera for s in of(ev.StartRetraining, out)} <= {"b", "c"}
        assert of(ev.StartRetraining, out)

    @pytest.mark.parametrize("gone", CAMERAS)
    def test_a_camera_leaves_while_the_group_is_retrained(self, gone: str) -> None:
        c, out = self.started()
        job = of(ev.StartRetraining, out)[0].job
        out = c.handle(ev.CameraLeft(120.0, gone))
        c.check()
        if gone == "a":
            assert [s.job for s in of(ev.StopRetraining, out)] == [job]
            assert c.state.group.group is None
        else:
            assert c.state.group.group is not None
            assert gone not in c.state.group.group.members
            assert not of(ev.StartRetraining, out), "the group's retraining goes on"

    def test_the_next_window_begins_without_a_group(self) -> None:
        c, _ = self.started()
        c.handle(ev.CamerasAlike(200.0, (), 1.0))
        c.handle(ev.BoundaryReached(200.0))
        c.check()
        assert c.state.group.group is None

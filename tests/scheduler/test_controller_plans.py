"""The window controller: invariants under any order of events, plans that are made elsewhere meanwhile, and groups."""

from __future__ import annotations

import pytest
from controller_kit import INFERENCE, SETTINGS, Answered, by_policy, controller, joined, of, prepared, profile
from examples_kit import tried
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core import events as ev
from scheduler.controller import WindowController
from scheduler.window_planning import MakePlan, PlanMade, PlanNotMade, PlanQuestion, made_plan

ACTIONS = st.sampled_from(
    [
        "groups",
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


@settings(max_examples=tried(32, 80), deadline=None)
@given(st.lists(st.tuples(ACTIONS, st.sampled_from("abc"), st.floats(0, 1)), max_size=40), st.booleans(), st.booleans())
def test_invariants_hold_after_every_event(steps: list[tuple[str, str, float]], grouped: bool, elsewhere: bool) -> None:
    """Shares never exceed the device, jobs belong to cameras that are there, nothing waits outside of preparation; also
    where plans are made elsewhere, come late or not at all."""
    c, now = WindowController(SETTINGS, 1.0) if elsewhere else controller(), 0.0
    if grouped:
        now = 102.0
        TestGroups().start(Answered(c))
    else:
        joined(Answered(c), "a", "b")
        Answered(c).handle(ev.BoundaryReached(0.0))
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
            if s.plan is None or s.planning.next_segment >= len(s.plan.segments):
                event = None
        elif action == "join":
            known = camera in s.cameras and x > 0.5
            changed = ev.CameraChanged(now, "camera_measured", camera, x, INFERENCE)
            event = changed if known else ev.CameraJoined(now, camera, x, INFERENCE)
        elif action == "leave" and len(s.cameras) > 1:
            event = ev.CameraLeft(now, camera)
        elif action == "capacity":
            event = ev.CapacityChanged(now, 0.3 + x)
        elif action == "groups":
            event = ev.GroupsPossible(now, (("a", "b", "c"),) if x > 0.2 else (), 2 * x)
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
        c = WindowController(SETTINGS, 1.0)
        joined(c, *TestGroups.CAMERAS)
        Answered(c).handle(ev.BoundaryReached(0.0))
        c.handle(ev.GroupsPossible(100.0, (TestGroups.CAMERAS,), 2.0))
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
        assert c.handle(PlanMade(2.0, made_plan(again, by_policy))) == [], "it is not asked for any more"
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
        prepared(Answered(c), ("a", "b"), 100.0)
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
        (timer,) = of(ev.ScheduleReplan, prepared(Answered(c), ("a", "b"), 100.0))
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
    """Cameras that may be retrained as one: three of 18 device seconds each."""

    CAMERAS = ("a", "b", "c")

    def started(self, kept: float = 1.5) -> tuple[WindowController, list[ev.Instruction]]:
        c = controller()
        return c, self.start(c, kept)

    def start(self, c: WindowController | Answered, kept: float = 1.5) -> list[ev.Instruction]:
        joined(c, *self.CAMERAS)
        c.handle(ev.BoundaryReached(0.0))
        c.handle(ev.GroupsPossible(100.0, (self.CAMERAS,), kept))
        c.handle(ev.BoundaryReached(100.0))
        out: list[ev.Instruction] = []
        for camera in self.CAMERAS:
            c.handle(ev.SampleLabelled(101.0, camera, 1, 30, 10, 0.5))
        for camera in self.CAMERAS:
            out = c.handle(ev.Profiled(102.0, camera, 1, (profile(0.8, 18.0),), 0.5))
            c.check()
        return out

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
        assert {n: len(s.options) for n, s in streams.items()} == {"a": 0, "b": 0, "c": 1}, "c learned nothing yet"
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
        assert {s.camera for s in of(ev.StartRetraining, out)} == {"c"}

    def test_a_member_whose_download_came_back_may_be_retrained_alone(self) -> None:
        c, out = self.started()
        job = of(ev.StartRetraining, out)[0].job
        c.handle(ev.RetrainingCompleted(113.0, "b", job, True, 0.55, learned=False))
        c.handle(ev.RetrainingCompleted(113.0, "c", job, True, 0.75))
        out = c.handle(ev.RetrainingCompleted(113.0, "a", job, True, 0.8))
        c.check()
        streams = {s.id: s for s in of(ev.RecordPlan, out)[-1].problem.streams}
        assert {n: len(s.options) for n, s in streams.items()} == {"a": 0, "b": 1, "c": 0}

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
        c.handle(ev.GroupsPossible(200.0, (), 1.0))
        c.handle(ev.BoundaryReached(200.0))
        c.check()
        assert c.state.group.group is None

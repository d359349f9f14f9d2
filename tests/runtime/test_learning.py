"""The runtime's knowledge of learning: the share that follows, turns in being tried, promises kept over a restart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.configs import RetrainingConfig
from edge.core.errors import InvalidValue
from edge.core.labels import Accuracy, LabelledFrame, LabelledWindow, SampledFrame
from edge.core.learning import Correction, Promise
from edge.core.profiles import Estimate, InferenceProfile, RetrainingProfile
from edge.core.vision import Detections
from edge.core.window import Segment, StreamAllocation, StreamProblem, WindowPlan, WindowProblem
from edge.recording.remembering import MemoryFolders
from edge.runtime import messages as m
from edge.runtime.learning import FIRST_LABELS, BudgetBox, Learning, drift_per_s, history_of, with_late_labels
from edge.settings import CameraSettings, RetrainingSettings, parse
from microprofiler.history import ProfilerHistory
from microprofiler.known import ConfigGain

S = RetrainingSettings(window_s=90.0)
BOX = BudgetBox(0.92, 0.2, 4, 0.58, 2)
CAMERA = parse(CameraSettings, {"id": "a", "url": "rtsp://192.0.2.1/s", "classes": ["car"]})
OBJECT = Detections.build([[0.1, 0.1, 0.5, 0.5]], [0.9], [0])
INFERENCE = InferenceProfile("linear", 0.2)
CONFIG = S.space.configs()[0]


@pytest.fixture
def kept() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def learning(kept: list[dict[str, Any]]) -> Learning:
    return Learning(kept.append)


def frame(number: int, right: bool = True, window: int = 1, version: str = "v0") -> LabelledFrame:
    answer = OBJECT if right else Detections.empty()
    sample = SampledFrame("a", window, number, 1000.0 + number, Path(f"/none/{window}-{number}.jpg"), answer, version)
    return LabelledFrame(sample, OBJECT, "teacher")


def window(frames: list[LabelledFrame], number: int = 1) -> LabelledWindow:
    return LabelledWindow("a", number, "detection", ("car",), tuple(frames[:-2]), tuple(frames[-2:]))


def profile(end: float = 0.7, config: RetrainingConfig = CONFIG, profiled: bool = True) -> RetrainingProfile:
    return RetrainingProfile(config, 0.5, Estimate.exact(end), Estimate.exact(10.0), profiled=profiled)


def timed(learning: Learning, seconds: float = 0.02, count: int = 10) -> None:
    for _ in range(count):
        learning.labelled(seconds)


def test_before_a_label_is_timed_there_is_a_guess(learning: Learning) -> None:
    budget = learning.decide(S, BOX)
    assert not budget.known
    assert learning.labels(S, CAMERA) == FIRST_LABELS
    assert learning.follow(S, 100, 80.0, 5.0) is None, "nothing is known of labels yet"


def test_the_golden_share_follows_the_first_labels(learning: Learning) -> None:
    before = learning.golden_share(S)
    timed(learning)
    share = learning.follow(S, coming=180, left_s=80.0, now_s=10.0)
    assert share == learning.golden_share(S) != before
    assert share * 80.0 >= 180 * 0.02, "enough for what is coming"
    assert learning.follow(S, 180, 79.0, 11.0) is None, "not twice in a row"
    assert learning.follow(S, 180, 60.0, 40.0) is None, "not for a little"
    assert learning.follow(S, 400, 50.0, 60.0) > 2 * share


def test_the_golden_share_grows_to_twice_itself_at_once_at_most(learning: Learning) -> None:
    first = learning.golden_share(S)
    timed(learning, 1.0)
    shares = [learning.follow(S, 400, 80.0, now_s) for now_s in (10.0, 30.0, 50.0)]
    assert shares == [2 * first, 0.6, None], "first labels that seem far too dear do not take all at once"
    few = learning.follow(S, 1, 80.0, 70.0)
    assert few is not None
    assert few < 0.03
    assert learning.follow(S, 400, 80.0, 90.0) == 2 * first, "a share that was small for a while is soon there again"


def test_labels_of_other_boxes_are_counted_on_where_they_came_twice(learning: Learning) -> None:
    expected = []
    for count in (90, 45, 0, 0):
        learning.elsewhere = learning.elsewhere.more(count)
        learning.decide(S, BOX)
        expected.append(learning.problem(S, BOX).elsewhere * S.window_s)
    assert expected == [0.0, 45.0, 0.0, 0.0], "as many as in the one of two windows with fewer"


def test_fixed_numbers_stay_fixed(learning: Learning) -> None:
    fixed = S.model_copy(update={"golden_share": 0.2, "label_budget": 30, "profiling_budget": 0.1})
    timed(learning)
    learning.decide(fixed, BOX)
    assert learning.golden_share(fixed) == 0.2
    assert learning.follow(fixed, 500, 50.0, 60.0) is None
    assert learning.labels(fixed, CAMERA) == 30
    assert learning.profiling_s() == pytest.approx(0.1 * 90.0 * 0.92 / 4)
    own = CAMERA.model_copy(update={"retraining": CAMERA.retraining.model_copy(update={"label_budget": 12})})
    assert learning.labels(S, own) == 12, "a camera's own number goes before everything"


def test_the_share_for_measuring_follows_what_a_window_of_every_camera_costs(learning: Learning) -> None:
    learning.decide(S, BOX)
    assert learning.evaluation_share(S) == 0.05, "nothing was measured yet"
    for _ in range(3):
        learning.evaluated(0.9, 24)
    few = S.model_copy(update={"label_budget": 24})
    learning.decide(few, BOX)
    assert learning.evaluation_share(few) == pytest.approx(4 * 0.9 / (0.8 * 0.5 * 90.0))
    fixed = S.model_copy(update={"evaluation_share": 0.1})
    learning.decide(fixed, BOX)
    assert learning.evaluation_share(fixed) == 0.1
    for _ in range(30):
        learning.evaluated(90.0, 24)
    learning.decide(few, BOX)
    assert learning.evaluation_share(few) == 0.2, "and never takes more than that"


@given(st.floats(0.001, 2.0), st.floats(0, 1000), st.floats(2.0, 80.0))
@settings(max_examples=50, deadline=None)
def test_the_golden_share_never_takes_more_than_its_part(seconds: float, coming: float, left: float) -> None:
    learning = Learning(lambda _: None)
    timed(learning, seconds)
    learning.decide(S, BOX)
    share = learning.follow(S, coming, left, 1000.0)
    assert share is None or 0.0 < share <= 0.6 * BOX.capacity + 1e-4


def test_cameras_are_tried_in_turn_where_time_is_short(learning: Learning) -> None:
    known = ProfilerHistory(known={CONFIG.id: ConfigGain(0.2, 0.1, 0.1, 1)})
    assert learning.wants_trial("a", ProfilerHistory(), ["a"]), "something must be known first"
    timed(learning, 2.0)
    learning.decide(S, BOX)
    assert learning.budget is not None
    assert learning.budget.trials == 0
    cameras = ["a", "b", "c", "d"]
    turns = []
    for n in range(2, 6):
        tried = [c for c in cameras if learning.wants_trial(c, known, cameras)]
        turns.append(tuple(tried))
        for c in tried:
            done = m.ProfileDone(c, n, (profile(),), 0.5, 1.0, known.to_json(), {}, trials=1, setup_s=0.3)
            learning.profiled(done, known)
    assert turns == [("a", "b"), ("c", "d"), ("a", "b"), ("c", "d")]


def test_profiles_of_cameras_that_waited_longest_go_first(learning: Learning) -> None:
    done = m.ProfileDone("a", 4, (profile(),), 0.5, 1.0, {}, {}, trials=1)
    learning.profiled(done, ProfilerHistory())
    student = m.StudentFile("v0", Path("/none"))

    def job(camera: str) -> m.Profile:
        data = LabelledWindow(camera, 5, "detection", ("car",), (), ())
        return m.Profile(data, student, (CONFIG,), 1.0, None, 1.0, 1)

    remember = m.Remember(job("a").data, student, MemoryFolders(Path("/none"), 4))
    evaluate = m.Evaluate(job("b").data, None, student, None)
    jobs = [evaluate, job("a"), job("b"), remember]
    assert sorted(jobs, key=learning.urgency) == [remember, jobs[2], jobs[1], evaluate]


def test_what_work_costs_is_measured(learning: Learning, kept: list[dict[str, Any]]) -> None:
    known = ProfilerHistory(known={CONFIG.id: ConfigGain(0.2, 0.1, 0.1, 1)})
    other = S.space.configs()[-1]
    profiles = (profile(0.6), profile(0.75, other), profile(0.9, S.space.configs()[1], profiled=False))
    learning.profiled(m.ProfileDone("a", 2, profiles, 0.5, 3.5, {}, {}, trials=2, setup_s=0.5), known)
    accuracy = Accuracy(0.7, 10, 20)
    done = m.TrainingDone("j", Path("/none"), accuracy, accuracy, 8.0, 1.0, 40, None)  # type: ignore[arg-type]
    learning.retrained(done, profile(), 48, 0.1)
    facts = learning.facts
    assert facts.trial_s is not None
    assert facts.trial_s.value == pytest.approx(1.5)
    assert facts.setup_s is not None
    assert facts.setup_s.value == pytest.approx(0.5)
    assert facts.choice is not None
    assert facts.choice.value == pytest.approx(0.15), "of what was tried, over what was known best"
    assert facts.visit_s is not None
    assert facts.visit_s.value == pytest.approx(8.0 / (CONFIG.epochs * 40))
    assert facts.gain is not None
    assert facts.gain.value == pytest.approx(0.1)
    assert kept[-1]["facts"] == facts.to_json()


@pytest.mark.parametrize("took_s", [0.5, 30.0])
def test_a_retraining_that_was_cut_short_costs_what_its_profile_expects_or_what_it_took(
    learning: Learning, took_s: float
) -> None:
    accuracy, expected = Accuracy(0.7, 10, 20), profile()
    done = m.TrainingDone("j", Path("/none"), accuracy, accuracy, took_s, 0.05, 40, None)  # type: ignore[arg-type]
    learning.retrained(done, expected, 48, 0.1)
    assert learning.facts.visit_s is not None
    whole_s = max(took_s, expected.device_seconds.value)
    assert learning.facts.visit_s.value == pytest.approx(whole_s / (CONFIG.epochs * 40)), "not by its few visits"
    assert learning.facts.gain is None, "one that was cut short says nothing of what a whole one gains"


def test_a_group_that_was_cut_short_teaches_no_cost(learning: Learning) -> None:
    accuracy = Accuracy(0.7, 10, 20)
    done = m.TrainingDone("j", Path("/none"), accuracy, accuracy, 3.0, 0.5, 40, None, visits=60)  # type: ignore[arg-type]
    learning.retrained(done, profile(), 48, 0.1)
    assert learning.facts.visit_s is None


@pytest.mark.parametrize(("held", "counted"), [(0.0, 0), (12.4, 12)])
def test_a_budget_counts_the_older_frames_that_there_are(learning: Learning, held: float, counted: int) -> None:
    assert learning.problem(S, replace(BOX, exemplars=held)).exemplars == counted


def plan(problem: WindowProblem) -> WindowPlan:
    streams = {s.id: StreamAllocation(0.2) for s in problem.streams}
    return WindowPlan("relay", problem.name, 0.6, (Segment(0.0, streams),))


def problem(number: int, promise: Promise | None = None) -> WindowProblem:
    return WindowProblem(f"window-{number}", 1.0, 90.0, (StreamProblem("a", 0.6, INFERENCE, promise=promise),))


def test_promises_are_kept_over_a_restart(learning: Learning, kept: list[dict[str, Any]]) -> None:
    for number in range(1, 12):
        promise = None if number == 1 else Promise(0.6, Correction())
        learning.decide(S, BOX)
        learning.planned(number, problem(number, promise), plan(problem(number)))
        learning.seen("a", number, 0.4, None)
    assert learning.kept("a", 5) == {"predicted": 0.6, "realised": 0.4}
    own = learning.correction("a", 12, S)
    assert own.offset < -0.05
    assert own.usual == pytest.approx(0.4)
    again = Learning(lambda _: None)
    again.restore(kept[-1])
    assert again.correction("a", 12, S) == own
    report = again.report(S, BOX)
    assert report.bias == pytest.approx(0.2)
    assert report.to_json()["choice"]["window_s"] > 0
    again.forget("a")
    assert again.correction("a", 12, S).usual is None
    with pytest.raises(InvalidValue, match="learning_facts"):
        again.restore({"facts": {"labels": 3}})


def test_a_window_without_a_promise_still_says_what_is_usual(learning: Learning) -> None:
    """A group's student came into force: the camera is better from then on, and its gain was in no plan."""
    for number, realised in ((2, 0.5), (3, 0.7)):
        learning.planned(number, problem(number, Promise(0.6, Correction())), plan(problem(number)))
        before = learning.correction("a", 4, S)
        if number == 3:
            learning.not_promised("a", number)
            learning.planned(number, problem(number, Promise(0.7, Correction())), plan(problem(number)))
        learning.seen("a", number, realised, None)
    after = learning.correction("a", 4, S)
    assert learning.kept("a", 3) is None
    assert before.usual == pytest.approx(0.5)
    assert after.usual is not None
    assert 0.6 < after.usual < 0.7
    assert replace(after, usual=None) == replace(before, usual=None), "nothing else is learned by it"


def test_the_first_plan_with_retrainings_is_the_promise(learning: Learning) -> None:
    learning.planned(3, problem(3, Promise(0.6, Correction())), plan(problem(3)))
    better = WindowProblem("window-3", 1.0, 90.0, (StreamProblem("a", 0.9, INFERENCE),))
    learning.planned(3, better, plan(better))
    learning.seen("a", 3, 0.5, None)
    assert learning.kept("a", 3) == {"predicted": 0.6, "realised": 0.5}, "a later plan knew more: it promised nothing"
    learning.seen("b", 3, 0.5, None)
    assert learning.kept("b", 3) is None


def test_drift_is_what_the_same_student_lost() -> None:
    frames = [frame(n, right=n < 10) for n in range(20)]
    drift = drift_per_s(window(frames))
    assert drift == pytest.approx(1.0 / 10.0), "all right in the first half, none in the second, ten seconds later"
    assert drift_per_s(window([frame(n) for n in range(20)])) == 0.0
    assert drift_per_s(window([frame(n, version=f"v{n}") for n in range(20)])) is None


def test_late_labels_join_the_training_part_of_the_next_window() -> None:
    data = window([frame(n, window=2) for n in range(6)], number=2)
    late = (frame(3, window=1), frame(4, window=1), frame(2, window=2))
    joined = with_late_labels(data, late)
    assert [f.frame.id for f in joined.exemplars] == ["a/1/3", "a/1/4"], "older ones, once"
    assert joined.held_out == data.held_out
    assert with_late_labels(data, ()) is data


def test_an_unreadable_history_counts_as_none() -> None:
    assert history_of({"no": "history"}) == ProfilerHistory()
    assert history_of(None) == ProfilerHistory()


def test_a_share_that_others_squeeze_makes_labels_dearer(learning: Learning) -> None:
    timed(learning, 0.02)
    learning.labelled(0.02, 0.06)
    assert learning.facts.label_s is not None
    assert learning.facts.label_s.value > 0.025
    for _ in range(60):
        learning.labelled(0.02, 5.0)
    assert learning.facts.label_s.value <= 0.08 + 1e-9, "within reason"

"""A retraining window for people: shares over time, words, and what a limited user may see of it."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from edge.appliance.answers.read import read
from edge.appliance.answers.windows import ExplainedWindow
from edge.appliance.window_explanation import (
    OtherParts,
    compared,
    config_words,
    explained,
    in_words,
)
from edge.core.access import Principal
from edge.core.configs import InferenceConfig, RetrainingConfig
from edge.core.plan_causes import PlanCause
from edge.core.plan_reasons import PlanReason
from edge.core.profiles import Estimate, InferencePoint, InferenceProfile, RetrainingProfile
from edge.core.window import RetrainingOption, StreamProblem, WindowProblem
from edge.store.values import (
    CameraWindow,
    JobRecord,
    PlanRecord,
    ProfileRecord,
    RecordedCost,
    WindowDetail,
    WindowRecord,
)
from scheduler.policies import WINDOW_POLICIES, window_policy
from web import limits

T = 1790000000.0
PARTS = OtherParts(control=0.1, front=0.05, golden=0.1, evaluation=0.05)
GOOD = RetrainingConfig(10, 8, "all", 1.0, 0.002)
CHEAP = RetrainingConfig(5, 8, "head", 0.5, 0.002)
SLOW = RetrainingConfig(500, 8, "all", 1.0, 0.002)
USELESS = RetrainingConfig(1, 8, "head", 0.5, 0.002)


def visible(story: dict[str, Any], *cameras: str) -> ExplainedWindow:
    """The story as a user gets it who may see these cameras."""
    return limits.explained(Principal("ann", "viewer", frozenset(cameras)), read(ExplainedWindow, story))


def inference(best: float = 0.1) -> InferenceProfile:
    points = (
        InferencePoint(InferenceConfig(5.0), best, 1.0),
        InferencePoint(InferenceConfig(1.0), best / 4, 0.6),
    )
    return InferenceProfile("subsampling", best, (1.0, 4.0), (1.0, 0.6), points=points)


def profile(config: RetrainingConfig, end: float, work: float, start: float = 0.5) -> RetrainingProfile:
    return RetrainingProfile(
        config, start, Estimate(end, end - 0.05, min(1.0, end + 0.05)), Estimate(work, 0.8 * work, 1.2 * work)
    )


PROFILES = (profile(GOOD, 0.8, 8.0), profile(CHEAP, 0.6, 2.0), profile(SLOW, 0.9, 4000.0), profile(USELESS, 0.5, 1.0))


def option(p: RetrainingProfile) -> RetrainingOption:
    return RetrainingOption(p.config.id, p.end_accuracy.value, p.device_seconds.value, details=p.config.to_json())


def problem(delay_s: float, cameras: tuple[str, ...] = ("gate", "yard"), capacity: float = 0.6) -> WindowProblem:
    streams = tuple(StreamProblem(c, 0.5, inference(), tuple(option(p) for p in PROFILES)) for c in cameras)
    return WindowProblem("window-3", capacity, 100.0, streams, 0.05, label_delay_s=delay_s)


PREPARED = PlanCause("prepared")


def record(number: int, asked: WindowProblem, policy: str = "relay", cause: PlanCause = PREPARED) -> PlanRecord:
    plan = window_policy(policy).plan(asked)
    return PlanRecord(
        number,
        3,
        T + asked.label_delay_s,
        cause.words,
        policy,
        plan.objective,
        asked.to_json(),
        plan.to_json(),
        cause.code,
        cause.camera,
    )


def detail(*plans: PlanRecord, jobs: tuple[JobRecord, ...] = (), open_: bool = False) -> WindowDetail:
    cameras = tuple(
        CameraWindow(3, c, realised={"value": 0.7}, frozen={"value": 0.5}, frames_labelled=40, losses={"stalls": n})
        for n, c in enumerate(("gate", "yard"))
    )
    window = WindowRecord(3, T, 100.0, "relay", {}, open_, None, "completed", {}, cameras)
    profiles = tuple(
        ProfileRecord(n, 3, camera, p.config.id, T + 9, p.to_json())
        for n, (camera, p) in enumerate((c, p) for c in ("gate", "yard") for p in PROFILES)
    )
    costs = (RecordedCost(3, None, "planning", 0.1, 0.1), RecordedCost(3, "gate", "retraining", 8.0, 20.0))
    return WindowDetail(window, plans, profiles, jobs, (), costs)


def job(camera: str = "gate", state: Any = "completed", promoted: bool = True, after: float | None = 0.78) -> JobRecord:
    return JobRecord(
        f"w3-{camera}", 3, camera, GOOD.id, 0.4, state, 1, T + 10, T + 40, 1.0, 8.5, 0.5, after, promoted, "why", None
    )


def of(story: dict[str, Any], camera: str) -> dict[str, Any]:
    return next(c for c in story["cameras"] if c["camera"] == camera)


def test_the_timeline_covers_the_window_and_shares_make_up_the_device() -> None:
    story = explained(
        detail(record(1, problem(10.0)), record(2, problem(30.0), cause=PlanCause("capacity_changed"))), PARTS
    )
    stretches = story["timeline"]
    assert stretches[0]["start_s"] == 0.0
    assert stretches[0]["phase"] == "preparing"
    assert stretches[-1]["end_s"] == 100.0
    for a, b in itertools.pairwise(stretches):
        assert a["end_s"] == b["start_s"]
    assert {s["plan"] for s in stretches if s["end_s"] <= 30.0} == {None, 1}
    assert {s["plan"] for s in stretches if s["start_s"] >= 30.0} == {2}
    for stretch in stretches:
        assert sum(s["share"] for s in stretch["shares"]) <= 1.0 + 1e-6
    # 1 less what is kept (0.3) and what cameras may use (0.6): the rest was held by served models.
    served = [s["share"] for s in stretches[0]["shares"] if s["kind"] == "serving"]
    assert served == [pytest.approx(0.1)]
    waiting = {s["camera"]: s["share"] for s in stretches[0]["shares"] if s["kind"] == "inference"}
    assert waiting == {"gate": pytest.approx(0.12), "yard": pytest.approx(0.12)}
    profiling = next(s["share"] for s in stretches[0]["shares"] if s["kind"] == "profiling")
    assert profiling == pytest.approx(0.6 - 0.24 + 0.05)


def test_each_plan_tells_why_in_words_without_ids() -> None:
    story = explained(detail(record(1, problem(10.0))), PARTS)
    words = [w for d in story["decisions"] for lines in (*d["cameras"].values(), d["whole"]) for w in lines]
    assert words
    assert not any(c.id in w for c in (GOOD, CHEAP, SLOW, USELESS) for w in words)
    assert any("all layers, 10 epochs, 100 % of the data" in w for w in words)
    assert not any("GPU" in w or "inference share" in w for w in words)
    assert any("of the device for inference keeps" in w for w in words)
    assert story["decisions"][0]["cause"] == "labels and profiles are in"


def test_a_changed_capacity_is_reported_with_its_amount() -> None:
    plans = (record(1, problem(10.0)), record(2, problem(40.0, capacity=0.45), cause=PlanCause("capacity_changed")))
    causes = [d["cause"] for d in explained(detail(*plans), PARTS)["decisions"]]
    assert causes == ["labels and profiles are in", "served models left the cameras 45 % of the device instead of 60 %"]


def test_faults_are_reported_beside_their_cameras() -> None:
    asked = replace(problem(10.0), a_min=0.9)
    plan = window_policy("relay").plan(asked)
    words = [f.words for f in plan.faults]
    assert [w.split(" cannot be kept")[0] for w in words] == ["gate: the floor of 0.90", "yard: the floor of 0.90"]
    story = explained(detail(record(1, asked)), PARTS)
    faults = story["decisions"][0]["faults"]
    assert [(f["camera"], f["message"]) for f in faults] == [(f.camera, f.what) for f in plan.faults]
    assert [f"{f['camera']}: {f['message']}" for f in faults] == words
    assert [f.message for f in visible(story, "gate").decisions[0].faults] == [plan.faults[0].what]
    beside = compared(3, plan, record(1, asked), PARTS)
    assert beside["made"]["faults"] == beside["asked"]["faults"] == faults


def test_sentences_of_an_earlier_version_are_for_those_who_see_every_camera() -> None:
    plan = window_policy("relay").plan(problem(10.0))
    reasons = {"": "yard first, then gate", "gate": "gate waits for yard"}
    kept = replace(record(1, problem(10.0)), plan=plan.to_json() | {"reasons": reasons})
    del kept.plan["reason_values"]
    story = explained(detail(kept), PARTS)
    (decision,) = story["decisions"]
    assert (decision["whole"], decision["cameras"]["gate"]) == ([], [])
    assert decision["recorded"] == ["Yard first, then gate", "Gate waits for yard"]
    assert visible(story, "gate").decisions[0].recorded == ()


def test_options_say_what_became_of_them() -> None:
    story = explained(detail(record(1, problem(10.0)), jobs=(job(),)), PARTS)
    verdicts = {o["config"]: o["verdict"] for o in of(story, "gate")["options"]}
    assert verdicts[GOOD.id] == "chosen and trained"
    assert verdicts[SLOW.id] == "would not be done before the window ends"
    assert verdicts[USELESS.id] == "would not gain"
    assert verdicts[CHEAP.id] == "worth less to the site than the option chosen"
    assert [o["chosen"] for o in of(story, "gate")["options"] if o["config"] == GOOD.id] == [True]
    best = [o["end_accuracy"]["value"] for o in of(story, "gate")["options"]]
    assert best == sorted(best, reverse=True)


@pytest.mark.parametrize(
    ("state", "promoted", "after", "outcome"),
    [
        ("running", False, None, "running"), ("completed", True, 0.7, "promoted"), ("completed", False, 0.4, "refused"),
        ("stopped", True, 0.7, "promoted"), ("stopped", False, 0.4, "refused"), ("stopped", False, None, "stopped"),
        ("failed", False, None, "failed"), ("interrupted", False, None, "interrupted"),
    ],
)  # fmt: skip
def test_jobs_tell_their_outcome_and_what_was_expected(
    state: str, promoted: bool, after: float | None, outcome: str
) -> None:
    story = explained(detail(record(1, problem(10.0)), jobs=(job(state=state, promoted=promoted, after=after),)), PARTS)
    row = of(story, "gate")["jobs"][0]
    assert row["outcome"] == outcome
    assert row["expected"]["accuracy"]["value"] == 0.8
    assert (row["started_s"], row["ended_s"]) == (10.0, 40.0)


def test_prediction_follows_the_plans_as_they_took_over() -> None:
    first, second = (
        record(1, problem(10.0)),
        record(2, problem(30.0), "no-retraining", PlanCause.recorded("asked for by hand")),
    )
    story = explained(detail(first, second), PARTS)
    gate = of(story, "gate")
    assert gate["steps"][0][0] == 0.0
    assert gate["steps"][-1][1] == 100.0
    assert all(a[1] == b[0] for a, b in itertools.pairwise(gate["steps"]))
    late = [s for s in gate["steps"] if s[0] >= 30.0]
    assert all(s[2] == pytest.approx(0.5) for s in late), "the second plan retrains nothing"
    assert gate["promised"] > gate["predicted"], "what the first plan promised did not stay so"
    average = sum((e - s) * v for s, e, v in gate["steps"]) / 100.0
    assert gate["predicted"] == pytest.approx(average, abs=1e-5)
    assert gate["losses"] == {}
    assert of(story, "yard")["losses"] == {"stalls": 1}


def test_a_window_without_plans_is_reported_all_the_same() -> None:
    story = explained(detail(), PARTS)
    assert story["timeline"] == []
    assert story["decisions"] == []
    assert of(story, "gate")["predicted"] is None
    assert of(story, "gate")["realised"] == 0.7


@pytest.mark.parametrize("policy", WINDOW_POLICIES)
def test_any_policy_can_be_compared(policy: str) -> None:
    made = record(1, problem(10.0))
    asked = window_policy(policy).plan(problem(10.0))
    story = compared(3, asked, made, PARTS)
    assert story["made"]["objective"] == pytest.approx(made.objective)
    assert story["asked"]["policy"] == asked.policy
    assert story["asked"]["objective"] == pytest.approx(asked.objective)
    for side in (story["made"], story["asked"]):
        assert side["timeline"][-1]["end_s"] == 100.0
        assert sum(side["cameras"].values()) / 2 == pytest.approx(side["objective"], abs=1e-5)


def test_who_may_not_see_a_camera_reads_nothing_of_it() -> None:
    plans = (record(1, problem(10.0)), record(2, problem(40.0), cause=PlanCause("retraining_failed", "yard")))
    story = explained(detail(*plans, jobs=(job("yard"), job("gate"))), PARTS)
    whole = read(ExplainedWindow, story)
    assert visible(story, "gate", "yard") == whole
    seen = visible(story, "gate")
    assert "yard" not in repr(seen)
    assert [d.cause for d in seen.decisions] == ["labels and profiles are in", "another camera"]
    for all_, some in zip(whole.timeline, seen.timeline, strict=True):
        total = [sum(s.share for s in t.shares) for t in (all_, some)]
        assert total[0] == pytest.approx(total[1], abs=1e-6)
        assert any(s.kind == "others" for s in some.shares)


def test_a_cause_of_which_only_words_are_kept_is_shown_to_those_who_see_all() -> None:
    story = explained(detail(record(1, problem(10.0), cause=PlanCause.recorded("an older Magpie's words"))), PARTS)
    everybody = Principal("ann", "viewer", None)
    assert limits.explained(everybody, read(ExplainedWindow, story)).decisions[0].cause == "an older Magpie's words"
    assert visible(story, "gate").decisions[0].cause == "another camera"


def test_a_camera_named_inside_anothers_name_is_not_taken_for_it() -> None:
    plans = (record(1, problem(10.0, ("gate", "gate-2")), cause=PlanCause("retraining_failed", "gate-2")),)
    base = detail(*plans)
    window = replace(base.window, cameras=())
    story = explained(replace(base, window=window, profiles=()), PARTS)
    assert visible(story, "gate-2").decisions[0].cause == "gate-2: retraining failed"
    assert visible(story, "gate").decisions[0].cause == "another camera"


def test_configurations_tell_what_differs() -> None:
    words = config_words({c.id: c.to_json() for c in (GOOD, RetrainingConfig(10, 16, "all", 1.0, 0.002))})
    assert sorted(words.values()) == [
        "all layers, 10 epochs, 100 % of the data, batches of 16",
        "all layers, 10 epochs, 100 % of the data, batches of 8",
    ]
    assert config_words({"odd": {}}) == {"odd": "odd"}


def test_reasons_become_sentences_with_configurations_in_words() -> None:
    numbers = {"points": 16.0, "device_s": 8.0, "place": 1, "places": 1}
    reasons = (
        PlanReason("go_on", "gate", "head-e5", numbers),
        PlanReason.recorded("an older sentence; its rest", None),
    )
    assert in_words(reasons, {"head-e5": "the last layer only, 5 epochs"}) == [
        "Go on with “the last layer only, 5 epochs”: +16.0 points for 8.0 device seconds, the only one (2.00 points"
        " per device second)",
        "An older sentence; its rest",
    ]

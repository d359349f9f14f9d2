"""The evaluation of a plan: by hand, against the independent checker, and its extensions."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_problems import LINEAR, SUBLINEAR, problems

from benchmarks.scripts import load_script
from edge.core.errors import InvalidValue
from edge.core.window import RetrainingOption, Segment, StreamAllocation, StreamProblem, WindowPlan, WindowProblem
from scheduler.policies import WINDOW_POLICIES, window_policy
from scheduler.timeline import evaluate


@pytest.fixture(scope="module")
def checker(shared_dir: Path) -> ModuleType:
    """The independent scorer, which shares no code with ours."""
    return load_script(shared_dir / "data" / "check_window_plan.py")


def one(option: RetrainingOption, **changes: object) -> WindowProblem:
    stream = StreamProblem("a", 0.4, LINEAR, (option,), **changes)  # type: ignore[arg-type]
    return WindowProblem("one", 1.0, 100.0, (stream,))


def test_by_hand() -> None:
    """0.25 of a device is half of what inference needs: 0.2 until the 25 GPU-s are done at 0.5 (50 s), then 0.4; the
    next segment gives all (0.8)."""
    problem = one(RetrainingOption("o", 0.8, 25.0))
    outcome = evaluate(
        problem,
        [Segment(0.0, {"a": StreamAllocation(0.25, 0.5, "o")}), Segment(75.0, {"a": StreamAllocation(0.5)})],
    )
    assert outcome.objective == pytest.approx((0.2 * 50 + 0.4 * 25 + 0.8 * 25) / 100)
    assert outcome.completed == {"a": (("o", 50.0),)}
    assert outcome.lowest["a"] == pytest.approx(0.2)
    assert [(s.start_s, s.end_s) for s in outcome.steps["a"]] == [(0.0, 50.0), (50.0, 75.0), (75.0, 100.0)]


def test_the_label_delay_has_the_fair_share_and_does_not_count_for_the_lowest() -> None:
    stream = StreamProblem("a", 0.4, LINEAR)
    problem = WindowProblem("d", 0.25, 100.0, (stream,), label_delay_s=20.0)
    outcome = evaluate(problem, [Segment(20.0, {"a": StreamAllocation(0.5)})])
    assert outcome.objective == pytest.approx((0.2 * 20 + 0.4 * 80) / 100)
    assert outcome.lowest["a"] == pytest.approx(0.4)


def test_measured_throughput_sets_the_speed() -> None:
    problem = one(RetrainingOption("o", 0.8, 40.0, throughput=SUBLINEAR))
    outcome = evaluate(problem, [Segment(0.0, {"a": StreamAllocation(0.5, 0.5, "o")})])
    assert outcome.completed["a"] == (("o", pytest.approx(50.0)),)


def test_device_seconds_done_before_count_for_the_running_option_only() -> None:
    problem = one(RetrainingOption("o", 0.8, 40.0), running="o", device_seconds_done=30.0)
    assert evaluate(problem, [Segment(0.0, {"a": StreamAllocation(0.5, 0.5, "o")})]).completed["a"] == (("o", 20.0),)
    other = StreamProblem(
        "a", 0.4, LINEAR, (RetrainingOption("o", 0.8, 40.0), RetrainingOption("p", 0.8, 40.0)), "", "o", 30.0
    )
    problem = WindowProblem("two", 1.0, 100.0, (other,))
    assert evaluate(problem, [Segment(0.0, {"a": StreamAllocation(0.5, 0.5, "p")})]).completed["a"] == (("p", 80.0),)


def test_bad_segments_are_refused() -> None:
    problem = one(RetrainingOption("o", 0.8, 40.0))
    with pytest.raises(InvalidValue, match="at least one segment"):
        evaluate(problem, [])
    with pytest.raises(InvalidValue, match="an id of the stream"):
        evaluate(problem, [Segment(0.0, {"a": StreamAllocation(0.5, 0.5, "nope")})])
    idle = {"a": StreamAllocation(0.5)}
    with pytest.raises(InvalidValue, match=r"start_s: got 1.0"):
        evaluate(problem, [Segment(0.0, idle), Segment(5.0, idle), Segment(1.0, idle)])


@st.composite
def random_plans(draw: st.DrawFn) -> tuple[WindowProblem, list[Segment]]:
    problem = draw(problems(floor=False))
    plain = tuple(
        StreamProblem(
            s.id,
            s.start_accuracy,
            s.inference_profile,
            tuple(RetrainingOption(o.id, o.end_accuracy, o.device_seconds) for o in s.options),
        )
        for s in problem.streams
    )
    problem = WindowProblem("random", 4.0, problem.window_s, plain, label_delay_s=problem.label_delay_s)
    starts = [problem.label_delay_s, *sorted(draw(st.lists(st.floats(8.0, 140.0), max_size=5)))]
    segments = []
    for start in starts:
        allocations = {}
        for s in plain:
            config = draw(st.sampled_from([None, *(o.id for o in s.options)]))
            share = draw(st.sampled_from([0.0, 0.1, 0.35, 1.0]))
            allocations[s.id] = StreamAllocation(draw(st.sampled_from([0.0, 0.05, 0.2, 0.5])), share, config)
        segments.append(Segment(start, allocations))
    return problem, segments


@settings(max_examples=60, deadline=None)
@given(drawn=random_plans())
def test_equals_the_independent_checker_on_any_plan(
    checker: ModuleType, drawn: tuple[WindowProblem, list[Segment]]
) -> None:
    problem, segments = drawn
    plan = WindowPlan("any", problem.name, 0.0, tuple(segments)).to_json()
    theirs, _, done = checker.check(problem.to_json(), plan)
    ours = evaluate(problem, segments)
    assert ours.objective == pytest.approx(theirs, abs=1e-9)
    assert {s: [c for c, _ in d] for s, d in ours.completed.items()} == done


@pytest.mark.parametrize("name", WINDOW_POLICIES)
@pytest.mark.parametrize("file", ["s4g1_03", "s8g2_05", "s10g8_07", "table21_w1"])
def test_plans_of_the_shared_problems_pass_the_checker(
    checker: ModuleType, shared_dir: Path, name: str, file: str
) -> None:
    import json

    raw = json.loads((shared_dir / "data" / "window-problems" / f"{file}.json").read_text())
    plan = window_policy(name).plan(WindowProblem.from_json(raw))
    objective, faults, _ = checker.check(raw, json.loads(json.dumps(plan.to_json())))
    assert faults == []
    assert plan.objective == pytest.approx(objective, abs=1e-9)


def test_relay_beats_the_published_scheduler_and_the_reference(shared_dir: Path) -> None:
    import json

    folder = shared_dir / "data" / "window-problems"
    expected = json.loads((folder / "expected.json").read_text())
    for name in ("s4g1_01", "s4g1_07", "s8g2_03", "s10g8_00"):
        problem = WindowProblem.from_json(json.loads((folder / f"{name}.json").read_text()))
        objective = window_policy("relay").plan(problem).objective
        assert objective > expected[name]["ekya_reference_thief"]
        assert objective >= expected[name]["relay"]

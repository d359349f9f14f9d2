"""Window policies against each other and by hand; what all of them must keep is in tests/contracts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from examples_kit import tried
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from planning_problems import (
    LINEAR,
    SUBLINEAR,
    SUBSAMPLED,
    check_rules,
    problems,
    table21_w1,
    table21_w2,
)

from edge.core.errors import InvalidValue
from edge.core.profiles import InferenceProfile
from edge.core.window import RetrainingOption, StreamProblem, WindowPlan, WindowProblem
from scheduler.policies import WINDOW_POLICIES, window_policy
from scheduler.static import StreamChoice, static_segments
from scheduler.thief import Jobs, fair_allocation, play
from scheduler.timeline import evaluate

DRAWN = settings(max_examples=tried(12, 30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
GRID_POLICIES = ("exact", "no-retraining")


def plan(name: str, problem: WindowProblem) -> WindowPlan:
    return window_policy(name).plan(problem)


@pytest.mark.parametrize("name", GRID_POLICIES)
@DRAWN
@given(problem=problems(running=True))
def test_static_plans_use_multiples_of_delta(name: str, problem: WindowProblem) -> None:
    for segment in plan(name, problem).segments:
        for a in segment.streams.values():
            for share in (a.inference_share, a.retraining_share):
                assert share / problem.delta == pytest.approx(round(share / problem.delta), abs=1e-6)


@DRAWN
@given(problem=problems(running=True, floor=False))
def test_relay_is_no_worse_than_exact_and_exact_than_no_retraining(problem: WindowProblem) -> None:
    relay, exact, idle = (plan(n, problem).objective for n in ("relay", "exact", "no-retraining"))
    assert relay >= exact - 1e-9
    assert exact >= idle - 1e-9


@DRAWN
@given(problem=problems(floor=False), more=st.sampled_from([0.1, 0.5, 1.0, 2.0]))
def test_more_devices_never_hurt_exact(problem: WindowProblem, more: float) -> None:
    assert plan("exact", replace(problem, num_gpus=problem.num_gpus + more)).objective >= (
        plan("exact", problem).objective
        # The time before the first segment has the fair share, which grows too; it can only help.
        - 1e-9
    )


@DRAWN
@given(problem=problems(running=True))
def test_relay_never_pauses_what_it_has_begun(problem: WindowProblem) -> None:
    found = plan("relay", problem)
    done = evaluate(problem, found.segments).completed
    for stream in problem.streams:
        begun = None
        for segment in found.segments:
            a = segment.streams[stream.id]
            over = begun is not None and any(
                name == begun and at <= segment.start_s + 1e-6 for name, at in done[stream.id]
            )
            if begun is not None and not over:
                assert a.retrain_config == begun
                assert a.retraining_share > 0
            if a.retrain_config is not None:
                begun = a.retrain_config


@settings(max_examples=tried(10, 25), deadline=None)
@given(problem=problems(floor=False))
def test_exact_is_the_best_static_plan_by_enumeration(problem: WindowProblem) -> None:
    """All static plans of at most two streams at a coarse quantum, tried one by one."""
    small = replace(problem, streams=problem.streams[:2], num_gpus=1.0, delta=0.25, label_delay_s=0.0)
    quanta = [k * 0.25 for k in range(5)]
    per_stream = []
    for s in small.streams:
        choices = [(n, StreamChoice(n)) for n in quanta]
        choices += [
            (total, StreamChoice(total - r, r, o.id, total))
            for total in quanta
            for r in quanta[1:]
            for o in s.options
            if r <= total and o.device_seconds <= o.speed(r) * small.window_s
        ]
        per_stream.append(choices)
    best = 0.0
    for total_a, a in per_stream[0]:
        for total_b, b in per_stream[1] if len(per_stream) > 1 else [(0.0, None)]:
            if total_a + total_b > 1.0:
                continue
            picked = {small.streams[0].id: a} | ({} if b is None else {small.streams[1].id: b})
            best = max(best, evaluate(small, static_segments(small, picked)).objective)
    assert plan("exact", small).objective == pytest.approx(best, abs=1e-9)


# -- the worked example


def uniform_of_the_thesis(problem: WindowProblem) -> tuple[float, dict[str, float]]:
    """Devices even over all jobs, the most accurate configuration for every camera. The objective, and the
    accuracies at the end."""
    best = {s.id: (max(s.options, key=lambda o: o.end_accuracy),) for s in problem.streams}
    found = play("uniform", problem, best, stealing=False, picking=False)
    return found.objective, {s: o[0].end_accuracy for s, o in best.items()}


def both_windows(name: str) -> float:
    first = table21_w1()
    one = plan(name, first)
    ends = {s.id: s.start_accuracy for s in first.streams}
    for s in first.streams:
        for config, _ in evaluate(first, one.segments).completed[s.id]:
            ends[s.id] = next(o.end_accuracy for o in s.options if o.id == config)
    second = table21_w2(ends["videoA"], ends["videoB"])
    two = plan(name, second)
    for problem, found in ((first, one), (second, two)):
        check_rules(problem, found)
        assert not found.faults
    return (one.objective + two.objective) / 2


def test_worked_example_uniform_is_the_figure_of_the_thesis() -> None:
    one, ends = uniform_of_the_thesis(table21_w1())
    two, _ = uniform_of_the_thesis(table21_w2(ends["videoA"], ends["videoB"]))
    assert (one + two) / 2 == pytest.approx(0.56, abs=0.005)


@pytest.mark.parametrize(("name", "least"), [("thief", 0.73), ("exact", 0.75), ("relay", 0.755)])
def test_worked_example_beats_the_optimised_figure_of_the_thesis(name: str, least: float) -> None:
    assert both_windows(name) >= least


# -- thief by hand


def test_thief_steals_as_written_out_by_hand() -> None:
    """One device, one stream, Delta 0.25, T = 100: inference and retraining start at 0.5 each.

    The option costs 25 GPU-s and ends at 0.8 from 0.4; inference is linear up to a whole device. At (0.5, 0.5) the
    retraining takes 50 s: 0.4*0.5*50 + 0.8*1.0*50 = 50. Inference as thief: (0.75, 0.25) takes 100 s, all at 0.4 *
    0.75: 30, refused. Retraining as thief: (0.25, 0.75) takes 33.3 s: 0.4*0.25*33.3 + 0.8*66.7 = 56.7, kept; then
    (0, 1) takes 25 s: 0.8*75 = 60, kept. After the completion there is one job left, inference, with the device.
    """
    stream = StreamProblem("a", 0.4, InferenceProfile("linear", 1.0), (RetrainingOption("o", 0.8, 25.0),))
    found = plan("thief", WindowProblem("hand", 1.0, 100.0, (stream,), delta=0.25))
    first, second = found.segments
    assert first.streams["a"].retraining_share == pytest.approx(1.0)
    assert first.streams["a"].inference_share == pytest.approx(0.0)
    assert second.start_s == pytest.approx(25.0)
    assert second.streams["a"].inference_share == pytest.approx(1.0)
    assert found.objective == pytest.approx(0.60)


def test_thief_keeps_the_floor_where_stealing_would_break_it() -> None:
    """The same with a floor of 0.2: inference may not go under 0.5 of the device before the retraining is over."""
    stream = StreamProblem("a", 0.4, InferenceProfile("linear", 1.0), (RetrainingOption("o", 0.8, 25.0),))
    found = plan("thief", WindowProblem("hand", 1.0, 100.0, (stream,), delta=0.25, a_min=0.2))
    assert found.segments[0].streams["a"].inference_share == pytest.approx(0.5)
    assert found.objective == pytest.approx(0.50)
    assert not found.faults


# -- relay


def two_equal_jobs(throughput: tuple[tuple[float, float], ...] = ()) -> WindowProblem:
    """Two cameras whose inference needs next to nothing, one device, one job of 40 GPU-s each."""
    profile = InferenceProfile("linear", 0.01)
    streams = tuple(
        StreamProblem(f"c{n}", 0.4, profile, (RetrainingOption("o", 0.8, 40.0, throughput=throughput),)) for n in (0, 1)
    )
    return WindowProblem("two", 1.02, 100.0, streams, delta=0.01)


def test_relay_runs_one_after_another_with_linear_speed_up() -> None:
    problem = two_equal_jobs()
    found = plan("relay", problem)
    ends = sorted(at for done in evaluate(problem, found.segments).completed.values() for _, at in done)
    assert ends == pytest.approx([40.0, 80.0], abs=0.01)


def test_relay_runs_side_by_side_where_a_job_cannot_use_a_whole_device() -> None:
    """Half a device is as fast as a whole one: side by side both end at 40 s, one after another at 40 and 80."""
    problem = two_equal_jobs(((0.5, 1.0), (1.0, 1.0)))
    found = plan("relay", problem)
    ends = sorted(at for done in evaluate(problem, found.segments).completed.values() for _, at in done)
    assert ends == pytest.approx([40.0, 40.0], abs=0.5)


def test_relay_goes_on_with_a_running_retraining_that_is_nearly_done() -> None:
    problem = two_equal_jobs()
    first, second = problem.streams
    going = replace(first, options=(RetrainingOption("o", 0.5, 40.0),), running="o", device_seconds_done=39.0)
    found = plan("relay", replace(problem, streams=(going, second)))
    assert found.segments[0].streams["c0"].retrain_config == "o"
    assert found.segments[1].start_s == pytest.approx(1.0, abs=0.05)
    assert found.reasons["c0"][0].words().startswith("go on with o")


def test_reasons_name_configuration_gain_and_cost() -> None:
    found = plan("relay", table21_w1())
    retraining, inference = found.reasons["videoB"]
    assert (retraining.code, retraining.camera, retraining.name) == ("retrain", "videoB", "Cfg2B")
    assert retraining.numbers == pytest.approx({"points": 35.0, "device_s": 50.0, "place": 1, "places": 2})
    assert "Cfg2B: +35.0 points for 50.0 device seconds, number 1 of 2 to start" in retraining.words()
    assert inference.code == found.reasons["videoA"][-1].code == "inference"


# -- floor


def test_an_unreachable_floor_is_a_fault_and_not_an_error() -> None:
    weak = StreamProblem("weak", 0.3, LINEAR, (RetrainingOption("o", 0.7, 10.0),))
    strong = StreamProblem("strong", 0.9, LINEAR)
    problem = WindowProblem("floor", 1.0, 100.0, (weak, strong), delta=0.1, a_min=0.5)
    for name in WINDOW_POLICIES:
        found = plan(name, problem)
        check_rules(problem, found)
        assert [(f.code, f.camera) for f in found.faults] == [("floor_unreachable", "weak")], name
        assert [f.words.split(":")[0] for f in found.faults] == ["weak"], name
        assert evaluate(problem, found.segments).lowest["strong"] >= 0.5 - 1e-6, name
    assert "best at the start is 0.300" in plan("relay", problem).faults[0].words
    # A camera that is under the floor is still retrained: that is how it comes back above it.
    assert evaluate(problem, plan("relay", problem).segments).completed["weak"]


@DRAWN
@given(problem=problems(running=True))
def test_relay_keeps_every_floor_that_can_be_kept(problem: WindowProblem) -> None:
    """A split of the devices that keeps all floors without retraining shows that no fault is due."""
    if problem.a_min is None:
        return
    need = 0.0
    for s in problem.streams:
        shares = np.arange(1, 101) * 0.01
        enough = [x for x in shares if s.start_accuracy * s.inference_profile.factor(float(x)) >= problem.a_min]
        if not enough:
            return
        need += float(enough[0]) + 0.011
    if need <= problem.num_gpus:
        for name in ("relay", "thief", "uniform", "fixed-resources", "fixed-config"):
            assert plan(name, problem).faults == (), name


# -- registry


def test_an_unknown_policy_is_named_with_what_is_allowed() -> None:
    with pytest.raises(InvalidValue, match=r"policy: got 'theif', allowed: one of relay, exact, thief"):
        window_policy("theif")


def test_a_fixed_configuration_is_for_fixed_policies_only() -> None:
    with pytest.raises(InvalidValue, match="picks its own"):
        window_policy("relay", "o")
    problem = WindowProblem(
        "f",
        1.0,
        100.0,
        (StreamProblem("a", 0.4, SUBSAMPLED, (RetrainingOption("x", 0.5, 1.0), RetrainingOption("y", 0.6, 2.0))),),
    )
    assert window_policy("uniform", "y").plan(problem).chosen() == {"a": "y"}
    assert window_policy("uniform").plan(problem).chosen() == {"a": "x"}
    assert window_policy("uniform-heavy").plan(problem).chosen() == {"a": "y"}


def test_sub_linear_speed_up_counts_in_every_policy() -> None:
    slow = RetrainingOption("o", 0.8, 40.0, throughput=SUBLINEAR)
    problem = WindowProblem("s", 1.0, 100.0, (StreamProblem("a", 0.4, SUBSAMPLED, (slow,)),), delta=0.25)
    found = plan("exact", problem)
    done = dict(evaluate(problem, found.segments).completed["a"])
    share = found.segments[0].streams["a"].retraining_share
    assert done["o"] == pytest.approx(40.0 / slow.speed(share))


@DRAWN
@given(problems(), st.floats(0.0, 1.0))
def test_a_plan_that_looks_beyond_the_window_keeps_every_rule(problem: WindowProblem, part: float) -> None:
    longer = replace(problem, carry_s=part * problem.window_s)
    check_rules(longer, plan("relay", longer))
    assert plan("relay", replace(problem, carry_s=0.0)) == plan("relay", problem)


def test_what_only_pays_in_the_next_window_is_trained_when_the_problem_carries_on() -> None:
    # 60 of 100 s of a device for 3 points: taking that share from inference costs more than the 40 s are worth.
    option = RetrainingOption("late", 0.53, 60.0)
    stream = StreamProblem("a", 0.5, LINEAR, (option,))
    problem = WindowProblem("late", 1.0, 100.0, (stream,))
    alone, ahead = plan("relay", problem), plan("relay", replace(problem, carry_s=2000.0))
    assert not any(s.streams["a"].retraining_share for s in alone.segments)
    assert any(s.streams["a"].retraining_share for s in ahead.segments)
    assert alone.objective >= ahead.objective


def test_fair_shares_do_not_depend_on_how_python_orders_a_set() -> None:
    """Names have another hash in every process; the last digit of a sum depends on its order."""
    least = {f"camera-{n}": 0.151 + 0.0031 * n for n in range(8)}
    jobs: Jobs = (*((name, "inference") for name in least), ("one-more", "inference"), ("one-more", "retraining"))
    streams = (StreamProblem("one-more", 0.5, LINEAR),)
    left = 1.5
    for share in least.values():
        left -= share
    alloc = fair_allocation(WindowProblem("fair", 1.5, 60.0, streams), jobs, least | {"one-more": 0.0})
    assert alloc == {(name, "inference"): share for name, share in least.items()} | {
        ("one-more", "inference"): left / 2, ("one-more", "retraining"): left / 2,
    }  # fmt: skip

"""Budgets of stages and gpu-lets chosen together: what a plan must keep, examples worked by hand, and bad input."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from examples_kit import tried
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving_problems import NAMES, tables

from benchmarks.bench_pipeline_box import entrance, traffic
from edge.core.applications import Application, ApplicationOutput, Feed, Stage, ValueSource
from edge.core.errors import InvalidValue
from edge.core.oip import TensorSpec
from edge.core.serving import DeviceTable, Gpulet, ModelBatch, ServedModel, ServingPlan
from edge.simulation.pipeline_simulation import replayed
from scheduler.gpulets.policies import serving_policy, smallest_plan
from scheduler.gpulets.stage_times import waits_ms
from scheduler.gpulets.turns import alike
from scheduler.gpulets.verdict import verdict
from scheduler.joint.demand import JointProblem, PipelineLoad, StageLoad, direct_load, pipeline_load
from scheduler.joint.law import joint_verdict
from scheduler.joint.planner import JointPlan, plan_jointly
from scheduler.joint.splitting import cheapest_split


def table(latency: Mapping[str, Mapping[int, tuple[float, ...]]]) -> DeviceTable:
    """A device without interference."""
    return DeviceTable("by hand", latency, {})


def chain(slo_ms: float, rate: float, *models: str, name: str = "p") -> PipelineLoad:
    """Each model behind the one before it."""
    stages = [StageLoad(m, m, 1.0, models[n - 1 : n] if n else ()) for n, m in enumerate(models)]
    return PipelineLoad(name, rate, slo_ms, tuple(stages))


@st.composite
def joint_problems(draw: st.DrawFn) -> JointProblem:
    """One or two graphs of up to four stages, some with a model in common, on one or two devices."""
    pipelines = []
    for n in range(draw(st.integers(1, 2))):
        stages: list[StageLoad] = []
        for k in range(draw(st.integers(1, 4))):
            before = [s.name for s in stages if draw(st.booleans())]
            model, per = draw(st.sampled_from(NAMES)), draw(st.sampled_from((1.0, 0.5, 2.0)))
            stages.append(StageLoad(f"s{k}", model, per, tuple(before), draw(st.sampled_from((1, 1, 3)))))
        rate, slo = draw(st.sampled_from((0.0, 1.0, 10.0, 40.0, 120.0))), draw(st.floats(80.0, 600.0))
        pipelines.append(PipelineLoad(f"p{n}", rate, slo, tuple(stages)))
    capacity = draw(st.sampled_from((1.0, 0.5)))
    return JointProblem(tuple(pipelines), draw(st.integers(1, 2)), capacity, draw(st.sampled_from((None, 2, 4))))


def kept(problem: JointProblem, device: DeviceTable, answer: JointPlan) -> None:
    """What every schedulable answer keeps."""
    plan = answer.plan
    judged = joint_verdict(problem, device, plan)
    assert judged.faults == ()
    if answer.even.schedulable:
        assert plan.total_share <= answer.even.total_share + 1e-9
        assert plan.devices_used <= answer.even.devices_used
    assert [(b.pipeline, b.stage) for b in answer.budgets] == [(p.name, s.name) for p in problem.busy for s in p.stages]
    for budget in answer.budgets:
        assert judged.worst_ms[budget.model] <= budget.budget_ms + 1e-6
        assert budget.worst_ms == judged.worst_ms[budget.model]
    for pipeline in problem.busy:
        given_ms = {s.name: answer.budget_ms(pipeline.name, s.name) for s in pipeline.stages}
        assert pipeline.longest(given_ms)[0] <= pipeline.slo_ms + 1e-6
    for model in problem.even:
        assert judged.throughput[model.name] >= model.rate * (1 - 1e-9)


# -- properties


@settings(max_examples=tried(10, 25), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(problem=joint_problems(), device=tables())
def test_every_plan_holds_within_its_budgets_and_never_takes_more_than_the_even_split(
    problem: JointProblem, device: DeviceTable
) -> None:
    try:
        answer = plan_jointly(problem, device, most_steps=4_000)
    except InvalidValue:
        return  # shorter than the fastest path
    asked = problem.served({})
    assert answer.even == smallest_plan(asked, device, serving_policy("mosaic"))
    assert answer.even.schedulable <= answer.plan.schedulable
    assert answer.steps >= 0
    if answer.plan.schedulable:
        kept(problem, device, answer)
    else:
        assert answer.budgets == ()
        assert answer.plan.reasons


@settings(max_examples=tried(4, 10), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(problem=joint_problems(), device=tables(), steps=st.integers(0, 3000))
def test_the_same_answer_every_time_however_few_the_steps(
    problem: JointProblem, device: DeviceTable, steps: int
) -> None:
    try:
        answer = plan_jointly(problem, device, most_steps=steps)
    except InvalidValue:
        return
    assert plan_jointly(problem, device, most_steps=steps) == answer
    assert answer.most_steps == steps
    assert answer.complete == (answer.steps <= steps)
    if answer.plan.schedulable:
        kept(problem, device, answer)


@settings(max_examples=tried(80, 200), deadline=None)
@given(
    count=st.integers(1, 6),
    batch=st.integers(1, 8),
    busy=st.floats(1.0, 50.0),
    idle=st.floats(1.0, 3.0),
    load=st.floats(0.1, 1.0),
    phase=st.floats(0.0, 1.0),
)
def test_alike_gpulets_fed_in_turn_answer_within_the_law(
    count: int, batch: int, busy: float, idle: float, load: float, phase: float
) -> None:
    """A replay, written apart from the planner: even arrivals, a gpu-let begins what waits every D / n."""
    duty = busy * idle
    gap = duty / (count * batch * load)  # ms between requests
    law = busy + duty / count
    waiting: list[float] = []
    arrives, late = phase * gap, 0.0
    free = [0.0] * count
    for turn in range(1, 40):
        now = turn * duty / count
        while arrives <= now - 1e-9:
            waiting.append(arrives)
            arrives += gap
        assert free[turn % count] <= now + 1e-6
        taken, waiting = waiting[:batch], waiting[batch:]
        free[turn % count] = now + busy
        late = max([late, *(now + busy - at for at in taken)])
    assert late <= law + 1e-6


# -- worked examples


SLOW_AND_FAST = table({"slow": {50: (40.0,), 100: (25.0,)}, "fast": {25: (5.0,), 50: (4.0,), 100: (3.0,)}})


def test_time_goes_to_the_stage_that_needs_it() -> None:
    # Even: 50 ms each, so `slow` needs the whole device (2 x 25), and there is none left for `fast`.
    # Together: `slow` in half a device (2 x 40) and `fast` in a quarter (2 x 5) take 90 of 100 ms.
    problem = JointProblem((chain(100.0, 10.0, "slow", "fast"),))
    answer = plan_jointly(problem, SLOW_AND_FAST)
    assert not answer.even.schedulable
    assert answer.plan.schedulable
    assert answer.plan.total_share == pytest.approx(0.75)
    assert sorted((g.percent, g.models[0].model) for g in answer.plan.gpulets) == [(25, "fast"), (50, "slow")]
    assert answer.budget_ms("p", "slow") >= 80
    assert answer.budget_ms("p", "fast") >= 10
    assert answer.budget_ms("p", "slow") + answer.budget_ms("p", "fast") <= 100 + 1e-9
    kept(problem, SLOW_AND_FAST, answer)


def test_remainders_share_a_gpulet_in_time() -> None:
    # Each model alone needs half of the device, and uses little of it: 5 and 4 ms of work every 40 ms or more. Together
    # in one half a request takes 9 + 9 ms or more at most, within 60; the even split's plan is no larger.
    device = table({"m": {50: (5.0, 8.0), 100: (4.0, 6.0)}, "n": {50: (4.0, 6.0), 100: (3.0, 4.0)}})
    problem = JointProblem((chain(120.0, 20.0, "m", "n"),))
    answer = plan_jointly(problem, device)
    (gpulet,) = answer.plan.gpulets
    assert gpulet.percent == 50
    assert {part.model for part in gpulet.models} == {"m", "n"}
    assert sum(device.solo_ms(part.model, 50, part.batch) for part in gpulet.models) <= gpulet.duty_cycle_ms
    kept(problem, device, answer)
    # At ten times the rate one half has no time for both.
    apart = plan_jointly(JointProblem((chain(120.0, 200.0, "m", "n"),)), device)
    assert apart.plan.total_share > 0.5
    kept(JointProblem((chain(120.0, 200.0, "m", "n"),)), device, apart)


def test_gpulets_fed_in_turn_run_larger_batches() -> None:
    # One request takes 10 ms: two gpu-lets at 2 x 10 <= 25 ms answer 200 requests/s. Batches of two take 16 ms; in
    # turn one begins every 8 ms, so 16 + 8 <= 25 ms holds at 250 requests/s. On its own each would need 2 x 16.
    device = table({"m": {50: (10.0, 16.0)}})
    problem = JointProblem((chain(25.0, 230.0, "m"),))
    answer = plan_jointly(problem, device)
    assert not answer.even.schedulable
    assert answer.plan.schedulable
    assert [(g.percent, g.models) for g in answer.plan.gpulets] == [(50, (ModelBatch("m", 2),))] * 2
    assert verdict(problem.served({}), device, answer.plan, slack=0.0).faults  # without feeding in turn it is late
    kept(problem, device, answer)


def test_the_even_split_stays_where_nothing_takes_less() -> None:
    device = table({"m": {50: (10.0,), 100: (6.0,)}})
    problem = JointProblem((chain(30.0, 20.0, "m"),))
    answer = plan_jointly(problem, device)
    assert (answer.plan.gpulets, answer.plan.policy) == (answer.even.gpulets, "mosaic")
    assert answer.plan.reasons[0].startswith("the even split's plan")
    assert answer.budget_ms("p", "m") == 30.0


def test_a_model_in_two_pipelines_is_one_demand_with_the_worst_case_in_both() -> None:
    device = table({"m": {25: (8.0, 10.0), 50: (6.0, 7.0)}, "n": {25: (4.0, 5.0), 50: (3.0, 4.0)}})
    problem = JointProblem((chain(40.0, 30.0, "m", "n", name="long"), chain(20.0, 20.0, "m", name="short")))
    answer = plan_jointly(problem, device)
    assert answer.plan.schedulable
    assert answer.budget_ms("long", "m") == answer.budget_ms("short", "m") <= 20.0
    assert joint_verdict(problem, device, answer.plan).throughput["m"] >= 50.0
    kept(problem, device, answer)


def test_the_search_says_where_it_was_cut_short() -> None:
    problem = JointProblem((chain(100.0, 10.0, "slow", "fast"),))
    cut = plan_jointly(problem, SLOW_AND_FAST, most_steps=10)
    assert not cut.complete
    assert not cut.plan.schedulable  # it has only the even split's, and that has none
    assert "slow" in " ".join(cut.plan.reasons)
    whole = plan_jointly(problem, SLOW_AND_FAST)
    assert whole.complete
    assert whole.rounds[0].split == "even"
    assert all(r.share is None or r.share >= whole.plan.total_share - 1e-9 for r in whole.rounds)


def test_the_law_divides_the_wait_among_alike_gpulets_only() -> None:
    device = table({"m": {20: (10.0, 16.0), 40: (6.0, 9.0)}, "n": {20: (2.0,)}})
    problem = JointProblem((chain(1000.0, 1.0, "m"), chain(1000.0, 1.0, "n", name="q")))
    two = [Gpulet(0, 0.2, 20.0, (ModelBatch("m", 2),))] * 2
    other = Gpulet(0, 0.4, 12.0, (ModelBatch("m", 2),))
    shared = Gpulet(0, 0.2, 15.0, (ModelBatch("m", 1), ModelBatch("n", 1)))
    plan = ServingPlan(True, (*two, other, shared))
    assert len({alike(g) for g in plan.gpulets}) == 3
    judged = verdict(problem.served({}), device, plan)
    assert waits_ms(judged.timings) == [10.0, 10.0, 12.0, 15.0]
    worst = joint_verdict(problem, device, plan).worst_ms
    assert worst == {"m": pytest.approx(27.0), "n": pytest.approx(27.0)}  # 12 ms of work every 15 ms


def test_a_late_path_a_missing_rate_and_a_full_device_are_faults() -> None:
    device = table({"m": {60: (10.0,)}})
    problem = JointProblem((chain(19.0, 150.0, "m"),))
    gpulet = Gpulet(0, 0.6, 10.0, (ModelBatch("m", 1),))
    faults = " | ".join(joint_verdict(problem, device, ServingPlan(True, (gpulet,))).faults)
    assert "p: m takes up to 20.00 ms, the objective is 19 ms" in faults
    assert "m: 100.0 of 150 requests/s" in faults
    assert "shares add up" in " ".join(joint_verdict(problem, device, ServingPlan(True, (gpulet, gpulet))).faults)


def test_a_split_is_exact_in_a_graph_that_is_not_series_parallel() -> None:
    # a feeds c and d, b feeds d only. c's cheaper point fits beside a's dearer one; d's beside neither.
    stages = (
        StageLoad("a", "a"),
        StageLoad("b", "b"),
        StageLoad("c", "c", 1.0, ("a",)),
        StageLoad("d", "d", 1.0, ("a", "b")),
    )
    problem = JointProblem((PipelineLoad("p", 1.0, 10.0, stages),))
    points = [[(2.0, 5.0, None), (6.0, 1.0, None)]] * 4
    found = cheapest_split(problem, [m.name for m in problem.even], points)
    assert found is not None
    took = [found[m] for m in "abcd"]
    assert (took[0] + took[2], took[0] + took[3], took[1] + took[3]) < (10.1,) * 3
    assert sum(1.0 if t == 6.0 else 5.0 for t in took) == 12.0  # two cheap ones: (a, b) or (c, d) or (b, c)
    assert cheapest_split(problem, list("abcd"), [[(6.0, 1.0, None)]] * 4) is None


def test_an_application_asks_as_its_stages_do() -> None:
    stages = tuple(Stage(f"digit{n}", "m", {"i": Feed(ValueSource(None, "x"))}) for n in range(3))
    spec = TensorSpec("x", "FP32", (-1, 4))
    output = ApplicationOutput(TensorSpec("y", "FP32", (-1, 4)), ValueSource("digit0", "y"))
    load = pipeline_load(Application("app", 60.0, (spec,), (output,), stages), 20.0)
    assert [(s.model, s.burst) for s in load.stages] == [("m", 3)] * 3
    problem = JointProblem((load, direct_load(ServedModel("n", 5.0, 80.0))))
    # Three at once and 60 ms: planned for 2 x 2000 / 60 requests/s, at which the last is answered 30 ms later.
    assert problem.even[0].rate == pytest.approx(66.667, abs=1e-3)
    assert (problem.even[0].slo_ms, problem.burst_ms["m"]) == (pytest.approx(30.0), pytest.approx(30.0))
    device = table({"m": {50: (4.0, 6.0), 100: (3.0, 4.0)}, "n": {50: (10.0,)}})
    answer = plan_jointly(problem, device)
    worst = {b.stage: b.worst_ms for b in answer.budgets}
    assert worst["digit0"] > problem.burst_ms["m"]  # the last of three at once waits longer
    kept(problem, device, answer)


def test_a_replay_keeps_to_the_law_and_sees_what_is_late() -> None:
    problem = JointProblem((chain(100.0, 10.0, "slow", "fast"),))
    plan = plan_jointly(problem, SLOW_AND_FAST).plan
    worst_ms = joint_verdict(problem, SLOW_AND_FAST, plan).path_ms["p"]
    for feeding in ("in turn", "pull"):
        found = replayed(problem, SLOW_AND_FAST, plan, feeding, requests=300)
        assert found["late"] == 0
        assert 0.45 <= found["worst"] <= worst_ms / 100 + 1e-4  # 40 + 5 ms of work at least
    stricter = JointProblem((chain(44.0, 10.0, "slow", "fast"),))
    assert replayed(stricter, SLOW_AND_FAST, plan, "pull", requests=300)["late"] == 1
    # Two in turn: 23 requests/s wait 83 ms at most; where both begin together, up to 160.
    device = table({"m": {50: (100.0, 160.0)}})
    fast = JointProblem((chain(250.0, 23.0, "m"),))
    assert replayed(fast, device, plan_jointly(fast, device).plan, "in turn", requests=300)["late"] == 0


# -- bad input


def refused(path: str, make: object) -> None:
    with pytest.raises(InvalidValue) as error:
        make()  # type: ignore[operator]
    assert error.value.path == path


def test_bad_input_is_refused_with_the_field() -> None:
    a, b = StageLoad("a", "m", 1.0, ("b",)), StageLoad("b", "m", 1.0, ("a",))
    one = (StageLoad("a", "m"),)
    refused("pipelines.p.stages", lambda: PipelineLoad("p", 1.0, 10.0, (a, b)))
    refused("pipelines.p.stages", lambda: PipelineLoad("p", 1.0, 10.0, ()))
    refused("pipelines.p.stages", lambda: PipelineLoad("p", 1.0, 10.0, one * 2))
    refused("pipelines.p.stages.a.after[0]", lambda: PipelineLoad("p", 1.0, 10.0, (a,)))
    refused("pipelines.p.rate", lambda: PipelineLoad("p", math.nan, 10.0, one))
    refused("pipelines.p.slo_ms", lambda: PipelineLoad("p", 1.0, 0.0, one))
    refused("pipelines.p.stages.a.per_request", lambda: PipelineLoad("p", 1.0, 9.0, (replace(one[0], per_request=0),)))
    refused("pipelines", lambda: JointProblem((chain(9.0, 1.0, "m"),) * 2))
    refused("devices", lambda: JointProblem((chain(9.0, 1.0, "m"),), devices=0))
    refused("capacity", lambda: JointProblem((chain(9.0, 1.0, "m"),), capacity=1.5))
    known = JointProblem((chain(100.0, 1.0, "slow", "unknown"),))
    refused("pipelines.p.stages.unknown.model", lambda: plan_jointly(known, SLOW_AND_FAST))


def test_an_objective_shorter_than_the_fastest_path_is_refused_with_what_it_takes() -> None:
    # At best `slow` takes 2 x 25 ms on one whole device, or 40 + 40 / 2 in two halves; `fast` 5 + 5 / 4.
    problem = JointProblem((chain(52.0, 1.0, "slow", "fast"),))
    with pytest.raises(InvalidValue) as error:
        plan_jointly(problem, SLOW_AND_FAST)
    assert error.value.path == "pipelines.p.slo_ms"
    assert "slow > fast" in error.value.allowed
    idle = JointProblem((chain(52.0, 0.0, "slow", "fast"),))
    assert plan_jointly(idle, SLOW_AND_FAST).plan.gpulets == ()


def test_a_device_with_no_room_for_any_measured_share_has_no_plan() -> None:
    answer = plan_jointly(JointProblem((chain(500.0, 1.0, "slow", "fast"),), capacity=0.1), SLOW_AND_FAST)
    assert not answer.plan.schedulable
    assert answer.budgets == ()


# -- the published device


@pytest.mark.parametrize(
    ("load", "capacity"), [(traffic(144.0), 1.0), (entrance(52.0), 0.5)], ids=["traffic", "entrance"]
)
def test_pipelines_on_the_published_device_take_less_than_the_even_split(
    shared_dir: Path, load: PipelineLoad, capacity: float
) -> None:
    path = shared_dir / "data" / "serving-problems" / "device-rtx2080ti-synthetic.json"
    if not path.exists():
        pytest.skip("the developers' shared data folder is absent (set MAGPIE_SHARED)")
    device = DeviceTable.from_json(json.loads(path.read_text()))
    problem = JointProblem((load,), capacity=capacity)
    answer = plan_jointly(problem, device)
    kept(problem, device, answer)
    assert answer.plan.total_share < 0.93 * answer.even.total_share
    assert Counter(b.model for b in answer.budgets) == Counter(s.model for s in load.stages)

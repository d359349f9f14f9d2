"""One queue or two for a model: never dearer, the same where budgets are alike, and how the plan is followed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from examples_kit import tried
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from reorganiser_world import SimulatedServing, version
from serving_problems import tables

from benchmarks.bench_pipeline_box import archive, traffic
from benchmarks.scripts import load_script
from edge.core.applications import Application, ApplicationOutput, Feed, Stage, ValueSource
from edge.core.errors import InvalidValue
from edge.core.front_messages import Layout
from edge.core.oip import TensorSpec
from edge.core.serving import DeviceTable, Gpulet, ModelBatch, QueueId, ServedModel, ServingPlan, ServingProblem
from edge.core.serving_reasons import ServingReason, in_words
from scheduler.gpulets import reorganiser_events as r
from scheduler.gpulets.applications import with_applications
from scheduler.gpulets.demand import Demand
from scheduler.gpulets.fitting import Capacity
from scheduler.gpulets.follow import plan_function
from scheduler.gpulets.pipelines import FittedPipelines, PipelineDemand, fit_evenly
from scheduler.gpulets.queue_names import plan_queues_apart, queue_names
from scheduler.gpulets.rates import RateSettings
from scheduler.gpulets.reorganiser import Reorganiser
from scheduler.gpulets.reorganiser_settings import ReorganiserSettings, ShareKindLimits
from scheduler.gpulets.verdict import verdict
from scheduler.joint.demand import JointProblem, PipelineLoad, StageLoad, direct_load
from scheduler.joint.fitting import fit_pipelines
from scheduler.joint.law import joint_verdict
from scheduler.joint.planner import plan_jointly
from scheduler.joint.queues import UNLIKE, QueueCut, cuts, plan_with_queues

#: A fifth of a device computes 1 row in 40 ms, 32 rows in 102. Within 81 ms several gpu-lets in turn take batches of
#: about a dozen: 600 requests/s need four. Kept apart, 5 of them run alone in one, and the others by 32 in two.
TABLE = DeviceTable("by hand", {"m": {20: tuple(40.0 + 2.0 * n for n in range(32))}}, {})
MOSAIC = plan_function("mosaic")
X = TensorSpec("x", "FP32", (-1, 4))


def single(name: str, rate: float, slo_ms: float, model: str = "m") -> PipelineLoad:
    """A pipeline of one stage."""
    return PipelineLoad(name, rate, slo_ms, (StageLoad("ask", model),))


def application(name: str, slo_ms: float, rate: float, model: str = "m") -> Application:
    """An application of one stage."""
    stage = Stage("ask", model, {"x": Feed(ValueSource(None, "x"))})
    return Application(name, slo_ms, (X,), (ApplicationOutput(X, ValueSource("ask", "x")),), (stage,), rate=rate)


@st.composite
def shared_models(draw: st.DrawFn) -> JointProblem:
    """Two or three graphs of up to two stages that ask one or two models, and clients of one of them."""
    pipelines = []
    for n in range(draw(st.integers(2, 3))):
        models = draw(st.lists(st.sampled_from("ab"), min_size=1, max_size=2))
        stages = tuple(
            StageLoad(f"s{k}", model, 1.0, (f"s{k - 1}",) if k else (), draw(st.sampled_from((1, 1, 2))))
            for k, model in enumerate(models)
        )
        rate = draw(st.sampled_from((0.0, 5.0, 40.0, 200.0)))
        pipelines.append(PipelineLoad(f"p{n}", rate, draw(st.sampled_from((60.0, 150.0, 500.0, 2000.0))), stages))
    own = ServedModel("a", draw(st.sampled_from((1e-3, 20.0))), draw(st.sampled_from((100.0, 1000.0))))
    return JointProblem((*pipelines, direct_load(own)), draw(st.integers(1, 2)))


#: A model with two queues beside one with a single queue.
TABLE_OF_TWO = replace(TABLE, latency_ms={"a": {20: (5.0,)}, **TABLE.latency_ms})
BESIDE_ANOTHER = JointProblem(
    (single("urgent", 5.0, 81.0), single("patient", 600.0, 2000.0), direct_load(ServedModel("a", 120.0, 20.0)))
)
URGENT_AND_PATIENT = JointProblem((single("urgent", 5.0, 81.0), single("patient", 600.0, 2000.0))), TABLE


# -- properties


@settings(max_examples=tried(6, 15), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(problem=shared_models(), device=tables(("a", "b")))
@example(*URGENT_AND_PATIENT)
@example(BESIDE_ANOTHER, TABLE_OF_TWO)
def test_never_dearer_than_one_queue_and_the_plan_holds(problem: JointProblem, device: DeviceTable) -> None:
    try:
        answer = plan_with_queues(problem, device, most_steps=1500)
    except InvalidValue:
        return  # shorter than the fastest path
    one = answer.one
    assert answer.steps <= answer.most_steps or not answer.complete
    if not answer.cuts:
        assert answer.plan == one
        return
    plan, table = answer.plan.plan, answer.names.table(device)
    assert not one.plan.schedulable or plan.total_share < one.plan.total_share
    assert joint_verdict(answer.problem, table, plan).faults == ()
    assert not answer.names.mixed(plan)
    for model in problem.even:
        asking = [(p.rate * s.per_request, s.model) for p in problem.busy for s in p.stages if p.rate >= 1]
        rates = [answer.rate(QueueId(model.name, n)) for n in (0, 1)]
        assert sum(rates) == pytest.approx(sum(rate for rate, name in asking if name == model.name))
    for pipeline in problem.busy:
        budgets = {s.name: answer.plan.budget_ms(pipeline.name, s.name) for s in pipeline.stages}
        assert pipeline.longest(budgets)[0] <= pipeline.slo_ms + 1e-6


@pytest.mark.parametrize(("problem", "device"), [URGENT_AND_PATIENT, (BESIDE_ANOTHER, TABLE_OF_TWO)])
def test_one_queue_is_planned_as_without_queues_and_all_is_the_same_every_time(
    problem: JointProblem, device: DeviceTable
) -> None:
    answer = plan_with_queues(problem, device, most_steps=1500)
    assert answer.cuts
    assert answer.one == plan_jointly(problem, device, most_steps=1500)
    assert answer == plan_with_queues(problem, device, most_steps=1500)


@settings(max_examples=tried(20, 50), deadline=None)
@given(problem=shared_models())
def test_a_cut_parts_unlike_budgets_and_leaves_clients_in_queue_0(problem: JointProblem) -> None:
    for cut in cuts(problem):
        mine = [(p, s) for p in problem.busy for s in p.stages if s.model == cut.model and not (p.own and p.rate < 1)]
        inside = [p.even_ms[s.name] for p, s in mine if (p.name, s.name) in cut.apart]
        outside = [p.even_ms[s.name] for p, s in mine if (p.name, s.name) not in cut.apart]
        assert len(inside) == len(cut.apart)
        assert outside
        assert min(inside) >= UNLIKE * max(outside) or min(outside) >= UNLIKE * max(inside)
        assert not any(p.own for p, s in mine if (p.name, s.name) in cut.apart)


@settings(max_examples=tried(4, 10), deadline=None)
@given(rates=st.lists(st.floats(1.0, 300.0), min_size=2, max_size=3), slo_ms=st.floats(90.0, 2000.0))
def test_alike_budgets_have_one_queue(rates: list[float], slo_ms: float) -> None:
    problem = JointProblem(tuple(single(f"p{n}", rate, slo_ms) for n, rate in enumerate(rates)))
    answer = plan_with_queues(problem, TABLE, most_steps=1000)
    assert (answer.cuts, answer.tried, answer.steps) == ((), (), 0)
    assert answer.plan == answer.one == plan_jointly(problem, TABLE, most_steps=1000)


# -- worked examples


def test_few_urgent_requests_beside_many_patient_ones_have_a_queue_of_their_own() -> None:
    problem = JointProblem((single("urgent", 5.0, 81.0), single("patient", 600.0, 2000.0)))
    answer = plan_with_queues(problem, TABLE, most_steps=4000)
    assert answer.one.plan.total_share == pytest.approx(0.8)
    assert answer.plan.plan.total_share == pytest.approx(0.6)
    assert answer.cuts == (QueueCut("m", frozenset({("patient", "ask")})),)
    queued = answer.names.plan(answer.plan.plan)
    assert sorted((part.queue, part.batch > 20) for g in queued.gpulets for part in g.models) == [
        (0, False), (1, True), (1, True)
    ]  # fmt: skip
    assert answer.stages(QueueId("m")) == (("urgent", "ask"),)
    # Fewer patient requests are as well served with the urgent ones.
    few = plan_with_queues(replace(problem, pipelines=(problem.pipelines[0], single("patient", 100.0, 2000.0))), TABLE)
    assert (few.cuts, [t.share for t in few.tried]) == ((), [pytest.approx(0.4)])
    assert few.one.plan.total_share == pytest.approx(0.4)


def test_patient_clients_keep_queue_0_and_a_models_own_objective_bounds_both() -> None:
    clients = direct_load(ServedModel("m", 600.0, 2000.0))
    answer = plan_with_queues(JointProblem((single("urgent", 5.0, 81.0), clients)), TABLE, most_steps=4000)
    assert answer.cuts == (QueueCut("m", frozenset({("urgent", "ask")})),)
    # Within 150 ms of the model's own, batches of 32 (102 + 51 ms for two in turn) are too late.
    strict = direct_load(ServedModel("m", 1e-3, 150.0))
    problem = JointProblem((single("urgent", 5.0, 81.0), single("patient", 600.0, 2000.0), strict))
    bounded = plan_with_queues(problem, TABLE, most_steps=4000)
    worst = {b.model: b.worst_ms for b in bounded.plan.budgets}
    assert max(worst.values()) <= 150.0


def test_the_independent_checker_accepts_a_plan_with_two_queues(shared_dir: Path) -> None:
    """Each queue is a model of its own to the checker, with the same measurements. It knows no feeding in turn, so it
    judges everything but the worst case, as in the benchmark."""
    folder = shared_dir / "data"
    checker = load_script(folder / "check_serving_plan.py")
    raw = json.loads((folder / "serving-problems" / "device-rtx2080ti-synthetic.json").read_text())
    device = DeviceTable.from_json(raw)
    problem = JointProblem((replace(traffic(20.0), slo_ms=100.0), archive(400.0)), 4)
    answer = plan_with_queues(problem, device, most_steps=4000)
    assert answer.cuts
    assert answer.plan.plan.total_share < answer.one.plan.total_share
    asked = answer.problem.served({})
    endless = replace(asked, models=tuple(replace(m, slo_ms=1e9) for m in asked.models))
    plan = json.loads(json.dumps(answer.plan.plan.to_json()))
    faults, _ = checker.check(answer.names.table(device).to_json(), endless.to_json(), plan)
    assert faults == []


# -- plans that name queues


def test_plans_and_problems_keep_their_queues_in_files() -> None:
    problem = ServingProblem((ServedModel("m", 5.0, 81.0), ServedModel("m", 600.0, 2000.0, 0, 1)))
    assert ServingProblem.from_json(json.loads(json.dumps(problem.to_json()))) == problem
    assert "queue" not in problem.to_json()["models"][0]
    plan = plan_queues_apart(MOSAIC, problem, TABLE)
    assert ServingPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    assert {part.queue for g in plan.gpulets for part in g.models} == {0, 1}
    assert verdict(problem, TABLE, plan, slack=0.0).faults == ()
    only = replace(plan, gpulets=tuple(g for g in plan.gpulets if g.models[0].queue == 0))
    assert any(f.startswith("m, queue 1: 0.0 of 600") for f in verdict(problem, TABLE, only).faults)
    one = ServingProblem(problem.models[:1])
    assert plan_queues_apart(MOSAIC, one, TABLE) == MOSAIC(one, TABLE)
    for bad in ((problem.models[1],) * 2, (problem.models[0],) * 2):
        with pytest.raises(InvalidValue, match="each item once"):
            ServingProblem(bad)
    with pytest.raises(InvalidValue, match="queue"):
        ServedModel("m", 1.0, 1.0, 0, 2)


def test_a_gpulet_with_both_queues_of_a_model_is_not_followed() -> None:
    mixed = ServingPlan(True, (Gpulet(0, 0.2, 90.0, (ModelBatch("m", 1), ModelBatch("m, queue 1", 1))),))
    names = queue_names([QueueId("m", 1)], TABLE.latency_ms)
    assert names.mixed(mixed)
    problem = ServingProblem((ServedModel("m", 5.0, 81.0), ServedModel("m", 600.0, 2000.0, 0, 1)))
    refused = plan_queues_apart(lambda problem, table: mixed, problem, TABLE)
    assert not refused.schedulable
    taken = queue_names([QueueId("m", 1)], ["m", "m, queue 1"])
    assert list(taken.queues) == ["m, queue 1'"]


# -- the plan that is followed

FAST, SLOW = application("fast", 81.0, 5.0), application("slow", 2000.0, 600.0)


def followed(applications: Sequence[Application], room: float = 0.9) -> tuple[FittedPipelines, FittedPipelines]:
    """As the reorganiser asks for it; and the even split's plan."""
    own = [ServedModel("m", sum(a.rate for a in applications), 2000.0)]
    models = with_applications([replace(own[0], rate=0.0)], [(a, a.rate) for a in applications])
    demands = [PipelineDemand(a, a.rate) for a in applications]
    capacity = Capacity(room, room)
    return tuple(  # type: ignore[return-value]
        fit_all(models, own, demands, TABLE, capacity, MOSAIC) for fit_all in (fit_pipelines, fit_evenly)
    )


def test_the_followed_plan_says_which_stage_asks_which_queue_and_why() -> None:
    found, even = followed([FAST, SLOW])
    assert even.fitted.capped, "within 81 ms without turns there is hardly any batch"
    assert (found.fitted.capped, found.fitted.refused) == ({}, {})
    assert found.queues == {"slow": {"ask": 1}}
    (two,) = found.two_queues
    assert (two.model, two.reason, two.share, two.one_share) == ("m", "less_share", 0.6, 0.8)
    assert [(q.number, q.rate, q.share, q.stages) for q in two.queues] == [
        (0, 5.0, 0.2, (("fast", "ask"),)), (1, 600.0, 0.4, (("slow", "ask"),))
    ]  # fmt: skip
    assert two.queues[0].budget_ms <= 81.0
    assert found.reasons[0] == two.why
    assert two.why.words() == "m has two queues: the plan takes 60 % of the device, with one 80 %"
    assert [m.queue_id for m in found.fitted.problem.models] == [QueueId("m"), QueueId("m", 1)]
    assert verdict(
        replace(found.fitted.problem, models=tuple(replace(m, slo_ms=1e6) for m in found.fitted.problem.models)),
        TABLE, found.fitted.plan, slack=0.0,
    ).faults == ()  # fmt: skip
    (tight,) = followed([FAST, SLOW], room=0.7)[0].two_queues
    assert (tight.reason, tight.one_share) == ("fits", None)
    assert "with one more than fits" in tight.why.words()


def test_alike_objectives_are_followed_with_one_queue() -> None:
    found, _ = followed([FAST, application("slow", 81.0, 100.0)])
    assert (found.queues, found.two_queues) == ({}, ())


# -- followed by the reorganiser


def queues_of(layout: Layout | None) -> tuple[list[int], dict[str, int]]:
    """The queues that have gpu-lets, and that of each application's stage."""
    assert layout is not None
    routed = sorted(part.queue for route in layout.routes for part in route.gpulet.models)
    return routed, {a.name: a.queues.get("ask", 0) for a in layout.applications}


def test_a_stage_keeps_its_queue_until_the_other_has_gpulets_and_the_cause_says_why() -> None:
    rules = ReorganiserSettings(RateSettings(headroom=1.0, risk=0.5))
    reorganiser = Reorganiser(
        MOSAIC, replace(rules, warm_share=0.05), Capacity(1.0, 1.0), TABLE, ShareKindLimits(min_share=0.05),
        fit_pipelines,
    )  # fmt: skip
    world = SimulatedServing(reorganiser)

    def serve(slow: float) -> list[r.Instruction]:
        wanted = Demand(version("m", slo_ms=2000.0), 5.0 + slow, slo_ms=81.0)
        out = world.tell(r.ModelsChanged, (wanted,), (FAST, replace(SLOW, rate=slow)))
        world.settle()
        return out

    serve(100.0)
    assert queues_of(world.layout) == ([0, 0], {"fast": 0, "slow": 0})
    before = len(world.layouts)
    said = serve(600.0)
    (record,) = [order for order in said if isinstance(order, r.RecordServingPlan)]
    assert "; m has two queues: the plan takes 60 % of the device, with one 80 %" in in_words(record.cause)
    assert [two.model for two in record.two_queues] == ["m"]
    assert queues_of(world.layout) == ([0, 1, 1], {"fast": 0, "slow": 1})
    said = serve(100.0)
    (record,) = [order for order in said if isinstance(order, r.RecordServingPlan)]
    assert ServingReason("one_queue", "m") in record.cause
    assert record.two_queues == ()
    assert queues_of(world.layout) == ([0, 0], {"fast": 0, "slow": 0})
    for layout in world.layouts[before:]:
        routed, asked = queues_of(layout)
        assert set(asked.values()) <= set(routed), "a stage asks a queue that no gpu-let takes from"
        assert set(routed) <= set(asked.values()), "gpu-lets of a queue without requests"

"""Applications' rates and objectives, passed on to their models."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.applications import Application, ApplicationOutput, CropBoxes, Feed, Stage, ValueSource
from edge.core.errors import InvalidValue
from edge.core.oip import TensorSpec
from edge.core.serving import DeviceTable, ServedModel, ServingProblem
from scheduler.gpulets.applications import even_budgets, expand, for_groups, groups, merge, with_applications
from scheduler.gpulets.policies import serving_policy


def application(slo_ms: float, stages: list[tuple[str, str, list[str], float]], name: str = "app") -> Application:
    """`stages`: name, model, names of the stages before, rows per request."""
    return Application(
        name,
        slo_ms,
        (TensorSpec("x", "FP32", (-1, 4)),),
        (ApplicationOutput(TensorSpec("y", "FP32", (-1, 4)), ValueSource(stages[-1][0], "y")),),
        tuple(
            Stage(
                s,
                model,
                {f"i{n}": Feed(ValueSource(b, "y")) for n, b in enumerate(before)}
                or {"i": Feed(ValueSource(None, "x"))},
                None,
                per,
            )
            for s, model, before, per in stages
        ),
    )


GAME = application(95, [*((f"digit{n}", "lenet", [], 1.0) for n in range(6)), ("scene", "resnet50", [], 1.0)], "game")
TRAFFIC = application(
    136,
    [("find", "ssd", [], 1.0), ("vehicle", "googlenet", ["find"], 1.0), ("person", "vgg16", ["find"], 1.0)],
    "traffic",
)


def test_game_asks_its_parallel_models_with_the_whole_objective() -> None:
    assert expand(GAME, 100) == (ServedModel("lenet", 600, 95), ServedModel("resnet50", 100, 95))


def test_traffic_asks_each_phase_with_half_of_the_objective() -> None:
    assert expand(TRAFFIC, 50) == (
        ServedModel("ssd", 50, 68),
        ServedModel("googlenet", 50, 68),
        ServedModel("vgg16", 50, 68),
    )


def test_no_sum_of_legal_demands_is_refused() -> None:
    """Each rate is legal alone; together, or times what a stage asks, they are more than anything serves."""
    many = application(100, [("a", "m", [], 1e6), ("b", "m", ["a"], 1e6)])
    (found,) = with_applications([ServedModel("m", 1e9, 50.0)], [(many, 1e9), (replace(many, name="two"), 1e9)])
    assert (found.rate, found.slo_ms) == (1e9, 50.0)
    assert for_groups(ServedModel("m", 5.0, 1e-6), 1000) == ServedModel("m", 1e9, 5e-7)


def test_a_short_way_beside_a_long_one_gets_more_time() -> None:
    diamond = application(
        120,
        [("a", "a", [], 1.0), ("b", "b", ["a"], 2.5), ("c", "c", ["b"], 1.0), ("s", "s", [], 1.0),
         ("d", "d", ["c", "s"], 1.0)],
    )  # fmt: skip
    budgets = {m.name: (m.rate, m.slo_ms) for m in expand(diamond, 10)}
    assert budgets == {"a": (10, 30), "b": (25, 30), "c": (10, 30), "d": (10, 30), "s": (10, 60)}


def test_direct_requests_and_applications_share_a_model() -> None:
    together = with_applications([ServedModel("lenet", 5, 20, 3), ServedModel("bert", 1, 200)], [(GAME, 10)])
    assert together == (ServedModel("lenet", 65, 20, 3), ServedModel("bert", 1, 200), ServedModel("resnet50", 10, 95))


def test_a_model_that_is_not_asked_directly_does_not_make_the_application_strict() -> None:
    assert with_applications([ServedModel("lenet", 0, 5)], [(GAME, 10)])[0] == ServedModel("lenet", 60, 95)
    assert with_applications([ServedModel("lenet", 7, 5)], [(GAME, 0)])[0] == ServedModel("lenet", 7, 5)


@pytest.mark.parametrize("rate", [-1.0, float("nan"), float("inf")])
def test_a_bad_rate_is_refused(rate: float) -> None:
    with pytest.raises(InvalidValue, match=r"game\.rate"):
        expand(GAME, rate)


@st.composite
def graphs(draw: st.DrawFn) -> Application:
    count = draw(st.integers(1, 8))
    stages = []
    for n in range(count):
        before = draw(st.lists(st.sampled_from([f"s{k}" for k in range(n)]), unique=True)) if n else []
        stages.append((f"s{n}", draw(st.sampled_from("abc")), before, draw(st.floats(0.1, 5))))
    return application(draw(st.floats(1, 1000)), stages)


def ways(app: Application, stage: str) -> list[list[str]]:
    """Every way that begins at `stage`."""
    readers = [r.name for r in app.stages if stage in r.after]
    return [[stage, *rest] for r in readers for rest in ways(app, r)] or [[stage]]


@given(graphs())
def test_no_way_through_the_graph_takes_longer_than_the_objective(app: Application) -> None:
    budgets = even_budgets(app)
    for stage in app.stages:
        if not stage.after:
            for way in ways(app, stage.name):
                assert sum(budgets[s] for s in way) <= app.slo_ms * (1 + 1e-9)
    longest = max(app.depths.values())
    assert min(budgets.values()) == pytest.approx(app.slo_ms / longest)


@given(graphs(), st.just(0.0) | st.floats(1e-6, 1000))
def test_rates_add_up_and_scale(app: Application, rate: float) -> None:
    asked = expand(app, rate)
    assert sum(m.rate for m in asked) == pytest.approx(rate * sum(s.per_request for s in app.stages))
    assert {m.name for m in asked} == set(app.models)
    for one, two in zip(asked, expand(app, 2 * rate), strict=True):
        assert two.rate == pytest.approx(2 * one.rate)
        if rate:
            assert two.slo_ms == one.slo_ms


demand = st.builds(ServedModel, st.sampled_from("abc"), st.floats(0, 100), st.floats(1, 100), st.integers(-2, 2))


@given(st.lists(demand), st.randoms())
def test_the_order_of_demands_does_not_matter(demands: list[ServedModel], random: object) -> None:
    shuffled = list(demands)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    one, two = ({m.name: m for m in merge(given)} for given in (demands, shuffled))
    assert one.keys() == two.keys()
    for name, merged in one.items():
        assert merged.rate == pytest.approx(two[name].rate)
        assert (merged.slo_ms, merged.priority) == (two[name].slo_ms, two[name].priority)


def test_groups_are_what_begins_together() -> None:
    assert groups(GAME) == {"lenet": 6, "resnet50": 1}
    assert groups(TRAFFIC) == {"ssd": 1, "googlenet": 1, "vgg16": 1}
    chain = application(90, [("a", "m", [], 1.0), ("b", "m", ["a"], 1.0), ("c", "m", ["a"], 1.0)])
    assert groups(chain) == {"m": 2}
    cut = Feed(ValueSource(None, "x"), (CropBoxes(ValueSource("find", "y"), 8, 8, most=5),))
    cutting = replace(TRAFFIC, stages=(*TRAFFIC.stages[:1], Stage("vehicle", "v", {"i": cut}), *TRAFFIC.stages[2:]))
    assert groups(cutting) == {"ssd": 1, "v": 5, "vgg16": 1}


def test_at_high_rates_groups_cost_little_at_low_ones_half_of_the_time() -> None:
    assert for_groups(ServedModel("lenet", 6000, 95), 6) == ServedModel("lenet", 6000, 95 - 5 / 6)
    assert for_groups(ServedModel("lenet", 6, 95), 6) == ServedModel("lenet", 5 * 2000 / 95, 47.5)
    assert for_groups(ServedModel("lenet", 6, 95), 1) == ServedModel("lenet", 6, 95)
    assert for_groups(ServedModel("lenet", 0, 95), 6) == ServedModel("lenet", 0, 95)
    with pytest.raises(InvalidValue, match=r"lenet\.group"):
        for_groups(ServedModel("lenet", 6, 95), 0)


@given(
    st.floats(0.1, 5000),
    st.floats(1, 1000),
    st.integers(2, 50),
    st.integers(1, 32),
    st.floats(0.01, 1),
    st.floats(0.01, 0.99),
)
def test_every_plan_for_the_stricter_demand_answers_whole_groups_in_time(
    rate: float, slo_ms: float, group: int, batch: int, slack: float, part: float
) -> None:
    asked = for_groups(ServedModel("m", rate, slo_ms), group)
    assert asked.rate >= rate
    assert slo_ms / 2 * (1 - 1e-9) <= asked.slo_ms < slo_ms
    # Any gpu-let that holds `asked`: duty cycle and latency of a batch, within its rate and objective.
    duty_ms = min(batch * 1000 / asked.rate, asked.slo_ms * part) * slack
    latency_ms = asked.slo_ms - duty_ms
    # The group comes just after a batch has begun; each following batch takes `batch` of it.
    cycles = -(-group // batch)
    assert cycles * duty_ms + latency_ms <= slo_ms * (1 + 1e-9)


@pytest.mark.parametrize("policy", ["elastic", "mosaic"])
def test_a_planner_asked_for_groups_answers_all_six_digits_in_time(policy: str) -> None:
    """At a low rate a plan for single requests runs them one by one, a duty cycle apart."""
    shares = (5, 10, 20, 40, 60, 80, 100)
    alone_ms = {p: tuple((1 + n) * 100 / p for n in range(1, 9)) for p in shares}
    larger_ms = {p: tuple(9 * t for t in row) for p, row in alone_ms.items()}
    table = DeviceTable("toy", {"lenet": alone_ms, "resnet50": larger_ms}, {})

    def last_digit_ms(demands: tuple[ServedModel, ...]) -> float:
        plan = serving_policy(policy).plan(ServingProblem(demands), table)
        assert plan.schedulable
        longest = 0.0
        for gpulet in plan.gpulets:
            for part in gpulet.models:
                if part.model == "lenet":
                    cycles = -(-6 // part.batch)
                    batch_ms = table.solo_ms("lenet", gpulet.percent, part.batch)
                    longest = max(longest, cycles * gpulet.duty_cycle_ms + batch_ms)
        return longest

    single = expand(replace(GAME, slo_ms=400.0), 0.5)
    grouped = tuple(for_groups(m, groups(GAME)[m.name]) for m in single)
    assert last_digit_ms(grouped) <= 400  # planned as single requests: 700 to 1,200 ms

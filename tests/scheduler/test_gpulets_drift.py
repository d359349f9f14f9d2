"""Departures of live batch times from the table: when they count, what is ordered, what the table becomes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.errors import InvalidValue
from edge.core.front_messages import BatchTraffic, ExecutorTraffic, Layout, Route, TrafficReport
from edge.core.serving import DeviceTable, Gpulet, ModelBatch
from scheduler.gpulets.drift import (
    DriftRule,
    DriftState,
    ForgetScale,
    MeasuredBatches,
    Reprofile,
    ScaleTable,
    batch_times,
    observations,
    scaled,
    step,
    unscaled,
)

RULE = DriftRule()


def measured(ratio: float, batches: int = 20, model: str = "a", share: int = 30) -> MeasuredBatches:
    return MeasuredBatches(model, share, batches, 10.0 * ratio, 10.0)


def run(ratios, rule=RULE, batches=20, seconds=1.0, state=None, start=0.0):
    """Orders with the second they came at, and the last state."""
    state, orders = state or DriftState(), []
    for n, ratio in enumerate(ratios):
        state, new = step(rule, state, start + n * seconds, [measured(ratio, batches)])
        orders += [(start + n * seconds, o) for o in new]
    return orders, state


def table() -> DeviceTable:
    rows = {p: tuple(1000.0 / p * b for b in (1, 2, 3)) for p in (10, 30, 60)}
    half = {"a": {str(p): [v / 2 for v in row] for p, row in rows.items()}}
    return DeviceTable("t", {"a": rows, "b": rows}, {}, details={"typical_ms": half, "run_ms": half})


def test_a_slower_model_is_scaled_and_measured_again_after_the_hold():
    orders, _ = run([1.5] * 60)
    at, kinds = orders[0][0], [type(o) for _, o in orders[:2]]
    assert at == RULE.hold_s
    assert kinds == [ScaleTable, Reprofile]
    assert orders[0][1].factor == pytest.approx(1.5)
    assert "1.50 times" in orders[0][1].reason


def test_a_faster_model_is_only_measured_again_and_later():
    orders, _ = run([0.6] * 400)
    assert [(at, type(o)) for at, o in orders] == [(RULE.hold_faster_s, Reprofile)]


def test_what_stays_within_the_tolerance_orders_nothing():
    orders, state = run([1.0 + 0.18 * (-1) ** n for n in range(200)])
    assert orders == []
    assert abs(state.watched["a", 30].log_ratio) < 0.2


def test_one_slow_report_does_nothing():
    orders, _ = run([1.0] * 30 + [3.0] + [1.0] * 60)
    assert orders == []


def test_an_episode_goes_on_until_it_is_clear():
    # 1.15 is inside the tolerance but not clear of it: what began at 1.5 counts on.
    orders, _ = run([1.5] * 5 + [1.15] * 60, DriftRule(half_life_s=0.1))
    assert orders
    assert orders[0][0] == RULE.hold_s
    orders, _ = run([1.5] * 5 + [1.05] * 60, DriftRule(half_life_s=0.1))
    assert orders == []


def test_reprofiling_is_asked_for_once_in_the_dwell():
    orders, _ = run([1.5] * 200)
    assert len([o for _, o in orders if isinstance(o, ScaleTable)]) > 2
    assert len([o for _, o in orders if isinstance(o, Reprofile)]) == 1


def test_few_batches_must_add_up_first():
    # One batch in ten seconds: the hold is long over before thirty have run.
    orders, _ = run([2.0] * 40, seconds=10.0, batches=1)
    assert orders[0][0] == (RULE.least_batches - 1) * 10.0


def test_silence_forgets():
    orders, state = run([1.5] * 15)
    assert orders == []
    later = 15 + RULE.forget_s + 1
    orders, _ = run([1.5] * 15, state=state, start=later)
    assert orders == []


def test_a_model_without_batches_is_tried_again_where_its_slow_times_leave_it_no_room():
    orders, state = run([3.0] * 30)
    assert any(isinstance(o, ScaleTable) for _, o in orders)
    last = state.scaled_s["a"]
    for refused, after, found in ((["b"], 700, []), (["a"], 599, []), (["a"], 600, ["a"])):
        later, orders = step(RULE, state, last + after, (), refused)
        assert [o.model for o in orders if isinstance(o, ForgetScale)] == found
    assert later.scaled_s == {}
    seen, _ = step(RULE, state, last + 500, [measured(3.0)], ["a"])
    assert step(RULE, seen, last + 600, (), ["a"])[1] == (), "it had batches since"


def test_the_latencies_of_a_model_are_as_measured_again_and_the_others_stay_scaled():
    plain = replace(table(), latency_ms={**table().latency_ms, "z": {10: (3.0,), 30: (1.0,)}})
    slow = scaled(plain, [ScaleTable("a", 30, 2.0, ""), ScaleTable("z", 30, 3.0, "")])
    again = unscaled(slow, plain, {"a", "unknown"})
    assert again.latency_ms == {**plain.latency_ms, "z": slow.latency_ms["z"]}
    assert again.details["scaled"] == {"z": 3.0}


def test_shares_at_which_the_table_holds_are_named():
    state = DriftState()
    for n in range(60):
        state, orders = step(
            RULE, state, float(n), [measured(1.5, share=10), measured(1.0, share=60), measured(1.0, model="b")]
        )
        if orders:
            break
    assert orders[0].holds == (60,)
    after = scaled(table(), orders)
    assert after.latency_ms["b"] == table().latency_ms["b"]
    assert after.latency_ms["a"][60] == table().latency_ms["a"][60]
    assert after.latency_ms["a"][10][0] == pytest.approx(150.0)
    assert after.latency_ms["a"][30][0] == pytest.approx(50.0)
    assert after.details["typical_ms"]["a"]["10"][0] == pytest.approx(75.0)


def test_after_the_scaling_the_same_times_are_as_expected():
    known = table()
    state, ordered = DriftState(), 0
    for n in range(300):
        expected = known.busy_ms("a", 30, 2, typical=True)
        state, orders = step(RULE, state, float(n), [MeasuredBatches("a", 30, 5, 1.7 * 2 * 1000 / 30 / 2, expected)])
        known = scaled(known, orders)
        ordered += len([o for o in orders if isinstance(o, ScaleTable)])
    assert ordered == 1
    assert known.details["scaled"] == {"a": pytest.approx(1.7, rel=1e-3)}


@given(
    st.lists(st.tuples(st.floats(0.01, 100.0), st.integers(0, 50)), max_size=80),
    st.floats(0.1, 30.0),
)
def test_orders_need_the_hold_and_the_batches_whatever_comes(ratios, seconds):
    state, sum_since, last = DriftState(), 0, 0.0
    for n, (ratio, batches) in enumerate(ratios):
        at = n * seconds
        sum_since += batches
        state, orders = step(RULE, state, at, [measured(ratio, batches)])
        for order in orders:
            assert at - last >= RULE.hold_s or n == 0
            assert sum_since >= RULE.least_batches
            if isinstance(order, ScaleTable):
                assert 1.0 < order.factor <= RULE.most_scale
        if orders:
            last, sum_since = at, 0


@given(
    st.lists(
        st.tuples(st.sampled_from([10, 30, 60]), st.floats(1.01, 4.0), st.sets(st.sampled_from([10, 30, 60]))),
        min_size=1,
        max_size=4,
    )
)
def test_a_scaled_table_never_falls_and_never_contradicts_itself(orders):
    before = table()
    after = scaled(before, [ScaleTable("a", p, f, "", tuple(sorted(h))) for p, f, h in orders])
    rows = after.latency_ms["a"]
    for n in range(3):
        assert rows[10][n] >= rows[30][n] >= rows[60][n]
    for share, row in rows.items():
        assert all(new >= old - 1e-9 for new, old in zip(row, before.latency_ms["a"][share], strict=True))
        assert list(row) == sorted(row)
    assert DeviceTable.from_json(after.to_json()).latency_ms == after.latency_ms


def test_the_front_s_counts_become_observations():
    # 10 batches of 1.5 rows on average: between the typical times of batches of 1 and 2.
    seen = batch_times(table(), 30, BatchTraffic("a", 10, 15, 0.5), 1.2)
    assert seen is not None
    assert (seen.model, seen.share, seen.batches, seen.observed_ms) == ("a", 30, 10, 50.0)
    assert seen.expected_ms == pytest.approx(1.2 * 1000 / 30 / 2 * 1.5)
    assert batch_times(table(), 30, BatchTraffic("a", 0, 0, 0.0)) is None
    assert batch_times(table(), 35, BatchTraffic("a", 1, 1, 0.1)) is None
    assert batch_times(table(), 30, BatchTraffic("z", 1, 1, 0.1)) is None


def test_orders_for_what_the_table_does_not_hold_change_nothing():
    known = table()
    assert (
        scaled(known, [ScaleTable("z", 30, 2.0, ""), ScaleTable("a", 35, 2.0, ""), Reprofile("a", 30, 2.0, "")])
        is known
    )


@pytest.mark.parametrize(
    "change", [{"tolerance": 0.0}, {"clear": 0.5}, {"hold_s": -1.0}, {"half_life_s": 0.0}, {"most_scale": 1.0}]
)
def test_a_rule_that_makes_no_sense_is_refused(change):
    with pytest.raises(InvalidValue, match=next(iter(change))):
        replace(RULE, **change)


def seen(executor: str, *models: str) -> ExecutorTraffic:
    return ExecutorTraffic(executor, 10, 10, 1.0, True, tuple(BatchTraffic(m, 10, 10, 1.0) for m in models))


def route(executor: str, share: float, batch_ms: dict[str, float]) -> Route:
    batches = tuple(ModelBatch(model, 1) for model in batch_ms)
    return Route(executor, Gpulet(0, share, 500.0, batches), dict.fromkeys(batch_ms, "1"), batch_ms)


def test_a_report_tells_of_models_on_executors_that_have_a_route():
    layout = Layout(1, (route("e-0", 0.3, {"a": 1000.0 / 30}), route("e-1", 0.6, {"b": 2 * 1000.0 / 60})), ())
    report = TrafficReport(1.0, 1.0, 1, (), (seen("e-0", "a", "b"), seen("e-1", "b"), seen("drained", "a")))
    alone, slowed = observations(table(), layout, report)
    assert (alone.model, alone.share, alone.batches, alone.observed_ms) == ("a", 30, 10, 100.0)
    # The typical time of "a" is half of its latency; of "b" none is known, and interference was planned to double it.
    assert alone.expected_ms == pytest.approx(1000.0 / 30 / 2)
    assert (slowed.model, slowed.share) == ("b", 60)
    assert slowed.expected_ms == pytest.approx(2 * 1000.0 / 60)


def test_what_was_planned_with_another_table_tells_nothing():
    layout = Layout(1, (route("e-0", 0.37, {"a": 30.0}), route("e-1", 0.3, {"unknown": 30.0})), ())
    report = TrafficReport(1.0, 1.0, 1, (), (seen("e-0", "a"), seen("e-1", "unknown")))
    assert observations(table(), layout, report) == ()

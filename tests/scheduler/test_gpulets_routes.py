"""The layout that the front gets: numbered, sent once, with the limits that are in force."""

from __future__ import annotations

from dataclasses import replace

from reorganiser_world import demand, table, version

from edge.core.serving import Gpulet, ModelBatch, QueueId
from scheduler.gpulets.demand import Demands, ModelView
from scheduler.gpulets.partitions import ExecutorView
from scheduler.gpulets.routes import ServingRoutes


def executor(name: str, model: str, percent: int = 20, batch: int = 2) -> ExecutorView:
    held = Gpulet(0, percent / 100, 100.0, (ModelBatch(model, batch),))
    return ExecutorView(name, {model: version(model)}, held.share, "connected", held, held)


def models(*names: str) -> list[ModelView]:
    demands = Demands()
    demands.change(demand(n) for n in names)
    return list(demands.models.values())


def test_a_layout_has_the_planned_times_and_the_next_number_and_is_reported_once() -> None:
    routes = ServingRoutes()
    first = routes.update([executor("e2", "b"), executor("e1", "a")], models("b", "a", "c"), {"c": "no"}, (), table())
    assert first is not None
    assert first.number == 1
    assert [(r.executor, r.versions, r.batch_ms) for r in first.routes] == [
        ("e1", {"a": "1"}, {"a": 20.0}),  # 2 rows of 2 ms on a fifth of the device
        ("e2", {"b": "1"}, {"b": 40.0}),
    ]
    assert [m.model for m in first.models] == ["a", "b"]
    again = [executor("e1", "a"), executor("e2", "b")]
    assert routes.update(again, models("a", "b", "c"), {"c": "no"}, (), table()) is None
    second = routes.update(again[:1], models("a", "b", "c"), {"c": "no"}, (), table())
    assert second is not None
    assert second.number == 2


def test_latencies_that_are_not_known_plan_no_times() -> None:
    for table_, batch in ((None, 2), (table(), 5)):
        made = ServingRoutes().update([executor("e", "a", batch=batch)], models("a"), {}, (), table_)
        assert made is not None
        assert made.routes[0].batch_ms == {}


def test_the_version_that_serves_has_the_limits_that_are_asked_now() -> None:
    (model,) = models("a")
    model.serving = version("a")
    model.demand = replace(model.demand, version=version("a", 2, slo_ms=90.0, priority=3))
    made = ServingRoutes().update([], [model], {}, (), None)
    assert made is not None
    assert [(m.version, m.slo_ms, m.priority) for m in made.models] == [("1", 90.0, 3)]


def test_alike_gpulets_are_a_group_where_the_plan_counts_on_turns() -> None:
    # Two rows of 2 ms on a fifth: 20 ms every 100. On its own each answers within 120, in turn both within 70.
    three = [executor("e1", "a"), executor("e2", "a"), executor("e3", "a", batch=1)]
    for slo_ms, groups in ((119.0, True), (120.0, False)):
        made = ServingRoutes().update(three, models("a"), {}, (), table(), {QueueId("a"): slo_ms})
        assert made is not None
        one, two, other = made.routes
        assert (one.group, bool(one.group), other.group) == (two.group, groups, "")
    unknown = ServingRoutes().update(three, models("a"), {}, (), None, {QueueId("a"): 10.0})
    assert unknown is not None
    assert {r.group for r in unknown.routes} == {""}

"""The routing table: which version answers, what a new layout keeps, what is forgotten and when."""

from __future__ import annotations

from dataclasses import replace

import pytest
from front_kit import pending, route, version

from edge.core.errors import NotFound, Unavailable
from edge.core.front_messages import Layout, Route, ServedVersion
from edge.core.oip import TensorSpec
from edge.core.serving_reasons import Refusal
from edge.serving.routing import RoutingTable

ONE, TWO = version(number="1"), version(number="2")


def layout(number: int, *routes: Route, models: tuple[ServedVersion, ...], **more: dict[str, str]) -> Layout:
    return Layout(number, routes, models, **more)  # type: ignore[arg-type]


def table(*routes: Route, models: tuple[ServedVersion, ...]) -> RoutingTable:
    made = RoutingTable()
    assert made.apply(layout(1, *routes, models=models)) == []
    return made


def test_the_highest_version_is_current_and_others_are_found_by_name() -> None:
    t = table(route("e", (TWO, 4)), models=(TWO, ONE))
    assert t.find("m", None).version is TWO
    assert t.find("m", "1").version is ONE
    assert [s.version.version for s in t.versions("m")] == ["1", "2"]
    with pytest.raises(NotFound, match="version 3"):
        t.find("m", "3")
    with pytest.raises(NotFound, match="no model"):
        t.find("other", None)


def test_a_refused_model_says_why() -> None:
    t = RoutingTable()
    t.apply(layout(1, models=(), refused={"m": Refusal("failing", "m", said="no share is left")}))
    with pytest.raises(Unavailable, match="no share is left"):
        t.find("m", None)
    assert t.ready, "what was refused is not waited for"


def test_a_lane_keeps_what_it_has_seen_unless_batch_or_share_change() -> None:
    t = table(route("e", (ONE, 4), batch_ms=40.0), models=(ONE,))
    (lane,) = t.seats["e"].lanes
    t.apply(layout(2, route("e", (ONE, 4), batch_ms=80.0), models=(ONE,)))
    assert t.seats["e"].lanes == [lane]
    assert lane.times.planned_s == 0.08
    for n, changed in enumerate((route("e", (ONE, 2)), route("e", (ONE, 2), share=0.7))):
        before = t.seats["e"].lanes
        t.apply(layout(3 + n, changed, models=(ONE,)))
        assert t.seats["e"].lanes != before


def test_the_fastest_lane_of_a_version_comes_first() -> None:
    t = table(route("slow", (ONE, 4), batch_ms=80.0), route("fast", (ONE, 4), batch_ms=40.0), models=(ONE,))
    assert [lane.seat.name for lane in t.find("m", None).lanes] == ["fast", "slow"]


def test_another_model_under_the_same_name_replaces_it_and_new_content_does_not() -> None:
    t = table(models=(ONE,))
    before = t.find("m", None)
    content = version(number="1", digest="b")
    assert t.apply(layout(2, models=(content,))) == []
    assert t.find("m", None) is before
    assert before.version is content
    other = version(number="1", outputs=[TensorSpec("y", "FP32", (-1, 9))])
    assert t.apply(layout(3, models=(other,))) == [before]
    assert t.find("m", None) is not before


async def test_a_version_that_leaves_is_kept_until_nothing_of_it_is_open() -> None:
    t = table(route("e", (ONE, 4)), models=(ONE,))
    old = t.find("m", None)
    request = pending(old)
    old.queue.admit(request)
    t.apply(layout(2, models=(TWO,)))
    assert old.queue.leaving
    assert t.settle() == ([], [])
    assert [lane.served for lane in t.seats["e"].lanes] == [old], "it answers what waits"
    old.queue.end(request, "answered")
    assert t.settle() == ([old], ["e"])
    assert list(t.served) == [("m/2", 0)]
    assert t.seats == {}, "no link, no route, nothing running"
    assert t.settle() == ([], [])


def test_an_executor_that_is_routed_to_again_is_not_drained() -> None:
    t = table(route("e", (ONE, 4)), models=(ONE,))
    t.apply(layout(2, models=(ONE,)))
    t.apply(layout(3, route("e", (ONE, 4)), models=(ONE,)))
    assert t.settle() == ([], [])


async def test_requests_of_a_version_that_leaves_stay_while_no_executor_of_the_next_is_live() -> None:
    t = table(route("e", (ONE, 4)), models=(ONE,))
    old = t.find("m", None)
    request = pending(old)
    old.queue.admit(request)
    t.apply(layout(2, route("e", (TWO, 4)), models=(TWO,)))
    assert t.home(old, request) is old, "no executor is connected"


async def test_traffic_is_of_the_period_and_of_models_that_are_served() -> None:
    t = table(route("e", (ONE, 4)), models=(ONE,))
    of = t.find("m", None)
    request = pending(of)
    of.queue.admit(request)
    assert t.open == 1
    report = t.traffic(5.0, 1.0)
    assert [(m.model, m.arrived, m.queued, m.running) for m in report.models] == [("m", 1, 1, 0)]
    assert (report.layout, [e.executor for e in report.executors]) == (1, ["e"])
    of.queue.end(request, "failed")
    assert t.failed == 1
    t.apply(layout(2, models=()))
    t.settle()
    assert [(m.arrived, m.failed) for m in t.traffic(6.0, 1.0).models] == [(0, 1)]
    assert t.traffic(7.0, 1.0).models == ()


def test_executors_of_a_group_are_together_and_keep_their_beat_under_a_new_layout() -> None:
    alike = [replace(route(e, (ONE, 4)), group="g") for e in ("a", "b", "c")]
    t = table(*alike, route("d", (ONE, 4)), models=(ONE,))
    group = t.seats["a"].group
    assert group is not None
    assert [s.name for s in group.seats] == ["a", "b", "c"]
    assert t.seats["d"].group is None
    t.seats["b"].begins(7.0)
    t.seats["a"].begins(8.0)
    assert [s.name for s in group.in_order()] == ["c", "b", "a"]
    assert [s.name for s in t.find("m", None).in_order()] == ["c", "b", "a", "d"]
    t.apply(layout(2, *alike[:2], route("c", (ONE, 4)), models=(ONE,)))
    group = t.seats["a"].group
    assert group is not None
    assert (group.begun_s, [s.name for s in group.seats], t.seats["c"].group) == (8.0, ["a", "b"], None)
    assert group.cycle_s == 0.01

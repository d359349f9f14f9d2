"""Executors and gpu-lets: who holds what, and the order in which shares move."""

from __future__ import annotations

from reorganiser_world import version

from edge.core.serving import Gpulet, ModelBatch
from scheduler.gpulets.partitions import Partitions
from scheduler.gpulets.reorganiser_events import ResizeExecutor, StartExecutor, StopExecutor, TrimExecutor
from scheduler.gpulets.reorganiser_settings import ShareKindLimits

VERSIONS = {m: version(m) for m in "abc"}


def gpulet(share: float, *models: str) -> Gpulet:
    return Gpulet(0, share, 100.0, tuple(ModelBatch(m, 1) for m in models))


def serving(*gpulets: Gpulet, live: bool = True) -> Partitions:
    """Partitions whose executors are connected and routed."""
    made = Partitions(ShareKindLimits(live=live, oversubscribe=False))
    made.match(gpulets, VERSIONS)
    made.grow(1.0)
    for name in made.executors:
        made.connected(name)
    made.switch()
    return made


def test_a_gpulet_goes_to_the_executor_that_is_most_like_it() -> None:
    p = serving(gpulet(0.2, "a"), gpulet(0.4, "a", "b"))
    p.match([gpulet(0.5, "a", "b"), gpulet(0.1, "a"), gpulet(0.1, "c")], VERSIONS)
    shares = {n: None if e.target is None else e.target.share for n, e in p.executors.items()}
    assert shares == {"executor-1": 0.1, "executor-2": 0.5, "executor-3": 0.1}
    assert p.executors["executor-3"].state == "planned"


def test_another_content_needs_another_executor() -> None:
    p = serving(gpulet(0.2, "a"))
    p.match([gpulet(0.2, "a")], {"a": version("a", 2)})
    assert p.executors["executor-1"].target is None
    assert p.executors["executor-2"].versions == {"a": version("a", 2)}


def test_a_fixed_share_waits_until_it_is_free_as_a_whole() -> None:
    p = serving(gpulet(0.2, "a"), live=False)
    p.match([gpulet(0.3, "c")], VERSIONS)
    p.switch()
    assert p.grow(0.4) == [], "0.2 are free, and the one that drains will free the rest"
    assert p.grow(0.6) == [StartExecutor("executor-2", 0.3, (VERSIONS["c"],))]


def test_executors_shrink_only_when_their_routes_are_in_force() -> None:
    p = serving(gpulet(0.5, "a"))
    p.match([gpulet(0.2, "a")], VERSIONS)
    assert p.shrink() == []
    assert p.switch() == [("a", VERSIONS["a"])]
    assert p.shrink() == [ResizeExecutor("executor-1", 0.2)]
    assert p.total_share == 0.2


def test_a_group_is_switched_when_all_its_new_partitions_are_warm() -> None:
    p = serving(gpulet(0.2, "a", "b"))
    p.match([gpulet(0.2, "a"), gpulet(0.2, "b")], VERSIONS)
    p.grow(1.0)
    assert p.in_flight
    assert p.switch() == []
    p.connected("executor-2")
    assert dict(p.switch()) == {"a": VERSIONS["a"], "b": VERSIONS["b"]}
    assert [e.id for e in p.active if e.routes("b")] == ["executor-2"]


def test_an_executor_is_stopped_when_it_is_drained() -> None:
    p = serving(gpulet(0.2, "a"))
    assert not p.drained("executor-1"), "it has routes"
    p.match([], VERSIONS)
    p.switch()
    assert p.stop_idle() == [], "something may be outstanding"
    assert p.drained("executor-1")
    assert p.stop_idle() == [StopExecutor("executor-1")]
    assert p.total_share == 0.2, "until the process is gone"
    assert p.stopped("executor-1")
    assert p.total_share == 0.0


def test_on_a_full_device_the_one_with_most_to_spare_gives_the_least_share() -> None:
    p = serving(gpulet(0.6, "a"), gpulet(0.4, "b"))
    p.match([gpulet(0.6, "a"), gpulet(0.3, "b"), gpulet(0.1, "c")], VERSIONS)
    assert p.grow(1.0) == [ResizeExecutor("executor-2", 0.39), StartExecutor("executor-3", 0.01, (VERSIONS["c"],))]


def test_models_that_are_asked_no_more_leave_gpulets_and_then_executors() -> None:
    p = serving(gpulet(0.2, "a", "b"))
    assert p.trim({"a"}) == [], "it has routes for b"
    p.keep_only({"a"})
    assert p.trim({"a"}) == [TrimExecutor("executor-1", (VERSIONS["a"],))]


def test_a_lost_front_stops_what_drained_and_waits_for_the_others() -> None:
    p = serving(gpulet(0.2, "a"), gpulet(0.2, "b"))
    p.match([gpulet(0.2, "a")], VERSIONS)
    p.switch()
    assert p.front_lost() == [StopExecutor("executor-2")]
    assert p.executors["executor-1"].state == "lost"

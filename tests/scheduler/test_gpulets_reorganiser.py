"""The reorganiser: plans follow the traffic; partitions are switched without a gap and within the share there is."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import pytest
from examples_kit import tried
from hypothesis import given, settings
from hypothesis import strategies as st
from reorganiser_world import SimulatedServing, by_load, demand, one_each, table, together, version, world

from edge.core.front_messages import Route
from edge.core.serving import DeviceTable, Gpulet, ModelBatch, ServedModel, ServingPlan, ServingProblem
from edge.core.serving_reasons import Refusal, in_words
from scheduler.gpulets import reorganiser_events as r
from scheduler.gpulets.demand import Demand
from scheduler.gpulets.fitting import Capacity, fit
from scheduler.gpulets.reorganiser import RETRY_S


def share_of(w: SimulatedServing, model: str) -> float:
    return sum(p.share for p in w.processes.values() if model in p.versions and p.state != "stopping")


def routes(w: SimulatedServing) -> tuple[Route, ...]:
    return () if w.layout is None else w.layout.routes


Noted = TypeVar("Noted", r.ExecutorNote, r.RefusedNote, r.CappedNote)


def notes(w: SimulatedServing, kind: type[Noted]) -> list[Noted]:
    return [o for o in w.said if isinstance(o, kind)]


def test_models_are_started_warmed_then_routed() -> None:
    w = world()
    out = w.tell(r.ModelsChanged, (demand("a"), demand("b")))
    starts = [o for o in out if isinstance(o, r.StartExecutor)]
    assert {v.model for s in starts for v in s.versions} == {"a", "b"}
    kinds = [type(o) for o in out]
    assert kinds.index(r.ReserveShare) < kinds.index(r.StartExecutor), "others yield first"
    assert w.layout is not None
    assert not w.layout.routes, "nothing is warm yet"
    assert {m.model for m in w.layout.models} == {"a", "b"}, "but the front knows the models"
    w.settle()
    assert w.served() == {"a", "b"}
    assert not w.reorganiser.partitions.in_flight
    served = [o for o in w.said if isinstance(o, r.VersionServed)]
    assert {(o.version.model, o.version.version) for o in served} == {("a", "1"), ("b", "1")}
    route = routes(w)[0]
    assert route.batch_ms[route.gpulet.models[0].model] > 0


def test_more_and_fewer_requests_move_the_share() -> None:
    w = world()
    w.tell(r.ModelsChanged, (demand("a", 20.0),))
    w.settle()
    before, first = share_of(w, "a"), next(iter(w.processes))
    w.traffic({"a": 200.0}, 15)
    grown = share_of(w, "a")
    assert grown > 2 * before
    assert list(w.processes) == [first], "resized where it is"
    w.traffic({"a": 10.0}, 120)
    assert share_of(w, "a") < grown / 2
    assert list(w.processes) == [first]
    causes = [in_words(o.cause) for o in w.said if isinstance(o, r.RecordServingPlan)]
    assert any("more requests: a" in c for c in causes)
    assert any("fewer requests: a" in c for c in causes)


def test_a_steady_rate_changes_nothing() -> None:
    w = world()
    w.tell(r.ModelsChanged, (demand("a", 50.0), demand("b", 20.0)))
    w.settle()
    w.traffic({"a": 52.0, "b": 19.0}, 100)
    number = w.layout.number if w.layout else 0  # what was expected too much of has been given back by now
    w.traffic({"a": 52.0, "b": 19.0}, 500)
    w.traffic({"a": 48.0, "b": 20.0}, 100)
    assert w.layout is not None
    assert w.layout.number == number


def test_dwell_is_in_elapsed_time() -> None:
    w = world(grow_dwell_s=10.0)
    w.tell(r.ModelsChanged, (demand("a", 20.0),))
    w.settle()
    w.traffic({"a": 300.0}, 9)
    assert [o for o in w.said if isinstance(o, r.RecordServingPlan)][1:] == []
    w.traffic({"a": 300.0}, 1)
    assert len([o for o in w.said if isinstance(o, r.RecordServingPlan)]) == 2


def test_missed_objectives_are_planned_away_and_the_extra_is_given_back() -> None:
    w = world()
    w.tell(r.ModelsChanged, (demand("a", 60.0),))
    w.settle()
    before = share_of(w, "a")
    w.traffic({"a": 60.0}, 7, violated={"a": 5})
    assert any("objectives missed: a" in in_words(o.cause) for o in w.said if isinstance(o, r.RecordServingPlan))
    w.traffic({"a": 60.0}, 40, violated={"a": 5})
    raised = share_of(w, "a")
    assert raised > before
    w.traffic({"a": 60.0}, 900)
    assert share_of(w, "a") < raised


def test_a_new_version_serves_only_when_it_is_warm_and_the_old_one_until_then() -> None:
    w = world()
    w.tell(r.ModelsChanged, (demand("a"),))
    w.settle()
    old = next(iter(w.processes))
    w.tell(r.ModelsChanged, (demand("a", number=2),))
    assert w.layout is not None
    assert [m.version for m in w.layout.models] == ["1"], "until the new one is warm"
    assert w.routed == {old}
    new = next(n for n in w.processes if n != old)
    w.step(new)
    assert [m.version for m in w.layout.models] == ["2"]
    assert w.routed == {new}
    assert w.processes[old].state == "connected", "not stopped before it is drained"
    w.step(old)
    assert w.processes[old].state == "stopping"
    w.settle()
    assert set(w.processes) == {new}


def test_a_new_version_that_fails_leaves_the_old_one_serving() -> None:
    w = world()
    w.tell(r.ModelsChanged, (demand("a"), demand("b")))
    w.settle()
    w.tell(r.ModelsChanged, (demand("a", number=2), demand("b")))
    new = next(n for n, p in w.processes.items() if p.state == "starting")
    w.processes.pop(new)
    out = w.tell(r.ExecutorFailed, new, "weights: not what they say")
    failed = [o for o in out if isinstance(o, r.VersionFailed)]
    assert [(o.version.key, o.serving and o.serving.key) for o in failed] == [("a/2", "a/1")]
    assert "not what they say" in failed[0].reason
    w.settle()
    assert w.served() == {"a", "b"}
    assert not w.reorganiser.state.refused


def test_a_first_version_that_fails_is_refused_with_the_reason_and_tried_again_later() -> None:
    w = world()
    w.tell(r.ModelsChanged, (demand("a"), demand("b")))
    broken = next(n for n, p in w.processes.items() if "a" in p.versions)
    w.processes.pop(broken)
    w.tell(r.ExecutorFailed, broken, "no such operator")
    w.settle()
    assert w.served() == {"b"}
    assert w.layout is not None
    assert w.layout.refused["a"] == Refusal("failing", "a", said="no such operator")
    w.traffic({"a": 0.0, "b": 10.0}, RETRY_S + 2)
    w.settle()
    assert w.served() == {"a", "b"}
    assert not w.layout.refused


def test_only_the_models_at_fault_are_refused() -> None:
    w = world(together)
    w.tell(r.ModelsChanged, (demand("a"), demand("b")))
    broken = next(iter(w.processes))
    w.processes.pop(broken)
    w.tell(r.ExecutorFailed, broken, "not what they say", ("b",))
    w.settle()
    assert w.served() == {"a"}
    assert set(w.reorganiser.state.refused) == {"b"}


def test_a_lost_executor_keeps_its_place() -> None:
    w = world()
    w.tell(r.ModelsChanged, (demand("a"), demand("b")))
    w.settle()
    number = w.layout.number if w.layout else 0
    name = next(n for n, p in w.processes.items() if "a" in p.versions)
    w.processes[name].state = "lost"
    w.tell(r.ExecutorLost, name, "ended by SIGKILL")
    assert [(n.kind, n.reason) for n in notes(w, r.ExecutorNote)] == [("executor_lost", "ended by SIGKILL")]
    w.step(name)
    assert w.served() == {"a", "b"}
    assert w.layout is not None
    assert w.layout.number == number, "the same routes go on"


def test_partitions_change_their_models_without_a_gap() -> None:
    w = world(by_load)
    w.tell(r.ModelsChanged, (demand("a", 5.0), demand("b", 5.0)))
    w.settle()
    assert len(w.processes) == 1, "together while there is little to do"
    w.traffic({"a": 60.0, "b": 50.0}, 10)
    w.settle()
    assert len(w.processes) >= 2, "apart when there is much"
    w.traffic({"a": 4.0, "b": 4.0}, 200)
    w.settle()
    assert len(w.processes) == 1
    assert w.served() == {"a", "b"}


def test_a_full_device_is_no_deadlock() -> None:
    w = world(by_load, capacity=0.3)
    w.tell(r.ModelsChanged, (demand("a", 5.0, slo_ms=400), demand("b", 5.0, slo_ms=400)))
    w.settle()
    for load in (40.0, 3.0, 60.0, 2.0):
        w.traffic({"a": load, "b": load}, 60)
        w.settle()
    assert not w.reorganiser.partitions.in_flight
    assert w.served() == {"a", "b"}


def test_a_share_kind_that_cannot_resize_gets_another_process() -> None:
    w = world(live=False)
    w.tell(r.ModelsChanged, (demand("a", 20.0),))
    w.settle()
    first = next(iter(w.processes))
    w.traffic({"a": 200.0}, 12)
    w.settle()
    assert first not in w.processes
    assert w.served() == {"a"}
    assert not w.reorganiser.partitions.in_flight


def test_what_does_not_fit_yields_by_priority_and_comes_back() -> None:
    w = world(capacity=0.5)
    w.tell(r.ModelsChanged, (demand("a", 60.0, priority=1), demand("c", 100.0)))
    w.settle()
    assert "a" not in w.reorganiser.state.capped
    assert w.reorganiser.state.capped.get("c", 0.0) < 1.0 or "c" in w.reorganiser.state.refused
    assert notes(w, r.CappedNote) or notes(w, r.RefusedNote)
    w.tell(r.ServingCapacityChanged, Capacity(0.05, 0.05))
    w.settle()
    assert w.layout is not None
    assert set(w.layout.refused) == {"a", "c"}
    assert w.processes == {}
    w.tell(r.ServingCapacityChanged, Capacity(1.0, 1.0))
    w.settle()
    assert w.served() == {"a", "c"}
    assert not w.layout.refused


def test_a_capped_model_is_not_planned_over_and_over() -> None:
    w = world(capacity=0.3)
    w.tell(r.ModelsChanged, (demand("c", 200.0),))
    w.settle()
    assert w.reorganiser.state.capped["c"] < 1.0
    plans = len([o for o in w.said if isinstance(o, r.RecordServingPlan)])
    w.traffic({"c": 200.0}, 60, violated={"c": 100})
    assert len([o for o in w.said if isinstance(o, r.RecordServingPlan)]) == plans


def test_a_model_without_a_table_waits_for_it() -> None:
    w = world(known=False)
    w.tell(r.ModelsChanged, (demand("a"),))
    assert w.layout is not None
    assert w.layout.refused["a"].code == "not_measured"
    w.tell(r.TableChanged, table())
    w.settle()
    assert w.served() == {"a"}
    assert not w.layout.refused


def test_a_new_front_learns_of_the_executors_again() -> None:
    w = world()
    w.tell(r.ModelsChanged, (demand("a"),))
    w.settle()
    for process in w.processes.values():
        process.state = "lost"
    w.tell(r.FrontLost)
    assert w.served() == set()
    w.settle()
    assert w.served() == {"a"}


def test_a_partition_that_waited_for_more_models_is_known_by_those_it_was_started_with() -> None:
    w = world(by_load)
    w.tell(r.ModelsChanged, (demand("a", 20.0), demand("c", 20.0)))
    w.tell(r.ServingCapacityChanged, Capacity(0.3, 0.15, 1))  # one for both, which waits until the old ones are gone
    waiting = next(e for e in w.reorganiser.partitions.executors.values() if e.state == "planned")
    assert set(waiting.versions) == {"a", "c"}
    w.tell(r.TableChanged, table(0.5))
    w.tell(r.ServingCapacityChanged, Capacity(0.6, 0.3, 1))  # one each: the one that waited is started with "a" only
    assert set(w.processes[waiting.id].versions) == {"a"}
    assert set(waiting.versions) == {"a"}
    w.tell(r.ServingCapacityChanged, Capacity(0.3, 0.15, 1))  # one for both again: "c" has to be loaded
    w.settle()
    assert w.served() == {"a", "c"}
    assert not w.reorganiser.partitions.in_flight


def test_an_unloaded_model_is_let_go_of_by_a_partition_that_stays() -> None:
    w = world(together)
    w.tell(r.ModelsChanged, (demand("a"), demand("b")))
    w.settle()
    kept = next(iter(w.processes))
    out = w.tell(r.ModelsChanged, (demand("a"),))
    trims = [o for o in out if isinstance(o, r.TrimExecutor)]
    assert [(o.executor, [v.model for v in o.versions]) for o in trims] == [(kept, ["a"])]
    assert w.served() == {"a"}
    w.tell(r.ModelsChanged, (demand("a"), demand("b")))
    assert [n for n in w.processes if n != kept], "it has to be loaded again"
    w.settle()
    assert w.served() == {"a", "b"}


def test_a_model_that_is_unloaded_while_the_policy_fails_gets_no_route() -> None:
    def replicated(problem: ServingProblem, table: DeviceTable) -> ServingPlan:
        plan = together(problem, table)
        second = Gpulet(0, 0.1, 100.0, (ModelBatch("a", 1),))
        busy = any(m.name == "a" and m.rate > 50.0 for m in problem.models)
        return replace(plan, gpulets=(*plan.gpulets, second)) if busy else plan

    def failing(problem: ServingProblem, table: DeviceTable) -> ServingPlan:
        raise RuntimeError("no plan")

    w = world(replicated)
    w.tell(r.ModelsChanged, (demand("a"), demand("b")))
    w.settle()
    first = next(iter(w.processes))
    w.tell(r.ModelsChanged, (demand("a", 60.0), demand("b")))
    second = next(n for n in w.processes if n != first)
    with pytest.raises(RuntimeError, match="no plan"):
        w.tell(r.ServingRulesChanged, w.reorganiser.settings, failing)
    with pytest.raises(RuntimeError, match="no plan"):
        w.tell(r.ModelsChanged, (demand("a", 60.0),))
    w.processes[first].state = "lost"
    w.tell(r.FrontLost)
    w.step(first)  # it lets go of "b" before the second partition is warm
    assert set(w.processes[first].versions) == {"a"}
    w.step(second)
    assert [set(route.versions) for route in routes(w)] == [{"a"}, {"a"}]
    w.tell(r.ServingRulesChanged, w.reorganiser.settings, replicated)
    w.settle()
    assert w.served() == {"a"}
    assert not w.reorganiser.partitions.in_flight


def test_the_reservation_is_given_back_when_models_go() -> None:
    w = world()
    w.tell(r.ModelsChanged, (demand("a"), demand("b")))
    w.settle()
    assert w.reserved >= w.total
    w.tell(r.ModelsChanged, ())
    w.settle()
    assert w.processes == {}
    assert w.reserved == 0.0


def test_a_changed_objective_is_in_force_at_once_also_without_a_new_partition() -> None:
    w = world(together)
    w.tell(r.ModelsChanged, (demand("a"),))
    w.settle()
    w.tell(r.ModelsChanged, (demand("a", slo_ms=190.0, priority=3),))
    assert w.layout is not None
    assert [(m.slo_ms, m.priority) for m in w.layout.models] == [(190.0, 3)]


# fit


def models(*rows: tuple[str, float, int]) -> list[ServedModel]:
    return [ServedModel(name, rate, 200.0, priority) for name, rate, priority in rows]


def test_equal_priorities_yield_equal_parts() -> None:
    found = fit(models(("b", 60.0, 0), ("c", 60.0, 0)), table(), Capacity(0.5, 0.5), one_each)
    assert set(found.capped) == {"b", "c"}
    assert len(set(found.capped.values())) == 1
    assert not found.refused


def test_an_impossible_objective_is_refused_and_takes_no_other_down() -> None:
    wanted = [*models(("a", 10.0, 0)), ServedModel("c", 1.0, 5.0)]
    found = fit(wanted, table(), Capacity(0.9, 0.9), one_each)
    assert (found.refused["c"].code, found.refused["c"].slo_ms) == ("no_room", 5.0)
    assert [m.name for m in found.problem.models] == ["a"]
    assert not found.capped


def test_models_below_the_cameras_get_what_cameras_leave_at_their_best() -> None:
    capacity = Capacity(0.8, 0.1, cameras_priority=5)
    found = fit(models(("a", 40.0, 5), ("b", 80.0, 1)), table(), capacity, one_each)
    assert found.capped.get("b", 0.0) < 1.0 or "b" in found.refused
    assert "a" not in found.capped
    assert "a" not in found.refused


demands = st.lists(
    st.tuples(st.sampled_from("abcd"), st.floats(0.1, 400.0), st.integers(0, 2)), max_size=4, unique_by=lambda d: d[0]
)


@given(demands, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
@settings(deadline=None, max_examples=tried(24, 60))
def test_what_is_served_fits_and_no_model_of_lower_priority_is_served_better(
    wanted: list[tuple[str, float, int]], most: float, beside: float
) -> None:
    capacity = Capacity(most, min(most, beside), cameras_priority=1)
    found = fit(models(*wanted), table(), capacity, by_load)
    assert found.plan.schedulable
    assert found.plan.total_share <= most + 1e-6
    if any(m.priority < 1 for m in found.problem.models):
        assert found.plan.total_share <= capacity.beside + 1e-6
    named = {m.name for m in found.problem.models}
    assert named | set(found.refused) == {name for name, _, _ in wanted}
    assert not named & set(found.refused)
    assert set(found.capped) <= named


# anything may happen, in any order

actions = st.lists(
    st.one_of(
        st.tuples(st.just("models"), st.sets(st.sampled_from("abcd")), st.integers(1, 3)),
        st.tuples(st.just("traffic"), st.sampled_from((1.0, 5.0, 30.0)), st.sampled_from((1.0, 20.0, 90.0, 300.0))),
        st.tuples(st.just("step"), st.integers(0, 7), st.just(0)),
        st.tuples(st.just("lose"), st.integers(0, 7), st.just(0)),
        st.tuples(st.just("fail"), st.integers(0, 7), st.just(0)),
        st.tuples(st.just("capacity"), st.sampled_from((0.3, 0.6, 0.9)), st.just(0)),
        st.tuples(st.just("front"), st.just(0), st.just(0)),
        st.tuples(st.just("table"), st.sampled_from((0.5, 1.0, 1.5)), st.just(0)),
    ),
    max_size=25,
)  # fmt: skip


def act(w: SimulatedServing, action: tuple[object, ...]) -> None:
    kind, one, two = action
    names = sorted(w.processes)
    name = names[int(one) % len(names)] if kind in ("step", "lose", "fail") and names else None  # type: ignore[call-overload]
    if kind == "models":
        wanted = tuple(demand(m, 20.0 * int(two), int(two)) for m in sorted(one))  # type: ignore[call-overload]
        w.tell(r.ModelsChanged, wanted)
    elif kind == "traffic":
        violated = {"a": 2} if two == 90.0 else {}
        w.traffic({m: float(two) / (n + 1) for n, m in enumerate("abcd")}, float(one), violated)  # type: ignore[arg-type]
    elif kind == "capacity":
        w.tell(r.ServingCapacityChanged, Capacity(float(one), float(one) / 2, 1))  # type: ignore[arg-type]
    elif kind == "table":
        w.tell(r.TableChanged, table(float(one)))  # type: ignore[arg-type]
    elif kind == "front":
        for process in w.processes.values():
            process.state = "lost" if process.state == "connected" else process.state
        w.tell(r.FrontLost)
    elif name is None:
        return
    elif kind == "step":
        w.step(name)
    elif kind == "lose" and w.processes[name].state == "connected":
        w.processes[name].state = "lost"
        w.tell(r.ExecutorLost, name, "killed")
    elif kind == "fail" and w.processes[name].state in ("starting", "lost"):
        # Its process is gone before the report.
        if name in w.routed:
            return
        w.processes.pop(name)
        w.tell(r.ExecutorFailed, name, "given up")


@given(st.sampled_from([one_each, together, by_load]), st.booleans(), actions)
@settings(deadline=None, max_examples=tried(60, 150))
def test_no_order_of_events_breaks_what_must_hold(plan: object, live: bool, what: list[tuple[object, ...]]) -> None:
    w = world(plan, live=live)  # type: ignore[arg-type]
    for action in what:
        act(
            w, action
        )  # SimulatedServing checks shares, reservations, routes and the only route of each model at every step
    w.settle()
    state = w.reorganiser.state
    assert not w.reorganiser.partitions.in_flight
    assert state.plan is None or sorted(map(repr, state.plan.gpulets)) == sorted(
        repr(route.gpulet) for route in routes(w)
    )
    assert w.served() == set(w.reorganiser.demands.models) - set(state.refused)
    for route in routes(w):
        assert w.processes[route.executor].share == pytest.approx(route.gpulet.share, abs=1e-6)


def test_another_policy_is_in_force_at_once() -> None:
    w = world(one_each)
    w.tell(r.ModelsChanged, (demand("a"), demand("b")))
    w.settle()
    assert len(w.processes) == 2
    w.tell(r.ServingRulesChanged, w.reorganiser.settings, together)
    w.settle()
    assert len(w.processes) == 1
    assert w.served() == {"a", "b"}


def test_the_instructions_of_an_unknown_event_are_an_error() -> None:
    with pytest.raises(TypeError, match="str"):
        world().reorganiser.handle("hello")  # type: ignore[arg-type]


def test_versions_are_reported_by_their_files_too() -> None:
    w = world()
    w.tell(r.ModelsChanged, (Demand(version("a")),))
    w.settle()
    again = Demand(version("a"))
    changed = Demand(replace(again.version, digest="other content"))
    assert w.tell(r.ModelsChanged, (again,)) == []
    assert any(isinstance(o, r.StartExecutor) for o in w.tell(r.ModelsChanged, (changed,)))


def test_requests_that_come_together_are_planned_for_together() -> None:
    alone = demand("a", rate=10.0)
    together_six = replace(alone, group=6)
    plain, strict = alone.planned(10.0), together_six.planned(10.0)
    assert plain == replace(alone.served, rate=10.0)
    assert strict.slo_ms < plain.slo_ms
    assert strict.rate >= plain.rate
    # The last of six is answered within the objective although each plan is one for single requests.
    assert strict.slo_ms + 5 * 1000 / strict.rate <= plain.slo_ms + 1e-6

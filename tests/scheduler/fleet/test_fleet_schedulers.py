"""The application-level schedulers, one by one and joined, through the controller."""

from __future__ import annotations

import pytest
from fleet_kit import ObedientFleet, boxes
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.errors import Conflict
from edge.core.fleet import Avoidance, FleetBox, FleetJob, FleetQueue, SpatialRule, TaskAt
from scheduler.fleet import events as ev
from scheduler.fleet.order import circle


def job(name: str, cpu: float = 1.0, **fields: object) -> FleetJob:
    """A job of one task of 10 s."""
    return FleetJob(name, {"cpu": cpu}, **({"duration_s": 10.0} | fields))  # type: ignore[arg-type]


# --- affinity, zones ---------------------------------------------------------------------------------------------
def test_a_companion_waits_for_its_target_and_follows_it() -> None:
    fleet = ObedientFleet(boxes(4))
    fleet.submit(job("companion", rule=SpatialRule(near=("camera",))))
    assert fleet.controller.why("companion").code == "near"  # type: ignore[union-attr]
    fleet.submit(job("camera", duration_s=None, rule=SpatialRule(zone={"site": ("south",)})))
    assert fleet.where("companion") == fleet.where("camera") == ["b1"]


def test_data_stay_where_a_job_ended() -> None:
    fleet = ObedientFleet(boxes(4))
    fleet.submit(job("train"), job("other"))
    place = fleet.where("train")
    fleet.end("train")
    fleet.submit(*(job(f"read-{n}", rule=SpatialRule(near=("train",))) for n in range(3)))
    assert {box for n in range(3) for box in fleet.where(f"read-{n}")} == set(place)


def test_a_companion_is_refused_where_its_target_cannot_be() -> None:
    fleet = ObedientFleet(boxes(4))
    fleet.submit(job("camera", rule=SpatialRule(zone={"site": ("south",)})))
    fleet.submit(job("far", rule=SpatialRule(zone={"site": ("north",)}, near=("camera",))))
    assert "far" in fleet.refused


# --- anti-affinity -----------------------------------------------------------------------------------------------
@given(st.integers(1, 6), st.integers(1, 3), st.sampled_from(["box", "rack"]), st.integers(1, 7), st.booleans())
@settings(max_examples=60)
def test_members_of_a_group_are_apart_or_the_job_is_refused(
    number: int, per_rack: int, per: str, tasks: int, gang: bool
) -> None:
    fleet = ObedientFleet(boxes(number, per_rack=per_rack))
    fleet.submit(job("replicas", tasks=tasks, gang=gang, rule=SpatialRule(avoid=Avoidance("g", per))))
    places = len({b.label(per) for b in boxes(number, per_rack=per_rack)})
    if gang and tasks > places:
        assert fleet.refused == {"replicas": "too_many_at_once"}
    else:
        used = [fleet.boxes[box].label(per) for box in fleet.where("replicas")]
        assert len(used) == len(set(used)) == min(tasks, places)


def test_a_group_kept_apart_by_racks_is_seen_by_boxes_too() -> None:
    fleet = ObedientFleet(boxes(4))
    fleet.submit(job("one", rule=SpatialRule(avoid=Avoidance("g", "rack"))))
    fleet.submit(*(job(f"more-{n}", rule=SpatialRule(avoid=Avoidance("g", "box"))) for n in range(4)))
    assert len(fleet.running) == 4
    rack = fleet.boxes[fleet.where("one")[0]].label("rack")
    for n in range(4):
        for box in fleet.where(f"more-{n}"):
            assert box != fleet.where("one")[0]
    fleet.submit(job("two", rule=SpatialRule(avoid=Avoidance("g", "rack"))))
    assert not fleet.where("two")
    for name in [key[0] for key, task in fleet.running.items() if fleet.boxes[task.box].label("rack") == rack]:
        fleet.end(name)
    assert len(fleet.where("two")) + sum(len(fleet.where(f"more-{n}")) for n in range(4)) >= 3


# --- gangs -------------------------------------------------------------------------------------------------------
@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_gangs_never_lock_each_other(sizes: list[int], rng: object) -> None:
    fleet = ObedientFleet(boxes(4, cpu=2.0))
    fleet.submit(*(job(f"g{n}", tasks=size, gang=True) for n, size in enumerate(sizes)))
    assert set(fleet.refused) == {f"g{n}" for n, size in enumerate(sizes) if size > 8}
    ended = 0
    while fleet.running:
        whole = {name: sum(key[0] == name for key in fleet.running) for name, _ in fleet.running}
        assert all(count == sizes[int(name[1:])] for name, count in whole.items())
        name = rng.choice(sorted(whole))  # type: ignore[attr-defined]
        fleet.send(*(ev.TaskEnded(0.0, fleet.running.pop((name, task))) for task in range(whole[name])))
        ended += 1
    assert ended == sum(size <= 8 for size in sizes)


def test_a_gang_that_lost_a_part_begins_again_as_a_whole() -> None:
    fleet = ObedientFleet(boxes(4, cpu=2.0))
    fleet.submit(job("gang", tasks=4, gang=True))
    lost = fleet.where("gang")[0]
    fleet.lose(lost, 20.0)
    assert len(fleet.where("gang")) == 4
    assert lost not in fleet.where("gang")
    assert ("gang", "gang_broken") in fleet.evictions


def test_small_jobs_do_not_overtake_a_gang_for_ever() -> None:
    fleet = ObedientFleet(boxes(2, cpu=2.0))
    fleet.submit(*(job(f"s{n}") for n in range(4)))
    fleet.submit(job("gang", tasks=4, gang=True), at_s=1.0)
    number, at_s = 4, 1.0
    while not fleet.where("gang"):
        at_s += 3.0
        assert at_s < 60.0, "the gang never begins"
        fleet.submit(job(f"s{number}"), at_s=at_s)
        number += 1
        fleet.end(next(iter(fleet.running))[0], at_s=at_s)


# --- order -------------------------------------------------------------------------------------------------------
def test_signals_and_a_barrier() -> None:
    fleet = ObedientFleet(boxes(2))
    fleet.submit(job("report", after=("a", "b")), job("a", tasks=2))
    assert fleet.controller.why("report").names == ("a", "b")  # type: ignore[union-attr]
    fleet.submit(job("b"))
    fleet.end("a", 0)
    fleet.end("b")
    assert not fleet.where("report")
    fleet.end("a", 1)
    assert fleet.where("report")


@given(st.permutations(range(6)), st.lists(st.integers(0, 2), min_size=6, max_size=6), st.booleans(), st.integers(1, 3))
@settings(max_examples=40)
def test_no_job_overtakes_in_a_queue(order: list[int], priorities: list[int], urgent: bool, slots: int) -> None:
    queue = FleetQueue("q", slots, "priority" if urgent else "fifo")
    fleet = ObedientFleet(boxes(3), queues=[queue])
    fleet.submit(*(job(f"j{n}", queue="q", priority=priorities[n]) for n in order))
    begun = 0
    while fleet.running:
        assert len(fleet.running) <= slots
        fleet.end(next(iter(fleet.running))[0])
        begun += 1
    expected = sorted(order, key=lambda n: (-priorities[n] if urgent else 0, order.index(n)))
    assert begun == 6
    assert fleet.begun == [f"j{n}" for n in expected]


def test_the_first_of_a_queue_holds_up_those_behind_it() -> None:
    fleet = ObedientFleet(boxes(1, cpu=2.0), queues=[FleetQueue("q", 2)])
    fleet.submit(job("busy"), job("large", 2.0, queue="q"), job("small", queue="q"))
    assert not fleet.where("small")
    assert fleet.controller.why("small").names == ("large",)  # type: ignore[union-attr]
    fleet.end("busy")
    assert fleet.where("large")


def test_a_circle_of_signals_is_refused() -> None:
    fleet = ObedientFleet(boxes(1))
    fleet.submit(job("a", after=("b",)), job("b", after=("c",)))
    assert not fleet.refused
    fleet.submit(job("c", after=("a",)))
    assert fleet.refused == {"c": "circle", "b": "target_refused", "a": "target_refused"}


def test_circles_are_found() -> None:
    assert circle({"a": ("b",), "b": ("c",), "c": ("a", "d")}, "a") == ("a", "b", "c", "a")
    assert circle({"a": ("a",)}, "a") == ("a", "a")
    assert circle({"a": ("b",), "b": ("c",), "c": ("b",)}, "a") == ()


# --- soft --------------------------------------------------------------------------------------------------------
def test_choices_open_in_turn_and_never_early() -> None:
    fleet = ObedientFleet(boxes(2, cpu=1.0))
    north, anywhere = SpatialRule(zone={"site": ("north",)}), SpatialRule()
    fleet.submit(job("busy", rule=north), at_s=0.1)
    fleet.submit(job("soft", choices=(north, anywhere), relax_after_s=0.7), at_s=0.3)
    opens = fleet.wakes[-1]
    fleet.pass_time(opens - 1e-6)
    assert not fleet.where("soft")
    fleet.pass_time(opens)
    assert fleet.where("soft") == ["b1"]
    assert fleet.choices["soft"] == 1


def test_or_without_a_time_takes_the_first_that_fits() -> None:
    fleet = ObedientFleet(boxes(2, cpu=1.0))
    choices = tuple(SpatialRule(zone={"site": (site,)}) for site in ("north", "south"))
    fleet.submit(job("first", choices=choices), job("second", choices=choices))
    assert (fleet.where("first"), fleet.where("second")) == (["b0"], ["b1"])


# --- spreading, packing, nesting ---------------------------------------------------------------------------------
def test_alike_tasks_are_spread_evenly_and_packed_densely() -> None:
    spread, packed = ObedientFleet(boxes(4)), ObedientFleet(boxes(4), placement="pack")
    for fleet in (spread, packed):
        fleet.submit(job("heavy", 2.0), *(job(f"camera-{n}", 0.5, duration_s=None) for n in range(4)))
    assert len({fleet_box for n in range(4) for fleet_box in spread.where(f"camera-{n}")}) == 4
    assert len({task.box for task in packed.running.values()}) == 1


def test_a_child_lives_in_what_its_parent_holds() -> None:
    fleet = ObedientFleet(boxes(2))
    child = FleetJob("child", {"lab:slot": 1.0}, tasks=3, duration_s=5.0)
    fleet.jobs["child"] = child
    fleet.submit(child)
    assert fleet.controller.why("child").code == "no_offer"  # type: ignore[union-attr]
    fleet.submit(job("parent", 3.0, duration_s=None, offers={"lab:slot": 2.0}))
    assert fleet.where("child") == fleet.where("parent") * 2
    fleet.lose(fleet.where("parent")[0], 30.0)
    assert fleet.where("child") == fleet.where("parent") * 2


def test_children_are_evicted_with_their_parent() -> None:
    fleet = ObedientFleet(boxes(2))
    fleet.submit(job("parent", 3.0, offers={"lab:slot": 2.0}))
    fleet.submit(FleetJob("child", {"lab:slot": 1.0}, duration_s=5.0))
    assert fleet.where("child")
    fleet.end("parent")
    assert not fleet.where("child")
    assert fleet.evictions == [("child", "parent_gone")]


# --- refusals, boxes ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (job("x", 9.0), "too_large"),
        (FleetJob("x", {"gpu": 1.0}, duration_s=1.0), "no_such_resource"),
        (job("x", rule=SpatialRule(zone={"site": ("west",)})), "no_box_in_zone"),
        (job("x", tasks=9, gang=True), "too_many_at_once"),
        (job("x", tasks=9, duration_s=None), "too_many_at_once"),
        (job("x", tasks=3, gang=True, queue="q"), "queue_too_small"),
        (job("x", queue="other"), "unknown_queue"),
        (job("x", tenant="nobody"), "unknown_tenant"),
    ],
)
def test_a_job_that_can_never_be_placed_is_refused_at_once(wrong: FleetJob, code: str) -> None:
    fleet = ObedientFleet(boxes(2), queues=[FleetQueue("q", 2)])
    fleet.submit(wrong)
    assert fleet.refused == {"x": code}
    assert fleet.controller.why("x").words()  # type: ignore[union-attr]


def test_an_id_is_used_once() -> None:
    fleet = ObedientFleet(boxes(1))
    fleet.submit(job("x"))
    with pytest.raises(Conflict):
        fleet.submit(job("x"))


def test_a_cut_box_keeps_its_work_until_the_lease_and_the_older_copy_stops() -> None:
    fleet = ObedientFleet(boxes(2))
    fleet.submit(job("camera", duration_s=None, overlap=True))
    (before,) = fleet.running.values()
    fleet.send(ev.BoxSilent(6.0, before.box))
    assert fleet.where("camera") == [before.box]
    fleet.lose(before.box, 15.0)
    (after,) = fleet.running.values()
    assert (after.box, after.epoch) != (before.box, before.epoch)
    fleet.send(ev.BoxReported(60.0, fleet.boxes[before.box], fresh=False, running=(before,)))
    assert fleet.evictions == [("camera", "superseded")]
    assert fleet.controller.owner("camera", 0) == after


def test_a_box_that_returns_with_a_waiting_camera_keeps_it() -> None:
    fleet = ObedientFleet(boxes(1))
    fleet.submit(job("camera", duration_s=None, overlap=True))
    (task,) = fleet.running.values()
    fleet.lose("b0", 15.0)
    assert fleet.controller.why("camera").code == "away"  # type: ignore[union-attr]
    fleet.send(ev.BoxReported(60.0, fleet.boxes["b0"], fresh=False, running=(task,)))
    assert fleet.controller.owner("camera", 0) == task
    assert fleet.controller.waiting() == {}


def test_a_placement_without_answer_is_tried_elsewhere() -> None:
    fleet = ObedientFleet(boxes(2))
    fleet.submit(job("x"))
    (task,) = fleet.running.values()
    fleet.running.clear()
    fleet.send(ev.PlacementFailed(1.0, (task,), (task.box,)))
    assert fleet.where("x") == [{"b0": "b1", "b1": "b0"}[task.box]]


def test_reports_of_older_placements_mean_nothing() -> None:
    fleet = ObedientFleet(boxes(2))
    fleet.submit(job("x"))
    (task,) = fleet.running.values()
    fleet.send(ev.TaskEnded(1.0, TaskAt("x", 0, task.box, task.epoch + 1)), ev.TaskLost(1.0, TaskAt("x", 0, "b9", 9)))
    assert fleet.controller.owner("x", 0) == task


def test_a_drained_box_is_emptied_and_takes_nothing() -> None:
    fleet = ObedientFleet(boxes(2))
    fleet.submit(job("camera", duration_s=None), job("stays"), job("moves", checkpoints=True))
    fleet.send(ev.BoxDraining(5.0, "b0"), ev.BoxDraining(5.0, "b0"))
    fleet.submit(job("new"))
    assert {task.job for task in fleet.running.values() if task.box == "b0"} <= {"stays"}
    assert fleet.where("camera") == ["b1"]


def test_a_box_that_is_drained_no_more_takes_work_again_and_keeps_what_was_not_asked_to_leave() -> None:
    fleet = ObedientFleet(boxes(2, cpu=1.0))
    fleet.submit(job("stays", duration_s=None), job("other", duration_s=None))
    (box,) = fleet.where("stays")
    fleet.send(ev.BoxDraining(5.0, box))
    assert fleet.where("stays") == [box], "there is no room elsewhere"
    fleet.send(ev.BoxUndrained(6.0, box))
    fleet.end("other", at_s=7.0)
    assert fleet.where("stays") == [box]
    fleet.send(ev.BoxDraining(8.0, box))
    assert fleet.where("stays") != [box], "now it moves"
    fleet.submit(job("new"))
    assert fleet.where("new") == []
    fleet.send(ev.BoxUndrained(9.0, box))
    assert fleet.where("new") == [box]


def test_resources_are_told_with_what_tasks_hold() -> None:
    fleet = ObedientFleet(boxes(2))
    fleet.submit(job("parent", 3.0, duration_s=None, offers={"lab:slot": 2.0}))
    fleet.submit(FleetJob("child", {"cpu": 1.0, "lab:slot": 1.0}, duration_s=9.0))
    rows = {(r.box, r.name): (r.capacity, r.used) for r in fleet.controller.resources()}
    (box,) = fleet.where("parent")
    assert rows[box, "cpu"] == (4.0, 4.0)
    assert rows[box, "lab:slot"] == (2.0, 1.0)
    assert {name for _, name in rows} == {"cpu", "lab:slot"}, "unbounded ones are left out"


def test_a_box_may_join_later() -> None:
    fleet = ObedientFleet(boxes(1, cpu=1.0))
    zone = SpatialRule(zone={"site": ("south", "north")}, avoid=Avoidance("g"))
    fleet.submit(job("one", rule=zone), job("two", rule=zone))
    assert fleet.controller.why("two").code == "full"  # type: ignore[union-attr]
    more = FleetBox("b1", {"cpu": 1.0}, {"site": "south"})
    fleet.boxes["b1"] = more
    fleet.send(ev.BoxReported(1.0, more))
    assert fleet.where("two") == ["b1"]

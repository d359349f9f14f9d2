"""Which cameras of several boxes are a group, who trains it, and the sets that its window may retrain as one."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_groups import problem, relay, stream
from test_siblings import LOOK

from edge.core.box_groups import BoxGroup, CameraOfBox, SharedCamera
from edge.core.camera_look import CameraLook
from scheduler.box_groups import WHOLE, box_groups, taught_boxes, with_guests
from scheduler.groups import Group, choose_group, group_work
from scheduler.siblings import NOT_ALIKE, distance
from scheduler.window_group import WindowGroup

FAR = replace(LOOK, features=(90.0, 2.0, 3.0))


def shared(name: str, look: CameraLook = LOOK, kind: str = "a") -> SharedCamera:
    box, camera = name.split("/")
    return SharedCamera(box, camera, kind * 64, look, 3, "f" * 64, 8, 1000)


def names(group: BoxGroup) -> tuple[list[str], list[str]]:
    return [c.name for c in group.own], [g.of_box.name for g in group.guests]


def test_alike_cameras_of_two_boxes_are_one_group_which_one_of_them_trains() -> None:
    (group,) = box_groups([shared("b2/yard"), shared("b1/north"), shared("b3/stranger", FAR)])
    assert (group.trainer, group.boxes, *names(group)) == ("b1", ("b2",), ["b1/north"], ["b2/yard"])


@pytest.mark.parametrize("cameras", [
    [], [shared("b1/north")], [shared("b1/north"), shared("b1/south")], [shared("b1/north"), shared("b2/yard", FAR)],
    [shared("b1/north"), shared("b2/yard", kind="b")],
])  # fmt: skip
def test_cameras_of_one_box_unlike_ones_and_other_students_are_none(cameras: list[SharedCamera]) -> None:
    assert box_groups(cameras) == ()


def test_the_box_that_gains_by_the_pictures_of_others_trains() -> None:
    """A box with a whole group of its own has pictures enough, and one with few cameras in all has the time."""
    (group,) = box_groups([*(shared(f"b1/c{n}") for n in range(WHOLE)), shared("b2/yard")])
    assert (group.trainer, len(group.guests)) == ("b2", WHOLE - 1)
    (group,) = box_groups([shared("b1/c0"), shared("b2/yard"), shared("b2/gate")])
    assert group.trainer == "b2"
    (group,) = box_groups([shared("b1/c0"), shared("b1/other", FAR), shared("b2/yard")])
    assert group.trainer == "b2"
    assert box_groups([shared(f"b{b}/c{n}") for b in (1, 2) for n in range(WHOLE)]) == ()


def test_a_box_that_retrains_no_groups_shares_and_does_not_train() -> None:
    one, two = replace(shared("b1/north"), trains=False), shared("b2/yard")
    (group,) = box_groups([one, two])
    assert (group.trainer, names(group)[1]) == ("b2", ["b1/north"])
    assert box_groups([one, replace(two, trains=False)]) == ()


def test_of_many_cameras_of_others_the_most_alike_are_guests() -> None:
    near = [shared(f"b2/n{n}", replace(LOOK, crowd=LOOK.crowd + 0.01 * n)) for n in range(8)]
    (group,) = box_groups([shared("b1/a"), shared("b1/b"), *near])
    assert group.trainer == "b1" if len(near) >= WHOLE else "b2"
    assert names(group)[1] == [f"b2/n{n}" for n in range(WHOLE - 2)]


@given(
    st.lists(st.tuples(st.sampled_from(["b1", "b2", "b3"]), st.sampled_from("ab"), st.floats(0.0, 4.0)), max_size=20),
    st.randoms(use_true_random=False),
)
def test_every_box_comes_to_the_same_groups(many: list[tuple[str, str, float]], shuffled: random.Random) -> None:
    cameras = [shared(f"{box}/c{n}", replace(LOOK, height=-height), kind) for n, (box, kind, height) in enumerate(many)]
    found = box_groups(cameras)
    shuffled.shuffle(cameras)
    assert box_groups(cameras) == found
    by_name = {c.of_box: c for c in cameras}
    seen = Counter(one for g in found for one in (*g.own, *(guest.of_box for guest in g.guests)))
    assert all(count == 1 for count in seen.values()), "no camera is in two"
    for group in found:
        every = [by_name[one] for one in group.own] + list(group.guests)
        assert {one.box for one in group.own} == {group.trainer}
        assert group.guests
        assert all(guest.box != group.trainer for guest in group.guests)
        assert len(every) <= WHOLE
        assert len({c.kind for c in every}) == 1
        assert all(distance(a.look, b.look) <= NOT_ALIKE for a in every for b in every)


def test_a_window_may_retrain_its_own_with_guests_and_larger_sets_that_leave_room() -> None:
    (group,) = box_groups([shared("b1/north"), shared("b2/yard"), shared("b3/gate")])
    found = with_guests((("north", "south"), ("east", "south")), group, ("north",))
    assert found == (("b2/yard", "b3/gate", "north"), ("b2/yard", "b3/gate", "north", "south"))
    many = tuple(f"c{n}" for n in range(WHOLE - 2))
    sets = with_guests(((*many, "north"), (*many, "more", "north")), group, ("north",))
    assert sets == (("b2/yard", "b3/gate", "north"), ("b2/yard", *many, "north")), "no more than a whole group"
    assert with_guests((("north", "south"),), group, ()) == (), "none of its own is retrained"
    assert with_guests((), replace(group, guests=()), ("north",)) == ()


def test_boxes_whose_cameras_taught() -> None:
    taught = (CameraOfBox("b2", "x"), CameraOfBox("b1", "y"), CameraOfBox("b2", "z"))
    assert (taught_boxes(taught), taught_boxes(taught, "b1"), taught_boxes(())) == (("b1", "b2"), ("b2",), ())


# in a window's plan

GUESTS = frozenset({"b2/yard", "b3/gate"})


def test_a_camera_alone_is_retrained_with_guests_where_their_pictures_bring_more() -> None:
    choice = choose_group(problem(stream("a", cost=10.0)), (("a", *sorted(GUESTS)),), 1.6, relay, guests=GUESTS)
    assert choice is not None
    assert choice.group == Group("a", (), ("b2/yard", "b3/gate"))
    assert choice.gains["a"] == pytest.approx(0.3 * 0.6 * 2 / 5), "two guests are two fifths of a whole group"
    assert choice.parts == {"all": 1.0}
    assert choose_group(problem(stream("a", cost=10.0)), (("a", *sorted(GUESTS)),), 1.0, relay, guests=GUESTS) is None


def test_guests_teach_members_more_and_cost_work() -> None:
    window = problem(*(stream(n, cost=4.0) for n in "ab"), num_gpus=2.0)
    sets = (("a", "b"), ("a", "b", *sorted(GUESTS)))
    alone = choose_group(window, sets[:1], 1.6, relay)
    both = choose_group(window, sets, 1.6, relay, guests=GUESTS)
    assert both is not None
    assert both.group == Group("a", ("b",), ("b2/yard", "b3/gate"))
    assert alone is None or both.gained > alone.gained
    slow = problem(*(stream(n, cost=40.0) for n in "ab"))
    chosen = choose_group(slow, sets, 1.6, relay, guests=GUESTS)
    assert chosen is None or chosen.group.guests == (), "there is no time for the pictures of others"


@given(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.floats(1.0, 80.0), st.floats(0.0, 2.0))
@settings(max_examples=25)
def test_a_leader_is_promised_no_more_than_everything(start: float, end: float, cost: float, kept: float) -> None:
    sets = (("a", *sorted(GUESTS)),)
    choice = choose_group(problem(stream("a", start, end, cost)), sets, kept, relay, guests=GUESTS)
    assert choice is None or 0.0 <= choice.gains["a"] <= 1.0 - start


def test_without_guests_plans_are_what_they_were() -> None:
    window = problem(*(stream(n, cost=20.0) for n in "abc"))
    one, other = (choose_group(window, (("a", "b", "c"),), 1.5, relay, guests=g) for g in (frozenset[str](), GUESTS))
    assert one == other
    assert one is not None


def test_a_windows_group_says_whose_pictures_teach_until_it_is_over() -> None:
    group = WindowGroup(possible=(("a", *sorted(GUESTS)),), kept=1.6, guests=GUESTS)
    options = {"a": stream("a", cost=10.0).options}
    group.choose(problem(stream("a", cost=10.0)), options, relay)
    assert options["a"][0].device_seconds == pytest.approx(10.0 * group_work(2))
    assert (group.begun("a", "job"), group.guests_of("a"), group.guests_of("x")) == ((), ("b2/yard", "b3/gate"), ())
    assert not group.waits("b2/yard")
    assert group.over("a", "job")
    assert group.guests_of("a") == ()


def test_where_tenants_share_the_box_no_other_box_teaches() -> None:
    group = WindowGroup(possible=(("a", *sorted(GUESTS)),), kept=1.6, guests=GUESTS)
    window = problem(stream("a", cost=10.0), stream("b", cost=10.0))
    group.choose(window, {n: stream(n, cost=10.0).options for n in "ab"}, relay, (frozenset("a"), frozenset("b")))
    assert group.group is None

"""Ownership of cameras: one owner in force, a make before each break, and nothing moves within a lease."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.fleet import BoxStatus
from edge.core.fleet_links import (
    AgreementVersion,
    CameraEpoch,
    CameraOnBox,
    FleetAgreement,
    FleetCamera,
    FleetMember,
)
from scheduler.fleet.ownership import (
    START_S,
    BoxOffer,
    BoxReport,
    CameraHolding,
    CameraRemoved,
    HoldCamera,
    OwnershipView,
    StartCamera,
    StopCamera,
    decide,
    heard_out,
    moved,
    with_members,
    work_of_box,
)

BOXES = ("b1", "b2", "b3")
YES = BoxOffer(True, -0.1)
FIRST = CameraEpoch(1, 1)


def agreement(*cameras: FleetCamera, drained: str = "") -> FleetAgreement:
    members = tuple(FleetMember(b, f"https://{b}:8470", n, b, drained=b == drained) for n, b in enumerate(BOXES))
    return FleetAgreement(AgreementVersion(1, 1), members, cameras)


def camera(owner: str = "b1", **more: object) -> FleetCamera:
    return replace(FleetCamera("gate", owner, CameraEpoch(1, 1), None, True, "", {"id": "gate"}, "d1", "s1"), **more)  # type: ignore[arg-type]


def on_box(epoch: CameraEpoch | None = FIRST, **more: object) -> CameraOnBox:
    return replace(CameraOnBox("gate", epoch, True, "d1", "s1"), **more)  # type: ignore[arg-type]


def view(
    offers: dict[tuple[str, str], BoxOffer] | None = None, now_s: float = 0.0, **boxes: BoxReport | BoxStatus
) -> OwnershipView:
    reports = {b: r if isinstance(r, BoxReport) else BoxReport(r) for b, r in boxes.items()}
    given_s = {"gate": 0.0}
    return OwnershipView(2, now_s, {b: BoxReport("open") for b in BOXES} | reports, given_s, offers or {})


def owner(found: FleetAgreement) -> str | None:
    (only,) = found.cameras
    return only.owner


def test_a_box_that_is_silent_keeps_its_camera_and_a_lost_one_does_not() -> None:
    before = agreement(camera())
    assert decide(before, view(b1="silent")).agreement is before
    found = decide(before, view(b1="lost"))
    assert found.agreement is before, "admission is asked first"
    assert set(found.ask) == {("gate", "b2"), ("gate", "b3")}
    offers = {("gate", "b2"): BoxOffer(True, -0.2), ("gate", "b3"): YES}
    after = decide(before, view(offers, b1="lost")).agreement
    (given_,) = after.cameras
    assert (given_.owner, given_.previous, given_.answered) == ("b3", "b1", False), "the largest sum of accuracies"
    assert given_.epoch > CameraEpoch(1, 1)
    assert after.version > before.version


@pytest.mark.parametrize(
    ("reports", "offers", "why"),
    [
        ({"b2": "lost", "b3": "lost"}, {}, "no_box"),
        ({}, {("gate", "b2"): BoxOffer(False), ("gate", "b3"): BoxOffer(False)}, "full"),
        ({"b2": BoxReport("open", refused=frozenset({"gate"})), "b3": "silent"}, {}, "refused"),
        ({"b2": BoxReport("open", (on_box(None),)), "b3": "silent"}, {}, "refused"),
    ],
)
def test_a_camera_without_a_box_waits_with_its_reason(
    reports: dict[str, BoxReport | BoxStatus], offers: dict[tuple[str, str], BoxOffer], why: str
) -> None:
    found = decide(agreement(camera()), view(offers, **({"b1": "lost"} | reports)))
    assert found.unplaced == {"gate": why}
    assert owner(found.agreement) == "b1"


def test_zones_and_drains_limit_the_boxes() -> None:
    lost = view(b1="lost")
    assert decide(agreement(camera(zone="north")), lost).unplaced == {"gate": "no_zone"}
    two = replace(agreement(camera(), drained="b2"), members=agreement(drained="b2").members[:2])
    assert decide(two, lost).unplaced == {"gate": "drained"}


def test_a_box_takes_up_cameras_of_its_own_and_their_changes() -> None:
    own = on_box(None, settings={"id": "gate"})
    found = decide(agreement(), view(b2=BoxReport("open", (own,)))).agreement
    assert found.cameras == (FleetCamera("gate", "b2", CameraEpoch(2, 1), "b2", False, "", {"id": "gate"}, "d1", "s1"),)
    assert decide(found, view({("gate", "b1"): YES, ("gate", "b3"): YES}, b2="lost")).agreement is found, "not yet"
    changed = on_box(CameraEpoch(2, 1), digest="d2", settings={"id": "gate", "name": "Gate"}, student="s2")
    (after,) = decide(found, view(b2=BoxReport("open", (changed,)))).agreement.cameras
    assert (after.answered, after.previous) == (True, None), "the box has heard of it"
    assert (after.digest, after.settings["name"], after.student) == ("d2", "Gate", "s2")
    same_name = BoxReport("open", (on_box(None, settings={"id": "gate"}),))
    assert decide(found, view(b3=same_name)).agreement is found, "another box's camera of that id is left alone"


def test_a_removed_camera_does_not_come_back_by_an_older_copy() -> None:
    gone = BoxReport("open", gone=(("gate", CameraEpoch(1, 1)),))
    after = decide(agreement(camera()), view(b1=gone)).agreement
    assert after.cameras == ()
    old = BoxReport("open", (on_box(CameraEpoch(1, 1), settings={"id": "gate"}),))
    assert decide(after, view(b2=old)).agreement is after
    assert work_of_box(after, "b2", {"gate": CameraHolding(CameraEpoch(1, 1))}, {"gate": "d1"}) == (
        StopCamera("gate", CameraEpoch(1, 1), CameraEpoch(1, 1)),
    )
    again = BoxReport("open", (on_box(None, settings={"id": "gate"}),))
    (added,) = decide(after, view(b2=again)).agreement.cameras
    assert added.epoch > CameraEpoch(1, 1), "an operator added it again"


def test_a_new_head_believes_a_higher_epoch_than_it_knows() -> None:
    given_by_the_one_before = BoxReport("open", (on_box(CameraEpoch(1, 9)),))
    (after,) = decide(agreement(camera("b1")), view(b3=given_by_the_one_before)).agreement.cameras
    assert (after.owner, after.epoch) == ("b3", CameraEpoch(1, 9))


def test_a_box_that_comes_back_with_an_epoch_of_a_term_that_is_over_gives_the_camera_back() -> None:
    returned = BoxReport("open", (on_box(CameraEpoch(1, 9)),))
    owner_has_it = BoxReport("open", (on_box(),))
    over = heard_out(agreement(camera("b1")), 2)
    assert over.version == AgreementVersion(2, 1)
    assert heard_out(over, 2) is over
    after = decide(over, view(b1=owner_has_it, b3=returned)).agreement
    (outranked,) = after.cameras
    assert (outranked.owner, outranked.answered) == ("b1", True)
    held, there = {"gate": CameraHolding(CameraEpoch(1, 9))}, {"gate": "d1"}
    assert work_of_box(after, "b3", held, there) == (StopCamera("gate", CameraEpoch(1, 9), outranked.epoch),)
    assert decide(after, view(b1=owner_has_it, b3=returned)).agreement is after, "once"
    (coming,) = decide(over, view(b3=returned)).agreement.cameras
    assert (coming.owner, coming.previous, coming.answered) == ("b1", "b3", False), "b3 goes on until b1 has it"
    (taken,) = decide(over, view(b1="lost", b3=returned)).agreement.cameras
    assert taken.owner == "b3", "no other box answers it"


EPOCHS = st.builds(CameraEpoch, st.integers(0, 4) | st.just(10**9), st.integers(0, 3) | st.just(10**9))
CLAIMS = st.builds(
    CameraOnBox, st.sampled_from(["gate", "yard", "new"]), st.none() | EPOCHS, st.booleans(),
    st.sampled_from(["", "d2"]), st.just("s9"), st.just(""), st.none() | st.just({"id": "gate", "url": "rtsp://elsewhere"}),
)  # fmt: skip


@given(st.lists(st.lists(CLAIMS, max_size=4), min_size=1, max_size=5), st.booleans())
def test_a_box_that_was_taken_over_gets_no_camera_of_a_box_that_is_there(
    claims: list[list[CameraOnBox]], answered: bool
) -> None:
    known = (camera("b1", answered=answered), replace(camera("b2"), id="yard"))
    after = heard_out(agreement(*known), 2)
    for rows in claims:
        after = decide(
            after, view(b3=BoxReport("open", tuple(rows), gone=tuple((r.id, FIRST) for r in rows)))
        ).agreement
        assert {c.id: (c.owner, c.settings) for c in after.cameras if c.id != "new"} == {
            "gate": ("b1", {"id": "gate"}), "yard": ("b2", {"id": "gate"}),
        }  # fmt: skip
        assert all(c.epoch.term <= 2 for c in after.cameras), "no term that is not there yet"


@pytest.mark.parametrize("late", [True, False])
def test_a_camera_that_its_new_owner_does_not_answer_goes_back(late: bool) -> None:
    moving = moved(agreement(camera("b1")), camera("b1"), "b2", 2)
    old = BoxReport("open", (on_box(),))
    target = BoxReport("open") if late else BoxReport("open", refused=frozenset({"gate"}))
    assert owner(decide(moving, view(b1=old)).agreement) == "b2"
    found = decide(moving, view(now_s=START_S + 1.0 if late else 1.0, b1=old, b2=target)).agreement
    (back,) = found.cameras
    assert (back.owner, back.answered, back.previous) == ("b1", True, None)
    assert back.epoch > moving.cameras[0].epoch


def test_a_move_of_a_camera_that_gives_no_pictures_is_over_after_a_while() -> None:
    moving = moved(agreement(camera("b1")), camera("b1"), "b2", 2)
    dark = BoxReport("open", (on_box(answering=False),))
    there = BoxReport("open", (on_box(moving.cameras[0].epoch, answering=False),))
    assert decide(moving, view(now_s=START_S, b1=dark, b2=there)).agreement is moving
    (over,) = decide(moving, view(now_s=START_S + 1.0, b1=dark, b2=there)).agreement.cameras
    assert (over.owner, over.answered, over.previous) == ("b2", True, None)
    lost = decide(moving, view(now_s=START_S + 1.0, b1="lost", b2=there)).agreement
    assert lost is moving, "the box that is away may answer it when it is back"


def test_a_drained_box_gives_one_camera_at_a_time() -> None:
    both = agreement(camera("b1"), replace(camera("b1"), id="yard"), drained="b1")
    offers = {(c, b): YES for c in ("gate", "yard") for b in BOXES}
    first = decide(both, view(offers)).agreement
    assert [(c.id, c.owner) for c in first.cameras if c.owner != "b1"] == [("gate", "b2")]
    assert decide(first, view(offers)).agreement is first


def test_a_drain_goes_on_past_cameras_that_fit_nowhere_and_tells_why_they_stay() -> None:
    three = ("gate", "north", "yard")
    cameras = tuple(replace(camera("b1", zone="far" if c == "north" else ""), id=c) for c in three)
    before = agreement(*cameras, drained="b1")
    offers = {("gate", b): BoxOffer(False) for b in BOXES} | {("yard", b): YES for b in BOXES}
    found = decide(before, view(offers))
    assert [(c.id, c.owner) for c in found.agreement.cameras if c.owner != "b1"] == [("yard", "b2")]
    assert found.waiting == {"gate": "full", "north": "no_zone"}
    assert found.unplaced == {}, "they are answered meanwhile"
    again = decide(found.agreement, view(offers))
    assert (again.agreement, again.waiting) == (found.agreement, found.waiting), "one under way"


def test_an_answer_counts_only_for_the_cameras_that_were_counted_with_it() -> None:
    yard = replace(camera("b1"), id="yard")
    both = agreement(camera("b1"), yard)
    only = {"b1": "lost", "b3": "lost"}
    alone = {(c, "b2"): YES for c in ("gate", "yard")}
    first = decide(both, view(alone, **only))  # type: ignore[arg-type]
    assert [(c.id, c.owner) for c in first.agreement.cameras] == [("gate", "b2"), ("yard", "b1")]
    assert first.ask == (("yard", "b2"),), "it answered for the yard alone"
    full = alone | {("yard", "b2"): BoxOffer(False, beside=frozenset({"gate"}))}
    assert decide(first.agreement, view(full, **only)).unplaced == {"yard": "full"}  # type: ignore[arg-type]
    room = alone | {("yard", "b2"): BoxOffer(True, beside=frozenset({"gate", "north"}))}
    second = decide(first.agreement, view(room, **only)).agreement  # type: ignore[arg-type]
    assert [c.owner for c in second.cameras] == ["b2", "b2"], "it fits beside more than there are"
    early = {("gate", "b2"): BoxOffer(False, beside=frozenset({"yard"}))}
    assert decide(both, view(early, **only)).ask == (("gate", "b2"), ("yard", "b2"))  # type: ignore[arg-type]


OFFERS = st.dictionaries(
    st.tuples(st.sampled_from(["c1", "c2", "c3", "c4"]), st.sampled_from(["b2", "b3"])),
    st.builds(BoxOffer, st.booleans()),
)


@given(OFFERS, st.sampled_from(["open", "silent", "lost"]))
def test_every_camera_of_a_drained_box_goes_waits_with_a_reason_or_is_asked_about(
    offers: dict[tuple[str, str], BoxOffer], third: BoxStatus
) -> None:
    names = ("c1", "c2", "c3", "c4")
    before = agreement(*(replace(camera("b1"), id=name) for name in names), drained="b1")
    seen = view(offers, b3=third)
    found = decide(before, seen)
    gone = {c.id for c in found.agreement.cameras if c.owner != "b1"}
    asked = {c for c, _ in found.ask}
    there = [b for b in ("b2", "b3") if seen.state(b) == "open"]
    fits = {n for n in names if n not in asked and any(offers[n, b].admitted for b in there)}
    assert len(gone) == min(1, len(fits)), "one at a time, and no camera stops the others"
    assert gone <= fits
    assert set(found.waiting) == set(names) - asked - fits


def test_a_box_works_as_the_agreement_asks() -> None:
    one, two = CameraEpoch(1, 1), CameraEpoch(2, 1)
    held, there = {"gate": CameraHolding(one)}, {"gate": "d1"}
    mine, theirs = agreement(camera("b1")), agreement(camera("b2", epoch=two))
    assert work_of_box(mine, "b1", {}, there) == (HoldCamera("gate", one),)
    assert work_of_box(mine, "b1", {}, {}) == (StartCamera(camera("b1")),)
    assert work_of_box(mine, "b1", held, {}) == (CameraRemoved("gate", one),)
    assert work_of_box(mine, "b1", held, there) == ()
    assert work_of_box(theirs, "b1", held, there) == (StopCamera("gate", one, two),)
    assert work_of_box(theirs, "b1", {}, there) == (), "a camera of its own is left alone"
    coming = agreement(camera("b2", epoch=two, previous="b1", answered=False))
    assert work_of_box(coming, "b1", held, there) == (), "it goes on until the other one answers"
    assert work_of_box(coming, "b3", held, there) == (StopCamera("gate", one, two),)
    stale = work_of_box(coming, "b2", held, {"gate": "older"})
    assert stale == (StartCamera(coming.cameras[0], again=True),)


def test_a_box_that_died_while_it_started_or_stopped_a_camera_knows_its_copy() -> None:
    one, two = CameraEpoch(1, 1), CameraEpoch(2, 1)
    begun, stopped, there = (
        {"gate": CameraHolding(two, "begun")},
        {"gate": CameraHolding(one, "stopped")},
        {"gate": "d1"},
    )
    mine = agreement(camera("b2", epoch=two, previous="b1", answered=False))
    assert work_of_box(mine, "b2", begun, there) == (HoldCamera("gate", two),)
    assert work_of_box(mine, "b2", begun, {}) == (StartCamera(mine.cameras[0]),), "it was not removed: it never was"
    assert work_of_box(mine, "b2", begun, {"gate": "older"}) == (StartCamera(mine.cameras[0], again=True),)
    elsewhere = agreement(camera("b1", epoch=CameraEpoch(3, 1)))
    assert work_of_box(elsewhere, "b2", begun, there) == (StopCamera("gate", two, CameraEpoch(3, 1)),)
    assert work_of_box(elsewhere, "b2", begun, {}) == ()
    # A head that is new has an older list: the copy was stopped then because another box had a higher epoch.
    older = agreement(camera("b1"))
    assert work_of_box(older, "b1", stopped, {}) == (StartCamera(older.cameras[0]),)
    assert work_of_box(older, "b1", stopped, there) == (HoldCamera("gate", one),)


def test_members_that_leave_take_their_cameras_and_those_put_out_do_not() -> None:
    both = agreement(camera("b1"), replace(camera("b2", previous="b1", answered=False), id="yard"))
    left = with_members(both, both.members[1:], 2)
    assert [(c.id, c.previous) for c in left.cameras] == [("yard", None)]
    out = with_members(both, both.members[1:], 2, "serial")
    assert [c.id for c in out.cameras] == ["gate", "yard"]
    assert out.revoked == ("serial",)
    later = with_members(out, out.members[:1], 2)
    assert [c.id for c in later.cameras] == ["gate", "yard"], "it still waits for a box, also after another left"


class SimulatedFleet:
    """Boxes that do as the agreement asks, sometimes late, killed (between two steps of a start, too), cut off or
    healed; one head that hears some, and sometimes a new one with an older list."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.known = {b: agreement() for b in BOXES}
        self.agreement = agreement()
        self.term = 1
        self.held: dict[str, dict[str, CameraHolding]] = {b: {} for b in BOXES}
        self.present: dict[str, set[str]] = {b: set() for b in BOXES}
        self.present["b1"], self.present["b2"] = {"gate"}, {"yard"}
        self.reach = dict.fromkeys(BOXES, True)
        self.alive = dict.fromkeys(BOXES, True)
        self.settling = False

    def step(self) -> None:
        if self.chance.random() < 0.2:
            box = self.chance.choice(BOXES)
            self.reach[box] = not self.reach[box]
        if self.chance.random() < 0.1:
            box = self.chance.choice(BOXES)
            self.alive[box] = not self.alive[box]
        if self.chance.random() < 0.1:
            self.term, self.agreement = self.term + 1, self.known[self.chance.choice(BOXES)]
        self.decide()
        for box in BOXES:
            if self.alive[box] and self.reach[box] and self.chance.random() < 0.8:
                self.known[box] = self.agreement
                self.work(box)

    def decide(self) -> None:
        reports = {}
        for box in BOXES:
            seen = self.alive[box] and self.reach[box]
            cameras = tuple(self.row(box, name) for name in sorted(self.present[box])) if seen else ()
            reports[box] = BoxReport("open" if seen else "lost", cameras)
        offers = {(c, b): YES for c in ("gate", "yard") for b in BOXES}
        self.agreement = decide(self.agreement, OwnershipView(self.term, 0.0, reports, {}, offers)).agreement
        self.agreement = heard_out(self.agreement, self.term)

    def row(self, box: str, name: str) -> CameraOnBox:
        held = self.held[box].get(name)
        return CameraOnBox(name, held and held.epoch, True, "d", "s", "", {"id": name})

    def work(self, box: str) -> None:
        for work in work_of_box(self.known[box], box, self.held[box], dict.fromkeys(self.present[box], "d")):
            match work:
                case HoldCamera(name, epoch):
                    self.held[box][name] = CameraHolding(epoch)
                case StartCamera(started):
                    self.held[box][started.id] = CameraHolding(started.epoch, "begun")
                    if not self.dies(box):
                        self.present[box].add(started.id)
                        if not self.dies(box):
                            self.held[box][started.id] = CameraHolding(started.epoch)
                case StopCamera(name, ours):
                    self.present[box].discard(name)
                    self.held[box][name] = CameraHolding(ours, "stopped")
                case CameraRemoved():
                    raise AssertionError("no camera was removed")

    def dies(self, box: str) -> bool:
        if self.chance.random() < 0.1 and not self.settling:
            self.alive[box] = False
        return not self.alive[box]

    def check(self) -> None:
        """A camera that a box answers goes on somewhere unless that box died; owners have distinct epochs."""
        for name in ("gate", "yard"):
            epochs = [self.held[b][name].epoch for b in BOXES if name in self.present[b] and name in self.held[b]]
            assert len(epochs) == len(set(epochs)), "two boxes with one epoch"

    def settle(self) -> None:
        self.reach, self.alive, self.settling = dict.fromkeys(BOXES, True), dict.fromkeys(BOXES, True), True
        for _ in range(8):
            self.decide()
            for box in BOXES:
                self.known[box] = self.agreement
                self.work(box)


@given(st.integers(0, 10**6))
@settings(max_examples=60)
def test_whatever_fails_each_camera_has_one_owner_when_all_boxes_are_back(seed: int) -> None:
    world = SimulatedFleet(seed)
    for _ in range(25):
        answered = {n for b in BOXES for n in world.present[b]}
        world.step()
        world.check()
        assert {n for b in BOXES for n in world.present[b]} == answered, "a camera that no box answers"
    world.settle()
    places = sorted((name, box) for box in BOXES for name in world.present[box])
    assert [name for name, _ in places] == ["gate", "yard"]
    assert places == [(c.id, c.owner) for c in world.agreement.cameras]

"""The head's duty: questions to admission, and the age of a box's answers."""

from __future__ import annotations

import pytest

from edge.core.clock import ManualClock
from edge.core.fleet_links import (
    LINK_RULES,
    AgreementVersion,
    BoxAdmissionAnswer,
    CameraEpoch,
    FleetAgreement,
    FleetBeat,
    FleetCamera,
    FleetMember,
)
from edge.fleet.head import HeadDuty

NAMES = tuple(f"c{n:02}" for n in range(40))
MEMBERS = tuple(FleetMember(b, f"https://{b}:8470", n, b) for n, b in enumerate(("b1", "b2", "b3")))
AGREED = FleetAgreement(
    AgreementVersion(1, 1), MEMBERS, tuple(FleetCamera(n, "b3", CameraEpoch(1, 1), None, True) for n in NAMES)
)


class SlowBoxes:
    """Boxes whose admission takes 0.8 s for each camera; `b2` may be away."""

    def __init__(self) -> None:
        self.clock, self.asked, self.away = ManualClock(), list[tuple[str, str]](), False
        #: b1 has room for so many cameras beside its own.
        self.room = len(NAMES)

    async def answer(self, box: str, camera: FleetCamera, coming: tuple[FleetCamera, ...]) -> BoxAdmissionAnswer | None:
        """Nothing fits on b2."""
        self.clock.advance(0.8)
        if box == "b1" and len({c.id for c in coming} - {camera.id}) >= self.room:
            return BoxAdmissionAnswer(0.0, {}, {camera.id: "full"})
        self.asked.append((camera.id, box))
        if box == "b2" and self.away:
            return None
        return BoxAdmissionAnswer(
            0.0, {camera.id: 0.5} if box == "b1" else {}, {} if box == "b1" else {camera.id: "full"}
        )


def duty(clock: ManualClock) -> HeadDuty:
    """A head whose box b3 is lost."""
    began_s = clock.monotonic()
    found = HeadDuty.begin(1, AGREED, began_s, {"b3": began_s - 2 * LINK_RULES.lease_s}, LINK_RULES)
    found.pass_time(AGREED, began_s)
    return found


async def test_the_cameras_of_a_big_dead_box_are_given_as_their_answers_come() -> None:
    boxes = SlowBoxes()
    head, agreed, rounds = duty(boxes.clock), AGREED, 0
    for name in ("b1", "b2"):
        head.hear(FleetBeat(name, 1, "boot"), boxes.clock.monotonic())
    left = len(NAMES)
    while left:
        found = head.decide(agreed, boxes.clock.monotonic())
        agreed = found.agreement
        for name in ("b1", "b2"):
            head.hear(FleetBeat(name, 1, "boot"), boxes.clock.monotonic())
        still = sum(c.owner == "b3" for c in agreed.cameras)
        assert still < left or not rounds, "each round gives some"
        left, rounds = still, rounds + 1
        await head.ask(found.ask, lambda now=agreed: now, boxes.answer, boxes.clock)
    assert {c.owner for c in agreed.cameras} == {"b1"}


@pytest.mark.parametrize("room", [1, 3])
async def test_a_box_gets_no_more_cameras_than_fit_together(room: int) -> None:
    boxes = SlowBoxes()
    boxes.room = room
    head, agreed = duty(boxes.clock), AGREED
    for _ in range(2 * len(NAMES)):
        for name in ("b1", "b2"):
            head.hear(FleetBeat(name, 1, "boot"), boxes.clock.monotonic())
        found = head.decide(agreed, boxes.clock.monotonic())
        agreed = found.agreement
        await head.ask(found.ask, lambda now=agreed: now, boxes.answer, boxes.clock)
    assert [c.id for c in agreed.cameras if c.owner == "b1"] == list(NAMES[:room])
    assert set(head.unplaced) == set(NAMES[room:]), "the others are told as not placed"


async def test_cameras_that_fit_nowhere_do_not_keep_others_from_being_asked_about() -> None:
    boxes = SlowBoxes()
    head = duty(boxes.clock)
    questions = [(name, "b2") for name in NAMES]
    for _ in range(len(NAMES)):
        before = len(boxes.asked)
        await head.ask(questions, lambda: AGREED, boxes.answer, boxes.clock)
        assert len(boxes.asked) - before == 4, "a round ends after 3 s: its answers are used first"
        if {c for c, _ in boxes.asked} == set(NAMES):
            break
    assert {c for c, _ in boxes.asked} == set(NAMES)
    assert len(boxes.asked) == len(NAMES), "each once, before one is asked about again"


async def test_a_box_that_does_not_answer_is_asked_once_and_refuses_for_a_while() -> None:
    boxes = SlowBoxes()
    boxes.away = True
    head = duty(boxes.clock)
    await head.ask([(name, "b2") for name in NAMES], lambda: AGREED, boxes.answer, boxes.clock)
    assert boxes.asked == [("c00", "b2")]
    assert {head.offers[name, "b2"][0].admitted for name in NAMES} == {False}


def test_a_box_counts_as_heard_when_its_appliance_answered_last() -> None:
    clock = ManualClock()
    head = HeadDuty.begin(1, AGREED, clock.monotonic(), {}, LINK_RULES)
    for _ in range(12):
        clock.advance(1.0)
        now_s = clock.monotonic()
        for name, age_s in (("b1", 0.2), ("b2", 2.0), ("b3", float(clock.monotonic()))):
            head.hear(FleetBeat(name, 1, "boot", appliance=age_s < LINK_RULES.lease_s, age_s=age_s), now_s)
        head.pass_time(AGREED, now_s)
    assert head.statuses() == {"b1": "open", "b2": "open", "b3": "lost"}

"""The matcher: no box is over-booked, all or nothing, names that come and go."""

from __future__ import annotations

import pytest
from examples_kit import tried
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from edge.core.errors import Conflict, InvalidValue, NotFound
from edge.core.fleet import UNBOUNDED
from scheduler.fleet.matcher import FLEET, Matcher


def matcher_of(*amounts: float) -> Matcher:
    """Boxes b0, b1, ... with so many cores."""
    matcher = Matcher()
    for n, cpu in enumerate(amounts):
        matcher.add_box(f"b{n}", {"cpu": cpu})
    return matcher


def test_the_least_loaded_box_is_matched() -> None:
    matcher = matcher_of(4, 4)
    assert matcher.book("x", [("b0", {"cpu": 1})])
    assert matcher.match({"cpu": 4}) == "b1"
    assert matcher.match({"cpu": 5}) is None


def test_a_name_may_be_asked_for_before_it_exists() -> None:
    matcher = matcher_of(4, 4)
    demand = {"cpu": 1, "teacher:heavy": 2}
    assert matcher.match(demand) is None
    matcher.set_resource("teacher:heavy", 3, "b1")
    assert matcher.match(demand) == "b1"
    assert matcher.book("x", [("b1", demand)])
    assert matcher.match(demand) is None
    matcher.set_resource("teacher:heavy", 4, "b1")
    assert matcher.match(demand) == "b1"
    matcher.set_resource("teacher:heavy", 0, "b1")
    assert matcher.match(demand) is None
    assert matcher.held_beyond("teacher:heavy", "b1") == 2


def test_all_claims_are_booked_or_none() -> None:
    matcher = matcher_of(4, 1)
    assert not matcher.book("gang", [("b0", {"cpu": 1}), ("b1", {"cpu": 2})])
    assert matcher.status("b0") == {"cpu": (4, 4)}
    assert matcher.book("gang", [("b0", {"cpu": 1}), ("b1", {"cpu": 1})])
    assert matcher.match({"cpu": 4}) is None
    assert len(matcher.free("gang")) == 2
    assert matcher.match({"cpu": 4}) == "b0"


def test_a_closed_box_takes_nothing_and_a_box_that_began_anew_has_no_names() -> None:
    matcher = matcher_of(4)
    matcher.set_resource("at:a", UNBOUNDED, "b0")
    matcher.close("b0")
    assert matcher.match({"cpu": 1}) is None
    matcher.reopen("b0")
    assert matcher.match({"cpu": 1, "at:a": 1}) == "b0"
    matcher.forget_names("b0", {"cpu": 2})
    assert not matcher.exists("at:a")
    assert matcher.match({"cpu": 4}) is None


def test_misuse_is_refused() -> None:
    matcher = matcher_of(4)
    with pytest.raises(InvalidValue, match="by itself"):
        matcher.set_resource("cpu", 9, "b0")
    with pytest.raises(InvalidValue, match="capacity"):
        matcher.set_resource("at:a", -1, "b0")
    with pytest.raises(NotFound):
        matcher.set_resource("at:a", 1, "b9")
    with pytest.raises(Conflict):
        matcher.add_box("b0", {"cpu": 1})
    matcher.book("x", [("b0", {"cpu": 1})])
    with pytest.raises(Conflict):
        matcher.book("x", [("b0", {"cpu": 1})])
    with pytest.raises(Conflict):
        matcher.forget_names("b0", {"cpu": 1})
    with pytest.raises(NotFound):
        matcher.book("y", [("b0", {"cpu": 1}), ("b9", {"cpu": 1})])
    assert matcher.status("b0")["cpu"] == (4, 3)


@given(
    st.lists(st.integers(0, 6), min_size=1, max_size=5),
    st.integers(1, 3),
    st.integers(1, 8),
)
def test_the_count_is_what_can_be_booked(amounts: list[int], each: int, most: int) -> None:
    matcher = matcher_of(*amounts)
    for box in matcher.boxes:
        counted, booked = matcher.count(box, {"cpu": each}, most), 0
        while booked < most and matcher.book((box, booked), [(box, {"cpu": each})]):
            booked += 1
        assert booked == counted


class Machine(RuleBasedStateMachine):
    """Names come, change and go while holders come and go; a plain sum of all holdings is the truth."""

    def __init__(self) -> None:
        super().__init__()
        self.matcher = matcher_of(4, 2)
        self.made = {("b0", "cpu"): 4.0, ("b1", "cpu"): 2.0}
        self.held: dict[int, list[tuple[str, dict[str, float]]]] = {}
        self.number = 0

    holders = Bundle("holders")
    places = st.sampled_from(["b0", "b1", FLEET])

    def free(self, box: str, name: str) -> float:
        used = sum(demand.get(name, 0) for claims in self.held.values() for b, demand in claims if b == box)
        return self.made.get((box, name), 0.0) - used

    @rule(box=places, name=st.sampled_from(["x:1", "x:2"]), capacity=st.integers(0, 4))
    def set_resource(self, box: str, name: str, capacity: int) -> None:
        self.matcher.set_resource(name, capacity, box)
        self.made[(box, name)] = capacity

    @rule(
        target=holders,
        claims=st.lists(
            st.tuples(places, st.dictionaries(st.sampled_from(["cpu", "x:1", "x:2"]), st.integers(1, 3), max_size=3)),
            min_size=1,
            max_size=3,
        ),
    )
    def book(self, claims: list[tuple[str, dict[str, float]]]) -> int:
        self.number += 1
        trial = dict(self.held)
        possible = True
        for n, (box, demand) in enumerate(claims):
            possible = possible and all(self.free(box, name) >= amount - 1e-9 for name, amount in demand.items())
            self.held[-1 - n] = [(box, demand)]
        self.held = trial
        assert self.matcher.book(self.number, claims) == possible
        if possible:
            self.held[self.number] = claims
        return self.number

    @rule(holder=holders)
    def give_back(self, holder: int) -> None:
        assert list(self.matcher.free(holder)) == self.held.pop(holder, [])

    @invariant()
    def free_amounts_agree(self) -> None:
        for (box, name), made in self.made.items():
            if made and box != FLEET:
                assert self.matcher.status(box)[name] == pytest.approx((made, self.free(box, name)))


TestMachine = Machine.TestCase
TestMachine.settings = settings(max_examples=tried(10, 25), stateful_step_count=20, deadline=None)

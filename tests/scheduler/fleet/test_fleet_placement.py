"""Cameras on boxes: the largest sum of accuracies, by the boxes' own answers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.fleet import placement
from scheduler.fleet.placement import AskBox, BoxAnswer, place_cameras


def shared(capacity: dict[str, float], value: dict[str, float]) -> AskBox:
    """Boxes whose cameras share a capacity; none admits a camera that would get less than 0.2."""

    def ask(box: str, cameras: frozenset[str]) -> BoxAnswer:
        if not cameras:
            return BoxAnswer(0.0)
        each = min(1.0, capacity[box] / len(cameras))
        return BoxAnswer(None if each < 0.2 else sum(value[camera] * each**0.5 for camera in sorted(cameras)))

    return ask


def worth_by(ask: AskBox) -> placement.Worth:
    """The sum of what the boxes of a placement answer; None: one of them admits it not."""

    def worth(placed: Mapping[str, str]) -> float | None:
        sums = [ask(b, frozenset(c for c in placed if placed[c] == b)).accuracy for b in set(placed.values())]
        return None if None in sums else sum(s for s in sums if s is not None)

    return worth


def test_a_crowded_box_gives_way_to_an_idle_one() -> None:
    def ask(box: str, cameras: frozenset[str]) -> BoxAnswer:
        have = {"crowded": 2.0, "idle": 0.9}[box]
        lost = {"crowded": 0.3, "idle": 0.05}[box]
        return BoxAnswer(have + len(cameras) * (0.8 - lost))

    answer = place_cameras(["c"], {"c": ["crowded", "idle"]}, ask)
    assert answer.boxes == {"c": "idle"}
    assert answer.gain == pytest.approx(0.75)


def test_a_camera_without_a_box_has_a_reason() -> None:
    answer = place_cameras(["far", "heavy"], {"heavy": ["b"]}, lambda box, cameras: BoxAnswer(None if cameras else 0.0))
    assert answer.unplaced == {"far": "no_box_reaches", "heavy": "no_box_admits"}
    assert answer.boxes == {}


@given(
    st.dictionaries(st.sampled_from(["p", "q", "r"]), st.floats(0.2, 2.0), min_size=2, max_size=3),
    st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), st.floats(0.1, 1.0), min_size=1, max_size=4),
)
@settings(max_examples=40)
def test_few_are_all_tried_and_a_search_ends_where_no_move_helps(
    capacity: dict[str, float], value: dict[str, float]
) -> None:
    ask, reach = shared(capacity, value), {camera: sorted(capacity) for camera in value}

    worth = worth_by(ask)
    best = max(
        ((len(placed), gain) for boxes in itertools.product([*capacity, None], repeat=len(value))
         if (gain := worth(placed := {c: b for c, b in zip(sorted(value), boxes, strict=True) if b})) is not None),
    )  # fmt: skip
    exact = place_cameras(sorted(value), reach, ask)
    assert (len(exact.boxes), exact.gain) == pytest.approx(best)
    searched = placement._improve(placement._greedy(sorted(value), reach, worth), sorted(value), reach, worth)
    assert len(searched) == best[0]
    # It can end where only a change of three helps: how much is lost by that has no bound.
    neighbours = list(placement._neighbours(searched, sorted(value), reach))
    assert all((worth(other) or 0.0) <= (worth(searched) or 0.0) + 1e-6 for other in neighbours), "no change is left"
    moved = {c: b for c in searched for b in capacity if b != searched[c]}
    assert all({**searched, camera: box} in neighbours for camera, box in moved.items())


def test_a_search_places_the_better_one_of_two_cameras_that_do_not_fit_together() -> None:
    """One of three stays out on two boxes of one camera each: not the one that is worth most."""
    ask, reach = shared({"p": 0.25, "q": 0.25}, {"a": 0.5, "b": 0.125, "c": 1.0}), {key: ["p", "q"] for key in "abc"}

    worth = worth_by(ask)
    assert set(placement._improve({"a": "q", "b": "p"}, "abc", reach, worth)) == {"a", "c"}

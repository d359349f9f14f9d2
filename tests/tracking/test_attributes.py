"""Attributes of objects: which object a description is of, and votes over several answers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edge.core.application_sources import AttributeValue, DescribedObject
from edge.tracking import AttributeVotes, are_news, matched, with_description

LEFT, RIGHT = (0.1, 0.1, 0.3, 0.5), (0.6, 0.1, 0.8, 0.5)
RED = {"colour": AttributeValue("red", 0.9)}


def boxes() -> st.SearchStrategy[tuple[float, float, float, float]]:
    corner = st.floats(0.0, 0.8)
    side = st.floats(0.01, 0.2)
    return st.builds(lambda x, y, w, h: (x, y, x + w, y + h), corner, corner, side, side)


@given(st.lists(boxes(), max_size=8), st.lists(boxes(), max_size=8))
def test_each_object_has_at_most_one_description_and_each_description_one_object(
    places: list[tuple[float, float, float, float]], said: list[tuple[float, float, float, float]]
) -> None:
    described = [DescribedObject(box, {"n": AttributeValue(float(n))}) for n, box in enumerate(said)]
    found = matched(places, described)
    assert set(found) <= set(range(len(places)))
    numbers = [d.attributes["n"].value for d in found.values()]
    assert len(numbers) == len(set(numbers))
    for place in range(len(places)):
        if said.count(places[place]) and places.count(places[place]) == 1:
            assert place in found, "one at the very same place is found"


def test_a_description_of_another_place_is_of_no_object() -> None:
    moved = (0.12, 0.11, 0.32, 0.5)
    assert list(matched([RIGHT, LEFT], [DescribedObject(moved, RED)])) == [1]
    assert matched([RIGHT], [DescribedObject(moved, RED)]) == {}
    assert matched([], [DescribedObject(moved, RED)]) == {}
    assert matched([LEFT], []) == {}


def test_labels_are_voted_for_and_one_wrong_answer_changes_nothing() -> None:
    known = with_description({}, DescribedObject(LEFT, RED))
    for _ in range(3):
        known = with_description(known, DescribedObject(LEFT, RED))
    wrong = with_description(known, DescribedObject(LEFT, {"colour": AttributeValue("blue", 0.99)}))
    value = wrong["colour"].value
    assert (value.value, value.answers) == ("red", 5)
    assert value.score is not None
    assert known["colour"].value.score is not None
    assert value.score < known["colour"].value.score, "it is less sure"
    for _ in range(12):
        wrong = with_description(wrong, DescribedObject(LEFT, {"colour": AttributeValue("blue", 0.99)}))
    assert wrong["colour"].value.value == "blue", "in time the later ones count"


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 1)), min_size=1, max_size=30))
def test_scores_stay_scores(votes: list[tuple[str, float]]) -> None:
    made = AttributeVotes()
    for label, score in votes:
        made = made.with_value(AttributeValue(label, score))
    assert made.value.answers == len(votes)
    assert made.value.score is not None
    assert 0.0 <= made.value.score <= 1.0


def test_numbers_are_means_and_small_changes_are_no_news() -> None:
    made = AttributeVotes().with_value(AttributeValue(10.0)).with_value(AttributeValue(20.0))
    assert made.value == AttributeValue(15.0, None, 2)
    before = {"speed": AttributeValue(100.0)}
    assert not are_news(before, {"speed": AttributeValue(103.0)})
    assert are_news(before, {"speed": AttributeValue(120.0)})
    assert are_news({}, before)
    assert are_news(before, {"speed": AttributeValue("fast", 0.9)})
    assert not are_news(RED, {"colour": AttributeValue("red", 0.2, 9)}), "a score alone is none"

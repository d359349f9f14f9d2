"""Answers of people in the database: added, read in order, never changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edge.core.errors import InvalidValue
from edge.core.truth import Answer, FrameKey, Marked, Question
from edge.store.answers import AnswerRecord
from edge.store.store import Store

KEY = FrameKey(3, 7)
BOX = Answer(Question(KEY, "box", 0), "yes", "ann", 1000.0)
MISSED = Answer(Question(KEY, "missed"), "counted", "ann", 1001.0, 2, (Marked((0.1, 0.1, 0.2, 0.3), 1),))


def record(answer: Answer, camera: str = "gate") -> AnswerRecord:
    box = (0.25, 0.5, 0.375, 0.75) if answer.question.kind == "box" else None
    return AnswerRecord(camera, answer, ("car", "bus"), "car" if box else None, None, box, 640, 360)


def test_answers_come_back_as_they_were_given(store: Store) -> None:
    ids = store.answers.add_answers([record(BOX), record(MISSED), record(BOX, "yard")])
    assert list(ids) == sorted(ids)
    first, second = store.answers.page("gate")
    assert first == replace(record(BOX), id=ids[0], classes=())
    assert (second.answer.missed, second.to_json()["marked"]) == (2, [{"box": [0.1, 0.1, 0.2, 0.3], "class": "bus"}])
    assert store.answers.page("gate", window=4) == ()
    assert [a.camera for a in store.answers.page(after=ids[1])] == ["yard"]
    assert store.answers.all_answers("gate") == store.answers.page("gate")
    assert store.answers.last_answers() == {"gate": ids[1], "yard": ids[2]}


def test_a_second_answer_is_a_second_row(store: Store) -> None:
    store.answers.add_answers([record(BOX)])
    store.answers.add_answers([record(replace(BOX, verdict="no", by="bob", utc_s=1002.0))])
    store.answers.add_answers([record(replace(BOX, verdict="no", utc_s=1003.0))])
    assert [(a.answer.by, a.answer.verdict) for a in store.answers.page()] == [
        ("ann", "yes"),
        ("bob", "no"),
        ("ann", "no"),
    ]


def test_an_answer_keeps_its_author_and_its_importer(store: Store) -> None:
    brought = replace(BOX, source="import", imported_by="b" * 512)
    store.answers.add_answers([record(brought), record(BOX)])
    assert [a.answer for a in store.answers.page()] == [brought, BOX]
    assert [a.to_json()["imported_by"] for a in store.answers.page()] == ["b" * 512, None]
    for name in ("", "b" * 513):
        with pytest.raises(InvalidValue, match=r"answer\.imported_by"):
            record(replace(brought, imported_by=name))


def test_nothing_is_kept_of_a_list_with_one_wrong_answer(store: Store) -> None:
    with pytest.raises(InvalidValue, match=r"answer\.camera"):
        store.answers.add_answers([record(BOX), record(BOX, "")])
    with pytest.raises(InvalidValue, match="class_index"):
        AnswerRecord("gate", MISSED, ("car",))
    assert store.answers.page() == ()

"""Sentences of notes, also of those that earlier versions kept."""

from __future__ import annotations

from edge.core.capacity_notes import CapacityNote

OLD = {"answers": 2.0, "error": 1.2, "held": 83.0, "wider": 0.5}


def test_a_note_about_past_answers_of_an_earlier_version_has_its_sentence() -> None:
    old = CapacityNote("past", numbers=OLD)
    assert old.of_all is not None
    assert old.of_all.endswith("intervals are 0.5 points wider to each side")
    new = CapacityNote("past", numbers=OLD | {"learned": 1.0, "bias": -0.8, "unsure": 0.4})
    assert new.of_all is not None
    assert "as 1 of these changes were off, answers are moved by -0.8 points" in new.of_all
    assert CapacityNote("past", numbers=OLD | {"bias": -0.8}).of_all == old.of_all


def test_a_trend_that_falls_is_no_learning() -> None:
    rises, falls = (CapacityNote("trend", "gate", numbers={"points": p}).words for p in (1.2, -1.2))
    assert "gate: +1.2 points" in rises
    assert "goes on learning" in rises
    assert "gate: -1.2 points" in falls
    assert "goes on losing" in falls
    assert "learning" not in falls

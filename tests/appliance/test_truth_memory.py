"""Memory of estimates by people's answers: bounded, however many windows they answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from truth_kit import CLASSES, street

from edge.appliance.truth import MAX_WINDOWS, Truth
from edge.core.clock import SystemClock
from edge.core.truth import Answer, FrameKey, Question
from edge.store.answers import AnswerRecord


@dataclass
class Answers:
    """The answers of one camera that are kept."""

    records: list[AnswerRecord] = field(default_factory=list)

    def add(self, window: int) -> None:
        """One answer about a window."""
        answer = Answer(Question(FrameKey(window, 1), "box", 0), "yes", "ann", float(window))
        self.records.append(AnswerRecord("north", answer, CLASSES, id=window))

    def all_answers(self, camera: str) -> tuple[AnswerRecord, ...]:
        return tuple(self.records)

    def last_answers(self) -> dict[str, int]:
        return {"north": self.records[-1].id}


def test_estimates_of_windows_that_are_shown_no_more_are_forgotten(tmp_path: Path) -> None:
    answers = Answers()
    truth = Truth(answers, tmp_path, SystemClock(), lambda camera: None, lambda finding: None)  # type: ignore[arg-type]
    for window in range(1, MAX_WINDOWS + 5):
        street(tmp_path, window, frames=3)
        answers.add(window)
        truth.latest(["north"])
    assert sorted(window for _, window in truth._estimates) == list(range(5, MAX_WINDOWS + 5))

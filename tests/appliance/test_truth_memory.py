"""Memory of what people's answers say: bounded, however many windows they answer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edge.appliance import truth as module
from edge.appliance.truth import MAX_WINDOWS, Truth
from edge.core.clock import SystemClock


@dataclass
class Answered:
    """Answers of one camera: one in each window, from 1 to `last`."""

    last: int = 0

    def all_answers(self, camera: str) -> list[Any]:
        return [SimpleNamespace(id=n, answer=_answer(n)) for n in range(1, self.last + 1)]


def _answer(window: int) -> Any:
    return SimpleNamespace(question=SimpleNamespace(key=SimpleNamespace(window=window)))


def test_estimates_of_windows_that_are_shown_no_more_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = SimpleNamespace(population=None, frames=(), agreed={}, known={})
    monkeypatch.setattr(module, "true_accuracy", lambda *_: None)
    monkeypatch.setattr(Truth, "_asked", lambda *_: asked)
    answers = Answered()
    truth = Truth(answers, tmp_path, SystemClock(), lambda camera: None, lambda finding: None)  # type: ignore[arg-type]
    for _ in range(200):
        answers.last += 1
        for camera in ("north", "south"):
            assert [window for window, _ in truth._history(camera)][0] == answers.last
    assert len(truth._estimates) == 2 * MAX_WINDOWS

"""A student is switched between two frames: confirmed by its first answer, with the gap; refused with the reason."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from edge.core.errors import WeightsError
from edge.runtime import messages as m
from edge.runtime.hot_swap import HotSwap

#: After every order of these tests, on the clock that the swap reads.
LATER_S = 1e9


class FakeStudents:
    """Loads each student as ordered, and keeps what came into force."""

    def __init__(self) -> None:
        self.unreadable = self.unfit = False
        self.in_force: list[str] = []

    def prepare(self, path: Path) -> str:
        if self.unreadable:
            raise WeightsError("no weights here")
        return path.name

    def swap(self, student: str, version: str) -> None:
        if self.unfit:
            raise WeightsError("other classes")
        self.in_force.append(f"{version} of {student}")


class Swapping:
    """A swap, and all that it sent."""

    def __init__(self) -> None:
        self.students, self.sent, self.live = FakeStudents(), list[Any](), True
        self.swap = HotSwap(self.students, self.sent.append, lambda: self.live)  # type: ignore[arg-type]

    def order(self, version: str = "v2") -> None:
        """Order a swap, and wait until its student is loaded or refused."""
        self.swap.begin(m.Swap(version, Path("weights.pt")))
        for thread in threading.enumerate():
            if thread.name == f"load-{version}":
                thread.join(30)


def test_the_first_answer_of_the_new_student_ends_the_swap() -> None:
    s = Swapping()
    s.order()
    assert s.students.in_force == [], "not before the worker says so"
    assert s.swap.under_way
    s.swap.switch_if_ready()
    assert s.students.in_force == ["v2 of weights.pt"]
    assert s.sent == []
    s.swap.answered("v1", LATER_S)
    assert s.sent == []
    s.swap.answered("v2", LATER_S + 0.5)
    (message,) = s.sent
    assert (message.version, message.frames_lost) == ("v2", 0)
    assert not s.swap.under_way
    s.swap.answered("v2", LATER_S + 9)
    assert len(s.sent) == 1


def test_gaps_between_answers_are_what_counts() -> None:
    s = Swapping()
    s.order()
    began_s = time.monotonic()
    s.swap.answered("v1", began_s)
    s.swap.answered("v1", began_s + 4000.0)
    s.swap.switch_if_ready()
    s.swap.answered("v2", began_s + 4001.0)
    (message,) = s.sent
    assert message.gap_s == pytest.approx(4000.0), "the longest"


def test_without_frames_the_new_student_simply_is_in_force() -> None:
    s = Swapping()
    s.live = False
    s.order()
    s.swap.switch_if_ready()
    assert s.sent == [m.Swapped("v2", 0.0, 0)]
    assert not s.swap.under_way


def test_a_student_that_cannot_be_loaded_is_reported_once() -> None:
    s = Swapping()
    s.students.unreadable = True
    s.order()
    s.swap.switch_if_ready()
    s.swap.switch_if_ready()
    assert s.sent == [m.SwapFailed("v2", "no weights here")]
    assert (s.students.in_force, s.swap.under_way) == ([], False)


def test_a_student_that_does_not_fit_is_reported() -> None:
    s = Swapping()
    s.students.unfit = True
    s.order()
    s.swap.switch_if_ready()
    assert s.sent == [m.SwapFailed("v2", "other classes")]
    assert not s.swap.under_way

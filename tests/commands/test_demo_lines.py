"""Lines that the demo prints of journal entries."""

from __future__ import annotations

import pytest

from edge.commands.demo import _cause


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"cause": "its inference was measured", "cause_camera": "north"}, "north: its inference was measured"),
        ({"cause": "labels and profiles are in", "cause_camera": None}, "labels and profiles are in"),
    ],
)
def test_a_plans_cause_stands_behind_its_camera(data: dict[str, str | None], words: str) -> None:
    assert _cause(data) == words

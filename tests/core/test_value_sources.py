"""The text of a value's source, as descriptions of applications have it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.applications import ValueSource


@given(st.text() | st.text(".ab"))
def test_a_text_comes_back_as_it_was(text: str) -> None:
    assert ValueSource.from_text(text).text == text


@given(st.none() | st.text("ab_"), st.text("ab_"))
def test_a_source_comes_back_as_it_was(stage: str | None, tensor: str) -> None:
    source = ValueSource(stage, tensor)
    assert ValueSource.from_text(source.text) == source


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("picture", ValueSource(None, "picture")),
        ("find.boxes", ValueSource("find", "boxes")),
        ("find.boxes.0", ValueSource("find", "boxes.0")),  # a model's output may have dots, a stage has none
        ("find.", ValueSource("find", "")),
    ],
)
def test_the_first_dot_ends_the_stage(text: str, source: ValueSource) -> None:
    assert ValueSource.from_text(text) == source

"""The docs name just the pictures in docs/images, and `python -m benchmarks.make_screenshots` makes each anew."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.page_pictures import files

DOCS = Path(__file__).resolve().parents[2] / "docs"


def pictures() -> set[str]:
    return {file.name for file in (DOCS / "images").iterdir()}


def test_the_page_of_the_dashboard_names_every_picture_and_no_other() -> None:
    named = re.findall(r"\]\(images/([^)#]+)\)", (DOCS / "dashboard.md").read_text(encoding="utf-8"))
    assert set(named) == pictures()


def test_every_picture_is_of_a_page_that_can_be_taken_again() -> None:
    assert pictures() <= files()

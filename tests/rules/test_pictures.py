"""The pictures in docs/images are those that `python -m benchmarks.make_screenshots` makes, and the docs show each."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.page_pictures import files

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_every_page_has_its_pictures_and_there_are_no_others() -> None:
    made = {file.name for file in (DOCS / "images").iterdir()}
    assert made == files(), "python -m benchmarks.make_screenshots makes them"


def test_the_page_of_the_dashboard_shows_every_picture() -> None:
    named = re.findall(r"\]\(images/([^)#]+)\)", (DOCS / "dashboard.md").read_text(encoding="utf-8"))
    assert set(named) == files()

"""The pictures of the pages, as `python -m benchmarks.make_screenshots` makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("playwright.async_api")

from benchmarks.make_screenshots import shots

IMAGES = Path(__file__).resolve().parents[2] / "docs" / "images"


def test_every_page_has_its_pictures_and_there_are_no_others() -> None:
    wanted = set()
    for shot in shots(1):
        wanted |= {f"{shot.name}.png", f"{shot.name}-390.png", *([f"{shot.name}-dark.png"] if shot.dark else [])}
    assert {file.name for file in IMAGES.glob("*.png")} == wanted, "python -m benchmarks.make_screenshots makes them"

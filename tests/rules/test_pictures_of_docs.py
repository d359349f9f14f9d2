"""The docs name just the pictures in docs/images, and `python -m benchmarks.make_screenshots` makes each anew."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.page_pictures import files

DOCS = Path(__file__).resolve().parents[2] / "docs"


def pictures() -> set[str]:
    return {file.name for file in (DOCS / "images").iterdir()}


def test_the_page_of_the_dashboard_names_every_picture_and_no_other() -> None:
    named = re.findall(r"\]\(images/([^)#]+)\)", (DOCS / "dashboard.md").read_text(encoding="utf-8"))
    assert set(named) == pictures()


def test_every_picture_is_of_a_page_that_can_be_taken_again() -> None:
    assert pictures() <= files()


@pytest.mark.parametrize(("many", "colours"), [(10**9, 256), (0, 128)])
def test_a_picture_keeps_the_colours_of_the_page_apart_beside_pictures_of_cameras(many: int, colours: int) -> None:
    pytest.importorskip("playwright")
    image = pytest.importorskip("PIL.Image")
    from benchmarks.make_screenshots import page_colours, reduced

    classes = {(0x3D, 0xDB, 0xB8), (0xFF, 0xC1, 0x45), (0x7C, 0xC6, 0xFF), (0xB6, 0xF0, 0x5A)}
    assert classes <= page_colours()
    drawn = np.random.default_rng(0).integers(0, 60, (200, 300, 3), np.uint8)
    drawn[:60] = (12, 200, 180)  # not of the page, and common
    for n, colour in enumerate(sorted(classes)):
        drawn[100 + 10 * n, :20] = colour
    png = io.BytesIO()
    image.fromarray(drawn).save(png, "PNG")
    kept = np.asarray(image.open(io.BytesIO(reduced(png.getvalue(), many))).convert("RGB")).reshape(-1, 3)
    found = {tuple(colour) for colour in kept.tolist()}
    assert classes <= found
    assert len(found) <= colours

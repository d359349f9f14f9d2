"""A version says how it came about, from its record and not from its id."""

from __future__ import annotations

import pytest

from edge.core.configs import StudentSpec
from edge.core.models import DOWNLOAD, SIBLING, ModelVersion, VersionOrigin

SPEC = StudentSpec("classification", "resnet18", ("car",), (64, 64))


@pytest.mark.parametrize(
    ("window", "config", "origin"),
    [
        (None, None, "first"),
        (3, "all-e10-b8-d1-lr0.002", "retrained"),
        (None, SIBLING, "sibling"),
        (3, DOWNLOAD, "download"),
    ],
)
def test_the_origin_of_a_version(window: int | None, config: str | None, origin: VersionOrigin) -> None:
    # An id that says something else: it is not read.
    version = ModelVersion("north-first-sibling-w9-1", "north", "", SPEC, 1.0, window=window, config=config)
    assert version.origin == origin

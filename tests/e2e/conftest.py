"""A real appliance on real cameras: RTSP over sockets, H.264, torch students trained for real."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from edge.demo.cameras import PASSWORD_VARIABLE, USER, serve_cameras
from edge.demo.site import demo_site, scene_cameras
from edge.settings import SiteSettings

#: Small pictures, few a second: drawing, decoding and answering them costs little.
PICTURES = {"width": 256, "height": 144, "fps": 4.0}
#: Small enough for two shared cores; the demo itself uses more of everything.
SMALL = {
    "label_budget": 12, "golden_share": 0.2,
    "space": {"epochs": [2, 4], "layers": ["head"], "data_fractions": [1.0], "batch_sizes": [8]},
}  # fmt: skip


@pytest.fixture(scope="module")
def cameras(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[list[dict[str, Any]], int]]:
    """Two drawn street cameras, served for the whole module: (their descriptions, the port)."""
    described = [c | PICTURES for c in scene_cameras(2, seed=3, cycle_s=240.0)]
    with serve_cameras(described, tmp_path_factory.mktemp("cameras")) as port:
        yield described, port


@pytest.fixture
def site(cameras: tuple[list[dict[str, Any]], int], tmp_path: Path) -> Callable[..., SiteSettings]:
    """Makes the site of these cameras; keyword arguments override retraining settings."""

    def make(window_s: float = 20.0, task: str = "detection", **overrides: Any) -> SiteSettings:
        described, port = cameras
        return demo_site(
            described, f"rtsp://127.0.0.1:{port}", USER, f"env:{PASSWORD_VARIABLE}", tmp_path / "data",
            window_s=window_s, policy="relay", task=task, teacher=None, classes=(), class_map={}, port=0,
            overrides=SMALL | overrides,
        )  # fmt: skip

    return make

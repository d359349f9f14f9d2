"""Models that have only ever seen drawn streets, on a site with real cameras: the operator gets a notice."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from edge.runtime.camera import CameraRuntime
from edge.settings import SiteSettings

CODE = "drawn_models"


def drawn_models(site: SiteSettings, cameras: Iterable[CameraRuntime]) -> list[dict[str, Any]]:
    """Reasons for /readyz and the page; none on the demo's own streets."""
    if site.demo:
        return []
    cameras = list(cameras)
    out: list[dict[str, Any]] = []
    if cameras and not site.teacher:
        words = (
            "the golden model has only ever seen drawn streets: name a real one with `teacher:`, e.g. traffic_ensemble"
        )
        out.append({"code": CODE, "message": words})
    for camera in cameras:
        if camera.settings.task == "detection" and not camera.published and not camera.settings.student.weights:
            words = "its student did not begin as a real detector: set `student:`, e.g. yolox_nano"
            out.append({"code": CODE, "message": words, "camera": camera.id})
    return out

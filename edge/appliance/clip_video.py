"""How much of a camera's video is in memory now."""

from __future__ import annotations

from edge.core.clips import VideoNow
from edge.runtime.camera import CameraRuntime
from edge.settings import ClipSettings


def video_now(settings: ClipSettings, camera: CameraRuntime | None) -> VideoNow:
    """The seconds of a camera's video that are in memory, or why none are; None: there is no such camera."""
    if camera is None:
        return VideoNow(missing="camera_removed")
    if not (settings.enabled and camera.settings.clips.enabled):
        return VideoNow(missing="not_kept")
    if not camera.settings.enabled:
        return VideoNow(missing="camera_off")
    if camera.report is None or not camera.worker_up:
        return VideoNow(missing="camera_away")
    ring = camera.report.ring
    if ring is None or ring.seconds <= 0:
        return VideoNow(missing="no_video")
    return VideoNow(min(ring.seconds, settings.ring_s))

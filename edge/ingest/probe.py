"""One attempt to read a camera, for a connection test before it is added."""

from __future__ import annotations

import base64
from typing import Any

from edge.core.clock import Clock, SystemClock
from edge.detectors.pictures import jpeg_bytes
from edge.ingest.newest import RawFrame
from edge.ingest.reader import CameraReader
from edge.ingest.source import CameraSource

_PREVIEW_WIDTH = 640


def probe_camera(source: CameraSource, clock: Clock | None = None) -> dict[str, Any]:
    """Connect and wait for one picture, at most the stall time and 3 s. Blocks; raises nothing for a bad camera.

    {"ok", "width", "height", "codec", "fps", "seconds", "fault", "message", "picture": a JPEG in base64, at most 640
    pixels wide, or None}.
    """
    clock = clock or SystemClock()
    began = clock.monotonic()
    patience = source.stall_timeout_s + 3.0
    with CameraReader(source, clock=clock) as reader:
        raw = None
        while raw is None and clock.monotonic() - began < patience:
            raw = reader.latest(0, 0.2)
            if raw is None and reader.status().fault in ("refused", "not_found", "unsupported"):
                break
        status = reader.status()
        picture = None if raw is None else _preview(reader, raw)
    return {
        "ok": raw is not None,
        "width": 0 if raw is None else raw.width,
        "height": 0 if raw is None else raw.height,
        "codec": status.codec,
        "fps": status.fps,
        "seconds": round(clock.monotonic() - began, 2),
        "fault": status.fault if raw is None else None,
        "message": "a picture came" if raw is not None else status.message or "no picture came in time",
        "picture": picture,
    }


def _preview(reader: CameraReader, raw: RawFrame) -> str | None:
    width = min(_PREVIEW_WIDTH, raw.width)
    frame = reader.convert(raw, width, max(1, round(raw.height * width / raw.width)))
    jpeg = jpeg_bytes(frame.picture, 85)
    return None if jpeg is None else base64.b64encode(jpeg).decode()

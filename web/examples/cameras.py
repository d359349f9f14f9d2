"""Examples of cameras."""

from __future__ import annotations

from typing import Final

from web.examples.example import AT_UTC_S, Example

CAMERA_SETTINGS: Final[Example] = {
    "id": "junction-north",
    "name": "Junction, north side",
    "url": "rtsp://192.0.2.10:554/stream1",
    "username": "viewer",
    "password_from": "secret:junction",
    "task": "detection",
    "classes": ["car", "bus", "person"],
    "inference": {"frame_rates": [5, 2.5, 1], "resolutions": [1]},
    "retraining": {"enabled": True, "every_kth_window": 1},
}
CAMERA_STATE: Final[Example] = {
    "state": "live",
    "fault": None,
    "message": "",
    "since_utc_s": AT_UTC_S,
    "connection": {"retry_in_s": 0.0, "connects": 1, "stalls": 0, "attempts_hanging": 0},
    "stream": {
        "fps": 10.0,
        "delay_s": 0.21,
        "width": 1280,
        "height": 720,
        "codec": "h264",
        "frames_decoded": 8124,
        "frames_damaged": 0,
        "frames_replaced": 12,
        "packets_dropped": 0,
        "freezes": 0,
    },
    "model": {
        "student": "yolox_nano",
        "version": "junction-north-w3-2-1790000000",
        "origin": "retrained",
        "window": 3,
        "frozen_version": "junction-north-first-1789999000",
    },
    "inference": {
        "share": 0.15,
        "lambda": {"frame_rate": 5.0, "resolution": 1.0, "region": [0.0, 0.2, 1.0, 1.0], "shape": "camera"},
        "answers": 4060,
        "stale_answers": 3,
        "answers_per_s": 5.0,
        "inference_ms": 21.5,
    },
    "accuracy": {"realised": 0.71, "frozen": 0.52, "download": 0.62, "download_whole": 0.6},
    "recorder": "",
    "ring": {
        "codec": "h264",
        "seconds": 20.4,
        "bytes": 5_100_000,
        "begun_anew": 0,
        "shortened": 0,
        "packets_lost": 0,
    },
    "losses": {"frames_damaged": 0, "stalls": 0, "reconnects": 0, "samples_lost": 0},
}
CAMERA: Final[Example] = {"id": "junction-north", "settings": CAMERA_SETTINGS, "state": CAMERA_STATE}
CAMERA_TEST: Final[Example] = {
    "ok": True,
    "width": 1280,
    "height": 720,
    "fps": 10.0,
    "codec": "h264",
    "seconds": 1.2,
    "fault": None,
    "message": "a picture came",
    "picture": "/9j/4AAQSkZJRgABAQAAAQABAAD...",
}

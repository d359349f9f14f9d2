"""Examples of the search for cameras."""

from __future__ import annotations

from typing import Final

from web.examples.example import Example

SEARCH: Final[Example] = {
    "addresses": [],
    "network": "192.0.2.0/24",
    "username": "viewer",
    "password_from": "secret:cameras",
    "fps": 5.0,
    "task": "detection",
    "student": {"model": "yolox_nano"},
    "shape": "camera",
}
_MAIN: Final[Example] = {
    "token": "profile_1",
    "name": "mainStream",
    "codec": "h265",
    "width": 3840,
    "height": 2160,
    "fps": 25.0,
    "bitrate_kbps": 8192,
    "url": "rtsp://192.0.2.10:554/Streaming/Channels/101",
    "verdict": "dearer",
}
_SUB: Final[Example] = _MAIN | {
    "token": "profile_2",
    "name": "subStream",
    "codec": "h264",
    "width": 704,
    "height": 576,
    "fps": 15.0,
    "bitrate_kbps": 512,
    "url": "rtsp://192.0.2.10:554/Streaming/Channels/102",
    "verdict": "proposed",
}
FOUND: Final[Example] = {
    "cameras": [
        {
            "address": "192.0.2.10",
            "name": "Yard gate",
            "hardware": "Heron H-2",
            "fault": None,
            "elsewhere": "",
            "streams": [_MAIN, _SUB],
            "streams_lost": 0,
        },
        {
            "address": "192.0.2.11:8080",
            "name": "Ramp",
            "hardware": "H-2",
            "fault": "refused",
            "elsewhere": "",
            "streams": [],
            "streams_lost": 0,
        },
    ],
    "need": {
        "width": 416,
        "height": 416,
        "fps": 5.0,
        "fixed": False,
        "source": "camera",
        "student": "yolox_nano",
        "unread": "",
    },
    "outside": 0,
    "unreadable": 0,
    "over": 0,
}

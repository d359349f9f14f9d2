"""Pictures as JPEG: read back whole or not at all, and written; pictures of others decoded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

_START, _END = b"\xff\xd8", b"\xff\xd9"


def read_picture(path: Path) -> NDArray[np.uint8] | None:
    """A JPEG file as uint8 RGB (H, W, 3); None if it is missing, cut off or damaged."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    return read_jpeg(data)


def read_jpeg(data: bytes) -> NDArray[np.uint8] | None:
    """A JPEG as uint8 RGB (H, W, 3); None if it is cut off or damaged."""
    # OpenCV fills the rest of a cut-off picture with grey and says nothing.
    if not data.startswith(_START) or not data.rstrip(b"\0").endswith(_END):
        return None
    return decoded(data)


def decoded(data: bytes) -> NDArray[np.uint8] | None:
    """A JPEG or PNG as uint8 RGB (H, W, 3), a cut-off one as far as it goes; None if it cannot be decoded."""
    try:
        picture = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if data else None
    except cv2.error:
        return None
    return None if picture is None else np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2RGB), np.uint8)


def jpeg_bytes(picture: NDArray[Any], quality: int = 95) -> bytes | None:
    """A uint8 RGB picture (H, W, 3) as JPEG of `quality` 0-100; None if it cannot be encoded."""
    try:
        good, data = cv2.imencode(".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality])
    except cv2.error:
        return None
    return data.tobytes() if good else None

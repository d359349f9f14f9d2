"""Small clips and waiting, for the tests of cameras."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
from numpy.typing import NDArray

from benchmarks.waiting import PATIENCE_S

WIDTH, HEIGHT, FPS = 320, 180, 15


def scene(t: float, width: int = WIDTH, height: int = HEIGHT) -> NDArray[np.uint8]:
    """A picture with a texture and a ball that moves; uint8 RGB."""
    rows, columns = np.mgrid[0:height, 0:width]
    picture = np.stack([(columns * 3) % 200, (rows * 5) % 200, (rows + columns) % 200], 2).astype(np.uint8)
    centre = (int(width * (0.5 + 0.4 * np.sin(3 * t))), height // 2)
    cv2.circle(picture, centre, height // 6, (250, 40, 20), -1)
    return picture


def still(t: float) -> NDArray[np.uint8]:
    """The same picture at all times."""
    return scene(0.0)


def make_clip(
    path: Path, codec: str = "libx264", seconds: float = 2.0, fps: int = FPS, gop: int = FPS, size=(WIDTH, HEIGHT)
) -> Path:
    """Encode `scene` with one thread, a key frame every `gop` pictures, no B frames."""
    options = {
        "libx264": {"preset": "ultrafast", "tune": "zerolatency"},
        "libx265": {"preset": "ultrafast", "tune": "zerolatency", "x265-params": "log-level=none:pools=1"},
    }
    with av.open(str(path), "w") as out:
        stream = out.add_stream(codec, rate=fps, options=options.get(codec, {}))
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        stream.gop_size, stream.codec_context.max_b_frames = gop, 0
        stream.codec_context.thread_count = 1
        stream.codec_context.time_base = Fraction(1, fps)
        for n in range(round(seconds * fps)):
            frame = av.VideoFrame.from_ndarray(scene(n / fps, *size), format="rgb24")
            frame.pts = n
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return path


@dataclass(frozen=True)
class Clips:
    """Paths of the clips that tests share."""

    h264: Path
    h265: Path
    mpeg4: Path
    long_gop: Path
    h264_small: Path
    stills: Path


def make_clips(folder: Path) -> Clips:
    """All clips, in about a second."""
    stills = folder / "stills"
    stills.mkdir()
    for n in range(3):
        cv2.imwrite(str(stills / f"p{n}.png"), np.full((90, 160, 3), 40 + 80 * n, np.uint8))
    (stills / "notes.txt").write_text("not a picture")
    return Clips(
        make_clip(folder / "a.mp4"),
        make_clip(folder / "b.mp4", "libx265"),
        make_clip(folder / "c.avi", "mpeg4"),
        make_clip(folder / "d.mp4", seconds=6.0, gop=600),
        make_clip(folder / "e.mp4", seconds=1.0, size=(160, 96)),
        stills,
    )


def wait_for(condition: Callable[[], object], timeout_s: float = PATIENCE_S) -> bool:
    """Poll until `condition` holds; False when it does not within `timeout_s`."""
    ends = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > ends:
            return False
        time.sleep(0.01)
    return True

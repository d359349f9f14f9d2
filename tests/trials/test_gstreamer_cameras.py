"""Cameras of GStreamer's RTSP server: H.264 and motion JPEG whose size and rate change in mid-stream."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from benchmarks.waiting import PATIENCE_S
from edge.ingest.newest import RawFrame
from edge.ingest.reader import CameraReader
from edge.ingest.source import CameraSource

pytestmark = pytest.mark.timeout(300)

SCRIPT = Path(__file__).with_name("gstreamer_server.py")
PYTHON = "/usr/bin/python3"  # that of the system has GStreamer's bindings
#: Ends with what is missing, in words.
CHECK = """import sys
try:
    import gi
    gi.require_version("GstRtspServer", "1.0")
    from gi.repository import Gst, GstRtspServer
except (ImportError, ValueError) as error:
    sys.exit(str(error))
Gst.init(None)
elements = ("videotestsrc", "capsfilter", "x264enc", "rtph264pay", "jpegenc", "rtpjpegpay")
sys.exit(", ".join(e for e in elements if Gst.ElementFactory.find(e) is None) or None)
"""


class Server:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._orders = process.stdin
        self.port = int(process.stdout.readline())

    def order(self, line: str) -> None:
        self._orders.write(line + "\n")
        self._orders.flush()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    if not Path(PYTHON).exists():
        pytest.skip(f"GStreamer is not installed: there is no {PYTHON}")
    missing = subprocess.run([PYTHON, "-c", CHECK], capture_output=True, text=True, check=False)
    if missing.returncode != 0:
        reason = (missing.stderr.strip().splitlines() or [f"exit status {missing.returncode}"])[-1]
        pytest.skip(f"GStreamer's RTSP server, its Python bindings or its plugins are not installed: {reason}")
    process = subprocess.Popen([PYTHON, str(SCRIPT)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield Server(process)
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def read_until(reader: CameraReader, condition: Callable[[list[RawFrame]], bool], what: str) -> list[RawFrame]:
    """Frames until the condition holds of those read."""
    read: list[RawFrame] = []
    for _ in range(200):
        raw = reader.latest(read[-1].number if read else 0, PATIENCE_S)
        assert raw is not None, (what, reader.status())
        read.append(raw)
        if condition(read):
            return read
    pytest.fail(f"not within 200 frames: {what}; {reader.status()}")


def periods_s(frames: list[RawFrame]) -> list[float]:
    return [b.monotonic_s - a.monotonic_s for a, b in itertools.pairwise(frames)]


@pytest.mark.parametrize(("mount", "codec"), [("h264", "h264"), ("mjpeg", "mjpeg")])
def test_size_and_rate_change_in_mid_stream(server: Server, mount: str, codec: str) -> None:
    # A busy machine may pause the stream; here a stall is a pause of a minute.
    source = CameraSource("gst", f"rtsp://127.0.0.1:{server.port}/{mount}", stall_timeout_s=60.0)
    with CameraReader(source) as reader:
        read_until(reader, lambda read: len(read) > 10, "it answers")
        assert reader.status().codec == codec
        server.order("size 480x272")
        read_until(reader, lambda read: reader.convert(read[-1]).picture.shape == (272, 480, 3), "smaller pictures")
        assert (reader.status().width, reader.status().height) == (480, 272)
        server.order("rate 5")
        slow = read_until(
            reader, lambda read: len(read) > 4 and min(periods_s(read[-4:])) > 0.15, "five pictures a second"
        )
        assert all(later > earlier for earlier, later in itertools.pairwise(f.monotonic_s for f in slow))
        status = reader.status()
        assert (status.connects, status.stalls, status.frames_damaged) == (1, 0, 0), "the connection was kept"
        assert status.state == "live"

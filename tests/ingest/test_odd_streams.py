"""Cameras and files whose times, sizes and rates are not what one expects; real streams of real encoders."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import av
import pytest
from video_clips import HEIGHT, WIDTH, make_clip, scene

from edge.core.clock import SystemClock
from edge.demo.rtsp_server import RtspServer
from edge.demo.video_sources import AccessUnit, FileSource, VideoFormat, VideoSource
from edge.ingest.newest import RawFrame
from edge.ingest.reader import CameraReader
from edge.ingest.source import CameraSource
from edge.ingest.streams import FileStream
from edge.ingest.timing import CaptureClock, FrameTime

STAMPS: dict[str, Callable[[int, float], float]] = {
    "the same for all": lambda n, at_s: 0.0,
    "back by an hour": lambda n, at_s: at_s + (3600.0 if n < 20 else 0.0),
    "forward by an hour": lambda n, at_s: at_s + (0.0 if n < 20 else 3600.0),
    "three times too fast": lambda n, at_s: 3.0 * at_s,
    "to and fro": lambda n, at_s: at_s + (n // 10 % 2) * 2.0,
}


class Stamped(VideoSource):
    """A camera whose pictures are sent as they are due, and stamped otherwise."""

    def __init__(self, inner: VideoSource, stamp: Callable[[int, float], float]) -> None:
        self._inner, self._stamp = inner, stamp

    def describe(self) -> VideoFormat:
        return self._inner.describe()

    def units(self, start_s: float, elapsed: Callable[[], float], stop: threading.Event) -> Iterator[AccessUnit]:
        for n, unit in enumerate(self._inner.units(start_s, elapsed, stop)):
            yield replace(unit, shown_s=self._stamp(n, unit.shown_s))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RtspServer]:
    folder = tmp_path_factory.mktemp("odd")
    clip = make_clip(folder / "a.mp4", seconds=1.0)
    cameras: dict[str, VideoSource] = {
        str(n): Stamped(FileSource(clip), stamp) for n, stamp in enumerate(STAMPS.values())
    }
    small = make_clip(folder / "small.mp4", seconds=1.0, size=(160, 96), fps=5, gop=5)
    cameras["changes"] = FileSource(clip, small)
    with RtspServer("127.0.0.1", 0, cameras) as running:
        yield running


def read_until(reader: CameraReader, condition: Callable[[list[RawFrame]], bool]) -> list[RawFrame]:
    read: list[RawFrame] = []
    while not condition(read):
        raw = reader.latest(read[-1].number if read else 0, 15.0)
        assert raw is not None, reader.status()
        assert len(read) < 300, reader.status()
        read.append(raw)
    return read


@pytest.mark.parametrize("number", range(len(STAMPS)), ids=list(STAMPS))
def test_whatever_the_stamps_all_pictures_come_and_their_age_is_right(server: RtspServer, number: int) -> None:
    clock = SystemClock()
    with CameraReader(CameraSource("odd", server.url(str(number)))) as reader:
        ages: list[float] = []

        def old_enough(read: list[RawFrame]) -> bool:
            ages.extend([clock.utc() - read[-1].utc_s] if read else [])
            return reader.status().frames_decoded >= 45

        read = read_until(reader, old_enough)
        status = reader.status()
        assert (status.state, status.fault, status.connects, status.stalls) == ("live", None, 1, 0)
        assert status.frames_damaged == 0
        for before, after in itertools.pairwise(read):
            assert after.monotonic_s > before.monotonic_s
            assert after.utc_s > before.utc_s
        assert 5.0 < status.fps < 30.0, "the rate at which they come (15), whatever is stamped"
        if number == 0:
            assert sum(age > 1.5 for age in ages) <= len(ages) // 3, "of a clock that stands still nothing is taken"


def test_size_and_rate_change_in_mid_stream(server: RtspServer) -> None:
    with CameraReader(CameraSource("odd", server.url("changes"))) as reader:
        seen: list[tuple[int, int]] = []

        def both_twice(read: list[RawFrame]) -> bool:
            if read and (not seen or seen[-1] != (read[-1].width, read[-1].height)):
                seen.append((read[-1].width, read[-1].height))
                picture = reader.convert(read[-1]).picture
                assert picture.shape == (seen[-1][1], seen[-1][0], 3)
            return len(seen) >= 4

        read_until(reader, both_twice)
        assert set(seen) == {(WIDTH, HEIGHT), (160, 96)}
        status = reader.status()
        assert (status.connects, status.stalls, status.frames_damaged) == (1, 0, 0)
        assert (status.width, status.height) == seen[-1]


# -- files


def coded(path: Path, codec: str, form: str, fps: int, pictures: int, pixels: str = "yuv420p") -> Path:
    """A file of `form`; of raw forms it has no timestamps."""
    options = {"libx265": {"x265-params": "log-level=none:pools=1"}, "libx264": {"preset": "ultrafast"}}
    with av.open(str(path), "w", format=form) as out:
        stream = out.add_stream(codec, rate=fps, options=options.get(codec, {}))
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, pixels
        stream.codec_context.thread_count = 1
        for n in range(pictures):
            frame = av.VideoFrame.from_ndarray(scene(n / fps), format="rgb24")
            frame.pts = n
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return path


class Played:
    """A sink with a clock that only its waiting moves: when each picture was shown."""

    def __init__(self, most: int) -> None:
        self.now_s, self.most = 1000.0, most
        self.shown: list[tuple[float, int]] = []

    def monotonic(self) -> float:
        return self.now_s

    def utc(self) -> float:
        return 1.7e9 + self.now_s

    def local_minute(self) -> int:
        return 0

    def wanted(self) -> bool:
        return len(self.shown) < self.most

    def wait(self, seconds: float) -> bool:
        self.now_s += max(0.0, seconds)
        return self.wanted()

    def picture(self, picture: av.VideoFrame, at: FrameTime) -> None:
        self.shown.append((self.now_s - 1000.0, picture.width))

    def opened(self, codec: str) -> None:
        self.codec = codec

    def packet(self) -> None: ...

    def dropped(self) -> None: ...

    def damaged(self) -> None:
        raise AssertionError("nothing is damaged here")


def play(path: Path, pictures: int) -> Played:
    sink = Played(pictures)
    FileStream(CameraSource("file", path.as_uri()), sink, CaptureClock()).run(sink)
    return sink


def steps(sink: Played) -> list[float]:
    return [b - a for (a, _), (b, _) in itertools.pairwise(sink.shown)]


@pytest.mark.parametrize(("codec", "form"), [("libx264", "h264"), ("libx265", "hevc")])
def test_files_without_timestamps_are_played_at_the_rate_of_the_coded_stream(
    tmp_path: Path, codec: str, form: str
) -> None:
    sink = play(coded(tmp_path / f"raw.{form}", codec, form, 10, 20), 50)
    assert sink.codec == form
    assert steps(sink) == pytest.approx([0.1] * 49), "also from one round to the next"


def test_raw_motion_jpeg_has_no_rate_at_all_and_is_played_at_25(tmp_path: Path) -> None:
    sink = play(coded(tmp_path / "raw.mjpeg", "mjpeg", "mjpeg", 10, 12, "yuvj420p"), 30)
    assert sink.codec == "mjpeg"
    assert steps(sink) == pytest.approx([0.04] * 29)


def test_recordings_put_one_behind_another_are_played_through(tmp_path: Path) -> None:
    """The second begins at its own time 0 again, with another rate."""
    parts = [
        coded(tmp_path / f"{n}.ts", "libx264", "mpegts", fps, count).read_bytes()
        for n, (fps, count) in enumerate([(10, 40), (5, 10)])
    ]
    whole = tmp_path / "whole.ts"
    whole.write_bytes(b"".join(parts))
    found = steps(play(whole, 50))
    assert found[:39] == pytest.approx([0.1] * 39)
    assert 0.0 < found[39] < 1.0
    assert found[40:] == pytest.approx([0.2] * 9)

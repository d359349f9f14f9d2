"""Readers on real streams: real sockets, real H.264 and H.265."""

from __future__ import annotations

import asyncio
import itertools
import logging
import math
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from video_clips import FPS, HEIGHT, WIDTH, Clips, make_clips, scene, wait_for

from benchmarks.scripts import load_script
from benchmarks.waiting import PATIENCE_S
from edge.core.clock import SystemClock
from edge.core.errors import CameraError
from edge.demo.rtsp_server import RtspServer
from edge.demo.video_sources import FileSource, RenderedSource
from edge.ingest.newest import RawFrame
from edge.ingest.reader import CameraReader
from edge.ingest.source import CameraSource
from edge.ingest.streams import Picture, RtspStream
from edge.ingest.timing import CaptureClock, FrameTime

PASSWORD = "p@ss/w:ö rd%2F"


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Clips:
    return make_clips(tmp_path_factory.mktemp("clips"))


@dataclass(frozen=True)
class Instant:
    """Now, on both clocks."""

    monotonic_s: float
    utc_s: float

    @classmethod
    def now(cls) -> Instant:
        clock = SystemClock()
        return cls(clock.monotonic(), clock.utc())


@pytest.fixture(scope="module")
def before_any() -> Instant:
    """An instant before the cameras of `server` draw their first pictures."""
    return Instant.now()


@pytest.fixture(scope="module")
def server(clips: Clips, before_any: Instant) -> Iterator[RtspServer]:
    cameras = {"h264": FileSource(clips.h264), "h265": FileSource(clips.h265), "h264b": FileSource(clips.h264)}
    with RtspServer("127.0.0.1", 0, cameras, ("operator", PASSWORD)) as running:
        yield running


def frames(reader: CameraReader, count: int, timeout_s: float = 15.0) -> list[RawFrame]:
    """The next `count` frames that the slot gives."""
    out: list[RawFrame] = []
    while len(out) < count:
        raw = reader.latest(out[-1].number if out else 0, timeout_s)
        assert raw is not None, reader.status()
        out.append(raw)
    return out


def check_times(got: list[RawFrame], since: Instant) -> None:
    """Times go forward, and lie between the sender's start, or an instant before it, and now."""
    for before, after in itertools.pairwise(got):
        assert after.number > before.number
        assert after.monotonic_s > before.monotonic_s
        assert after.utc_s > before.utc_s
    now = Instant.now()
    assert since.monotonic_s <= got[0].monotonic_s <= got[-1].monotonic_s <= now.monotonic_s
    assert since.utc_s <= got[0].utc_s <= got[-1].utc_s <= now.utc_s


@pytest.mark.parametrize("transport", ["tcp", "udp"])
@pytest.mark.parametrize("codec", ["h264", "h265"])
def test_frames_come_over_every_transport_and_codec(
    server: RtspServer, before_any: Instant, transport: str, codec: str
) -> None:
    source = CameraSource("gate", server.url(codec, True), transport=transport)  # type: ignore[arg-type]
    opened = Instant.now()
    # However late a loaded machine is: the camera's clock is that of this machine.
    with CameraReader(source, capture=CaptureClock(tolerance_s=math.inf)) as reader:
        got = frames(reader, 10)
        check_times(got, before_any)
        status = reader.status()
        assert (status.state, status.fault, status.connects) == ("live", None, 1)
        assert (status.width, status.height) == (WIDTH, HEIGHT)
        assert status.codec == {"h264": "h264", "h265": "hevc"}[codec]
        # A picture is at most as old as the connection, and what the server kept for it before.
        longest_s = SystemClock().monotonic() - opened.monotonic_s + 5.0
        assert 0.0 < status.delay_s < longest_s, "the camera's wall clock is used"
        frame = reader.convert(got[-1], 64, 36)
        assert frame.picture.shape == (36, 64, 3)
        assert frame.utc_s == got[-1].utc_s
        # The picture is the clip's: its mean colour is that of the scene.
        assert np.abs(frame.picture.mean((0, 1)) - scene(0.0).mean((0, 1))).max() < 12
    assert reader.status().state == "stopped"


@pytest.mark.parametrize("scheme", ["basic", "digest"])
@pytest.mark.parametrize("where", ["url", "env", "file"])
def test_passwords_work_and_are_never_shown(
    clips: Clips, scheme: str, where: str, monkeypatch, tmp_path: Path, caplog
) -> None:
    caplog.set_level(logging.DEBUG)
    cameras = {"gate": FileSource(clips.h264)}
    with RtspServer("127.0.0.1", 0, cameras, ("operator", PASSWORD), scheme) as server:  # type: ignore[arg-type]
        monkeypatch.setenv("GATE_PASSWORD", PASSWORD)
        (tmp_path / "secrets").write_text(f"gate={PASSWORD}\n", encoding="utf-8")
        source = {
            "url": CameraSource("gate", server.url("gate", True)),
            "env": CameraSource("gate", server.url("gate"), username="operator", password_from="env:GATE_PASSWORD"),
            "file": CameraSource(
                "gate", server.url("gate"), username="operator", password_from=f"file:{tmp_path}/secrets#gate"
            ),
        }[where]
        with CameraReader(source) as reader:
            frames(reader, 2)
            server.kill_connections()
            assert wait_for(lambda: reader.status().connects >= 2)
            shown = f"{reader.status()} {source!r} {caplog.text}"
    assert PASSWORD not in shown
    assert "p%40ss" not in shown


def test_the_slot_keeps_the_newest_frame_and_counts_what_it_replaced(server: RtspServer) -> None:
    with CameraReader(CameraSource("gate", server.url("h264", True))) as reader:
        assert wait_for(lambda: reader.status().frames_decoded >= 8)
        raw = reader.latest(0)
        assert raw is not None
        assert raw.number >= 8
        assert reader.status().frames_replaced >= 7
        assert reader.latest(raw.number + 1000, 0.05) is None, "nothing newer within the timeout"
        again = reader.latest(0)
        assert again is not None
        assert again.number >= raw.number, "asking again gives the same frame or a newer one"
    assert reader.latest(0, 5.0) is None, "a closed reader gives nothing, at once"


def test_a_taken_frame_is_not_counted_as_replaced(server: RtspServer) -> None:
    with CameraReader(CameraSource("gate", server.url("h264", True))) as reader:
        got = frames(reader, 12)
        missed = got[-1].number - len(got)
        assert missed <= reader.status().frames_replaced <= missed + 1


def test_waiting_ends_when_the_reader_is_closed(clips: Clips) -> None:
    reader = CameraReader(CameraSource("gate", str(clips.h264)))
    results: list[object] = []
    waiter = threading.Thread(target=lambda: results.append(reader.latest(10**9, 60.0)))
    reader.start()
    waiter.start()
    reader.close()
    waiter.join(5.0)
    assert results == [None]
    with pytest.raises(RuntimeError):
        reader.start()


def test_max_fps_thins_what_is_offered(server: RtspServer) -> None:
    with CameraReader(CameraSource("gate", server.url("h264", True), max_fps=FPS / 5)) as reader:
        got = frames(reader, 4)
        decoded = reader.status().frames_decoded
        assert decoded >= 5 * got[-1].number - 10
        gaps = [b.monotonic_s - a.monotonic_s for a, b in itertools.pairwise(got)]
        assert min(gaps[1:]) > 2.0 / FPS


def test_two_readers_do_not_share_anything(server: RtspServer) -> None:
    with CameraReader(CameraSource("one", server.url("h264", True))) as one:
        frames(one, 2)
        with CameraReader(CameraSource("two", server.url("h264b", True))) as two:
            frames(two, 2)
            server.freeze_media("h264b")
            before = one.status().frames_decoded
            assert wait_for(lambda: one.status().frames_decoded > before + 5)
            assert one.status().state == "live"
            server.freeze_media("h264b", False)


def test_a_file_is_looped_in_real_time(clips: Clips) -> None:
    began = Instant.now()
    with CameraReader(CameraSource("file", str(clips.h264_small))) as reader:
        got = frames(reader, 20, 5.0)  # the clip has 15 pictures
        check_times(got, began)
        took_s = got[-1].monotonic_s - got[0].monotonic_s
        expected_s = (got[-1].number - got[0].number) / FPS
        assert took_s == pytest.approx(expected_s, abs=0.5 * expected_s)
        assert reader.status().connects == 1


def test_a_folder_of_stills_is_a_camera(clips: Clips) -> None:
    (clips.stills / "broken.png").write_bytes(b"not a picture")
    with CameraReader(CameraSource("stills", str(clips.stills), seconds_per_picture=0.1)) as reader:
        got = frames(reader, 7)
        means = [int(reader.convert(f, 16, 9).picture.mean()) for f in got]
        assert reader.status().frames_damaged >= 1
    order = [40, 120, 200]
    assert set(means) == set(order)
    # A reader that is late finds the newest picture, not the next.
    assert len({(order.index(mean) - f.number) % 3 for mean, f in zip(means, got, strict=True)}) == 1


def test_files_that_cannot_be_played(tmp_path: Path, clips: Clips) -> None:
    broken, sound, empty = tmp_path / "broken.mp4", tmp_path / "sound.wav", tmp_path / "empty"
    broken.write_bytes(b"\x00" * 5000)
    sound.write_bytes(b"RIFF$\x00\x00\x00WAVEfmt \x10\0\0\0\1\0\1\0@\x1f\0\0@\x1f\0\0\1\0\x08\0data" + bytes(4))
    empty.mkdir()
    expected = {str(broken): "damaged", str(sound): "unsupported", str(empty): "not_found"}
    expected[str(tmp_path / "absent.mp4")] = "not_found"
    for path, fault in expected.items():
        with CameraReader(CameraSource("file", path)) as reader:
            assert wait_for(lambda r=reader: r.status().fault is not None), path
            assert reader.status().fault == fault, path
            assert reader.status().message


def test_a_file_that_appears_later_is_played(tmp_path: Path, clips: Clips) -> None:
    path = tmp_path / "late.mp4"
    with CameraReader(CameraSource("file", str(path), retry_min_s=0.1)) as reader:
        assert wait_for(lambda: reader.status().fault == "not_found")
        path.write_bytes(clips.h264_small.read_bytes())
        assert reader.latest(0, 10.0) is not None
        assert reader.status().state == "live"


class SlowOnce:
    """A sink that is held up for a while at its third picture, as a starved process would be."""

    def __init__(self, release: threading.Event) -> None:
        self.release, self.pictures, self.after_drops = release, 0, 0
        self.drops: list[int] = []  # packets between two pictures
        self.row = 0

    def wanted(self) -> bool:
        return self.after_drops < 5

    def wait(self, seconds: float) -> bool:
        return self.wanted()

    def opened(self, codec: str) -> None: ...

    def packet(self) -> None: ...

    def dropped(self) -> None:
        self.row += 1

    def damaged(self) -> None:
        raise AssertionError("skipping to a key frame must not damage pictures")

    def picture(self, picture: Picture, at: FrameTime) -> None:
        self.pictures += 1
        if self.row:
            self.drops.append(self.row)
            self.row = 0
        self.after_drops += bool(self.drops)
        if self.pictures == 3:
            assert self.release.wait(PATIENCE_S)


def test_a_reader_that_is_behind_skips_to_a_key_frame() -> None:
    source = RenderedSource(scene, WIDTH, HEIGHT, FPS)
    with RtspServer("127.0.0.1", 0, {"live": source}) as server:
        release, clock = threading.Event(), SystemClock()
        sink = SlowOnce(release)
        stream = RtspStream(CameraSource("live", server.url("live")), clock, CaptureClock())
        thread = threading.Thread(target=stream.run, args=(sink,))
        thread.start()
        assert wait_for(lambda: sink.pictures == 3)
        held_at = server.stats("live").units
        assert wait_for(lambda: server.stats("live").units > held_at + 2 * FPS)
        release.set()
        thread.join(PATIENCE_S)  # it ends at the fifth picture after the first that was left out
        assert not thread.is_alive()
        assert 0 < max(sink.drops) < FPS, "never beyond the next key frame: there is one a second"


def test_a_failure_of_the_stream_is_an_error_without_the_password(server: RtspServer) -> None:
    source = CameraSource("gate", server.url("h264", True).replace("operator", "nobody"))
    with pytest.raises(CameraError) as caught:
        RtspStream(source, SystemClock(), CaptureClock()).run(SlowOnce(threading.Event()))
    assert caught.value.kind == "refused"
    assert PASSWORD not in str(caught.value)
    assert caught.value.__cause__ is None


def test_another_server_is_read_too(shared_dir: Path, clips: Clips) -> None:
    """An independent implementation: the developers' virtual camera."""
    path = shared_dir / "tools" / "virtual_camera.py"
    other = load_script(path)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    began = Instant.now()
    cameras = {"a": other.Camera(str(clips.h264)), "b": other.Camera(str(clips.h265))}
    running = other.Server(cameras, ("u", "secret"))
    asyncio.run_coroutine_threadsafe(running.start("127.0.0.1", 0), loop).result(10)
    port = running.srv.sockets[0].getsockname()[1]
    try:
        for name, transport in itertools.product("ab", ("tcp", "udp")):
            source = CameraSource(name, f"rtsp://u:secret@127.0.0.1:{port}/{name}", transport=transport)  # type: ignore[arg-type]
            with CameraReader(source) as reader:
                check_times(frames(reader, 3), began)
    finally:
        asyncio.run_coroutine_threadsafe(running.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(5)
        loop.close()

"""Cameras that fail: each fault is seen, distinguished, counted, and mended; nothing hangs."""

from __future__ import annotations

import logging
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from video_clips import FPS, HEIGHT, WIDTH, Clips, make_clips, scene, still, wait_for

from benchmarks.waiting import PATIENCE_S
from edge.core.camera import CameraStatus
from edge.demo.rtsp_server import RtspServer
from edge.demo.video_sources import FileSource, RenderedSource
from edge.ingest.reader import MAX_HANGING, CameraReader
from edge.ingest.source import CameraSource

pytestmark = [pytest.mark.faults, pytest.mark.timeout(480)]
STALL_S = 1.0


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Clips:
    return make_clips(tmp_path_factory.mktemp("clips"))


@pytest.fixture
def server(clips: Clips) -> Iterator[RtspServer]:
    with RtspServer("127.0.0.1", 0, {"gate": FileSource(clips.h264)}, ("operator", "topsecret")) as running:
        yield running


def gate(server: RtspServer, **settings: object) -> CameraSource:
    source = CameraSource("gate", server.url("gate", True), stall_timeout_s=STALL_S, retry_max_s=4.0)
    return replace(source, **settings)  # type: ignore[arg-type]


def states(reader: CameraReader) -> list[CameraStatus]:
    """Every different (state, fault) from now until the camera is live again."""
    seen: list[CameraStatus] = []

    def look() -> bool:
        status = reader.status()
        if not seen or (seen[-1].state, seen[-1].fault) != (status.state, status.fault):
            seen.append(status)
        return status.state == "live"

    assert wait_for(look), seen
    return seen


def live(reader: CameraReader) -> bool:
    return wait_for(lambda: reader.status().state == "live" and reader.latest(0) is not None)


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_a_silent_camera_is_seen_and_comes_back(server: RtspServer, transport: str) -> None:
    with CameraReader(gate(server, transport=transport)) as reader:
        assert live(reader)
        server.freeze_media("gate")
        assert wait_for(lambda: reader.status().state != "live")
        assert reader.status().fault == "silent"
        assert reader.status().stalls == 1
        last = reader.latest(0)
        server.freeze_media("gate", False)
        faults = {s.fault for s in states(reader)}
        assert faults <= {"silent", "unreachable", None}, "a loaded machine may answer too late to be called silent"
        assert last is not None
        assert reader.latest(last.number, PATIENCE_S) is not None, "frame numbers go on"


def test_a_camera_that_is_killed_comes_back_soon_after_it_answers(server: RtspServer) -> None:
    with CameraReader(gate(server, retry_max_s=600.0, retry_min_s=300.0)) as reader:
        assert live(reader)
        server.refuse_connections()
        server.kill_connections()
        assert wait_for(lambda: reader.status().fault == "unreachable"), reader.status()
        assert reader.status().state == "reconnecting"
        assert reader.status().retry_in_s > 200.0, "the back-off is long"
        connects = reader.status().connects
        server.refuse_connections(False)
        assert live(reader), "and yet the camera is back: a knock found it answering"
        assert reader.status().connects == connects + 1


def test_the_first_attempt_after_a_loss_comes_at_once(server: RtspServer) -> None:
    with CameraReader(gate(server, retry_min_s=300.0, retry_max_s=600.0)) as reader:
        assert live(reader)
        server.kill_connections()
        assert wait_for(lambda: reader.status().connects == 2)
        assert live(reader)


def test_a_hung_camera_accepts_connections_but_never_answers(server: RtspServer) -> None:
    with CameraReader(gate(server)) as reader:
        assert live(reader)
        server.hang()
        assert wait_for(lambda: reader.status().fault == "unreachable"), reader.status()
        assert "does not answer" in reader.status().message
        server.hang(False)
        assert live(reader)


def test_a_camera_that_comes_back_during_an_attempt_is_not_left_waiting(server: RtspServer) -> None:
    with CameraReader(gate(server, retry_min_s=300.0, retry_max_s=600.0)) as reader:
        assert live(reader)
        server.hang()
        assert wait_for(lambda: reader.status().fault == "unreachable")
        assert wait_for(lambda: reader.status().connects == 2), "the first attempt comes at once, and is swallowed"
        server.hang(False)
        assert live(reader), reader.status()


def test_a_peer_that_never_says_anything_neither_hangs_nor_collects_threads() -> None:
    before = threading.active_count()
    with socket.create_server(("127.0.0.1", 0), backlog=16) as mute:
        url = f"rtsp://127.0.0.1:{mute.getsockname()[1]}/x"
        source = CameraSource("mute", url, stall_timeout_s=0.3, retry_min_s=0.1, retry_max_s=0.1)
        with CameraReader(source) as reader:
            assert wait_for(lambda: reader.status().connects >= 5)
            assert reader.status().fault == "unreachable"
            assert reader.status().attempts_hanging <= MAX_HANGING
        assert wait_for(lambda: threading.active_count() <= before)


def test_close_does_not_wait_for_a_stuck_connection(server: RtspServer) -> None:
    reader = CameraReader(gate(server, stall_timeout_s=600.0))
    reader.start()
    assert live(reader)
    server.hang()
    closer = threading.Thread(target=reader.close)
    closer.start()
    closer.join(PATIENCE_S)
    assert not closer.is_alive()
    assert reader.status().state == "stopped"
    server.kill_connections()


@pytest.mark.parametrize(
    ("url", "fault", "words"),
    [
        ("rtsp://operator:wrongword@{}/gate", "refused", "check username and password"),
        ("rtsp://{}/gate", "refused", "wants a password"),
        ("rtsp://operator:topsecret@{}/nothing", "not_found", "no such stream"),
    ],
)
def test_refusals_are_distinguished(server: RtspServer, url: str, fault: str, words: str, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    address = f"127.0.0.1:{server.port}"
    with CameraReader(CameraSource("gate", url.format(address), stall_timeout_s=STALL_S)) as reader:
        assert wait_for(lambda: reader.status().fault is not None)
        assert reader.status().fault == fault
        assert reader.status().state == "refused"
        assert words in reader.status().message
        shown = f"{reader.status()} {caplog.text}"
    assert not re.search("wrongword|topsecret", shown)


def test_a_password_that_is_not_there_is_reported_and_picked_up_later(server: RtspServer, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    source = CameraSource(
        "gate", server.url("gate"), username="operator", password_from=f"file:{secret}", retry_min_s=0.1
    )
    with CameraReader(source) as reader:
        assert wait_for(lambda: reader.status().fault == "refused")
        assert str(secret) in reader.status().message
        secret.write_text("topsecret\n")
        assert live(reader)


def test_no_camera_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    for url in (f"rtsp://127.0.0.1:{port}/x", "rtsp://camera.invalid/x"):
        with CameraReader(CameraSource("gone", url, stall_timeout_s=STALL_S)) as reader:
            assert wait_for(lambda r=reader: r.status().fault == "unreachable"), reader.status()
            assert url in reader.status().message


def test_a_peer_that_speaks_another_language() -> None:
    def talk(listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                connection.sendall(b"\xff\xfeSSH-2.0 what?\r\n\r\n" * 20)

    with socket.create_server(("127.0.0.1", 0)) as other:
        thread = threading.Thread(target=talk, args=(other,), daemon=True)
        thread.start()
        url = f"rtsp://127.0.0.1:{other.getsockname()[1]}/x"
        with CameraReader(CameraSource("ssh", url, stall_timeout_s=STALL_S)) as reader:
            assert wait_for(lambda: reader.status().connects >= 2)
            assert reader.status().fault in ("damaged", "ended", "unreachable", "silent")
            assert reader.status().message
        other.shutdown(socket.SHUT_RDWR)
        thread.join(PATIENCE_S)


@pytest.mark.parametrize("transport", ["tcp", "udp"])
@pytest.mark.parametrize("fault", ["drop_packets", "corrupt_packets"])
def test_damaged_pictures_are_counted_and_not_used(server: RtspServer, transport: str, fault: str) -> None:
    with CameraReader(gate(server, transport=transport)) as reader:
        assert live(reader)
        getattr(server, fault)("gate", 0.3)
        assert wait_for(lambda: reader.status().frames_damaged >= 3), reader.status()
        assert wait_for(lambda: reader.status().fault == "damaged"), reader.status()
        raw = reader.latest(0)
        assert raw is not None
        assert not raw.picture.is_corrupt  # type: ignore[union-attr]
        getattr(server, fault)("gate", 0.0)
        assert wait_for(lambda: reader.status().fault is None and reader.status().state == "live")


def test_a_stream_in_which_nothing_can_be_decoded_is_connected_anew(server: RtspServer) -> None:
    with CameraReader(gate(server, stall_timeout_s=0.5)) as reader:
        assert live(reader)
        server.corrupt_packets("gate", 1.0)
        assert wait_for(lambda: reader.status().state == "stalled"), reader.status()
        assert reader.status().fault == "damaged"
        assert wait_for(lambda: reader.status().connects >= 2)
        server.corrupt_packets("gate", 0.0)
        assert live(reader)


def test_a_frozen_picture_is_reported_and_the_stream_kept() -> None:
    pictures = {"still": still, "moving": scene}
    shown = ["still"]
    source = RenderedSource(lambda t: pictures[shown[0]](t), WIDTH, HEIGHT, FPS, 300_000)
    with RtspServer("127.0.0.1", 0, {"gate": source}) as server:
        reader = CameraReader(CameraSource("gate", server.url("gate"), stall_timeout_s=STALL_S))
        quiet = CameraReader(CameraSource("b", server.url("gate"), stall_timeout_s=STALL_S, detect_frozen=False))
        with reader, quiet:
            assert wait_for(lambda: reader.status().fault == "frozen"), reader.status()
            status = reader.status()
            assert (status.state, status.freezes, status.connects, status.stalls) == ("stalled", 1, 1, 0)
            shown[0] = "moving"
            assert wait_for(lambda: reader.status().state == "live")
            assert reader.status().connects == 1
            assert quiet.status().freezes == 0


def test_a_codec_that_is_not_supported(clips: Clips, monkeypatch) -> None:
    from edge.demo import rtsp_server

    describe = rtsp_server.session_description
    monkeypatch.setattr(
        rtsp_server, "session_description", lambda v, h: describe(v, h).replace("H264/90000", "X-WIPES/90000")
    )
    with (
        RtspServer("127.0.0.1", 0, {"gate": FileSource(clips.h264)}) as server,
        CameraReader(CameraSource("gate", server.url("gate"), stall_timeout_s=STALL_S)) as reader,
    ):
        assert wait_for(lambda: reader.status().fault not in (None, "silent")), reader.status()
        assert reader.status().fault == "unsupported", reader.status()


def test_a_dead_camera_costs_the_others_nothing(server: RtspServer, clips: Clips) -> None:
    with (
        RtspServer("127.0.0.1", 0, {"gate": FileSource(clips.h264)}) as dead,
        CameraReader(gate(server)) as reader,
        CameraReader(CameraSource("dead", dead.url("gate"), stall_timeout_s=STALL_S)) as other,
    ):
        assert live(reader)
        assert live(other)
        dead.hang()
        assert wait_for(lambda: other.status().fault == "unreachable")
        before = reader.status()
        assert wait_for(lambda: reader.status().frames_decoded > before.frames_decoded + FPS)
        after = reader.status()
        assert (after.state, after.connects, after.stalls) == ("live", 1, 0)


def test_repeated_failures_are_logged_once(server: RtspServer, caplog) -> None:
    caplog.set_level(logging.INFO, "magpie.ingest")
    server.refuse_connections()
    with CameraReader(gate(server, retry_min_s=0.1, retry_max_s=0.1)) as reader:
        assert wait_for(lambda: reader.status().connects >= 6)
    assert sum("unreachable" in r.getMessage() for r in caplog.records) == 1

"""The virtual cameras: protocol, payloads, sources, and other clients than our own."""

from __future__ import annotations

import itertools
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from video_clips import FPS, HEIGHT, WIDTH, Clips, make_clips, scene, wait_for

from edge.core.errors import CameraError, InvalidValue, Unavailable
from edge.demo.rtsp_server import MAX_PAYLOAD, RtspServer, rtp_payloads, serve_paths
from edge.demo.video_sources import (
    AccessUnit,
    FileSource,
    RenderedSource,
    StillsSource,
    VideoSource,
    nal_type,
    split_nals,
)


@pytest.fixture(scope="module")
def clips(tmp_path_factory: pytest.TempPathFactory) -> Clips:
    return make_clips(tmp_path_factory.mktemp("clips"))


@pytest.fixture(scope="module")
def server(clips: Clips) -> Iterator[RtspServer]:
    cameras = {"gate": FileSource(clips.h264), "yard 2": FileSource(clips.h265)}
    with RtspServer("127.0.0.1", 0, cameras) as running:
        yield running


def take(source: VideoSource, count: int) -> list[AccessUnit]:
    return list(itertools.islice(source.units(0.0, lambda: 0.0, threading.Event()), count))


def decode(units: list[AccessUnit], codec: str) -> list[np.ndarray]:
    context = av.CodecContext.create("hevc" if codec == "h265" else codec, "r")
    context.thread_count = 1
    packets = [av.Packet(b"".join(b"\0\0\0\1" + n for n in u.nals)) for u in units]
    return [f.to_ndarray(format="rgb24") for p in [*packets, None] for f in context.decode(p)]


# -- sources -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["h264", "h265", "mpeg4", "long_gop"])
def test_a_file_is_looped_with_times_that_go_on(clips: Clips, name: str) -> None:
    source = FileSource(getattr(clips, name))
    video = source.describe()
    length = 90 if name == "long_gop" else 30
    units = take(source, 2 * length + 3)
    assert video.codec == ("h265" if name == "h265" else "h264")
    assert (video.width, video.height, round(video.fps)) == (WIDTH, HEIGHT, FPS)
    assert units[0].key
    assert units[length].key, "the second round begins on a key frame"
    due = [u.due_s for u in units]
    assert due[0] == 0.0
    assert all(b - a == pytest.approx(1 / FPS, abs=2e-3) for a, b in itertools.pairwise(due))
    keys = [u.due_s for u in units if u.key]
    assert max(b - a for a, b in itertools.pairwise(keys)) <= 1.1, "a client can join within a second"
    pictures = decode(units, video.codec)
    assert len(pictures) == len(units)
    assert np.abs(pictures[length + 2].astype(int) - scene(2 / FPS)).mean() < 15


def test_untouched_files_pass_through_bit_by_bit(clips: Clips) -> None:
    units = take(FileSource(clips.h264), 30)
    ours = decode(units, "h264")
    with av.open(str(clips.h264)) as container:
        theirs = [f.to_ndarray(format="rgb24") for f in container.decode(video=0)]
    assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_encoded_pictures_are_kept_for_the_next_rounds(clips: Clips) -> None:
    units = take(FileSource(clips.mpeg4), 60)
    assert [u.nals for u in units[:30]] == [u.nals for u in units[30:]]
    short = take(FileSource(clips.mpeg4, keep_bytes=10), 60)
    assert len(decode(short, "h264")) == 60


def test_files_of_a_list_are_played_in_turn(clips: Clips) -> None:
    source = FileSource(clips.h264, clips.h264_small, clips.h265)  # the last one is encoded anew
    assert source.describe().codec == "h264"
    units = take(source, 30 + 15 + 30 + 5)
    pictures = decode(units, "h264")
    assert [pictures[n].shape[:2] for n in (0, 29, 30, 44, 45, 74, 75)] == [
        (180, 320), (180, 320), (96, 160), (96, 160), (180, 320), (180, 320), (180, 320),
    ]  # fmt: skip
    assert all(b.due_s > a.due_s for a, b in itertools.pairwise(units))


def test_stills_are_a_slow_stream(clips: Clips) -> None:
    source = StillsSource(clips.stills, seconds_per_picture=1.0, fps=3.0)
    assert source.describe().fps == pytest.approx(3.0)
    units = take(source, 12)
    assert [u.due_s for u in units] == pytest.approx([n / 3 for n in range(12)])
    means = [p.mean() for p in decode(units, "h264")]
    assert means == pytest.approx([40] * 3 + [120] * 3 + [200] * 3 + [40] * 3, abs=4)


def test_a_drawn_camera_leaves_out_what_it_cannot_draw_in_time() -> None:
    drawn: list[float] = []

    def draw(t: float) -> np.ndarray:
        drawn.append(t)
        return scene(t)

    source = RenderedSource(draw, WIDTH, HEIGHT, 10.0)
    now = iter([0.1, 0.2, 0.75, 0.8])
    units = source.units(0.05, lambda: next(now), threading.Event())
    times = [next(units).due_s for _ in range(5)]
    assert times == pytest.approx([0.1, 0.2, 0.3, 0.7, 0.8])
    assert drawn == pytest.approx(times)
    assert source.skipped == 3


def test_what_cannot_be_shown(clips: Clips, tmp_path: Path) -> None:
    (tmp_path / "broken.mp4").write_bytes(b"\0" * 100)
    for source, kind in [
        (FileSource(tmp_path / "absent.mp4"), "not_found"),
        (FileSource(tmp_path / "broken.mp4"), "damaged"),
        (StillsSource(tmp_path), "not_found"),
        (StillsSource(tmp_path / "absent"), "not_found"),
    ]:
        with pytest.raises(CameraError) as caught:
            source.describe()
        assert caught.value.kind == kind
    for wrong in (
        lambda: FileSource(),
        lambda: StillsSource(tmp_path, seconds_per_picture=0),
        lambda: RenderedSource(scene, 321, 180, 10),
        lambda: RenderedSource(scene, 320, 180, 0),
        lambda: RtspServer("127.0.0.1", 70000, {"a": FileSource(clips.h264)}),
        lambda: RtspServer("127.0.0.1", 0, {}),
        lambda: RtspServer("127.0.0.1", 0, {"a?b": FileSource(clips.h264)}),
        lambda: RtspServer("127.0.0.1", 0, {"a": FileSource(clips.h264)}, scheme="ntlm"),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidValue):
            wrong()


# -- payloads ----------------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.sampled_from(["h264", "h265"]), st.binary(min_size=3, max_size=9000), st.integers(20, MAX_PAYLOAD))
def test_fragments_are_put_together_again(codec: str, nal: bytes, limit: int) -> None:
    payloads = rtp_payloads(codec, nal, limit)  # type: ignore[arg-type]
    assert all(len(p) <= limit for p in payloads)
    if len(payloads) == 1:
        assert payloads == [nal]
        return
    head = 1 if codec == "h264" else 2
    flags = [p[head] for p in payloads]
    assert [f >> 7 for f in flags] == [1] + [0] * (len(flags) - 1), "start bit"
    assert [f >> 6 & 1 for f in flags] == [0] * (len(flags) - 1) + [1], "end bit"
    if codec == "h264":
        assert {p[0] & 31 for p in payloads} == {28}
        first = bytes((payloads[0][0] & 0xE0 | flags[0] & 31,))
    else:
        assert {p[0] >> 1 & 63 for p in payloads} == {49}
        first = bytes((payloads[0][0] & 0x81 | (flags[0] & 63) << 1, payloads[0][1]))
    assert first + b"".join(p[head + 1 :] for p in payloads) == nal


def test_nal_units_are_split_and_delimiters_left_out() -> None:
    data = b"\0\0\0\1\x09\xf0\0\0\0\1\x67abc\0\0\1\x68d\0\0\1\x65efg"
    assert split_nals("h264", data) == (b"\x67abc", b"\x68d", b"\x65efg")
    assert nal_type("h265", b"\x42\x01") == 33


# -- protocol ----------------------------------------------------------------------------------------------------


class Client:
    """A client by hand: sends a request, reads the status line and the headers."""

    def __init__(self, server: RtspServer) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port), 10)
        self._file = self._socket.makefile("rb")
        self._number = 0

    def ask(self, method: str, url: str, **headers: str) -> tuple[int, dict[str, str], str]:
        self._number += 1
        lines = [f"{method} {url} RTSP/1.0", f"CSeq: {self._number}"]
        lines += [f"{k.replace('_', '-')}: {v}" for k, v in headers.items()]
        return self.raw(("\r\n".join(lines) + "\r\n\r\n").encode())

    def raw(self, data: bytes) -> tuple[int, dict[str, str], str]:
        self._socket.sendall(data)
        code = int(self._file.readline().split()[1])
        answer: dict[str, str] = {}
        while line := self._file.readline().decode().strip():
            name, _, value = line.partition(":")
            answer[name.lower()] = value.strip()
        return code, answer, self._file.read(int(answer.get("content-length", "0"))).decode()

    def closed(self) -> bool:
        return self._file.read(1) == b""

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()


TCP = "RTP/AVP/TCP;unicast;interleaved=0-1"


def test_a_session_by_hand(server: RtspServer) -> None:
    url = server.url("gate")
    with Client(server) as client:
        code, answer, _ = client.ask("OPTIONS", "*")
        assert (code, answer["cseq"]) == (200, "1")
        assert "GET_PARAMETER" in answer["public"]
        code, answer, description = client.ask("DESCRIBE", url, Accept="application/sdp")
        assert (code, answer["content-type"], answer["content-base"]) == (200, "application/sdp", url + "/")
        assert re.search(
            r"a=fmtp:96 packetization-mode=1;profile-level-id=\w{6};sprop-parameter-sets=\S+,\S+", description
        )
        code, answer, _ = client.ask("SETUP", url + "/trackID=0", Transport=TCP)
        assert code == 200
        assert answer["transport"] == TCP
        session = answer["session"].partition(";")[0]
        assert client.ask("GET_PARAMETER", url, Session=session)[0] == 200
        assert client.ask("PLAY", url, Session="another")[0] == 454
        assert client.ask("TEARDOWN", url, Session=session)[0] == 200
        assert client.closed()


def test_requests_that_are_wrong(server: RtspServer) -> None:
    url = server.url("gate")
    with Client(server) as client:
        assert client.ask("DESCRIBE", server.url("gate") + "x")[0] == 404
        assert client.ask("RECORD", url)[0] == 501
        assert client.ask("PLAY", url)[0] == 455
        assert client.ask("SETUP", url, Transport="RTP/AVP;multicast")[0] == 461
        assert client.ask("SETUP", url, Transport=TCP)[0] == 200
        assert client.ask("SETUP", url, Transport=TCP)[0] == 455
    for nonsense in (b"HELLO\r\n\r\n", b"PLAY x HTTP/1.1\r\n\r\n", b"PLAY x RTSP/1.0\r\nContent-Length: -4\r\n\r\n"):
        with Client(server) as client:
            assert client.raw(nonsense)[0] == 400
            assert client.closed()


@pytest.mark.parametrize("scheme", ["basic", "digest"])
def test_nothing_but_options_without_the_password(clips: Clips, scheme: str) -> None:
    cameras = {"gate": FileSource(clips.h264)}
    with RtspServer("127.0.0.1", 0, cameras, ("u", "secret"), scheme) as server, Client(server) as client:  # type: ignore[arg-type]
        url = server.url("gate")
        assert "secret" not in url
        assert client.ask("OPTIONS", url)[0] == 200
        for method in ("DESCRIBE", "SETUP", "PLAY", "GET_PARAMETER"):
            code, answer, _ = client.ask(method, url)
            assert code == 401
            assert answer["www-authenticate"].lower().startswith(scheme)
        for header in ("", "Basic !!!", "Basic dTp3cm9uZw==", 'Digest username="u", response="é"', "Bearer x"):
            assert client.ask("DESCRIBE", url, Authorization=header)[0] == 401


def test_the_first_packet_comes_after_a_sender_report_and_on_a_key_frame(server: RtspServer) -> None:
    with Client(server) as client:
        url = server.url("gate")
        session = client.ask("SETUP", url, Transport=TCP)[1]["session"].partition(";")[0]
        client.ask("PLAY", url, Session=session)
        blocks = []
        for _ in range(5):
            head = client._file.read(4)
            blocks.append((head[1], client._file.read(int.from_bytes(head[2:], "big"))))
    assert blocks[0][0] == 1
    assert blocks[0][1][1] == 200, "RTCP sender report"
    kinds = [b[12] & 31 for c, b in blocks[1:] if c == 0]
    assert {7, 8} <= set(kinds), "parameter sets lead"
    assert 1 not in kinds
    numbers = [int.from_bytes(b[2:4], "big") for c, b in blocks if c == 0]
    assert all((b - a) % 65536 == 1 for a, b in itertools.pairwise(numbers))


@pytest.mark.parametrize("transport", ["tcp", "udp"])
@pytest.mark.parametrize("name", ["gate", "yard 2"])
def test_opencv_is_a_client(server: RtspServer, name: str, transport: str, monkeypatch) -> None:
    monkeypatch.setenv("OPENCV_FFMPEG_CAPTURE_OPTIONS", f"rtsp_transport;{transport}|analyzeduration;200000")
    capture = cv2.VideoCapture(server.url(name), cv2.CAP_FFMPEG, [cv2.CAP_PROP_OPEN_TIMEOUT_MSEC, 10_000])
    try:
        good, picture = capture.read()
        assert good
        assert picture.shape == (HEIGHT, WIDTH, 3)
        assert np.abs(picture[..., ::-1].mean((0, 1)) - scene(0.0).mean((0, 1))).max() < 12
    finally:
        capture.release()


def test_a_camera_works_only_while_it_is_watched(clips: Clips) -> None:
    drawn: list[float] = []

    def draw(t: float) -> np.ndarray:
        drawn.append(t)
        return scene(t)

    with RtspServer("127.0.0.1", 0, {"live": RenderedSource(draw, WIDTH, HEIGHT, FPS)}) as server:
        assert server.stats("live").units == 0
        assert drawn == []
        with av.open(server.url("live"), options={"rtsp_transport": "tcp"}, timeout=10) as container:
            times = [f.time for f in itertools.islice(container.decode(video=0), 5)]
            assert server.stats("live").viewers == 1
        assert times[1:] == sorted(times[1:])  # FFmpeg knows no time of the first one
        assert wait_for(lambda: server.stats("live").viewers == 0)
        assert wait_for(lambda: server._cameras["live"]._parked), "it stops some time after the last client left"
    with RtspServer("127.0.0.1", 0, {"on": RenderedSource(draw, WIDTH, HEIGHT, FPS)}, always=True) as server:
        assert wait_for(lambda: server.stats("on").units > 3)


def test_a_source_that_fails_is_tried_again(clips: Clips) -> None:
    calls: list[float] = []

    def draw(t: float) -> np.ndarray:
        calls.append(t)
        if len(calls) == 3:
            raise ValueError("no paint")
        return scene(t)

    with RtspServer("127.0.0.1", 0, {"live": RenderedSource(draw, WIDTH, HEIGHT, FPS)}, always=True) as server:
        assert wait_for(lambda: server.stats("live").failures == 1)
        assert wait_for(lambda: server.stats("live").units > 5)


def test_a_client_that_does_not_read_loses_its_own_pictures_only(clips: Clips) -> None:
    big = RenderedSource(
        lambda t: np.random.default_rng(int(t * 1e6)).integers(0, 255, (720, 1280, 3), np.uint8),
        1280,
        720,
        10,
        80_000_000,
    )
    with RtspServer("127.0.0.1", 0, {"big": big}) as server, Client(server) as lazy:
        url = server.url("big")
        session = lazy.ask("SETUP", url, Transport=TCP)[1]["session"].partition(";")[0]
        lazy.ask("PLAY", url, Session=session)
        assert wait_for(lambda: server.stats("big").units_left_out > 0, 40)
        before = server.stats("big").units
        with av.open(url, options={"rtsp_transport": "tcp"}, timeout=10) as container:
            assert next(container.decode(video=0)).width == 1280
        assert server.stats("big").units >= before


def test_a_port_that_is_taken(server: RtspServer, clips: Clips) -> None:
    before = threading.active_count()
    with pytest.raises(Unavailable, match=str(server.port)):
        RtspServer("127.0.0.1", server.port, {"a": FileSource(clips.h264)}).start()
    assert wait_for(lambda: threading.active_count() <= before)


def test_serving_paths(clips: Clips) -> None:
    server = serve_paths("127.0.0.1", 0, {"both": [clips.h264, clips.h264_small], "stills": [clips.stills]})
    try:
        with av.open(server.url("both"), options={"rtsp_transport": "tcp"}, timeout=10) as container:
            assert next(container.decode(video=0)).width == WIDTH
    finally:
        server.stop()
        server.stop()  # stopping twice is harmless


def test_the_command(clips: Clips) -> None:
    command = [sys.executable, "-m", "edge.demo.rtsp_server"]
    refused = subprocess.run([*command, "0", "a=/absent.mp4"], capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 1
    assert "/absent.mp4" in refused.stderr
    assert "Traceback" not in refused.stderr
    environment = os.environ | {"CAM_PASSWORD": "secret"}
    arguments = [*command, "0", f"a={clips.h264}", "--user", "u", "--password-env", "CAM_PASSWORD"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True, env=environment) as running:
        try:
            assert running.stdout is not None
            url = running.stdout.readline().strip()
            assert url.startswith("rtsp://127.0.0.1:")
            with av.open(url.replace("//", "//u:secret@"), options={"rtsp_transport": "tcp"}, timeout=10) as container:
                assert next(container.decode(video=0)).width == WIDTH
        finally:
            running.terminate()

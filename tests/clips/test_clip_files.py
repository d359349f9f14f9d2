"""Clips out of real streams: a real RTSP server, real H.264 and H.265, real files."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from pathlib import Path

import av
import numpy as np
import pytest
from video_clips import HEIGHT, WIDTH, make_clip, wait_for

from edge import files
from edge.clips.mp4 import boxes_path, clip_path, decode_times, drop_clip, sha256, write_clip
from edge.clips.ring import Footage, PacketRing
from edge.core.clips import TICKS, ClipAsked, Cut
from edge.core.errors import DiskFull, StoreError
from edge.demo.rtsp_server import RtspServer
from edge.demo.video_sources import FileSource
from edge.ingest.reader import CameraReader
from edge.ingest.source import CameraSource
from scheduler.clips.cutting import cut

SHORT = {"fps": 10, "gop": 5}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("clips")


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[RtspServer]:
    h264 = make_clip(folder / "a.mp4", seconds=1.0, **SHORT)
    small = make_clip(folder / "small.mp4", seconds=1.0, size=(160, 96), **SHORT)
    cameras = {
        "h264": FileSource(h264),
        "h265": FileSource(make_clip(folder / "b.mp4", "libx265", seconds=1.0, **SHORT)),
        "changes": FileSource(h264, small),
    }
    with RtspServer("127.0.0.1", 0, cameras) as running:
        yield running


def footage_of(ring: PacketRing, least_s: float, taken: list[float]) -> tuple[Footage, Cut]:
    """The newest `least_s` seconds of a ring, as soon as it has them."""

    def enough() -> bool:
        held = ring.stretches()
        return bool(held) and held[-1].end_utc_s - held[-1].keys_utc_s[0] >= least_s

    assert wait_for(enough)
    last = ring.stretches()[-1]
    asked = ClipAsked(1, "gate", last.end_utc_s, last.end_utc_s - 0.9 * least_s, last.end_utc_s)
    found = cut(asked, ring.stretches())
    assert found is not None
    footage = ring.footage(found)
    assert footage is not None
    taken.append(last.end_utc_s)
    return footage, found


@pytest.mark.parametrize("camera", ["h264", "h265", "file"])
def test_a_clip_is_what_the_camera_sent_and_can_be_played(server: RtspServer, folder: Path, camera: str) -> None:
    ring = PacketRing(20.0, 10**7)
    url = str(folder / "a.mp4") if camera == "file" else server.url(camera)
    taken: list[float] = []
    with CameraReader(CameraSource("gate", url), tap=ring) as reader:
        shown = {}
        for _ in range(8):
            raw = reader.latest(max(shown, default=0), 10.0)
            assert raw is not None
            shown[raw.number] = raw
        footage, found = footage_of(ring, 1.4, taken)
    path = clip_path(folder, camera, 1)
    file = write_clip(path, footage, {"clip": 1})
    assert (file.width, file.height, file.bytes) == (WIDTH, HEIGHT, path.stat().st_size)
    assert file.sha256 == sha256(path)
    assert 1.2 <= file.seconds <= 3.0
    assert found.end == "whole"
    assert json.loads(boxes_path(path).read_text()) == {"clip": 1}
    assert sorted(p.name for p in path.parent.iterdir()) == ["1.json", "1.mp4"], "nothing else is left"
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        pictures = list(container.decode(stream))
        assert stream.codec_context.codec_tag == ("hvc1" if camera == "h265" else "avc1")
    assert len(pictures) == len(footage.packets)
    times = [float(p.time) for p in pictures]
    assert times[0] == 0.0
    assert times == sorted(times)
    assert times[-1] == pytest.approx(file.seconds, abs=0.01)
    # The picture shown at a time of the clip is the one that the reader saw then.
    for raw in shown.values():
        pts = next((p for p, utc_s in footage.shown.items() if utc_s == raw.utc_s), None)
        if pts is not None:
            at_s = (pts - footage.first_pts) / TICKS
            same = min(pictures, key=lambda p: abs(float(p.time) - at_s))
            assert np.array_equal(same.to_ndarray(format="gray"), raw.picture.to_ndarray(format="gray"))
            break
    else:
        pytest.fail("no picture of the reader is in the clip")
    drop_clip(path)
    assert list(path.parent.iterdir()) == []


def test_a_coding_that_changes_on_the_way_begins_another_stretch(server: RtspServer, folder: Path) -> None:
    ring = PacketRing(20.0, 10**7)
    with CameraReader(CameraSource("gate", server.url("changes")), tap=ring):
        assert wait_for(lambda: ring.now().begun_anew >= 2)
    sizes = []
    for held in ring.stretches()[:2]:
        footage = ring.footage(Cut(held.number, 0, held.end_utc_s, 0.0, 0.0, "coding_changed"))
        assert footage is not None
        sizes.append(write_clip(folder / "changes" / f"{held.number}.mp4", footage, {}).width)
    assert sorted(sizes) == [160, WIDTH]


@pytest.fixture(scope="module")
def footage(folder: Path, server: RtspServer) -> Footage:
    ring = PacketRing(20.0, 10**7)
    with CameraReader(CameraSource("gate", str(folder / "a.mp4")), tap=ring):
        return footage_of(ring, 0.5, [])[0]


def test_nothing_is_left_when_the_disk_refuses(footage: Footage, tmp_path: Path) -> None:
    path = clip_path(tmp_path, "gate", 4)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(DiskFull):
            write_clip(path, footage, {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(path.parent.iterdir()) == []
    assert write_clip(path, footage, {}).bytes > 1000


def test_video_that_cannot_be_read_is_an_error_and_leaves_nothing(footage: Footage, tmp_path: Path) -> None:
    packets = tuple(
        type(p)(p.pts, p.key, b"\x00\x00\x01\x09" + b"\xff" * 40, p.arrived_s, p.arrived_utc_s) for p in footage.packets
    )
    path = clip_path(tmp_path, "gate", 5)
    with pytest.raises(StoreError):
        write_clip(path, Footage("h264", b"", packets, {}), {})
    assert list(path.parent.iterdir()) == []


def test_times_of_decoding_fit_any_order_of_pictures() -> None:
    for shown in ([0, 10, 20], [0, 30, 10, 20, 60, 40, 50], [5]):
        times = decode_times(shown)
        assert times == sorted(set(times))
        assert all(d <= s for d, s in zip(times, shown, strict=True))


def test_of_a_clip_whose_name_the_disk_cannot_make_sure_nothing_is_left(
    footage: Footage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []

    def refused(folder: Path) -> None:
        synced.append(folder)
        if len(synced) > 1:  # after that of the boxes: the video has its name
            raise OSError(5, "it cannot be synced")

    monkeypatch.setattr(files, "sync_folder", refused)
    path = clip_path(tmp_path, "gate", 6)
    with pytest.raises(StoreError):
        write_clip(path, footage, {})
    assert list(path.parent.iterdir()) == []


def test_times_that_go_back_do_not_end_a_clip_that_is_coded_anew(footage: Footage, tmp_path: Path) -> None:
    packets = list(footage.packets)
    back = packets[3]
    packets[3] = type(back)(packets[1].pts, back.key, back.data, back.arrived_s, back.arrived_utc_s)
    path = clip_path(tmp_path, "gate", 7)
    write_clip(path, Footage(footage.codec, footage.headers, tuple(packets), {}), {}, lambda frame: frame)
    with av.open(str(path)) as container:
        times = [frame.pts for frame in container.decode(video=0)]
    assert len(times) == len(packets)
    assert times == sorted(set(times))

"""Privacy masks: nothing that they cover is in any picture or clip, whatever the format and the size."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from edge.clips.mp4 import write_clip
from edge.clips.ring import PacketRing
from edge.core.clips import Cut
from edge.core.clock import ManualClock
from edge.core.errors import InvalidValue
from edge.core.masks import Mask
from edge.detectors.pictures import jpeg_bytes
from edge.ingest.convert import Converter
from edge.ingest.masking import Masker, covered_pixels
from edge.ingest.reader import CameraReader, _Attempt
from edge.ingest.source import CameraSource
from edge.ingest.tap import TappedStream
from edge.ingest.timing import FrameTime

MASKS = (
    Mask("door", ((0.11, 0.22), (0.37, 0.2), (0.41, 0.63), (0.2, 0.71))),
    Mask("edge", ((0.7, 0.5), (1.0, 0.5), (1.0, 1.0), (0.72, 1.0))),
)
WIDTH, HEIGHT = 160, 96


def inside(width: int = WIDTH, height: int = HEIGHT) -> NDArray[np.bool_]:
    """Pixels with any part in a mask, found by looking at many points of each."""
    ys, xs = np.mgrid[0 : height * 4, 0 : width * 4]
    points = np.zeros(ys.shape, np.bool_)
    for mask in MASKS:
        within = np.zeros(ys.shape, np.bool_)
        x, y = (xs + 0.5) / (4 * width), (ys + 0.5) / (4 * height)
        before = mask.polygon[-1]
        for here in mask.polygon:
            if here[1] != before[1]:
                crosses = (here[1] > y) != (before[1] > y)
                within ^= crosses & (x < here[0] + (y - here[1]) * (before[0] - here[0]) / (before[1] - here[1]))
            before = here
        points |= within
    return points.reshape(height, 4, width, 4).any((1, 3))


def picture(seed: int, secret: int, width: int = WIDTH, height: int = HEIGHT) -> NDArray[np.uint8]:
    """Noise; what the masks cover depends on `secret` alone."""
    made = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    hidden = np.random.default_rng([seed, secret]).integers(0, 256, made.shape, np.uint8)
    covered = inside(width, height)
    made[covered] = hidden[covered]
    return made


def test_every_pixel_that_a_mask_touches_is_covered() -> None:
    for width, height in ((160, 96), (161, 97), (17, 33)):
        drawn, wanted = covered_pixels(MASKS, width, height), inside(width, height)
        assert not (wanted & ~drawn).any(), (width, height)
        assert drawn.sum() <= wanted.sum() + 4 * 2 * (width + height), "and no more than a seam around it"
    with pytest.raises(InvalidValue, match=r"mask\.polygon"):
        Mask("line", ((0.1, 0.1), (0.2, 0.2)))


FORMATS = ("yuv420p", "yuvj420p", "yuv422p", "yuv444p", "nv12", "rgb24", "yuv420p10le", "gray")


#: FFmpeg turns the same picture of 10 bits into other samples now and then where its width is no multiple of 16.
CASES = [
    (name, (176 if name == "yuv420p10le" and size[0] == 162 else size[0], size[1]))
    for name in FORMATS
    for size in ((160, 96), (162, 98))
]


@pytest.mark.parametrize(("name", "size"), CASES)
def test_no_format_lets_anything_through(name: str, size: tuple[int, int]) -> None:
    """Two pictures that differ in covered samples only are the same afterwards."""
    seen = []
    for secret in (1, 2):
        frame = av.VideoFrame.from_ndarray(picture(5, 0, *size), format="rgb24").reformat(format=name)
        frame.make_writable()
        hide(frame, secret)
        frame.pts, frame.time_base = 7, Fraction(1, 10)
        masked = Masker(MASKS).apply(frame)
        assert isinstance(masked, av.VideoFrame)
        assert (masked.pts, masked.time_base) == (7, Fraction(1, 10))
        rgb = Converter().rgb(masked)
        assert rgb[inside(*size)].max() <= 2, "black"
        seen.append(rgb)
    assert np.array_equal(seen[0], seen[1])
    assert seen[0].max() > 200, "the rest is there"


def hide(frame: av.VideoFrame, secret: int) -> None:
    """Other noise in the samples of covered pixels."""
    covered, rng = inside(frame.width, frame.height), np.random.default_rng(secret)
    for n, plane in enumerate(frame.planes):
        whole = np.frombuffer(memoryview(plane), np.uint8).reshape(-1, plane.line_size)
        rows = frame.height if n == 0 else plane.height
        across = {"rgb24": 3, "yuv420p10le": 2}.get(frame.format.name, 1)
        used = frame.width * across if n == 0 or frame.format.name == "nv12" else plane.width * across
        ys, xs = np.mgrid[0:rows, 0:used]
        under = covered[ys * frame.height // rows, xs * frame.width // used]
        noise = rng.integers(0, 256, under.shape, np.uint8)
        if frame.format.name == "yuv420p10le":
            noise[:, 1::2] &= 3
        np.copyto(whole[:rows, :used], noise, where=under)


def test_stills_and_pictures_without_masks() -> None:
    still = picture(1, 1)
    masked = Masker(MASKS).apply(still)
    assert isinstance(masked, np.ndarray)
    assert masked[inside()].max() == 0
    assert still[inside()].max() > 0, "what was given is left as it is"
    assert np.array_equal(masked[~covered_pixels(MASKS, WIDTH, HEIGHT)], still[~covered_pixels(MASKS, WIDTH, HEIGHT)])
    assert Masker(()).apply(still) is still


def lossless(path: Path, secret: int) -> Path:
    """Exactly decodable H.264 whose pictures depend on `secret` under the masks only."""
    with av.open(str(path), "w") as out:
        stream = out.add_stream("libx264", rate=10, options={"preset": "ultrafast", "qp": "0"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv444p"
        stream.gop_size, stream.codec_context.max_b_frames, stream.codec_context.thread_count = 5, 0, 1
        for n in range(10):
            frame = av.VideoFrame.from_ndarray(picture(n, secret), format="rgb24").reformat(format="yuv444p")
            frame.pts = n
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    return path


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("secret")
    return lossless(folder / "a.mp4", 1), lossless(folder / "b.mp4", 2)


def test_what_the_reader_gives_is_masked(videos: tuple[Path, Path]) -> None:
    jpegs: list[dict[float, bytes]] = []
    for video in videos:
        found: dict[float, bytes] = {}
        with CameraReader(CameraSource("gate", str(video), masks=MASKS)) as reader:
            number = 0
            while len(found) < 10:
                raw = reader.latest(number, 10.0)
                assert raw is not None
                number = raw.number
                rgb = reader.convert(raw).picture
                assert rgb[inside()].max() <= 2, "0 pixels of what is covered"
                jpeg = jpeg_bytes(rgb)
                assert jpeg is not None
                found[float(raw.picture.time)] = jpeg  # type: ignore[union-attr]
                assert rgb[~covered_pixels(MASKS, WIDTH, HEIGHT)].max() > 200, "the rest is there"
        jpegs.append(found)
    assert jpegs[0] == jpegs[1], "not one byte of what is stored or sent depends on what is covered"


def test_clips_are_coded_anew_without_what_is_covered(videos: tuple[Path, Path], tmp_path: Path) -> None:
    written = []
    for n, video in enumerate(videos):
        ring = PacketRing(60.0, 10**7)
        with av.open(str(video)) as container:
            stream = container.streams.video[0]
            tapped = TappedStream(ring, ring.attempt(), stream)
            for packet in container.demux(stream):
                if packet.size:
                    at_s = float(packet.pts * packet.time_base)
                    tapped.packet(packet, at_s, at_s)
        (held,) = ring.stretches()
        footage = ring.footage(Cut(held.number, 0, held.end_utc_s, 0.0, 0.0, "whole"))
        assert footage is not None
        path = tmp_path / f"{n}.mp4"
        file = write_clip(path, footage, {}, Masker(MASKS).frame)
        assert (file.width, file.height) == (WIDTH, HEIGHT)
        with av.open(str(path)) as container:
            pictures = list(container.decode(video=0))
            assert [round(float(p.time), 3) for p in pictures] == [k / 10 for k in range(10)]
            for shown in pictures:
                assert shown.to_ndarray(format="gray")[inside()].mean() < 24, "black, but for what coding adds"
        written.append(path.read_bytes())
    assert written[0] == written[1], "not one byte of the file depends on what is covered"


def test_a_camera_whose_masks_cover_all_that_moves_is_live() -> None:
    clock = ManualClock()
    whole = (Mask("all", ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 1.0))),)
    reader = CameraReader(CameraSource("gate", "rtsp://192.0.2.1/g", stall_timeout_s=1.0, masks=whole), clock=clock)
    attempt = _Attempt(reader)

    def show(level: int) -> str:
        clock.advance(0.5)
        grey = np.full((HEIGHT, WIDTH, 3), level, np.uint8)
        frame = av.VideoFrame.from_ndarray(grey, format="rgb24").reformat(format="yuv420p")
        attempt.picture(frame, FrameTime(clock.monotonic(), clock.utc(), 0.0))
        return reader.status().state

    assert {show(60 + 20 * n) for n in range(8)} == {"live"}
    assert [show(90) for _ in range(4)][-1] == "stalled", "one that is frozen is still found"
    raw = reader.latest()
    assert raw is not None
    assert reader.convert(raw).picture.max() <= 2, "the picture that is looked at for that is given to no reader"

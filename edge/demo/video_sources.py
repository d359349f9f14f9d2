"""Sources of virtual cameras: files, folders of stills, or pictures drawn live. All yield H.264 or H.265 access units.

An access unit is one coded picture. Sources are plain iterators in stream time; the RTSP server paces them.
"""

from __future__ import annotations

import math
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal

import av
import av.error
import cv2
import numpy as np
from av.codec.context import Flags
from numpy.typing import NDArray

from edge.core.errors import CameraError, InvalidValue
from edge.ingest.streams import read_still

Codec = Literal["h264", "h265"]
CLOCK_HZ = 90_000

#: NAL unit types (ITU-T H.264 table 7-1, H.265 table 7-1).
_SETS = {"h264": (7, 8), "h265": (32, 33, 34)}
_KEY = {"h264": (5,), "h265": (16, 17, 18, 19, 20, 21)}
_DELIMITERS = {"h264": (9, 12), "h265": (35, 38)}  # access unit delimiter and filler: not needed in RTP
_START_CODE = re.compile(rb"\x00\x00\x00?\x01")
_FFMPEG_CODECS: dict[str, Codec] = {"h264": "h264", "hevc": "h265"}


@dataclass(frozen=True)
class VideoFormat:
    """The stream's description for clients. `parameter_sets` are NAL units: (VPS,) SPS, PPS."""

    codec: Codec
    width: int
    height: int
    fps: float
    parameter_sets: tuple[bytes, ...]


@dataclass(frozen=True)
class AccessUnit:
    """One coded picture: its NAL units, when it is to be sent and shown (seconds of stream time), key frame or not."""

    nals: tuple[bytes, ...]
    due_s: float
    shown_s: float
    key: bool


def nal_type(codec: Codec, nal: bytes) -> int:
    """Type of a NAL unit (first byte of H.264, first two bytes of H.265)."""
    return nal[0] & 0x1F if codec == "h264" else (nal[0] >> 1) & 0x3F


def split_nals(codec: Codec, data: bytes) -> tuple[bytes, ...]:
    """NAL units of an Annex B byte stream, without delimiters and filler."""
    return tuple(n for n in _START_CODE.split(data) if n and nal_type(codec, n) not in _DELIMITERS[codec])


def is_key(codec: Codec, nals: Sequence[bytes]) -> bool:
    """True when decoding can begin at this access unit."""
    return any(nal_type(codec, n) in _KEY[codec] for n in nals)


class VideoSource(ABC):
    """Something that a virtual camera shows. One thread at a time may iterate over `units`."""

    @abstractmethod
    def describe(self) -> VideoFormat:
        """The format. :raises CameraError, InvalidValue: the source cannot be shown."""

    @abstractmethod
    def units(self, start_s: float, elapsed: Callable[[], float], stop: threading.Event) -> Iterator[AccessUnit]:
        """Access units without end, from stream time `start_s` on, the first one a key frame.

        `elapsed()` is the stream time now: a source drawn live skips what is past. Ends when `stop` is set.
        """


class H264Encoder:
    """libx264 as a camera would use it: one thread, no B frames, no delay, a key frame every `key_every_s`."""

    def __init__(
        self, width: int, height: int, fps: float, bitrate: int | None = None, key_every_s: float = 1.0
    ) -> None:
        if width % 2 or height % 2 or width < 16 or height < 16:
            raise InvalidValue("video.size", (width, height), "even numbers from 16")
        rate = Fraction(fps).limit_denominator(1000)
        context = av.CodecContext.create("libx264", "w")
        assert isinstance(context, av.VideoCodecContext)
        context.width, context.height, context.pix_fmt = width, height, "yuv420p"
        context.time_base, context.framerate = Fraction(1, CLOCK_HZ), rate
        context.gop_size, context.max_b_frames = max(1, round(fps * key_every_s)), 0
        context.thread_count, context.thread_type = 1, "NONE"
        context.flags |= Flags.global_header
        context.options = {"preset": "ultrafast", "tune": "zerolatency", "x264-params": "scenecut=0"}
        if bitrate:
            context.bit_rate = bitrate
        else:
            context.options |= {"crf": "24"}
        context.open()
        self._context = context
        self._size = (width, height)
        sets = split_nals("h264", bytes(context.extradata or b""))
        sets = tuple(n for n in sets if nal_type("h264", n) in _SETS["h264"])
        self.format = VideoFormat("h264", width, height, float(rate), sets)

    def encode(self, picture: NDArray[np.uint8], at_s: float) -> list[AccessUnit]:
        """Encode uint8 RGB (H, W, 3), resized where its size differs."""
        if (picture.shape[1], picture.shape[0]) != self._size:
            picture = np.asarray(cv2.resize(picture, self._size, interpolation=cv2.INTER_AREA), np.uint8)
        planar = np.asarray(cv2.cvtColor(np.ascontiguousarray(picture), cv2.COLOR_RGB2YUV_I420), np.uint8)
        return self.encode_frame(av.VideoFrame.from_ndarray(planar, format="yuv420p"), at_s)

    def encode_frame(self, frame: av.VideoFrame, at_s: float) -> list[AccessUnit]:
        """Encode a decoded frame of the right size."""
        if frame.format.name != "yuv420p" or (frame.width, frame.height) != self._size:
            frame = frame.reformat(self._size[0], self._size[1], format="yuv420p", threads=1)
        frame.pts, frame.time_base = round(at_s * CLOCK_HZ), Fraction(1, CLOCK_HZ)
        frame.pict_type = av.video.frame.PictureType.NONE
        out = []
        for packet in self._context.encode(frame):
            nals = split_nals("h264", bytes(packet))
            key = is_key("h264", nals)
            out.append(AccessUnit((*self.format.parameter_sets, *nals) if key else nals, at_s, at_s, key))
        return out


@dataclass(frozen=True)
class _FileFacts:
    codec: str
    width: int
    height: int
    fps: float
    key_every_s: float
    parameter_sets: tuple[bytes, ...]


class FileSource(VideoSource):
    """One file looped, or several one after another and then again.

    H.264 and H.265 pass through untouched. Video that no camera would send is encoded anew as H.264 with short key
    intervals: other codecs, key frames more than `MAX_KEY_S` apart (a client could not join), and files of a list that
    differ in codec from its first. The encoded pictures are kept for the next rounds, up to `keep_bytes` per file.

    :raises InvalidValue: no file is given.
    """

    MAX_KEY_S = 4.0
    SCAN_S = 60.0  # of each file, when looking for its key interval

    def __init__(self, *paths: str | Path, keep_bytes: int = 64_000_000) -> None:
        if not paths:
            raise InvalidValue("video.paths", paths, "at least one file")
        self.paths = tuple(Path(p) for p in paths)
        self._keep_bytes = keep_bytes
        self._facts: tuple[_FileFacts, ...] | None = None
        self._kept: dict[int, tuple[list[AccessUnit], float]] = {}

    def describe(self) -> VideoFormat:
        facts = self._all_facts()
        first = facts[0]
        if self._passes(0):
            codec = _FFMPEG_CODECS[first.codec]
            return VideoFormat(codec, first.width, first.height, first.fps, first.parameter_sets)
        return self._encoder(0).format

    def units(self, start_s: float, elapsed: Callable[[], float], stop: threading.Event) -> Iterator[AccessUnit]:
        base_s = start_s
        while not stop.is_set():
            for index in range(len(self.paths)):
                length_s = 0.0
                for unit, length_s in self._once(index):  # noqa: B007 - the last length is used
                    if stop.is_set():
                        return
                    yield AccessUnit(unit.nals, base_s + unit.due_s, base_s + unit.shown_s, unit.key)
                if length_s <= 0.0:
                    raise CameraError("damaged", f"the file {self.paths[index]} holds no picture")
                base_s += length_s

    def _once(self, index: int) -> Iterator[tuple[AccessUnit, float]]:
        """Units of one file with times from 0, each with the file's length as known so far."""
        if self._passes(index):
            yield from self._passed_through(index)
        elif index in self._kept:
            units, length_s = self._kept[index]
            yield from ((u, length_s) for u in units)
        else:
            yield from self._encoded(index)

    def _passed_through(self, index: int) -> Iterator[tuple[AccessUnit, float]]:
        path, facts = self.paths[index], self._all_facts()[index]
        codec = _FFMPEG_CODECS[facts.codec]
        period_s, first_s, due_s, end_s = 1.0 / facts.fps, None, 0.0, 0.0
        began = False
        for packet in _annex_b(path):
            nals = split_nals(codec, bytes(packet))
            key = is_key(codec, nals)
            began = began or key
            if not began or not nals or packet.time_base is None:
                continue
            due = packet.dts if packet.dts is not None else packet.pts
            shown = packet.pts if packet.pts is not None else packet.dts
            own_s = float(due * packet.time_base) if due is not None else None
            if own_s is not None:
                first_s = own_s if first_s is None else first_s
                due_s = max(due_s, own_s - first_s)
            late_s = float((shown - due) * packet.time_base) if shown is not None and due is not None else 0.0
            if key and not any(nal_type(codec, n) in _SETS[codec] for n in nals):
                nals = (*facts.parameter_sets, *nals)
            end_s = max(end_s, due_s + period_s)
            yield AccessUnit(nals, due_s, due_s + max(0.0, late_s), key), end_s
            due_s += period_s if own_s is None else 0.0

    def _encoded(self, index: int) -> Iterator[tuple[AccessUnit, float]]:
        encoder, facts = self._encoder(index), self._all_facts()[index]
        period_s, first_s, at_s = 1.0 / facts.fps, None, 0.0
        kept: list[AccessUnit] | None = []
        size = 0
        for frame in _decoded(self.paths[index]):
            if frame.time is not None:
                first_s = frame.time if first_s is None else first_s
                at_s = max(at_s, frame.time - first_s)
            for unit in encoder.encode_frame(frame, at_s):
                size += sum(map(len, unit.nals))
                if kept is not None and size <= self._keep_bytes:
                    kept.append(unit)
                else:
                    kept = None
                yield unit, at_s + period_s
            at_s += 1.0 / CLOCK_HZ if frame.time is not None else period_s
        if kept:
            self._kept[index] = (kept, kept[-1].due_s + period_s)

    def _encoder(self, index: int) -> H264Encoder:
        facts = self._all_facts()[index]
        return H264Encoder(facts.width // 2 * 2, facts.height // 2 * 2, facts.fps)

    def _all_facts(self) -> tuple[_FileFacts, ...]:
        if self._facts is None:
            self._facts = tuple(self._read_facts(p) for p in self.paths)
        return self._facts

    def _passes(self, index: int) -> bool:
        facts = self._all_facts()
        common = facts[0].codec if self._is_camera_like(facts[0]) else "h264"
        return self._is_camera_like(facts[index]) and facts[index].codec == common

    def _is_camera_like(self, facts: _FileFacts) -> bool:
        return (
            facts.codec in _FFMPEG_CODECS
            and facts.key_every_s <= self.MAX_KEY_S
            and len(facts.parameter_sets) >= len(_SETS[_FFMPEG_CODECS[facts.codec]])
        )

    def _read_facts(self, path: Path) -> _FileFacts:
        """:raises CameraError: the file is absent or not a video."""
        try:
            with av.open(str(path)) as container:
                if not container.streams.video or container.streams.video[0].codec_context is None:
                    raise CameraError("unsupported", f"the file {path} holds no video that can be decoded")
                stream = container.streams.video[0]
                context = stream.codec_context
                name, width, height = context.name, context.width, context.height
                fps = float(stream.average_rate or 25)
                key_every_s = self._key_interval(container, stream, 1.0 / fps)
            sets = self._find_sets(path, _FFMPEG_CODECS[name]) if name in _FFMPEG_CODECS else ()
        except av.error.FileNotFoundError:
            raise CameraError("not_found", f"the file {path} does not exist") from None
        except av.error.FFmpegError as error:
            raise CameraError("damaged", f"the file {path} cannot be read: {error.strerror}") from None
        return _FileFacts(name, width, height, min(max(fps, 0.1), 240.0), key_every_s, sets)

    def _key_interval(self, container: av.container.InputContainer, stream: av.VideoStream, period_s: float) -> float:
        at_s, key_s, longest_s = 0.0, 0.0, 0.0
        for packet in container.demux(stream):
            if not packet.size:
                continue
            own = packet.dts if packet.dts is not None else packet.pts
            base = packet.time_base
            at_s = float(own * base) if own is not None and base is not None else at_s + period_s
            if packet.is_keyframe:
                key_s = at_s
            longest_s = max(longest_s, at_s - key_s + period_s)
            if at_s > self.SCAN_S:
                break
        return longest_s

    @staticmethod
    def _find_sets(path: Path, codec: Codec) -> tuple[bytes, ...]:
        found: dict[int, bytes] = {}
        for packet in _annex_b(path):
            for nal in split_nals(codec, bytes(packet)):
                kind = nal_type(codec, nal)
                if kind in _SETS[codec]:
                    found.setdefault(kind, nal)
            if len(found) == len(_SETS[codec]) or packet.is_keyframe:
                break
        return tuple(found[k] for k in _SETS[codec] if k in found)


def _annex_b(path: Path) -> Iterator[av.Packet[av.VideoStream]]:
    """Packets of an H.264 or H.265 file as Annex B, with parameter sets before key frames."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert stream.time_base is not None
        name = "h264" if stream.codec_context.name == "h264" else "hevc"
        to_annex_b = av.BitStreamFilterContext(f"{name}_mp4toannexb", stream)
        for packet in container.demux(stream):
            for out in to_annex_b.filter(packet if packet.size else None):
                out.time_base = stream.time_base
                yield out


def _decoded(path: Path) -> Iterator[av.VideoFrame]:
    """Decodable frames of a file, in the order of showing; damaged parts are passed over."""
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        stream.codec_context.thread_count, stream.codec_context.thread_type = 1, "NONE"
        for packet in container.demux(stream):
            try:
                yield from packet.decode()
            except av.error.InvalidDataError:
                continue
            except av.error.EOFError:
                return


class StillsSource(VideoSource):
    """A folder of pictures (jpg, png, by name) as a slow stream: each is shown for `seconds_per_picture` at `fps`.

    All are resized to the size of the first one, at most `max_width` wide. The folder is read anew each round.

    :raises InvalidValue: a field is out of range.
    """

    NAMES = (".jpg", ".jpeg", ".png")

    def __init__(
        self, folder: str | Path, seconds_per_picture: float = 2.0, fps: float = 2.0, max_width: int = 1280
    ) -> None:
        for name, value in (("seconds_per_picture", seconds_per_picture), ("fps", fps)):
            if not (math.isfinite(value) and value > 0):
                raise InvalidValue(f"video.{name}", value, "a number above 0")
        self.folder, self.seconds_per_picture, self.fps = Path(folder), seconds_per_picture, fps
        self._max_width = max_width

    def describe(self) -> VideoFormat:
        return self._encoder().format

    def units(self, start_s: float, elapsed: Callable[[], float], stop: threading.Event) -> Iterator[AccessUnit]:
        encoder = self._encoder()
        repeats = max(1, round(self.seconds_per_picture * self.fps))
        step_s, number = self.seconds_per_picture / repeats, 0
        while not stop.is_set():
            before = number
            for path in self._paths():
                picture = read_still(path)
                for _ in range(repeats if picture is not None else 0):
                    assert picture is not None
                    if stop.is_set():
                        return
                    yield from encoder.encode(picture, start_s + number * step_s)
                    number += 1
            if number == before:
                raise CameraError("not_found", f"the folder {self.folder} holds no picture (jpg, png)")

    def _paths(self) -> list[Path]:
        try:
            return sorted(p for p in self.folder.iterdir() if p.suffix.lower() in self.NAMES)
        except OSError as error:
            raise CameraError("not_found", f"the folder {self.folder} cannot be read: {error.strerror}") from None

    def _encoder(self) -> H264Encoder:
        first = next((p for p in map(read_still, self._paths()) if p is not None), None)
        if first is None:
            raise CameraError("not_found", f"the folder {self.folder} holds no picture (jpg, png)")
        height, width = first.shape[:2]
        scale = min(1.0, self._max_width / width)
        rate = max(1, round(self.seconds_per_picture * self.fps)) / self.seconds_per_picture
        return H264Encoder(round(width * scale) // 2 * 2, round(height * scale) // 2 * 2, rate)


class RenderedSource(VideoSource):
    """Pictures drawn by `render(t)` (stream time in seconds -> uint8 RGB (height, width, 3)) and encoded live.

    Where drawing and encoding are too slow for `fps`, pictures are left out rather than sent late; `skipped` counts
    them. `bitrate` is in bits per second.

    :raises InvalidValue: odd sizes, or a rate that is not above 0.
    """

    def __init__(
        self,
        render: Callable[[float], NDArray[np.uint8]],
        width: int,
        height: int,
        fps: float,
        bitrate: int = 1_000_000,
    ) -> None:
        if not (math.isfinite(fps) and fps > 0):
            raise InvalidValue("video.fps", fps, "a number above 0")
        if bitrate <= 0:
            raise InvalidValue("video.bitrate", bitrate, "a number above 0")
        self._render, self._fps, self._bitrate = render, fps, bitrate
        self._size = (width, height)
        self._format = H264Encoder(width, height, fps, bitrate).format
        self.skipped = 0

    def describe(self) -> VideoFormat:
        return self._format

    def units(self, start_s: float, elapsed: Callable[[], float], stop: threading.Event) -> Iterator[AccessUnit]:
        encoder = H264Encoder(*self._size, self._fps, self._bitrate)
        number = math.ceil(start_s * self._fps)
        while not stop.is_set():
            yield from encoder.encode(self._render(number / self._fps), number / self._fps)
            following = max(number + 1, math.floor(elapsed() * self._fps))
            self.skipped += following - number - 1
            number = following

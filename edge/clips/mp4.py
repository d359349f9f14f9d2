"""Footage as an MP4 file, without coding anew; a file is there whole or not at all."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO, Final

import av
import av.error

from edge.clips.ring import Footage
from edge.core.clips import TICKS
from edge.core.errors import StoreError
from edge.files import TEMPORARY, os_errors, whole_file, write_whole

_TIME_BASE: Final = Fraction(1, TICKS)
#: Sample entries that keep the parameter sets in the header, as browsers want them.
_TAGS: Final = {"h264": "avc1", "hevc": "hvc1"}
#: Of clips that are coded anew: quick, and good enough to recognise what the camera showed.
_ENCODING: Final = {"preset": "veryfast", "crf": "23", "bf": "0"}

MaskFrame = Callable[[av.VideoFrame], av.VideoFrame]


@dataclass(frozen=True)
class ClipFile:
    """A written clip. `seconds`: from its first picture to its last."""

    seconds: float
    width: int
    height: int
    bytes: int
    sha256: str


def clip_path(folder: Path, camera: str, number: int) -> Path:
    """Where a clip lies under the appliance's data folder."""
    return folder / "clips" / camera / f"{number}.mp4"


def boxes_path(video: Path) -> Path:
    """The file of the boxes that belong to a clip's pictures."""
    return video.with_suffix(".json")


def write_clip(path: Path, footage: Footage, boxes: Mapping[str, Any], mask: MaskFrame | None = None) -> ClipFile:
    """Write a clip and, before it, its boxes. With `mask` every picture is decoded, masked by it, and coded anew as
    H.264. Raises DiskFull, StoreError, what `mask` raises: nothing is left of either then."""
    with os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            write_whole(boxes_path(path), json.dumps(boxes, separators=(",", ":")).encode())
            with whole_file(path) as stream:
                size = _remux(stream, footage) if mask is None else _encode(stream, footage, mask)
            return ClipFile(_seconds(footage), *size, path.stat().st_size, sha256(path))
        except BaseException:
            with suppress(OSError):
                drop_clip(path)
            raise


def sha256(path: Path) -> str:
    """The file's hash, in hexadecimal digits. Raises OSError."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def drop_clip(path: Path) -> None:
    """Delete a clip and its boxes, as far as they are there, half written too. Raises OSError."""
    for file in (path, boxes_path(path), *path.parent.glob(f".{path.stem}.*{TEMPORARY}")):
        file.unlink(missing_ok=True)


def _seconds(footage: Footage) -> float:
    return round((max(p.pts for p in footage.packets) - footage.first_pts) / TICKS, 3)


def _remux(stream: BinaryIO, footage: Footage) -> tuple[int, int]:
    """Write the packets as they are; returns the picture's width and height. Raises StoreError for video that no reader
    could open, OSError."""
    begin, times = footage.first_pts, decode_times([p.pts for p in footage.packets])
    checked = _Checked(stream)
    head = io.BytesIO(footage.headers + footage.packets[0].data)
    try:
        with av.open(head, format=footage.codec) as first, av.open(checked, "w", format="mp4") as out:
            template = first.streams.video[0]
            size = template.codec_context.width, template.codec_context.height
            video = out.add_stream_from_template(template)
            video.codec_context.codec_tag = _TAGS[footage.codec]
            video.time_base = _TIME_BASE
            for coded, decode in zip(footage.packets, times, strict=True):
                packet = av.Packet(coded.data)
                packet.stream, packet.time_base = video, _TIME_BASE
                packet.pts, packet.dts, packet.is_keyframe = coded.pts - begin, decode - begin, coded.key
                out.mux(packet)
    except (av.error.FFmpegError, IndexError) as error:
        if checked.error is not None:
            raise checked.error from None
        raise StoreError(f"the video cannot be written as MP4: {type(error).__name__}") from None
    if checked.error is not None:
        raise checked.error
    return size


def _encode(stream: BinaryIO, footage: Footage, mask: MaskFrame) -> tuple[int, int]:
    """Decode, mask, and code anew. Raises as `_remux`."""
    begin, size, last = footage.first_pts, (0, 0), -1
    decoder = av.CodecContext.create(footage.codec, "r")
    decoder.thread_count = 1
    checked = _Checked(stream)
    video: av.VideoStream | None = None
    try:
        with av.open(checked, "w", format="mp4") as out:
            for frame in _decoded(decoder, footage):
                if frame.is_corrupt:
                    continue
                masked = mask(frame)
                if video is None:
                    # Odd sizes cannot be coded: the last column or row goes.
                    size = masked.width - masked.width % 2, masked.height - masked.height % 2
                    video = out.add_stream("libx264", options=_ENCODING)
                    video.width, video.height, video.pix_fmt = *size, "yuv420p"
                    video.codec_context.time_base, video.codec_context.thread_count = _TIME_BASE, 1
                if masked.format.name != "yuv420p" or (masked.width, masked.height) != size:
                    masked = masked.reformat(*size, format="yuv420p", threads=1)
                # Cameras also send times that go back; the coder takes none of them.
                last = max((begin if frame.pts is None else frame.pts) - begin, last + 1)
                masked.pts, masked.time_base = last, _TIME_BASE
                masked.pict_type = av.video.frame.PictureType.NONE
                out.mux(video.encode(masked))
            if video is None:
                raise StoreError("no picture of the clip can be decoded")
            out.mux(video.encode(None))
    except av.error.FFmpegError as error:
        if checked.error is not None:
            raise checked.error from None
        raise StoreError(f"the video cannot be coded anew: {type(error).__name__}") from None
    if checked.error is not None:
        raise checked.error
    return size


def _decoded(decoder: Any, footage: Footage) -> Iterator[av.VideoFrame]:
    first = True
    for coded in footage.packets:
        packet = av.Packet(footage.headers + coded.data if first else coded.data)
        packet.pts, packet.time_base, first = coded.pts, _TIME_BASE, False
        try:
            yield from decoder.decode(packet)
        except av.error.InvalidDataError:  # a damaged packet costs its pictures only
            continue
    yield from decoder.decode(None)


def decode_times(shown: list[int]) -> list[int]:
    """Times at which packets are decoded, in that order, from the times at which their pictures are shown: they only
    grow, and no picture is shown before it is decoded. Streams often tell no such times, or wrong ones."""
    ordered = sorted(shown)
    late = max((o - s for o, s in zip(ordered, shown, strict=True)), default=0)
    times: list[int] = []
    for at in ordered:
        times.append(max(at - late, times[-1] + 1) if times else at - late)
    return times


class _Checked:
    """A file that remembers what the disk refused: FFmpeg passes over some of it."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.error: OSError | None = None

    def write(self, data: bytes) -> int:
        try:
            return self._stream.write(data)
        except OSError as error:
            self.error = error
            raise

    def read(self, size: int = -1) -> bytes:
        return self._stream.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

"""The three kinds of streams: RTSP, a looped file, a folder of stills.

Each `run(sink)` delivers pictures until the sink no longer wants any (then it returns) or the stream fails (then it
raises CameraError). Failure is a return value of the attempt; the owner of the attempt decides what to do about it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import av
import av.error
import numpy as np
from numpy.typing import NDArray

from edge.core.clips import TICKS, PacketTap
from edge.core.clock import Clock
from edge.core.errors import CameraError, InvalidValue
from edge.detectors.pictures import decoded
from edge.ingest.secrets import redact
from edge.ingest.source import CameraSource
from edge.ingest.tap import TappedStream
from edge.ingest.timing import CaptureClock, FrameTime, KeyFrameSkipper, LagMeter, PlayTimes

Picture = av.VideoFrame | NDArray[np.uint8]

PICTURE_NAMES = (".jpg", ".jpeg", ".png")


class Sink(Protocol):
    """Where an attempt to read a camera reports to."""

    def wanted(self) -> bool:
        """False: end now."""

    def wait(self, seconds: float) -> bool:
        """Sleep, but not when no longer wanted; returns `wanted()`."""

    def opened(self, codec: str) -> None:
        """The stream was opened."""

    def packet(self) -> None:
        """Media came in."""

    def dropped(self) -> None:
        """A packet was skipped to catch up."""

    def damaged(self) -> None:
        """A picture was flagged as damaged, or a packet could not be decoded."""

    def picture(self, picture: Picture, at: FrameTime) -> None:
        """A good picture."""


class Stream(Protocol):
    def run(self, sink: Sink) -> None:
        """Deliver until not wanted. :raises CameraError: the stream failed or ended."""


def open_stream(source: CameraSource, clock: Clock, capture: CaptureClock, tap: PacketTap | None = None) -> Stream:
    """The stream that `source` names. `capture` outlives attempts, so that times go forward over reconnections; `tap`
    gets the packets of video as they came."""
    if source.kind == "rtsp":
        return RtspStream(source, clock, capture, tap)
    if source.kind == "stills":
        return StillsStream(source, clock, capture)
    return FileStream(source, clock, capture, tap)


class RtspStream:
    """One connection to an RTSP camera, decoded by one thread."""

    #: Stop guessing the format early: SDP says it, and `open` would read 2 s of stream otherwise.
    OPTIONS = {  # noqa: RUF012 - never changed
        "analyzeduration": "200000",
        "probesize": "65536",
        "allowed_media_types": "video",
        "buffer_size": "2097152",  # UDP socket buffer: key frames come in bursts
        "user_agent": "magpie",
    }

    def __init__(self, source: CameraSource, clock: Clock, capture: CaptureClock, tap: PacketTap | None = None) -> None:
        self._source, self._clock, self._capture, self._tap = source, clock, capture, tap
        self._tapped: TappedStream | None = None

    def run(self, sink: Sink) -> None:
        # Opening may take so long that the next attempt has begun by then: the number tells which is newer.
        number = 0 if self._tap is None else self._tap.attempt()
        container = self._open()
        try:
            stream = video_stream(container)
            sink.opened(stream.codec_context.name)
            self._tapped = None if self._tap is None else TappedStream(self._tap, number, stream)
            self._read(container, stream, sink)
        except av.error.FFmpegError as error:
            raise self._failure(error, False) from None
        finally:
            if self._tapped is not None:
                self._tapped.ends()
            container.close()

    def _open(self) -> av.container.InputContainer:
        source = self._source
        try:
            password = source.password()
        except InvalidValue as error:
            raise CameraError("refused", "the password is not available: " + str(error)) from None
        began_s = self._clock.monotonic()
        # Later than the supervisor, who judges at the stall time: at its own timeout FFmpeg first hands out what it
        # held back, which would look like life, and reports the error after as long again.
        timeout_s = 1.25 * source.stall_timeout_s + 0.2
        options = dict(self.OPTIONS, rtsp_transport=source.transport, timeout=str(int(timeout_s * 1e6)))
        try:
            return av.open(source.url_with(password), options=options, timeout=(timeout_s, timeout_s))
        except av.error.FFmpegError as error:
            silent = self._clock.monotonic() - began_s >= 0.9 * timeout_s
            raise self._failure(error, silent) from None

    def _failure(self, error: av.error.FFmpegError, opened_in_vain: bool) -> CameraError:
        """FFmpeg's error in our words: its own text carries the URL with the password."""
        url = redact(self._source.url)
        timeout = f"{self._source.stall_timeout_s:g} s"
        if isinstance(error, av.error.HTTPUnauthorizedError | av.error.HTTPForbiddenError):
            hint = "check username and password" if self._source.username else "the camera wants a password"
            return CameraError("refused", f"{url} refuses access", hint)
        if isinstance(error, av.error.HTTPNotFoundError):
            return CameraError("not_found", f"{url}: the camera has no such stream", "check the path of the URL")
        if isinstance(error, av.error.HTTPClientError):
            hint = f"transport is {self._source.transport!r}; the camera may want the other one"
            return CameraError("unsupported", f"{url}: the camera refuses the request", hint)
        if isinstance(error, av.error.HTTPServerError):
            return CameraError("unreachable", f"{url}: the camera reports an error of its own")
        if isinstance(error, av.error.ConnectionRefusedError):
            return CameraError("unreachable", f"{url}: connection refused")
        if opened_in_vain or isinstance(error, av.error.ExitError | av.error.TimeoutError):
            return CameraError("unreachable", f"{url} does not answer within {timeout}")
        if isinstance(error, av.error.EOFError | av.error.BrokenPipeError | av.error.ConnectionResetError):
            return CameraError("ended", f"{url}: the camera closed the connection")
        if isinstance(error, av.error.InvalidDataError):
            return CameraError("damaged", f"{url}: the camera's data is not a stream that can be read")
        if isinstance(error, av.error.ProtocolNotFoundError | av.error.DecoderNotFoundError):
            return CameraError("unsupported", f"{url}: not supported by this build of FFmpeg")
        reason = os.strerror(error.errno) if error.errno and 0 < error.errno < 200 else type(error).__name__
        return CameraError("unreachable", f"{url} cannot be reached: {reason.lower()}")

    def _read(self, container: av.container.InputContainer, stream: av.VideoStream, sink: Sink) -> None:
        lag, skipper = LagMeter(), KeyFrameSkipper()
        camera_times: dict[int, float] = {}
        asked_s = self._clock.monotonic()
        for packet in container.demux(stream):
            arrival_s = self._clock.monotonic()
            if not sink.wanted():
                return
            if packet.size:
                sink.packet()
                if self._tapped is not None:
                    self._tapped.packet(packet, arrival_s, self._clock.utc())
                behind_s = 0.0
                if packet.pts is not None and packet.time_base is not None:
                    behind_s = lag.packet(arrival_s, float(packet.pts * packet.time_base), arrival_s - asked_s)
                if skipper.take(behind_s, packet.is_keyframe):
                    note_camera_time(packet, camera_times)
                    self._decode(packet, arrival_s, camera_times, sink)
                else:
                    sink.dropped()
            asked_s = self._clock.monotonic()
        raise CameraError("ended", f"{redact(self._source.url)}: the camera ended the stream")

    def _decode(
        self, packet: av.Packet[av.VideoStream], arrival_s: float, camera_times: dict[int, float], sink: Sink
    ) -> None:
        arrival_utc_s = self._clock.utc()
        try:
            frames = packet.decode()
        except av.error.FFmpegError:
            sink.damaged()
            return
        for frame in frames:
            if frame.is_corrupt:
                sink.damaged()
                continue
            camera_utc_s = camera_times.pop(-1 if frame.pts is None else frame.pts, None)
            at = self._capture.frame(arrival_s, arrival_utc_s, camera_utc_s)
            if self._tapped is not None:
                self._tapped.shown(frame, at.utc_s)
            sink.picture(frame, at)


def video_stream(container: av.container.InputContainer) -> av.VideoStream:
    """The first video stream, set to decode in this thread only (more would hide `is_corrupt`).

    :raises CameraError: there is none, or no decoder for it ("unsupported").
    """
    if not container.streams.video:
        raise CameraError("unsupported", "the stream holds no video")
    stream = container.streams.video[0]
    if stream.codec_context is None:
        raise CameraError("unsupported", "there is no decoder for this video", "H.264 and H.265 are supported")
    stream.codec_context.thread_count = 1
    stream.codec_context.thread_type = "NONE"
    return stream


def note_camera_time(packet: av.Packet[av.VideoStream], times: dict[int, float], keep: int = 64) -> None:
    """Remember the camera's UTC time of a packet by its pts, where the camera tells (RTCP; side data `prft`)."""
    for data in packet.iter_sidedata():
        if data.data_type == "prft":
            times[-1 if packet.pts is None else packet.pts] = int.from_bytes(bytes(data)[:8], "little") / 1e6
    while len(times) > keep:  # packets that never became a picture
        del times[next(iter(times))]


class FileStream:
    """A video file as a camera: looped, in real time at its own rate."""

    def __init__(self, source: CameraSource, clock: Clock, capture: CaptureClock, tap: PacketTap | None = None) -> None:
        self._source, self._clock, self._capture, self._tap = source, clock, capture, tap
        self._tapped: TappedStream | None = None
        self._number = 0
        self._began_s = clock.monotonic()

    def run(self, sink: Sink) -> None:
        self._began_s = start_s = self._clock.monotonic()
        self._number = 0 if self._tap is None else self._tap.attempt()
        try:
            while sink.wanted():
                start_s = self._once(start_s, sink)
        finally:
            if self._tapped is not None:
                self._tapped.ends()

    def _once(self, start_s: float, sink: Sink) -> float:
        """Play the file once from `start_s`; returns when the next pass begins."""
        path = self._source.path
        last_s, period_s, shown = 0.0, 0.04, 0
        try:
            # A path, and nothing that FFmpeg would take for another protocol, in a playlist neither.
            whole = f"file:{path.absolute()}"
            with av.open(whole, options={"protocol_whitelist": "file"}) as container:
                stream = video_stream(container)
                # The coded stream's own rate first: of files without times FFmpeg's other one is a guess, 25.
                if rate := stream.codec_context.framerate or stream.average_rate:
                    period_s = 1.0 / float(rate)
                sink.opened(stream.codec_context.name)
                self._tap_from(stream, start_s)
                for frame, at_s in self._pictures(container, stream, period_s, sink):
                    shown, last_s = shown + 1, at_s
                    late_s = self._clock.monotonic() - (start_s + at_s)
                    if late_s > 1.0:  # too slow a machine, or it was suspended: go on from here
                        start_s += late_s
                    if not sink.wait(-late_s):
                        return start_s
                    sink.packet()
                    at = self._capture.frame(self._clock.monotonic(), self._clock.utc(), None)
                    if self._tapped is not None:
                        self._tapped.shown(frame, at.utc_s)
                    sink.picture(frame, at)
        except av.error.FileNotFoundError:
            raise CameraError("not_found", f"the file {path} does not exist") from None
        except av.error.FFmpegError as error:
            text = f"the file {path} cannot be played: {redact(error.strerror or type(error).__name__)}"
            raise CameraError("damaged", text) from None
        if not shown and sink.wanted():
            raise CameraError("damaged", f"the file {path} holds no picture that can be decoded")
        return start_s + last_s + period_s

    def _tap_from(self, stream: av.VideoStream, start_s: float) -> None:
        """The packets of another pass go on where the one before ended."""
        if self._tap is None:
            return
        if self._tapped is None:
            self._tapped = TappedStream(self._tap, self._number, stream)
        else:
            self._tapped.again(stream, round((start_s - self._began_s) * TICKS))

    def _pictures(
        self, container: av.container.InputContainer, stream: av.VideoStream, period_s: float, sink: Sink
    ) -> Iterator[tuple[av.VideoFrame, float]]:
        """Good pictures with their seconds since the first one."""
        times = PlayTimes(period_s, self._source.stall_timeout_s / 2)
        for packet in container.demux(stream):
            if not sink.wanted():
                return
            if self._tapped is not None and packet.size:
                self._tapped.packet(packet, self._clock.monotonic(), self._clock.utc())
            try:
                frames = packet.decode()
            except av.error.EOFError:
                return
            except av.error.FFmpegError:
                sink.damaged()
                continue
            for frame in frames:
                at_s = times.picture(frame.time)
                if frame.is_corrupt:
                    sink.damaged()
                else:
                    yield frame, at_s


class StillsStream:
    """A folder of pictures as a camera: each is shown for `seconds_per_picture`, then the folder begins anew."""

    def __init__(self, source: CameraSource, clock: Clock, capture: CaptureClock) -> None:
        self._source, self._clock, self._capture = source, clock, capture

    def run(self, sink: Sink) -> None:
        due_s = self._clock.monotonic()
        while sink.wanted():
            shown = 0
            for path in stills(self._source.path):
                picture = read_still(path)
                if picture is None:
                    sink.damaged()
                    continue
                if not shown:
                    sink.opened("stills")
                shown += 1
                if not sink.wait(due_s - self._clock.monotonic()):
                    return
                sink.packet()
                at = self._capture.frame(self._clock.monotonic(), self._clock.utc(), None)
                sink.picture(picture, at)
                due_s = max(due_s, self._clock.monotonic() - 1.0) + self._source.seconds_per_picture
            if not shown:
                raise CameraError("not_found", f"the folder {self._source.path} holds no picture (jpg, png)")


def stills(folder: Path) -> list[Path]:
    """Pictures of a folder in the order of their names. :raises CameraError: the folder cannot be read."""
    try:
        return sorted(p for p in folder.iterdir() if p.suffix.lower() in PICTURE_NAMES)
    except OSError as error:
        raise CameraError("not_found", f"the folder {folder} cannot be read: {error.strerror}") from None


def read_still(path: Path) -> NDArray[np.uint8] | None:
    """uint8 RGB (H, W, 3), or None where the file cannot be read as a picture."""
    try:
        return decoded(path.read_bytes())
    except OSError:
        return None

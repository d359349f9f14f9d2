"""Coded packets on their way past the decoder, for those who keep them as they are."""

from __future__ import annotations

from typing import Any, Final

import av
import av.error
from av.bitstream import BitStreamFilterContext

from edge.core.clips import TICKS, CodedPacket, PacketTap

_START: Final = (b"\x00\x00\x01", b"\x00\x00\x00\x01")
#: Filters that turn the packets of files (lengths, parameters in the header) into a byte stream.
_TO_BYTE_STREAM: Final = {"h264": "h264_mp4toannexb", "hevc": "hevc_mp4toannexb"}


class TappedStream:
    """Hands a stream's packets to the tap, as those of its `number`. Times are its own where it tells them, else those
    of arrival."""

    def __init__(self, tap: PacketTap, number: int, stream: av.VideoStream) -> None:
        codec, headers = stream.codec_context.name, bytes(stream.codec_context.extradata or b"")
        self._filter: BitStreamFilterContext | None = None
        if headers and not headers.startswith(_START) and codec in _TO_BYTE_STREAM:
            try:
                self._filter, headers = BitStreamFilterContext(_TO_BYTE_STREAM[codec], stream), b""
            except (av.error.FFmpegError, ValueError):  # pictures may be had all the same
                codec = f"{codec} with headers that cannot be read"
        self._tap, self._number = tap, number
        tap.begins(number, codec, headers)
        self._last: CodedPacket | None = None
        self._moved_by = 0
        self._scale = _scale(stream)

    def again(self, stream: av.VideoStream, begins_at: int) -> None:
        """The same file from its beginning: its times go on at `begins_at` ticks."""
        if self._filter is not None:
            self._filter = BitStreamFilterContext(_TO_BYTE_STREAM[stream.codec_context.name], stream)
        self._moved_by = begins_at
        self._scale = _scale(stream)

    def packet(self, packet: av.Packet[av.VideoStream], arrived_s: float, arrived_utc_s: float) -> None:
        """The next packet, before or after it is decoded."""
        if self._filter is None:
            self._put(packet, arrived_s, arrived_utc_s)
            return
        try:
            for filtered in self._filter.filter(_copy(packet)):
                self._put(filtered, arrived_s, arrived_utc_s)
        except av.error.FFmpegError:  # a damaged packet, which the decoder reports
            self._filter.flush()

    def shown(self, frame: av.VideoFrame, utc_s: float) -> None:
        """A picture of the stream was taken at `utc_s`."""
        if (at := self._ticks(frame.pts)) is not None:
            self._tap.shown(self._number, at, utc_s)

    def ends(self) -> None:
        """No more comes."""
        self._tap.ends(self._number)

    def _put(self, packet: av.Packet[av.VideoStream], arrived_s: float, arrived_utc_s: float) -> None:
        last, pts = self._last, self._ticks(packet.pts)
        if last is not None and (pts is None or pts == last.pts):
            pts = last.pts + max(1, round((arrived_s - last.arrived_s) * TICKS))  # no time, or always the same
        coded = CodedPacket(pts or 0, bool(packet.is_keyframe), bytes(packet), arrived_s, arrived_utc_s)
        self._last = coded
        self._tap.packet(self._number, coded)

    def _ticks(self, pts: int | None) -> int | None:
        """A time of the stream in TICKS. In whole numbers: fractions took most of the time that a packet took here."""
        if pts is None or self._scale is None:
            return None
        times, parts = self._scale
        return (pts * times + parts // 2) // parts + self._moved_by


def _scale(stream: av.VideoStream) -> tuple[int, int] | None:
    """TICKS in a unit of the stream's times, as numerator and denominator; None: it has no such unit."""
    if stream.time_base is None:
        return None
    scale = stream.time_base * TICKS
    return scale.numerator, scale.denominator


def _copy(packet: av.Packet[av.VideoStream]) -> av.Packet[av.VideoStream]:
    """A filter takes the contents out of the packet that it is given."""
    copy: av.Packet[Any] = av.Packet(bytes(packet))
    copy.pts, copy.dts, copy.is_keyframe = packet.pts, packet.dts, packet.is_keyframe
    return copy

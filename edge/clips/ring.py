"""The last seconds of a camera's coded video in memory, bounded by seconds and bytes; it begins at a key frame."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import Final, Literal, TypeGuard

from edge.clips.byte_stream import parameter_sets
from edge.core import checks
from edge.core.clips import CODECS, TICKS, Codec, CodedPacket, Cut, RingNow, VideoStretch

#: Presentation times that go back by more, or forward by so much more than packets came apart, in seconds, begin a
#: stretch of their own.
_BACK_S: Final = 1.0
_LEAP_S: Final = 3.0


@dataclass
class _Group:
    """A key frame and the packets up to the next one. `size` in bytes."""

    stretch: int
    packets: list[CodedPacket]
    size: int


@dataclass
class _Stretch:
    """A stretch of video: its coding, the UTC times of its pictures (by presentation time), the reason of its end."""

    codec: Codec
    headers: bytes
    sets: frozenset[bytes] = frozenset()
    shown: dict[int, float] = field(default_factory=dict)
    last: CodedPacket | None = None
    ended: Literal["camera_gone", "coding_changed"] | None = None

    def utc_s(self, packet: CodedPacket) -> float:
        return self.shown.get(packet.pts, packet.arrived_utc_s)


@dataclass(frozen=True)
class Footage:
    """Packets of one stretch from a key frame on, in decoding order. `shown` has the UTC time of each picture that was
    decoded, by its presentation time."""

    codec: Codec
    headers: bytes
    packets: tuple[CodedPacket, ...]
    shown: dict[int, float]

    @property
    def first_pts(self) -> int:
        """The time of the picture that is shown first."""
        return min(p.pts for p in self.packets)

    @property
    def begins_utc_s(self) -> float:
        """When the picture that is shown first was taken."""
        first = min(self.packets, key=lambda p: p.pts)
        return self.shown.get(first.pts, first.arrived_utc_s)


class PacketRing:
    """Implements `edge.core.clips.PacketTap`. Thread-safe. Video is kept for `max_s` seconds, whole picture groups at a
    time, as long as it has at most `max_bytes`. Raises InvalidValue."""

    def __init__(self, max_s: float, max_bytes: int) -> None:
        checks.in_range("clips.ring_s", max_s, 1.0, 3600.0)
        checks.in_range("clips.ring_mb", max_bytes, 1, 1e12)
        self._max_s, self._max_bytes = max_s, max_bytes
        self._lock = threading.Lock()
        self._groups: deque[_Group] = deque()
        self._stretches: dict[int, _Stretch] = {}
        self._bytes = 0
        self._stream = self._stretch = 0  # the newest of each; a stream has one stretch, or several
        self._taking = False  # a picture group is open
        self._codec = ""
        self._begun_anew = self._shortened = self._lost = 0

    # -- from the stream

    def attempt(self) -> int:
        """A stream is about to be opened, which may take long; returns its number. Those before it are given up."""
        with self._lock:
            self._end("camera_gone")
            self._stream += 1
            return self._stream

    def begins(self, stream: int, codec: str, headers: bytes) -> None:
        """The stream was opened. Of a codec that cannot be kept nothing is."""
        with self._lock:
            if stream != self._stream:
                return
            self._codec = codec
            if _can_keep(codec):
                self._begin(_Stretch(codec, headers, parameter_sets(codec, headers)))

    def packet(self, stream: int, packet: CodedPacket) -> None:
        """The next packet, in decoding order."""
        with self._lock:
            now = self._stretches.get(self._stretch)
            if stream != self._stream or now is None or now.ended is not None:
                return
            now = self._continued(now, packet)
            if packet.key:
                self._groups.append(_Group(self._stretch, [], 0))
                self._taking = True
            elif not self._taking:
                self._lost += 1
                return
            group = self._groups[-1]
            group.packets.append(packet)
            group.size += len(packet.data)
            self._bytes += len(packet.data)
            now.last = packet
            self._evict(packet.arrived_s)

    def shown(self, stream: int, pts: int, utc_s: float) -> None:
        """The picture of the packet with this time was taken at `utc_s`."""
        with self._lock:
            now = self._stretches.get(self._stretch)
            if stream == self._stream and now is not None and self._taking:
                now.shown[pts] = utc_s

    def ends(self, stream: int) -> None:
        """No more comes of this stream."""
        with self._lock:
            if stream == self._stream:
                self._end("camera_gone")

    # -- to those who cut

    def stretches(self) -> tuple[VideoStretch, ...]:
        """The stretches in the ring now, the oldest first."""
        with self._lock:
            keys: dict[int, list[float]] = {}
            last: dict[int, _Group] = {}
            for group in self._groups:
                keys.setdefault(group.stretch, []).append(self._stretches[group.stretch].utc_s(group.packets[0]))
                last[group.stretch] = group
            held = []
            for number, times in keys.items():
                known = self._stretches[number]
                end_s = max(times[-1], known.utc_s(last[number].packets[-1]))
                held.append(VideoStretch(number, tuple(times), end_s, known.ended))
            return tuple(held)

    def footage(self, cut: Cut) -> Footage | None:
        """The packets of a cut that `stretches` led to; None: they are not there any more."""
        with self._lock:
            known = self._stretches.get(cut.stretch)
            groups = [g for g in self._groups if g.stretch == cut.stretch][cut.first_key :]
            if known is None or not groups:
                return None
            packets = [p for g in groups for p in g.packets]
            # Up to the last that is wanted in decoding order: pictures between may need one that is shown later.
            while len(packets) > 1 and known.utc_s(packets[-1]) > cut.to_utc_s:
                packets.pop()
            times = {p.pts: known.shown[p.pts] for p in packets if p.pts in known.shown}
            return Footage(known.codec, known.headers, tuple(packets), times)

    def now(self) -> RingNow:
        """Its state."""
        with self._lock:
            seconds = 0.0
            if self._groups:
                seconds = self._groups[-1].packets[-1].arrived_s - self._groups[0].packets[0].arrived_s
            return RingNow(self._codec, round(seconds, 1), self._bytes, self._begun_anew, self._shortened, self._lost)

    # -- inside; callers hold the lock

    def _begin(self, stretch: _Stretch) -> None:
        self._stretch += 1
        self._stretches[self._stretch] = stretch
        self._taking = False
        self._forget_stretches()

    def _end(self, why: Literal["camera_gone", "coding_changed"]) -> None:
        now = self._stretches.get(self._stretch)
        if now is not None and now.ended is None:
            now.ended = why

    def _continued(self, now: _Stretch, packet: CodedPacket) -> _Stretch:
        """The stretch that the packet belongs to: a new one where it is coded otherwise, or its time leaps."""
        sets = parameter_sets(now.codec, packet.data) if packet.key else frozenset()
        last = now.last
        if sets and now.sets and last is not None and not sets <= now.sets:
            self._begun_anew += 1
            self._end("coding_changed")
            # Parameters that came outside of the stream were those of the coding before.
            self._begin(_Stretch(now.codec, b"", sets))
            return self._stretches[self._stretch]
        if last is not None:
            step_s = (packet.pts - last.pts) / TICKS
            if step_s < -_BACK_S or step_s - (packet.arrived_s - last.arrived_s) > _LEAP_S:
                self._end("camera_gone")
                self._begin(_Stretch(now.codec, now.headers, now.sets))
                return self._stretches[self._stretch]
        now.sets |= sets
        return now

    def _evict(self, now_s: float) -> None:
        groups = self._groups
        while len(groups) > 1 and groups[1].packets[0].arrived_s <= now_s - self._max_s:
            self._drop_first()
        while self._bytes > self._max_bytes and len(groups) > 1:
            self._shortened += 1
            self._drop_first()
        if self._bytes > self._max_bytes:  # one picture group is too large: wait for the next
            self._lost += len(groups[0].packets)
            self._drop_first()
            self._taking = False

    def _drop_first(self) -> None:
        gone = self._groups.popleft()
        self._bytes -= gone.size
        shown = self._stretches[gone.stretch].shown
        for packet in gone.packets:
            shown.pop(packet.pts, None)
        self._forget_stretches()

    def _forget_stretches(self) -> None:
        held = {g.stretch for g in self._groups} | {self._stretch}
        for number in [n for n in self._stretches if n not in held]:
            del self._stretches[number]


def _can_keep(codec: str) -> TypeGuard[Codec]:
    return codec in CODECS

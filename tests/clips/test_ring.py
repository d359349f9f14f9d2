"""The ring of coded packets: its bounds, its stretches, and what is cut out of it."""

from __future__ import annotations

import pytest

from edge.clips.ring import PacketRing
from edge.core.clips import TICKS, CodedPacket, Cut
from edge.core.errors import InvalidValue

UTC = 1_790_000_000.0
SPS, PPS = b"\x67\x42\x00\x1e\x01", b"\x68\xce\x01"
OTHER = b"\x67\x42\x00\x28\x02"


def coded(at_s: float, key: bool = False, size: int = 100, sps: bytes = SPS, pts_s: float | None = None) -> CodedPacket:
    start = b"\x00\x00\x00\x01"
    head = start + sps + start + PPS + start + b"\x65" if key else start + b"\x41"
    pts = round((at_s if pts_s is None else pts_s) * TICKS)
    return CodedPacket(pts, key, head + b"\x80" * (size - len(head)), at_s, UTC + at_s)


def begun(ring: PacketRing, codec: str = "h264") -> int:
    """A stream that was opened at once."""
    stream = ring.attempt()
    ring.begins(stream, codec, b"")
    return stream


def filled(ring: PacketRing, first: int, last: int, size: int = 100, **more: object) -> int:
    """Ten pictures a second, a key frame at each whole second."""
    stream = begun(ring)
    for n in range(first * 10, last * 10):
        ring.packet(stream, coded(n / 10, n % 10 == 0, size, **more))  # type: ignore[arg-type]
    return stream


def test_video_is_kept_for_its_seconds_and_begins_at_a_key_frame() -> None:
    ring = PacketRing(20.0, 10**6)
    filled(ring, 0, 60)
    (held,) = ring.stretches()
    assert held.keys_utc_s[0] == UTC + 39.0, "the last 20 s, and up to a picture group more"
    assert held.end_utc_s == UTC + 59.9
    now = ring.now()
    assert (now.codec, now.bytes, now.shortened, now.begun_anew) == ("h264", 210 * 100, 0, 0)
    footage = ring.footage(Cut(held.number, 3, UTC + 45.05, 0.0, 0.0, "whole"))
    assert footage is not None
    assert footage.packets[0].key
    assert (footage.begins_utc_s, footage.packets[-1].arrived_s) == (UTC + 42.0, 45.0)


def test_bytes_are_bounded_and_what_gives_way_is_counted() -> None:
    ring = PacketRing(20.0, 5000)
    filled(ring, 0, 30)
    assert ring.now().bytes <= 5000
    assert ring.now().shortened > 0
    (held,) = ring.stretches()
    assert held.keys_utc_s[0] >= UTC + 25.0
    stream = begun(ring)
    ring.packet(stream, coded(40.0, True))
    for n in range(60):  # a picture group larger than the ring
        ring.packet(stream, coded(40.1 + n / 10))
    assert ring.now().bytes <= 5000
    assert ring.now().packets_lost > 0
    ring.packet(stream, coded(50.0, True))
    assert ring.stretches()[-1].keys_utc_s == (UTC + 50.0,), "it goes on at the next key frame"
    with pytest.raises(InvalidValue, match=r"clips\.ring_s"):
        PacketRing(0.0, 1)


def test_a_coding_that_changes_begins_the_ring_anew() -> None:
    ring = PacketRing(20.0, 10**6)
    stream = filled(ring, 0, 5)
    ring.packet(stream, coded(5.0, True, sps=OTHER))
    ring.packet(stream, coded(5.1))
    before, after = ring.stretches()
    assert (before.ended, after.ended) == ("coding_changed", None)
    assert after.keys_utc_s == (UTC + 5.0,)
    assert ring.now().begun_anew == 1


def test_each_connection_and_each_leap_of_time_is_a_stretch_of_its_own() -> None:
    ring = PacketRing(60.0, 10**6)
    first = filled(ring, 0, 3)
    ring.ends(first)
    second = filled(ring, 4, 6)
    ring.packet(first, coded(6.0, True))  # of a connection that was given up
    for n in range(10):
        ring.packet(second, coded(6 + n / 10, n % 5 == 0, pts_s=3600 + n / 10))
    kinds = [(s.ended, s.keys_utc_s[0]) for s in ring.stretches()]
    assert kinds == [("camera_gone", UTC), ("camera_gone", UTC + 4.0), (None, UTC + 6.0)]
    assert ring.now().begun_anew == 0


def test_a_connection_that_was_given_up_takes_nothing_over_when_it_opens_late() -> None:
    ring = PacketRing(60.0, 10**6)
    late = ring.attempt()
    live = filled(ring, 0, 3)
    ring.begins(late, "mpeg4", b"")
    ring.packet(late, coded(3.0, True))
    ring.ends(late)
    ring.packet(live, coded(3.1, True))
    (held,) = ring.stretches()
    assert (held.ended, held.end_utc_s) == (None, UTC + 3.1)
    assert (ring.now().codec, ring.now().packets_lost) == ("h264", 0)


def test_packets_before_a_key_frame_and_other_codecs_are_not_kept() -> None:
    ring = PacketRing(20.0, 10**6)
    stream = begun(ring)
    ring.packet(stream, coded(0.0))
    assert ring.stretches() == ()
    assert ring.now().packets_lost == 1
    other = begun(ring, "mpeg4")
    ring.packet(other, coded(1.0, True))
    assert ring.stretches() == ()
    assert ring.now().codec == "mpeg4"
    assert ring.footage(Cut(9, 0, UTC, 0.0, 0.0, "whole")) is None


def test_times_of_pictures_are_those_of_the_decoder() -> None:
    ring = PacketRing(20.0, 10**6)
    stream = filled(ring, 0, 3)
    ring.shown(stream, 1 * TICKS, UTC + 0.8)
    (held,) = ring.stretches()
    assert held.keys_utc_s == (UTC, UTC + 0.8, UTC + 2.0)
    footage = ring.footage(Cut(held.number, 1, UTC + 9.0, 0.0, 0.0, "whole"))
    assert footage is not None
    assert footage.shown == {TICKS: UTC + 0.8}

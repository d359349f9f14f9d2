"""Packets on their way past the decoder: their times, and those of their pictures."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
from video_clips import make_clip

from edge.core.clips import TICKS, CodedPacket
from edge.ingest.tap import TappedStream


class RecordedTap:
    """A tap that keeps all it gets."""

    def __init__(self) -> None:
        self.packets: list[CodedPacket] = []
        self.pictures: dict[int, float] = {}

    def attempt(self) -> int:
        return 1

    def begins(self, stream: int, codec: str, headers: bytes) -> None:
        pass

    def packet(self, stream: int, packet: CodedPacket) -> None:
        self.packets.append(packet)

    def shown(self, stream: int, pts: int, utc_s: float) -> None:
        self.pictures[pts] = utc_s

    def ends(self, stream: int) -> None:
        pass


def test_packets_and_pictures_have_the_same_times_to_the_tick_in_each_pass_of_a_file(tmp_path: Path) -> None:
    # At seven pictures a second hardly any time is a whole number of ticks.
    video = make_clip(tmp_path / "a.mp4", seconds=2.0, fps=7, gop=7)
    kept, tapped, wanted = RecordedTap(), None, []
    for begins_at in (0, 2 * TICKS):
        with av.open(str(video)) as container:
            stream = container.streams.video[0]
            if tapped is None:
                tapped = TappedStream(kept, kept.attempt(), stream)
            else:
                tapped.again(stream, begins_at)
            for packet in container.demux(stream):
                if packet.pts is not None:
                    at = Fraction(packet.pts) * packet.time_base
                    wanted.append(round(at * TICKS) + begins_at)
                    tapped.packet(packet, float(at), float(at))
                for frame in packet.decode():
                    tapped.shown(frame, float(frame.time))
    assert [p.pts for p in kept.packets] == wanted
    assert sorted(kept.pictures) == sorted(wanted)
    assert [p.key for p in kept.packets].count(True) == 4

"""Coded video as a byte stream (ITU-T H.264 and H.265, annex B): the parameters of the coding in it."""

from __future__ import annotations

from typing import Final

from edge.core.clips import Codec

_START: Final = b"\x00\x00\x01"
#: Kinds of units that hold parameters: SPS and PPS of H.264; VPS, SPS and PPS of H.265.
_PARAMETERS: Final[dict[Codec, tuple[int, ...]]] = {"h264": (7, 8), "hevc": (32, 33, 34)}
#: Kinds of units that hold a part of the picture itself: nearly all of a packet's bytes.
_PICTURE: Final[dict[Codec, range]] = {"h264": range(1, 6), "hevc": range(32)}


def parameter_sets(codec: Codec, data: bytes) -> frozenset[bytes]:
    """The units of a packet that hold parameters of the coding (picture size, profile, ...), without start codes.

    They stand before the picture that they belong to (H.264 7.4.1.2.3, H.265 7.4.2.4.4), so the search ends there: of a
    key frame hardly a byte is read.
    """
    wanted, picture = _PARAMETERS[codec], _PICTURE[codec]
    found = []
    at = data.find(_START)
    while at >= 0:
        begin = at + len(_START)
        if begin == len(data):
            break
        kind = _kind(codec, data[begin])
        if kind in picture:
            break
        at = data.find(_START, begin)
        if kind in wanted:
            found.append((data[begin:] if at < 0 else data[begin:at]).rstrip(b"\x00"))
    return frozenset(found)


def _kind(codec: Codec, first: int) -> int:
    """The kind of a unit, from its first byte."""
    return first & 0x1F if codec == "h264" else first >> 1 & 0x3F

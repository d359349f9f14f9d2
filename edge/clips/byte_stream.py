"""Coded video as a byte stream (ITU-T H.264 and H.265, annex B): the units in it and their kinds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from edge.core.clips import Codec

_START: Final = b"\x00\x00\x01"
#: Kinds of units that hold parameters: SPS and PPS of H.264; VPS, SPS and PPS of H.265.
_PARAMETERS: Final[dict[Codec, tuple[int, ...]]] = {"h264": (7, 8), "hevc": (32, 33, 34)}


def units(data: bytes) -> Iterator[bytes]:
    """The units of a byte stream, without start codes."""
    at = data.find(_START)
    while at >= 0:
        begin = at + len(_START)
        at = data.find(_START, begin)
        unit = data[begin:] if at < 0 else data[begin:at]
        yield unit.rstrip(b"\x00")


def parameter_sets(codec: Codec, data: bytes) -> frozenset[bytes]:
    """The units of a packet that hold parameters of the coding (picture size, profile, ...)."""
    wanted = _PARAMETERS[codec]
    return frozenset(u for u in units(data) if u and _kind(codec, u) in wanted)


def _kind(codec: Codec, unit: bytes) -> int:
    return unit[0] & 0x1F if codec == "h264" else unit[0] >> 1 & 0x3F

"""The parameters of the coding in a byte stream."""

from __future__ import annotations

import pytest

from edge.clips.byte_stream import parameter_sets
from edge.core.clips import Codec

START, SHORT = b"\x00\x00\x00\x01", b"\x00\x00\x01"
SPS, PPS, SEI, SLICE = b"\x67\x42\x00\x1e", b"\x68\xce\x01", b"\x06\x05\x80", b"\x65\x88\x80"
VPS5, SPS5, PPS5, SEI5, SLICE5 = b"\x40\x01\x0c", b"\x42\x01\x01", b"\x44\x01\xc1", b"\x4e\x01\x05", b"\x26\x01\xaf"


@pytest.mark.parametrize(
    ("codec", "before", "sets", "picture"),
    [("h264", SEI, (SPS, PPS), SLICE), ("hevc", SEI5, (VPS5, SPS5, PPS5), SLICE5)],
)
def test_parameter_sets_are_those_before_the_picture(
    codec: Codec, before: bytes, sets: tuple[bytes, ...], picture: bytes
) -> None:
    stream = START + before + b"".join(SHORT + s + b"\x00" for s in sets) + START + picture
    assert parameter_sets(codec, stream) == frozenset(sets), "without start codes and zeros between the units"
    assert parameter_sets(codec, START + picture) == frozenset()
    # A unit behind the picture belongs to the next one, in another packet.
    assert parameter_sets(codec, stream + START + sets[0] + b"\x55") == frozenset(sets)


def test_headers_have_no_picture_and_damaged_packets_may_have_anything() -> None:
    assert parameter_sets("h264", START + SPS + START + PPS) == {SPS, PPS}
    for nothing in (b"", b"\x67\x42", START, SEI + START, START + START, SHORT + b"\x00" + SHORT):
        assert parameter_sets("h264", nothing) == frozenset()
    assert parameter_sets("h264", START + SPS + SHORT) == {SPS}, "it was cut off"

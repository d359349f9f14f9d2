"""Messages between front and executors: every message survives its frame; nothing malformed is ever believed."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.errors import InvalidValue
from edge.serving.link_messages import (
    MAX_FRAME,
    Batch,
    Done,
    Failed,
    Frames,
    Hello,
    Loaded,
    Placed,
    Refused,
    Times,
    Welcome,
    decode,
    encode,
)

text = st.text(max_size=20)
whole = st.integers(0, 2**53 - 1)
placed = st.builds(
    Placed, text, st.sampled_from(["FP32", "BYTES", "BF16"]), st.lists(st.integers(0, 9), max_size=4).map(tuple),
    whole, whole,
)  # fmt: skip
times = st.builds(Times, *[st.floats(0, 1e6).map(lambda t: round(t, 9))] * 4)
names = st.lists(text, max_size=3).map(tuple)
messages = st.one_of(
    st.builds(Hello, text, text, names, whole),
    st.builds(Welcome, whole),
    st.builds(Refused, text),
    st.builds(Batch, whole, text, text, whole, st.lists(placed, max_size=2).map(tuple), whole, whole),
    st.builds(Done, whole, st.lists(placed, max_size=2).map(tuple), times),
    st.builds(Failed, whole, text, text, whole, times),
    st.builds(Loaded, names),
)


@given(messages)
def test_messages_round_trip(message: Any) -> None:
    assert decode(encode(message)[4:]) == message


@given(messages, st.data())
def test_a_changed_frame_is_read_or_refused(message: Any, data: st.DataObject) -> None:
    body = bytearray(encode(message)[4:])
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = decode(body)
    except InvalidValue:
        return
    assert isinstance(found, (Hello, Welcome, Refused, Batch, Done, Failed, Loaded))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | text,
    lambda inner: st.lists(inner, max_size=4),
    max_leaves=6,
)


@given(messages, st.data())
def test_any_value_in_any_field_is_read_or_refused(message: Any, data: st.DataObject) -> None:
    value = json.loads(encode(message)[4:])
    value[data.draw(st.sampled_from(sorted(value)))] = data.draw(json_values)
    with contextlib.suppress(InvalidValue):
        assert encode(decode(json.dumps(value).encode()))


def test_numbers_that_are_no_numbers_are_refused() -> None:
    body = encode(Done(1, (), Times()))[4:]
    for bad in (b"NaN", b"Infinity", b"-1", b"1e400", b"9" * 5000):
        with pytest.raises(InvalidValue):
            decode(body.replace(b'"number":1', b'"number":' + bad))


@given(st.lists(messages, max_size=4), st.data())
def test_frames_are_cut_wherever_the_stream_is_torn(sent: list[Any], data: st.DataObject) -> None:
    stream = b"".join(encode(m) for m in sent)
    frames, found, at = Frames(), [], 0
    while at < len(stream):
        step = data.draw(st.integers(1, len(stream) - at))
        found += [decode(body) for body in frames.feed(stream[at : at + step])]
        at += step
    assert found == sent
    assert frames.waiting == 0


def test_a_frame_above_the_limit_is_refused_before_it_has_come() -> None:
    assert Frames(8).feed(b"\x08\0\0\0") == []
    with pytest.raises(InvalidValue, match="9 bytes"):
        Frames(8).feed(b"\x09\0\0\0")
    with pytest.raises(InvalidValue, match="at most"):
        encode(Loaded(tuple("m" * 500 for _ in range(MAX_FRAME // 500 + 1))))

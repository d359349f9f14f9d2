"""Tensors as bytes and as JSON: what goes in comes out, and damaged input is only ever InvalidValue."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from examples_kit import tried
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from edge.core.errors import InvalidValue
from edge.core.oip import DATATYPES, InferResponse, ModelMetadata, Tensor, TensorSpec
from web.oip import codec, inference

NUMBERS = [name for name in DATATYPES if name != "BYTES"]
SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


@st.composite
def tensors(draw: st.DrawFn, name: str = "x") -> Tensor:
    datatype = draw(st.sampled_from(list(DATATYPES)))
    shape = draw(SHAPES)
    if datatype == "BYTES":
        count = int(np.prod(shape))
        array = np.empty(count, object)
        array[:] = draw(st.lists(st.binary(max_size=9), min_size=count, max_size=count))
        return Tensor(name, datatype, array.reshape(shape))
    return Tensor(name, datatype, draw(hnp.arrays(DATATYPES[datatype], shape)))


def same(a: Tensor, b: Tensor) -> bool:
    kinds = a.datatype == b.datatype and a.array.dtype == b.array.dtype and a.array.shape == b.array.shape
    return kinds and bytes(codec.to_raw(a)) == bytes(codec.to_raw(b))


@settings(deadline=None)
@given(tensors())
def test_bytes_and_back(tensor: Tensor) -> None:
    raw = bytes(codec.to_raw(tensor))
    again = codec.from_raw("x", "x", tensor.datatype, tensor.array.shape, raw)
    assert same(tensor, again)
    assert again.array.flags.c_contiguous


def finite(tensor: Tensor) -> bool:
    values = codec.to_values("x", tensor)
    return isinstance(values, list) or values.dtype.kind != "f" or bool(np.isfinite(values).all())


@settings(deadline=None)
@given(tensors(), st.booleans())
def test_json_and_back(tensor: Tensor, nested: bool) -> None:
    try:
        values = codec.to_values("x", tensor)
    except InvalidValue:
        assert tensor.datatype == "BYTES"
        with pytest.raises(UnicodeDecodeError):
            [item.decode() for item in tensor.array.reshape(-1)]
        return
    if nested and tensor.datatype != "BYTES":
        values = np.asarray(values).reshape(tensor.array.shape)
        if values.ndim == 0:
            values = values.reshape(1)
    plain = json.loads(json.dumps(values if isinstance(values, list) else values.tolist()))
    again = codec.from_values("x", "x", tensor.datatype, tensor.array.shape, plain)
    if finite(tensor):
        assert same(tensor, again)
    else:
        a, b = (np.asarray(codec.to_values("x", t)) for t in (tensor, again))
        np.testing.assert_array_equal(a, b)


def test_numbers_are_not_copied() -> None:
    body = b"?" * 3 + np.arange(6, dtype="<f4").tobytes()
    tensor = codec.from_raw("x", "x", "FP32", (2, 3), memoryview(body)[3:])
    assert tensor.array.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert np.shares_memory(tensor.array, np.frombuffer(body, np.uint8))
    assert np.shares_memory(np.frombuffer(codec.to_raw(tensor), np.uint8), np.frombuffer(body, np.uint8))


def test_any_byte_but_zero_is_true() -> None:
    array = codec.from_raw("x", "x", "BOOL", (4,), b"\x00\x01\x02\xff").array
    assert array.tobytes() == b"\x00\x01\x01\x01"


def test_elements_of_bytes() -> None:
    raw = b"\x02\x00\x00\x00ab\x00\x00\x00\x00"
    tensor = codec.from_raw("x", "x", "BYTES", (1, 2), raw)
    assert tensor.array.tolist() == [[b"ab", b""]]
    assert codec.to_raw(tensor) == raw


@pytest.mark.parametrize(
    ("datatype", "shape", "raw", "words"),
    [
        ("FP32", (1, 2), b"1234567", "7 bytes', allowed: 8 bytes for FP32 of shape [1, 2]"),
        ("BYTES", (2,), b"\x01\x00\x00\x00a", "at least 8 bytes for 2 BYTES elements"),
        ("BYTES", (2,), b"\x04\x00\x00\x00abcd", "1 elements in 8 bytes"),
        ("BYTES", (1,), b"\xff\xff\xff\xffab", "element 0 of 4294967295 bytes with 2 left"),
        ("BYTES", (1,), b"\x01\x00\x00\x00abc", "7 bytes', allowed: 5 bytes"),
        ("BYTES", (2**30,), b"", "at most 65536 BYTES elements"),
    ],
)
def test_sizes_that_do_not_fit(datatype: str, shape: tuple[int, ...], raw: bytes, words: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        codec.from_raw("inputs.x", "x", datatype, shape, raw)
    assert words in str(caught.value)
    assert caught.value.path == "inputs.x"


@pytest.mark.parametrize(
    ("shape", "path"),
    [
        ("2", "s"),
        (None, "s"),
        ([1] * 17, "s"),
        ([-1], "s[0]"),
        ([1, 2.0], "s[1]"),
        ([True], "s[0]"),
        ([2**31 + 1], "s[0]"),
        ([2**20, 2**20], "s"),
        ([0, 2**31, 2**31], "s"),
    ],
)
def test_shapes_that_are_none(shape: object, path: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        codec.checked_shape("s", shape)
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("datatype", "shape", "values", "words"),
    [
        ("INT8", (1,), [128], "from -128 to 127"),
        ("UINT8", (1,), [-1], "from 0 to 255"),
        ("INT64", (1,), [2**63], "(INT64)"),
        ("UINT64", (1,), [10**40], "more than 30 digits"),
        ("INT32", (1,), [1.0], "values of type number"),
        ("INT32", (1,), [True], "values of type true or false"),
        ("BOOL", (1,), [1], "true and false"),
        ("FP32", (1,), ["1"], "values of type text"),
        ("FP32", (1,), [None], "values of type null"),
        ("FP16", (1,), [70000], "70000.0"),
        ("FP32", (1,), [1e39], "1e+39"),
        ("BF16", (1,), [3.4e38], "numbers that BF16 can hold"),
        ("FP64", (1,), [10**400], "beyond FP64"),
        ("BYTES", (1,), [1], "text"),
        ("BYTES", (1,), ["\ud800"], "surrogate"),
        ("FP32", (2, 2), [[1, 2], [3]], "a list of 1 at depth 1"),
        ("FP32", (2, 2), [[1, 2], 3], "whole number at depth 1"),
        ("FP32", (2, 2), [[1, 2]], "a list of 1 at depth 0"),
        ("FP32", (2, 2), [1, 2, 3], "3 values"),
        ("FP32", (2, 1), [[[1]], [[2]]], "values of type list"),
        ("FP32", (2,), {"0": 1}, "object"),
        ("FP32", (2,), 1, "a list of values"),
    ],
)
def test_values_that_do_not_fit(datatype: str, shape: tuple[int, ...], values: object, words: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        codec.from_values("inputs.x.data", "x", datatype, shape, values)
    assert words in str(caught.value)
    assert caught.value.path == "inputs.x.data"


def test_bf16_rounds_to_the_nearest_even() -> None:
    values = [1.0, 1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, float("nan"), float("inf"), -2.5]
    tensor = codec.from_values("x", "x", "BF16", (7,), values)
    expected = [1.0, 1.0, 1 + 2**-6, 1 + 2**-7, np.nan, np.inf, -2.5]
    np.testing.assert_array_equal(codec.to_values("x", tensor), np.array(expected, np.float32))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None)
@given(st.sampled_from(list(DATATYPES)), SHAPES, JSON)
def test_any_json_is_a_tensor_or_refused(datatype: str, shape: tuple[int, ...], values: Any) -> None:
    try:
        tensor = codec.from_values("x", "x", datatype, shape, values)
    except InvalidValue:
        return
    assert tensor.array.shape == shape
    assert tensor.array.dtype == DATATYPES[datatype]


@settings(deadline=None)
@given(st.sampled_from(list(DATATYPES)), SHAPES, st.binary(max_size=80))
def test_any_bytes_are_a_tensor_or_refused(datatype: str, shape: tuple[int, ...], raw: bytes) -> None:
    try:
        tensor = codec.from_raw("x", "x", datatype, shape, raw)
    except InvalidValue:
        return
    assert tensor.array.shape == shape


def request_body(tensors: list[Tensor]) -> tuple[bytes, int]:
    """As a stock client writes it."""
    pieces, entries = [], []
    for tensor in tensors:
        raw = bytes(codec.to_raw(tensor))
        pieces.append(raw)
        entries.append(
            {
                "name": tensor.name,
                "datatype": tensor.datatype,
                "shape": list(tensor.array.shape),
                "parameters": {"binary_data_size": len(raw)},
            }
        )
    head = json.dumps({"id": "7", "inputs": entries, "parameters": {"timeout": 5, "binary_data_output": True}}).encode()
    return b"".join((head, *pieces)), len(head)


@settings(deadline=None)
@given(st.lists(tensors(), min_size=1, max_size=3))
def test_requests_and_answers_and_back(given_tensors: list[Tensor]) -> None:
    named = [Tensor(f"x{n}", t.datatype, t.array) for n, t in enumerate(given_tensors)]
    body, length = request_body(named)
    request, form = inference.parse("m", "2", body, length)
    assert (request.model, request.version, request.id, request.timeout_us) == ("m", "2", "7", 5)
    assert all(map(same, named, request.inputs))
    pieces, head = inference.render(InferResponse("m", "2", request.inputs, "7"), form)
    answer = b"".join(pieces)
    described = json.loads(answer[:head])
    at = len(answer) if head is None else head
    for tensor, entry in zip(named, described["outputs"], strict=True):
        size = entry["parameters"]["binary_data_size"]
        raw, at = answer[at : at + size], at + size
        assert same(tensor, codec.from_raw("y", tensor.name, entry["datatype"], tuple(entry["shape"]), raw))
    assert at == len(answer)


@settings(deadline=None, max_examples=tried(120, 300))
@given(st.lists(tensors(), min_size=1, max_size=2), st.data())
def test_damaged_requests_are_refused_and_no_more(given_tensors: list[Tensor], data: st.DataObject) -> None:
    body, length = request_body([Tensor(f"x{n}", t.datatype, t.array) for n, t in enumerate(given_tensors)])
    damaged = bytearray(body)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, max(0, len(damaged) - 1)))
        match data.draw(st.sampled_from(["change", "cut", "insert", "remove"])):
            case "change" if damaged:
                damaged[at] = data.draw(st.integers(0, 255))
            case "cut":
                del damaged[at:]
            case "insert":
                damaged[at:at] = data.draw(st.binary(max_size=4))
            case "remove":
                del damaged[at : at + 3]
    header = data.draw(st.sampled_from([length, None, length - 1, length + 1, 1, len(body), 10**9]))
    words = ""
    try:
        inference.parse("m", None, bytes(damaged), header)
    except InvalidValue as error:
        words = str(error)
    assert len(words) < 1000


@settings(deadline=None)
@given(JSON, st.sampled_from(["inputs", "outputs", "parameters", "id", "name", "shape", "datatype", "data"]))
def test_any_json_in_any_field_is_refused_or_right(value: Any, field: str) -> None:
    tensor: dict[str, Any] = {"name": "x", "shape": [2], "datatype": "FP32", "data": [1, 2]}
    body: dict[str, Any] = {"inputs": [tensor]}
    (body if field in ("inputs", "outputs", "parameters", "id") else tensor)[field] = value
    try:
        request, _ = inference.parse("m", None, json.dumps(body).encode(), None)
    except InvalidValue:
        return
    assert request.inputs[0].array.dtype in DATATYPES.values()


@pytest.mark.parametrize("deep", [b"[" * 100_000, b'{"a":' * 100_000, b"[" * 900 + b"NaN" + b"]" * 900])
def test_deep_nesting_is_refused(deep: bytes) -> None:
    with pytest.raises(InvalidValue):
        inference.parse("m", None, deep, None)


def metadata(*shapes: tuple[int, ...], datatype: str = "FP32") -> ModelMetadata:
    specs = tuple(TensorSpec(f"x{n}", datatype, shape) for n, shape in enumerate(shapes))
    return ModelMetadata("m", ("1",), "numpy", specs, specs)


@pytest.mark.parametrize(
    ("shape", "size", "expected"),
    [
        ((-1, 2, 3), 48, (2, 2, 3)),
        ((-1, -1), 20, (1, 5)),
        ((-1, 3, -1, -1), 24, (1, 3, 2, 1)),
        ((2, 2), 16, (2, 2)),
    ],
)
def test_a_raw_body_takes_the_models_shape(shape: tuple[int, ...], size: int, expected: tuple[int, ...]) -> None:
    request, form = inference.parse_raw(metadata(shape), None, bytes(size))
    assert request.inputs[0].array.shape == expected
    assert form.default


@pytest.mark.parametrize(
    ("described", "size"),
    [
        (metadata((-1, 2), (-1, 2)), 8),
        (metadata((-1, 3)), 16),
        (metadata((2, 2)), 8),
        (metadata((-1, 4), datatype="BYTES"), 8),
    ],
)
def test_raw_bodies_that_do_not_fit(described: ModelMetadata, size: int) -> None:
    with pytest.raises(InvalidValue):
        inference.parse_raw(described, None, bytes(size))


def test_a_raw_body_for_text_is_one_element() -> None:
    request, _ = inference.parse_raw(metadata((-1, 1), datatype="BYTES"), None, b"abc")
    assert request.inputs[0].array.tolist() == [[b"abc"]]

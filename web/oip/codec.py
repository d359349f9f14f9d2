"""Tensors of the Open Inference Protocol v2 as bytes and as JSON values, both ways.

For all bytes and values, the only error raised is InvalidValue, naming the tensor and the numbers. A tensor's size is
bounded by the bytes that came: no count or shape that a client states is trusted before it was compared with them.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from edge.core.errors import InvalidValue
from edge.core.oip import DATATYPES, Tensor

#: numpy holds up to 64 dimensions; no model comes near this.
MAX_RANK: Final = 16
#: Elements of one tensor that a shape may stand for, dimensions of size zero left out.
MAX_ELEMENTS: Final = 2**32
#: Text and byte strings are taken apart one by one, and nothing else is answered meanwhile.
MAX_BYTES_ELEMENTS: Final = 2**16
_MAX_NAME: Final = 256
_LENGTH: Final = struct.Struct("<I")
_FLOATS: Final = frozenset({"FP16", "FP32", "FP64", "BF16"})


def checked_name(path: str, name: object) -> str:
    """A tensor's name as it came. Raises InvalidValue."""
    if not isinstance(name, str) or not 0 < len(name) <= _MAX_NAME:
        raise InvalidValue(path, name, f"a name of 1 to {_MAX_NAME} characters")
    return name


def checked_datatype(path: str, datatype: object) -> str:
    """A datatype of the protocol. Raises InvalidValue."""
    if not isinstance(datatype, str) or datatype not in DATATYPES:
        raise InvalidValue(path, datatype, "one of " + ", ".join(DATATYPES))
    return datatype


def checked_shape(path: str, shape: object) -> tuple[int, ...]:
    """Sizes of the dimensions, each 0 or more, no more than MAX_ELEMENTS elements. Raises InvalidValue."""
    if not isinstance(shape, list | tuple):
        raise InvalidValue(path, shape, "a list of whole numbers")
    if len(shape) > MAX_RANK:
        raise InvalidValue(path, f"{len(shape)} dimensions", f"at most {MAX_RANK} dimensions")
    for n, size in enumerate(shape):
        if type(size) is not int or not 0 <= size <= 2**31:
            raise InvalidValue(f"{path}[{n}]", size, "a whole number from 0 to 2147483648")
    if math.prod(size or 1 for size in shape) > MAX_ELEMENTS:
        raise InvalidValue(path, list(shape), f"at most {MAX_ELEMENTS} elements")
    return tuple(shape)


def from_raw(path: str, name: str, datatype: str, shape: tuple[int, ...], data: bytes | memoryview) -> Tensor:
    """A tensor over `data`, row-major and little-endian, without a copy where the datatype allows: the array is
    read-only then and may be unaligned, and keeps `data` alive. BYTES: each element is its length (4 bytes) and its
    bytes. `datatype` and `shape` were checked. Raises InvalidValue (size, or BYTES that do not add up)."""
    count = math.prod(shape)
    if datatype == "BYTES":
        return Tensor(name, datatype, _unpack_bytes(path, data, count).reshape(shape))
    dtype = DATATYPES[datatype]
    if len(data) != count * dtype.itemsize:
        need = f"{count * dtype.itemsize} bytes for {datatype} of shape {list(shape)}"
        raise InvalidValue(path, f"{len(data)} bytes", need)
    if datatype == "BOOL":
        # Any byte but 0 is true to C; numpy and torch count on 0 and 1.
        raw = np.frombuffer(data, np.uint8)
        truth: NDArray[Any] = raw.view(np.bool_) if count == 0 or raw.max() <= 1 else raw != 0
        return Tensor(name, datatype, truth.reshape(shape))
    return Tensor(name, datatype, np.frombuffer(data, dtype).reshape(shape))


def from_values(path: str, name: str, datatype: str, shape: tuple[int, ...], values: object) -> Tensor:
    """A tensor from parsed JSON: a flat list in row-major order, or lists nested as `shape` says. BOOL: true and
    false; whole numbers in the datatype's range; BYTES: text, kept as UTF-8. `datatype` and `shape` were checked.
    Raises InvalidValue."""
    flat = _flatten(path, values, shape)
    count = math.prod(shape)
    if len(flat) != count:
        raise InvalidValue(path, f"{len(flat)} values", f"{count} values for shape {list(shape)}")
    return Tensor(name, datatype, _array(path, datatype, flat).reshape(shape))


def from_numbers(path: str, name: str, datatype: str, shape: tuple[int, ...], values: Sequence[Any]) -> Tensor:
    """The same from a flat sequence whose members are known to be of the right kind (gRPC `contents`)."""
    count = math.prod(shape)
    if len(values) != count:
        raise InvalidValue(path, f"{len(values)} values", f"{count} values for shape {list(shape)}")
    if datatype == "BYTES":
        return Tensor(name, datatype, _objects(list(values)).reshape(shape))
    return Tensor(name, datatype, _array(path, datatype, list(values)).reshape(shape))


def to_raw(tensor: Tensor) -> bytes | memoryview:
    """The tensor's bytes, row-major and little-endian; of anything but BYTES a view without a copy, where it is
    contiguous already."""
    if tensor.datatype == "BYTES":
        parts: list[bytes] = []
        for item in tensor.array.reshape(-1).tolist():
            parts += (_LENGTH.pack(len(item)), item)
        return b"".join(parts)
    array = np.ascontiguousarray(tensor.array, DATATYPES[tensor.datatype])
    return array.reshape(-1).view(np.uint8).data


def to_values(path: str, tensor: Tensor) -> NDArray[Any] | list[str]:
    """The elements in row-major order as JSON can hold them: a flat array of numbers or truth values (of BF16 the
    same numbers as FP32), or a list of text. Raises InvalidValue (BYTES that are not UTF-8)."""
    flat = tensor.array.reshape(-1)
    if tensor.datatype == "BYTES":
        try:
            return [str(item, "utf-8") for item in flat.tolist()]
        except UnicodeDecodeError as error:
            given = f"bytes that are no UTF-8 text ({error.reason} at {error.start})"
            raise InvalidValue(path, given, "UTF-8 text in JSON; ask for this output as binary data") from None
    if tensor.datatype == "BF16":
        return _bf16_to_fp32(flat)
    return np.ascontiguousarray(flat, DATATYPES[tensor.datatype])


def _unpack_bytes(path: str, data: bytes | memoryview, count: int) -> NDArray[Any]:
    size = len(data)
    if count > MAX_BYTES_ELEMENTS:
        raise InvalidValue(path, f"{count} elements", f"at most {MAX_BYTES_ELEMENTS} BYTES elements")
    if count * _LENGTH.size > size:
        raise InvalidValue(path, f"{size} bytes", f"at least {count * _LENGTH.size} bytes for {count} BYTES elements")
    found: list[bytes] = []
    at = 0
    for n in range(count):
        if at + _LENGTH.size > size:
            raise InvalidValue(path, f"{n} elements in {size} bytes", f"{count} BYTES elements")
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        if length > size - at:
            raise InvalidValue(
                path, f"element {n} of {length} bytes with {size - at} left", "elements that fit the data"
            )
        found.append(bytes(data[at : at + length]))
        at += length
    if at != size:
        raise InvalidValue(path, f"{size} bytes", f"{at} bytes, where its {count} BYTES elements end")
    return _objects(found)


def _objects(items: list[bytes]) -> NDArray[Any]:
    array = np.empty(len(items), object)
    array[:] = items
    return array


def _flatten(path: str, values: object, shape: tuple[int, ...]) -> list[Any]:
    """The values one after another. They are nested as `shape` says or not at all."""
    if not isinstance(values, list):
        raise InvalidValue(path, _kind(values), "a list of values")
    if not values or len(shape) < 2 or not isinstance(values[0], list):
        return values
    allowed = f"lists nested as shape {list(shape)}, or flat"
    level: list[Any] = [values]
    for depth, size in enumerate(shape):
        for part in level:
            if not isinstance(part, list):
                raise InvalidValue(path, f"{_kind(part)} at depth {depth}", allowed)
            if len(part) != size:
                raise InvalidValue(path, f"a list of {len(part)} at depth {depth}", allowed)
        level = list(chain.from_iterable(level))
    return level


def _array(path: str, datatype: str, flat: list[Any]) -> NDArray[Any]:
    kinds = set(map(type, flat))
    if datatype == "BYTES":
        _only(path, kinds, {str}, "text")
        try:
            return _objects([text.encode() for text in flat])
        except UnicodeEncodeError:
            raise InvalidValue(path, "text with half a surrogate pair", "text that UTF-8 can hold") from None
    if datatype == "BOOL":
        _only(path, kinds, {bool}, "true and false")
        return np.array(flat, np.bool_)
    if datatype in _FLOATS:
        _only(path, kinds, {int, float}, "numbers")
        return _floats(path, datatype, flat)
    _only(path, kinds, {int}, "whole numbers")
    dtype = DATATYPES[datatype]
    try:
        return np.array(flat, dtype)
    except OverflowError:
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        bad = next(value for value in flat if not low <= value <= high)
        raise InvalidValue(path, _short(bad), f"whole numbers from {low} to {high} ({datatype})") from None


def _floats(path: str, datatype: str, flat: list[Any]) -> NDArray[Any]:
    """Numbers rounded to the datatype; one that is finite in JSON and not in the datatype is refused."""
    try:
        wide = np.array(flat, np.float64)
    except OverflowError:
        raise InvalidValue(path, "a whole number beyond FP64", f"numbers that {datatype} can hold") from None
    if datatype == "FP64":
        return wide
    with np.errstate(over="ignore", invalid="ignore"):
        narrow = wide.astype(np.float16 if datatype == "FP16" else np.float32)
        back = narrow
        if datatype == "BF16":
            narrow = _fp32_to_bf16(narrow)
            back = _bf16_to_fp32(narrow)
    lost = np.isinf(back) & np.isfinite(wide)
    if lost.any():
        raise InvalidValue(path, float(wide[lost.argmax()]), f"numbers that {datatype} can hold")
    return narrow


def _fp32_to_bf16(values: NDArray[Any]) -> NDArray[Any]:
    """The upper half of each number's bits, rounded to the nearest, ties to even."""
    bits = values.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")
    rounded[np.isnan(values)] = 0x7FC0
    return rounded


def _bf16_to_fp32(values: NDArray[Any]) -> NDArray[Any]:
    return (values.astype(np.uint32) << 16).view(np.float32)


def _only(path: str, kinds: set[type], allowed: set[type], words: str) -> None:
    for kind in kinds - allowed:
        raise InvalidValue(path, f"values of type {_KINDS.get(kind, kind.__name__)}", words)


_KINDS: Final = {
    bool: "true or false",
    int: "whole number",
    float: "number",
    str: "text",
    list: "list",
    dict: "object",
    type(None): "null",
}


def _kind(value: object) -> str:
    return _KINDS.get(type(value), type(value).__name__)


def _short(value: int) -> str:
    return str(value) if abs(value) < 10**30 else "a number of more than 30 digits"

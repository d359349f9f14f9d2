"""Requests made beforehand: the protocol's binary form of random or recorded tensors."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge.core.errors import InvalidValue, NotFound
from edge.core.oip import DATATYPES, TensorSpec
from edge.load.spec import ModelLoad

MOST_BYTES = 1 << 30  # of all samples of one model


@dataclass(frozen=True)
class Body:
    """One request: its body, and how many bytes of it are the header (JSON)."""

    data: bytes
    header_length: int


def bodies(load: ModelLoad, inputs: Sequence[TensorSpec], folder: Path, seed: int, timeout_us: int) -> list[Body]:
    """`load.samples` requests of `load.rows` rows each. Raises InvalidValue, NotFound."""
    random = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(zlib.crc32(load.name.encode()), 1)))
    known = {spec.name for spec in inputs}
    for field, given in (("inputs", load.inputs), ("shapes", load.shapes)):
        for name in given:
            if name not in known:
                raise InvalidValue(f"{load.name}.{field}", name, f"an input of the model: {', '.join(sorted(known))}")
    recorded = {name: _read(folder / file, load.name, name) for name, file in load.inputs.items()}
    shapes = {spec.name: _shape(load, spec, recorded.get(spec.name)) for spec in inputs}
    size = sum(int(np.prod(shapes[s.name])) * max(1, DATATYPES[s.datatype].itemsize) for s in inputs)
    if size * load.samples > MOST_BYTES:
        raise InvalidValue(f"{load.name}.samples", load.samples, f"at most {MOST_BYTES // size} of {size} bytes each")
    out = []
    for n in range(load.samples):
        parts = []
        for spec in inputs:
            source = recorded.get(spec.name)
            if source is None:
                parts.append(random_bytes(spec.datatype, shapes[spec.name], random))
            else:
                rows = shapes[spec.name][0]
                parts.append(
                    _encoded(load.name, spec, np.take(source, range(n * rows, (n + 1) * rows), 0, mode="wrap"))
                )
        out.append(_body(load, inputs, shapes, parts, timeout_us))
    return out


def random_bytes(datatype: str, shape: Sequence[int], random: np.random.Generator) -> bytes:
    """Elements in the protocol's binary form: standard normal numbers, bytes from 0 to 255, other integers from 0 to
    99, truth values, texts of 16 letters."""
    count = int(np.prod(shape))
    if datatype == "BYTES":
        letters = random.integers(97, 123, (count, 16), dtype=np.uint8)
        return b"".join(b"\x10\0\0\0" + row.tobytes() for row in letters)
    if datatype == "BF16":
        return (random.standard_normal(count, np.float32).view("<u4") >> 16).astype("<u2").tobytes()
    dtype = DATATYPES[datatype]
    if dtype.kind == "f":
        return random.standard_normal(count, np.float32).astype(dtype).tobytes()
    high = {"BOOL": 2, "UINT8": 256}.get(datatype, 100)
    return random.integers(0, high, count).astype(dtype).tobytes()


def _body(
    load: ModelLoad,
    inputs: Sequence[TensorSpec],
    shapes: Mapping[str, tuple[int, ...]],
    parts: Sequence[bytes],
    timeout_us: int,
) -> Body:
    parameters: dict[str, Any] = {} if load.outputs else {"binary_data_output": True}
    if load.priority:
        parameters["priority"] = load.priority
    if timeout_us:
        parameters["timeout"] = timeout_us
    header: dict[str, Any] = {
        "inputs": [
            {
                "name": spec.name,
                "datatype": spec.datatype,
                "shape": list(shapes[spec.name]),
                "parameters": {"binary_data_size": len(part)},
            }
            for spec, part in zip(inputs, parts, strict=True)
        ],
        "parameters": parameters,
    }
    if load.outputs:
        header["outputs"] = [{"name": name, "parameters": {"binary_data": True}} for name in load.outputs]
    text = json.dumps(header, separators=(",", ":")).encode()
    return Body(b"".join([text, *parts]), len(text))


def _shape(load: ModelLoad, spec: TensorSpec, recorded: NDArray[Any] | None) -> tuple[int, ...]:
    at = f"{load.name}.{spec.name}"
    rows = load.rows if not spec.shape or spec.shape[0] == -1 else spec.shape[0]
    rest: tuple[int, ...] = spec.shape[1:]
    given = load.shapes.get(spec.name)
    if recorded is not None:
        given = recorded.shape[1:]
    if given is not None:
        if len(given) != len(rest) or any(w not in (-1, g) for w, g in zip(rest, given, strict=True)):
            raise InvalidValue(f"{at} shape", list(given), f"{list(rest)} after the rows, -1 being any size")
        rest = tuple(given)
    if -1 in rest:
        example = "x".join("64" if n == -1 else str(n) for n in rest)
        raise InvalidValue(f"{at} shape", list(spec.shape), f"sizes for -1: --shape {load.name}:{spec.name}={example}")
    return (rows, *rest)


def _read(path: Path, model: str, tensor: str) -> NDArray[Any]:
    try:
        array = np.load(path, allow_pickle=False)
    except OSError as error:
        raise NotFound(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, EOFError) as error:
        raise InvalidValue(f"{model}.inputs.{tensor}", str(path), f"a .npy file of numbers ({error})") from error
    if not isinstance(array, np.ndarray) or array.ndim == 0 or not len(array):
        raise InvalidValue(f"{model}.inputs.{tensor}", str(path), "a .npy file of one array with at least one row")
    return array


def _encoded(model: str, spec: TensorSpec, array: NDArray[Any]) -> bytes:
    if spec.datatype == "BYTES" and array.dtype.kind == "S":
        return b"".join(len(e).to_bytes(4, "little") + e for e in array.ravel().tolist())
    if spec.datatype == "BYTES" or array.dtype != DATATYPES[spec.datatype]:
        raise InvalidValue(f"{model}.inputs.{spec.name}", str(array.dtype), f"an array of {spec.datatype}")
    return np.ascontiguousarray(array).tobytes()

"""Inference requests and answers of the REST transport: a JSON header, and raw tensors behind it.

The binary-tensor extension: `Inference-Header-Content-Length` says where the JSON ends, an input with the parameter
`binary_data_size` takes that many bytes behind it, in the order of the inputs. Outputs likewise. A length of 0 means
that the whole body is the one input of the model.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import orjson

from edge.core.errors import InvalidValue
from edge.core.oip import DATATYPES, InferRequest, InferResponse, ModelMetadata, Tensor
from web.oip import codec

MAX_TENSORS: Final = 256
_MAX_ID: Final = 1024
NO_SHARED_MEMORY: Final = "shared memory regions are not offered: send the data"
#: Parameters of clients for features that served models here do not have: refused, because an answer that ignores them
#: would be wrong.
_NOT_OFFERED: Final = {
    "shared_memory_region": NO_SHARED_MEMORY,
    "shared_memory_byte_size": NO_SHARED_MEMORY,
    "shared_memory_offset": NO_SHARED_MEMORY,
    "classification": "the classification extension is not offered: take the output itself",
}
Body: TypeAlias = bytes | memoryview
_SEQUENCE: Final = ("sequence_id", "sequence_start", "sequence_end")


@dataclass(frozen=True)
class AnswerForm:
    """Which outputs are wanted as raw bytes; `default` for those not named."""

    default: bool = False
    binary: Mapping[str, bool] = field(default_factory=dict)


def load_json(data: Body, path: str = "(body)") -> Any:
    """Parsed JSON; NaN and Infinity, which stock clients write too, are taken. Raises InvalidValue."""
    try:
        return orjson.loads(data)
    except ValueError as error:
        text = bytes(data)
        if b"NaN" in text or b"Infinity" in text:
            try:
                return json.loads(text)
            except (ValueError, RecursionError):
                pass  # reported below, in the words of the first parser
        raise InvalidValue(path, _begin(text), f"JSON ({error})") from None


def parse(model: str, version: str | None, body: Body, header_length: int | None) -> tuple[InferRequest, AnswerForm]:
    """The request in `body`, whose first `header_length` bytes are JSON (None: all). Raises InvalidValue."""
    if header_length is None:
        header_length = len(body)
    elif header_length > len(body):
        given = f"{header_length} with a body of {len(body)} bytes"
        raise InvalidValue("Inference-Header-Content-Length", given, "at most the length of the body")
    view = memoryview(body)
    header = load_json(view[:header_length])
    if not isinstance(header, dict):
        raise InvalidValue("(body)", type(header).__name__, "a JSON object")
    id_ = header.get("id", "")
    if not isinstance(id_, str) or len(id_) > _MAX_ID:
        raise InvalidValue("id", id_, f"text of at most {_MAX_ID} characters")
    parameters = _parameters("parameters", header)
    inputs = tuple(_inputs(_items("inputs", header), view, header_length))
    check_unique("inputs", [tensor.name for tensor in inputs])
    default = _flag("parameters.binary_data_output", parameters.get("binary_data_output", False))
    binary: dict[str, bool] = {}
    for n, output in enumerate(_items("outputs", header, required=False)):
        name = codec.checked_name(f"outputs[{n}].name", output.get("name"))
        wanted = _parameters(f"outputs.{name}.parameters", output)
        refuse_not_offered(f"outputs.{name}.parameters", wanted)
        if name in binary:
            raise InvalidValue("outputs", name, "each name once")
        binary[name] = _flag(f"outputs.{name}.parameters.binary_data", wanted.get("binary_data", default))
    request = make_request(model, version, id_, inputs, tuple(binary), parameters)
    return request, AnswerForm(default, binary)


def make_request(
    model: str,
    version: str | None,
    id_: str,
    inputs: tuple[Tensor, ...],
    outputs: tuple[str, ...],
    parameters: Mapping[str, Any],
) -> InferRequest:
    """The request with what its parameters say taken out of them. Raises InvalidValue (priority, timeout, features that
    are not offered).
    """
    if not parameters:
        return InferRequest(model, inputs, version, id_, outputs)
    if parameters.get("sequence_id") or parameters.get("sequence_start") or parameters.get("sequence_end"):
        allowed = "no sequence: served models keep no state between requests"
        raise InvalidValue("parameters.sequence_id", parameters.get("sequence_id"), allowed)
    priority = _whole("parameters.priority", parameters.get("priority", 0), 2**31)
    timeout = _whole("parameters.timeout", parameters.get("timeout", 0), 2**63)
    taken = ("priority", "timeout", "binary_data_output", *_SEQUENCE)
    rest = {key: value for key, value in parameters.items() if key not in taken}
    return InferRequest(model, inputs, version, id_, outputs, priority, timeout, rest)


def refuse_not_offered(path: str, parameters: Iterable[str]) -> None:
    """Refuse parameters of an input or output that stand for what is not offered. Raises InvalidValue."""
    for key in parameters:
        if key in _NOT_OFFERED:
            raise InvalidValue(f"{path}.{key}", key, _NOT_OFFERED[key])


def check_unique(path: str, names: list[str]) -> None:
    """No name comes twice. Raises InvalidValue."""
    if len(set(names)) != len(names):
        raise InvalidValue(path, next(n for n in names if names.count(n) > 1), "each name once")


def parse_raw(metadata: ModelMetadata, version: str | None, body: Body) -> tuple[InferRequest, AnswerForm]:
    """The request whose whole body is the model's one input; every output is answered as raw bytes. Where the model
    leaves one size open it is what the length gives, further open sizes are 1. Raises InvalidValue."""
    if len(metadata.inputs) != 1:
        given = f"0 for a model of {len(metadata.inputs)} inputs"
        raise InvalidValue("Inference-Header-Content-Length", given, "0 only where the model has one input")
    (spec,) = metadata.inputs
    path = f"inputs.{spec.name}"
    if spec.datatype == "BYTES":
        element = np.empty(1, object)
        element[0] = bytes(body)
        if math.prod(size for size in spec.shape if size >= 0) != 1:
            raise InvalidValue(path, "a raw body", f"one element; this input has the shape {list(spec.shape)}")
        tensor = Tensor(spec.name, spec.datatype, element.reshape((1,) * len(spec.shape)))
        return InferRequest(metadata.name, (tensor,), version), AnswerForm(True)
    known = math.prod(size for size in spec.shape if size >= 0) * DATATYPES[spec.datatype].itemsize
    open_sizes = [n for n, size in enumerate(spec.shape) if size < 0]
    shape = [1 if size < 0 else size for size in spec.shape]
    if open_sizes and known:
        # With several open sizes the first is the batch, and a client's raw tensor is one request.
        shape[open_sizes[0] if len(open_sizes) == 1 else open_sizes[1]] = len(body) // known
    checked = codec.checked_shape(f"{path}.shape", shape)
    return InferRequest(
        metadata.name, (codec.from_raw(path, spec.name, spec.datatype, checked, memoryview(body)),), version
    ), AnswerForm(True)


def render(response: InferResponse, form: AnswerForm) -> tuple[list[bytes | memoryview], int | None]:
    """The pieces of the answer's body, and the length of the JSON in front if raw tensors follow it. Raises
    InvalidValue (BYTES that are not text, wanted as JSON).
    """
    outputs: list[dict[str, Any]] = []
    raw: list[bytes | memoryview] = []
    finite = True
    for tensor in response.outputs:
        entry: dict[str, Any] = {
            "name": tensor.name,
            "datatype": tensor.datatype,
            "shape": tensor.array.shape,
        }
        if form.binary.get(tensor.name, form.default):
            piece = codec.to_raw(tensor)
            entry["parameters"] = {"binary_data_size": len(piece)}
            raw.append(piece)
        else:
            values = codec.to_values(f"outputs.{tensor.name}", tensor)
            if not isinstance(values, list) and values.dtype.kind == "f":
                finite = finite and bool(np.isfinite(values).all())
            entry["data"] = values
        outputs.append(entry)
    header: dict[str, Any] = {"model_name": response.model, "model_version": response.version}
    if response.id:
        header["id"] = response.id
    if response.parameters:
        header["parameters"] = dict(response.parameters)
    header["outputs"] = outputs
    if finite:
        head = orjson.dumps(header, option=orjson.OPT_SERIALIZE_NUMPY)
    else:
        # JSON has no word for them; stock clients read these, and null would turn an infinity into NaN.
        head = json.dumps(header, default=lambda values: values.tolist(), separators=(",", ":")).encode()
    return [head, *raw], len(head) if raw else None


def _inputs(items: list[dict[str, Any]], body: memoryview, at: int) -> Iterable[Tensor]:
    if not items:
        raise InvalidValue("inputs", [], "at least one input")
    for n, item in enumerate(items):
        name = codec.checked_name(f"inputs[{n}].name", item.get("name"))
        path = f"inputs.{name}"
        datatype = codec.checked_datatype(f"{path}.datatype", item.get("datatype"))
        shape = codec.checked_shape(f"{path}.shape", item.get("shape"))
        parameters = _parameters(f"{path}.parameters", item)
        refuse_not_offered(f"{path}.parameters", parameters)
        size = parameters.get("binary_data_size")
        if size is None:
            if "data" not in item:
                raise InvalidValue(f"{path}.data", None, "values, or the parameter binary_data_size and raw bytes")
            yield codec.from_values(f"{path}.data", name, datatype, shape, item["data"])
            continue
        size = _whole(f"{path}.parameters.binary_data_size", size, 2**63)
        if "data" in item:
            raise InvalidValue(f"{path}.data", "values", "none beside binary_data_size")
        if size > len(body) - at:
            raise InvalidValue(
                f"{path}.parameters.binary_data_size",
                size,
                f"at most the {len(body) - at} bytes that the body has left",
            )
        yield codec.from_raw(path, name, datatype, shape, body[at : at + size])
        at += size
    if at != len(body):
        raise InvalidValue(
            "(body)", f"{len(body) - at} bytes behind the last input", "no bytes that belong to no input"
        )


def _items(path: str, header: dict[str, Any], *, required: bool = True) -> list[dict[str, Any]]:
    found = header.get(path)
    if found is None and not required:
        return []
    if not isinstance(found, list):
        raise InvalidValue(path, type(found).__name__, "a list of objects")
    if len(found) > MAX_TENSORS:
        raise InvalidValue(path, f"{len(found)} items", f"at most {MAX_TENSORS}")
    for n, item in enumerate(found):
        if not isinstance(item, dict):
            raise InvalidValue(f"{path}[{n}]", type(item).__name__, "an object")
    return found


def _parameters(path: str, owner: dict[str, Any]) -> dict[str, Any]:
    found = owner.get("parameters")
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InvalidValue(path, type(found).__name__, "an object")
    for key, value in found.items():
        if isinstance(value, list | dict):
            raise InvalidValue(f"{path}.{key[:80]}", type(value).__name__, "text, a number, true or false")
    return found


def _flag(path: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidValue(path, value, "true or false")
    return value


def _whole(path: str, value: object, below: int) -> int:
    if type(value) is not int or not 0 <= value < below:
        raise InvalidValue(path, value, f"a whole number from 0 to {below - 1}")
    return value


def _begin(text: bytes) -> str:
    return repr(text[:40])[1:] + ("..." if len(text) > 40 else "")

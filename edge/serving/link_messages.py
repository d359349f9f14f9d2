"""Messages between the serving front and its executors: values, their schema, and the frames they travel in.

A frame is a length (4 bytes, little-endian) and a JSON object. Nothing is ever unpickled and every number is checked,
because an executor runs untrusted models: its messages can end its own link, and nothing else.

    executor                          front
    Hello(name, token, models, kind) -> Welcome(arena) with the arena's descriptor, or Refused(reason)
                                   <- Batch(number, model, version, rows, inputs, room for outputs)
    Done(number, outputs, times)   ->    or Failed(number, code, reason)
    Loaded(models)                 ->    whenever the set of loaded versions has changed

The front answers in any order that it likes; an executor runs batches in the order of their coming.

A camera's worker connects in the same way, with `camera:NAME` as its name and its classes as models. It writes into the
arena, and the front gives the places back:

    OfferedAnswer(slot, frame, applications, tensors) ->
                                                     <- SlotFree(slot)
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, cast, get_args

from edge.core.errors import InvalidValue, Unavailable
from edge.core.oip import DATATYPES

#: The largest frame: a batch of a model with hundreds of tensors stays far below.
MAX_FRAME = 2**20
#: An accepted connection must prove itself within this time.
HELLO_S = 5.0
#: The longest reason in a message, in characters.
MAX_TEXT = 4096

_HEADER = struct.Struct("<I")
_LARGEST = 2**53
_MAX_DIMENSIONS = 32
_MAX_TENSORS = 256


class LinkLost(Unavailable):
    """The other end of the link is gone, or broke the protocol."""

    code = "link_lost"


@dataclass(frozen=True)
class Placed:
    """A tensor in the arena: `nbytes` at `offset`. BYTES are in the protocol's encoding (length before content)."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    offset: int
    nbytes: int


#: The processes that join the front.
PeerKind = Literal["executor", "camera"]


@dataclass(frozen=True)
class Hello:
    """A process's first frame: the name of the executor or of the camera, and the secret that it was started with.
    `models` are `model/version` of all that an executor serves; of a camera its classes."""

    name: str
    token: str
    models: tuple[str, ...]
    pid: int = 0
    kind: PeerKind = "executor"


@dataclass(frozen=True)
class Welcome:
    """The front's answer; the arena's descriptor travels with it."""

    arena_bytes: int


@dataclass(frozen=True)
class Refused:
    """The front's other answer: wrong token, or an executor of that name is connected."""

    reason: str


@dataclass(frozen=True)
class Batch:
    """One batch of `rows` requests' data. Outputs go into `output_bytes` at `output_offset`."""

    number: int
    model: str
    version: str
    rows: int
    inputs: tuple[Placed, ...]
    output_offset: int
    output_bytes: int

    @property
    def key(self) -> str:
        """`model/version`."""
        return f"{self.model}/{self.version}"


@dataclass(frozen=True)
class Times:
    """Seconds of a batch in its executor: waiting for the share, reading inputs, computing, writing outputs."""

    waited_s: float = 0.0
    input_s: float = 0.0
    infer_s: float = 0.0
    output_s: float = 0.0

    @property
    def busy_s(self) -> float:
        """Without the wait."""
        return self.input_s + self.infer_s + self.output_s


@dataclass(frozen=True)
class Done:
    """A batch has been computed."""

    number: int
    outputs: tuple[Placed, ...]
    times: Times = field(default_factory=Times)


@dataclass(frozen=True)
class Failed:
    """A batch failed, and only it. `code` is that of edge.core.errors, or "model_failed", "out_of_memory",
    "output_too_large" (then `needed_bytes` is the room that its outputs take)."""

    number: int
    code: str
    reason: str
    needed_bytes: int = 0
    times: Times = field(default_factory=Times)


@dataclass(frozen=True)
class Loaded:
    """`model/version` of all that the executor serves from now on."""

    models: tuple[str, ...]


@dataclass(frozen=True)
class OfferedAnswer:
    """A camera's answer to its frame `frame`, for these applications: the picture and the objects. The front may read
    them until it has freed `slot`."""

    slot: int
    frame: int
    applications: tuple[str, ...]
    tensors: tuple[Placed, ...]


@dataclass(frozen=True)
class SlotFree:
    """The front needs what is in `slot` no more."""

    slot: int


Message = Hello | Welcome | Refused | Batch | Done | Failed | Loaded | OfferedAnswer | SlotFree


def encode(message: Message) -> bytes:
    """The frame of a message. Raises InvalidValue if it is larger than MAX_FRAME."""
    body = _ENCODER.encode(_WRITERS[type(message)](message)).encode()
    if len(body) > MAX_FRAME:
        raise InvalidValue("frame", f"{len(body)} bytes", f"at most {MAX_FRAME} bytes")
    return _HEADER.pack(len(body)) + body


def decode(body: bytes | bytearray | memoryview) -> Message:
    """The message in a frame (without its length). Raises InvalidValue for anything that the schema does not allow."""
    try:
        value = _DECODER.decode(str(body, "utf-8"))
    except (ValueError, RecursionError):
        raise InvalidValue("frame", bytes(body[:60]), "a JSON object") from None
    if not isinstance(value, dict):
        raise InvalidValue("frame", value, "a JSON object")
    reader = _READERS.get(_text(value, "is"))
    if reader is None:
        raise InvalidValue("frame.is", value["is"], "one of " + ", ".join(_READERS))
    return reader(value)


class Frames:
    """Cuts a stream of bytes into frames."""

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The bodies of all frames complete by now. Raises InvalidValue for a frame above the limit."""
        buffer = self._buffer
        buffer += data
        bodies: list[bytes] = []
        at = 0
        while len(buffer) - at >= 4:
            (length,) = _HEADER.unpack_from(buffer, at)
            if length > self._limit:
                raise InvalidValue("frame", f"{length} bytes", f"at most {self._limit} bytes")
            if len(buffer) - at - 4 < length:
                break
            bodies.append(bytes(buffer[at + 4 : at + 4 + length]))
            at += 4 + length
        del buffer[:at]
        return bodies

    @property
    def waiting(self) -> int:
        """Bytes of a frame that is not complete."""
        return len(self._buffer)


# -- the schema


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _text(value: Mapping[str, Any], key: str, most: int = 512) -> str:
    given = value.get(key)
    if not isinstance(given, str) or len(given) > most:
        raise InvalidValue(f"frame.{key}", given, f"a text of at most {most} characters")
    return given


def _whole(value: Mapping[str, Any], key: str) -> int:
    given = value.get(key)
    if type(given) is not int or not 0 <= given < _LARGEST:
        raise InvalidValue(f"frame.{key}", given, "a whole number, 0 or more")
    return given


def _peer_kind(value: Mapping[str, Any], key: str) -> PeerKind:
    given = value.get(key)
    if given not in get_args(PeerKind):
        raise InvalidValue(f"frame.{key}", given, ", ".join(get_args(PeerKind)))
    return cast(PeerKind, given)


def _list(value: Mapping[str, Any], key: str, most: int) -> list[Any]:
    given = value.get(key)
    if not isinstance(given, list) or len(given) > most:
        raise InvalidValue(f"frame.{key}", given, f"a list of at most {most}")
    return given


def _names(value: Mapping[str, Any], key: str) -> tuple[str, ...]:
    given = _list(value, key, 4096)
    if not all(isinstance(name, str) and len(name) <= 512 for name in given):
        raise InvalidValue(f"frame.{key}", given, "a list of texts")
    return tuple(given)


def _times(value: Mapping[str, Any]) -> Times:
    given = _list(value, "times", 4)
    if len(given) != 4 or not all(type(t) in (int, float) and 0.0 <= t < 1e9 for t in given):
        raise InvalidValue("frame.times", given, "four numbers of seconds, 0 or more")
    return Times(*(float(t) for t in given))


def _placed(value: Mapping[str, Any], key: str) -> tuple[Placed, ...]:
    found = []
    for n, given in enumerate(_list(value, key, _MAX_TENSORS)):
        if not isinstance(given, list) or len(given) != 5:
            raise InvalidValue(f"frame.{key}[{n}]", given, "[name, datatype, shape, offset, bytes]")
        name, datatype, shape, offset, nbytes = given
        if not isinstance(name, str) or len(name) > 512 or not isinstance(datatype, str) or datatype not in DATATYPES:
            raise InvalidValue(f"frame.{key}[{n}]", [name, datatype], "a name and a datatype of the protocol")
        if (
            not isinstance(shape, list)
            or len(shape) > _MAX_DIMENSIONS
            or not all(type(size) is int and 0 <= size < 2**31 for size in shape)
        ):
            raise InvalidValue(f"frame.{key}[{n}].shape", shape, "whole numbers, 0 or more")
        for number in (offset, nbytes):
            if type(number) is not int or not 0 <= number < _LARGEST:
                raise InvalidValue(f"frame.{key}[{n}]", [offset, nbytes], "whole numbers, 0 or more")
        found.append(Placed(name, datatype, tuple(shape), offset, nbytes))
    return tuple(found)


def _places(tensors: Sequence[Placed]) -> list[Any]:
    return [[p.name, p.datatype, p.shape, p.offset, p.nbytes] for p in tensors]


def _seconds(times: Times) -> list[float]:
    return [round(t, 9) for t in (times.waited_s, times.input_s, times.infer_s, times.output_s)]


_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_DECODER = json.JSONDecoder(parse_constant=_no_constant)

_WRITERS: Mapping[type, Callable[[Any], dict[str, Any]]] = {
    Hello: lambda m: {
        "is": "hello", "name": m.name, "token": m.token, "models": list(m.models), "pid": m.pid, "kind": m.kind,
    },
    Welcome: lambda m: {"is": "welcome", "arena_bytes": m.arena_bytes},
    Refused: lambda m: {"is": "refused", "reason": m.reason},
    Batch: lambda m: {
        "is": "batch", "number": m.number, "model": m.model, "version": m.version, "rows": m.rows,
        "inputs": _places(m.inputs), "output_offset": m.output_offset, "output_bytes": m.output_bytes,
    },
    Done: lambda m: {"is": "done", "number": m.number, "outputs": _places(m.outputs), "times": _seconds(m.times)},
    Failed: lambda m: {
        "is": "failed", "number": m.number, "code": m.code, "reason": m.reason[:MAX_TEXT],
        "needed_bytes": m.needed_bytes, "times": _seconds(m.times),
    },
    Loaded: lambda m: {"is": "loaded", "models": list(m.models)},
    OfferedAnswer: lambda m: {
        "is": "offered_answer", "slot": m.slot, "frame": m.frame, "applications": list(m.applications),
        "tensors": _places(m.tensors),
    },
    SlotFree: lambda m: {"is": "slot_free", "slot": m.slot},
}  # fmt: skip

_READERS: Mapping[str, Callable[[Mapping[str, Any]], Message]] = {
    "hello": lambda v: Hello(
        _text(v, "name"), _text(v, "token"), _names(v, "models"), _whole(v, "pid"), _peer_kind(v, "kind")
    ),
    "welcome": lambda v: Welcome(_whole(v, "arena_bytes")),
    "refused": lambda v: Refused(_text(v, "reason", MAX_TEXT)),
    "batch": lambda v: Batch(
        _whole(v, "number"), _text(v, "model"), _text(v, "version"), _whole(v, "rows"), _placed(v, "inputs"),
        _whole(v, "output_offset"), _whole(v, "output_bytes"),
    ),
    "done": lambda v: Done(_whole(v, "number"), _placed(v, "outputs"), _times(v)),
    "failed": lambda v: Failed(
        _whole(v, "number"), _text(v, "code"), _text(v, "reason", MAX_TEXT), _whole(v, "needed_bytes"), _times(v)
    ),
    "loaded": lambda v: Loaded(_names(v, "models")),
    "offered_answer": lambda v: OfferedAnswer(
        _whole(v, "slot"), _whole(v, "frame"), _names(v, "applications"), _placed(v, "tensors")
    ),
    "slot_free": lambda v: SlotFree(_whole(v, "slot")),
}  # fmt: skip

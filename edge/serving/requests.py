"""Requests for a model, checked against the model's description."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from numpy.typing import NDArray

from edge.core.errors import InvalidValue
from edge.core.front_messages import ServedVersion
from edge.core.oip import DATATYPES, InferRequest, Tensor, TensorSpec

#: The protocol's priority is an unsigned number.
_MOST_PRIORITY = 2**32 - 1


class RequestOrigin(NamedTuple):
    """The sender of a request, which decides where it may wait: a `stage` of an application, by both names, or a client
    (None). `pinned`: it asks for one version and no other."""

    pinned: bool
    stage: tuple[str, str] | None


@dataclass(frozen=True, slots=True, eq=False)
class CheckedRequest:
    """A request that fits its model: `inputs` in the model's order, all of `rows` rows. Only requests of one `kind` can
    share a batch. `wanted` names outputs (empty: all)."""

    id: str
    inputs: tuple[NDArray[Any], ...]
    rows: int
    kind: Hashable
    wanted: Sequence[str]
    origin: RequestOrigin


def check(version: ServedVersion, request: InferRequest) -> CheckedRequest:
    """Check a request against the description of its model. Raises InvalidValue, which names the wrong part."""
    given = request.inputs
    specs = version.inputs
    if len(given) != len(specs):
        raise InvalidValue("inputs", [t.name for t in given], _names(specs))
    arrays = []
    shapes: list[tuple[int, ...]] | None = None
    rows = -1
    for n, spec in enumerate(specs):
        tensor = given[n]
        if tensor.name != spec.name:
            tensor = _named(given, spec, specs)
        array = tensor.array
        if tensor.datatype != spec.datatype or array.dtype != DATATYPES[spec.datatype]:
            raise InvalidValue(f"inputs[{spec.name}].datatype", tensor.datatype, spec.datatype)
        shape, wanted = array.shape, spec.shape
        if len(shape) != len(wanted) or not shape or shape[1:] != wanted[1:] or (0 <= wanted[0] != shape[0]):
            if not _fits(shape, wanted):
                raise InvalidValue(f"inputs[{spec.name}].shape", list(shape), f"{list(wanted)}, -1 being any size")
            shapes = [] if shapes is None else shapes
            shapes.append(shape[1:])
        if rows < 0:
            rows = shape[0]
        elif rows != shape[0]:
            raise InvalidValue(f"inputs[{spec.name}].shape", list(shape), f"{rows} rows as the other inputs have")
        arrays.append(array)
    if rows <= 0:
        raise InvalidValue("inputs", [list(t.array.shape) for t in given], "at least one row")
    if not 0 <= request.priority <= _MOST_PRIORITY:
        raise InvalidValue("parameters.priority", request.priority, f"0 to {_MOST_PRIORITY}")
    if request.timeout_us < 0:
        raise InvalidValue("parameters.timeout", request.timeout_us, "microseconds, 0 or more")
    if request.outputs:
        known = {o.name for o in version.outputs}
        for name in request.outputs:
            if name not in known:
                raise InvalidValue("outputs", name, "one of " + ", ".join(sorted(known)))
    kind = None if shapes is None else tuple(shapes)
    origin = RequestOrigin(bool(request.version), request.asked_by)
    return CheckedRequest(request.id, tuple(arrays), rows, kind, request.outputs, origin)


def _named(given: tuple[Tensor, ...], spec: TensorSpec, specs: tuple[TensorSpec, ...]) -> Tensor:
    found = [t for t in given if t.name == spec.name]
    if len(found) != 1:
        raise InvalidValue("inputs", [t.name for t in given], _names(specs))
    return found[0]


def _names(specs: tuple[TensorSpec, ...]) -> str:
    return "each of the inputs " + ", ".join(s.name for s in specs) + " once"


def _fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    if len(shape) != len(wanted) or not shape:
        return False
    return all(w in (-1, s) for s, w in zip(shape, wanted, strict=True)) and all(s > 0 for s in shape[1:])


def nbytes_of(inputs: Sequence[Tensor]) -> int:
    """Bytes that a request's inputs hold; BYTES elements count with what an object takes besides."""
    total = 0
    for tensor in inputs:
        if tensor.datatype == "BYTES":
            total += sum(len(item) + 64 for item in tensor.array.flat)
        else:
            total += tensor.array.nbytes
    return total

"""Outputs of batches: the room that they need, whether they are what the model declares, and how they are joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge.core.errors import Unavailable
from edge.core.front_messages import ServedVersion
from edge.core.oip import Tensor, TensorSpec
from edge.serving.arena import aligned, tensor_bytes

#: Room for the outputs of a batch whose size is not known yet.
_UNKNOWN_OUTPUT = 64 * 1024


class OutputSizes:
    """Bytes that a model's outputs take: by their description, or as far as seen."""

    def __init__(self, outputs: Sequence[TensorSpec]) -> None:
        self._outputs = tuple(outputs)
        #: Bytes per row of outputs whose size is not in their description.
        self._row_bytes: dict[str, float] = {}
        self._fixed = [
            None
            if o.datatype == "BYTES" or any(size < 0 for size in o.shape[1:])
            else tensor_bytes(o.datatype, o.shape[1:])
            for o in self._outputs
        ]

    def room(self, rows: int) -> int:
        """Bytes to keep free for the outputs of a batch of `rows`."""
        room = 0
        for spec, fixed in zip(self._outputs, self._fixed, strict=True):
            if fixed is not None:
                room += aligned(rows * fixed)
            else:
                room += aligned(max(_UNKNOWN_OUTPUT, int(rows * self._row_bytes.get(spec.name, 0.0) * 1.25)))
        return room

    def too_small(self, needed_bytes: int, rows: int) -> bool:
        """Outputs took more room than was thought; False if they may not, by the model's description."""
        unknown = [spec.name for spec, fixed in zip(self._outputs, self._fixed, strict=True) if fixed is None]
        for name in unknown:
            self._row_bytes[name] = max(self._row_bytes.get(name, 0.0), needed_bytes / rows)
        return bool(unknown)

    def learn(self, outputs: Sequence[Tensor], rows: int) -> None:
        """See how large outputs of unknown size are in a batch of `rows`."""
        sizes = {t.name: t.array for t in outputs}
        for spec, fixed in zip(self._outputs, self._fixed, strict=True):
            array = sizes.get(spec.name)
            if fixed is None and array is not None:
                held = sum(4 + len(x) for x in array.flat) if spec.datatype == "BYTES" else array.nbytes
                self._row_bytes[spec.name] = max(self._row_bytes.get(spec.name, 0.0) * 0.99, held / max(1, rows))


class JoinedOutputs:
    """Outputs of a request whose rows are computed in several batches. `first` are those of its first batch: the arrays
    are as wide, and `rows` long."""

    def __init__(self, names: Sequence[str], rows: int, first: Mapping[str, Tensor]) -> None:
        self._names = tuple(names)
        self._datatypes = {name: first[name].datatype for name in names}
        self._arrays: dict[str, NDArray[Any]] = {
            name: np.empty((rows, *first[name].array.shape[1:]), first[name].array.dtype) for name in names
        }

    def put(self, model: str, pieces: Sequence[tuple[int, int]], outputs: Mapping[str, Tensor], at: int) -> None:
        """Copy rows of a batch, from row `at` on, to these (first, count) pieces. Raises Unavailable if they are of
        another size than those of other batches."""
        for first, count in pieces:
            for name, whole in self._arrays.items():
                part = outputs[name].array
                if whole.shape[1:] != part.shape[1:]:
                    raise Unavailable(
                        f"{model}: output {name} is {list(part.shape[1:])} per row in one batch and "
                        f"{list(whole.shape[1:])} in another",
                        "ask for fewer rows at a time",
                    )
                whole[first : first + count] = part[at : at + count]
            at += count

    def tensors(self) -> tuple[Tensor, ...]:
        """The outputs by their names, in the order and as often as these were given."""
        return tuple(Tensor(name, self._datatypes[name], self._arrays[name]) for name in self._names)


def checked_outputs(version: ServedVersion, outputs: Sequence[Tensor]) -> dict[str, Tensor]:
    """The outputs that an executor sent, by name. Raises Unavailable if they are not what the model declares."""
    found = {t.name: t for t in outputs}
    for spec in version.outputs:
        tensor = found.get(spec.name)
        if tensor is None or tensor.datatype != spec.datatype:
            given = "missing" if tensor is None else tensor.datatype
            raise Unavailable(f"{version.model}: output {spec.name} is {given}, declared is {spec.datatype}")
        shape = tensor.array.shape
        wrong = any(w >= 0 and w != g for w, g in zip(spec.shape[1:], shape[1:], strict=False))
        if len(shape) != len(spec.shape) or wrong:
            raise Unavailable(f"{version.model}: output {spec.name} is {list(shape)}, declared is {list(spec.shape)}")
    return found

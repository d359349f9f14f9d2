"""The Open Inference Protocol v2 as values: a client's requests to a served model and the answers.

Transports (REST, gRPC) turn bytes into these and back; `InferenceService` is what stands behind them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from edge.core import checks
from edge.core.errors import InvalidValue

#: Datatype of the protocol -> numpy type of its elements. BYTES are objects of type bytes; BF16 has no numpy type and
#: is carried as its raw two bytes.
DATATYPES: Mapping[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_),
    "UINT8": np.dtype("<u1"),
    "UINT16": np.dtype("<u2"),
    "UINT32": np.dtype("<u4"),
    "UINT64": np.dtype("<u8"),
    "INT8": np.dtype("<i1"),
    "INT16": np.dtype("<i2"),
    "INT32": np.dtype("<i4"),
    "INT64": np.dtype("<i8"),
    "FP16": np.dtype("<f2"),
    "FP32": np.dtype("<f4"),
    "FP64": np.dtype("<f8"),
    "BF16": np.dtype("<u2"),
    "BYTES": np.dtype(object),
}


@dataclass(frozen=True)
class TensorSpec:
    """An input or output of a model. `shape` begins with the batch dimension; -1 is any size."""

    name: str
    datatype: str
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidValue("tensor.name", self.name, "a name")
        checks.one_of(f"{self.name}.datatype", self.datatype, DATATYPES)
        for n, size in enumerate(self.shape):
            checks.in_range(f"{self.name}.shape[{n}]", size, -1, 2**31)


@dataclass(frozen=True, eq=False)
class Tensor:
    """A named array; `array` has the datatype's numpy type (DATATYPES) and is C-contiguous."""

    name: str
    datatype: str
    array: NDArray[Any]


@dataclass(frozen=True, eq=False)
class InferRequest:
    """`inputs` hold `rows` requests' worth of data along their first dimension. `outputs` empty: all. `priority` as
    the protocol's schedule policy (1 highest, 0 the model's default); `timeout_us` 0: the model's SLO alone.
    `asked_by`: the application and its stage that ask; None: a client."""

    model: str
    inputs: tuple[Tensor, ...]
    version: str | None = None
    id: str = ""
    outputs: tuple[str, ...] = ()
    priority: int = 0
    timeout_us: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)
    asked_by: tuple[str, str] | None = None


@dataclass(frozen=True, eq=False)
class InferResponse:
    """The answer to one request, outputs in the order asked for."""

    model: str
    version: str
    outputs: tuple[Tensor, ...]
    id: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelMetadata:
    """A model's description for clients."""

    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]


@dataclass(frozen=True)
class RepositoryEntry:
    """A version in the model repository, as the protocol's index has it. `reason` in words: why it is not ready."""

    name: str
    version: str
    state: Literal["READY", "LOADING", "UNAVAILABLE"]
    reason: str = ""


class InferenceService(Protocol):
    """The service behind the protocol's transports. Errors: NotFound (no such model or version), InvalidValue (wrong
    name, type, shape, size), DeadlineMissed (dropped: it could not be answered in time), Overloaded (queue full),
    Unavailable (not loaded, executor lost)."""

    def live(self) -> bool:
        """The server answers."""

    def ready(self) -> bool:
        """Every model that shall be served is."""

    def model_ready(self, model: str, version: str | None) -> bool:
        """The model is loaded, warm and placed. Raises NotFound."""

    def server_metadata(self) -> Mapping[str, Any]:
        """{"name", "version", "extensions"}."""

    def model_metadata(self, model: str, version: str | None) -> ModelMetadata:
        """Raises NotFound."""

    def model_config(self, model: str, version: str | None) -> Mapping[str, Any]:
        """The protocol's model configuration as JSON. Raises NotFound."""

    def statistics(self, model: str | None, version: str | None) -> list[Mapping[str, Any]]:
        """Entries of "model_stats". Raises NotFound."""

    async def repository_index(self, ready_only: bool) -> list[RepositoryEntry]:
        """Every version, or those that are ready."""

    async def load_model(self, model: str, parameters: Mapping[str, Any]) -> None:
        """Load, check, warm, switch, unload what was there. The old version serves on if the new one fails."""

    async def unload_model(self, model: str, parameters: Mapping[str, Any]) -> None:
        """Drain and unload."""

    async def infer(self, request: InferRequest) -> InferResponse:
        """One request."""

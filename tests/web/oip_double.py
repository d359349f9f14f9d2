"""A small honest service behind the protocol's transports: numpy models that compute what they say."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from edge.core.errors import InvalidValue, MagpieError, NotFound
from edge.core.oip import DATATYPES, InferRequest, InferResponse, ModelMetadata, RepositoryEntry, Tensor, TensorSpec

Function = Callable[[dict[str, Tensor]], list[Tensor]]


def _echo(inputs: dict[str, Tensor]) -> list[Tensor]:
    tensor = inputs["x"]
    return [Tensor("y", tensor.datatype, tensor.array)]


def _sum(inputs: dict[str, Tensor]) -> list[Tensor]:
    a, b = inputs["a"].array, inputs["b"].array
    return [Tensor("sum", "FP32", a + b), Tensor("difference", "FP32", a - b)]


def _quotient(inputs: dict[str, Tensor]) -> list[Tensor]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return [Tensor("y", "FP32", inputs["x"].array / np.float32(0))]


class NumpyService:
    """`echo_<datatype>` models (x -> y), `add` (a, b -> sum, difference), `by_zero` (x -> x / 0). `error` is what the
    next request is answered with; `seen` the requests that came; `asked` the repository commands."""

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.seen: list[InferRequest] = []
        self.asked: list[tuple[str, str, Mapping[str, Any]]] = []
        self.is_ready = True
        self.gate: asyncio.Event | None = None
        self.models: dict[str, tuple[ModelMetadata, Function]] = {}
        for datatype in DATATYPES:
            name = f"echo_{datatype.lower()}"
            specs = (TensorSpec("x", datatype, (-1, -1)),), (TensorSpec("y", datatype, (-1, -1)),)
            self.models[name] = (ModelMetadata(name, ("1", "3"), "numpy", *specs), _echo)
        pair = tuple(TensorSpec(name, "FP32", (-1, 2)) for name in ("a", "b"))
        outs = tuple(TensorSpec(name, "FP32", (-1, 2)) for name in ("sum", "difference"))
        self.models["add"] = (ModelMetadata("add", ("1",), "numpy", pair, outs), _sum)
        one = (TensorSpec("x", "FP32", (-1, 3)),), (TensorSpec("y", "FP32", (-1, 3)),)
        self.models["by_zero"] = (ModelMetadata("by_zero", ("1",), "numpy", *one), _quotient)

    def _find(self, model: str, version: str | None) -> tuple[ModelMetadata, Function]:
        if model not in self.models:
            raise NotFound(f"there is no model {model}")
        metadata, function = self.models[model]
        if version is not None and version not in metadata.versions:
            raise NotFound(f"model {model} has no version {version}")
        return metadata, function

    def live(self) -> bool:
        return True

    def ready(self) -> bool:
        return self.is_ready

    def model_ready(self, model: str, version: str | None) -> bool:
        self._find(model, version)
        return self.is_ready

    def server_metadata(self) -> Mapping[str, Any]:
        return {"name": "double", "version": "1.2.3", "extensions": ["statistics"]}

    def model_metadata(self, model: str, version: str | None) -> ModelMetadata:
        return self._find(model, version)[0]

    def model_config(self, model: str, version: str | None) -> Mapping[str, Any]:
        metadata, _ = self._find(model, version)

        def tensors(specs: tuple[TensorSpec, ...]) -> list[dict[str, Any]]:
            kind = {"BYTES": "STRING"}
            return [
                {"name": s.name, "data_type": f"TYPE_{kind.get(s.datatype, s.datatype)}", "dims": list(s.shape[1:])}
                for s in specs
            ]

        return {
            "name": model,
            "platform": metadata.platform,
            "max_batch_size": 8,
            "input": tensors(metadata.inputs),
            "output": tensors(metadata.outputs),
            "parameters": {"slo_ms": {"string_value": "5"}},
        }

    def statistics(self, model: str | None, version: str | None) -> list[Mapping[str, Any]]:
        if model is not None:
            self._find(model, version)
        counts: dict[str, int] = {}
        for request in self.seen:
            counts[request.model] = counts.get(request.model, 0) + 1
        return [
            {
                "name": name,
                "version": "1",
                "last_inference": 1700000000000,
                "inference_count": counts.get(name, 0),
                "execution_count": counts.get(name, 0),
                "inference_stats": {"success": {"count": counts.get(name, 0), "ns": 5000}},
                "batch_stats": [{"batch_size": 1, "compute_infer": {"count": 1, "ns": 4000}}],
            }
            for name in self.models
            if model in (None, name)
        ]

    async def repository_index(self, ready_only: bool) -> list[RepositoryEntry]:
        found = [RepositoryEntry(name, "1", "READY") for name in self.models]
        if not ready_only:
            found.append(RepositoryEntry("broken", "1", "UNAVAILABLE", "no such file"))
        return found

    async def load_model(self, model: str, parameters: Mapping[str, Any]) -> None:
        self.asked.append(("load", model, parameters))
        self._find(model, None)

    async def unload_model(self, model: str, parameters: Mapping[str, Any]) -> None:
        self.asked.append(("unload", model, parameters))
        self._find(model, None)

    async def infer(self, request: InferRequest) -> InferResponse:
        self.seen.append(request)
        metadata, function = self._find(request.model, request.version)
        if self.gate is not None:
            await self.gate.wait()
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        inputs = {tensor.name: tensor for tensor in request.inputs}
        for spec in metadata.inputs:
            tensor = inputs.get(spec.name)
            if tensor is None:
                raise InvalidValue("inputs", sorted(inputs), f"the input {spec.name}")
            sizes = tensor.array.shape
            fits = len(sizes) == len(spec.shape) and all(a in (b, -1) for a, b in zip(spec.shape, sizes, strict=True))
            if tensor.datatype != spec.datatype or not fits:
                raise InvalidValue(f"inputs.{spec.name}", (tensor.datatype, sizes), f"{spec.datatype} {spec.shape}")
        outputs = {tensor.name: tensor for tensor in function(inputs)}
        wanted = request.outputs or tuple(outputs)
        for name in wanted:
            if name not in outputs:
                raise InvalidValue("outputs", name, ", ".join(outputs))
        chosen = tuple(outputs[name] for name in wanted)
        return InferResponse(metadata.name, request.version or metadata.versions[-1], chosen, request.id)


def failing(service: NumpyService, error: MagpieError) -> None:
    """The next request is answered with `error`."""
    service.error = error

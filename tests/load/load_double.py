"""Models with known manners behind the protocol, and a real server for them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import numpy as np

from edge.core.errors import DeadlineMissed, NotFound, Overloaded, Unavailable
from edge.core.oip import DATATYPES, InferRequest, InferResponse, ModelMetadata, RepositoryEntry, Tensor, TensorSpec
from web.oip.app import create_oip_app
from web.oip.server import OipHttpServer


class Manners:
    """An InferenceService: `echo` answers what it got; `moody` answers, drops, rejects and fails by turns; `stalled`
    waits for `gate`; `all_types` has an input of every datatype; `open` leaves sizes open; `away` is not ready."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.seen: list[InferRequest] = []
        self.asked: Counter[str] = Counter()
        one = (TensorSpec("x", "FP32", (-1, 4)),)
        self.inputs: dict[str, tuple[TensorSpec, ...]] = {
            "echo": one,
            "moody": one,
            "stalled": one,
            "away": one,
            "all_types": tuple(TensorSpec(d.lower(), d, (-1, 3)) for d in DATATYPES),
            "open": (TensorSpec("input.1", "UINT8", (-1, -1, -1, 3)),),
            "fixed": (TensorSpec("x", "FP32", (2, 4)),),
        }

    def live(self) -> bool:
        return True

    def ready(self) -> bool:
        return True

    def model_ready(self, model: str, version: str | None) -> bool:
        self.model_metadata(model, version)
        return model != "away"

    def server_metadata(self) -> Mapping[str, Any]:
        return {"name": "manners", "version": "1", "extensions": []}

    def model_metadata(self, model: str, version: str | None) -> ModelMetadata:
        if model not in self.inputs or version not in (None, "1"):
            raise NotFound(f"there is no model {model} {version or ''}")
        inputs = self.inputs[model]
        outputs = tuple(TensorSpec(f"{i.name}_again", i.datatype, i.shape) for i in inputs)
        return ModelMetadata(model, ("1",), "numpy", inputs, outputs)

    def model_config(self, model: str, version: str | None) -> Mapping[str, Any]:
        self.model_metadata(model, version)
        return {"name": model, "parameters": {"slo_ms": {"string_value": "12345"}}} if model == "echo" else {}

    def statistics(self, model: str | None, version: str | None) -> list[Mapping[str, Any]]:
        return []

    async def repository_index(self, ready_only: bool) -> list[RepositoryEntry]:
        return []

    async def load_model(self, model: str, parameters: Mapping[str, Any]) -> None:
        raise Unavailable("nothing to load")

    async def unload_model(self, model: str, parameters: Mapping[str, Any]) -> None:
        raise Unavailable("nothing to unload")

    async def infer(self, request: InferRequest) -> InferResponse:
        metadata = self.model_metadata(request.model, request.version)
        number = self.asked[request.model]
        self.asked[request.model] += 1
        self.seen.append(request)
        # The first request is the client's own look at the model.
        if request.model == "moody" and number % 4 == 1:
            raise DeadlineMissed("it would be late")
        if request.model == "moody" and number % 4 == 2:
            raise Overloaded("the queue is full")
        if request.model == "moody" and number % 4 == 3:
            raise Unavailable("the executor was lost")
        if request.model == "stalled" and number:
            await self.gate.wait()
        outputs = [Tensor(f"{t.name}_again", t.datatype, np.ascontiguousarray(t.array)) for t in request.inputs]
        wanted = [o for o in outputs if not request.outputs or o.name in request.outputs]
        return InferResponse(metadata.name, "1", tuple(wanted), request.id)


@asynccontextmanager
async def served(service: Any) -> AsyncIterator[str]:
    """`service` at a real port; the address."""
    server = OipHttpServer(create_oip_app(service), "127.0.0.1", 0)
    await server.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        await server.stop()

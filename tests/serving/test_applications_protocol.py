"""Clients ask an application like any model: the unmodified tritonclient by HTTP and gRPC, and `magpie load`."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as by_grpc
import tritonclient.http as by_http
from test_applications import Models, models, serving, shipped

from edge.core.errors import DeadlineMissed
from edge.load.run import run_load
from edge.load.spec import parse_load
from web.oip.app import create_oip_app
from web.oip.grpc_server import OipGrpcServer
from web.oip.server import OipHttpServer

__all__ = ["models"]  # the fixture


def _asked(client: Any, tensors: Any, picture: np.ndarray) -> dict[str, Any]:
    assert client.is_model_ready("traffic")
    metadata = client.get_model_metadata("traffic", **({"as_json": True} if tensors is by_grpc else {}))
    assert [i["name"] for i in metadata["inputs"]] == ["picture"]
    given = tensors.InferInput("picture", list(picture.shape), "UINT8")
    given.set_data_from_numpy(picture)
    answer = client.infer("traffic", [given], request_id="9")
    statistics = client.get_inference_statistics("traffic", **({"as_json": True} if tensors is by_grpc else {}))
    success = statistics["model_stats"][0]["inference_stats"]["success"]
    return {
        "vehicles": answer.as_numpy("vehicles"),
        "count": answer.as_numpy("vehicle_count").tolist(),
        "answered": int(success["count"]),
    }


async def test_stock_clients_and_the_load_tool(models: Models) -> None:
    service = serving(models, shipped("game"), shipped("traffic"))
    http = OipHttpServer(create_oip_app(service), "127.0.0.1", 0)
    grpc = OipGrpcServer(service, "127.0.0.1", 0)
    await http.start()
    await grpc.start()
    picture = np.zeros((2, 64, 64, 3), np.uint8)
    picture[1, :, :32] = 255

    def ask_http() -> dict[str, Any]:
        with by_http.InferenceServerClient(f"127.0.0.1:{http.port}") as client:
            return _asked(client, by_http, picture)

    def ask_grpc() -> dict[str, Any]:
        with by_grpc.InferenceServerClient(f"127.0.0.1:{grpc.port}") as client:
            return _asked(client, by_grpc, picture)

    def dropped() -> str:
        with by_http.InferenceServerClient(f"127.0.0.1:{http.port}") as client:
            with pytest.raises(by_http.InferenceServerException) as raised:
                _asked(client, by_http, picture)
            return str(raised.value)

    try:
        for n, ask in enumerate((ask_http, ask_grpc), start=1):
            got = await asyncio.to_thread(ask)
            assert got["vehicles"].shape == (2, 1, 1000)
            assert got["count"] == [0, 1]
            assert got["answered"] == n
        models.errors["ssd"] = DeadlineMissed("the queue is long")
        assert "traffic, stage find: the queue is long" in await asyncio.to_thread(dropped)
        load = {"name": "game", "rate": 40, "shapes": {"picture": [48, 64, 3]}}
        url = f"http://127.0.0.1:{http.port}"
        (m,) = (await run_load(parse_load({"url": url, "duration_s": 0.5, "models": [load]}))).models
        assert (m.counts.answered, m.slo_ms) == (m.counts.offered, 95)
    finally:
        await grpc.stop()
        await http.stop()
        service.close()

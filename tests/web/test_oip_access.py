"""Served models behind API tokens, by both transports and with the protocol's unmodified clients."""

from __future__ import annotations

import contextlib
import queue
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import numpy as np
import pytest
import tritonclient.grpc as triton
from oip_kit import Running, running
from tritonclient.utils import InferenceServerException

from edge.access.credentials import digest
from edge.access.front_keys import FrontKey, FrontKeys, write_keys
from edge.core.clock import SystemClock
from web.hosts import Hosts

VIEWER, OPERATOR = {"authorization": "Bearer v"}, {"authorization": "Bearer o"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("keys") / "keys.json"
    write_keys(path, {digest("v"): FrontKey("viewer"), digest("o"): FrontKey("operator")})
    with running(gate=FrontKeys(Path(path), SystemClock()).check) as started:
        yield started


@pytest.fixture(scope="module")
def web(server: Running) -> Iterator[httpx.Client]:
    """One for all requests: each new one would read all certificates of the machine first."""
    with httpx.Client(base_url=server.url) as client:
        yield client


@pytest.mark.parametrize("path", ["/v2/health/live", "/v2/health/ready"])
def test_health_is_open(web: httpx.Client, path: str) -> None:
    assert web.get(path).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v2"), ("GET", "/v2/openapi.json"), ("GET", "/v2/models/echo_fp32"), ("GET", "/v2/models/stats"),
     ("GET", "/v2/models/echo_fp32/ready"), ("GET", "/v2/models/echo_fp32/config"), ("POST", "/v2/repository/index"),
     ("POST", "/v2/models/echo_fp32/infer"), ("POST", "/v2/models/echo_fp32/versions/1/infer"),
     ("POST", "/v2/repository/models/echo_fp32/load"), ("POST", "/v2/repository/models/echo_fp32/unload"),
     ("GET", "/v2/health/../models/stats"), ("GET", "/v2//health/live/x"), ("GET", "/"), ("GET", "/x/health")],
)  # fmt: skip
def test_the_rest_needs_a_token(web: httpx.Client, method: str, path: str) -> None:
    for headers in ({}, {"authorization": "Bearer x"}, {"authorization": "Basic dg=="}, {"authorization": "Bearer"}):
        answer = web.request(method, path, headers=headers, json={})
        assert (answer.status_code, answer.headers.get("www-authenticate")) == (401, "Bearer"), headers
        assert isinstance(answer.json()["error"], str)
    assert web.request(method, path, headers=OPERATOR, json={}).status_code not in (401, 403)


def test_what_is_served_is_an_operators_to_change(web: httpx.Client) -> None:
    for action in ("load", "unload"):
        assert web.post(f"/v2/repository/models/echo_fp32/{action}", headers=VIEWER).status_code == 403
    assert web.get("/v2/models/stats", headers=VIEWER).status_code == 200


def tensor() -> Any:
    made = triton.InferInput("x", [1, 2], "FP32")
    made.set_data_from_numpy(np.ones((1, 2), np.float32))
    return made


def test_grpc_by_metadata(server: Running) -> None:
    client = triton.InferenceServerClient(server.grpc)
    try:
        assert client.is_server_live()
        assert client.is_server_ready()
        for headers in (None, {"authorization": "Bearer x"}, {"authorization": "v"}):
            with pytest.raises(InferenceServerException) as refused:
                client.infer("echo_fp32", [tensor()], headers=headers)
            assert str(refused.value.status()) == str(grpc.StatusCode.UNAUTHENTICATED)
        assert client.infer("echo_fp32", [tensor()], headers=VIEWER).as_numpy("y") is not None
        with pytest.raises(InferenceServerException) as refused:
            client.unload_model("echo_fp32", headers=VIEWER)
        assert str(refused.value.status()) == str(grpc.StatusCode.PERMISSION_DENIED)
    finally:
        client.close()


@pytest.mark.parametrize(("headers", "good"), [(VIEWER, True), ({"authorization": "Bearer x"}, False)])
def test_grpc_streams(server: Running, headers: dict[str, str], good: bool) -> None:
    came: queue.Queue[Any] = queue.Queue()
    client = triton.InferenceServerClient(server.grpc)
    client.start_stream(lambda result, error: came.put((result, error)), headers=headers)
    with contextlib.suppress(InferenceServerException):  # the refusal may come first
        client.async_stream_infer("echo_fp32", [tensor()])
    result, error = came.get(timeout=30)
    assert (error is None) == good
    assert (result is not None) == good
    client.stop_stream()
    client.close()


def test_an_open_port_is_asked_by_the_boxs_own_names_only() -> None:
    """A page whose name was made to point here sends its own name as Host and as Origin: both are the same."""
    with (
        running(hosts=Hosts(["models.example.org"], "cabinet-7")) as started,
        httpx.Client(base_url=started.url) as web,
    ):
        rebound = {"host": "evil.example:8000", "origin": "http://evil.example:8000"}
        unload = "/v2/repository/models/echo_fp32/unload"
        for method, path in (("POST", unload), ("POST", "/v2/models/echo_fp32/infer"), ("GET", "/v2/models/stats")):
            refused = web.request(method, path, headers=rebound)
            assert refused.status_code == 421
            assert "evil.example" in refused.json()["error"]
            assert "web.hosts" in refused.json()["error"]
        assert started.service.asked == []
        for host in ("models.example.org", "cabinet-7:8000", "127.0.0.1.", "localhost"):
            assert web.get("/v2/models/stats", headers={"host": host}).status_code == 200, host
        assert web.post(unload).status_code == 200
        assert started.service.asked == [("unload", "echo_fp32", {})]


def test_a_request_without_a_name_is_no_browsers() -> None:
    with running(hosts=Hosts([], "cabinet-7")) as started:
        address, _, port = started.http.partition(":")
        with socket.create_connection((address, int(port)), timeout=10) as sock:
            sock.sendall(b"GET /v2/health/live HTTP/1.0\r\n\r\n")
            assert sock.recv(4096).startswith(b"HTTP/1.1 200")
        with socket.create_connection((address, int(port)), timeout=10) as sock:
            sock.sendall(b"GET /v2 HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n\r\n")
            assert sock.recv(4096).startswith(b"HTTP/1.1 421"), "no name of several may be another's"

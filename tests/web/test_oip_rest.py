"""The REST transport with the unmodified client of the protocol, and what only a hand-made request can say."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import os
import select
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import ml_dtypes
import numpy as np
import pytest
import tritonclient.http as triton
import tritonclient.http.aio as triton_aio
from oip_double import NumpyService
from oip_kit import Running, running
from tritonclient.utils import InferenceServerException

from edge.core import errors as e
from edge.core.errors import Unavailable
from edge.core.oip import DATATYPES
from web.oip.app import create_oip_app
from web.oip.server import OipHttpServer


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(max_body_bytes=2**20, max_json_bytes=2**19, max_held_bytes=3 * 2**20) as started:
        yield started


@pytest.fixture
def client(server: Running) -> Iterator[triton.InferenceServerClient]:
    client = triton.InferenceServerClient(server.http)
    yield client
    client.close()


@pytest.fixture(scope="module")
def web(server: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers={"accept-encoding": "identity"}) as client:
        yield client


def example(datatype: str) -> np.ndarray[Any, Any]:
    """Two rows of the datatype as the client takes them."""
    if datatype == "BYTES":
        return np.array([["a", "bc"], ["", "ü"]], dtype=object)
    if datatype == "BOOL":
        return np.array([[True, False], [False, True]])
    if datatype == "BF16":
        return np.array([[1.5, -2.0], [0.25, 3.0]], dtype=ml_dtypes.bfloat16)
    return np.array([[1, 2], [3, 100]]).astype(DATATYPES[datatype])


def inputs(name: str, array: np.ndarray[Any, Any], datatype: str, binary: bool = True) -> triton.InferInput:
    made = triton.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array, binary_data=binary)
    return made


@pytest.mark.parametrize("binary_out", [None, True, False])
@pytest.mark.parametrize(
    ("datatype", "binary_in"),
    [(name, binary) for name in DATATYPES for binary in (True, False) if binary or name != "BF16"],  # as the client can
)
def test_every_datatype_both_ways(
    client: triton.InferenceServerClient, datatype: str, binary_in: bool, binary_out: bool | None
) -> None:
    array = example(datatype)
    wanted = None if binary_out is None else [triton.InferRequestedOutput("y", binary_data=binary_out)]
    result = client.infer(f"echo_{datatype.lower()}", [inputs("x", array, datatype, binary_in)], outputs=wanted)
    described = result.get_output("y")
    assert (described["datatype"], described["shape"]) == (datatype, [2, 2])
    assert ("data" in described) == (binary_out is False)
    found = result.as_numpy("y")
    if datatype == "BYTES":
        as_text = [v.decode() if isinstance(v, bytes) else v for v in found.reshape(-1)]
        assert as_text == list(array.reshape(-1))
    else:
        np.testing.assert_array_equal(np.asarray(found, np.float64), np.asarray(array, np.float64))


def test_several_inputs_and_outputs_in_the_order_asked_for(
    server: Running, client: triton.InferenceServerClient
) -> None:
    a, b = np.array([[1, 2]], np.float32), np.array([[10, 20]], np.float32)
    result = client.infer(
        "add",
        [inputs("a", a, "FP32"), inputs("b", b, "FP32", binary=False)],
        model_version="1",
        outputs=[triton.InferRequestedOutput("difference", binary_data=False), triton.InferRequestedOutput("sum")],
        request_id="job 7",
        priority=1,
        timeout=25_000,
        parameters={"tenant": "north"},
    )
    assert [o["name"] for o in result.get_response()["outputs"]] == ["difference", "sum"]
    assert result.as_numpy("sum").tolist() == [[11, 22]]
    assert result.as_numpy("difference").tolist() == [[-9, -18]]
    described = result.get_response()
    assert (described["model_name"], described["model_version"], described["id"]) == ("add", "1", "job 7")
    seen = server.service.seen[-1]
    assert (seen.version, seen.id, seen.priority, seen.timeout_us) == ("1", "job 7", 1, 25_000)
    assert seen.outputs == ("difference", "sum")
    assert seen.parameters == {"tenant": "north"}


@pytest.mark.parametrize("answer", [None, "gzip", "deflate"])
@pytest.mark.parametrize("request_", [None, "gzip", "deflate"])
def test_compressed(client: triton.InferenceServerClient, request_: str | None, answer: str | None) -> None:
    array = np.tile(np.arange(100, dtype=np.float32), (2, 10))
    result = client.infer(
        "echo_fp32",
        [inputs("x", array, "FP32")],
        request_compression_algorithm=request_,
        response_compression_algorithm=answer,
    )
    np.testing.assert_array_equal(result.as_numpy("y"), array)


def test_answers_are_compressed_where_that_is_asked_and_worth_it(web: httpx.Client) -> None:
    for accept, expected in (
        ("gzip", "gzip"),
        ("deflate;q=0.5", "deflate"),
        ("gzip;q=0, deflate", "deflate"),
        ("gzip, identity", "gzip"),
        ("gzip, deflate", None),  # what HTTP libraries say by themselves
        ("br", None),
        ("gzip;q=0.0", None),
    ):
        response = web.get("/v2/openapi.json", headers={"accept-encoding": accept})
        assert response.headers.get("content-encoding") == expected, accept
        assert response.json()["openapi"] == "3.1.0"
    assert "content-encoding" not in web.get("/v2", headers={"accept-encoding": "gzip"}).headers


async def test_the_asynchronous_client(server: Running) -> None:
    async with triton_aio.InferenceServerClient(server.http) as client:
        assert await client.is_server_ready()
        array = np.ones((1, 1000), np.float32)
        for algorithm in (None, "gzip"):
            result = await client.infer(
                "echo_fp32", [inputs("x", array, "FP32")], response_compression_algorithm=algorithm
            )
            np.testing.assert_array_equal(result.as_numpy("y"), array)
        with pytest.raises(InferenceServerException, match="no model nobody"):
            await client.get_model_metadata("nobody")


def test_server_and_models(server: Running, client: triton.InferenceServerClient) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("add")
    assert client.is_model_ready("echo_fp32", "3")
    assert not client.is_model_ready("echo_fp32", "2")
    assert not client.is_model_ready("nobody")
    assert client.get_server_metadata() == {
        "name": "double",
        "version": "1.2.3",
        "extensions": ["statistics", "binary_tensor_data", "parameters"],
    }
    for version in ("", "3"):
        assert client.get_model_metadata("echo_fp32", version) == {
            "name": "echo_fp32",
            "versions": ["1", "3"],
            "platform": "numpy",
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, -1]}],
            "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, -1]}],
        }
        assert client.get_model_config("echo_fp32", version)["max_batch_size"] == 8
        (stats,) = client.get_inference_statistics("echo_fp32", version)["model_stats"]
        assert stats["name"] == "echo_fp32"
    assert len(client.get_inference_statistics()["model_stats"]) == len(server.service.models)


def test_not_ready_is_no(server: Running, client: triton.InferenceServerClient, web: httpx.Client) -> None:
    server.service.is_ready = False
    try:
        assert client.is_server_live()
        assert not client.is_server_ready()
        assert not client.is_model_ready("add")
        assert web.get("/v2/health/ready").status_code == 400
    finally:
        server.service.is_ready = True


def test_repository(server: Running, client: triton.InferenceServerClient, web: httpx.Client) -> None:
    index = client.get_model_repository_index()
    assert {"name": "add", "version": "1", "state": "READY", "reason": ""} in index
    assert any(entry["name"] == "broken" for entry in index)
    ready = web.post("/v2/repository/index", json={"ready": True}).json()
    assert not any(entry["name"] == "broken" for entry in ready)
    client.load_model("add", config='{"slo_ms": 5}', files={"file:2/model.onnx": b"\x00\x01"})
    assert server.service.asked[-1] == ("load", "add", {"config": '{"slo_ms": 5}', "file:2/model.onnx": "AAE="})
    client.unload_model("add")
    assert server.service.asked[-1] == ("unload", "add", {"unload_dependents": False})
    with pytest.raises(InferenceServerException, match="there is no model nobody") as caught:
        client.load_model("nobody")
    assert caught.value.status() == "404"


def test_shared_memory_is_refused_in_words(client: triton.InferenceServerClient) -> None:
    for call in (
        lambda: client.register_system_shared_memory("r", "/r", 8),
        client.get_cuda_shared_memory_status,
        lambda: client.unregister_system_shared_memory("r"),
    ):
        with pytest.raises(InferenceServerException, match="shared memory regions are not offered") as caught:
            call()
        assert caught.value.status() == "501"


def test_a_request_with_two_lengths_is_refused_and_nothing_after_it_is_answered(server: Running) -> None:
    host, _, port = server.http.rpartition(":")
    with socket.create_connection((host.rpartition("/")[2], int(port)), 10) as wire:
        head = (
            "POST /v2/models/add/infer HTTP/1.1\r\nhost: box\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        wire.sendall(f"{head}0\r\n\r\nGET /v2 HTTP/1.1\r\nhost: box\r\n\r\n".encode())
        answer = b"".join(iter(lambda: wire.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1


def test_a_raw_body_is_the_one_input(web: httpx.Client) -> None:
    array = np.arange(6, dtype=np.float32)
    response = web.post(
        "/v2/models/by_zero/infer", content=array.tobytes(), headers={"Inference-Header-Content-Length": "0"}
    )
    head = int(response.headers["Inference-Header-Content-Length"])
    assert json.loads(response.content[:head])["outputs"][0]["shape"] == [2, 3]
    expected = [np.nan, np.inf, np.inf, np.inf, np.inf, np.inf]
    np.testing.assert_array_equal(np.frombuffer(response.content[head:], np.float32), expected)


def test_numbers_that_json_has_no_word_for(client: triton.InferenceServerClient) -> None:
    array = np.array([[-1, 0, np.nan]], np.float32)
    wanted = [triton.InferRequestedOutput("y", binary_data=False)]
    result = client.infer("by_zero", [inputs("x", array, "FP32", binary=False)], outputs=wanted)
    np.testing.assert_array_equal(result.as_numpy("y"), [[-np.inf, np.nan, np.nan]])


def test_nested_json_as_curl_users_write_it(web: httpx.Client) -> None:
    body = {"inputs": [{"name": "x", "shape": [2, 2], "datatype": "INT8", "data": [[1, 2], [3, -4]]}]}
    response = web.post("/v2/models/echo_int8/versions/3/infer", json=body)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json() == {
        "model_name": "echo_int8",
        "model_version": "3",
        "outputs": [{"name": "y", "datatype": "INT8", "shape": [2, 2], "data": [1, 2, 3, -4]}],
    }


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (e.InvalidValue("inputs.x", 3, "4"), 400),
        (e.NotFound("no such model"), 404),
        (e.Conflict("not both"), 409),
        (e.Overloaded("the queue is full"), 429),
        (e.Unavailable("its executor was lost"), 503),
        (e.DeadlineMissed("it could not be answered in 5 ms"), 504),
    ],
)
def test_errors_of_the_service(
    server: Running, client: triton.InferenceServerClient, error: e.MagpieError, status: int
) -> None:
    server.service.error = error
    with pytest.raises(InferenceServerException) as caught:
        client.infer("echo_fp32", [inputs("x", example("FP32"), "FP32")])
    assert caught.value.status() == str(status)
    assert caught.value.message() == str(error)


def test_an_unforeseen_error_tells_no_secret(
    server: Running, client: triton.InferenceServerClient, caplog: pytest.LogCaptureFixture
) -> None:
    server.service.error = ZeroDivisionError("the password is 1234")
    with pytest.raises(InferenceServerException) as caught:
        client.infer("echo_fp32", [inputs("x", example("FP32"), "FP32")])
    assert caught.value.status() == "500"
    number = caught.value.message().split()[-1]
    assert "1234" not in caught.value.message()
    assert number in caplog.text
    assert client.is_server_live()


def infer_with(**changes: Any) -> dict[str, Any]:
    """A request with other values in its input or, for keys in capitals, in itself."""
    tensor: dict[str, Any] = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}
    body: dict[str, Any] = {"inputs": [tensor]}
    for key, value in changes.items():
        (body if key.isupper() else tensor)[key.lower()] = value
    return body


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (infer_with(INPUTS=[]), "inputs"),
        (infer_with(INPUTS="x"), "inputs: got 'str'"),
        (infer_with(INPUTS=[3]), "inputs[0]"),
        (infer_with(ID=7), "id"),
        (infer_with(PARAMETERS=[]), "parameters"),
        (infer_with(PARAMETERS={"priority": -1}), "parameters.priority"),
        (infer_with(PARAMETERS={"timeout": "soon"}), "parameters.timeout"),
        (infer_with(PARAMETERS={"sequence_id": 4}), "no sequence"),
        (infer_with(PARAMETERS={"a": {}}), "parameters.a"),
        (infer_with(PARAMETERS={"binary_data_output": 1}), "binary_data_output"),
        (infer_with(OUTPUTS=[{"name": "y"}, {"name": "y"}]), "each name once"),
        (infer_with(OUTPUTS=[{"name": "z"}]), "outputs"),
        (infer_with(OUTPUTS=[{"name": "y", "parameters": {"classification": 3}}]), "classification"),
        (infer_with(name=""), "inputs[0].name"),
        (infer_with(datatype="FLOAT"), "inputs.x.datatype"),
        (infer_with(shape=[2, 2]), "2 values"),
        (infer_with(shape=[-1, 2]), "inputs.x.shape[0]"),
        (infer_with(data=None), "inputs.x.data"),
        (infer_with(parameters={"shared_memory_region": "r"}), "shared memory"),
        (infer_with(parameters={"binary_data_size": 8}), "none beside binary_data_size"),
        (infer_with(datatype="INT32"), "inputs.x"),
        (infer_with(name="z"), "inputs"),
    ],
)
def test_wrong_requests(web: httpx.Client, body: dict[str, Any], words: str) -> None:
    response = web.post("/v2/models/echo_fp32/infer", json=body)
    assert response.status_code == 400
    assert words in response.json()["error"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/v2/nothing", 404),
        ("GET", "/v2/models", 404),
        ("GET", "/v2/models/nobody", 404),
        ("GET", "/v2/models/echo_fp32/versions/2", 404),
        ("GET", "/v2/models/echo_fp32/versions/two", 400),
        ("GET", "/v2/models/echo_fp32/versions//ready", 400),
        ("GET", "/v2/models/echo_fp32/revisions/1/ready", 404),
        ("GET", "/v2/models/..%2f..%2fetc/config", 404),
        ("GET", "/v2/models/%2e%2e/config", 400),
        ("GET", "/v2/models/a%00b", 400),
        ("GET", "/v2/models/" + "a" * 200, 400),
        ("GET", "/v2/models/echo_fp32/infer", 405),
        ("POST", "/v2", 405),
        ("DELETE", "/v2/models/echo_fp32", 405),
        ("GET", "/v2/repository/index", 405),
        ("POST", "/v2/repository/models/%2e%2e/load", 400),
        ("GET", "/v2/systemsharedmemory/status", 501),
        ("HEAD", "/v2/health/live", 200),
    ],
)
def test_addresses(web: httpx.Client, method: str, path: str, status: int) -> None:
    response = web.request(method, path)
    assert response.status_code == status
    if method != "HEAD":
        assert isinstance(response.json()["error"], str)


@pytest.mark.parametrize(
    ("headers", "content", "status", "words"),
    [
        ({}, b"", 400, "JSON"),
        ({}, b"{", 400, "JSON"),
        ({}, b"[]", 400, "a JSON object"),
        ({}, b"\xff\xfe", 400, "JSON"),
        ({"Inference-Header-Content-Length": "ten"}, b"{}", 400, "a number of bytes"),
        ({"Inference-Header-Content-Length": "-1"}, b"{}", 400, "a number of bytes"),
        ({"Inference-Header-Content-Length": "3"}, b"{}", 400, "at most the length of the body"),
        ({"Content-Encoding": "br"}, b"{}", 415, "gzip or deflate"),
        ({"Content-Encoding": "gzip"}, b"{}", 400, "gzip"),
        ({"Content-Encoding": "gzip"}, gzip.compress(b"{}" * 99, mtime=0)[:-9], 400, "a whole body"),
        ({"Content-Encoding": "gzip"}, gzip.compress(bytes(2**21), mtime=0), 413, "1048576 bytes"),
        ({"Content-Encoding": "deflate"}, zlib.compress(bytes(2**21)), 413, "1048576 bytes"),
        ({}, b" " * (2**20 + 1), 413, "1048576 bytes"),
        ({}, b" " * (2**19 + 1), 413, "send tensors as binary data"),
        ({"Origin": "https://elsewhere.example"}, b"{}", 403, "another site"),
        ({"Origin": "http://["}, b"{}", 403, "another site"),
    ],
)
def test_wrong_bodies(web: httpx.Client, headers: dict[str, str], content: bytes, status: int, words: str) -> None:
    response = web.post("/v2/models/echo_fp32/infer", headers=headers, content=content)
    assert response.status_code == status
    assert words in response.json()["error"]
    assert web.get("/v2/health/live").status_code == 200


def test_a_body_without_a_stated_length_is_bounded_too(web: httpx.Client) -> None:
    response = web.post("/v2/models/echo_fp32/infer", content=(bytes(2**16) for _ in range(40)))
    assert response.status_code == 413


def test_deflate_without_its_header_is_taken(web: httpx.Client) -> None:
    machine = zlib.compressobj(wbits=-15)
    body = machine.compress(json.dumps(infer_with()).encode()) + machine.flush()
    assert web.post("/v2/models/echo_fp32/infer", content=body, headers={"content-encoding": "deflate"}).is_success


def test_bytes_that_are_no_text_are_refused_in_json(client: triton.InferenceServerClient) -> None:
    tensor = inputs("x", np.array([[b"\xff\x00"]], object), "BYTES")
    assert client.infer("echo_bytes", [tensor]).as_numpy("y")[0, 0] == b"\xff\x00"
    with pytest.raises(InferenceServerException, match="binary data"):
        client.infer("echo_bytes", [tensor], outputs=[triton.InferRequestedOutput("y", binary_data=False)])


def talk(server: Running, sent: bytes) -> bytes:
    """The bytes that come back over a bare connection until it ends."""
    host, port = server.http.split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(sent)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    return answer


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"GET /v2 HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"GET /v2 HTTP/1.1\r\n" + b"X: " + b"y" * 70_000,
        b"GET /v2 HTTP/1.1\r\n" + b"X: y\r\n" * 20_000,
        b"GET /" + b"v" * 70_000,
    ],
)
def test_what_is_no_http(server: Running, sent: bytes) -> None:
    head, _, body = talk(server, sent).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert isinstance(json.loads(body)["error"], str)


def test_large_bodies_do_not_count_as_headers(server: Running) -> None:
    """The end of one request's body and the next request come in one piece."""
    body = json.dumps(infer_with(INPUTS=[{**infer_with()["inputs"][0]}])).encode() + b" " * 400_000
    one = b"POST /v2/models/echo_fp32/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n" % len(body)
    answer = talk(server, one + b"\r\n" + body + one + b"Connection: close\r\n\r\n" + body)
    assert answer.count(b"HTTP/1.1 200 OK") == 2


HALF = b"POST /v2/models/echo_fp32/infer HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + bytes(999_999)


def until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
    raise AssertionError("it never came")


def test_bodies_held_are_bounded_together_and_let_go() -> None:
    with running(max_body_bytes=2**20, max_held_bytes=3 * 2**20) as server, httpx.Client(base_url=server.url) as web:
        host, port = server.http.split(":")

        def status(size: int) -> int:
            body = json.dumps(infer_with()).encode() + b" " * size
            return web.post("/v2/models/echo_fp32/infer", content=body).status_code

        def half() -> socket.socket:
            connection = socket.create_connection((host, int(port)), timeout=20)
            connection.sendall(HALF)
            return connection

        connections = [half() for _ in range(3)]

        def full() -> bool:
            for n, connection in enumerate(connections):
                if select.select([connection], [], [], 0)[0]:  # it came while a probe was held, and was turned away
                    connection.close()
                    connections[n] = half()
            return status(400_000) == 429

        until(full)
        assert status(0) == 200
        for connection in connections:  # clients that leave in the middle
            connection.close()
        until(lambda: status(400_000) == 200)


async def test_a_stated_length_takes_no_memory_before_something_comes() -> None:
    app = create_oip_app(NumpyService(), max_body_bytes=2**26, max_held_bytes=2**20)
    never = asyncio.Event()

    async def receive() -> Any:
        await never.wait()

    async def send(message: Any) -> None:
        """It is not read."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    headers = [(b"content-length", str(2**26).encode())]
    scope = {"type": "http", "method": "POST", "path": "/v2/models/echo_fp32/infer", "headers": headers}
    before = resident()
    tasks = [asyncio.create_task(app(dict(scope), receive, send)) for _ in range(4)]
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    assert resident() - before < 2**26, "four bodies of that size are announced, none has come"
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks)


def test_the_end_comes_in_time_and_is_said() -> None:
    with running(drain_s=1) as server:
        host, port = server.http.split(":")
        connection = socket.create_connection((host, int(port)), timeout=20)
        connection.sendall(HALF)
        assert httpx.get(server.url + "/v2/health/live").status_code == 200
    answer = connection.recv(65536)
    connection.close()
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"stopping" in answer


@pytest.mark.parametrize("sent", [b"", b"GET /v2 HTTP/1.1\r\nHost:"])
async def test_a_connection_that_asks_nothing_is_closed(sent: bytes) -> None:
    server = OipHttpServer(create_oip_app(NumpyService()), "127.0.0.1", 0, idle_s=0.2)
    await server.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(sent)
        assert await reader.read() == b""
        writer.close()
    finally:
        await server.stop()


async def test_a_taken_port_is_said() -> None:
    app = create_oip_app(NumpyService())
    first = OipHttpServer(app, "127.0.0.1", 0)
    await first.start()
    try:
        with pytest.raises(Unavailable, match=rf"127\.0\.0\.1:{first.port}.*serving\.http\.port"):
            await OipHttpServer(app, "127.0.0.1", first.port).start()
    finally:
        await first.stop()
        await first.stop()


def test_a_large_body() -> None:
    with running() as server, triton.InferenceServerClient(server.http) as large:
        array = np.arange(2**20, dtype=np.float32).reshape(2, -1)
        np.testing.assert_array_equal(large.infer("echo_fp32", [inputs("x", array, "FP32")]).as_numpy("y"), array)
        with pytest.raises(InferenceServerException, match="bytes"):
            large.infer("echo_int8", [inputs("x", np.zeros((1, 2**26), np.int8), "INT8")])


def test_good_requests_beside_garbage(server: Running, client: triton.InferenceServerClient) -> None:
    """Every good request is answered rightly while others send halves, noise and lies."""
    noise = np.random.default_rng(7)
    body = json.dumps(infer_with()).encode()
    head = b"POST /v2/models/echo_fp32/infer HTTP/1.1\r\nHost: x\r\n"
    kinds: list[Callable[[], bytes]] = [
        lambda: noise.bytes(int(noise.integers(1, 3000))),
        lambda: head + b"Content-Length: 500000\r\n\r\n" + noise.bytes(1000),
        lambda: head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
        lambda: head + b"Content-Length: 10\r\nContent-Encoding: gzip\r\n\r\n" + noise.bytes(10),
        lambda: head + b"Content-Length: %d\r\nInference-Header-Content-Length: 9\r\n\r\n" % len(body) + body,
        lambda: head + b"Content-Length: 40\r\n\r\n" + b"[" * 40,
    ]
    host, port = server.http.split(":")
    stop = threading.Event()

    def disturb() -> None:
        n = 0
        while not stop.is_set():
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=5) as connection:
                connection.sendall(kinds[n % len(kinds)]())
            n += 1

    disturber = threading.Thread(target=disturb)
    disturber.start()
    try:
        for n in range(100):
            array = np.full((1, 50), n, np.float32)
            assert (client.infer("echo_fp32", [inputs("x", array, "FP32")]).as_numpy("y") == n).all()
    finally:
        stop.set()
        disturber.join()

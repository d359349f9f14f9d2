"""The gRPC transport with the unmodified client of the protocol, and what only a hand-made message can say."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import ml_dtypes
import numpy as np
import pytest
import tritonclient.grpc as triton
from google.protobuf.message import Message
from oip_double import NumpyService
from oip_kit import Running, running
from tritonclient.grpc import service_pb2 as pb
from tritonclient.grpc.service_pb2_grpc import GRPCInferenceServiceStub
from tritonclient.utils import InferenceServerException

from edge.core import errors as e
from edge.core.errors import Unavailable
from edge.core.oip import DATATYPES
from web.oip.grpc_server import OipGrpcServer


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with running(max_body_bytes=2**20) as started:
        yield started


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[triton.InferenceServerClient]:
    client = triton.InferenceServerClient(server.grpc)
    yield client
    client.close()


@pytest.fixture(scope="module")
def stub(server: Running) -> Iterator[GRPCInferenceServiceStub]:
    with grpc.insecure_channel(server.grpc) as channel:
        yield GRPCInferenceServiceStub(channel)


def inputs(name: str, array: np.ndarray[Any, Any], datatype: str) -> triton.InferInput:
    made = triton.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array)
    return made


@pytest.mark.parametrize("datatype", list(DATATYPES))
def test_every_datatype(client: triton.InferenceServerClient, datatype: str) -> None:
    if datatype == "BYTES":
        array = np.array([[b"a", b"\xff\x00"], [b"", "ü".encode()]], dtype=object)
    elif datatype == "BF16":
        array = np.array([[1.5, -2.0]], dtype=ml_dtypes.bfloat16)
    else:
        array = np.array([[0, 1], [1, 1]]).astype(DATATYPES[datatype])
    result = client.infer(f"echo_{datatype.lower()}", [inputs("x", array, datatype)])
    np.testing.assert_array_equal(result.as_numpy("y"), array)
    assert result.get_output("y").datatype == datatype


@pytest.mark.parametrize("compression", [None, "gzip", "deflate"])
def test_several_inputs_and_outputs_in_the_order_asked_for(
    server: Running, client: triton.InferenceServerClient, compression: str | None
) -> None:
    a, b = np.array([[1, 2]], np.float32), np.array([[10, 20]], np.float32)
    result = client.infer(
        "add",
        [inputs("a", a, "FP32"), inputs("b", b, "FP32")],
        model_version="1",
        outputs=[triton.InferRequestedOutput("difference"), triton.InferRequestedOutput("sum")],
        request_id="job 7",
        priority=2,
        timeout=25_000,
        parameters={"tenant": "north", "share": 0.5, "n": 3, "fast": True},
        compression_algorithm=compression,
    )
    response = result.get_response()
    assert [output.name for output in response.outputs] == ["difference", "sum"]
    assert result.as_numpy("sum").tolist() == [[11, 22]]
    assert (response.model_name, response.model_version, response.id) == ("add", "1", "job 7")
    seen = server.service.seen[-1]
    assert (seen.version, seen.id, seen.priority, seen.timeout_us) == ("1", "job 7", 2, 25_000)
    assert seen.outputs == ("difference", "sum")
    assert seen.parameters == {"tenant": "north", "share": 0.5, "n": 3, "fast": True}


def test_a_call_that_its_client_gives_up_earlier_has_that_time_only(
    server: Running, client: triton.InferenceServerClient
) -> None:
    tensor = inputs("x", np.zeros((1, 2), np.float32), "FP32")
    client.infer("echo_fp32", [tensor], client_timeout=20)
    assert 0 < server.service.seen[-1].timeout_us < 21_000_000  # gRPC rounds it up
    client.infer("echo_fp32", [tensor], client_timeout=20, timeout=700)
    assert server.service.seen[-1].timeout_us == 700
    client.infer("echo_fp32", [tensor])
    assert server.service.seen[-1].timeout_us == 0


def test_server_and_models(server: Running, client: triton.InferenceServerClient) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("echo_fp32", "3")
    server.service.is_ready = False
    assert not client.is_server_ready()
    assert not client.is_model_ready("add")
    server.service.is_ready = True
    assert not client.is_model_ready("nobody"), "as by HTTP: a model that is not there is not ready"
    metadata = client.get_server_metadata()
    assert (metadata.name, metadata.version, list(metadata.extensions)) == (
        "double",
        "1.2.3",
        ["statistics", "parameters"],
    )
    model = client.get_model_metadata("echo_fp32")
    assert (model.platform, list(model.versions)) == ("numpy", ["1", "3"])
    assert [(t.name, t.datatype, list(t.shape)) for t in model.inputs] == [("x", "FP32", [-1, -1])]
    config = client.get_model_config("echo_bytes", as_json=True)["config"]
    assert config["max_batch_size"] == 8
    assert config["input"] == [{"name": "x", "data_type": "TYPE_STRING", "dims": ["-1"]}]
    (stats,) = client.get_inference_statistics("echo_fp32").model_stats
    assert stats.inference_stats.success.ns == 5000
    assert stats.batch_stats[0].compute_infer.ns == 4000
    assert len(client.get_inference_statistics().model_stats) == len(server.service.models)


def test_repository(server: Running, client: triton.InferenceServerClient) -> None:
    index = client.get_model_repository_index().models
    assert {("add", "READY"), ("broken", "UNAVAILABLE")} <= {(m.name, m.state) for m in index}
    client.load_model("add", config='{"slo_ms": 5}', files={"file:2/model.onnx": b"\x00\x01"})
    assert server.service.asked[-1] == ("load", "add", {"config": '{"slo_ms": 5}', "file:2/model.onnx": "AAE="})
    client.unload_model("add")
    assert server.service.asked[-1] == ("unload", "add", {"unload_dependents": False})
    with pytest.raises(InferenceServerException, match="no model nobody"):
        client.unload_model("nobody")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (e.InvalidValue("inputs.x", 3, "4"), "INVALID_ARGUMENT"),
        (e.NotFound("no such model"), "NOT_FOUND"),
        (e.Conflict("not both"), "FAILED_PRECONDITION"),
        (e.Overloaded("the queue is full"), "RESOURCE_EXHAUSTED"),
        (e.Unavailable("its executor was lost"), "UNAVAILABLE"),
        (e.DeadlineMissed("it could not be answered in 5 ms"), "DEADLINE_EXCEEDED"),
    ],
)
def test_errors_of_the_service(
    server: Running, client: triton.InferenceServerClient, error: e.MagpieError, status: str
) -> None:
    server.service.error = error
    with pytest.raises(InferenceServerException) as caught:
        client.infer("echo_fp32", [inputs("x", np.zeros((1, 2), np.float32), "FP32")])
    assert caught.value.status() == f"StatusCode.{status}"
    assert caught.value.message() == str(error)


def test_an_unforeseen_error_tells_no_secret(
    server: Running, client: triton.InferenceServerClient, caplog: pytest.LogCaptureFixture
) -> None:
    server.service.error = ZeroDivisionError("the password is 1234")
    with pytest.raises(InferenceServerException) as caught:
        client.infer("echo_fp32", [inputs("x", np.zeros((1, 2), np.float32), "FP32")])
    assert caught.value.status() == "StatusCode.INTERNAL"
    assert "1234" not in caught.value.message()
    assert caught.value.message().split()[-1] in caplog.text


def a_request(change: Callable[[Any], object] = lambda message: None) -> Message:
    message = pb.ModelInferRequest(model_name="echo_fp32")
    message.inputs.add(name="x", datatype="FP32", shape=[1, 2])
    message.inputs[0].contents.fp32_contents.extend([1.5, 2.5])
    change(message)
    return message


@pytest.mark.parametrize(
    ("datatype", "field", "values"),
    [
        ("BOOL", "bool_contents", [True, False]),
        ("UINT8", "uint_contents", [0, 255]),
        ("INT16", "int_contents", [-5, 5]),
        ("UINT32", "uint_contents", [0, 2**32 - 1]),
        ("INT64", "int64_contents", [-(2**63), 2**63 - 1]),
        ("UINT64", "uint64_contents", [0, 2**64 - 1]),
        ("FP32", "fp32_contents", [1.5, float("inf")]),
        ("FP64", "fp64_contents", [1.5, 1e300]),
        ("BYTES", "bytes_contents", [b"\xff", b""]),
    ],
)
def test_values_in_the_message(stub: GRPCInferenceServiceStub, datatype: str, field: str, values: list[Any]) -> None:
    message = pb.ModelInferRequest(model_name=f"echo_{datatype.lower()}")
    message.inputs.add(name="x", datatype=datatype, shape=[1, 2])
    getattr(message.inputs[0].contents, field).extend(values)
    answer = stub.ModelInfer(message)
    raw = answer.raw_output_contents[0]
    if datatype == "BYTES":
        assert raw == b"\x01\x00\x00\x00\xff\x00\x00\x00\x00"
    else:
        assert np.frombuffer(raw, DATATYPES[datatype]).tolist() == values


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.inputs.pop(), "inputs"),
        (lambda m: setattr(m, "model_name", "../etc"), "model"),
        (lambda m: setattr(m, "model_name", ""), "model"),
        (lambda m: setattr(m, "model_version", "two"), "version"),
        (lambda m: setattr(m.inputs[0], "datatype", "FLOAT"), "inputs.x.datatype"),
        (lambda m: setattr(m.inputs[0], "datatype", "FP16"), "raw_input_contents"),
        (lambda m: m.inputs[0].shape.append(2), "2 values"),
        (lambda m: m.inputs[0].shape.__setitem__(0, -1), "inputs.x.shape[0]"),
        (lambda m: m.raw_input_contents.append(bytes(8)), "none beside raw_input_contents"),
        (lambda m: m.raw_input_contents.extend([b"", b""]), "one for each of the 1 inputs"),
        (lambda m: m.inputs.add(name="x", datatype="FP32", shape=[0]), "each name once"),
        (lambda m: m.outputs.add(name=""), "outputs[0].name"),
        (lambda m: setattr(m.inputs[0].parameters["shared_memory_region"], "string_param", "r"), "shared memory"),
        (lambda m: setattr(m.parameters["sequence_id"], "int64_param", 4), "no sequence"),
        (lambda m: m.parameters["empty"].SetInParent(), "parameters.empty"),
        (lambda m: setattr(m.parameters["timeout"], "int64_param", -4), "parameters.timeout"),
    ],
)
def test_wrong_requests(stub: GRPCInferenceServiceStub, change: Callable[[Any], object], words: str) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        stub.ModelInfer(a_request(change), timeout=20)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert words in caught.value.details()
    assert stub.ModelInfer(a_request()).raw_output_contents[0] == np.array([1.5, 2.5], np.float32).tobytes()


@pytest.mark.parametrize("sent", [b"\xff\xff\xff", b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x02\xff\xfe"])
def test_bytes_that_are_no_message(server: Running, sent: bytes) -> None:
    with grpc.insecure_channel(server.grpc) as channel:
        for method in ("ModelInfer", "ModelReady", "RepositoryModelLoad"):
            call = channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
            with pytest.raises(grpc.RpcError) as caught:
                call(sent, timeout=20)
            assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


def test_too_large_and_what_is_not_offered(server: Running, client: triton.InferenceServerClient) -> None:
    for compression in (None, "gzip"):
        with pytest.raises(InferenceServerException) as caught:
            client.infer(
                "echo_fp32",
                [inputs("x", np.zeros((1, 2**19), np.float32), "FP32")],
                compression_algorithm=compression,
            )
        assert caught.value.status() == "StatusCode.RESOURCE_EXHAUSTED"
    for call in (
        lambda: client.register_system_shared_memory("r", "/r", 8),
        client.get_system_shared_memory_status,
        lambda: client.unregister_cuda_shared_memory("r"),
    ):
        with pytest.raises(InferenceServerException, match="shared memory regions are not offered") as caught:
            call()
        assert caught.value.status() == "StatusCode.UNIMPLEMENTED"


def test_a_stream_answers_in_order_and_outlives_errors(server: Running) -> None:
    answers: queue.Queue[tuple[Any, Any]] = queue.Queue()
    with triton.InferenceServerClient(server.grpc) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for n in range(100):
            array = np.full((1, 2), n, np.float32)
            model = "nobody" if n == 50 else "echo_fp32"
            client.async_stream_infer(model, [inputs("x", array, "FP32")], request_id=str(n))
        for n in range(100):
            result, error = answers.get(timeout=20)
            if n == 50:
                assert "there is no model nobody" in str(error)
            else:
                assert result.get_response().id == str(n)
                assert result.as_numpy("y")[0, 0] == n
        client.stop_stream()


async def test_a_taken_port_is_said() -> None:
    first = OipGrpcServer(NumpyService(), "127.0.0.1", 0)
    await first.start()
    try:
        assert first.port > 0
        with pytest.raises(Unavailable, match=rf"127\.0\.0\.1:{first.port}.*serving\.grpc\.port"):
            await OipGrpcServer(NumpyService(), "127.0.0.1", first.port).start()
    finally:
        await first.stop()
        await first.stop()
    with pytest.raises(Unavailable, match=r"192\.0\.2\.1:0"):
        await OipGrpcServer(NumpyService(), "192.0.2.1", 0).start()

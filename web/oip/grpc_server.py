"""The gRPC transport of the Open Inference Protocol v2 over an InferenceService."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import asdict
from functools import partial
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

import grpc
from google.protobuf import json_format
from google.protobuf.message import DecodeError

from edge.core.errors import InvalidValue, MagpieError, NotFound, NotLoggedIn, Unavailable
from edge.core.oip import InferenceService, InferRequest, InferResponse, Tensor, TensorSpec
from web.oip import codec, inference
from web.oip.gate import Gate, authorise, bearer, open_to_all
from web.oip.intake import Held, Intake, IntakePatience
from web.oip.messages import Messages
from web.oip.names import model_name, version_name
from web.oip.statuses import grpc_status, unexpected
from web.tls import Tls

SERVICE: Final = "inference.GRPCInferenceService"
EXTENSIONS: Final = ("parameters",)
#: Requests of one stream that are worked on at a time; further ones wait in the connection.
_STREAM_DEPTH: Final = 64
_RPCS: Final = 2048
#: Calls of one connection at a time; further ones wait in the client.
_STREAMS: Final = 256
_KEEPALIVE_MS: Final = 60_000
_CONTENTS: Final[Mapping[str, str]] = {
    "BOOL": "bool_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}

_Context: TypeAlias = "grpc.aio.ServicerContext"
_Handler = Callable[[Any, _Context], Awaitable[Any]]


class OipGrpcServer:
    """Serves `service` at host:port between `start` and `stop`. Port 0 takes any free one; `port` tells which.
    `setting` names the port's setting in errors; `max_message_bytes` bounds one message, both ways; `max_held_bytes`
    all messages that come in or are worked on, and those of open streams (Intake), with which it has `patience`; `gate`
    says who may ask (health is open to all); with `tls` over TLS."""

    def __init__(
        self,
        service: InferenceService,
        host: str,
        port: int,
        max_message_bytes: int = 64 * 2**20,
        setting: str = "serving.grpc.port",
        gate: Gate = open_to_all,
        tls: Tls | None = None,
        max_held_bytes: int = 512 * 2**20,
        patience: IntakePatience | None = None,
    ) -> None:
        self._tls = tls
        self._gate = gate
        self.intake = Intake(max_held_bytes, max_message_bytes, patience)
        self._service, self._host, self._asked = service, host, port
        self._max_message, self._setting = max_message_bytes, setting
        self._messages = Messages()
        self._server: grpc.aio.Server | None = None
        self._bound = 0

    @property
    def port(self) -> int:
        """The port listened on (before `start`: the one asked for)."""
        return self._bound or self._asked

    async def start(self) -> None:
        """Listen. Raises Unavailable (port taken, not allowed, no such host)."""
        options = [
            ("grpc.so_reuseport", 0),  # a taken port is an error, not shared
            ("grpc.max_receive_message_length", self._max_message),
            ("grpc.max_send_message_length", self._max_message),
            ("grpc.max_concurrent_streams", _STREAMS),
            # A call whose message is not awaited yet may send HTTP/2's first window, 64 KiB; probing widens it to MiBs.
            ("grpc.http2.bdp_probe", 0),
            # A client that is gone without a word does not keep its place.
            ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
        ]
        server = grpc.aio.server(options=options, maximum_concurrent_rpcs=_RPCS)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, self._handlers()),))
        where = f"[{self._host}]:{self._asked}" if ":" in self._host else f"{self._host}:{self._asked}"
        try:
            self._bound = self._listen(server, where)
        except RuntimeError:
            self._bound = 0
        if not self._bound:
            hint = f"is another program listening there? set {self._setting}"
            raise Unavailable(f"served inference cannot listen on {where} (gRPC)", hint)
        await server.start()
        self._server = server

    def _listen(self, server: grpc.aio.Server, where: str) -> int:
        if self._tls is None:
            return int(server.add_insecure_port(where))
        tls, last = self._tls, self._tls.pair

        def changed() -> grpc.ServerCertificateConfiguration | None:
            nonlocal last  # asked at each handshake
            if tls.pair == last:
                return None
            last = tls.pair
            return _certificate(last)

        return int(server.add_secure_port(where, grpc.dynamic_ssl_server_credentials(_certificate(last), changed)))

    async def stop(self, grace_s: float = 5.0) -> None:
        """Stop listening; calls that run may finish in `grace_s`. Safe to call twice."""
        server, self._server, self._bound = self._server, None, 0
        if server is not None:
            await server.stop(grace_s)

    def _handlers(self) -> dict[str, grpc.RpcMethodHandler]:
        made: dict[str, grpc.RpcMethodHandler] = {}
        for name, handler in {
            "ServerLive": self._server_live,
            "ServerReady": self._server_ready,
            "ModelReady": self._model_ready,
            "ServerMetadata": self._server_metadata,
            "ModelMetadata": self._model_metadata,
            "ModelInfer": self._model_infer,
            "ModelConfig": self._model_config,
            "ModelStatistics": self._model_statistics,
            "RepositoryIndex": self._repository_index,
            "RepositoryModelLoad": self._repository_model_load,
            "RepositoryModelUnload": self._repository_model_unload,
        }.items():
            # To the client these are unary; here each reads its message when there is room for it.
            made[name] = grpc.stream_unary_rpc_method_handler(self._guarded(name, handler))
        for memory in ("SystemSharedMemory", "CudaSharedMemory"):
            for name in ("Status", "Register", "Unregister"):
                made[f"{memory}{name}"] = grpc.stream_unary_rpc_method_handler(_no_shared_memory)
        made["ModelStreamInfer"] = grpc.stream_stream_rpc_method_handler(self._model_stream_infer)
        return made

    def _guarded(self, name: str, handler: _Handler) -> Callable[[object, _Context], Awaitable[bytes]]:
        """Bytes in, bytes out, errors as the protocol's statuses. The messages are parsed here and not by gRPC, which
        would call bytes that are no message our internal error."""
        kind = getattr(self._messages, f"{name}Request")

        async def call(_: object, context: _Context) -> bytes:
            try:
                if name not in _HEALTH:
                    authorise(self._gate, _token(context), "operator" if name in _CHANGES else "viewer", _peer(context))
                with await self.intake.one(context.read) as message:
                    answer = await handler(_parsed(kind, message.data), context)
            except MagpieError as error:
                await context.abort(grpc.StatusCode[grpc_status(error)], str(error))
            except Exception as error:
                await context.abort(grpc.StatusCode.INTERNAL, unexpected(error, name))
            encoded: bytes = answer.SerializeToString()
            return encoded

        return call

    async def _server_live(self, request: Any, context: _Context) -> Any:
        return self._messages.ServerLiveResponse(live=self._service.live())

    async def _server_ready(self, request: Any, context: _Context) -> Any:
        return self._messages.ServerReadyResponse(ready=self._service.ready())

    async def _model_ready(self, request: Any, context: _Context) -> Any:
        name, version = _model_and_version(request.name, request.version)
        try:
            ready = self._service.model_ready(name, version)
        except NotFound:  # clients ask until it is there; by HTTP, too, a model that is not there is not ready
            ready = False
        return self._messages.ModelReadyResponse(ready=ready)

    async def _server_metadata(self, request: Any, context: _Context) -> Any:
        found = self._service.server_metadata()
        extensions = dict.fromkeys((*found.get("extensions", ()), *EXTENSIONS))
        return self._messages.ServerMetadataResponse(
            name=str(found.get("name", "")), version=str(found.get("version", "")), extensions=list(extensions)
        )

    async def _model_metadata(self, request: Any, context: _Context) -> Any:
        found = self._service.model_metadata(*_model_and_version(request.name, request.version))
        answer = self._messages.ModelMetadataResponse(
            name=found.name, versions=list(found.versions), platform=found.platform
        )

        def add(to: Any, specs: tuple[TensorSpec, ...]) -> None:
            for spec in specs:
                to.add(name=spec.name, datatype=spec.datatype, shape=spec.shape)

        add(answer.inputs, found.inputs)
        add(answer.outputs, found.outputs)
        return answer

    async def _model_config(self, request: Any, context: _Context) -> Any:
        found = self._service.model_config(*_model_and_version(request.name, request.version))
        answer = self._messages.ModelConfigResponse()
        json_format.ParseDict(found, answer.config, ignore_unknown_fields=True)
        return answer

    async def _model_statistics(self, request: Any, context: _Context) -> Any:
        model = model_name(request.name) if request.name else None
        found = self._service.statistics(model, version_name(request.version))
        answer = self._messages.ModelStatisticsResponse()
        for entry in found:
            json_format.ParseDict(entry, answer.model_stats.add(), ignore_unknown_fields=True)
        return answer

    async def _repository_index(self, request: Any, context: _Context) -> Any:
        answer = self._messages.RepositoryIndexResponse()
        for entry in await self._service.repository_index(request.ready):
            json_format.ParseDict(asdict(entry), answer.models.add(), ignore_unknown_fields=True)
        return answer

    async def _repository_model_load(self, request: Any, context: _Context) -> Any:
        parameters = _repository_parameters(request.parameters)
        await self._service.load_model(model_name(request.model_name), parameters)
        return self._messages.RepositoryModelLoadResponse()

    async def _repository_model_unload(self, request: Any, context: _Context) -> Any:
        parameters = _repository_parameters(request.parameters)
        await self._service.unload_model(model_name(request.model_name), parameters)
        return self._messages.RepositoryModelUnloadResponse()

    async def _model_infer(self, request: Any, context: _Context) -> Any:
        return self._response(await self._service.infer(_request(request, context.time_remaining())))

    async def _model_stream_infer(self, _: object, context: _Context) -> AsyncIterator[bytes]:
        """Answers in the order of the requests; an error is an answer, and the stream goes on, unless the token is not
        (or no longer) good: that ends it."""
        with contextlib.ExitStack() as place:
            try:
                token = _token(context)
                self._gate(token, "viewer")
                place.enter_context(self.intake.stream())
            except MagpieError as error:
                await context.abort(grpc.StatusCode[grpc_status(error)], str(error))
            running: asyncio.Queue[asyncio.Task[bytes] | None] = asyncio.Queue(_STREAM_DEPTH)
            tasks: set[asyncio.Task[bytes]] = set()
            reader = asyncio.ensure_future(self._read_stream(token, context, running, tasks))
            try:
                while (task := await running.get()) is not None:
                    yield await task
                refused = await reader
                if refused is not None:
                    await context.abort(grpc.StatusCode[grpc_status(refused)], str(refused))
            finally:
                for left in (reader, *tasks):
                    left.cancel()

    async def _read_stream(
        self,
        token: str | None,
        context: _Context,
        running: asyncio.Queue[asyncio.Task[bytes] | None],
        tasks: set[asyncio.Task[bytes]],
    ) -> MagpieError | None:
        """Begin to answer each request as it comes, until the stream ends; returns what ends it against its wish."""
        refused = None
        try:
            while isinstance(data := await context.read(), bytes):
                self._gate(token, "viewer")
                message = await self.intake.of_stream(data)
                del data  # a stream that waits for its next message holds none
                task = asyncio.ensure_future(self._stream_answer(message))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                task.add_done_callback(partial(_release, message))
                del message
                await running.put(task)
        except MagpieError as error:
            refused = error
        await running.put(None)
        return refused

    async def _stream_answer(self, message: Held) -> bytes:
        answer = self._messages.ModelStreamInferResponse()
        try:
            request = _parsed(self._messages.ModelInferRequest, message.data)
            answer.infer_response.id = request.id
            answer.infer_response.CopyFrom(self._response(await self._service.infer(_request(request, None))))
        except MagpieError as error:
            answer.error_message = str(error)
        except Exception as error:
            answer.error_message = unexpected(error, "ModelStreamInfer")
        encoded: bytes = answer.SerializeToString()
        return encoded

    def _response(self, response: InferResponse) -> Any:
        answer = self._messages.ModelInferResponse(
            model_name=response.model, model_version=response.version, id=response.id
        )
        for key, value in response.parameters.items():
            _set_parameter(answer.parameters[key], value)
        for tensor in response.outputs:
            answer.outputs.add(name=tensor.name, datatype=tensor.datatype, shape=tensor.array.shape)
            answer.raw_output_contents.append(bytes(codec.to_raw(tensor)))
        return answer


def _certificate(pair: tuple[bytes, bytes]) -> grpc.ServerCertificateConfiguration:
    certificate, key = pair
    return grpc.ssl_server_certificate_configuration([(key, certificate)])


def _release(message: Held, _: object) -> None:
    message.release()


async def _no_shared_memory(_: object, context: _Context) -> bytes:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, inference.NO_SHARED_MEMORY)
    raise AssertionError  # abort raises


#: Health is open to all; these change what is served.
_HEALTH: Final = frozenset({"ServerLive", "ServerReady"})
_CHANGES: Final = frozenset({"RepositoryModelLoad", "RepositoryModelUnload"})


def _token(context: _Context) -> str | None:
    """The token in a call's metadata. Raises NotLoggedIn."""
    given = [value for key, value in context.invocation_metadata() or () if key == "authorization"]
    if len(given) > 1:
        raise NotLoggedIn("one authorization, not several")
    return bearer(str(given[0]) if given else None)


def _peer(context: _Context) -> str | None:
    """The address in "ipv4:192.0.2.7:50112" or "ipv6:%5B::1%5D:50112"."""
    host = unquote(str(context.peer())).partition(":")[2].rpartition(":")[0]
    return host.strip("[]")[:64] or None


def _parsed(kind: Any, data: bytes) -> Any:
    try:
        return kind.FromString(data)
    except DecodeError:
        raise InvalidValue("(message)", f"{len(data)} bytes", f"a {kind.DESCRIPTOR.name}") from None


def _model_and_version(model: str, version: str) -> tuple[str, str | None]:
    return model_name(model), version_name(version)


def _request(message: Any, remaining_s: float | None) -> InferRequest:
    """The message as a request; a call that its client gives up earlier has that time only."""
    model, version = _model_and_version(message.model_name, message.model_version)
    inputs = tuple(_inputs(message))
    outputs = []
    for n, output in enumerate(message.outputs):
        outputs.append(codec.checked_name(f"outputs[{n}].name", output.name))
        if output.parameters:
            inference.refuse_not_offered(f"outputs.{output.name}.parameters", _parameters(output.parameters))
    inference.check_unique("outputs", outputs)
    parameters = _parameters(message.parameters) if message.parameters else {}
    if remaining_s is not None:
        remaining_us = max(1, int(remaining_s * 1e6))
        timeout = parameters.get("timeout")
        if not timeout or (type(timeout) is int and timeout > remaining_us):
            parameters["timeout"] = remaining_us
    return inference.make_request(model, version, message.id, inputs, tuple(outputs), parameters)


def _inputs(message: Any) -> list[Tensor]:
    raw = message.raw_input_contents
    if not message.inputs:
        raise InvalidValue("inputs", [], "at least one input")
    if len(message.inputs) > inference.MAX_TENSORS:
        raise InvalidValue("inputs", f"{len(message.inputs)} items", f"at most {inference.MAX_TENSORS}")
    if raw and len(raw) != len(message.inputs):
        allowed = f"one for each of the {len(message.inputs)} inputs, or none"
        raise InvalidValue("raw_input_contents", f"{len(raw)} items", allowed)
    found = []
    for n, item in enumerate(message.inputs):
        name = codec.checked_name(f"inputs[{n}].name", item.name)
        path = f"inputs.{name}"
        datatype = codec.checked_datatype(f"{path}.datatype", item.datatype)
        shape = codec.checked_shape(f"{path}.shape", list(item.shape))
        if item.parameters:
            inference.refuse_not_offered(f"{path}.parameters", item.parameters)
        if raw:
            if item.HasField("contents"):
                raise InvalidValue(f"{path}.contents", "values", "none beside raw_input_contents")
            found.append(codec.from_raw(path, name, datatype, shape, raw[n]))
        elif datatype not in _CONTENTS:
            raise InvalidValue(f"{path}.datatype", datatype, "raw_input_contents for this datatype")
        else:
            values = getattr(item.contents, _CONTENTS[datatype])
            found.append(codec.from_numbers(f"{path}.contents", name, datatype, shape, values))
    inference.check_unique("inputs", [tensor.name for tensor in found])
    return found


def _parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of InferParameter messages."""
    found: dict[str, Any] = {}
    for key, value in given.items():
        kind = value.WhichOneof("parameter_choice")
        if kind is None:
            raise InvalidValue(f"parameters.{key[:80]}", None, "a value")
        found[key] = getattr(value, kind)
    return found


def _repository_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """As REST has them: file contents in base64."""
    return {
        key: base64.b64encode(value).decode() if isinstance(value, bytes) else value
        for key, value in _parameters(given).items()
    }


def _set_parameter(message: Any, value: object) -> None:
    kinds = {bool: "bool_param", int: "int64_param", float: "double_param"}
    kind = kinds.get(type(value))
    setattr(message, kind or "string_param", value if kind else str(value))

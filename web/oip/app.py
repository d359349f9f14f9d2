"""The REST transport of the Open Inference Protocol v2: a plain ASGI app over an InferenceService.

No framework: an inference request costs one look at its path, one JSON header and no copy of its tensors. Every error
is {"error": "..."} with the status of web.oip.statuses.
"""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

import numpy as np
import orjson
from starlette.types import ASGIApp, Receive, Scope, Send

from edge.core.errors import InvalidValue, MagpieError, NotFound, NotLoggedIn, Overloaded
from edge.core.oip import InferenceService, ModelMetadata, TensorSpec
from web.hosts import Hosts
from web.oip import inference, openapi
from web.oip.gate import Gate, authorise, bearer, open_to_all
from web.oip.inference import Body
from web.oip.names import model_name, version_name
from web.oip.statuses import http_status, unexpected
from web.origin import foreign_origin

#: The extensions that this transport adds to those of the service.
EXTENSIONS: Final = ("binary_tensor_data", "parameters")
_JSON: Final = (b"content-type", b"application/json")
_OCTETS: Final = (b"content-type", b"application/octet-stream")
_BEARER: Final = (b"www-authenticate", b"Bearer")
_LENGTH_HEADER: Final = b"inference-header-content-length"
#: A body of which nothing comes for this long is given up.
_BODY_PAUSE_S: Final = 30.0
#: Compressing and decompressing more than this is done in a thread; less is answered from not much of it.
_THREAD_BYTES: Final = 64 * 1024
_LEAST_COMPRESSED: Final = 512
_JOIN_BYTES: Final = 2**20


class _Refused(Exception):
    """An answer that is HTTP's own matter."""

    def __init__(self, status: int, message: str, *headers: tuple[bytes, bytes]) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers


class _Gone(Exception):
    """The client went away before its request was complete."""


def create_oip_app(
    service: InferenceService,
    max_body_bytes: int = 64 * 2**20,
    max_json_bytes: int = 8 * 2**20,
    max_held_bytes: int = 512 * 2**20,
    gate: Gate = open_to_all,
    hosts: Hosts | None = None,
) -> ASGIApp:
    """The app over `service`.

    `max_body_bytes` bounds one body, before and after decompression; `max_json_bytes` the JSON of an inference request
    (while it is parsed nothing else is answered; tensors belong into the binary part); `max_held_bytes` all bodies
    that are held at a time, beyond which requests are turned away as Overloaded. `gate` says who may ask; health is
    open to all. `hosts`: names under which it may be asked for; None: any.
    """
    app = _OipApp(service, max_body_bytes, max_json_bytes, max_held_bytes, gate)
    return app if hosts is None else _ByOwnName(app, hosts)


class _ByOwnName:
    """Refuses requests by a name that is not the box's: a page whose name was made to point here (DNS rebinding) is of
    the same site as this port in a browser's eyes, at any `Origin`."""

    def __init__(self, app: ASGIApp, hosts: Hosts) -> None:
        self._app, self._hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = [value.decode("latin-1") for name, value in scope.get("headers", ()) if name == b"host"]
        misnamed = self._hosts.refused_of(given)
        if misnamed is None:
            await self._app(scope, receive, send)
            return
        body = _error(f"{misnamed!r} is no name of this box: ask for it by address, or name it in web.hosts")
        headers = [(b"content-length", str(len(body)).encode()), (b"connection", b"close"), _JSON]
        await send({"type": "http.response.start", "status": 421, "headers": headers})
        await send({"type": "http.response.body", "body": body})


class _OipApp:
    def __init__(self, service: InferenceService, max_body: int, max_json: int, max_held: int, gate: Gate) -> None:
        self._service, self._gate = service, gate
        self._max_body, self._max_json, self._max_held = max_body, max_json, max_held
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        extra: tuple[tuple[bytes, bytes], ...] = ()
        try:
            headers: dict[bytes, bytes] = dict(scope["headers"])
            status, pieces, extra = await self._answer(scope, headers, receive)
            if b"accept-encoding" in headers:
                pieces, extra = await _encoded(headers[b"accept-encoding"], pieces, extra)
        except _Gone:
            return
        except asyncio.CancelledError:  # this is the whole task, and the server ends: no other task waits for it
            status, pieces, extra = 503, [_error("the server is stopping")], (_JSON,)
        except _Refused as error:
            status, pieces, extra = error.status, [_error(error.message)], (_JSON, *error.headers)
        except MagpieError as error:
            status, pieces, extra = http_status(error), [_error(str(error))], (_JSON,)
            if isinstance(error, NotLoggedIn):
                extra = (_JSON, _BEARER)
        except Exception as error:
            message = unexpected(error, f"{scope['method']} {scope['path'][:200]}")
            status, pieces, extra = 500, [_error(message)], (_JSON,)
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        length = (b"content-length", str(len(body)).encode())
        await send({"type": "http.response.start", "status": status, "headers": [length, *extra]})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, headers: Mapping[bytes, bytes], receive: Receive) -> _Answer:
        parts = scope["path"].split("/")
        if parts[1:3] != ["v2", "health"]:
            given = headers.get(b"authorization")
            changes = parts[1:3] == ["v2", "repository"] and parts[-1] in ("load", "unload")
            token = bearer(None if given is None else given.decode("latin-1"))
            client = scope.get("client")
            authorise(self._gate, token, "operator" if changes else "viewer", str(client[0]) if client else None)
        # "", "v2", "models", model, ["versions", version,] "infer"
        if parts[-1] == "infer" and parts[1:3] == ["v2", "models"] and len(parts) in (5, 7):
            _method(scope, "POST")
            _own_site(headers)
            return await self._infer(*_model_and_version(parts[3:-1]), headers, receive)
        return await self._rest(scope, parts, headers, receive)

    async def _infer(
        self, model: str, version: str | None, headers: Mapping[bytes, bytes], receive: Receive
    ) -> _Answer:
        length = _header_length(headers)
        held = _Held(self)
        try:
            body = await self._body(headers, receive, held)
            json_size = len(body) if length is None else length
            if json_size > self._max_json:
                hint = "send tensors as binary data"
                raise _Refused(413, f"the JSON of a request may have {self._max_json} bytes, not {json_size} ({hint})")
            if length == 0:
                request, form = inference.parse_raw(self._service.model_metadata(model, version), version, body)
            else:
                request, form = inference.parse(model, version, body, length)
            response = await self._service.infer(request)
        finally:
            held.release()
        pieces, head = inference.render(response, form)
        if head is None:
            return 200, pieces, (_JSON,)
        return 200, pieces, (_OCTETS, (_LENGTH_HEADER, str(head).encode()))

    async def _rest(self, scope: Scope, parts: list[str], headers: Mapping[bytes, bytes], receive: Receive) -> _Answer:
        service = self._service
        match parts[1:]:
            case ["v2"] | ["v2", ""]:
                _method(scope, "GET")
                metadata = dict(service.server_metadata())
                metadata["extensions"] = list(dict.fromkeys((*metadata.get("extensions", ()), *EXTENSIONS)))
                return _ok(metadata)
            case ["v2", "health", "live"]:
                _method(scope, "GET")
                return _probe("live", service.live())
            case ["v2", "health", "ready"]:
                _method(scope, "GET")
                return _probe("ready", service.ready())
            case ["v2", "openapi.json"]:
                _method(scope, "GET")
                return _ok(openapi.document(str(service.server_metadata().get("version", "unknown"))))
            case ["v2", "models", "stats"]:
                _method(scope, "GET")
                return _ok({"model_stats": service.statistics(None, None)})
            case ["v2", "models", *rest] if rest and rest[-1] in ("ready", "config", "stats") and len(rest) in (2, 4):
                _method(scope, "GET")
                model, version = _model_and_version(rest[:-1])
                if rest[-1] == "ready":
                    return _probe("ready", service.model_ready(model, version), name=model)
                if rest[-1] == "config":
                    return _ok(service.model_config(model, version))
                return _ok({"model_stats": service.statistics(model, version)})
            case ["v2", "models", *rest] if len(rest) in (1, 3):
                _method(scope, "GET")
                return _ok(_metadata(service.model_metadata(*_model_and_version(rest))))
            case ["v2", "repository", "index"]:
                _method(scope, "POST")
                body = await self._object(headers, receive)
                ready = body.get("ready", False)
                if not isinstance(ready, bool):
                    raise InvalidValue("ready", ready, "true or false")
                return _ok([asdict(entry) for entry in await service.repository_index(ready)])
            case ["v2", "repository", "models", name, ("load" | "unload") as action]:
                _method(scope, "POST")
                _own_site(headers)
                model = model_name(name)
                body = await self._object(headers, receive)
                parameters = body.get("parameters") or {}
                if not isinstance(parameters, dict):
                    raise InvalidValue("parameters", type(parameters).__name__, "an object")
                await (service.load_model if action == "load" else service.unload_model)(model, parameters)
                return 200, [b"{}"], (_JSON,)
            case ["v2", "systemsharedmemory" | "cudasharedmemory", *_]:
                raise _Refused(501, inference.NO_SHARED_MEMORY)
        raise NotFound(f"there is nothing at {scope['path'][:200]}", "/v2/openapi.json lists what there is")

    async def _object(self, headers: Mapping[bytes, bytes], receive: Receive) -> dict[str, Any]:
        """A body that is a JSON object, or nothing, which stands for an empty one."""
        held = _Held(self)
        try:
            body = await self._body(headers, receive, held)
            found = inference.load_json(body) if body else {}
        finally:
            held.release()
        if not isinstance(found, dict):
            raise InvalidValue("(body)", type(found).__name__, "a JSON object")
        return found

    async def _body(self, headers: Mapping[bytes, bytes], receive: Receive, held: _Held) -> Body:
        """The whole body, decompressed."""
        stated = headers.get(b"content-length", b"0")
        if not stated.isdigit() or int(stated) > self._max_body:
            raise self._too_large()
        # Joining the pieces of a large body would hold up everybody else's requests. Its memory is not touched (as a
        # bytearray's would be) before something comes: a client may state much and send nothing.
        whole = np.empty(int(stated), np.uint8).data if int(stated) > _JOIN_BYTES else None
        chunks: list[bytes] = []
        more = True
        while more:
            try:
                async with asyncio.timeout(_BODY_PAUSE_S):
                    message = await receive()
            except TimeoutError:
                close = (b"connection", b"close")
                raise _Refused(408, f"no more of the body came for {_BODY_PAUSE_S:.0f} seconds", close) from None
            if message["type"] == "http.disconnect":
                raise _Gone
            chunk = message.get("body", b"")
            more = message.get("more_body", False)
            at = held.size
            held.add(len(chunk))
            if held.size > self._max_body:
                raise self._too_large()
            if whole is None:
                chunks.append(chunk)
            else:
                whole[at : held.size] = chunk
        body: Body = whole or (chunks[0] if len(chunks) == 1 else b"".join(chunks))
        encoding = headers.get(b"content-encoding", b"identity").strip().lower()
        if encoding in (b"identity", b""):
            return body
        if encoding not in (b"gzip", b"deflate"):
            words = f"a body may be encoded as gzip or deflate, not {encoding[:40].decode('latin-1')!r}"
            raise _Refused(415, words, (b"accept-encoding", b"gzip, deflate"))
        body = await asyncio.to_thread(_decompressed, body, encoding.decode(), self._max_body)
        if len(body) > self._max_body:
            raise self._too_large()
        held.add(len(body))
        return body

    def _too_large(self) -> _Refused:
        return _Refused(413, f"a body may have {self._max_body} bytes")

    def hold(self, size: int) -> None:
        """Count bytes of bodies. Raises Overloaded."""
        if self._held + size > self._max_held:
            raise Overloaded(f"bodies of {self._max_held} bytes are being held already", "send fewer at a time")
        self._held += size

    def let_go(self, size: int) -> None:
        """Count them off."""
        self._held -= size


class _Held:
    """The part of the held bytes that one request's body takes."""

    def __init__(self, app: _OipApp) -> None:
        self._app, self.size = app, 0

    def add(self, size: int) -> None:
        self._app.hold(size)
        self.size += size

    def release(self) -> None:
        self._app.let_go(self.size)


_Answer = tuple[int, list[bytes | memoryview], tuple[tuple[bytes, bytes], ...]]


def _ok(value: Any) -> _Answer:
    return 200, [orjson.dumps(value, default=_plain)], (_JSON,)


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


def _probe(word: str, well: bool, **more: str) -> _Answer:
    """200 is yes and 4xx is no in the protocol; stock clients look at nothing else."""
    return (200 if well else 400), [orjson.dumps({**more, word: well})], (_JSON,)


def _error(message: str) -> bytes:
    return orjson.dumps({"error": message.encode("utf-8", "replace").decode()})


def _metadata(metadata: ModelMetadata) -> dict[str, Any]:
    def tensors(specs: tuple[TensorSpec, ...]) -> list[dict[str, Any]]:
        return [{"name": s.name, "datatype": s.datatype, "shape": s.shape} for s in specs]

    return {
        "name": metadata.name,
        "versions": metadata.versions,
        "platform": metadata.platform,
        "inputs": tensors(metadata.inputs),
        "outputs": tensors(metadata.outputs),
    }


def _model_and_version(parts: list[str]) -> tuple[str, str | None]:
    """From [model] or [model, "versions", version]."""
    if len(parts) == 1:
        return model_name(parts[0]), None
    if parts[1] != "versions":
        raise NotFound(f"there is nothing at {'/'.join(parts)[:200]}", "/v2/openapi.json lists what there is")
    if not parts[2]:
        raise InvalidValue("version", "", "a whole number")
    return model_name(parts[0]), version_name(parts[2])


def _method(scope: Scope, allowed: str) -> None:
    method = scope["method"]
    if method != allowed and not (method == "HEAD" and allowed == "GET"):
        raise _Refused(405, f"{method} is not possible here, {allowed} is", (b"allow", allowed.encode()))


def _own_site(headers: Mapping[bytes, bytes]) -> None:
    if b"origin" in headers:
        origin, host = headers[b"origin"].decode("latin-1"), headers.get(b"host", b"").decode("latin-1")
        if foreign_origin(origin, host) is not None:
            raise _Refused(403, f"a page of another site ({origin[:100]}) may not do this")


def _header_length(headers: Mapping[bytes, bytes]) -> int | None:
    given = headers.get(_LENGTH_HEADER)
    if given is None:
        return None
    if not given.isdigit() or len(given) > 18:
        raise InvalidValue("Inference-Header-Content-Length", given[:80].decode("latin-1"), "a number of bytes")
    return int(given)


def _decompressed(body: Body, encoding: str, limit: int) -> bytes:
    """At most `limit` + 1 bytes of what is in `body`. Raises InvalidValue (damaged, or cut off)."""
    # 47 takes gzip and zlib; clients disagree whether "deflate" has zlib's header or none.
    kinds = (47,) if encoding == "gzip" else (47, -15)
    for kind in kinds:
        machine = zlib.decompressobj(kind)
        try:
            out = machine.decompress(body, limit + 1)
        except zlib.error:
            continue
        if machine.eof or len(out) > limit:
            return out
    raise InvalidValue("(body)", f"{len(body)} bytes", f"a whole body in the encoding {encoding}")


async def _encoded(
    accept: bytes, pieces: list[bytes | memoryview], headers: tuple[tuple[bytes, bytes], ...]
) -> tuple[list[bytes | memoryview], tuple[tuple[bytes, bytes], ...]]:
    """The answer in an encoding that the client takes, if that is worth it."""
    encoding = _chosen(accept)
    size = sum(map(len, pieces))
    if encoding is None or size < _LEAST_COMPRESSED:
        return pieces, headers
    compress: Callable[[bytes], bytes] = _COMPRESS[encoding]
    body = b"".join(pieces)
    packed = await asyncio.to_thread(compress, body) if size > _THREAD_BYTES else compress(body)
    return [packed], (*headers, (b"content-encoding", encoding), (b"vary", b"accept-encoding"))


_COMPRESS: Final[Mapping[bytes, Callable[[bytes], bytes]]] = {
    b"gzip": lambda body: gzip.compress(body, 1, mtime=0),
    b"deflate": lambda body: zlib.compress(body, 1),
}


def _chosen(accept: bytes) -> bytes | None:
    """The one encoding that the client names. HTTP libraries name all that they know, for every user; that does not ask
    for one, and to compress tensors for it would cost more than the rest of the request.
    """
    named = []
    for item in accept.lower().split(b","):
        name, _, quality = item.partition(b";")
        if name.strip() != b"identity" and quality.replace(b" ", b"").rstrip(b".0") != b"q=":
            named.append(name.strip())
    return named[0] if len(named) == 1 and named[0] in _COMPRESS else None

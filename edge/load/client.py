"""The protocol as the load tool speaks it: a server's metadata of its models, and requests by HTTP."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from types import TracebackType
from typing import Any
from urllib.parse import quote

import aiohttp
from yarl import URL

from edge.core.errors import InvalidValue, NotFound, Unavailable
from edge.core.fields import mapping, required, sequence
from edge.core.oip import TensorSpec
from edge.load.report import RequestOutcome
from edge.load.tensors import Body

#: Status -> outcome; any other status but success is a failure.
_OUTCOMES = {504: RequestOutcome.DROPPED, 429: RequestOutcome.REJECTED}
#: How another server of the protocol (Triton) says the same with a general status.
_DROPPED = re.compile(rb"request timeout expired", re.IGNORECASE)
_REJECTED = re.compile(rb"exceeds maximum queue size", re.IGNORECASE)


class Client:
    """Connections to one server; an `async with` block. Errors: Unavailable (cannot be reached), NotFound, InvalidValue
    (it does not speak the protocol)."""

    def __init__(self, url: str, give_up_s: float, token: str = "") -> None:
        self.url = url
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._timeout = aiohttp.ClientTimeout(total=give_up_s)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Client:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60),
            timeout=self._timeout,
            headers=self._headers,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        """The open session."""
        assert self._session is not None, "Client is used as an async with block"
        return self._session

    async def server(self) -> str:
        """Its name and version. Raises Unavailable, InvalidValue."""
        value = await self._get("/v2")
        return f"{value.get('name', '?')} {value.get('version', '')}".strip()

    async def inputs(self, model: str, version: str | None) -> tuple[tuple[TensorSpec, ...], tuple[str, ...]]:
        """The model's inputs, and the names of its outputs. Raises NotFound, Unavailable, InvalidValue."""
        value = await self._get(_model_path(model, version))
        specs = []
        for n, tensor in enumerate(sequence(required(value, "inputs", "metadata"), "metadata.inputs")):
            at = f"metadata.inputs[{n}]"
            tensor = mapping(tensor, at)
            shape = [int(size) for size in sequence(required(tensor, "shape", at), f"{at}.shape")]
            specs.append(TensorSpec(str(required(tensor, "name", at)), str(tensor.get("datatype")), tuple(shape)))
        outputs = sequence(value.get("outputs") or [], "metadata.outputs")
        return tuple(specs), tuple(str(mapping(o, "metadata.outputs").get("name")) for o in outputs)

    async def slo_ms(self, model: str, version: str | None) -> float | None:
        """The model's own objective, where the server's configuration of it has the parameter `slo_ms`."""
        try:
            value = await self._get(f"{_model_path(model, version)}/config")
            return float(value["parameters"]["slo_ms"]["string_value"])
        except (NotFound, Unavailable, InvalidValue, KeyError, TypeError, ValueError):
            return None

    async def ready(self, model: str, version: str | None) -> bool:
        """The model can be asked now. Raises Unavailable."""
        return (await self._request("GET", f"{_model_path(model, version)}/ready"))[0] == 200

    def infer_url(self, model: str, version: str | None) -> URL:
        """Where the model is asked."""
        return URL(f"{self.url}{_model_path(model, version)}/infer", encoded=True)

    async def infer(self, url: URL, body: Body) -> tuple[RequestOutcome, str]:
        """One request: how it ended, and the server's words if not well. Raises nothing of the network's."""
        headers = {
            "Content-Type": "application/octet-stream",
            "Inference-Header-Content-Length": str(body.header_length),
        }
        try:
            async with self.session.post(url, data=body.data, headers=headers) as response:
                content = await response.read()
                if response.status == 200:
                    return RequestOutcome.ANSWERED, ""
                return _outcome(response.status, content), f"{response.status}: {_words(content)}"
        except TimeoutError:
            return RequestOutcome.GAVE_UP, f"no answer within {self._timeout.total:g} s"
        except (aiohttp.ClientError, OSError) as error:
            return RequestOutcome.FAILED, _reason(error)

    async def check(self, url: URL, body: Body, outputs: tuple[str, ...]) -> None:
        """Ask once and look at the answer whole. Raises InvalidValue if the model refuses the request as such, or if
        the answer is not the protocol's."""
        headers = {"Inference-Header-Content-Length": str(body.header_length)}
        status, answer, content = await self._request("POST", url.raw_path, body.data, headers)
        if status in (400, 404, 413, 415, 422):
            raise InvalidValue(url.raw_path, f"{status}: {_words(content)}", "a request that the model takes")
        if status != 200:
            return  # too busy now, or too slow: that is what the run is to find out
        try:
            length = answer.get("Inference-Header-Content-Length")
            value = json.loads(content[: int(length)] if length else content)
            given = {o["name"] for o in value["outputs"]}
        except (ValueError, KeyError, TypeError) as error:
            raise InvalidValue(url.raw_path, content[:60], "an answer of the Open Inference Protocol v2") from error
        missing = set(outputs) - given
        if missing:
            raise InvalidValue(url.raw_path, sorted(given), f"an answer with the outputs {', '.join(sorted(missing))}")

    async def connect(self, count: int) -> None:
        """Open some connections beforehand, so that the first requests do not pay for it."""
        await asyncio.gather(*(self._request("GET", "/v2/health/live") for _ in range(count)))

    async def _get(self, path: str) -> Mapping[str, Any]:
        status, _, content = await self._request("GET", path)
        if status in (400, 404):
            raise NotFound(f"{self.url}{path}: {_words(content)}")
        if status != 200:
            raise Unavailable(f"{self.url}{path}: answered {status}: {_words(content)}")
        try:
            value = json.loads(content)
        except ValueError:
            value = None
        if not isinstance(value, Mapping):
            raise InvalidValue(f"{self.url}{path}", content[:60], "a server of the Open Inference Protocol v2")
        return value

    async def _request(
        self, method: str, path: str, data: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Mapping[str, str], bytes]:
        try:
            url = URL(f"{self.url}{path}", encoded=True)
            async with self.session.request(method, url, data=data, headers=headers) as response:
                return response.status, response.headers, await response.read()
        except TimeoutError as error:
            raise Unavailable(f"{self.url}: no answer within {self._timeout.total:g} s") from error
        except (aiohttp.ClientError, OSError) as error:
            raise Unavailable(f"{self.url}: cannot be reached: {_reason(error)}") from error


def _model_path(model: str, version: str | None) -> str:
    path = f"/v2/models/{quote(model, safe='')}"
    return path if version is None else f"{path}/versions/{quote(version, safe='')}"


def _outcome(status: int, content: bytes) -> RequestOutcome:
    if status in _OUTCOMES:
        return _OUTCOMES[status]
    if _DROPPED.search(content[:2000]):
        return RequestOutcome.DROPPED
    return RequestOutcome.REJECTED if _REJECTED.search(content[:2000]) else RequestOutcome.FAILED


def _words(content: bytes) -> str:
    """The error's text, in one short line."""
    try:
        value = json.loads(content)
        text = str(value["error"]) if isinstance(value, Mapping) and "error" in value else content.decode()
    except (ValueError, RecursionError):
        text = content[:300].decode("utf-8", "replace")
    return " ".join(text.split())[:300]


def _reason(error: BaseException) -> str:
    return str(error) or type(error).__name__

"""HTTP to one device: no other host, no redirect, no long answer, nothing packed."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Collection
from typing import Final

import httpx

from edge.core.discovery import DeviceFault
from edge.discovery.addresses import same_host

ANSWER_BYTES: Final = 256 * 1024


class Stopped(httpx.TransportError):
    """An exchange with a device was ended here, because of `fault`."""

    def __init__(self, fault: DeviceFault) -> None:
        super().__init__(fault)
        self.fault: DeviceFault = fault


class OneDevice(httpx.AsyncBaseTransport):
    """Sends to `hosts` alone. A device's certificate is not checked: nearly all of them made their own."""

    def __init__(self, hosts: Collection[str]) -> None:
        unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        self._inner = httpx.AsyncHTTPTransport(verify=unchecked, trust_env=False)
        self._hosts = hosts

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not same_host(request.url.host, self._hosts):
            raise Stopped("elsewhere")
        request.headers["accept-encoding"] = "identity"
        response = await self._inner.handle_async_request(request)
        fault = _fault_of(response)
        if fault is not None:
            await response.aclose()
            raise Stopped(fault)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Bounded(response.stream)
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def _fault_of(response: httpx.Response) -> DeviceFault | None:
    if 300 <= response.status_code < 400:
        return "redirected"
    # A packed answer may become a thousand times as long.
    return None if response.headers.get("content-encoding", "identity") == "identity" else "unreadable"


class _Bounded(httpx.AsyncByteStream):
    def __init__(self, inner: httpx.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        read = 0
        async for part in self._inner:
            read += len(part)
            if read > ANSWER_BYTES:
                raise Stopped("too_large")
            yield part

    async def aclose(self) -> None:
        await self._inner.aclose()

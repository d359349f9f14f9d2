"""HTTP to one device: no other host, no redirect, no long answer, nothing packed; refusals in one form."""

from __future__ import annotations

import ssl
from typing import Final

import httpx

from edge.core.discovery import DeviceFault
from edge.discovery.addresses import Host, same_host
from edge.discovery.xml import refuses

ANSWER_BYTES: Final = 256 * 1024
#: Of a name with many addresses so many are tried.
_MOST_TRIED: Final = 2
#: A refusal as the library knows it, which looks for the code's own word in the fault's text.
_REFUSAL: Final = (
    b'<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body><s:Fault><s:Code>'
    b"<s:Value>s:Sender</s:Value><s:Subcode><s:Value>NotAuthorized</s:Value></s:Subcode></s:Code>"
    b"<s:Reason><s:Text>NotAuthorized</s:Text></s:Reason></s:Fault></s:Body></s:Envelope>"
)


class Stopped(httpx.TransportError):
    """An exchange with a device was ended here, because of `fault`."""

    def __init__(self, fault: DeviceFault) -> None:
        super().__init__(fault)
        self.fault: DeviceFault = fault


class OneDevice(httpx.AsyncBaseTransport):
    """Sends to `host` alone, at the addresses that its name had when it was looked up: a name that leads elsewhere
    later is not followed. A device's certificate is not checked: nearly all of them made their own."""

    def __init__(self, host: Host) -> None:
        unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        self._inner = httpx.AsyncHTTPTransport(verify=unchecked, trust_env=False)
        self._host = host
        self._addresses = list(host.addresses[:_MOST_TRIED])

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if not same_host(request.url.host, self._host.known):
            raise Stopped("elsewhere")
        response = await self._sent(request)
        fault = _fault_of(response)
        if fault is not None:
            await response.aclose()
            raise Stopped(fault)
        body = await _read(response)
        # A refusal by HTTP keeps its header, which says how to log in.
        if response.status_code != 401 and refuses(response.status_code, body):
            return httpx.Response(400, headers={"content-type": "application/soap+xml"}, content=_REFUSAL)
        kept = [(n, v) for n, v in response.headers.multi_items() if n.lower() in ("content-type", "www-authenticate")]
        return httpx.Response(response.status_code, headers=kept, content=body)

    async def aclose(self) -> None:
        await self._inner.aclose()

    async def _sent(self, request: httpx.Request) -> httpx.Response:
        """The answer of the first address that takes the connection; the others are then asked no more."""
        if not same_host(request.url.host, {self._host.name}):
            return await self._answer(request)
        failed: httpx.TransportError | None = None
        for address in list(self._addresses):
            try:
                response = await self._answer(_at(request, address))
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                failed = error
            else:
                self._addresses = [address]
                return response
        raise failed or Stopped("unknown_name")

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        request.headers["accept-encoding"] = "identity"
        try:
            return await self._inner.handle_async_request(request)
        except httpx.ConnectError as error:
            if _of_tls(error):
                raise Stopped("tls") from error
            raise


def _at(request: httpx.Request, address: str) -> httpx.Request:
    """The same request, sent to an address of its host, with the host's name in its header and in TLS."""
    extensions = request.extensions
    if request.url.scheme == "https" and request.url.host != address:
        extensions = {**extensions, "sni_hostname": request.url.raw_host.decode("ascii")}
    url = request.url.copy_with(host=address)
    return httpx.Request(request.method, url, headers=request.headers, stream=request.stream, extensions=extensions)


def _of_tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _fault_of(response: httpx.Response) -> DeviceFault | None:
    if 300 <= response.status_code < 400:
        return "redirected"
    # A packed answer may become a thousand times as long.
    return None if response.headers.get("content-encoding", "identity") == "identity" else "unreadable"


async def _read(response: httpx.Response) -> bytes:
    assert isinstance(response.stream, httpx.AsyncByteStream)
    body, stream = bytearray(), response.stream
    try:
        async for part in stream:
            body += part
            if len(body) > ANSWER_BYTES:
                raise Stopped("too_large")
    finally:
        await stream.aclose()
    return bytes(body)

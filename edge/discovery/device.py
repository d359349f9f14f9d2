"""One ONVIF device: its name and the streams that it offers, asked with onveef."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import httpx
from onveef import AsyncOnvifClient, OnvifCredentials, OnvifEndpoint, OnvifError, envelopes, parsers
from onveef.exceptions import OnvifAuthError, OnvifTimeoutError, OnvifTransportError

from edge.core.discovery import DeviceFault, FoundDevice, MediaProfile
from edge.core.secrecy import without_credentials
from edge.discovery.addresses import host_of, names_of, same_host, shown, without_user
from edge.discovery.transport import ANSWER_BYTES, OneDevice, Stopped
from edge.discovery.xml import fault_of, words

_WEB: Final = ("http", "https")
_RTSP: Final = ("rtsp", "rtsps")
_MOST_PROFILES: Final = 32
_LONGEST_URL, _LONGEST_TOKEN = 1000, 200
_LARGEST_SIDE, _FASTEST, _MOST_KBPS = 32_768, 1000, 10_000_000
#: Names of codecs that devices use for one and the same.
_CODECS: Final = {"h.264": "h264", "avc": "h264", "h.265": "h265", "hevc": "h265", "mjpeg": "jpeg"}


@dataclass(frozen=True)
class DeviceOrder:
    """A device to ask: the address of its service, how it is logged in to, what its answer to the search said."""

    service: str
    username: str = ""
    password: str = field(default="", repr=False)
    name: str = ""
    hardware: str = ""


class _Fault(Exception):
    """The device cannot be asked further."""

    def __init__(self, fault: DeviceFault, elsewhere: str = "") -> None:
        super().__init__(fault)
        self.fault: DeviceFault = fault
        self.elsewhere = elsewhere


async def ask(order: DeviceOrder, device_s: float, answer_s: float) -> FoundDevice:
    """The device's profiles, within `device_s` seconds in all and `answer_s` for each answer. Raises nothing for a bad
    device: its `fault` says what is wrong."""
    found = FoundDevice(shown(order.service), order.name, order.hardware)
    try:
        async with asyncio.timeout(device_s):
            return await _Conversation(order, found, answer_s).all()
    except _Fault as error:
        return replace(found, fault=error.fault, elsewhere=error.elsewhere)
    except TimeoutError:
        return replace(found, fault="silent")
    except OnvifError as error:
        return replace(found, fault=_fault(error))
    except (httpx.HTTPError, httpx.InvalidURL, ArithmeticError, LookupError, ValueError, TypeError, AttributeError):
        # The library's parsers trust a device in part: a number without end, for example, is an OverflowError.
        return replace(found, fault="unreadable")


def _fault(error: OnvifError) -> DeviceFault:
    cause = error.__cause__
    # Once refused the library asks for the device's clock, and then for the same again.
    if isinstance(error, OnvifAuthError) or isinstance(error.__context__, OnvifAuthError):
        return "refused"
    if isinstance(error, OnvifTimeoutError):
        return "unreachable" if isinstance(cause, httpx.ConnectTimeout) else "silent"
    if isinstance(cause, Stopped):
        return cause.fault
    return "unreachable" if isinstance(cause, httpx.ConnectError) else "unreadable"


class _Conversation:
    """One conversation with a device."""

    def __init__(self, order: DeviceOrder, found: FoundDevice, answer_s: float) -> None:
        self._order, self._found, self._answer_s = order, found, answer_s

    async def all(self) -> FoundDevice:
        """Raises _Fault, OnvifError, and what the library's parsers do not expect."""
        self._hosts = await names_of(host_of(self._order.service, _WEB))
        endpoint = OnvifEndpoint(self._order.service)
        self._client = AsyncOnvifClient(
            endpoint=endpoint, credentials=OnvifCredentials(self._order.username, self._order.password),
            timeout_s=self._answer_s, rewrite_host=False, http_auth="digest", retries=0,
            max_response_bytes=ANSWER_BYTES, transport=OneDevice(self._hosts),
        )  # fmt: skip
        async with self._client:
            services = await self._services()
            media = [key for key in ("media2", "media") if services.get(key)]
            if not media:
                raise _Fault("no_profiles")
            for key in media:
                host = host_of(services[key], _WEB)
                if not same_host(host, self._hosts):
                    raise _Fault("elsewhere", words(host))
            self._client.set_endpoint(OnvifEndpoint(self._order.service, {key: services[key] for key in media}))
            await self._name()
            return await self._profiles(media)

    async def _call(self, service: str, operation: str, body: str, login: bool = True) -> str:
        xml = await self._client.call(
            service=service, operation=operation, body_inner=body, require_auth=None if login else False
        )
        fault = fault_of(xml)
        if fault is not None:
            raise _Fault(fault)
        return xml

    async def _services(self) -> Mapping[str, str]:
        try:
            body = envelopes.device_get_services(include_capability=False)
            found = parsers.parse_services(await self._call("device", "GetServices", body, login=False))
        except OnvifError as error:
            if isinstance(error, (OnvifAuthError, OnvifTransportError)):
                raise
            found = {}
        if found:
            return found
        # Devices of the first years know this only.
        body = envelopes.device_get_capabilities()
        return parsers.parse_capabilities(await self._call("device", "GetCapabilities", body, login=False))

    async def _name(self) -> None:
        """A device that does not give its name has one all the same."""
        try:
            xml = await self._call("device", "GetDeviceInformation", envelopes.device_get_information())
        except OnvifAuthError:
            raise
        except OnvifError as error:
            if isinstance(error, OnvifTransportError):
                raise
            return
        told = parsers.parse_device_information(xml)
        model = words(f"{told.get('Manufacturer', '')} {told.get('Model', '')}")
        self._found = replace(self._found, name=self._found.name or model, hardware=model or self._found.hardware)

    async def _profiles(self, media: list[str]) -> FoundDevice:
        """Of the newer service, which knows H.265, or else of the older one."""
        for key in media:
            newer = key == "media2"
            try:
                xml = await self._call(key, "GetProfiles", envelopes.media_get_profiles(use_media2=newer))
            except OnvifError as error:
                if key == media[-1] or isinstance(error, (OnvifAuthError, OnvifTransportError)):
                    raise
                continue
            listed = parsers.parse_profiles(xml)
            read = [p for p in map(_profile, listed[:_MOST_PROFILES]) if p is not None]
            if read or (listed and key == media[-1]):
                with_urls = tuple([await self._with_url(key, p) for p in read])
                fault: DeviceFault | None = None if read else "no_profiles"
                lost = len(listed) - len(read)
                return replace(self._found, profiles=with_urls, profiles_lost=lost, fault=fault)
        raise _Fault("no_profiles")

    async def _with_url(self, service: str, profile: MediaProfile) -> MediaProfile:
        if not profile.codec:
            return profile
        body = envelopes.media_get_stream_uri(profile_token=profile.token, use_media2=service == "media2")
        try:
            url = parsers.parse_stream_uri(await self._call(service, "GetStreamUri", body))
        except OnvifError as error:
            if isinstance(error, (OnvifAuthError, OnvifTransportError)):
                raise
            return replace(profile, address_fault="no_address")
        host, url = host_of(url, _RTSP), without_user(url)
        if not host or len(url) > _LONGEST_URL or words(url, _LONGEST_URL) != url:
            return replace(profile, address_fault="no_address")
        if not same_host(host, self._hosts):
            return replace(profile, address_fault="elsewhere")
        if without_credentials(url) != url:
            return replace(profile, address_fault="password_in_address")
        return replace(profile, url=url)


def _profile(told: Mapping[str, Any]) -> MediaProfile | None:
    """None: nothing can be asked of it, or its numbers are none that a camera has."""
    token, name = str(told["token"]), words(told["name"])
    if not token or len(token) > _LONGEST_TOKEN or words(token, _LONGEST_TOKEN) != token:
        return None
    encoder = told.get("video_encoder")
    if encoder is None:
        return MediaProfile(token, name)
    codec = words(encoder["encoding"], 20).lower()
    numbers = [encoder.get(key) or 0 for key in ("width", "height", "fps_limit", "bitrate_kbps")]
    most = (_LARGEST_SIDE, _LARGEST_SIDE, _FASTEST, _MOST_KBPS)
    if any(not 0 <= value <= limit for value, limit in zip(numbers, most, strict=True)):
        return None
    width, height, fps, kbps = numbers
    return MediaProfile(token, name, _CODECS.get(codec, codec), width, height, float(fps), kbps)

"""One ONVIF device: its name and the streams that it offers, asked with onveef."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar
from xml.etree.ElementTree import Element, tostring

import httpx
from onveef import AsyncOnvifClient, OnvifCredentials, OnvifEndpoint, OnvifError, envelopes, parsers
from onveef.exceptions import OnvifAuthError, OnvifTimeoutError

from edge.core.discovery import AddressFault, DeviceFault, FoundDevice, MediaProfile
from edge.core.secrecy import without_credentials
from edge.discovery.addresses import host_of, looked_up, same_host, shown, without_user
from edge.discovery.transport import ANSWER_BYTES, OneDevice, Stopped
from edge.discovery.xml import fault_of, words

log = logging.getLogger(__name__)

T = TypeVar("T")
_WEB: Final = ("http", "https")
_RTSP: Final = ("rtsp", "rtsps")
_MOST_PROFILES: Final = 32
#: Streams of a device that are asked for their addresses at the same time.
_SIDE_BY_SIDE: Final = 4
#: After so many refusals and no address a device is asked for no more.
_REFUSED_ENOUGH: Final = 2
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
    """The device cannot be asked further, or not for this."""

    def __init__(self, fault: DeviceFault, elsewhere: str = "") -> None:
        super().__init__(fault)
        self.fault: DeviceFault = fault
        self.elsewhere = elsewhere


async def ask(order: DeviceOrder, device_s: float, answer_s: float) -> FoundDevice:
    """The device's profiles, within `device_s` seconds in all and `answer_s` for each answer. Raises nothing for a bad
    device: its `fault` says what is wrong; profiles that came before are kept."""
    conversation = _Conversation(order, answer_s)
    found = await _within(conversation, device_s)
    if conversation.surprises:
        # The text of an error may hold a device's words.
        log.warning("%s: answers that cannot be read: %s", found.address, ", ".join(sorted(conversation.surprises)))
    return found


async def _within(conversation: _Conversation, device_s: float) -> FoundDevice:
    fault: DeviceFault
    elsewhere = ""
    try:
        async with asyncio.timeout(device_s):
            await conversation.whole()
        return conversation.found
    except _Fault as error:
        fault, elsewhere = error.fault, error.elsewhere
    except TimeoutError:
        fault = "silent"
    except Exception as error:  # no device may end the search of the others
        conversation.surprises.add(type(error).__name__)
        fault = "unreadable"
    found = conversation.found
    return found if found.profiles else replace(found, fault=fault, elsewhere=elsewhere)


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
    """One conversation with a device. `found`: all that is known of it until now; `surprises`: types of errors that no
    device should cause. The library trusts a device in part."""

    def __init__(self, order: DeviceOrder, answer_s: float) -> None:
        self._order, self._answer_s = order, answer_s
        self.found = FoundDevice(shown(order.service), order.name, order.hardware)
        self.surprises: set[str] = set()
        self._refused = 0

    async def whole(self) -> None:
        """Raises _Fault, and what the library does not expect."""
        self._host = await looked_up(host_of(self._order.service, _WEB))
        if not self._host.addresses:
            raise _Fault("unknown_name")
        self._client = AsyncOnvifClient(
            endpoint=OnvifEndpoint(self._order.service),
            credentials=OnvifCredentials(self._order.username, self._order.password),
            timeout_s=self._answer_s, rewrite_host=False, http_auth="digest", retries=0,
            max_response_bytes=ANSWER_BYTES, transport=OneDevice(self._host),
        )  # fmt: skip
        async with self._client:
            services = await self._services()
            media = [key for key in ("media2", "media") if services.get(key)]
            if not media:
                raise _Fault("no_profiles")
            for key in media:
                host = host_of(services[key], _WEB)
                if not same_host(host, self._host.known):
                    raise _Fault("elsewhere", words(host))
            self._client.set_endpoint(OnvifEndpoint(self._order.service, {key: services[key] for key in media}))
            # The profiles first: a wrong password is then refused once or twice, not for each question.
            key, profiles, lost = await self._profiles(media)
            self.found = replace(self.found, profiles=profiles, profiles_lost=lost)
            await self._name()
            await self._ask_addresses(key)

    async def _asked(self, service: str, operation: str, body: str, read: Callable[[str], T], login: bool = True) -> T:
        """An answer as `read` understands it. Raises _Fault."""
        fault: DeviceFault | None
        try:
            xml = await self._client.call(
                service=service, operation=operation, body_inner=body, require_auth=None if login else False
            )
            fault = fault_of(xml)
            if fault is None:
                return read(xml)
        except OnvifError as error:
            fault = _fault(error)
        except Exception as error:
            self.surprises.add(type(error).__name__)
            fault = "unreadable"
        raise _Fault(fault)

    async def _services(self) -> Mapping[str, str]:
        try:
            body = envelopes.device_get_services(include_capability=False)
            found = await self._asked("device", "GetServices", body, parsers.parse_services, login=False)
        except _Fault as error:
            if error.fault != "unreadable":
                raise
            found = {}
        if found:
            return found
        # Devices of the first years know this only.
        body = envelopes.device_get_capabilities()
        return await self._asked("device", "GetCapabilities", body, parsers.parse_capabilities, login=False)

    async def _profiles(self, media: list[str]) -> tuple[str, tuple[MediaProfile, ...], int]:
        """The service that offers them, the profiles, and how many were lost: of the newer service, which knows H.265,
        or else of the older one."""
        lost = 0
        for key in media:
            body = envelopes.media_get_profiles(use_media2=key == "media2")
            try:
                read, lost = await self._asked(key, "GetProfiles", body, _read_profiles)
            except _Fault as error:
                if key == media[-1] or error.fault not in ("unreadable", "too_large"):
                    raise
                continue
            if read:
                return key, read, lost
        self.found = replace(self.found, profiles_lost=lost)
        raise _Fault("no_profiles")

    async def _name(self) -> None:
        """A device that does not give its name has one all the same."""
        body = envelopes.device_get_information()
        try:
            fields = await self._asked("device", "GetDeviceInformation", body, parsers.parse_device_information)
        except _Fault as error:
            self._refused += error.fault == "refused"
            return
        model = words(f"{fields.get('Manufacturer', '')} {fields.get('Model', '')}")
        self.found = replace(self.found, name=self.found.name or model, hardware=model or self.found.hardware)

    async def _ask_addresses(self, service: str) -> None:
        """The address of each stream. One alone until one was not refused: some devices lock a user out after a few
        refusals."""
        wanted = [n for n, p in enumerate(self.found.profiles) if p.codec]
        while wanted and self._refused < _REFUSED_ENOUGH:
            fault = await self._ask_address(service, wanted.pop(0))
            if fault != "refused":
                break
            self._refused += 1
        if self._refused >= _REFUSED_ENOUGH:
            for number in wanted:
                self._keep(number, replace(self.found.profiles[number], address_fault="refused"))
            return
        turn = asyncio.Semaphore(_SIDE_BY_SIDE)

        async def one(number: int) -> None:
            async with turn:
                await self._ask_address(service, number)

        async with asyncio.TaskGroup() as group:
            for number in wanted:
                group.create_task(one(number))

    async def _ask_address(self, service: str, number: int) -> AddressFault | None:
        profile = self.found.profiles[number]
        body = envelopes.media_get_stream_uri(profile_token=profile.token, use_media2=service == "media2")
        try:
            url = await self._asked(service, "GetStreamUri", body, parsers.parse_stream_uri)
        except _Fault as error:
            fault: AddressFault = error.fault if error.fault in ("refused", "silent") else "no_address"
            profile = replace(profile, address_fault=fault)
        else:
            profile = self._with_url(profile, url)
        self._keep(number, profile)
        return profile.address_fault

    def _with_url(self, profile: MediaProfile, address: str) -> MediaProfile:
        host, url = host_of(address, _RTSP), without_user(address)
        if not host or len(url) > _LONGEST_URL or words(url, _LONGEST_URL) != url:
            return replace(profile, address_fault="no_address")
        if not same_host(host, self._host.known):
            return replace(profile, address_fault="elsewhere")
        if without_credentials(url) != url:
            return replace(profile, address_fault="password_in_address")
        return replace(profile, url=url, address_fault=None)

    def _keep(self, number: int, profile: MediaProfile) -> None:
        kept = list(self.found.profiles)
        kept[number] = profile
        self.found = replace(self.found, profiles=tuple(kept))


def _read_profiles(xml: str) -> tuple[tuple[MediaProfile, ...], int]:
    """The profiles, each read alone, and how many were lost. Until its address comes a stream's is `silent`."""
    root = parsers.parse_xml(xml)
    listed = [] if root is None else parsers.find_all_local(root, "Profiles")
    read = [p for p in map(_alone, listed[:_MOST_PROFILES]) if p is not None]
    return tuple(read), len(listed) - len(read)


def _alone(element: Element) -> MediaProfile | None:
    try:
        profile = _profile(parsers.parse_profiles(tostring(element, "unicode"))[0])
    except Exception:  # a number without end, for example
        return None
    return replace(profile, address_fault="silent") if profile is not None and profile.codec else profile


def _profile(fields: Mapping[str, Any]) -> MediaProfile | None:
    """None: nothing can be asked of it, or its numbers are none that a camera has."""
    token, name = str(fields["token"]), words(fields["name"])
    if not token or len(token) > _LONGEST_TOKEN or words(token, _LONGEST_TOKEN) != token:
        return None
    encoder = fields.get("video_encoder")
    if encoder is None:
        return MediaProfile(token, name)
    codec = words(encoder["encoding"], 20).lower()
    numbers = [encoder.get(key) or 0 for key in ("width", "height", "fps_limit", "bitrate_kbps")]
    most = (_LARGEST_SIDE, _LARGEST_SIDE, _FASTEST, _MOST_KBPS)
    if any(not 0 <= value <= limit for value, limit in zip(numbers, most, strict=True)):
        return None
    width, height, fps, kbps = numbers
    return MediaProfile(token, name, _CODECS.get(codec, codec), width, height, float(fps), kbps)

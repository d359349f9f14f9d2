"""Cameras that answer a search of the network, and the streams that they offer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

#: Why nothing more is known of a device: nothing answers there; its name leads nowhere; its TLS cannot be used; no
#: answer in time; the time of the search was over before it was asked; user name or password wanted or not accepted;
#: its answers name another host, which is not asked; it sends elsewhere (HTTP 3xx), which is not followed; an answer is
#: too long or too deep; an answer is none of ONVIF; it has no profile that can be read.
DeviceFault = Literal[
    "unreachable", "unknown_name", "tls", "silent", "not_asked", "refused", "elsewhere", "redirected", "too_large",
    "unreadable", "no_profiles",
]  # fmt: skip
#: Why a profile's stream cannot be opened: the device gives no RTSP address for it, one of another host, or one with a
#: password in it; it wants another login for the address; the address did not come in time.
AddressFault = Literal["no_address", "elsewhere", "password_in_address", "refused", "silent"]
#: The choice's word on a profile. `proposed` meets the need at the least cost; `nearest` is proposed because none
#: meets it; `dearer` meets it at a higher cost. All others name why it cannot be chosen.
Verdict = Literal[
    "proposed", "nearest", "dearer", "no_encoder", "no_size", "codec", "too_small", "too_slow",
    "no_address", "elsewhere", "password_in_address", "refused", "silent",
]  # fmt: skip
PROPOSALS: tuple[Verdict, ...] = ("proposed", "nearest")
#: Whose input a stream is wanted for: that of the student in the camera's own settings, of the site's student, or the
#: usual one of our own architectures, because the student's could not be read or says nothing of the picture.
NeedSource = Literal["camera", "site", "usual"]


@dataclass(frozen=True)
class MediaProfile:
    """A stream that a device offers. `codec` "h264", "h265" or the device's own word in small letters, "" where the
    profile has no encoder; `width`, `height` in pixels; `fps` and `bitrate_kbps` at most; 0: not said. `url` has no
    credentials in it, "" where `address_fault` says why."""

    token: str
    name: str
    codec: str = ""
    width: int = 0
    height: int = 0
    fps: float = 0.0
    bitrate_kbps: int = 0
    url: str = ""
    address_fault: AddressFault | None = None


@dataclass(frozen=True)
class FoundDevice:
    """A device that answered, or was asked by its address. `address`: its host, with the port where it is not the usual
    one and the path where it is not the usual one; `name`, `hardware` in its own words; `elsewhere`: the other host
    that it names, where that is its fault; `profiles_lost`: profiles beyond the limit, or that could not be read."""

    address: str
    name: str = ""
    hardware: str = ""
    fault: DeviceFault | None = None
    elsewhere: str = ""
    profiles: tuple[MediaProfile, ...] = ()
    profiles_lost: int = 0


@dataclass(frozen=True)
class SearchLosses:
    """Answers to a search that are not among its devices: `outside` came from an address that is not of the network
    asked, `unreadable` are no answers to a search, `over` are beyond the limits."""

    outside: int = 0
    unreadable: int = 0
    over: int = 0


@dataclass(frozen=True)
class SearchOrder:
    """A search: by multicast in the networks of this machine, or in `network` (10.0.0.0/24) only; or, where `addresses`
    are given (host, host:port or http://host:port/path), of these devices alone. With a `username` each device is asked
    with it; the password is sent as a digest, never as it is."""

    addresses: tuple[str, ...] = ()
    network: str = ""
    username: str = ""
    password: str = field(default="", repr=False)


@dataclass(frozen=True)
class SearchResult:
    """Devices by address."""

    devices: tuple[FoundDevice, ...]
    losses: SearchLosses = SearchLosses()


@dataclass(frozen=True)
class StreamNeed:
    """A stream is good enough whose picture is not enlarged to fill the input of a student, at `fps` pictures a second
    or more. The input has `width` x `height` pixels if it is `fixed`; otherwise it has the proportions of the picture,
    at no more pixels than these."""

    width: int
    height: int
    fps: float
    fixed: bool = True

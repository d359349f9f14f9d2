"""Cameras that a search of the network found."""

from __future__ import annotations

from edge.appliance.answers.marks import answer
from edge.core.discovery import DeviceFault, Verdict


@answer
class FoundStream:
    """A stream that a device offers. `codec` "": it has no encoder; `width`, `height` in pixels; `fps` and
    `bitrate_kbps` at most, 0 where the device does not say; `url` without credentials, "" where there is none that can
    be used. `verdict`: whether it is proposed for a camera, or why not."""

    token: str
    name: str
    codec: str
    width: int
    height: int
    fps: float
    bitrate_kbps: int
    url: str
    verdict: Verdict


@answer
class FoundCamera:
    """A device that answered. `fault` says why nothing is known of its streams; `elsewhere`: the other host that it
    names, which was not asked; `streams_lost`: streams beyond the limit, or that could not be read."""

    address: str
    name: str
    hardware: str
    fault: DeviceFault | None
    elsewhere: str
    streams: tuple[FoundStream, ...]
    streams_lost: int


@answer
class NeedAnswer:
    """The picture that is wanted: it need not be enlarged to fill `width` x `height` pixels, `fps` times a second."""

    width: int
    height: int
    fps: float


@answer
class FoundCameras:
    """Devices by address. Of the answers that are not among them `outside` came from another network than asked,
    `unreadable` could not be read, `over` are beyond the limits."""

    cameras: tuple[FoundCamera, ...]
    need: NeedAnswer
    outside: int
    unreadable: int
    over: int

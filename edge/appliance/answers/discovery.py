"""Cameras that a search of the network found."""

from __future__ import annotations

from edge.appliance.answers.marks import answer
from edge.core.discovery import DeviceFault, NeedSource, Verdict


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
    """The picture that is wanted, `fps` times a second: it need not be enlarged to fill an input of `width` x `height`
    pixels; not `fixed`: an input of its own proportions, at no more pixels. `source`: whose input it is: the student's
    in the camera's settings, the site's student's, or the usual one of our own architectures; `student` is the
    published detector, "" for an own architecture; `unread` says why one that was named could not be read."""

    width: int
    height: int
    fps: float
    fixed: bool
    source: NeedSource
    student: str
    unread: str


@answer
class FoundCameras:
    """Devices by address. Of the answers that are not among them `outside` came from another network than asked,
    `unreadable` could not be read, `over` are beyond the limits."""

    cameras: tuple[FoundCamera, ...]
    need: NeedAnswer
    outside: int
    unreadable: int
    over: int

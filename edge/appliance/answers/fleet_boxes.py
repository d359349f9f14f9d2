"""The boxes of a fleet as each reports itself: its version, the shares of its device, its lending."""

from __future__ import annotations

from typing import Literal

from edge.appliance.answers.fleet import FleetLendingAnswer
from edge.appliance.answers.marks import OfCamera, Shown, answer
from edge.core.shares import Enforcement, ShareKind

#: Of the device. front: of served models; control: the appliance itself; lent: work for another box.
DevicePart = Literal["inference", "retraining", "golden", "profiling", "lent", "serving", "front", "control"]


@answer
class DeviceShareAnswer:
    """The share (0-1) of a box's device that a part of it has. `camera` null: of no camera, or of all cameras together
    that the user may not see."""

    part: Shown[DevicePart]
    camera: OfCamera[str | None]
    share: Shown[float]


@answer
class BoxNowAnswer:
    """A box as it reports itself. `units`: cores or SMs of its `device`, of which `shares` are parts; they are kept as
    `kind` and `enforced` say. `ready`: it does its work (`/readyz`)."""

    version: Shown[str]
    uptime_s: Shown[float]
    ready: Shown[bool]
    device: Shown[str]
    units: Shown[float]
    kind: Shown[ShareKind]
    enforced: Shown[Enforcement]
    shares: Shown[tuple[DeviceShareAnswer, ...]]
    lending: Shown[FleetLendingAnswer]

"""How this box is, for the fleet's list of boxes: its version, the shares of its device, its lending."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from edge.appliance.answers.fleet import FleetLendingAnswer
from edge.appliance.answers.fleet_boxes import BoxNowAnswer, DevicePart, DeviceShareAnswer
from edge.appliance.answers.limit import limited
from edge.appliance.answers.state import BoxHealth, Overview
from edge.core.access import Principal


def box_now(overview: Overview, health: BoxHealth, lending: FleetLendingAnswer) -> BoxNowAnswer:
    """All of it."""
    device = overview.device
    return BoxNowAnswer(
        version=health.version, uptime_s=health.uptime_s, ready=health.ready, device=device.device,
        units=device.units, kind=device.kind, enforced=device.enforced, shares=tuple(_shares(overview)),
        lending=lending,
    )  # fmt: skip


def seen_now(now: BoxNowAnswer | None, who: Principal) -> BoxNowAnswer | None:
    """The part of it that a user may see: shares of cameras that are not theirs are one share of each part."""
    if now is None:
        return None
    shares = [share for share in now.shares if who.may_see(share.camera)]
    unseen: dict[DevicePart, float] = {}
    for share in now.shares:
        if not who.may_see(share.camera):
            unseen[share.part] = unseen.get(share.part, 0.0) + share.share
    shares += [DeviceShareAnswer(part=part, camera=None, share=sum_) for part, sum_ in unseen.items()]
    seen = replace(now, shares=tuple(shares))
    return seen if who.sees_all else limited(seen, who.may_see, who.may_see_tenant)


def _shares(overview: Overview) -> Iterable[DeviceShareAnswer]:
    for camera, of in overview.shares.items():
        yield DeviceShareAnswer(part="inference", camera=camera, share=of.inference)
        yield DeviceShareAnswer(part="retraining", camera=camera, share=of.retraining)
    serving = overview.serving
    share = None if serving is None else serving.share
    rest: tuple[tuple[DevicePart, float], ...] = (
        ("golden", overview.golden_share),
        ("profiling", overview.profiling_share),
        ("lent", overview.lent_share),
        ("serving", 0.0 if share is None else share.reserved),
        ("front", 0.0 if serving is None else serving.front_share),
        ("control", overview.control_share),
    )
    for part, amount in rest:
        yield DeviceShareAnswer(part=part, camera=None, share=amount)

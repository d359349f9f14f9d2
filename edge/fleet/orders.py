"""Orders of operators and boxes that ask to be let in, as the head carries them out: an agreement becomes the next."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from edge.core.errors import Conflict, Forbidden, InvalidValue, NotFound
from edge.core.fleet import BoxStatus
from edge.core.fleet_links import (
    MOST_HOURS,
    FleetAgreement,
    FleetCamera,
    FleetMember,
    FleetOrder,
    JoinAsk,
    OrderAnswer,
)
from edge.fleet.folder import FleetFolder
from edge.fleet.joining import invite
from scheduler.fleet.ownership import moved, with_members

_BOX_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_ADDRESS: Final = re.compile(r"https://[A-Za-z0-9.\[\]:-]{1,280}:\d{1,5}")


def new_member(agreement: FleetAgreement, asked: JoinAsk, serial: str) -> FleetMember:
    """The box that asks to be let in. Raises InvalidValue, Conflict for a name that is taken."""
    check_newcomer(agreement, asked)
    ranks = [m.rank for m in agreement.members if m.rank is not None]
    return FleetMember(
        asked.name, asked.address, max(ranks, default=-1) + 1 if asked.decides else None, serial, asked.zones
    )


def check_newcomer(agreement: FleetAgreement, asked: JoinAsk) -> None:
    """Before a certificate is made. Raises InvalidValue, Conflict."""
    if not _BOX_NAME.fullmatch(asked.name):
        raise InvalidValue("name", asked.name, "small letters, digits and -, at most 63")
    if not _ADDRESS.fullmatch(asked.address):
        raise InvalidValue("address", asked.address, "https://HOST:PORT")
    if agreement.member(asked.name) is not None:
        raise Conflict(f"a box {asked.name} is in the fleet already", "choose another fleet.name, or revoke that box")
    taken = next((m.name for m in agreement.members if m.address == asked.address), None)
    if taken is not None:
        raise Conflict(f"{taken} has the address {asked.address} already", "set fleet.address")


def check_sender(agreement: FleetAgreement, order: FleetOrder, sender: str, head: str) -> None:
    """Whether the head takes the order from this box. Raises InvalidValue, Forbidden, Conflict."""
    if order.kind == "leave" and order.box != sender:
        raise Forbidden(f"{sender} cannot leave for {order.box}", "revoke puts another box out")
    if order.kind == "revoke" and order.box == head:
        raise Conflict(f"{head} is the head and cannot put itself out", "stop it, and give the order to the next")
    member = agreement.member(sender)
    if order.kind == "revoke" and (member is None or member.rank is None):
        raise Forbidden(f"{sender} may not put boxes out: it never decides", "give the order on another box")
    if order.kind == "invite" and (member is None or member.rank is None):
        raise Forbidden(f"{sender} may not let boxes in: it never decides", "give the order on another box")
    if order.kind == "invite" and not 0 < order.hours <= MOST_HOURS:
        raise InvalidValue("hours", order.hours, f"a number above 0 to {MOST_HOURS:g}")


def invited(folder: FleetFolder, agreement: FleetAgreement, order: FleetOrder, head: str) -> OrderAnswer:
    """A join code of the head. Raises Conflict, StoreError."""
    code, member = invite(folder, order.hours), agreement.member(head)
    address = "" if member is None else member.address
    return OrderAnswer("invite", head, code=code.reveal(), address=address, hours=order.hours)


def camera_to_move(agreement: FleetAgreement, order: FleetOrder, boxes: dict[str, BoxStatus]) -> FleetCamera:
    """The camera of a move that may be tried. Raises NotFound, Conflict."""
    camera, box = agreement.camera(order.camera), known_box(agreement, order.box)
    if camera is None:
        raise NotFound(f"camera {order.camera} is not in the fleet")
    if camera.owner == box.name:
        raise Conflict(f"{box.name} has the camera {camera.id} already")
    if not camera.answered:
        raise Conflict(f"camera {camera.id} is on its way to {camera.owner}", "try again when it is there")
    if boxes.get(box.name) != "open":
        raise Conflict(f"{box.name} does not answer now")
    if box.drained:
        raise Conflict(f"{box.name} is drained: it takes no cameras", f"magpie fleet undrain {box.name}")
    if camera.zone and camera.zone not in box.zones:
        raise Conflict(f"{box.name} does not reach the zone {camera.zone} of camera {camera.id}")
    return camera


def known_box(agreement: FleetAgreement, name: str) -> FleetMember:
    """A member. Raises NotFound."""
    found = agreement.member(name)
    if found is None:
        raise NotFound(f"box {name} is not in the fleet: {', '.join(agreement.voters())}")
    return found


def carried_out(agreement: FleetAgreement, order: FleetOrder, term: int) -> FleetAgreement:
    """The agreement after an order that is allowed. Raises NotFound, Conflict."""
    if order.kind == "move":
        camera = agreement.camera(order.camera)
        if camera is None:
            raise NotFound(f"camera {order.camera} is not in the fleet")
        return moved(agreement, camera, order.box, term)
    box = known_box(agreement, order.box)
    if order.kind in ("drain", "undrain"):
        drained = order.kind == "drain"
        members = tuple(replace(m, drained=drained) if m.name == box.name else m for m in agreement.members)
        return with_members(agreement, members, term)
    left = tuple(m for m in agreement.members if m.name != box.name)
    if not any(m.rank is not None for m in left):
        raise Conflict(f"{box.name} is the last box that may decide", "let another one join first")
    return with_members(agreement, left, term, box.serial if order.kind == "revoke" else "")

"""A box founds a fleet, makes join codes, and joins a fleet, before there is an agent."""

from __future__ import annotations

import time

from edge.core.errors import Conflict, MagpieError
from edge.core.fleet_links import AgreementVersion, FleetAgreement, FleetMember, JoinAnswer, JoinAsk
from edge.fleet.codes import JoinCode, new_code
from edge.fleet.folder import FleetFolder
from edge.fleet.identity import authority_of, fingerprint, joining_context, new_authority, new_key, request_for
from edge.fleet.links import PREFIX, answer_of, session
from edge.fleet.memory import StoredElection
from edge.fleet.wire import decoded
from edge.settings import FleetSettings

_JOIN_S = 20.0


def found_fleet(folder: FleetFolder, fleet: str, settings: FleetSettings, machine: str) -> None:
    """This box founds a fleet and is its first member. Raises Conflict, StoreError."""
    _not_joined(folder)
    authority, key = new_authority(fleet), new_key()
    certificate, serial = authority.sign(request_for(key, settings.name), settings.name)
    address = settings.reached_at(machine)
    member = FleetMember(settings.name, address, 0, serial, settings.zones)
    folder.write("agreement.json", FleetAgreement(AgreementVersion(0, 1), (member,)))
    folder.take_identity(authority.certificate, authority.key, certificate, key)


def invite(folder: FleetFolder, hours: float) -> JoinCode:
    """A join code of this box, to be used once. Raises Conflict on a box that may not let others in."""
    authority = authority_of(folder)
    if not folder.joined or authority is None:
        raise Conflict("this box lets no others into a fleet", "make the code on the head (magpie fleet status)")
    return new_code(folder, fingerprint(authority.certificate), time.time(), hours)


async def join_fleet(folder: FleetFolder, head: str, code: JoinCode, settings: FleetSettings, machine: str) -> str:
    """Join the fleet whose head is at `head`; returns the name of the box that let this one in. Raises Conflict (also
    for an authority that the code is not of), Forbidden, Unavailable, StoreError."""
    _not_joined(folder)
    async with session(joining_context(None)) as unknown:
        raw = await answer_of(unknown, f"{head}{PREFIX}/authority", None, None, _JOIN_S)
    authority = raw.decode("ascii", "replace")
    if not code.proves(fingerprint(authority)):
        raise Conflict(f"{head} is not of the fleet that the join code is of", "check the address and the code")
    key = new_key()
    asked = JoinAsk(
        code.secret, settings.name, settings.reached_at(machine), request_for(key, settings.name),
        settings.role != "member", settings.zones,
    )  # fmt: skip
    async with session(joining_context(authority)) as client:
        answer = decoded(JoinAnswer, await answer_of(client, f"{head}{PREFIX}/join", asked, None, _JOIN_S))
    if fingerprint(answer.authority) != fingerprint(authority):
        raise MagpieError(f"{head} answered with another authority than it has")
    folder.write("agreement.json", answer.agreement)
    folder.write("election.json", StoredElection(answer.term, None, answer.head))
    folder.take_identity(answer.authority, answer.authority_key, answer.certificate, key)
    return answer.head


def _not_joined(folder: FleetFolder) -> None:
    if folder.joined:
        raise Conflict(f"this box is in a fleet already ({folder.path})", "magpie fleet leave takes it out")

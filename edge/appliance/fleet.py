"""The fleet as the agent beside this appliance reports it; strangers that it refused raise an alarm."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol

from edge.appliance.answers.fleet import (
    CameraOverlapAnswer,
    FleetAnswer,
    FleetBoxAnswer,
    FleetCameraAnswer,
    FleetLendingAnswer,
)
from edge.appliance.answers.fleet_wide import FleetOrderAnswer
from edge.core.alarms import Fact, StrangersNow
from edge.core.clock import Clock
from edge.core.errors import NotFound, StoreError
from edge.core.fleet_links import FleetOrder, FleetOrderKind, FleetStatus, RefusedBy
from edge.fleet.folder import FleetFolder
from edge.fleet.own_agent import OwnAgent
from edge.settings import SiteSettings

#: A status that is older is of an agent that does not run.
FRESH_S: Final = 10.0
_LOOK_S: Final = 5.0
#: A stranger is shown for so long after it came last.
LATELY_S: Final = 600.0
#: A box that is no member yet, or no longer, and a port scan are no attack.
ATTACKS: Final[Mapping[RefusedBy, str]] = {
    "stranger": "a certificate of another authority",
    "no_key": "no certificate",
    "revoked": "the certificate of a box that was put out",
    "wrong_box": "a message that speaks for another box",
    "bad_code": "an unknown join code",
    "used_code": "a join code that was used already",
    "too_many": "too many connections without a certificate",
}


class FleetService(Protocol):
    """Part of `edge.appliance.service.ApplianceService`."""

    def fleet(self) -> FleetAnswer:
        """The fleet as this box knows it. Blocks. Raises StoreError."""

    async def order(self, order: FleetOrder, by: str) -> FleetOrderAnswer:
        """Give the fleet an order; it is recorded here and on the head. Raises InvalidValue, NotFound, Conflict,
        Forbidden, Unavailable (no head is known, or the agent does not run), StoreError."""

    def record(self, order: FleetOrder, given_on: str) -> None:
        """Record an order that was carried out, which the box `given_on` sent or a command gave."""


#: Records a change that is kept elsewhere: its subject, the change, by whom, its value.
RecordChange = Callable[[str, str, str, dict[str, Any]], None]


class Fleet:
    """Implements `FleetService`. `fact` takes what alarm rules look at; `lending` gives what is lent and borrowed.
    `agent` None: the site file has no section `fleet`."""

    def __init__(
        self,
        site: SiteSettings,
        clock: Clock,
        fact: Callable[[Fact], None],
        lending: Callable[[], FleetLendingAnswer],
        agent: OwnAgent | None,
        record: RecordChange,
    ) -> None:
        self._lending, self._agent, self._record = lending, agent, record
        self._settings, self._clock, self._fact = site.fleet, clock, fact
        self._folder = FleetFolder(Path(site.data_dir))
        self._seen: dict[RefusedBy, int] = {}
        self._lately: list[tuple[float, RefusedBy, int]] = []

    def fleet(self) -> FleetAnswer:
        """Raises StoreError."""
        if self._settings is None:
            return answer_of("", False, None, self._clock.utc(), self._lending())
        now = self._clock.utc()
        return answer_of(self._settings.name, self._folder.joined, self.status(), now, self._lending())

    def status(self) -> FleetStatus | None:
        """The fleet as the agent reported it last; None: there is none. Blocks. Raises StoreError."""
        if self._settings is None or not self._folder.joined:
            return None
        return self._folder.read("status.json", FleetStatus)

    # -- orders

    async def order(self, order: FleetOrder, by: str) -> FleetOrderAnswer:
        """Give the fleet an order; it is recorded here and on the head. Raises InvalidValue, NotFound, Conflict,
        Forbidden, Unavailable, StoreError."""
        if self._agent is None or self._settings is None:
            raise NotFound("this box is in no fleet: the site file has no section fleet")
        mine = self._settings.name
        if order.kind == "invite":
            order = replace(order, box=mine)
        answer = await self._agent.order(replace(order, by=str(by)))
        self._record(*_change(order), by, _value(order, mine))
        invited = order.kind == "invite"
        return FleetOrderAnswer(
            kind=answer.kind, box=answer.box, cameras=answer.cameras, code=answer.code if invited else None,
            address=answer.address if invited else None, hours=answer.hours if invited else None,
        )  # fmt: skip

    def record(self, order: FleetOrder, given_on: str) -> None:
        """Record an order that was carried out, which the box `given_on` sent or a command gave."""
        by = order.by or "magpie fleet"
        here = self._settings is not None and given_on == self._settings.name
        self._record(*_change(order), by if here else f"{by} on {given_on}", _value(order, given_on))

    # -- strangers

    async def run(self) -> None:
        """Look from time to time for refused strangers, until cancelled."""
        while self._settings is not None:
            await asyncio.sleep(_LOOK_S)
            try:
                status = await asyncio.to_thread(self._folder.read, "status.json", FleetStatus)
            except StoreError:
                continue  # its agent logs that
            self.look(status)

    def look(self, status: FleetStatus | None) -> None:
        """Count the strangers of the last minutes."""
        counts, now_s = {} if status is None else dict(status.refused), self._clock.monotonic()
        for why in ATTACKS:
            # An agent that began anew counts from 0.
            before = self._seen.get(why, 0) if counts.get(why, 0) >= self._seen.get(why, 0) else 0
            if new := counts.get(why, 0) - before:
                self._lately.append((now_s, why, new))
        self._seen = counts
        self._lately = [one for one in self._lately if now_s - one[0] < LATELY_S]
        kinds = dict.fromkeys(ATTACKS[why] for _, why, _ in self._lately)
        self._fact(StrangersNow(sum(count for *_, count in self._lately), ", ".join(kinds)))


_DONE: Final[Mapping[FleetOrderKind, str]] = {
    "move": "camera moved", "drain": "drained", "undrain": "undrained", "leave": "left", "revoke": "put out",
    "invite": "join code made",
}  # fmt: skip


def _change(order: FleetOrder) -> tuple[str, str]:
    return f"fleet/{order.box}", _DONE[order.kind]


def _value(order: FleetOrder, given_on: str) -> dict[str, Any]:
    more: dict[str, Any] = {"camera": order.camera} if order.camera else {}
    return {"given_on": given_on} | more


def answer_of(
    me: str, joined: bool, status: FleetStatus | None, now_utc_s: float, lending: FleetLendingAnswer
) -> FleetAnswer:
    """The answer; `status` None: the agent reported nothing yet."""
    if status is None:
        return FleetAnswer(
            joined=joined, agent=False, me=me, reported_utc_s=None, head=None, mandate=None, boxes=(), cameras=(),
            overlaps=(), refused={}, lending=lending,
        )  # fmt: skip
    agreement = status.agreement
    owned = [c.owner for c in agreement.cameras]
    boxes = tuple(
        FleetBoxAnswer(
            name=m.name, address=m.address, status=status.boxes.get(m.name), head=m.name == status.head,
            decides=m.rank is not None, drained=m.drained, zones=m.zones, cameras=owned.count(m.name),
            other_version=m.name in status.other_version,
        )
        for m in agreement.members
    )  # fmt: skip
    cannot = {r.id: r.why for r in status.cannot}
    cameras = tuple(
        FleetCameraAnswer(
            camera=c.id, owner=c.owner, previous=c.previous, answered=c.answered, zone=c.zone,
            unplaced=status.unplaced.get(c.id), waiting=status.waiting.get(c.id), cannot=cannot.get(c.id, ""),
        )
        for c in agreement.cameras
    )  # fmt: skip
    overlaps = tuple(
        CameraOverlapAnswer(camera=o.camera, start_utc_s=o.start_utc_s, end_utc_s=o.end_utc_s) for o in status.overlaps
    )
    return FleetAnswer(
        joined=joined, agent=abs(now_utc_s - status.utc_s) <= FRESH_S, me=status.me, reported_utc_s=status.utc_s,
        head=status.head, mandate=status.mandate, boxes=boxes, cameras=cameras, overlaps=overlaps,
        refused=dict(status.refused), lending=lending,
    )  # fmt: skip

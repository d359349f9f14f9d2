"""The fleet as the appliance shows it, and the strangers that it refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from edge.appliance.answers.fleet import BoxGroupsAnswer, FleetLendingAnswer
from edge.appliance.fleet import FRESH_S, LATELY_S, Fleet
from edge.core.alarms import Fact, StrangersNow
from edge.core.clock import ManualClock
from edge.core.errors import NotFound
from edge.core.fleet_links import (
    CameraEpoch,
    CameraOverlap,
    CameraRefusal,
    FleetAgreement,
    FleetCamera,
    FleetMember,
    FleetOrder,
    FleetStatus,
    OrderAnswer,
)
from edge.fleet.folder import FleetFolder
from edge.fleet.own_agent import OwnAgent
from edge.settings import SiteSettings, parse

ONE, TWO = CameraEpoch(1, 1), CameraEpoch(2, 1)


def status_at(utc_s: float, **refused: int) -> FleetStatus:
    members = (FleetMember("b1", "https://b1:8470", 0), FleetMember("b2", "https://b2:8470", drained=True))
    cameras = (FleetCamera("north", "b1", ONE, None, True), FleetCamera("south", "b2", ONE, "b1", False))
    return FleetStatus(
        "b1", utc_s, 3, "b1", True, True, FleetAgreement(members=members, cameras=cameras),
        {"b1": "open", "b2": "silent"}, {"south": "full"}, refused,  # type: ignore[arg-type]
        (CameraRefusal("south", ONE, "no such secret"),), (CameraOverlap("north", ONE, TWO, utc_s - 60, utc_s),),
        {"north": "full"},
    )  # fmt: skip


def nothing_lent() -> FleetLendingAnswer:
    return FleetLendingAnswer(
        lend=False, borrow=False, most_share=0.5, offered_share=0.0, here=(), there=(), lent=0, borrowed=0,
        lent_profiles=0, borrowed_profiles=0, lent_labels=0, borrowed_labels=0, lent_device_s=0.0,
        borrowed_device_s=0.0, failures={}, groups=no_groups(),
    )  # fmt: skip


def no_groups() -> BoxGroupsAnswer:
    return BoxGroupsAnswer(share=False, boxes=(), cameras=(), trained=0, taken=0, refused=0, failures={})


Box = tuple[Fleet, FleetFolder, ManualClock, list[Fact]]


@pytest.fixture
def box(tmp_path: Path) -> Box:
    clock, facts = ManualClock(), list[Fact]()
    site = parse(SiteSettings, {"data_dir": str(tmp_path), "fleet": {"name": "b1", "token": "env:FLEET_TOKEN"}})
    fleet = Fleet(site, clock, facts.append, nothing_lent, None, lambda *_: None)
    return fleet, FleetFolder(tmp_path), clock, facts


def test_a_box_shows_its_fleet_as_the_agent_reported_it(box: Box) -> None:
    fleet, folder, clock, _ = box
    assert not fleet.fleet().joined
    folder.take_identity("authority", "", "certificate", "key")
    assert (fleet.fleet().joined, fleet.fleet().agent) == (True, False), "its agent reported nothing yet"
    folder.write_status(status_at(clock.utc()))
    found = fleet.fleet()
    assert [(b.name, b.status, b.head, b.decides, b.drained, b.cameras) for b in found.boxes] == [
        ("b1", "open", True, True, False, 1), ("b2", "silent", False, False, True, 1),
    ]  # fmt: skip
    north, south = found.cameras
    assert (north.unplaced, north.waiting) == (None, "full")
    assert (south.owner, south.previous, south.answered, south.unplaced) == ("b2", "b1", False, "full")
    assert south.cannot == "no such secret"
    assert [o.camera for o in found.overlaps] == ["north"]
    assert found.agent
    clock.advance(FRESH_S + 1.0)
    assert not fleet.fleet().agent


def test_a_site_without_a_fleet_answers_that_it_has_none(tmp_path: Path) -> None:
    site = parse(SiteSettings, {"data_dir": str(tmp_path)})
    fleet = Fleet(site, ManualClock(), lambda *_: None, nothing_lent, None, lambda *_: None)
    assert (fleet.fleet().joined, fleet.fleet().me) == (False, "")


async def test_orders_are_recorded_with_the_user_and_the_box_where_they_were_given(tmp_path: Path) -> None:
    class Agent:
        """Knows b2 only."""

        async def order(self, order: FleetOrder) -> OrderAnswer:
            if order.box == "b9":
                raise NotFound("box b9 is not in the fleet")
            return OrderAnswer(order.kind, "b1", code="code", address="https://b1:8470", hours=order.hours)

    records: list[tuple[str, str, str, dict[str, Any]]] = []
    site = parse(SiteSettings, {"data_dir": str(tmp_path), "fleet": {"name": "b1", "token": "env:FLEET_TOKEN"}})
    fleet = Fleet(
        site, ManualClock(), lambda *_: None, nothing_lent, cast(OwnAgent, Agent()), lambda *r: records.append(r)
    )
    assert (await fleet.order(FleetOrder("drain", "b2"), "ann")).code is None
    assert (await fleet.order(FleetOrder("invite", ""), "ann")).code == "code"
    with pytest.raises(NotFound):
        await fleet.order(FleetOrder("drain", "b9"), "ann")
    fleet.record(FleetOrder("move", "b2", "gate", by="eve"), "b3")
    fleet.record(FleetOrder("undrain", "b2"), "b1")
    assert records == [
        ("fleet/b2", "drained", "ann", {"given_on": "b1"}),
        ("fleet/b1", "join code made", "ann", {"given_on": "b1"}),
        ("fleet/b2", "camera moved", "eve on b3", {"given_on": "b3", "camera": "gate"}),
        ("fleet/b2", "undrained", "magpie fleet", {"given_on": "b1"}),
    ]


def test_strangers_of_the_last_minutes_are_counted_and_port_scans_are_not(box: Box) -> None:
    fleet, _, clock, facts = box

    def seen(status: FleetStatus | None) -> Fact:
        fleet.look(status)
        return facts[-1]

    assert seen(None) == StrangersNow(0)
    assert seen(status_at(0.0, no_tls=9, no_member=1)) == StrangersNow(0)
    both = "a certificate of another authority, a join code that was used already"
    for _ in range(2):
        assert seen(status_at(0.0, stranger=1, used_code=2)) == StrangersNow(3, both)
    clock.advance(LATELY_S - 1.0)
    assert seen(status_at(0.0, stranger=2, used_code=2)) == StrangersNow(4, both)
    clock.advance(1.0)
    assert seen(status_at(0.0, stranger=2, used_code=2)) == StrangersNow(1, "a certificate of another authority")
    assert seen(status_at(0.0, stranger=1)) == StrangersNow(2, "a certificate of another authority"), "it began anew"

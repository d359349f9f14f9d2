"""A box of a real fleet of agents is upgraded; its appliance is a stand-in that begins anew."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal

import pytest
from fleet_agents_kit import FleetOfAgents, until

from edge.core.clock import SystemClock
from edge.core.errors import Conflict, InvalidValue
from edge.core.fleet_links import FleetStatus
from edge.fleet.appliance_client import ApplianceClient
from edge.fleet.upgrading import Upgrade
from edge.ingest.secrets import Secret

COMMAND = ("upgrade", "it")
Run = Callable[[Sequence[str]], Awaitable[int]]


class Upgraded:
    """Upgrades of the box b2 of a fleet; `shown`: the lines that people see."""

    def __init__(self, fleet: FleetOfAgents, parts: AsyncExitStack) -> None:
        self.fleet, self.parts = fleet, parts
        self.shown: list[str] = []
        self.ran: list[tuple[str, ...]] = []

    async def upgrade(self, run: Run, patience_s: float = 30.0, expect: str = "") -> Upgrade:
        appliance = self.fleet.appliances["b2"]
        page = f"http://127.0.0.1:{appliance.port}/"
        client = await self.parts.enter_async_context(ApplianceClient(page, Secret("x")))

        async def give(kind: Literal["drain", "undrain"]) -> None:
            await self.fleet.order(kind, "b2")

        return Upgrade(
            "b2", self.fleet.folder("b2"), client, give, run, self.shown.append, SystemClock(), patience_s, expect, 0.05
        )

    async def restarts(self, command: Sequence[str]) -> int:
        """The operator's command: it installs version 2 and starts the appliance again."""
        self.ran.append(tuple(command))
        appliance = self.fleet.appliances["b2"]
        assert appliance.cameras == {}, "no camera is answered here now"
        appliance.version, appliance.started_utc_s = "2", appliance.started_utc_s + 60.0
        return 0

    def knows_that_b1_is_drained(self) -> bool:
        status = self.fleet.folder("b2").read("status.json", FleetStatus)
        return status is not None and any(m.drained for m in status.agreement.members)

    def drained(self, box: str) -> bool:
        member = self.fleet.status("b1").agreement.member(box)
        assert member is not None
        return member.drained


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[Upgraded]:
    async with FleetOfAgents(tmp_path) as fleet, AsyncExitStack() as parts:
        await fleet.found("b1")
        await fleet.join("b2", "b1")
        fleet.appliances["b2"].watch("gate")
        await until(lambda: fleet.owners("b1").get("gate") == "b2", "b2 answers its camera")
        await until(lambda: fleet.status("b2").boxes.get("b1") == "open", "b2 knows that b1 is there")
        yield Upgraded(fleet, parts)


async def test_a_box_is_drained_upgraded_and_takes_cameras_again(two: Upgraded) -> None:
    upgrade = await two.upgrade(two.restarts, expect="2")
    assert await upgrade.carry_out(COMMAND)
    assert two.ran == [COMMAND]
    assert two.fleet.owners("b1")["gate"] == "b1"
    assert not two.drained("b2")
    assert two.shown[-1] == "b2 is back: version 2"
    assert not (two.fleet.folder("b2").path / "upgrade.json").exists()
    with pytest.raises(InvalidValue, match="COMMAND"):
        await upgrade.carry_out(())


async def test_a_camera_that_cannot_leave_is_named_and_the_box_stays_as_it_was(two: Upgraded) -> None:
    two.fleet.appliances["b1"].full = True
    upgrade = await two.upgrade(two.restarts, patience_s=2.0)
    assert not await upgrade.carry_out(COMMAND)
    assert two.ran == []
    assert "given up: cameras on b2 still: gate (no other box admits it)" in two.shown
    await until(lambda: not two.drained("b2"), "it takes cameras again")


async def test_not_while_another_box_is_away(two: Upgraded) -> None:
    await two.fleet.order("drain", "b1", by="b2")
    await until(two.knows_that_b1_is_drained, "b2 knows it")
    upgrade = await two.upgrade(two.restarts)
    assert not await upgrade.carry_out(COMMAND)
    assert two.shown[-1] == "given up: another box is away: b1 is drained"
    assert two.ran == []
    assert not two.drained("b2")


async def test_one_that_was_cut_short_goes_on(two: Upgraded) -> None:
    async def dies(command: Sequence[str]) -> int:
        raise RuntimeError("the machine lost its power")

    upgrade = await two.upgrade(dies)
    with pytest.raises(RuntimeError, match="power"):
        await upgrade.carry_out(COMMAND)
    again = await two.upgrade(two.restarts)
    with pytest.raises(Conflict, match="was cut short \\(running\\)"):
        await again.carry_out(("another", "command"))
    assert await again.carry_out(())
    assert two.ran == [COMMAND]
    assert not two.drained("b2")


async def test_a_command_that_fails_gives_the_box_back(two: Upgraded) -> None:
    async def fails(command: Sequence[str]) -> int:
        return 3

    upgrade = await two.upgrade(fails)
    assert not await upgrade.carry_out(COMMAND)
    assert two.shown[-1] == "given up: the command ended with 3; b2 takes cameras again"
    assert not two.drained("b2")


async def test_a_box_that_does_not_come_back_as_wanted_stays_drained(two: Upgraded) -> None:
    upgrade = await two.upgrade(two.restarts, patience_s=2.0, expect="3")
    assert not await upgrade.carry_out(COMMAND)
    assert "given up: the appliance of b2 is of version 2, not 3" in two.shown
    assert two.drained("b2")
    again = await two.upgrade(two.restarts, expect="2")
    assert await again.carry_out(()), "an administrator looked, and takes it as it is"
    assert two.ran == [COMMAND]


async def test_two_upgrades_of_one_box_do_not_run_at_once(two: Upgraded) -> None:
    other = await two.upgrade(two.restarts)

    async def meanwhile(command: Sequence[str]) -> int:
        with pytest.raises(Conflict, match="runs already"):
            await other.carry_out(COMMAND)
        return await two.restarts(command)

    upgrade = await two.upgrade(meanwhile)
    assert await upgrade.carry_out(COMMAND)

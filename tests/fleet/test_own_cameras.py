"""A box's own cameras at its appliance: a box that dies between two steps knows its copies when it begins again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fleet_agents_kit import StandInAppliance, camera_settings, until

from edge.core.clock import ManualClock
from edge.core.fleet_links import AgreementVersion, CameraEpoch, FleetAgreement, FleetCamera, FleetMember
from edge.fleet.appliance_client import ApplianceClient
from edge.fleet.copies import StudentCopies
from edge.fleet.folder import FleetFolder
from edge.fleet.links import Links
from edge.fleet.own_cameras import OwnCameras, described, digest_of
from edge.ingest.secrets import Secret

FIRST, SECOND = CameraEpoch(1, 1), CameraEpoch(1, 2)
MEMBERS = tuple(FleetMember(b, f"https://{b}:8470", n, b) for n, b in enumerate(("b1", "b2")))


def agreed(owner: str, epoch: CameraEpoch, previous: str | None = None) -> FleetAgreement:
    """The camera gate is `owner`'s; until it answers, `previous` goes on."""
    settings = described(camera_settings("gate"))
    gate = FleetCamera("gate", owner, epoch, previous, previous is None, "", settings, digest_of(settings))
    return FleetAgreement(AgreementVersion(1, epoch.number), MEMBERS, (gate,))


class OneBox:
    """The box b2: its appliance goes on while its agent dies and begins again."""

    def __init__(self, folder: Path, appliance: StandInAppliance, client: ApplianceClient) -> None:
        self.appliance, self.folder, self.clock = appliance, FleetFolder(folder), ManualClock()
        self._client = client
        self._before = asyncio.all_tasks()
        self.agreement = FleetAgreement()
        self.own = self.begun()

    def begun(self) -> OwnCameras:
        """Its agent begins, with the files that are there."""
        links = Links(self.folder.path)
        copies = StudentCopies("b2", self.folder, self.folder.path, links, lambda: self.agreement)
        return OwnCameras("b2", self.folder, self._client, copies, self.clock, {})

    async def killed(self) -> None:
        """Its agent is killed, as by kill -9, and begins again."""
        dead = [t for t in asyncio.all_tasks() - self._before if "OwnCameras" in repr(t.get_coro())]
        for task in dead:
            task.cancel()
        await asyncio.gather(*dead, return_exceptions=True)
        self.own = self.begun()

    async def act(self, agreement: FleetAgreement) -> None:
        """One look, and the work of the agreement."""
        self.agreement = agreement
        await self.own.look()
        self.own.act(agreement, {})


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[OneBox]:
    appliance = StandInAppliance(tmp_path / "models")
    async with appliance, ApplianceClient(f"http://127.0.0.1:{appliance.port}/", Secret("token")) as client:
        yield OneBox(tmp_path, appliance, client)
        appliance.answers.set()


async def test_a_box_that_died_before_it_wrote_a_start_down_stops_that_copy_later(box: OneBox) -> None:
    box.appliance.answers.clear()  # the camera is added, and its agent never hears of it
    await box.act(agreed("b2", SECOND, "b1"))
    await until(lambda: "gate" in box.appliance.cameras, "it is started")
    await box.killed()
    box.appliance.answers.set()
    await box.act(agreed("b1", CameraEpoch(2, 1)))  # meanwhile it was given to another box
    await until(lambda: "gate" not in box.appliance.cameras, "the older copy stops")


async def test_a_box_that_died_before_the_start_starts_the_camera_and_tells_no_removal(box: OneBox) -> None:
    box.appliance.refuses_to_answer = True
    await box.act(agreed("b2", SECOND, "b1"))
    await until(lambda: box.appliance.asked, "it is asked")
    await box.killed()
    box.appliance.refuses_to_answer = False
    await box.act(agreed("b2", SECOND, "b1"))
    await until(lambda: "gate" in box.appliance.cameras, "it is started")
    await box.own.close()
    await box.act(agreed("b2", SECOND))
    assert box.own.gone == ()
    (row,) = box.own.report(box.agreement)
    assert row.epoch == SECOND


async def test_a_refused_start_leaves_a_camera_of_that_name_to_the_operator(box: OneBox) -> None:
    box.appliance.refuses.add("gate")
    await box.act(agreed("b2", SECOND, "b1"))
    await box.own.close()
    box.appliance.refuses.clear()
    box.appliance.watch("gate")
    await box.act(agreed("b1", CameraEpoch(2, 1)))
    await box.own.close()
    assert "gate" in box.appliance.cameras


async def test_a_camera_that_was_removed_without_a_head_stays_away_after_a_restart(box: OneBox) -> None:
    box.appliance.watch("gate")
    mine = agreed("b2", FIRST)
    await box.act(mine)
    del box.appliance.cameras["gate"]
    await box.act(mine)
    box.clock.advance(30.0)
    await box.act(mine)
    assert box.own.gone == (("gate", FIRST),)
    await box.killed()
    await box.act(mine)
    await box.own.close()
    assert "gate" not in box.appliance.cameras
    assert box.own.gone == (("gate", FIRST),)
    box.appliance.watch("gate")  # the operator wants it again
    await box.act(mine)
    assert box.own.gone == ()

"""The fleet's agent as a process: one that hangs is started again, one that shows life is not."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.waiting import until_async
from edge.commands.fleet_agent import AgentPatience, keep_running
from edge.core.fleet_links import FleetAgreement
from edge.core.retry_pace import RetryPace
from edge.fleet.folder import FleetFolder
from edge.fleet.joining import found_fleet
from edge.fleet.process import run_agent
from edge.settings import SiteSettings, parse

QUICK = AgentPatience(start_s=20.0, hang_s=0.5, look_s=0.05, pace=RetryPace(first_s=0.01, most_s=0.01))
#: The first run shows life once and hangs; the second one goes on.
SCRIPT = """
import os, sys, time
with open(sys.argv[1], "a") as log:
    log.write("started\\n")
first = open(sys.argv[1]).read().count("started") == 1
while True:
    os.write(1, b".")
    if first:
        time.sleep(3600)
    with open(sys.argv[1], "a") as log:
        log.write("beat\\n")
    time.sleep(0.02)
"""


async def test_an_agent_that_hangs_is_killed_and_started_again(tmp_path: Path) -> None:
    log = tmp_path / "log"
    task = asyncio.create_task(keep_running([sys.executable, "-c", SCRIPT, str(log)], QUICK))
    try:
        await until_async(lambda: log.exists() and log.read_text().count("beat") > 60, "the second run goes on")
        assert log.read_text().count("started") == 2
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_agent_that_cannot_be_started_just_now_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, start, refused = tmp_path / "log", asyncio.create_subprocess_exec, list[int]()

    async def without_memory(*command: str, **more: Any) -> Any:
        if len(refused) < 2:
            refused.append(1)
            raise OSError(12, "Cannot allocate memory")
        return await start(*command, **more)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", without_memory)
    task = asyncio.create_task(keep_running([sys.executable, "-c", SCRIPT, str(log)], QUICK))
    try:
        await until_async(log.exists, "it runs in the end")
        assert len(refused) == 2
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def of_b1(folder: Path) -> SiteSettings:
    """A site whose box is b1; no server answers at its appliance's port."""
    web = {"host": "127.0.0.1", "port": 1}
    fleet = {"name": "b1", "token": "env:HOME", "host": "127.0.0.1", "port": 1}
    return parse(SiteSettings, yaml.safe_load(yaml.safe_dump({"data_dir": str(folder), "web": web, "fleet": fleet})))


async def test_a_box_that_its_list_does_not_have_waits_and_one_that_was_leaving_has_left(tmp_path: Path) -> None:
    site, folder, lives = of_b1(tmp_path), FleetFolder(tmp_path), list[int]()
    assert site.fleet is not None
    agent = asyncio.create_task(run_agent(site, lambda: lives.append(1)))
    try:
        await until_async(lambda: lives, "it waits for a fleet, and lives")
        # It died between the head's answer (here: its own) and its end.
        found_fleet(folder, "yard", site.fleet, "machine")
        folder.write("agreement.json", FleetAgreement())
        folder.mark_leaving(True)
        await until_async(lambda: not folder.path.exists(), "it has left")
        assert not agent.done()
    finally:
        agent.cancel()
        await asyncio.gather(agent, return_exceptions=True)

    found_fleet(folder, "yard", site.fleet, "machine")
    folder.write("agreement.json", FleetAgreement())
    agent = asyncio.create_task(run_agent(site, lambda: lives.append(1)))
    try:
        lives.clear()
        await until_async(lambda: len(lives) > 1, "it waits for an operator, and lives")
        assert folder.joined
        assert not agent.done()
    finally:
        agent.cancel()
        await asyncio.gather(agent, return_exceptions=True)

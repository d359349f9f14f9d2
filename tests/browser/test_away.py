"""An appliance that goes away and comes back under an open page."""

from __future__ import annotations

import asyncio

import pytest
from crossroads import Crossroads
from visits import Visits

from benchmarks.dashboard_box import live, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480), pytest.mark.asyncio(loop_scope="session")]


async def test_the_page_says_that_it_is_old_and_recovers(visits: Visits, crossroads: Crossroads) -> None:
    visit = await visits.open(crossroads.operator)
    await visit.settled("Cameras")
    page = visit.page
    await page.wait_for_selector("canvas[data-painted='1']")
    box = crossroads.box
    await asyncio.to_thread(box.stop)
    banner = page.get_by_text("The appliance does not answer")
    await banner.wait_for()
    await page.get_by_role("heading", level=1, name="Cameras").wait_for()
    await asyncio.to_thread(box.start)
    await banner.wait_for(state="hidden")
    await asyncio.to_thread(until, lambda: live(crossroads.admin), "cameras answer again")
    await page.wait_for_function("() => document.querySelectorAll(\"canvas[data-painted='1']\").length === 2")
    await visit.settled("Cameras")
    assert all(
        "ERR_CONNECTION" in c or "Failed to load" in c or "WebSocket" in c or "50" in c for c in visit.complaints
    )

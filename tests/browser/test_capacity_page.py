"""The page Capacity in a real browser, against the double of the appliance: a forecast is asked for and shown."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "web"))

from appliance_double import DictAppliance
from visits import LOOKS, Visit

from web.app import create_app
from web.server import WebServer

pytest.importorskip("playwright.async_api")

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480), pytest.mark.asyncio(loop_scope="session")]


async def test_a_forecast_is_asked_for_and_shown_with_what_came_of_earlier_ones(browser: Any, axe: str) -> None:
    box = DictAppliance(utc_s=time.time())
    server = WebServer(create_app(box), "127.0.0.1", 0)
    await server.start()
    width, scheme = LOOKS[1]
    page = await browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    visit = Visit(page, f"http://127.0.0.1:{server.port}")
    try:
        await page.goto(f"{visit.url}/#/windows")
        await page.get_by_role("link", name="What would another camera").click()
        await visit.settled("Capacity")
        await page.get_by_text("2 of 2 accuracies came inside their interval").wait_for()
        await page.get_by_label("Change").select_option("camera")
        await page.get_by_label("Like").select_option("south")
        await page.get_by_role("button", name="Forecast", exact=True).press("Enter")
        # The page asks again at once; by itself it would only after 30 s.
        await page.get_by_role("heading", name="one more camera like south").wait_for(timeout=20_000)
        await page.get_by_text("not made, or not measured yet").wait_for()
        assert [f.change.camera for f in box.windows.capacity.made] == [None, "south"]
        assert await visit.too_wide() == []
        assert await visit.violations(axe) == []
        box.windows.capacity.windows = 1
        await page.reload()
        await page.get_by_text("needs 3 closed windows in a row").wait_for()
        assert await page.get_by_role("button", name="Forecast", exact=True).is_disabled()
        assert visit.complaints == []
    finally:
        await page.close()
        await server.stop()

"""The page in a real browser, against a real server. Skipped where no Chromium or no built page is there."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from appliance_double import DictAppliance

from web.app import STATIC, create_app
from web.bodies import POLICIES
from web.server import WebServer

playwright = pytest.importorskip("playwright.async_api")
WAIT_MS = 60_000
pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def browser() -> AsyncIterator[Any]:
    chromium = os.environ.get("MAGPIE_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no Chromium is installed (or name one in MAGPIE_CHROMIUM)")
    if not (STATIC / "index.html").is_file():
        pytest.skip("the page was not built: pip install . builds it")
    async with playwright.async_playwright() as started:
        browser = await started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        await browser.close()


@pytest.fixture
def service() -> DictAppliance:
    return DictAppliance(utc_s=time.time())


@pytest.fixture
async def server(service: DictAppliance) -> AsyncIterator[WebServer]:
    server = WebServer(create_app(service), "127.0.0.1", 0)
    await server.start()
    yield server
    await server.stop()


class Opened:
    """A page, with everything that its console complained about and every host that it asked."""

    def __init__(self, page: Any) -> None:
        self.page, self.complaints, self.hosts = page, [], set()
        page.set_default_timeout(WAIT_MS)
        page.on("console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: self.complaints.append(str(e)))
        page.on("request", lambda r: self.hosts.add(re.sub(r"^\w+://([^/]*).*", r"\1", r.url)))


async def opened(browser: Any, server: WebServer, width: int, scheme: str = "light") -> Opened:
    page = await browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    found = Opened(page)
    await page.goto(f"http://127.0.0.1:{server.port}/")
    return found


#: True if the canvas shows the red car of the double's pictures and the box around it.
PAINTED = """canvas => {
  const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(canvas, 0, 0);
  const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
  let car = 0, box = 0;
  for (let i = 0; i < data.length; i += 4) {
    if (data[i] > 150 && data[i + 1] < 90 && data[i + 2] < 80) car++;
    if (Math.abs(data[i] - 61) < 12 && Math.abs(data[i + 1] - 219) < 12 && Math.abs(data[i + 2] - 184) < 12) box++;
  }
  return [car > 200, box > 50];
}"""


@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
async def test_the_page_shows_what_the_appliance_says(
    browser: Any, server: WebServer, service: DictAppliance, width: int, scheme: str
) -> None:
    service.states["south"] = {"state": "reconnecting", "message": "nothing answers there", "retry_in_s": 4.0}
    service.reasons = [{"code": "camera_reconnecting", "message": "south: nothing answers there", "camera": "south"}]
    found = await opened(browser, server, width, scheme)
    page = found.page
    await page.wait_for_selector("canvas[data-painted='1']")
    north = page.get_by_role("article", name="north")
    assert await north.locator(".picture canvas").evaluate(PAINTED) == [True, True]
    await page.wait_for_selector("article .chart canvas")
    text = await page.inner_text("body")
    for words in (
        "junction",
        "Window 3",
        "serving and retraining",
        "Ready, with problems",
        "south: nothing answers there",
        "Next try in 4 s.",
        "70.0\u00a0% correct",
        "50.0\u00a0% had it stayed frozen",
        "+20.0 pts",
        "all layers, 10 epochs",
    ):
        assert words in text, words
    assert await page.evaluate("document.documentElement.scrollWidth") <= width
    service.note("model.promoted", "north", scores={"held_out": 0.72, "parent_held_out": 0.55})
    await page.get_by_text("a better model is in force: 72\u00a0% instead of 55\u00a0% on held-out frames").wait_for()
    await page.get_by_label("Show boxes").click()
    while await north.locator(".picture canvas").evaluate(PAINTED) != [True, False]:
        await page.wait_for_timeout(50)  # the next picture comes without its box
    assert found.complaints == []
    assert found.hosts == {f"127.0.0.1:{server.port}"}, "something was loaded from elsewhere"
    await page.close()


async def test_settings_are_checked_by_the_server_and_changed(
    browser: Any, server: WebServer, service: DictAppliance
) -> None:
    found = await opened(browser, server, 1440)
    page = found.page
    length = page.get_by_label("Window length")
    await length.fill("3")
    await page.get_by_label("Accuracy floor").fill("0.3")
    await page.get_by_role("button", name="Save").click()
    problem = page.locator("#set-window_s-problem")
    await problem.wait_for()
    assert await problem.inner_text() == "Allowed: greater than or equal to 10"
    assert await length.get_attribute("aria-invalid") == "true"
    assert await length.evaluate("field => field === document.activeElement")
    assert service.next.window_s == 200
    found.complaints.clear()  # the browser notes the refusal itself
    await length.fill("120")
    await length.press("Enter")
    effect = page.locator(".takes-effect li")
    await effect.first.wait_for()
    assert await effect.all_inner_texts() == ["Window length: 200 → 120", "Accuracy floor: none → 0.3"]
    assert re.search(r"Saved\. Takes effect at \d\d:\d\d:\d\d", await page.inner_text(".takes-effect"))
    assert (service.next.window_s, service.next.a_min) == (120, 0.3)
    assert service.journal[-1]["data"]["fields"] == ["a_min", "window_s"], "only what was changed is sent"
    assert found.complaints == []
    await page.close()


async def test_roll_back_by_keyboard_after_a_confirmation(
    browser: Any, server: WebServer, service: DictAppliance
) -> None:
    found = await opened(browser, server, 1440)
    page = found.page
    await page.get_by_role("article", name="north").get_by_role("button", name="from window 2").press("Enter")
    dialog = page.get_by_role("dialog", name="Models of north")
    await dialog.get_by_role("button", name="Roll back to this").press("Enter")
    assert service.in_force["north"] == "north-w2-1-2", "nothing happens before the confirmation"
    await dialog.get_by_label("Reason").fill("worse at night")
    await dialog.get_by_role("button", name="Roll back", exact=True).press("Enter")
    await page.get_by_role("article", name="north").get_by_role("button", name="first model").wait_for()
    assert service.in_force["north"] == "north-first-1"
    assert service.journal[-1]["data"] == {"version": "north-first-1", "by": "operator", "reason": "worse at night"}
    await page.keyboard.press("Escape")
    await dialog.wait_for(state="hidden")
    assert found.complaints == []
    await page.close()


async def test_an_appliance_that_goes_and_comes_back(browser: Any, server: WebServer, service: DictAppliance) -> None:
    found = await opened(browser, server, 1440)
    page = found.page
    await page.wait_for_selector("canvas[data-painted='1']")
    port = server.port
    async with asyncio.timeout(4.5):  # an open page does not hold the appliance up
        await server.stop()
    await page.get_by_text("The appliance does not answer").wait_for()
    again = WebServer(create_app(service), "127.0.0.1", port)
    await again.start()
    await page.get_by_text("The appliance does not answer").wait_for(state="hidden")
    await page.locator(".banner").wait_for(state="hidden")  # live pictures are back too
    await page.close()
    await again.stop()


async def test_without_cameras_the_page_says_what_to_do(
    browser: Any, server: WebServer, service: DictAppliance
) -> None:
    service.kept.clear()
    found = await opened(browser, server, 390)
    await found.page.get_by_text("No camera yet").wait_for()
    assert found.complaints == []
    await found.page.close()


def test_the_form_offers_the_policies_that_there_are() -> None:
    source = (Path(__file__).parents[2] / "web" / "frontend" / "src" / "settings.tsx").read_text()
    (listed,) = re.findall(r"const POLICIES = \[(.*?)\]", source, re.DOTALL)
    assert tuple(re.findall(r'"([^"]+)"', listed)) == POLICIES

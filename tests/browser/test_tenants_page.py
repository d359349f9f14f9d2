"""The page of tenants in a real browser, against the double of the appliance: it has tenants of every state."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "web"))

from appliance_double import DictAppliance
from tenants_double import DictTenants
from visits import LOOKS, Visit

from scheduler.tenant_admission import TenantRoom
from web.app import create_app
from web.server import WebServer

playwright = pytest.importorskip("playwright.async_api")

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480), pytest.mark.asyncio(loop_scope="session")]


#: Whether the line of the entitlement has its colour somewhere in the chart.
_DRAWN = """host => {
  const canvas = host.querySelector("canvas");
  const colour = getComputedStyle(document.documentElement).getPropertyValue("--golden").trim();
  const wanted = [1, 3, 5].map(n => parseInt(colour.slice(n, n + 2), 16));
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let seen = 0;
  for (let i = 0; i < data.length; i += 4) {
    if (data[i + 3] > 200 && wanted.every((v, n) => Math.abs(data[i + n] - v) < 12)) seen += 1;
  }
  return seen > 20;
}"""


@asynccontextmanager
async def tenants_page(browser: Any, box: DictAppliance, width: int, scheme: str) -> AsyncIterator[Visit]:
    """The page of tenants over `box`."""
    server = WebServer(create_app(box), "127.0.0.1", 0)
    await server.start()
    page = await browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    visit = Visit(page, f"http://127.0.0.1:{server.port}")
    try:
        await page.goto(f"{visit.url}/#/tenants")
        await visit.settled("Tenants")
        yield visit
    finally:
        await page.close()
        await server.stop()


@pytest.mark.parametrize(("width", "scheme"), LOOKS)
async def test_each_tenant_has_its_share_and_why_and_a_curve(browser: Any, axe: str, width: int, scheme: str) -> None:
    async with tenants_page(browser, DictAppliance(utc_s=time.time()), width, scheme) as visit:
        await _shares_and_curve(visit, axe)


async def _shares_and_curve(visit: Visit, axe: str) -> None:
    page = visit.page
    text = (await page.get_by_role("table", name="Tenants, their shares").inner_text()).replace("\u00a0", " ")
    for words in (
        "42 %, 36 %; at least 8 %", "94.1 %, 98.0 %", "Misses its goal", "learned from 412 reports",
        "2 % from parking: its goal holds with 1 % to spare.", "2 % to Gate: its own goal holds with 1 % to spare.",
        "Shares of cameras move when a window ends.", "Raised by 1 % to 10 %, the least that it has.", "entitlement",
    ):  # fmt: skip
        assert words in text, words
    await page.get_by_role("button", name="Compare").press("Enter")
    await page.get_by_role("table", name="Welfare as it was").wait_for()
    assert await visit.too_wide() == []
    assert await visit.violations(axe) == []
    await page.get_by_role("link", name="Gate").press("Enter")
    curve = page.get_by_role("img", name="Expected performance by share. At 42")
    await curve.locator(".report").nth(23).wait_for(state="attached")
    await curve.locator(".last").wait_for(state="attached")
    await curve.locator(".now").wait_for(state="attached")
    await page.get_by_text("its models have other versions").wait_for()
    await page.get_by_text("46\u00a0%, between 41\u00a0% and 53\u00a0%").wait_for()
    assert await visit.too_wide() == []
    assert await visit.violations(axe) == []
    await _day(visit)
    assert visit.complaints == []


async def _day(visit: Visit) -> None:
    """The chart of the last day has the share against the entitlement, as it was then."""
    page = visit.page
    chart = page.get_by_role("img", name="Share over the last day.")
    spoken = (await chart.get_attribute("aria-label")).replace("\u00a0", " ")
    assert spoken.endswith("Held 42 %, In use 41 %, Entitlement 36 %, Floor 8 %"), spoken
    assert await chart.evaluate(_DRAWN), "the entitlement is a line in the chart"
    figure = page.locator("figure.chart-figure", has=chart)
    await figure.get_by_role("button", name="Show as table").press("Enter")
    table = page.get_by_role("table", name="Share over the last day")
    columns = await table.get_by_role("columnheader").all_inner_texts()
    place = columns.index("Entitlement") - 1
    cells = await table.locator("tbody tr").evaluate_all(
        f"rows => rows.map(r => r.querySelectorAll('td')[{place}].innerText)"
    )
    assert [c.replace("\u00a0", " ") for c in (cells[0], cells[-1])] == ["36 %", "18 %"], "newest first"


async def test_admission_is_asked_for_a_tenant_and_says_who_would_lose(browser: Any) -> None:
    box = DictAppliance(utc_s=time.time())
    box.served.rooms = (
        TenantRoom("gate", 0.3, 0.1, 0.05, 0.3, frozenset({"plates"})),
        TenantRoom("parking", 0.3, 0.5, 0.05, 0.3),
    )
    async with tenants_page(browser, box, *LOOKS[0]) as visit:
        page = visit.page
        await page.goto(f"{visit.url}/#/serving")
        await visit.settled("Serving")
        await page.get_by_role("radio", name="A model").check()
        for field, value in (("Model", "plates"), ("Rate", "40"), ("Objective", "100")):
            await page.get_by_label(field, exact=True).fill(value)
        tenant = page.get_by_label("Tenant", exact=True)
        assert "All other cameras" not in await tenant.inner_text()
        await tenant.select_option("Gate")
        await page.locator("form.admission button[type=submit]").press("Enter")
        await page.get_by_text("Parking would lose").or_(page.get_by_text("parking would lose")).wait_for()
        await page.get_by_text("Gate has room for it within its entitlement of 30\u00a0%").wait_for()
        assert visit.complaints == []


async def test_a_tenant_is_added_and_removed_by_keyboard_and_sharing_is_set(browser: Any, axe: str) -> None:
    box = DictAppliance(utc_s=time.time())
    box.tenants.kept.clear()
    async with tenants_page(browser, box, *LOOKS[1]) as visit:
        await _added_and_removed(visit, box.tenants, axe)


async def _added_and_removed(visit: Visit, tenants: DictTenants, axe: str) -> None:
    page = visit.page
    await page.get_by_role("heading", name="One tenant has the whole box").wait_for()
    add = page.get_by_role("button", name="Add a tenant")
    await add.press("Enter")
    dialog = page.get_by_role("dialog", name="Add a tenant")
    await dialog.get_by_label("Id", exact=True).fill("north-side")
    await dialog.get_by_role("checkbox", name="north").press("Space")
    await dialog.get_by_label("Entitlement").fill("-2")
    await dialog.get_by_text("Allowed: greater than or equal to 0").wait_for()
    await dialog.get_by_label("Entitlement").fill("2")
    assert await visit.violations(axe) == []
    await dialog.get_by_role("button", name="Add the tenant").press("Enter")
    await dialog.wait_for(state="detached")
    await page.get_by_role("link", name="All other cameras").wait_for()
    assert (tenants.kept["north-side"].cameras, tenants.kept["north-side"].entitlement) == (("north",), 2)
    step = page.get_by_label("Largest step")
    await step.fill("0.03")
    await step.press("Enter")
    await page.get_by_text("Saved: in force at once").wait_for()
    assert tenants.sharing_settings.largest_step == 0.03
    await page.get_by_role("button", name="Remove north-side").press("Enter")
    await page.get_by_role("dialog").get_by_role("button", name="Remove").press("Enter")
    await page.get_by_role("heading", name="One tenant has the whole box").wait_for()
    assert tenants.kept == {}
    assert visit.complaints == []

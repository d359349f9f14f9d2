"""By keyboard: a skip link, a visible focus, tabs by arrows, dialogs that keep the focus and give it back."""

from __future__ import annotations

import pytest
from crossroads import NASTY, PLAIN, Crossroads
from visits import Visits

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480), pytest.mark.asyncio(loop_scope="session")]

#: Name of the element with the focus, whether one sees that, and whether it is in view.
FOCUS = """() => {
  const e = document.activeElement, style = getComputedStyle(e), box = e.getBoundingClientRect();
  return {
    name: e.getAttribute("aria-label") || e.textContent.trim().slice(0, 40) || e.name || e.tagName,
    marked: (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== "none",
    inside: box.bottom > 0 && box.top < innerHeight && box.right > 0 && box.left < innerWidth,
    body: e === document.body,
  };
}"""


@pytest.mark.parametrize("route", ["#/wall", f"#/camera/{PLAIN}", "#/windows", "#/serving", "#/system"])
async def test_the_focus_goes_on_and_is_seen(visits: Visits, crossroads: Crossroads, route: str) -> None:
    visit = await visits.open(crossroads.admin, route=route)
    await visit.settled()
    page = visit.page
    await page.keyboard.press("Tab")
    assert (await page.evaluate(FOCUS))["name"] == "Skip to the page"
    names = []
    for _ in range(25):
        await page.keyboard.press("Tab")
        focus = await page.evaluate(FOCUS)
        if focus["body"]:
            break  # the browser's own controls come next
        assert focus["marked"], f"{focus['name']}: one does not see that it has the focus"
        assert focus["inside"], f"{focus['name']}: the focus is out of sight"
        names.append(focus["name"])
    assert len(names) >= 6


async def test_the_skip_link_leads_into_the_page(visits: Visits, crossroads: Crossroads) -> None:
    visit = await visits.open(crossroads.admin)
    await visit.settled("Cameras")
    await visit.page.keyboard.press("Tab")
    await visit.page.keyboard.press("Enter")
    assert await visit.page.evaluate("() => document.activeElement.id") == "main"


async def test_tabs_by_arrows(visits: Visits, crossroads: Crossroads) -> None:
    visit = await visits.open(crossroads.admin, route="#/system")
    await visit.settled("System")
    page = visit.page
    await page.get_by_role("tab", name="Overview").focus()
    await page.keyboard.press("ArrowRight")
    await page.get_by_role("heading", name="Alarms").wait_for()
    assert await page.get_by_role("tab", name="Alarms").get_attribute("aria-selected") == "true"
    await page.keyboard.press("End")
    await page.get_by_role("heading", name="Doctor").wait_for()


async def test_a_dialog_keeps_the_focus_and_gives_it_back(visits: Visits, crossroads: Crossroads) -> None:
    visit = await visits.open(crossroads.admin)
    await visit.settled("Cameras")
    page = visit.page
    menu = page.get_by_role("button", name="ada: account and appearance")
    await menu.focus()
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name="Change password").focus()
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Change password")
    await dialog.wait_for()
    for _ in range(12):
        await page.keyboard.press("Tab")
        inside = "() => document.activeElement === document.body || !!document.activeElement.closest('dialog')"
        assert await page.evaluate(inside), "the focus left the dialog"
    await page.keyboard.press("Escape")
    await dialog.wait_for(state="hidden")
    await page.keyboard.press("Escape")
    # Given back when the page has drawn itself without the dialog; where it is lost this waits in vain.
    await page.wait_for_function("() => document.activeElement !== document.body")


async def test_a_row_of_a_day_by_arrows_and_the_clip_of_an_alarm_by_enter(
    visits: Visits, crossroads: Crossroads
) -> None:
    crossroads.alarms()
    visit = await visits.open(crossroads.admin, route=f"#/day/{NASTY}")
    await visit.settled("A camera's day")
    page = visit.page
    row = page.get_by_role("list", name="Alarms: ")
    at = "() => [...document.activeElement.closest('ul').querySelectorAll('button')].indexOf(document.activeElement)"
    number = await row.get_by_role("button").count()
    assert await row.locator("button[tabindex='0']").count() == 1, "one stop for the Tab key"
    await row.locator("button[tabindex='0']").focus()
    for key, expected in (("End", number - 1), ("ArrowRight", number - 1), ("Home", 0), ("ArrowLeft", 0)):
        await page.keyboard.press(key)
        assert await page.evaluate(at) == expected, key
    await page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    await dialog.wait_for()
    await dialog.locator("video, [role=status], .actions, [role=alert]").first.wait_for()
    await page.keyboard.press("Escape")
    await dialog.wait_for(state="hidden")
